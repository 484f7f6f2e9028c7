#include "bench/exchange/peers.h"

#include "base/system/child.h"
#include "base/text/json.h"
#include "base/text/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MOST = 48, OUTPUT_BYTES = 64 * 1024 };

/* Open MPI's program, compiled for this call; "": not yet. The one thing that outlives a call. */
static char compiled[64], folder[48];

const char *bench_peer_name(bench_peer peer)
{
    static const char *const names[BENCH_PEERS] = {"Gloo", "MXNet", "Open MPI"};
    return names[peer];
}

/* A file of bench/peers: as installed, or in the tree of sources above the build's. */
static psr_err find_file(const char *name, char path[static PATH_MAX])
{
    static const char *const places[] = {"../share/psring/peers", "../../bench/peers"};
    char own[PATH_MAX];
    PSR_TRY(psr_program_path("psring-bench-exchange", own, sizeof own));
    char *slash = strrchr(own, '/');
    *(slash != NULL ? slash : own) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = snprintf(path, PATH_MAX, "%s/%s/%s", own, places[i], name);
        if (length > 0 && length < PATH_MAX && access(path, R_OK) == 0)
            return PSR_OK;
    }
    return psr_fail(PSR_ERR_NOT_FOUND, "%s is not installed: looked in %s/%s", name, own,
                    places[0]);
}

/* ---- a program and what it prints ---- */

static size_t read_all(int fd, char *text)
{
    size_t fill = 0;
    for (ssize_t got; fill < OUTPUT_BYTES - 1 &&
                      (got = pread(fd, text + fill, OUTPUT_BYTES - 1 - fill, (off_t)fill)) > 0;)
        fill += (size_t)got;
    text[fill] = '\0';
    return fill;
}

static const char *last_line(char *text, size_t size)
{
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' '))
        text[--size] = '\0';
    char *newline = strrchr(text, '\n');
    char *line = newline != NULL ? newline + 1 : text;
    psr_printable_line(line, strlen(line));
    return line[0] != '\0' ? line : "it said nothing";
}

static psr_err await(char *const *words, int out, int err_file, int *ret_status)
{
    psr_child child;
    const psr_child_surroundings surroundings = {
        .directory = ".", .out = dup(out), .err = dup(err_file), .inherits = -1};
    PSR_TRY(psr_child_start_program(words, &surroundings, &child));
    while (!psr_child_reap(&child)) {
        struct pollfd end = {child.pidfd, POLLIN, 0};
        (void)poll(&end, 1, -1);
    }
    *ret_status = child.status;
    psr_child_done(&child);
    return PSR_OK;
}

/* text: [OUTPUT_BYTES], what it printed. */
static psr_err run(const char *name, char *const *words, char *text)
{
    int status = 0;
    FILE *out = tmpfile(), *errors = tmpfile();
    psr_err err =
        out != NULL && errors != NULL
            ? await(words, fileno(out), fileno(errors), &status)
            : psr_fail(PSR_ERR_IO, "a file for what %s prints: %s", name, strerror(errno));
    if (err == PSR_OK && status != 0) {
        const size_t size = read_all(fileno(errors), text);
        err = psr_fail(PSR_ERR_PEER, "%s failed: %.600s", name, last_line(text, size));
    } else if (err == PSR_OK) {
        (void)read_all(fileno(out), text);
    }
    if (out != NULL)
        fclose(out);
    if (errors != NULL)
        fclose(errors);
    return err;
}

/* ---- the peers ---- */

static psr_err compile(const char *mpirun)
{
    char source[PATH_MAX], compiler[PATH_MAX] = "mpicc", text[OUTPUT_BYTES];
    if (compiled[0] != '\0')
        return PSR_OK;
    PSR_TRY(find_file("mpi_all_reduce.c", source));
    const size_t length = strcspn(mpirun, " ");
    const char *slash = memrchr(mpirun, '/', length);
    if (slash != NULL) /* its own compiler lies beside it */
        snprintf(compiler, sizeof compiler, "%.*s/mpicc", (int)(slash - mpirun), mpirun);
    snprintf(folder, sizeof folder, "/tmp/psring-bench-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        return psr_fail(PSR_ERR_IO, "a folder for Open MPI's program: %s", strerror(errno));
    }
    char program[sizeof compiled];
    snprintf(program, sizeof program, "%s/all_reduce", folder);
    char optimised[] = "-O2", to[] = "-o";
    char *const words[] = {compiler, optimised, to, program, source, NULL};
    PSR_TRY(run("mpicc", words, text));
    strcpy(compiled, program);
    return PSR_OK;
}

void bench_peers_done(void)
{
    if (compiled[0] != '\0')
        (void)unlink(compiled);
    if (folder[0] != '\0')
        (void)rmdir(folder);
    compiled[0] = folder[0] = '\0';
}

static psr_err run_mpi(const bench_peer_task *task, double *ret_median_ms)
{
    char ranks[16], rounds[16], warmup[16], bytes[24], text[OUTPUT_BYTES], *words[WORDS_MOST],
        *rest = NULL;
    size_t count = 0;
    PSR_TRY(compile(task->command));
    char *command = strdup(task->command);
    if (command == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a command");
    for (char *word = strtok_r(command, " ", &rest); word != NULL && count < WORDS_MOST - 12;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    snprintf(ranks, sizeof ranks, "%" PRIu32, task->workers);
    snprintf(rounds, sizeof rounds, "%" PRIu32, task->rounds);
    snprintf(warmup, sizeof warmup, "%" PRIu32, task->warmup);
    snprintf(bytes, sizeof bytes, "%" PRIu64, task->bytes);
    char number[] = "-n", crowded[] = "--oversubscribe";
    char *const more[] = {number, ranks, crowded, compiled, rounds, warmup, bytes, NULL};
    memcpy(words + count, more, sizeof more);
    psr_err err = run("Open MPI", words, text);
    free(command);
    PSR_TRY(err);
    cJSON *object = cJSON_Parse(text);
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, "rows"), 0);
    const double us = psr_json_number(row, "time_us", -1);
    cJSON_Delete(object);
    if (us <= 0)
        return psr_fail(PSR_ERR_PEER, "Open MPI failed: it printed no time");
    *ret_median_ms = us / 1e3;
    return PSR_OK;
}

static psr_err run_python(bench_peer peer, const bench_peer_task *task, double *ret_median_ms)
{
    char script[PATH_MAX], words[5][48], text[OUTPUT_BYTES];
    PSR_TRY(find_file(peer == BENCH_GLOO ? "gloo_exchange.py" : "mxnet_exchange.py", script));
    snprintf(words[0], sizeof words[0], "--workers=%" PRIu32, task->workers);
    snprintf(words[1], sizeof words[1], "--bytes=%" PRIu64, task->bytes);
    snprintf(words[2], sizeof words[2], "--rounds=%" PRIu32, task->rounds);
    snprintf(words[3], sizeof words[3], "--warmup=%" PRIu32, task->warmup);
    snprintf(words[4], sizeof words[4], "--shards=%" PRIu32, task->shards);
    char *const command[] = {
        (char *)(uintptr_t)task->command,      script, words[0], words[1], words[2], words[3],
        peer == BENCH_MXNET ? words[4] : NULL, NULL};
    PSR_TRY(run(bench_peer_name(peer), command, text));
    cJSON *object = cJSON_Parse(text);
    const double ms = psr_json_number(object, "median_ms", -1);
    cJSON_Delete(object);
    if (ms <= 0)
        return psr_fail(PSR_ERR_PEER, "%s failed: it printed no time", bench_peer_name(peer));
    *ret_median_ms = ms;
    return PSR_OK;
}

psr_err bench_peer_run(bench_peer peer, const bench_peer_task *task, double *ret_median_ms)
{
    return peer == BENCH_OPEN_MPI ? run_mpi(task, ret_median_ms)
                                  : run_python(peer, task, ret_median_ms);
}
