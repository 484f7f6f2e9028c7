/* What bench_exchange exchanges: options, and the plan, keys and directories that its processes
 * have from their parent. */
#ifndef PSR_BENCH_EXCHANGE_PLAN_H
#define PSR_BENCH_EXCHANGE_PLAN_H

#include "base/config/config.h"
#include "bench/exchange/meeting.h"
#include "comm/view/plan.h"
#include "model/networks/network.h"
#include "net/address/socket_directory.h"
#include "net/trust/keys/keys.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_HOSTS_MAX 64
#define BENCH_LR 0.125f /* a power of two: the check needs no rounding of its own */

typedef struct bench_run {
    psr_config config;
    uint64_t bytes; /* of one tensor instead of a model; 0: the model */
    uint32_t rounds, warmup;
    bool pin;
    bool sum_only, sum_shared; /* no weights: each worker gets a sum of its own; all read one */
    uint32_t hosts;            /* that are emulated, or that a launch has: memory is shared within
                                  each, TCP goes between them */
    /* of a launch on several hosts; borrowed. NULL: all processes are children of this one */
    bench_meeting *meeting;
    uint32_t own;      /* with meeting: the member that this process starts */
    uint32_t *host_of; /* with meeting: [members] numbers of hosts */
    char sharing[PSR_SOCKET_DIRECTORY_BYTES]; /* with meeting: where this host's members meet */
    psr_network *net;                         /* owned; NULL with bytes */
    psr_layout layout;                        /* net's, or of its own */
    psr_buckets buckets;
    psr_plan plan;
    psr_keys *keys;
    size_t key_count;
    uint32_t members;              /* shards, then workers */
    float *owed;                   /* [workers][layout.length] what each owes: memory
                                      that all share; NULL: nothing is owed */
    psr_socket_directory *sockets; /* [hosts] of ipc and shm; else none */
} bench_run;

/* The member that a rank of a launch is: workers come first among those. */
uint32_t bench_member_of_rank(const bench_run *b, uint32_t rank);

/* busbw over algbw, as nccl-tests derives it: what the busiest link carries in one direction, in
 * units of the exchanged bytes (docs/algorithms.md). Links are those of the hosts if there are
 * several, else each process has one of its own. 0: nothing crosses a link. */
double bench_bus_factor(const bench_run *b);

/* Once its options are there. USAGE: they do not go together. On failure too: bench_run_done. */
PSR_MUST_CHECK psr_err bench_run_plan(bench_run *b);
void bench_run_done(bench_run *b);

/* Shards come first. */
psr_peer bench_member_peer(const bench_run *b, uint32_t index);
/* With --hosts workers of consecutive ranks are on one host, and shards on the first. */
uint32_t bench_host_of(const bench_run *b, psr_peer peer);
bool bench_shares_memory(const bench_run *b);

/* Without BSP a worker's last weights lack what others push after it has pulled. An exchange of
 * zeros behind the last round, when all are through that, shows what all pushes together came to:
 * the same as in BSP. */
bool bench_settles(const bench_run *b);

#endif
