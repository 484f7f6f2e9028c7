#include "ps/scheduler/scheduler_driver.h"

#include "base/arrays/finite.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "comm/launcher_line.h"
#include "comm/members/coordinator.h"
#include "comm/members/scheduler_loop.h"
#include "comm/members/unreached.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/roster.h"
#include "ps/scheduler/checkpoints/checkpoints.h"
#include "ps/scheduler/checkpoints/kept.h"
#include "ps/scheduler/checkpoints/resume.h"
#include "ps/scheduler/followers.h"
#include "ps/scheduler/hosts.h"
#include "ps/scheduler/late.h"
#include "ps/scheduler/metrics/figures.h"
#include "ps/scheduler/metrics/links.h"
#include "ps/scheduler/metrics/progress.h"
#include "ps/scheduler/mode/mode_requests.h"
#include "ps/scheduler/launcher/orders.h"
#include "ps/scheduler/about.h"
#include "ps/scheduler/rundir.h"
#include "ps/scheduler/scheduler.h"
#include "ps/scheduler/trace/run_trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_EVERY_MS 500
#define GO_ON_BYTES (PSR_PATH_MAX + 64)

static const psr_peer self = {PSR_ROLE_SCHEDULER, 0};

typedef struct driver {
    const psr_config *config;
    const char *series, *command; /* as psr_rundir_new */
    char **about;                 /* metadata of checkpoints; owned */
    const psr_provision *provision;
    bool by_hand;  /* nobody takes events */
    pid_t starter; /* which gives orders; 0: nobody does */
    char host[PSR_HOST_MAX];
    psr_scheduler_loop loop;
    psr_transport *transport; /* the loop's */
    psr_message *present;     /* the one that is being taken; NULL: a checkpoint has it */
    psr_launcher *launcher;
    psr_orders orders;
    psr_scheduler *scheduler;
    psr_coordinator *coordinator; /* the scheduler's */
    psr_rundir *rundir;
    psr_followers followers;
    psr_resume *resume;    /* NULL: from the start */
    psr_sections sections; /* once all have joined */
    psr_checkpoints *checkpoints;
    psr_kept *kept;          /* which of them stay */
    psr_progress *progress;  /* what the launcher's bar shows */
    psr_figures *figures;    /* the figures of the run; both from the beginning of the run */
    psr_links *links;        /* bytes between hosts; likewise */
    psr_mode_requests asked; /* psring mode */
    psr_run_trace trace;
    psr_traced_steps traced; /* --trace, resolved */

    int64_t deadline_ms, flush_ms;
    int64_t slow_said_ms; /* when it was last said that the disk is slow */
    uint32_t stops;       /* orders to stop */
    bool started;         /* all were ready */
    bool closed;          /* all output of the members has arrived */
    bool launcher_gone;
    psr_err status;
    char line[1024];
} driver;

/* ---- the scheduler's events ---- */

static void on_say(void *context, const char *line)
{
    driver *d = context;
    psr_rundir_log(d->rundir, self, line);
    psr_launcher_say(d->launcher, PSR_LOG_OF_RUN, PSR_LOG_INFO, line);
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    driver *d = context;
    char line[PSR_HOST_MAX + PSR_ENDPOINT_MAX + 64];
    snprintf(line, sizeof line,
             "%s %" PRIu32 " on %s has joined, %" PRIu32 " of %" PRIu32 " endpoint=%s",
             psr_role_name(entry->peer.role), entry->peer.rank, entry->host, count, total,
             entry->endpoint);
    psr_rundir_log(d->rundir, self, line);
    psr_launcher_joined(d->launcher, entry, count, total);
}

/* config's, with --bucket-size resolved. */
static uint64_t bucket_bytes_of(const driver *d, const psr_config *config)
{
    return psr_bucket_bytes(&d->sections.net->params, config->bucket_bytes);
}

/* Makes the plan for a mode. tells: also says which part of the parameters each shard, or worker,
 * holds. */
static psr_err share_out(driver *d, const psr_config *config, psr_mode mode,
                         const psr_view *members, bool tells, psr_plan *ret_plan)
{
    const psr_layout *layout = &d->sections.net->params;
    psr_config resolved = psr_config_in_mode(config, mode);
    resolved.bucket_bytes = bucket_bytes_of(d, config);
    psr_parts parts;
    psr_host_ranks hosts;
    PSR_TRY(psr_hosts_of_ranks(&resolved, members, &hosts));
    psr_err err = psr_parts_init(&resolved, layout, &hosts, &parts);
    free(hosts.first);
    if (err != PSR_OK)
        return err;
    err = psr_parts_check(&parts, &resolved, layout);
    char text[512], line[560];
    psr_parts_describe(&parts, resolved.bucket_bytes, text, sizeof text);
    if (err == PSR_OK) {
        *ret_plan = parts.plan;
        parts.plan = (psr_plan){0};
    }
    psr_parts_done(&parts);
    if (err == PSR_OK && tells) {
        snprintf(line, sizeof line, "  buckets    %s", text);
        on_say(d, line);
    }
    if (err == PSR_OK && tells && psr_parts_describe_frozen(ret_plan, text, sizeof text)) {
        snprintf(line, sizeof line, "  frozen     %s", text);
        on_say(d, line);
    }
    return err;
}

/* Checks before the first step that all later stretches are possible. */
static psr_err check_stretches(driver *d, const psr_config *config, uint64_t first_step,
                               const psr_view *members)
{
    for (uint64_t at = psr_config_next_stretch(config, first_step); at != 0;
         at = psr_config_next_stretch(config, at)) {
        psr_plan plan;
        PSR_TRY(share_out(d, config, psr_config_mode_at(config, at), members, false, &plan));
        psr_plan_done(&plan);
    }
    return PSR_OK;
}

static psr_err begin_figures(driver *d, const psr_config *config, const psr_facts *facts,
                             const psr_view *members, const psr_plan *plan, uint64_t first_step)
{
    const psr_progress_options progress = {.ranks = plan->ranks,
                                           .total = facts->total_steps,
                                           .seconds = config->seconds,
                                           .round_every = config->log_every,
                                           .samples = facts->test_count};
    PSR_TRY(psr_progress_new(&progress, &d->progress));
    const psr_figures_options figures = {.workers = plan->ranks,
                                         .mode = psr_config_mode_at(config, first_step),
                                         .shards = plan->shards,
                                         .in_turn = psr_roster_of(config).computes_all_ranks,
                                         .first_step = first_step,
                                         .total_steps = facts->total_steps};
    PSR_TRY(psr_links_new(members, &d->links));
    return psr_figures_new(&figures, &d->figures);
}

static psr_err begin_files(driver *d, const psr_config *config, const psr_facts *facts,
                           const psr_view *members, uint64_t bucket_bytes)
{
    char *members_json = NULL;
    PSR_TRY(psr_view_members_to_json(members, &members_json));
    psr_err err = psr_rundir_begin(d->rundir, bucket_bytes, facts, members_json,
                                   d->resume != NULL ? psr_resume_path(d->resume) : NULL);
    free(members_json);
    PSR_TRY(err);
    psr_launcher_directory(d->launcher, psr_rundir_path(d->rundir), config->resume);
    if (psr_followers_url(&d->followers) != NULL) {
        char line[PSR_ADDRESS_MAX + 64];
        snprintf(line, sizeof line, "  figures    at %s", psr_followers_url(&d->followers));
        on_say(d, line);
    }
    char directory[PSR_PATH_MAX + 16];
    snprintf(directory, sizeof directory, "%s/checkpoints", psr_rundir_path(d->rundir));
    PSR_TRY(psr_about_pairs(config, facts, d->command, &d->about));
    psr_checkpoints_options options = {
        directory, config, &d->sections, (const char *const *)d->about, psr_scheduler_loop_wake,
        &d->loop};
    PSR_TRY(psr_kept_new(config, directory, &d->kept));
    return psr_checkpoints_new(&options, &d->checkpoints);
}

/* Checks that the samples are those of the earlier run, if this run must have the same. */
static psr_err check_data(const driver *d, const psr_facts *facts)
{
    const char *wanted = d->config->data_content;
    const char *const split[] = {"training", "test"};
    const char *const has[] = {facts->content.train, facts->content.test};
    for (size_t i = 0; i < 2 && wanted[0] != '\0'; i++)
        if (strncmp(has[i], wanted + i * PSR_CONTENT_BYTES, PSR_CONTENT_DIGITS) != 0)
            return psr_fail(
                PSR_ERR_USAGE,
                "--data %s: its %s samples (content %s) differ from those of the earlier run "
                "(--data-content, %.*s): give that run's data by --data; or give --data-content= "
                "to take these samples, or --init to take a checkpoint's weights alone",
                d->config->data, split[i], has[i], PSR_CONTENT_DIGITS,
                wanted + i * PSR_CONTENT_BYTES);
    return PSR_OK;
}

static void say_samples(driver *d, const psr_facts *facts)
{
    char line[256];
    snprintf(line, sizeof line,
             "  samples    %" PRIu32 " to train, %" PRIu32 " to test, content %.8s-%.8s",
             facts->train_count, facts->test_count, facts->content.train, facts->content.test);
    on_say(d, line);
}

static psr_err check_resume(driver *d, const psr_config *config)
{
    char line[1024];
    PSR_TRY(psr_resume_check(d->resume, &d->sections));
    if (psr_resume_drops(d->resume, &d->sections, line, sizeof line))
        on_say(d, line);
    for (uint32_t i = 0; psr_resume_changes(d->resume, config, &config->pace, i, line, sizeof line);
         i++)
        on_say(d, line);
    return PSR_OK;
}

/* Where the run is in its data, and how many steps it has in all. */
static void find_pace(driver *d, const psr_config *config, const psr_facts *facts,
                      psr_beginning *beginning)
{
    const psr_deal deal = {.count = facts->train_count,
                           .workers = psr_roster_of(config).ranks,
                           .batch_size = psr_config_step_samples(config),
                           .partition = (uint32_t)config->partition,
                           .drop_last = config->drop_last};
    beginning->pace = d->resume != NULL ? psr_resume_pace(d->resume, &deal)
                                        : psr_pace_of(&deal, config->steps > 0);
    beginning->pace.by_steps = config->steps > 0;
    beginning->total_steps = config->eval_only ? beginning->first_step
                             : config->steps > 0 || config->epochs == 0
                                 ? facts->total_steps
                                 : psr_pace_total(&beginning->pace, config->epochs);
    beginning->evaluates_first =
        d->resume != NULL && psr_config_evaluates(config) && !psr_resume_evaluated(d->resume) &&
        psr_pace_due(&beginning->pace, config->eval_every, beginning->first_step);
}

static psr_err on_begin(void *context, const psr_config *given, const psr_facts *found,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    driver *d = context;
    psr_beginning beginning = {.first_step = d->resume != NULL ? psr_resume_step(d->resume) : 0};
    PSR_TRY(check_data(d, found));
    find_pace(d, given, found, &beginning);
    psr_facts of_run = *found; /* with the steps of a run that may be resumed by other workers */
    of_run.total_steps = beginning.total_steps;
    of_run.steps_per_epoch = beginning.pace.epoch_steps;
    psr_config paced = *given;
    paced.pace = beginning.pace;
    const psr_config *config = &paced;
    const psr_facts *facts = &of_run;
    PSR_TRY(psr_sections_init(config, facts, &d->sections));
    beginning.layout = &d->sections.net->params;
    if (d->resume != NULL)
        PSR_TRY(check_resume(d, config));
    if (d->resume != NULL && psr_config_scales_loss(config))
        beginning.loss_scale = *psr_resume_loss_scale(d->resume);
    PSR_TRY(psr_config_traced_steps(config, beginning.first_step, facts->total_steps, &d->traced));
    const psr_show_place place = psr_hosts_shown(config, members, d->provision->directory);
    psr_launcher_configuration(d->launcher, &place);
    say_samples(d, facts);
    PSR_TRY(check_stretches(d, config, beginning.first_step, members));
    PSR_TRY(share_out(d, config, psr_config_mode_at(config, beginning.first_step), members, true,
                      &beginning.plan));
    psr_err err = begin_figures(d, config, facts, members, &beginning.plan, beginning.first_step);
    if (err == PSR_OK)
        err = begin_files(d, config, facts, members, bucket_bytes_of(d, config));
    if (err == PSR_OK)
        err = psr_followers_joined(&d->followers, psr_rundir_path(d->rundir), beginning.first_step,
                                   beginning.total_steps);
    if (err != PSR_OK) {
        psr_plan_done(&beginning.plan);
        return err;
    }
    *ret_beginning = beginning;
    return PSR_OK;
}

static psr_err on_plan(void *context, psr_mode mode, psr_plan *ret_plan)
{
    driver *d = context;
    return share_out(d, d->config, mode, psr_coordinator_view(d->coordinator), false, ret_plan);
}

static psr_err on_change_decided(void *context, const psr_mode_change *change,
                                 const psr_config *config)
{
    driver *d = context;
    char line[128];
    snprintf(line, sizeof line, "planned: %s from step %" PRIu64 " on", psr_mode_name(change->mode),
             change->first_step + 1);
    psr_rundir_log(d->rundir, self, line);
    psr_figures_stretch_decided(d->figures, change->mode, change->first_step);
    return psr_rundir_mode(d->rundir, config);
}

static void on_change_happened(void *context, const psr_mode_change *change)
{
    driver *d = context;
    char line[128];
    snprintf(line, sizeof line, "changed to %s at step %" PRIu64 ", after a pause of %.3f s",
             psr_mode_name(change->mode), change->first_step + 1, change->pause_s);
    psr_figures_stretch_begun(d->figures, change->first_step, change->pause_s);
    d->asked.pause_s = change->pause_s;
    on_say(d, line);
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    driver *d = context;
    if (status != PSR_OK)
        psr_rundir_log(d->rundir, self, line);
    psr_mode_requests_changed(&d->asked, status == PSR_OK, line);
}

static psr_err on_restore(void *context)
{
    driver *d = context;
    return psr_resume_send(d->resume, &d->sections, d->transport);
}

/* What is slow and could not be helped, before anybody waits for it. */
static void tell_loops(driver *d, const char *loops)
{
    char line[PSR_SCHEDULER_LOOPS_MAX + 16];
    snprintf(line, sizeof line, "  algorithms %s", loops);
    if (loops[0] != '\0')
        on_say(d, line);
}

static psr_err on_started(void *context, const char *algorithms, const char *loops)
{
    driver *d = context;
    d->started = true;
    psr_rundir_log(d->rundir, self, "all are ready: start");
    PSR_TRY(psr_followers_begin(&d->followers, psr_rundir_path(d->rundir), d->resume));
    /* Without this socket the run goes on, but cannot be asked for its mode. */
    if (psr_mode_requests_begin(&d->asked, d->scheduler, psr_rundir_path(d->rundir),
                                psr_scheduler_loop_wake, &d->loop) != PSR_OK)
        psr_rundir_log(d->rundir, self, psr_err_detail());
    psr_run_trace_begin(&d->trace,
                        &(psr_trace_file_options){.directory = psr_rundir_path(d->rundir),
                                                  .config = d->config,
                                                  .net = d->sections.net,
                                                  .view = psr_coordinator_view(d->coordinator),
                                                  .steps = d->traced,
                                                  .start_ns = psr_clock_ns(),
                                                  .one_thread = d->sections.computes_all_ranks});
    psr_launcher_running(d->launcher);
    tell_loops(d, loops);
    return algorithms[0] ? psr_rundir_algorithms(d->rundir, algorithms, loops) : PSR_OK;
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    driver *d = context;
    psr_figures_take_done(d->figures, rank, json, size);
    psr_links_take_done(d->links, rank, json, size);
}

static void on_shard_traffic(void *context, uint32_t shard, const psr_traffic *traffic)
{
    driver *d = context;
    char line[128];
    psr_figures_take_shard(d->figures, shard, traffic);
    snprintf(line, sizeof line, PSR_TRAFFIC_LINE, traffic->gradient_bytes, traffic->weight_bytes);
    psr_rundir_log(d->rundir, (psr_peer){PSR_ROLE_SHARD, shard}, line);
}

static void say_evaluated(driver *d, const psr_progress_evaluation *e)
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
    driver *d = context;
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

static void take_evaluation(driver *d, const psr_progress_evaluation *e)
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
    return psr_followers_norms(&((driver *)context)->followers, line);
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    driver *d = context;
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
    driver *d = context;
    psr_progress_counted(d->progress, rank, step, counted);
    psr_progress_evaluating now;
    if (psr_progress_look_evaluating(d->progress, psr_clock_ms(), &now))
        psr_launcher_evaluating(d->launcher, now.step, now.total, now.counted, now.samples);
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    driver *d = context;
    psr_fault_point("checkpoint", step);
    return psr_checkpoints_put(d->checkpoints, step, section, data, offset, count, &d->present);
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    driver *d = context;
    return psr_checkpoints_whole(d->checkpoints, step);
}

static psr_head on_clock(void *context, const psr_msg_clock *asked)
{
    return psr_run_trace_clock(&((driver *)context)->trace, asked);
}

static psr_err on_trace(void *context, const psr_message *message, const psr_msg_trace *says,
                        bool first)
{
    driver *d = context;
    char line[PSR_RUN_TRACE_LINE_MAX];
    const psr_msg_limits limits = psr_coordinator_limits(d->coordinator);
    PSR_TRY(psr_run_trace_take(&d->trace, message, says, first, &limits, line));
    if (line[0] != '\0')
        on_say(d, line);
    return PSR_OK;
}

static void end_trace(driver *d, psr_err status)
{
    char line[PSR_RUN_TRACE_LINE_MAX];
    psr_run_trace_end(&d->trace, status == PSR_OK || status == PSR_ERR_CANCELLED, line);
    if (line[0] != '\0')
        on_say(d, line);
}

/* The command that goes on with a run that was stopped in order; NULL: it was not. For a run of
 * psring train, psring train says it itself. */
static const char *how_to_go_on(const driver *d, char line[static GO_ON_BYTES])
{
    if (d->status != PSR_ERR_CANCELLED || d->stops != 1)
        return NULL;
    if (d->series != NULL && d->series[0] != '\0')
        snprintf(line, GO_ON_BYTES, "the same command again");
    else
        snprintf(line, GO_ON_BYTES, "the same command with --resume %s%s",
                 psr_rundir_path(d->rundir), d->series == NULL ? " and another --out" : "");
    return line;
}

static void on_ended(void *context, psr_err status, const char *line)
{
    driver *d = context;
    char *outcome = NULL, *kept = NULL; /* without memory for them the run ends all the same */
    if (d->started && (psr_figures_to_json(d->figures, &outcome) != PSR_OK ||
                       psr_links_add_to(d->links, outcome, &kept) != PSR_OK))
        psr_rundir_log(d->rundir, self, psr_err_detail());
    d->status = status;
    snprintf(d->line, sizeof d->line, "%s", line);
    psr_mode_requests_changed(&d->asked, false, line);
    end_trace(d, status);
    psr_rundir_log(d->rundir, self, line);
    psr_err written = PSR_OK;
    /* bad input: no directory is left */
    if (!d->started && psr_err_exit_status(status) == 2)
        psr_rundir_discard(d->rundir);
    else
        written = psr_rundir_end(d->rundir, status, line, kept != NULL ? kept : outcome);
    if (written == PSR_OK)
        written = psr_followers_end(&d->followers);
    if (written != PSR_OK && status == PSR_OK) {
        d->status = written;
        snprintf(d->line, sizeof d->line, "%s", psr_err_detail());
    }
    char go_on[GO_ON_BYTES];
    psr_launcher_ended(d->launcher, d->status, d->line, outcome,
                       outcome != NULL ? how_to_go_on(d, go_on) : NULL);
    free(outcome);
    free(kept);
}

static void on_stranger(void *context, const char *line)
{
    driver *d = context;
    psr_rundir_log(d->rundir, self, line);
    psr_launcher_say(d->launcher, PSR_LOG_OF_STRANGER, PSR_LOG_WARN, line);
}

static void on_skipped(void *context, const char *line)
{
    on_say(context, line);
}

/* ---- orders ---- */

static void stop(void *context)
{
    driver *d = context;
    if (d->stops++ == 0)
        psr_scheduler_stop(d->scheduler);
    else
        psr_coordinator_end(d->coordinator, PSR_ERR_CANCELLED, "told to stop twice: ended at once");
}

static void obey(void *context, const psr_order *order, int64_t now_ms)
{
    driver *d = context;
    switch (order->kind) {
    case PSR_ORDER_LOST:
        psr_coordinator_lost(d->coordinator, order->peer, order->host[0] ? order->host : NULL,
                             order->by_itself, order->how, now_ms);
        return;
    case PSR_ORDER_AGENT:
        psr_coordinator_agent_lost(d->coordinator, order->host, order->how, now_ms);
        return;
    case PSR_ORDER_LOG:
        if (psr_coordinator_has(d->coordinator, order->peer)) /* each has a file */
            psr_rundir_log(d->rundir, order->peer, order->line);
        return;
    case PSR_ORDER_LINKS:
        psr_rundir_links(d->rundir, order->bits_per_s, order->host, order->to);
        return;
    case PSR_ORDER_CLOSED:
        d->closed = true;
        return;
    default: /* LEFT: in training a process may end only when the run ends */
        return;
    }
}

static void say_bad_order(void *context)
{
    driver *d = context;
    char line[512];
    snprintf(line, sizeof line, "the launcher sent a line that is not an order: %s",
             psr_err_detail());
    psr_launcher_say(d->launcher, PSR_LOG_OF_RUN, PSR_LOG_WARN, line);
}

static void lose_launcher(void *context, int64_t now_ms)
{
    driver *d = context;
    d->launcher_gone = true;
    if (d->by_hand)
        psr_coordinator_end(d->coordinator, PSR_ERR_PEER,
                            "the process that started the scheduler is gone");
    else
        psr_coordinator_launcher_lost(d->coordinator, PSR_ERR_PEER, "gone without a word", now_ms);
}

static void check_launcher(driver *d, int64_t now_ms)
{
    int64_t silent_ms = psr_orders_silent_ms(&d->orders, now_ms);
    if (d->by_hand || silent_ms <= d->deadline_ms)
        return;
    char how[64];
    snprintf(how, sizeof how, "no sign of life for %.1f s", (double)silent_ms / 1000);
    psr_coordinator_launcher_lost(d->coordinator, PSR_ERR_TIMEOUT, how, now_ms);
}

/* The disk may be slow, and then the workers wait for it; but it has the deadline too. */
static void check_disk(driver *d, int64_t now_ms)
{
    psr_checkpoints_pace pace;
    if (d->checkpoints == NULL || !psr_checkpoints_writing(d->checkpoints, &pace))
        return;
    char line[PSR_HOST_MAX + PSR_PATH_MAX + 160];
    int64_t back_ms = d->orders.presence.back_ms;
    int64_t idle_ms = now_ms - (pace.moved_ms > back_ms ? pace.moved_ms : back_ms);
    if (idle_ms > d->deadline_ms) {
        snprintf(line, sizeof line,
                 "scheduler 0 on %s: the disk has taken nothing for %.1f s of the checkpoint of "
                 "step %" PRIu64 " in %s/checkpoints; %.0f%% of it is written",
                 d->host, (double)idle_ms / 1000, pace.step, psr_rundir_path(d->rundir),
                 100 * pace.written);
        psr_coordinator_end(d->coordinator, PSR_ERR_TIMEOUT, line);
        return;
    }
    psr_coordinator_works(d->coordinator, now_ms);
    /* say so once a while */
    if (pace.busy_ms < d->deadline_ms / 4 || now_ms - d->slow_said_ms < d->deadline_ms)
        return;
    d->slow_said_ms = now_ms;
    snprintf(line, sizeof line,
             "the disk is slow: %.0f%% of the checkpoint of step %" PRIu64
             " is written after %.1f s",
             100 * pace.written, pace.step, (double)pace.busy_ms / 1000);
    on_say(d, line);
}

/* The member has joined, but cannot be sent the reason; it gets it on its own connection. */
static void check_ways(driver *d)
{
    psr_unreached unreached;
    char name[PSR_MEMBER_NAME_MAX], line[1024];
    if (!psr_transport_unreached(d->transport, psr_unreached_patience_ms(d->deadline_ms),
                                 &unreached))
        return;
    psr_coordinator_name(d->coordinator, unreached.peer, name);
    psr_unreached_describe(&unreached, name, line, sizeof line);
    psr_transport_refuse_peer(d->transport, unreached.peer, PSR_ERR_PEER, line);
    psr_coordinator_end(d->coordinator, PSR_ERR_PEER, line);
}

/* By itself or not. A message in which such a member says why it ended may still be on its way. */
static void lose_member(void *context, psr_peer peer, int64_t now_ms)
{
    const driver *d = context;
    psr_coordinator_lost(d->coordinator, peer, NULL, true, "its process has ended", now_ms);
}

/* ---- the loop ---- */

static void take_checkpoints(driver *d)
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
        psr_rundir_log(d->rundir, self, line);
        psr_scheduler_checkpointed(d->scheduler, step);
    }
}

static void take_message(void *context, psr_message *message, int64_t now_ms)
{
    driver *d = context;
    if (message->head.type == PSR_MSG_JOIN)
        psr_fault_point("start", 0);
    psr_msg_done done;
    const psr_msg_limits limits = psr_coordinator_limits(d->coordinator);
    if (message->head.type == PSR_MSG_DONE && psr_msg_done_read(message, &limits, &done) == PSR_OK)
        psr_fault_point("shutdown", done.steps);
    /* The thread that writes a checkpoint may free the message as soon as it has it. */
    const psr_message seen = *message;
    const bool may_be_kept = message->head.type == PSR_MSG_CHECKPOINT;
    d->present = message;
    psr_coordinator_message(d->coordinator, may_be_kept ? &seen : message, now_ms);
    psr_message_free(&d->present);
}

static void lose_inbox(void *context, psr_err err)
{
    psr_coordinator_end(((driver *)context)->coordinator, err, NULL);
}

static void do_housekeeping(driver *d, int64_t now_ms)
{
    psr_orders_say_alive(&d->orders, now_ms);
    if (now_ms < d->flush_ms)
        return;
    d->flush_ms = now_ms + FLUSH_EVERY_MS;
    psr_err err = psr_rundir_flush(d->rundir);
    if (err == PSR_OK)
        err = psr_followers_flush(&d->followers);
    if (err != PSR_OK)
        psr_coordinator_end(d->coordinator, err, NULL);
}

static bool between(void *context, int64_t now_ms)
{
    driver *d = context;
    const bool more = psr_orders_take(&d->orders, now_ms);
    take_checkpoints(d);
    psr_mode_requests_take(&d->asked);
    do_housekeeping(d, now_ms);
    return more;
}

static void tick(void *context, int64_t now_ms)
{
    driver *d = context;
    check_launcher(d, now_ms);
    check_disk(d, now_ms);
    check_ways(d);
    psr_coordinator_tick(d->coordinator, now_ms);
}

static int64_t next_ms(void *context)
{
    const driver *d = context;
    const int64_t tick_ms = psr_coordinator_next_tick(d->coordinator),
                  kept_ms =
                      d->flush_ms < d->orders.say_alive_ms ? d->flush_ms : d->orders.say_alive_ms;
    return tick_ms < kept_ms ? tick_ms : kept_ms;
}

static bool has_ended(void *context)
{
    return psr_coordinator_ended(((const driver *)context)->coordinator);
}

/* ---- behind the end ---- */

/* The run has ended, and the members are being told. What they print until they have ended too goes
 * to their logs, and a JOIN is answered with the end of the run. The launcher limits how long this
 * takes. */
static bool between_last_lines(void *context, int64_t now_ms)
{
    driver *d = context;
    const bool more = psr_orders_take(&d->orders, now_ms);
    do_housekeeping(d, now_ms);
    if (!more && psr_orders_silent_ms(&d->orders, now_ms) > d->deadline_ms)
        d->launcher_gone = true;
    return more;
}

static void give_up_last_lines(void *context, psr_err err)
{
    (void)err;
    ((driver *)context)->launcher_gone = true;
}

static void no_tick(void *context, int64_t now_ms)
{
    (void)context, (void)now_ms;
}

static bool has_last_lines(void *context)
{
    const driver *d = context;
    return d->by_hand || d->closed || d->launcher_gone;
}

static void take_last_lines(driver *d)
{
    d->loop.between = between_last_lines;
    d->loop.failed = give_up_last_lines;
    d->loop.tick = no_tick;
    d->loop.over = has_last_lines;
    psr_scheduler_loop_run(&d->loop);
}

/* Used without psring's launcher, which ends all processes of a run itself. */
static void answer_late(driver *d)
{
    const psr_roster roster = psr_roster_of(d->config);
    psr_late late = {.transport = d->transport,
                     .coordinator = d->coordinator,
                     .line = d->line,
                     .members = roster.shards + roster.worker_processes,
                     .launcher = d->launcher,
                     .starter = d->starter};
    if (d->by_hand && d->launcher != NULL)
        psr_late_answer(&late);
}

/* ---- life ---- */

static void say_shared(void *context, bool shared, const char *line)
{
    (void)context;
    if (!shared)
        psr_log(PSR_LOG_INFO, "%s", line);
}

/* Members of this host give pieces of checkpoints by reference. Where they cannot, those come as
 * messages. */
static void take_memory(driver *d)
{
    psr_err err = psr_config_shares_memory(d->config)
                      ? psr_transport_share(d->transport, say_shared, d)
                      : PSR_OK;
    (void)err;
}

static psr_err open_transport(driver *d)
{
    psr_zmq_options zmq = psr_provision_zmq(d->provision);
    zmq.self = self;
    zmq.watches_ways = true;
    zmq.members_look = d->starter != 0; /* a rank started this process, and others may do so too */
    zmq.log_stranger = on_stranger;
    zmq.log_context = d;
    PSR_TRY(psr_transport_zmq_new(&zmq, &d->transport));
    take_memory(d);
    d->loop = (psr_scheduler_loop){.transport = d->transport,
                                   .provision = d->provision,
                                   .deadline_ms = d->deadline_ms,
                                   .context = d,
                                   .take = take_message,
                                   .failed = lose_inbox,
                                   .between = between,
                                   .ended = d->by_hand ? lose_member : NULL,
                                   .host_rank = PSR_RANK_ANY,
                                   .tick = tick,
                                   .next_ms = next_ms,
                                   .over = has_ended};
    return PSR_OK;
}

static psr_err set_up(driver *d)
{
    psr_scheduler_events events = {
        .context = d,
        .ways = psr_scheduler_loop_ways(&d->loop),
        .joined = on_joined,
        .begin = on_begin,
        .plan = on_plan,
        .change_decided = on_change_decided,
        .change_happened = on_change_happened,
        .change_answered = on_change_answered,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .norms = on_norms,
        .made_up = on_made_up,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_shard_traffic,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .clock = on_clock,
        .trace = on_trace,
        .say = on_say,
        .ended = on_ended,
    };
    PSR_TRY(psr_fault_point_set(d->config->fault_point, "scheduler", 0));
    PSR_TRY(psr_followers_init(&d->followers, d->config));
    PSR_TRY(psr_rundir_new(d->config, d->series, d->command, &d->rundir));
    if (psr_followers_url(&d->followers) != NULL)
        psr_rundir_metrics_url(d->rundir, psr_followers_url(&d->followers));
    if (d->config->resume[0])
        PSR_TRY(psr_resume_open(d->config->resume, d->config, on_skipped, d, &d->resume));
    int64_t now_ms = psr_clock_ms();
    d->flush_ms = now_ms;
    d->orders = (psr_orders){.launcher = d->launcher,
                             .deadline_ms = d->deadline_ms,
                             .context = d,
                             .obey = obey,
                             .stop = stop,
                             .gone = lose_launcher,
                             .bad = say_bad_order};
    psr_orders_begin(&d->orders, now_ms);
    PSR_TRY(psr_scheduler_new(d->config, &events, d->host, now_ms, &d->scheduler));
    d->coordinator = psr_scheduler_coordinator(d->scheduler);
    psr_launcher_listening(d->launcher, psr_transport_endpoint(d->transport));
    return PSR_OK;
}

static void clean_up(driver *d)
{
    /* The threads of the first three wake the transport. */
    psr_mode_requests_done(&d->asked);
    psr_launcher_free(d->launcher);
    psr_checkpoints_free(d->checkpoints);
    psr_kept_free(d->kept);
    psr_about_pairs_free(d->about);
    bool in_order = d->status == PSR_OK || d->status == PSR_ERR_CANCELLED;
    psr_transport_free(&d->transport, d->closed  ? 0
                                      : in_order ? PSR_SCHEDULER_LINGER_MS
                                                 : PSR_SCHEDULER_ABORT_LINGER_MS);
    psr_resume_free(d->resume);
    psr_sections_done(&d->sections);
    psr_scheduler_free(d->scheduler);
    psr_progress_free(d->progress);
    psr_figures_free(d->figures);
    psr_links_free(d->links);
    psr_followers_done(&d->followers);
    psr_rundir_free(d->rundir);
}

psr_err psr_scheduler_drive(const psr_config *config, const char *series, const char *command,
                            const psr_provision *provision, psr_launcher_kind kind)
{
    driver d = {.config = config,
                .series = series,
                .command = command,
                .provision = provision,
                .by_hand = kind != PSR_LAUNCHER_WHOLE};
    d.starter = kind == PSR_LAUNCHER_WORKER ? getppid() : 0;
    d.deadline_ms = (int64_t)(config->deadline_s * 1000);
    snprintf(d.host, sizeof d.host, "%s", provision->host);
    if (d.host[0] == '\0' && gethostname(d.host, sizeof d.host - 1) != 0)
        snprintf(d.host, sizeof d.host, "localhost");

    psr_err err = open_transport(&d);
    if (err == PSR_OK)
        err = psr_launcher_new(kind, config, psr_scheduler_loop_wake, &d.loop, &d.launcher);
    if (err == PSR_OK)
        err = set_up(&d);
    if (err == PSR_OK) {
        psr_scheduler_loop_run(&d.loop);
        take_last_lines(&d);
        answer_late(&d);
        err = d.status;
    } else {
        snprintf(d.line, sizeof d.line, "%s", psr_err_detail());
        if (d.launcher != NULL)
            psr_launcher_ended(d.launcher, err, d.line, NULL, NULL);
        else
            psr_log(PSR_LOG_ERROR, "%s", d.line);
        answer_late(&d);
    }
    clean_up(&d);
    return err == PSR_OK ? PSR_OK : psr_fail(err, "%s", d.line);
}
