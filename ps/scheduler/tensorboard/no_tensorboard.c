/* Of a build without protobuf-c. */
#include "ps/scheduler/tensorboard/tensorboard.h"

psr_err psr_tensorboard_check(void)
{
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "--tensorboard: this psring was built without protobuf-c; leave it out");
}

psr_err psr_tensorboard_new(const psr_tensorboard_options *options,
                            psr_tensorboard **ret_tensorboard)
{
    (void)options, (void)ret_tensorboard;
    return psr_tensorboard_check();
}

void psr_tensorboard_free(psr_tensorboard *tensorboard)
{
    (void)tensorboard;
}

psr_err psr_tensorboard_take(psr_tensorboard *tensorboard, const psr_metrics_line *line)
{
    (void)tensorboard, (void)line;
    return psr_tensorboard_check();
}

psr_err psr_tensorboard_norms(psr_tensorboard *tensorboard, const psr_metrics_line *line)
{
    (void)tensorboard, (void)line;
    return psr_tensorboard_check();
}

psr_err psr_tensorboard_flush(psr_tensorboard *tensorboard)
{
    (void)tensorboard;
    return psr_tensorboard_check();
}

psr_err psr_tensorboard_end(psr_tensorboard *tensorboard)
{
    (void)tensorboard;
    return psr_tensorboard_check();
}
