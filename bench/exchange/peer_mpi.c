#include "bench/exchange/peer_mpi.h"

#include "base/text/json.h"
#include "base/text/text.h"
#include "bench/exchange/launched.h"
#include "bench/exchange/link.h"
#include "bench/exchange/peer_program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MOST = 48, HOSTS_BYTES = 4096 };

/* The program, compiled for this call; "": not yet. The one thing that outlives a call. */
static char compiled[64], folder[48];
static bool is_compiled;

/* ---- the program ---- */

static psr_err compile(const char *mpirun)
{
    char source[PATH_MAX], compiler[PATH_MAX] = "mpicc";
    if (is_compiled)
        return PSR_OK;
    char *text = malloc(BENCH_PEER_OUTPUT_BYTES);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what mpicc prints");
    psr_err err = bench_peer_find_file("mpi_all_reduce.c", source);
    const size_t length = strcspn(mpirun, " ");
    const char *slash = memrchr(mpirun, '/', length);
    if (slash != NULL) /* its own compiler lies beside it */
        snprintf(compiler, sizeof compiler, "%.*s/mpicc", (int)(slash - mpirun), mpirun);
    snprintf(folder, sizeof folder, "/tmp/psring-bench-XXXXXX");
    if (err == PSR_OK && mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        err = psr_fail(PSR_ERR_IO, "a folder for Open MPI's program: %s", strerror(errno));
    }
    if (err == PSR_OK) {
        char optimised[] = "-O2", to[] = "-o";
        snprintf(compiled, sizeof compiled, "%s/all_reduce", folder); /* from now on removed */
        char *const words[] = {compiler, optimised, to, compiled, source, NULL};
        err = bench_peer_run_program("mpicc", words, text);
        is_compiled = err == PSR_OK;
    }
    free(text);
    return err;
}

void bench_mpi_done(void)
{
    if (compiled[0] != '\0')
        (void)unlink(compiled);
    if (folder[0] != '\0')
        (void)rmdir(folder);
    compiled[0] = folder[0] = '\0';
}

/* ---- in a launch ---- */

/* Where the program lies, and how long it is. */
typedef struct program_place {
    char folder[sizeof folder], path[sizeof compiled];
    uint64_t bytes;
} program_place;

static psr_err read_program(program_place *ret_place, char **ret_bytes)
{
    FILE *file = fopen(compiled, "rbe");
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    char *bytes = size > 0 ? malloc((size_t)size) : NULL;
    const bool read = bytes != NULL && fseek(file, 0, SEEK_SET) == 0 &&
                      fread(bytes, 1, (size_t)size, file) == (size_t)size;
    if (file != NULL)
        fclose(file);
    if (!read) {
        free(bytes);
        return psr_fail(PSR_ERR_IO, "%s cannot be read", compiled);
    }
    strcpy(ret_place->folder, folder);
    strcpy(ret_place->path, compiled);
    ret_place->bytes = (uint64_t)size;
    *ret_bytes = bytes;
    return PSR_OK;
}

/* On a host that has rank 0's files it is there already. */
static psr_err write_program(const program_place *place, const char *bytes)
{
    if (mkdir(place->folder, 0700) != 0)
        return errno == EEXIST ? PSR_OK
                               : psr_fail(PSR_ERR_IO, "%s: %s", place->folder, strerror(errno));
    strcpy(folder, place->folder);
    const int fd = open(place->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd >= 0)
        strcpy(compiled, place->path);
    const bool written = fd >= 0 && write(fd, bytes, place->bytes) == (ssize_t)place->bytes;
    if (fd >= 0)
        close(fd);
    return written ? PSR_OK : psr_fail(PSR_ERR_IO, "%s: %s", place->path, strerror(errno));
}

psr_err bench_mpi_spread(const bench_peer_task *task)
{
    static bool spread;
    const bench_run *b = task->run;
    const bool is_first = bench_meeting_rank(b->meeting) == 0;
    program_place own = {.bytes = 0}, *places = calloc(b->members, sizeof *places);
    char *bytes = NULL;
    psr_err err = places != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a program");
    if (err == PSR_OK && is_first && !spread)
        err = compile(task->command);
    if (err == PSR_OK && is_first && !spread)
        err = read_program(&own, &bytes);
    err = bench_launch_agree(b, err);
    if (err == PSR_OK && !spread) {
        bench_meeting_gather(b->meeting, &own, sizeof own, places);
        const size_t size = places[0].bytes;
        char *all = malloc(size * b->members), *mine = bytes != NULL ? bytes : calloc(1, size);
        if (all == NULL || mine == NULL)
            bench_die("memory");
        bench_meeting_gather(b->meeting, mine, size, all);
        err = bench_launch_agree(b, is_first ? PSR_OK : write_program(&places[0], all));
        if (mine != bytes)
            free(mine);
        free(all);
        spread = err == PSR_OK;
    }
    free(bytes);
    free(places);
    return err;
}

/* "node1:2,node2:2": the hosts of the workers, each with their number. */
static void list_hosts(const bench_run *b, char list[static HOSTS_BYTES])
{
    psr_text_end end = {list, HOSTS_BYTES};
    list[0] = '\0';
    for (uint32_t rank = 0, count = 1; rank < b->config.workers; rank++, count++) {
        const char *host = bench_meeting_host(b->meeting, rank);
        if (rank + 1 < b->config.workers &&
            strcmp(bench_meeting_host(b->meeting, rank + 1), host) == 0)
            continue;
        psr_text_add(&end, "%s%s:%" PRIu32, list[0] != '\0' ? "," : "", host, count);
        count = 0;
    }
}

static psr_err read_mpi(const char *text, bench_peer_figures *ret_figures)
{
    cJSON *object = cJSON_Parse(text);
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, "rows"), 0);
    const bench_peer_figures f = {psr_json_number(row, "min_us", -1) / 1e3,
                                  psr_json_number(row, "time_us", -1) / 1e3,
                                  psr_json_number(row, "max_us", -1) / 1e3};
    cJSON_Delete(object);
    if (f.median_ms <= 0)
        return psr_fail(PSR_ERR_PEER, "Open MPI failed: it printed no time");
    *ret_figures = f;
    return PSR_OK;
}

/* mpirun has a way of its own to other hosts, which is told to go by ours. */
psr_err bench_mpi_run(const bench_peer_task *task, char *text, bench_peer_figures *ret_figures)
{
    const bench_run *b = task->run;
    char ranks[16], rounds[16], warmup[16], bytes[24], hosts[HOSTS_BYTES], *words[WORDS_MOST],
        *rest = NULL;
    size_t count = 0;
    if (b->meeting == NULL)
        PSR_TRY(compile(task->command));
    char *command = strdup(task->command);
    if (command == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a command");
    for (char *word = strtok_r(command, " ", &rest); word != NULL && count < WORDS_MOST - 20;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    snprintf(ranks, sizeof ranks, "%" PRIu32, b->config.workers);
    snprintf(rounds, sizeof rounds, "%" PRIu32, b->rounds);
    snprintf(warmup, sizeof warmup, "%" PRIu32, b->warmup);
    snprintf(bytes, sizeof bytes, "%" PRIu64, (uint64_t)(b->layout.length * sizeof(float)));
    char number[] = "-n", crowded[] = "--oversubscribe", host[] = "--host", mca[] = "--mca",
         agent[] = "plm_rsh_agent";
    if (b->meeting != NULL) {
        list_hosts(b, hosts);
        words[count++] = host;
        words[count++] = hosts;
    }
    if (b->meeting != NULL && task->ssh != NULL) {
        char *const way[] = {mca, agent, (char *)(uintptr_t)task->ssh};
        memcpy(words + count, way, sizeof way);
        count += 3;
    }
    char *const more[] = {number, ranks, crowded, compiled, rounds, warmup, bytes, NULL};
    memcpy(words + count, more, sizeof more);
    psr_err err = bench_peer_run_program("Open MPI", words, text);
    if (err != PSR_OK && strstr(text, "--allow-run-as-root") != NULL)
        err = psr_fail(err,
                       "Open MPI does not run as root unless it is told to: --mpirun '%s "
                       "--allow-run-as-root'",
                       task->command);
    free(command);
    return err == PSR_OK ? read_mpi(text, ret_figures) : err;
}
