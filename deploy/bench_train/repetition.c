#include "deploy/bench_train/repetition.h"

#include "deploy/bench/places.h"
#include "base/clock.h"
#include "base/system/child.h"
#include "base/text/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 250, STOP_MS = 20000, SAID_BYTES = 64 * 1024, LINE_BYTES = 1024 };

static volatile sig_atomic_t stopped; /* a signal asked for the end */

static void note_signal(int signo)
{
    (void)signo;
    stopped = 1;
}

void psr_repetition_watch_signals(void)
{
    /* without SA_RESTART: it ends the wait for the run */
    struct sigaction action = {.sa_handler = note_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- run directories ---- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- the command ---- */

typedef struct words {
    char **items; /* owned, with their texts; ends with NULL */
    size_t count, room;
    bool failed;
} words;

static void add(words *w, const char *text)
{
    if (w->count + 1 >= w->room) {
        const size_t room = 2 * w->room + 16;
        char **items = realloc(w->items, room * sizeof *items);
        if (items == NULL) {
            w->failed = true;
            return;
        }
        w->items = items;
        w->room = room;
    }
    w->items[w->count] = strdup(text);
    w->failed = w->failed || w->items[w->count] == NULL;
    w->count += w->items[w->count] != NULL;
    w->items[w->count] = NULL;
}

static void free_words(words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
}

static void add_split(words *w, const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    w->failed = w->failed || copy == NULL;
    for (char *word = copy != NULL ? strtok_r(copy, " ", &rest) : NULL; word != NULL;
         word = strtok_r(NULL, " ", &rest))
        add(w, word);
    free(copy);
}

static psr_err add_program(words *w, const char *name)
{
    char path[PATH_MAX];
    PSR_TRY(psr_program_path(name, path, sizeof path));
    add(w, path);
    return PSR_OK;
}

/* Every option that is not at its default. */
static psr_err add_options(words *w, const psr_config *config)
{
    psr_config defaults;
    char **own = NULL, **usual = NULL;
    psr_config_defaults(&defaults);
    psr_err err = psr_config_to_arguments(config, &own);
    if (err == PSR_OK)
        err = psr_config_to_arguments(&defaults, &usual);
    for (char **word = own; err == PSR_OK && *word != NULL; word++) {
        bool is_usual = false;
        for (char **other = usual; *other != NULL && !is_usual; other++)
            is_usual = strcmp(*word, *other) == 0;
        if (!is_usual)
            add(w, *word);
    }
    psr_config_arguments_free(own);
    psr_config_arguments_free(usual);
    return err;
}

/* Open MPI is told psring's hosts and the way to them, unless its own words say hosts. A hostfile
 * of psring is one of Open MPI's. */
static psr_err add_mpi_hosts(words *w, const psr_repetition_options *o)
{
    const char *hostfile = psr_bench_value(o->places, "--hostfile"),
               *list = psr_bench_value(o->places, "-H"), *ssh = psr_bench_value(o->places, "--ssh");
    if (strstr(o->mpirun, "host") != NULL || (hostfile == NULL && list == NULL))
        return PSR_OK;
    add(w, hostfile != NULL ? "--hostfile" : "--host");
    add(w, hostfile != NULL ? hostfile : list);
    if (ssh == NULL)
        return PSR_OK;
    char *way = psr_bench_unquote(ssh);
    if (way == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a command");
    add(w, "--mca");
    add(w, "plm_rsh_agent");
    add(w, way);
    free(way);
    return PSR_OK;
}

static psr_err make_command(const psr_repetition_options *o, const psr_grid_cell *cell,
                            const char *out, words *w)
{
    psr_config config = cell->config;
    char text[PSR_PATH_MAX + 32];
    snprintf(config.out, sizeof config.out, "%s", out);
    if (config.mode == PSR_MODE_MPI) {
        add_split(w, o->mpirun);
        PSR_TRY(add_mpi_hosts(w, o));
        add(w, "-n");
        snprintf(text, sizeof text, "%u", config.workers);
        add(w, text);
        PSR_TRY(add_program(w, "psring-worker"));
        return add_options(w, &config);
    }
    PSR_TRY(add_program(w, "psring"));
    add(w, "train");
    PSR_TRY(add_options(w, &config));
    add(w, "--progress=none");
    for (const char *const *place = o->places; *place != NULL; place++)
        add(w, *place);
    if (cell->dedicated) {
        snprintf(text, sizeof text, "--ps-hostfile=%s", o->ps_hostfile);
        add(w, text);
    }
    return PSR_OK;
}

/* ---- the run ---- */

/* The last line of what it said. */
static void last_line(int fd, char line[static LINE_BYTES])
{
    static const char nothing[] = "it said nothing";
    char *text = malloc(SAID_BYTES + 1);
    const off_t size = lseek(fd, 0, SEEK_END);
    snprintf(line, LINE_BYTES, "%s", nothing);
    if (text == NULL)
        return;
    ssize_t got = pread(fd, text, SAID_BYTES, size > SAID_BYTES ? size - SAID_BYTES : 0);
    while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == ' '))
        got--;
    text[got > 0 ? got : 0] = '\0';
    const char *newline = strrchr(text, '\n');
    if (got > 0)
        snprintf(line, LINE_BYTES, "%s", newline != NULL ? newline + 1 : text);
    psr_printable_line(line, strlen(line));
    free(text);
}

/* Waits for its end. After a signal it is asked to stop, as by Ctrl-C, and if it does not it is
 * killed. */
static void await_end(const psr_repetition_options *o, psr_child *child)
{
    int64_t asked_ms = 0;
    while (!psr_child_reap(child)) {
        struct pollfd end = {child->pidfd, POLLIN, 0};
        (void)poll(&end, 1, TICK_MS);
        o->tick(o->context);
        if (stopped && asked_ms == 0) {
            asked_ms = psr_clock_ms();
            psr_child_signal(child, SIGINT);
        }
        if (asked_ms != 0 && psr_clock_ms() - asked_ms > STOP_MS)
            psr_child_signal(child, SIGKILL);
    }
}

static psr_err start(const words *w, int said, psr_child *child)
{
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC), err = dup(said);
    if (nothing < 0 || err < 0) {
        if (nothing >= 0)
            close(nothing);
        return psr_fail(PSR_ERR_IO, "cannot start %s: %s", w->items[0], strerror(errno));
    }
    const psr_child_surroundings surroundings = {
        .directory = ".", .out = nothing, .err = err, .inherits = -1};
    return psr_child_start_program(w->items, &surroundings, child);
}

static psr_err judge(const psr_repetition_options *o, const psr_grid_cell *cell, const char *out,
                     int said, int status, psr_repetition_end *ret_end, cJSON *record)
{
    const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    char line[LINE_BYTES];
    if (stopped) {
        *ret_end = PSR_REPETITION_STOPPED;
        return PSR_OK;
    }
    *ret_end = ended                                           ? PSR_REPETITION_DONE
               : WIFEXITED(status) && WEXITSTATUS(status) == 2 ? PSR_REPETITION_REFUSED
                                                               : PSR_REPETITION_FAILED;
    if (ended) {
        PSR_TRY(psr_measure_run(out, &cell->config, &o->targets, record));
        const char *told = cJSON_GetStringValue(cJSON_GetObjectItem(record, "status"));
        if (told == NULL || strcmp(told, "done") != 0)
            *ret_end = PSR_REPETITION_FAILED;
        return PSR_OK;
    }
    last_line(said, line);
    return psr_measure_failed(record, line);
}

static psr_err run_in(const psr_repetition_options *o, const psr_grid_cell *cell, const char *out,
                      int said, psr_repetition_end *ret_end, cJSON *record)
{
    words w = {0};
    psr_child child = {.pidfd = -1};
    const double began_s = psr_clock_s();
    psr_err err = make_command(o, cell, out, &w);
    if (err == PSR_OK && w.failed)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a command");
    if (err == PSR_OK)
        err = start(&w, said, &child);
    free_words(&w);
    PSR_TRY(err);
    await_end(o, &child);
    const int status = child.status;
    psr_child_done(&child);
    if (cJSON_AddNumberToObject(record, "wall_s", psr_clock_s() - began_s) == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a record");
    return judge(o, cell, out, said, status, ret_end, record);
}

psr_err psr_repetition_run(const psr_repetition_options *o, const psr_grid_cell *cell,
                           const char *name, psr_repetition_end *ret_end, cJSON **ret_record)
{
    char out[PSR_PATH_MAX];
    FILE *said = tmpfile();
    cJSON *record = cJSON_CreateObject();
    const int length = snprintf(out, sizeof out, "%s/%s", o->directory, name);
    psr_err err = said != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_IO, "a file for what a run says: %s", strerror(errno));
    if (err == PSR_OK && record == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a record");
    if (err == PSR_OK && (length < 0 || (size_t)length >= sizeof out))
        err = psr_fail(PSR_ERR_USAGE, "--out: a path of %d bytes, should be below %zu", length,
                       sizeof out);
    if (err == PSR_OK) {
        remove_tree(out); /* of a benchmark that was killed */
        err = run_in(o, cell, out, fileno(said), ret_end, record);
        if (!o->keep || err != PSR_OK || *ret_end == PSR_REPETITION_STOPPED)
            remove_tree(out);
    }
    if (said != NULL)
        fclose(said);
    if (err != PSR_OK || *ret_end == PSR_REPETITION_STOPPED) {
        cJSON_Delete(record);
        record = NULL;
    }
    if (err == PSR_OK)
        *ret_record = record;
    return err;
}
