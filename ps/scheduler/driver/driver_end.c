/* How a run ends: its last files, what the launcher is told, and whom the scheduler stays for. */
#include "ps/scheduler/driver/driver_private.h"

#include "ps/roster.h"
#include "ps/scheduler/late.h"

#include <stdio.h>
#include <stdlib.h>

#define GO_ON_BYTES (PSR_PATH_MAX + 64)

static void end_trace(psr_scheduler_driver *d, psr_err status)
{
    char line[PSR_RUN_TRACE_LINE_MAX];
    psr_run_trace_end(&d->trace, status == PSR_OK || status == PSR_ERR_CANCELLED, line);
    if (line[0] != '\0')
        psr_scheduler_driver_say(d, line);
}

/* The command that goes on with a run that was stopped in order; NULL: it was not. For a run of
 * psring train, psring train says it itself. */
static const char *how_to_go_on(const psr_scheduler_driver *d, char line[static GO_ON_BYTES])
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
    psr_scheduler_driver *d = context;
    char *outcome = NULL, *kept = NULL; /* without memory for them the run ends all the same */
    if (d->started && (psr_figures_to_json(d->figures, &outcome) != PSR_OK ||
                       psr_links_add_to(d->links, outcome, &kept) != PSR_OK))
        psr_scheduler_driver_log(d, psr_err_detail());
    d->status = status;
    snprintf(d->line, sizeof d->line, "%s", line);
    psr_mode_requests_changed(&d->asked, false, line);
    end_trace(d, status);
    psr_scheduler_driver_log(d, line);
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

void psr_scheduler_driver_end_events(psr_scheduler_events *events)
{
    events->ended = on_ended;
}

/* ---- behind the end ---- */

/* The run has ended, and the members are being told. What they print until they have ended too goes
 * to their logs, and a JOIN is answered with the end of the run. The launcher limits how long this
 * takes. */
static bool between_last_lines(void *context, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    const bool more = psr_orders_take(&d->orders, now_ms);
    psr_scheduler_driver_keep_up(d, now_ms);
    if (!more && psr_orders_silent_ms(&d->orders, now_ms) > d->deadline_ms)
        d->launcher_gone = true;
    return more;
}

static void give_up_last_lines(void *context, psr_err err)
{
    (void)err;
    ((psr_scheduler_driver *)context)->launcher_gone = true;
}

static void no_tick(void *context, int64_t now_ms)
{
    (void)context, (void)now_ms;
}

static bool has_last_lines(void *context)
{
    const psr_scheduler_driver *d = context;
    return d->by_hand || d->closed || d->launcher_gone;
}

void psr_scheduler_driver_take_last_lines(psr_scheduler_driver *d)
{
    d->loop.between = between_last_lines;
    d->loop.failed = give_up_last_lines;
    d->loop.tick = no_tick;
    d->loop.over = has_last_lines;
    psr_scheduler_loop_run(&d->loop);
}

/* Used without psring's launcher, which ends all processes of a run itself. */
void psr_scheduler_driver_answer_late(psr_scheduler_driver *d)
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
