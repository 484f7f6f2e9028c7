#include "ps/scheduler/launcher/launcher.h"

#include "base/clock.h"
#include "base/log.h"
#include "ps/input_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_BYTES_MUCH 65536 /* above this, events that will be repeated are left out */
/* above this, all lines are left out of which members can cause any number; the run's events are
 * few */
#define WAITING_BYTES_MAX (1u << 20)
#define LAST_WORDS_MS 1000

struct psr_launcher {
    bool by_hand; /* no launcher takes events, so they are shown here */
    const psr_config *config;
    psr_screen *screen;
    psr_show show;
    char out[PSR_PATH_MAX]; /* the run directory, once it is there */
    psr_input_thread *input;
    char *waiting; /* bytes that the pipe did not take */
    size_t waiting_bytes, waiting_room;
};

/* ---- life ---- */

static psr_err open_screen(psr_launcher *launcher)
{
    PSR_TRY(psr_screen_new(&launcher->screen));
    psr_show_init(&launcher->show, launcher->screen, PSR_SHOW_LINES,
                  (double)launcher->config->log_every);
    return PSR_OK;
}

psr_err psr_launcher_new(psr_launcher_kind kind, const psr_config *config, void (*wake)(void *),
                         void *context, psr_launcher **ret_launcher)
{
    psr_launcher *launcher = calloc(1, sizeof *launcher);
    if (launcher == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a launcher's pipes");
    launcher->by_hand = kind != PSR_LAUNCHER_WHOLE;
    launcher->config = config;
    psr_err err = launcher->by_hand ? open_screen(launcher) : PSR_OK;
    if (err == PSR_OK)
        err = psr_input_thread_new(kind == PSR_LAUNCHER_NONE ? -1 : STDIN_FILENO, wake, context,
                                   &launcher->input);
    if (err != PSR_OK) {
        psr_screen_free(launcher->screen);
        free(launcher);
        return err;
    }
    /* Only the launcher and this process use the pipe. */
    if (!launcher->by_hand)
        fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    *ret_launcher = launcher;
    return PSR_OK;
}

void psr_launcher_free(psr_launcher *launcher)
{
    if (launcher == NULL)
        return;
    int64_t end_ms = psr_clock_ms() + LAST_WORDS_MS;
    psr_launcher_flush(launcher);
    while (launcher->waiting_bytes > 0 && psr_clock_ms() < end_ms) {
        struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
        if (poll(&out, 1, (int)(end_ms - psr_clock_ms())) <= 0 || (out.revents & POLLOUT) == 0)
            break;
        psr_launcher_flush(launcher);
    }
    psr_input_thread_free(launcher->input);
    psr_screen_drain(launcher->screen, -1, LAST_WORDS_MS);
    psr_screen_free(launcher->screen);
    free(launcher->waiting);
    free(launcher);
}

/* ---- out ---- */

void psr_launcher_flush(psr_launcher *launcher)
{
    size_t gone = 0;
    while (gone < launcher->waiting_bytes) {
        ssize_t written =
            write(STDOUT_FILENO, launcher->waiting + gone, launcher->waiting_bytes - gone);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno != EAGAIN)
            /* the launcher reads no more; the end of standard input will report that */
            gone = launcher->waiting_bytes;
        if (written <= 0)
            break;
        gone += (size_t)written;
    }
    launcher->waiting_bytes -= gone;
    if (launcher->waiting_bytes > 0)
        memmove(launcher->waiting, launcher->waiting + gone, launcher->waiting_bytes);
}

/* Without memory an event is lost. */
static void put(psr_launcher *launcher, const psr_run_event *event)
{
    char *text = NULL;
    if (psr_run_event_encode(event, &text) != PSR_OK)
        return;
    size_t size = strlen(text);
    size_t needed = launcher->waiting_bytes + size + 1;
    if (needed > launcher->waiting_room) {
        char *grown = realloc(launcher->waiting, 2 * needed);
        if (grown == NULL) {
            free(text);
            return;
        }
        launcher->waiting = grown;
        launcher->waiting_room = 2 * needed;
    }
    memcpy(launcher->waiting + launcher->waiting_bytes, text, size);
    launcher->waiting[needed - 1] = '\n';
    launcher->waiting_bytes = needed;
    free(text);
    psr_launcher_flush(launcher);
}

static void put_kind(psr_launcher *launcher, psr_run_event_kind kind)
{
    put(launcher, &(psr_run_event){.kind = kind});
}

static bool much_waits(const psr_launcher *launcher)
{
    return launcher->waiting_bytes > WAITING_BYTES_MUCH;
}

void psr_launcher_listening(psr_launcher *launcher, const char *endpoint)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "listening endpoint=%s", endpoint);
        return;
    }
    psr_run_event event = {.kind = PSR_RUN_LISTENING};
    snprintf(event.endpoint, sizeof event.endpoint, "%s", endpoint);
    put(launcher, &event);
}

void psr_launcher_joined(psr_launcher *launcher, const psr_view_member *entry, uint32_t count,
                         uint32_t total)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "%s %" PRIu32 " on %s has joined: %" PRIu32 " of %" PRIu32,
                psr_role_name(entry->peer.role), entry->peer.rank, entry->host, count, total);
        return;
    }
    psr_run_event event = {.kind = PSR_RUN_JOINED,
                           .joined = {.peer = entry->peer, .count = count, .total = total}};
    snprintf(event.joined.host, sizeof event.joined.host, "%s", entry->host);
    put(launcher, &event);
}

void psr_launcher_configuration(psr_launcher *launcher, const psr_show_place *place)
{
    if (launcher->by_hand) /* psring train has shown it */
        psr_show_configuration(&launcher->show, launcher->config, place);
}

void psr_launcher_directory(psr_launcher *launcher, const char *out, const char *resumed)
{
    if (launcher->by_hand) {
        snprintf(launcher->out, sizeof launcher->out, "%s", out);
        psr_show_run(&launcher->show, out, resumed);
        return;
    }
    psr_run_event event = {.kind = PSR_RUN_DIRECTORY};
    snprintf(event.directory.out, sizeof event.directory.out, "%s", out);
    snprintf(event.directory.resumed, sizeof event.directory.resumed, "%s", resumed);
    put(launcher, &event);
}

void psr_launcher_running(psr_launcher *launcher)
{
    if (launcher->by_hand)
        psr_log(PSR_LOG_INFO, "running");
    else
        put_kind(launcher, PSR_RUN_RUNNING);
}

void psr_launcher_progress(psr_launcher *launcher, uint64_t step, uint64_t total, double loss,
                           double images_per_s)
{
    if (launcher->by_hand)
        psr_show_step(&launcher->show, step, total, loss, images_per_s);
    else if (!much_waits(launcher))
        put(launcher, &(psr_run_event){.kind = PSR_RUN_PROGRESS,
                                       .progress = {step, total, loss, images_per_s}});
}

void psr_launcher_evaluating(psr_launcher *launcher, uint64_t step, uint64_t total,
                             uint64_t counted, uint64_t samples)
{
    if (launcher->by_hand)
        psr_show_evaluating(&launcher->show, step, total, counted, samples);
    else if (!much_waits(launcher))
        put(launcher, &(psr_run_event){.kind = PSR_RUN_EVALUATING,
                                       .evaluating = {step, total, counted, samples}});
}

void psr_launcher_evaluated(psr_launcher *launcher, const char *line)
{
    if (launcher->by_hand) {
        psr_show_evaluated(&launcher->show);
        psr_show_line(&launcher->show, line);
        return;
    }
    psr_run_event event = {.kind = PSR_RUN_EVALUATED};
    snprintf(event.evaluated, sizeof event.evaluated, "%s", line);
    put(launcher, &event);
}

void psr_launcher_say(psr_launcher *launcher, psr_log_kind kind, psr_log_level level,
                      const char *line)
{
    if (launcher->by_hand) {
        if (kind == PSR_LOG_OF_RUN && level > PSR_LOG_WARN)
            psr_show_line(&launcher->show, line);
        else
            psr_log_of(kind, level, "%s", line);
        return;
    }
    if ((kind == PSR_LOG_OF_STRANGER && much_waits(launcher)) ||
        launcher->waiting_bytes > WAITING_BYTES_MAX)
        return;
    psr_run_event event = {.kind = PSR_RUN_SAY, .say = {.level = level, .kind = kind}};
    snprintf(event.say.line, sizeof event.say.line, "%s", line);
    put(launcher, &event);
}

void psr_launcher_alive(psr_launcher *launcher)
{
    if (!launcher->by_hand && !much_waits(launcher))
        put_kind(launcher, PSR_RUN_ALIVE);
}

void psr_launcher_paused(psr_launcher *launcher)
{
    if (!launcher->by_hand)
        put_kind(launcher, PSR_RUN_PAUSED);
}

/* By hand. */
static void show_end(psr_launcher *launcher, psr_err status, const char *line, const cJSON *outcome,
                     const char *how_to_go_on)
{
    if (status == PSR_OK && outcome != NULL)
        psr_show_outcome(&launcher->show, launcher->config, launcher->out, outcome);
    else
        psr_log(status == PSR_OK ? PSR_LOG_INFO : PSR_LOG_ERROR, "%s", line);
    if (how_to_go_on != NULL)
        psr_show_how_to_go_on(&launcher->show, how_to_go_on);
}

void psr_launcher_ended(psr_launcher *launcher, psr_err status, const char *line,
                        const char *outcome_json, const char *how_to_go_on)
{
    psr_run_event event = {
        .kind = PSR_RUN_ENDED,
        .ended = {.status = psr_err_exit_status(status),
                  .outcome = outcome_json != NULL ? cJSON_Parse(outcome_json) : NULL}};
    snprintf(event.ended.line, sizeof event.ended.line, "%s", line);
    if (launcher->by_hand)
        show_end(launcher, status, line, event.ended.outcome, how_to_go_on);
    else
        put(launcher, &event);
    psr_run_event_done(&event);
}

/* ---- in ---- */

psr_launcher_heard psr_launcher_take(psr_launcher *launcher, psr_order *ret_order)
{
    char *line = NULL;
    switch (psr_input_thread_next(launcher->input, &line)) {
    case PSR_INPUT_NOTHING:
        return PSR_LAUNCHER_NOTHING;
    case PSR_INPUT_END:
        return PSR_LAUNCHER_GONE;
    case PSR_INPUT_INTERRUPT:
        return PSR_LAUNCHER_INTERRUPT;
    case PSR_INPUT_LINE:
        break;
    }
    psr_err err = psr_order_decode(line, ret_order);
    if (err != PSR_OK)
        (void)psr_fail_context(err, "'%.200s'", line);
    free(line);
    return err == PSR_OK ? PSR_LAUNCHER_ORDER : PSR_LAUNCHER_BAD;
}
