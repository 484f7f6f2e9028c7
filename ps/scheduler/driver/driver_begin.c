/* How a run begins. When all have joined and agree: whether data and checkpoint are those that the
 * run goes on from, where it is in its data, the plan, and the run directory. When all are ready:
 * what begins with the first step. */
#include "ps/scheduler/driver/driver_private.h"

#include "base/clock.h"
#include "ps/parts.h"
#include "ps/roster.h"
#include "ps/scheduler/about.h"
#include "ps/scheduler/hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    psr_scheduler_driver *d = context;
    char line[PSR_HOST_MAX + PSR_ENDPOINT_MAX + 64];
    snprintf(line, sizeof line,
             "%s %" PRIu32 " on %s has joined, %" PRIu32 " of %" PRIu32 " endpoint=%s",
             psr_role_name(entry->peer.role), entry->peer.rank, entry->host, count, total,
             entry->endpoint);
    psr_scheduler_driver_log(d, line);
    psr_launcher_joined(d->launcher, entry, count, total);
}

/* config's, with --bucket-size resolved. */
static uint64_t bucket_bytes_of(const psr_scheduler_driver *d, const psr_config *config)
{
    return psr_bucket_bytes(&d->sections.net->params, config->bucket_bytes);
}

/* Makes the plan for a mode. tells: also says which part of the parameters each shard, or worker,
 * holds. */
static psr_err make_plan(psr_scheduler_driver *d, const psr_config *config, psr_mode mode,
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
        psr_scheduler_driver_say(d, line);
    }
    if (err == PSR_OK && tells && psr_parts_describe_frozen(ret_plan, text, sizeof text)) {
        snprintf(line, sizeof line, "  frozen     %s", text);
        psr_scheduler_driver_say(d, line);
    }
    return err;
}

/* Checks before the first step that all later stretches are possible. */
static psr_err check_stretches(psr_scheduler_driver *d, const psr_config *config,
                               uint64_t first_step, const psr_view *members)
{
    for (uint64_t at = psr_config_next_stretch(config, first_step); at != 0;
         at = psr_config_next_stretch(config, at)) {
        psr_plan plan;
        PSR_TRY(make_plan(d, config, psr_config_mode_at(config, at), members, false, &plan));
        psr_plan_done(&plan);
    }
    return PSR_OK;
}

static psr_err begin_figures(psr_scheduler_driver *d, const psr_config *config,
                             const psr_facts *facts, const psr_view *members, const psr_plan *plan,
                             uint64_t first_step)
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

static psr_err begin_files(psr_scheduler_driver *d, const psr_config *config,
                           const psr_facts *facts, const psr_view *members, uint64_t bucket_bytes)
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
        psr_scheduler_driver_say(d, line);
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
static psr_err check_data(const psr_scheduler_driver *d, const psr_facts *facts)
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

static void say_samples(psr_scheduler_driver *d, const psr_facts *facts)
{
    char line[256];
    snprintf(line, sizeof line,
             "  samples    %" PRIu32 " to train, %" PRIu32 " to test, content %.8s-%.8s",
             facts->train_count, facts->test_count, facts->content.train, facts->content.test);
    psr_scheduler_driver_say(d, line);
}

static psr_err check_resume(psr_scheduler_driver *d, const psr_config *config)
{
    char line[1024];
    PSR_TRY(psr_resume_check(d->resume, &d->sections));
    if (psr_resume_drops(d->resume, &d->sections, line, sizeof line))
        psr_scheduler_driver_say(d, line);
    for (uint32_t i = 0; psr_resume_changes(d->resume, config, &config->pace, i, line, sizeof line);
         i++)
        psr_scheduler_driver_say(d, line);
    return PSR_OK;
}

/* Where the run is in its data, and how many steps it has in all. */
static void find_pace(psr_scheduler_driver *d, const psr_config *config, const psr_facts *facts,
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
    psr_scheduler_driver *d = context;
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
    if (d->resume != NULL) {
        PSR_TRY(check_resume(d, config));
        beginning.loss_scale = psr_loss_scale_first(config, psr_resume_loss_scale(d->resume));
        d->sections.has_scale = psr_loss_scale_is_saved(&beginning.loss_scale);
    }
    PSR_TRY(psr_config_traced_steps(config, beginning.first_step, facts->total_steps, &d->traced));
    const psr_show_place place = psr_hosts_shown(config, members, d->provision->directory);
    psr_launcher_configuration(d->launcher, &place);
    say_samples(d, facts);
    PSR_TRY(check_stretches(d, config, beginning.first_step, members));
    PSR_TRY(make_plan(d, config, psr_config_mode_at(config, beginning.first_step), members, true,
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
    psr_scheduler_driver *d = context;
    return make_plan(d, d->config, mode, psr_coordinator_view(d->coordinator), false, ret_plan);
}

static psr_err on_restore(void *context)
{
    psr_scheduler_driver *d = context;
    return psr_resume_send(d->resume, &d->sections, d->transport);
}

/* What is slow and could not be helped, before anybody waits for it. */
static void tell_loops(psr_scheduler_driver *d, const char *loops)
{
    char line[PSR_SCHEDULER_LOOPS_MAX + 16];
    snprintf(line, sizeof line, "  algorithms %s", loops);
    if (loops[0] != '\0')
        psr_scheduler_driver_say(d, line);
}

static psr_err on_started(void *context, const psr_computing *computing)
{
    psr_scheduler_driver *d = context;
    d->started = true;
    psr_scheduler_driver_log(d, "all are ready: start");
    PSR_TRY(psr_followers_begin(&d->followers, psr_rundir_path(d->rundir), d->resume));
    /* Without this socket the run goes on, but cannot be asked for its mode. */
    if (psr_mode_requests_begin(&d->asked, d->scheduler, psr_rundir_path(d->rundir),
                                psr_scheduler_loop_wake, &d->loop) != PSR_OK)
        psr_scheduler_driver_log(d, psr_err_detail());
    psr_run_trace_begin(&d->trace,
                        &(psr_trace_file_options){.directory = psr_rundir_path(d->rundir),
                                                  .config = d->config,
                                                  .net = d->sections.net,
                                                  .view = psr_coordinator_view(d->coordinator),
                                                  .steps = d->traced,
                                                  .start_ns = psr_clock_ns(),
                                                  .one_thread = d->sections.computes_all_ranks});
    psr_launcher_running(d->launcher);
    tell_loops(d, computing->loops);
    return psr_rundir_computing(d->rundir, computing);
}

void psr_scheduler_driver_begin_events(psr_scheduler_events *events)
{
    events->joined = on_joined;
    events->begin = on_begin;
    events->plan = on_plan;
    events->restore = on_restore;
    events->started = on_started;
}
