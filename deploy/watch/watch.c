/* `psring watch RUN`: a table of all ranks of a run, while it is under way and after it. */
#include "deploy/commands.h"

#include "base/clock.h"
#include "base/config/options_argp.h"
#include "base/system/file.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "deploy/watch/rank_lines.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "mode.sock" /* PSR_RUN_SOCKET_NAME */
#define RUN_JSON_BYTES_MAX (16u << 20)
#define LOOK_MS 2000 /* without news: whether the scheduler lives */
#define DRAW_MS 250  /* between two drawings */
enum { KEY_ONCE = 1000, OTHER_LINES = 6, ROWS_WITHOUT_TERMINAL = PSR_RANK_LINES_RANKS_MAX };

typedef struct watch {
    const char *run;
    bool once;
    psr_rank_lines *lines;
    cJSON *json; /* run.json's; owned */
    char *told;  /* the text that is on the terminal; owned */
    size_t told_lines;
    bool on_terminal;
    bool lost; /* it has no outcome, and its scheduler lives no more */
} watch;

/* ---- the command line ---- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    watch *w = state->input;
    switch (key) {
    case KEY_ONCE:
        w->once = true;
        return 0;
    case ARGP_KEY_ARG:
        if (w->run != NULL)
            psr_options_refuse(state, "more than one run; psring report compares many");
        w->run = arg;
        return 0;
    case ARGP_KEY_END:
        if (w->run == NULL)
            psr_options_refuse(state, "no run is named; give the directory of a run");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"once", KEY_ONCE, NULL, 0, "print the table as it is now, and end", 0}, {0}};

static const char doc[] =
    "Shows a run, rank by rank, while it is under way: step, loss, images per second, the time "
    "that a step computes, the share of time that it waits for weights, bytes per second, "
    "staleness, and which rank computes longest. It ends with the run. Where stdout is no terminal "
    "it prints the last table alone.\v"
    "Rates and shares are those of a rank's newest lines in metrics.jsonl, 20 at most; staleness "
    "is the most of them; the slowest rank is the one whose steps compute longest.\n"
    "\n"
    "Examples:\n"
    "  psring watch psring-runs/A\n"
    "  psring watch psring-runs/A --once\n"
    "\n"
    "Exit status: 0 told; 1 the run failed, or its scheduler was killed; 2 bad input.\n";

/* ---- the run ---- */

static psr_err read_run(watch *w)
{
    char path[4352];
    uint8_t *text = NULL;
    size_t size = 0;
    if (snprintf(path, sizeof path, "%s/run.json", w->run) >= (int)sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the name is too long for a directory");
    if (psr_file_read(path, RUN_JSON_BYTES_MAX, &text, &size) != PSR_OK)
        return psr_fail(PSR_ERR_USAGE, "%s is no run's directory: %s", w->run, psr_err_detail());
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    if (!cJSON_IsObject(json) ||
        !cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(json, "config"))) {
        cJSON_Delete(json);
        return psr_fail(PSR_ERR_USAGE, "%s is no run.json as psring train writes it", path);
    }
    cJSON_Delete(w->json);
    w->json = json;
    return PSR_OK;
}

static const cJSON *outcome_of(const watch *w)
{
    return cJSON_GetObjectItemCaseSensitive(w->json, "outcome");
}

/* A killed scheduler leaves a socket that nobody listens to. */
static bool is_lost(const watch *w)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int directory = open(w->run, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool lost = false;
    if (directory >= 0 && fd >= 0) {
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME,
                 directory);
        lost = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 &&
               errno == ECONNREFUSED;
    }
    if (directory >= 0)
        close(directory);
    if (fd >= 0)
        close(fd);
    return lost;
}

/* ---- the table ---- */

static void print_head(const watch *w, FILE *to)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(w->json, "config"),
                *facts = cJSON_GetObjectItemCaseSensitive(w->json, "facts");
    const char *model = psr_json_text(config, "model"), *mode = psr_json_text(config, "mode");
    const double total = psr_json_number(facts, "total_steps", 0);
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < psr_rank_lines_ranks(w->lines); r++) {
        const psr_rank_now now = psr_rank_lines_now(w->lines, r);
        least = now.step < least ? now.step : least;
    }
    fprintf(to, "%.20s, %.16s, step %" PRIu64 " of %.0f", model != NULL ? model : "?",
            mode != NULL ? mode : "?", least == UINT64_MAX ? 0 : least, total);
    const double accuracy =
        psr_rank_lines_ranks(w->lines) > 0 ? psr_rank_lines_now(w->lines, 0).test_accuracy : NAN;
    if (!isnan(accuracy))
        fprintf(to, ", test accuracy %.2f%%", 100 * accuracy);
    const char *tta = psr_json_text(config, "eval-tta");
    if (!isnan(accuracy) && tta != NULL && strcmp(tta, "none") != 0)
        fprintf(to, " (%.16s)", tta);
    fprintf(to, "\n%4s %8s %9s %9s %10s %6s %9s %9s %5s\n", "rank", "step", "loss", "images/s",
            "compute ms", "wait", "sent MB/s", "recv MB/s", "stale");
}

static void print_row(FILE *to, const char *name, const psr_rank_now *now, bool slowest)
{
    fprintf(to, "%4s %8" PRIu64 " %9.5g %9.1f %10.2f %5.1f%% %9.1f %9.1f %5.0f%s\n", name,
            now->step, now->loss, now->images_per_s, 1000 * now->compute_s, 100 * now->wait_share,
            now->sent_per_s / 1e6, now->received_per_s / 1e6, now->staleness, slowest ? " <" : "");
}

static uint32_t slowest_of(const watch *w)
{
    uint32_t slowest = 0;
    for (uint32_t r = 1; r < psr_rank_lines_ranks(w->lines); r++)
        if (psr_rank_lines_now(w->lines, r).compute_s >
            psr_rank_lines_now(w->lines, slowest).compute_s)
            slowest = r;
    return slowest;
}

/* Sums of rates, means of the rest. */
static void print_all(const watch *w, FILE *to)
{
    const uint32_t ranks = psr_rank_lines_ranks(w->lines);
    psr_rank_now all = {.step = UINT64_MAX};
    uint32_t losses = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const psr_rank_now now = psr_rank_lines_now(w->lines, r);
        all.step = now.step < all.step ? now.step : all.step;
        if (!isnan(now.loss)) {
            all.loss += now.loss;
            losses++;
        }
        all.images_per_s += now.images_per_s;
        all.compute_s += now.compute_s / ranks;
        all.wait_share += now.wait_share / ranks;
        all.sent_per_s += now.sent_per_s;
        all.received_per_s += now.received_per_s;
        all.staleness = fmax(all.staleness, now.staleness);
    }
    all.loss = losses > 0 ? all.loss / losses : (double)NAN;
    print_row(to, "all", &all, false);
}

static void print_end(const watch *w, FILE *to)
{
    const cJSON *outcome = outcome_of(w);
    const char *status = psr_json_text(outcome, "status"), *line = psr_json_text(outcome, "line");
    if (psr_rank_lines_strange(w->lines) > 0)
        fprintf(to, "%" PRIu64 " lines of metrics.jsonl are no steps of a run, and left out\n",
                psr_rank_lines_strange(w->lines));
    if (status != NULL)
        fprintf(to, "over: %.20s: %.200s\n", status, line != NULL ? line : "");
    else if (w->lost)
        fprintf(to, "its scheduler was killed\n");
}

static size_t rows_of_terminal(const watch *w)
{
    struct winsize size;
    return w->on_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
                   size.ws_row > OTHER_LINES
               ? size.ws_row - (size_t)OTHER_LINES
               : ROWS_WITHOUT_TERMINAL;
}

/* The caller owns *ret_text. */
static psr_err make_table(const watch *w, char **ret_text)
{
    size_t size = 0;
    FILE *to = open_memstream(ret_text, &size);
    if (to == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    const uint32_t ranks = psr_rank_lines_ranks(w->lines), slowest = slowest_of(w);
    const size_t rows = rows_of_terminal(w);
    size_t left_out = 0;
    print_head(w, to);
    for (uint32_t r = 0; r < ranks; r++) {
        char name[12];
        const psr_rank_now now = psr_rank_lines_now(w->lines, r);
        if (r >= rows && r != slowest) {
            left_out++;
            continue;
        }
        snprintf(name, sizeof name, "%" PRIu32, r);
        print_row(to, name, &now, ranks > 1 && r == slowest);
    }
    if (left_out > 0)
        fprintf(to, "     and %zu ranks more\n", left_out);
    if (ranks > 1) {
        print_all(w, to);
        fprintf(to, "slowest: rank %" PRIu32 "\n", slowest);
    }
    print_end(w, to);
    return fclose(to) == 0 ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a table");
}

/* Replaces what was drawn before. */
static psr_err draw(watch *w)
{
    char *text = NULL;
    PSR_TRY(make_table(w, &text));
    if (w->told != NULL && strcmp(w->told, text) == 0) {
        free(text);
        return PSR_OK;
    }
    if (w->told_lines > 0)
        dprintf(STDOUT_FILENO, "\033[%zuA\033[J", w->told_lines);
    psr_print(stdout, "%s", text);
    fflush(stdout);
    free(w->told);
    w->told = text;
    w->told_lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        w->told_lines++;
    return PSR_OK;
}

/* ---- following ---- */

/* Waits for news in the directory, LOOK_MS at most. false: there were none. */
static bool wait_for_news(int notify)
{
    char events[4096];
    struct pollfd polled = {.fd = notify, .events = POLLIN};
    if (poll(&polled, 1, LOOK_MS) <= 0)
        return false;
    while (read(notify, events, sizeof events) > 0)
        ;
    return true;
}

/* So that a terminal is not drawn faster than anybody reads. */
static void pace(int64_t drawn_ms)
{
    const int64_t rest_ms = drawn_ms + DRAW_MS - psr_clock_ms();
    if (rest_ms > 0)
        (void)poll(NULL, 0, (int)rest_ms);
}

static psr_err look(watch *w)
{
    PSR_TRY(read_run(w));
    return psr_rank_lines_read(w->lines);
}

static psr_err follow(watch *w, int notify)
{
    for (;;) {
        PSR_TRY(look(w));
        const bool over = outcome_of(w) != NULL || w->lost;
        if (over)
            PSR_TRY(psr_rank_lines_read(w->lines)); /* those that came between */
        if (w->on_terminal || over)
            PSR_TRY(draw(w));
        if (over)
            return PSR_OK;
        const int64_t drawn_ms = psr_clock_ms();
        if (!wait_for_news(notify))
            w->lost = is_lost(w);
        pace(drawn_ms);
    }
}

static psr_err run_watch(watch *w)
{
    PSR_TRY(psr_rank_lines_new(w->run, &w->lines));
    PSR_TRY(look(w)); /* whether it is a run */
    if (w->once) {
        w->lost = outcome_of(w) == NULL && is_lost(w);
        return draw(w);
    }
    const int notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (notify < 0 ||
        inotify_add_watch(notify, w->run, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0) {
        const int error = errno;
        if (notify >= 0)
            close(notify);
        return psr_fail(PSR_ERR_IO, "%s cannot be watched: %s", w->run, strerror(error));
    }
    psr_err err = follow(w, notify);
    close(notify);
    return err;
}

/* 1 for a run that did not end well; a run that is not over has none. */
static int status_of(const watch *w)
{
    const char *status = psr_json_text(outcome_of(w), "status");
    return w->lost || (status != NULL && strcmp(status, psr_err_name(PSR_OK)) != 0 &&
                       strcmp(status, psr_err_name(PSR_ERR_CANCELLED)) != 0);
}

int psr_command_watch(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "RUN", doc, NULL, NULL, NULL};
    watch w = {.on_terminal = isatty(STDOUT_FILENO) == 1};
    psr_options_parse(&argp, argc, argv, 0, NULL, &w);
    psr_err err = run_watch(&w);
    if (err != PSR_OK)
        psr_print(stderr, "psring watch: %s\n", psr_err_detail());
    const int status = err != PSR_OK ? psr_err_exit_status(err) : status_of(&w);
    psr_rank_lines_free(w.lines);
    cJSON_Delete(w.json);
    free(w.told);
    return status;
}
