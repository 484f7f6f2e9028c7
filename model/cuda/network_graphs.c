#include "model/cuda/network_graphs.h"

#include "model/cuda/program.h"

static psr_err hand_over(const psr_network *net, uint32_t batch, psr_cuda_type type, bool training,
                         psr_cuda_take_graph take, void *context)
{
    psr_cuda_program *program;
    psr_err err = PSR_OK;
    PSR_TRY(psr_cuda_program_new(net, batch, type, training, &program));
    for (uint32_t i = 0; i < program->step_count && err == PSR_OK; i++) {
        const psr_cuda_step *step = &program->steps[i];
        if (step->graph != PSR_NONE)
            err = take(context, step->node, &program->graphs[step->graph]);
    }
    psr_cuda_program_free(program);
    return err;
}

psr_err psr_cuda_network_graphs(const psr_network *net, uint32_t batch, psr_cuda_type type,
                                psr_cuda_take_graph take, void *context)
{
    PSR_TRY(hand_over(net, batch, type, true, take, context));
    return hand_over(net, batch, type, false, take, context);
}
