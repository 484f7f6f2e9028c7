#include "bench/exchange/peers.h"

#include "base/system/child.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "bench/exchange/link.h"
#include "bench/exchange/rounds.h"
#include "net/address/interface.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MOST = 48, OUTPUT_BYTES = 256 * 1024, LINE_BYTES = 640, HOSTS_BYTES = 4096 };

/* Open MPI's program, compiled for this call; "": not yet. The one thing that outlives a call. */
static char compiled[64], folder[48];

static const char open_mpi[] = "Open MPI";

const char *bench_peer_name(bench_peer peer)
{
    static const char *const names[BENCH_PEERS] = {"Gloo", "MXNet", open_mpi};
    return names[peer];
}

bool bench_peer_suits(bench_peer peer, psr_mode mode)
{
    return (peer == BENCH_MXNET) == (mode == PSR_MODE_PS);
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

static void read_all(int fd, char *text)
{
    size_t fill = 0;
    for (ssize_t got; fill < OUTPUT_BYTES - 1 &&
                      (got = pread(fd, text + fill, OUTPUT_BYTES - 1 - fill, (off_t)fill)) > 0;)
        fill += (size_t)got;
    text[fill] = '\0';
}

static bool says_something(const char *line)
{
    for (; *line != '\0'; line++)
        if (isalnum((unsigned char)*line))
            return true;
    return false;
}

/* The last one that is more than a ruler. */
static const char *last_line(char *text)
{
    for (char *newline; (newline = strrchr(text, '\n')) != NULL; *newline = '\0')
        if (says_something(newline + 1)) {
            psr_printable_line(newline + 1, strlen(newline + 1));
            return newline + 1;
        }
    psr_printable_line(text, strlen(text));
    return says_something(text) ? text : "it said nothing";
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
        read_all(fileno(errors), text);
        err = psr_fail(PSR_ERR_PEER, "%s failed: %.500s", name, last_line(text));
    } else if (err == PSR_OK) {
        read_all(fileno(out), text);
    }
    if (out != NULL)
        fclose(out);
    if (errors != NULL)
        fclose(errors);
    return err;
}

/* ---- Open MPI ---- */

static psr_err compile(const char *mpirun)
{
    char source[PATH_MAX], compiler[PATH_MAX] = "mpicc";
    if (compiled[0] != '\0')
        return PSR_OK;
    char *text = malloc(OUTPUT_BYTES);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what mpicc prints");
    psr_err err = find_file("mpi_all_reduce.c", source);
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
        char program[sizeof compiled], optimised[] = "-O2", to[] = "-o";
        snprintf(program, sizeof program, "%s/all_reduce", folder);
        char *const words[] = {compiler, optimised, to, program, source, NULL};
        err = run("mpicc", words, text);
        if (err == PSR_OK)
            strcpy(compiled, program);
    }
    free(text);
    return err;
}

void bench_peers_done(void)
{
    if (compiled[0] != '\0')
        (void)unlink(compiled);
    if (folder[0] != '\0')
        (void)rmdir(folder);
    compiled[0] = folder[0] = '\0';
}

/* ---- Open MPI in a launch ---- */

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

static psr_err agree(const bench_run *b, psr_err err);

/* Rank 0 compiles it, and each host gets it at the same path. */
static psr_err spread_program(const bench_peer_task *task)
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
    err = agree(b, err);
    if (err == PSR_OK && !spread) {
        bench_meeting_gather(b->meeting, &own, sizeof own, places);
        const size_t size = places[0].bytes;
        char *all = malloc(size * b->members), *mine = bytes != NULL ? bytes : calloc(1, size);
        if (all == NULL || mine == NULL)
            bench_die("memory");
        bench_meeting_gather(b->meeting, mine, size, all);
        err = agree(b, is_first ? PSR_OK : write_program(&places[0], all));
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
static psr_err run_mpi(const bench_peer_task *task, char *text, bench_peer_figures *ret_figures)
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
    psr_err err = run(open_mpi, words, text);
    free(command);
    return err == PSR_OK ? read_mpi(text, ret_figures) : err;
}

/* ---- Gloo and MXNet ---- */

/* Where a peer's processes meet: at worker 0. */
typedef struct meeting_place {
    char address[PSR_ADDRESS_BYTES];
    uint16_t port;
} meeting_place;

/* Gloo and ps-lite want the interface's name. */
static psr_err interface_of(const char *address, char *name, size_t size)
{
    struct ifaddrs *all = NULL;
    char text[PSR_ADDRESS_BYTES];
    name[0] = '\0';
    if (getifaddrs(&all) != 0)
        return psr_fail(PSR_ERR_IO, "the network interfaces: %s", strerror(errno));
    for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        const int family = at->ifa_addr != NULL ? at->ifa_addr->sa_family : AF_UNSPEC;
        const socklen_t length =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if ((family == AF_INET || family == AF_INET6) &&
            getnameinfo(at->ifa_addr, length, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0 &&
            strcmp(text, address) == 0)
            snprintf(name, size, "%s", at->ifa_name);
    }
    freeifaddrs(all);
    return name[0] != '\0' ? PSR_OK : psr_fail(PSR_ERR_NOT_FOUND, "no interface has %s", address);
}

/* All ranks call it. */
static psr_err find_place(const bench_run *b, char interface[static 32], meeting_place *ret_place)
{
    meeting_place own = {.port = 0};
    int reserved = -1;
    psr_err err = psr_interface_address(bench_meeting_interface(b->meeting), own.address);
    if (err == PSR_OK)
        err = interface_of(own.address, interface, 32);
    if (err == PSR_OK && bench_meeting_rank(b->meeting) == 0)
        err = psr_interface_reserve(own.address, &own.port, &reserved);
    meeting_place *all = calloc(b->members, sizeof *all);
    if (all == NULL)
        bench_die("memory");
    bench_meeting_gather(b->meeting, &own, sizeof own, all);
    *ret_place = all[0];
    free(all);
    if (reserved >= 0)
        close(reserved);
    return err;
}

/* Of a rank's own rounds; or of all, on one machine. */
static psr_err read_python(const char *name, const char *text, bool launched, double *times,
                           uint32_t rounds, bench_peer_figures *ret_figures)
{
    cJSON *object = cJSON_Parse(text);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "times_ms");
    const bench_peer_figures f = {psr_json_number(object, "min_ms", -1),
                                  psr_json_number(object, "median_ms", -1),
                                  psr_json_number(object, "max_ms", -1)};
    bool whole = launched ? cJSON_GetArraySize(list) == (int)rounds : f.median_ms > 0;
    for (uint32_t i = 0; launched && whole && i < rounds; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);
        whole = cJSON_IsNumber(item) && item->valuedouble > 0;
        times[i] = whole ? item->valuedouble : 0;
    }
    cJSON_Delete(object);
    if (!whole)
        return psr_fail(PSR_ERR_PEER, "%s failed: it printed no time", name);
    *ret_figures = f;
    return PSR_OK;
}

typedef struct arguments {
    char texts[8][112];
    char *words[12];
    size_t texts_count, count;
} arguments;

static void PSR_PRINTF(2, 3) add(arguments *a, const char *format, ...)
{
    va_list rest;
    char *text = a->texts[a->texts_count++];
    va_start(rest, format);
    vsnprintf(text, sizeof a->texts[0], format, rest);
    va_end(rest);
    a->words[a->count++] = text;
}

/* In a launch: this rank's own process. times: [rounds]. */
static psr_err run_python(bench_peer peer, const bench_peer_task *task, const meeting_place *place,
                          const char *interface, double *times, char *text,
                          bench_peer_figures *ret_figures)
{
    const bench_run *b = task->run;
    char script[PATH_MAX];
    arguments a = {.words = {(char *)(uintptr_t)task->command, script}, .count = 2};
    PSR_TRY(find_file(peer == BENCH_GLOO ? "gloo_exchange.py" : "mxnet_exchange.py", script));
    add(&a, "--workers=%" PRIu32, b->config.workers);
    add(&a, "--bytes=%" PRIu64, (uint64_t)(b->layout.length * sizeof(float)));
    add(&a, "--rounds=%" PRIu32, b->rounds);
    add(&a, "--warmup=%" PRIu32, b->warmup);
    if (peer == BENCH_MXNET)
        add(&a, "--shards=%" PRIu32, psr_config_shards(&b->config));
    if (peer == BENCH_GLOO && b->pin)
        add(&a, "--pin");
    if (place != NULL) {
        add(&a, "--rank=%" PRIu32, bench_meeting_rank(b->meeting));
        add(&a, "--master=%s:%u", place->address, place->port);
        add(&a, "--interface=%s", interface);
    }
    PSR_TRY(run(bench_peer_name(peer), a.words, text));
    return place == NULL || bench_meeting_rank(b->meeting) < b->config.workers
               ? read_python(bench_peer_name(peer), text, place != NULL, times, b->rounds,
                             ret_figures)
               : PSR_OK;
}

/* ---- in a launch ---- */

typedef struct outcome {
    psr_err err;
    char line[LINE_BYTES];
} outcome;

/* The first that failed is everybody's failure. */
static psr_err agree(const bench_run *b, psr_err err)
{
    outcome own = {.err = err}, *all = calloc(b->members, sizeof *all);
    if (all == NULL)
        bench_die("memory");
    if (err != PSR_OK)
        snprintf(own.line, sizeof own.line, "%s: %.500s",
                 bench_meeting_host(b->meeting, bench_meeting_rank(b->meeting)), psr_err_detail());
    bench_meeting_gather(b->meeting, &own, sizeof own, all);
    err = PSR_OK;
    for (uint32_t r = 0; r < b->members && err == PSR_OK; r++)
        if (all[r].err != PSR_OK)
            err = psr_fail(all[r].err, "%.600s", all[r].line);
    free(all);
    return err;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A round takes as long as at its slowest worker. */
static void judge_rounds(const bench_run *b, double *times, bench_peer_figures *ret_figures)
{
    double *all = calloc((size_t)b->members * b->rounds, sizeof *all);
    if (all == NULL)
        bench_die("memory");
    bench_meeting_gather(b->meeting, times, b->rounds * sizeof *times, all);
    for (uint32_t i = 0; i < b->members * b->rounds; i++)
        if (i < b->rounds || all[i] > times[i % b->rounds])
            times[i % b->rounds] = all[i];
    free(all);
    qsort(times, b->rounds, sizeof *times, compare);
    *ret_figures =
        (bench_peer_figures){times[0], bench_median(times, b->rounds), times[b->rounds - 1]};
}

static psr_err run_launched(bench_peer peer, const bench_peer_task *task, char *text,
                            bench_peer_figures *ret_figures)
{
    const bench_run *b = task->run;
    char interface[32] = "";
    meeting_place place;
    double *times = calloc(b->rounds, sizeof *times);
    if (times == NULL)
        bench_die("memory");
    psr_err err = peer == BENCH_OPEN_MPI ? spread_program(task) : find_place(b, interface, &place);
    const bool is_first = bench_meeting_rank(b->meeting) == 0;
    /* Gloo has no process at a shard. */
    const bool takes_part =
        peer == BENCH_MXNET || is_first ||
        (peer == BENCH_GLOO && bench_meeting_rank(b->meeting) < b->config.workers);
    bench_peer_figures figures = {0};
    if (err == PSR_OK && peer == BENCH_OPEN_MPI && is_first)
        err = run_mpi(task, text, &figures);
    else if (err == PSR_OK && peer != BENCH_OPEN_MPI && takes_part)
        err = run_python(peer, task, &place, interface, times, text, &figures);
    err = agree(b, err);
    if (err == PSR_OK && peer != BENCH_OPEN_MPI)
        judge_rounds(b, times, &figures);
    free(times);
    if (err == PSR_OK)
        *ret_figures = figures;
    return err;
}

psr_err bench_peer_run(bench_peer peer, const bench_peer_task *task,
                       bench_peer_figures *ret_figures)
{
    char *text = malloc(OUTPUT_BYTES);
    if (text == NULL) /* others wait for this rank */
        bench_die("memory");
    psr_err err = task->run->meeting != NULL ? run_launched(peer, task, text, ret_figures)
                  : peer == BENCH_OPEN_MPI
                      ? run_mpi(task, text, ret_figures)
                      : run_python(peer, task, NULL, NULL, NULL, text, ret_figures);
    free(text);
    return err;
}
