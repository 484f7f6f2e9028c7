/* What members report while steps are taken, into the run directory's files and to who follows the
 * run: metrics, evaluations, checkpoints, changes of mode, traces. */
#include "ps/scheduler/driver/driver_private.h"

#include "base/arrays/finite.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/text/text.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- metrics and evaluations ---- */

static void say_evaluated(psr_scheduler_driver *d, const psr_progress_evaluation *e)
{
    char said[256];
    psr_text_end end = {said, sizeof said};
    psr_text_add(&end, "step %" PRIu64 ": test accuracy %.2f%%, test loss %.4f", e->step,
                 100 * e->accuracy, psr_shown(e->loss));
    if (e->has_ema)
        psr_text_add(&end, "; of the average %.2f%%, %.4f", 100 * e->ema_accuracy,
                     psr_shown(e->ema_loss));
    if (d->config->eval_tta != PSR_EVAL_TTA_NONE)
        psr_text_add(&end, " (--eval-tta %s)", psr_eval_tta_name(d->config->eval_tta));
    psr_launcher_evaluated(d->launcher, said);
}

/* --keep-best goes by the average of the weights if there is one. */
static double accuracy_that_counts(const psr_progress_evaluation *e)
{
    return e->has_ema ? e->ema_accuracy : e->accuracy;
}

static psr_err on_made_up(void *context, const psr_metrics_line *line)
{
    psr_scheduler_driver *d = context;
    const psr_progress_evaluation e = psr_progress_evaluation_of(line);
    uint64_t best_step;
    double best_accuracy;
    say_evaluated(d, &e);
    psr_followers_made_up(&d->followers, line);
    PSR_TRY(
        psr_kept_resumed(d->kept, psr_resume_path(d->resume), e.step, accuracy_that_counts(&e)));
    if (psr_kept_best(d->kept, &best_step, &best_accuracy))
        psr_rundir_best(d->rundir, best_step, best_accuracy);
    return PSR_OK;
}

static void take_evaluation(psr_scheduler_driver *d, const psr_progress_evaluation *e)
{
    const psr_checkpoint_evaluation means = {.accuracy = e->accuracy,
                                             .loss = e->loss,
                                             .has_ema = e->has_ema,
                                             .ema_accuracy = e->ema_accuracy,
                                             .ema_loss = e->ema_loss};
    say_evaluated(d, e);
    psr_checkpoints_evaluated(d->checkpoints, e->step, &means);
    psr_kept_evaluated(d->kept, e->step, accuracy_that_counts(e));
}

static psr_err on_norms(void *context, const psr_metrics_line *line)
{
    return psr_followers_norms(&((psr_scheduler_driver *)context)->followers, line);
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    psr_scheduler_driver *d = context;
    PSR_TRY(psr_rundir_metrics(d->rundir, line));
    PSR_TRY(psr_followers_take(&d->followers, line));
    psr_figures_take_metrics(d->figures, line);
    psr_progress_take(d->progress, line);
    psr_fault_point("barrier", line->step);
    psr_progress_evaluation e;
    if (psr_progress_evaluated(d->progress, &e))
        take_evaluation(d, &e);
    psr_progress_now now;
    if (psr_progress_look(d->progress, psr_clock_ms(), &now))
        psr_launcher_progress(d->launcher, now.step, now.total, now.loss,
                              psr_figures_recent_rate(d->figures));
    return PSR_OK;
}

static void on_evaluating(void *context, uint32_t rank, uint64_t step, uint64_t counted)
{
    psr_scheduler_driver *d = context;
    psr_progress_counted(d->progress, rank, step, counted);
    psr_progress_evaluating now;
    if (psr_progress_look_evaluating(d->progress, psr_clock_ms(), &now))
        psr_launcher_evaluating(d->launcher, now.step, now.total, now.counted, now.samples);
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    psr_scheduler_driver *d = context;
    psr_figures_take_done(d->figures, rank, json, size);
    psr_links_take_done(d->links, rank, json, size);
}

static void on_shard_traffic(void *context, uint32_t shard, const psr_traffic *traffic)
{
    psr_scheduler_driver *d = context;
    char line[128];
    psr_figures_take_shard(d->figures, shard, traffic);
    snprintf(line, sizeof line, PSR_TRAFFIC_LINE, traffic->gradient_bytes, traffic->weight_bytes);
    psr_rundir_log(d->rundir, (psr_peer){PSR_ROLE_SHARD, shard}, line);
}

/* ---- checkpoints ---- */

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    psr_scheduler_driver *d = context;
    psr_fault_point("checkpoint", step);
    return psr_checkpoints_put(d->checkpoints, step, section, data, offset, count, &d->present);
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    psr_scheduler_driver *d = context;
    return psr_checkpoints_whole(d->checkpoints, step);
}

void psr_scheduler_driver_take_checkpoints(psr_scheduler_driver *d)
{
    while (d->checkpoints != NULL && !psr_coordinator_ended(d->coordinator)) {
        uint64_t step = 0;
        psr_err err = psr_checkpoints_take(d->checkpoints, &step);
        if (err == PSR_ERR_NOT_FOUND)
            return;
        if (err == PSR_OK)
            err = psr_kept_put(d->kept, step);
        uint64_t best_step;
        double best_accuracy;
        if (err == PSR_OK && psr_kept_best(d->kept, &best_step, &best_accuracy))
            psr_rundir_best(d->rundir, best_step, best_accuracy);
        if (err != PSR_OK) {
            psr_coordinator_end(d->coordinator, err, NULL);
            return;
        }
        char line[64];
        snprintf(line, sizeof line, "checkpoint step=%" PRIu64, step);
        psr_scheduler_driver_log(d, line);
        psr_scheduler_checkpointed(d->scheduler, step);
    }
}

/* ---- changes of mode ---- */

static psr_err on_change_decided(void *context, const psr_mode_change *change,
                                 const psr_config *config)
{
    psr_scheduler_driver *d = context;
    char line[128];
    snprintf(line, sizeof line, "planned: %s from step %" PRIu64 " on", psr_mode_name(change->mode),
             change->first_step + 1);
    psr_scheduler_driver_log(d, line);
    psr_figures_stretch_decided(d->figures, change->mode, change->first_step);
    return psr_rundir_mode(d->rundir, config);
}

static void on_change_happened(void *context, const psr_mode_change *change)
{
    psr_scheduler_driver *d = context;
    char line[128];
    snprintf(line, sizeof line, "changed to %s at step %" PRIu64 ", after a pause of %.3f s",
             psr_mode_name(change->mode), change->first_step + 1, change->pause_s);
    psr_figures_stretch_begun(d->figures, change->first_step, change->pause_s);
    d->asked.pause_s = change->pause_s;
    psr_scheduler_driver_say(d, line);
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    psr_scheduler_driver *d = context;
    if (status != PSR_OK)
        psr_scheduler_driver_log(d, line);
    psr_mode_requests_changed(&d->asked, status == PSR_OK, line);
}

/* ---- the trace ---- */

static psr_head on_clock(void *context, const psr_msg_clock *asked)
{
    return psr_run_trace_clock(&((psr_scheduler_driver *)context)->trace, asked);
}

static psr_err on_trace(void *context, const psr_message *message, const psr_msg_trace *says,
                        bool first)
{
    psr_scheduler_driver *d = context;
    char line[PSR_RUN_TRACE_LINE_MAX];
    const psr_msg_limits limits = psr_coordinator_limits(d->coordinator);
    PSR_TRY(psr_run_trace_take(&d->trace, message, says, first, &limits, line));
    if (line[0] != '\0')
        psr_scheduler_driver_say(d, line);
    return PSR_OK;
}

void psr_scheduler_driver_run_events(psr_scheduler_events *events)
{
    events->metrics = on_metrics;
    events->norms = on_norms;
    events->made_up = on_made_up;
    events->evaluating = on_evaluating;
    events->done = on_done;
    events->carried = on_shard_traffic;
    events->checkpoint = on_checkpoint;
    events->last_checkpoint = on_last_checkpoint;
    events->change_decided = on_change_decided;
    events->change_happened = on_change_happened;
    events->change_answered = on_change_answered;
    events->clock = on_clock;
    events->trace = on_trace;
}
