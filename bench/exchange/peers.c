#include "bench/exchange/peers.h"

#include "base/system/signals.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "bench/exchange/launched.h"
#include "bench/exchange/link.h"
#include "bench/exchange/peer_mpi.h"
#include "bench/exchange/peer_program.h"
#include "bench/exchange/rounds.h"
#include "net/address/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *bench_peer_name(bench_peer peer)
{
    static const char *const names[BENCH_PEERS] = {"Gloo", "MXNet", "Open MPI"};
    return names[peer];
}

bool bench_peer_suits(bench_peer peer, psr_mode mode)
{
    return (peer == BENCH_MXNET) == (mode == PSR_MODE_PS);
}

void bench_peers_done(void)
{
    bench_mpi_done();
}

static pid_t
    owner; /* the process that has peers; its children, which inherit the handler, have none */

static void leave_nothing(int signal)
{
    if (getpid() == owner) {
        bench_peer_end_running();
        bench_peers_done();
    }
    raise(signal); /* SA_RESETHAND: once this has returned, the signal ends the process */
}

/* Ctrl-C too leaves nothing. */
static void watch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = leave_nothing, .sa_flags = (int)SA_RESETHAND};
    if (owner == getpid())
        return;
    owner = getpid();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!psr_signal_is_ignored(signals[i]))
            sigaction(signals[i], &action, NULL);
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

/* "--sizes=1728,16,..": of a network, a key for each tensor, as its users have. */
static char *sizes_word(const bench_run *b)
{
    const size_t room = 16 + 12 * b->layout.tensor_count;
    char *word = malloc(room);
    if (word == NULL)
        bench_die("memory");
    psr_text_end end = {word, room};
    word[0] = '\0';
    psr_text_add(&end, "--sizes=");
    for (size_t t = 0; t < b->layout.tensor_count; t++)
        psr_text_add(&end, "%s%zu", t > 0 ? "," : "", b->layout.tensors[t].count);
    return word;
}

/* In a launch: this rank's own process. times: [rounds]. */
static psr_err run_python(bench_peer peer, const bench_peer_task *task, const meeting_place *place,
                          const char *interface, double *times, char *text,
                          bench_peer_figures *ret_figures)
{
    const bench_run *b = task->run;
    char script[PATH_MAX];
    arguments a = {.words = {(char *)(uintptr_t)task->command, script}, .count = 2};
    PSR_TRY(bench_peer_find_file(peer == BENCH_GLOO ? "gloo_exchange.py" : "mxnet_exchange.py",
                                 script));
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
    char *sizes = peer == BENCH_MXNET ? sizes_word(b) : NULL;
    if (sizes != NULL)
        a.words[a.count++] = sizes;
    const psr_err err = bench_peer_run_program(bench_peer_name(peer), a.words, text);
    free(sizes);
    PSR_TRY(err);
    return place == NULL || bench_meeting_rank(b->meeting) < b->config.workers
               ? read_python(bench_peer_name(peer), text, place != NULL, times, b->rounds,
                             ret_figures)
               : PSR_OK;
}

/* ---- in a launch ---- */

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
    psr_err err =
        peer == BENCH_OPEN_MPI ? bench_mpi_spread(task) : find_place(b, interface, &place);
    const bool is_first = bench_meeting_rank(b->meeting) == 0;
    /* Gloo has no process at a shard. */
    const bool takes_part =
        peer == BENCH_MXNET || is_first ||
        (peer == BENCH_GLOO && bench_meeting_rank(b->meeting) < b->config.workers);
    bench_peer_figures figures = {0};
    if (err == PSR_OK && peer == BENCH_OPEN_MPI && is_first)
        err = bench_mpi_run(task, text, &figures);
    else if (err == PSR_OK && peer != BENCH_OPEN_MPI && takes_part)
        err = run_python(peer, task, &place, interface, times, text, &figures);
    err = bench_launch_agree(b, err);
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
    char *text = malloc(BENCH_PEER_OUTPUT_BYTES);
    watch_signals();
    if (text == NULL) /* others wait for this rank */
        bench_die("memory");
    psr_err err = task->run->meeting != NULL ? run_launched(peer, task, text, ret_figures)
                  : peer == BENCH_OPEN_MPI
                      ? bench_mpi_run(task, text, ret_figures)
                      : run_python(peer, task, NULL, NULL, NULL, text, ret_figures);
    free(text);
    return err;
}
