/* From the exchange to START: the trainer, the state that the run starts from, and what is told of
 * data, input and algorithms. */
#include "worker/process/process_private.h"

#include "base/log.h"
#include "comm/view/view.h"
#include "worker/device_update.h"
#include "worker/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

/* As what images go to the back end; "": it takes floats alone. */
static const char *input_of(const psr_trainer *t)
{
    if (!psr_backend_takes_bytes(t->executors->backend))
        return "";
    return psr_loader_gives_bytes(t->replicas->loader) ? "bytes" : "floats";
}

static psr_err tell_ready(psr_worker *w)
{
    const psr_backend *backend = w->trainer.executors->backend;
    char json[sizeof w->config.algorithms + PSR_BACKEND_ENGINES_MAX + PSR_BACKEND_LOOPS_MAX + 96] =
        "";
    if (psr_trainer_is_first(&w->trainer)) /* our own texts, in which nothing needs an escape */
        snprintf(json, sizeof json,
                 "{\"algorithms\": \"%s\", \"engines\": \"%s\", \"loops\": \"%s\", "
                 "\"input\": \"%s\"}",
                 psr_backend_algorithms(backend), psr_backend_engines(backend),
                 psr_backend_loops(backend), input_of(&w->trainer));
    return psr_session_ready(w->session, json[0] != '\0' ? json : NULL);
}

/* Writes what users of the weights elsewhere must know about the pixels. */
static void tell_data(const psr_trainer *t, const psr_content *content)
{
    const psr_dataset *d = t->train;
    char constants[2][80];
    for (int i = 0; i < 2; i++) {
        const float *v = i == 0 ? d->mean : d->deviation;
        snprintf(constants[i], sizeof constants[i], d->channels == 1 ? "%.9g" : "%.9g,%.9g,%.9g",
                 (double)v[0], (double)v[1], (double)v[2]);
    }
    psr_log(PSR_LOG_INFO, "data name=%s train=%u test=%u classes=%u mean=%s std=%s content=%s-%s",
            d->name, d->count, t->test->count, t->net->classes, constants[0], constants[1],
            content->train, content->test);
}

/* How much is copied to a device for each image. */
static void tell_input(const psr_trainer *t)
{
    const char *as = input_of(t);
    const size_t values = (size_t)t->net->channels * t->net->height * t->net->width;
    if (as[0] != '\0')
        psr_log(PSR_LOG_INFO, "input as=%s bytes_per_sample=%zu", as,
                psr_loader_gives_bytes(t->replicas->loader) ? values + sizeof(psr_byte_image)
                                                            : values * sizeof(float));
}

psr_err psr_worker_get_ready(psr_worker *w)
{
    const psr_trainer_options trainer = {
        .config = &w->config,
        .net = w->net,
        .buckets = &w->buckets,
        .session = w->session,
        .exchange = w->exchange,
        .data = w->opened,
        .rank = psr_member_self(w->member).rank,
        .ranks = psr_view_workers(psr_member_view(w->member)),
        .number_on_host = w->number_on_host,
        .first_step = w->start.first_step,
        .total_steps = w->start.total_steps,
        .evaluates_first = w->start.evaluates_first,
        .plan_directory = w->options.plan_directory,
        .unrecorded = w->options.unrecorded,
        .floats_as_input = w->options.floats_as_input,
        .loss_scale = {.scale = w->start.loss_scale,
                       .taken = w->start.loss_scale_taken,
                       .skipped = w->start.skipped_steps},
    };
    if (trainer.first_step > trainer.total_steps)
        return psr_fail(PSR_ERR_USAGE,
                        "--resume %s: that checkpoint is of step %" PRIu64
                        ", and this run ends at step %" PRIu64 "; give more --steps or --epochs",
                        w->config.resume, trainer.first_step, trainer.total_steps);
    psr_session_progress(w->session, PSR_PHASE_START);
    PSR_TRY(psr_trainer_init(&trainer, &w->trainer));
    if (psr_engine_keeps_gradients(&w->config))
        w->gpu.gradients = psr_backend_gradients(w->trainer.executors->backend);
    tell_data(&w->trainer, &w->opened->content);
    tell_input(&w->trainer);
    PSR_TRY(psr_snapshot_load(&w->trainer));
    PSR_TRY(psr_device_update_begin(&w->trainer));
    PSR_TRY(psr_snapshot_prepare(&w->trainer));
    return tell_ready(w);
}
