/* What is predicted: a network that is trained on a cluster that may not exist, by one of the
 * architectures. All figures that a prediction depends on are here, each with its unit. Plain data;
 * one thread. */
#ifndef PSR_BENCH_SCENARIO_H
#define PSR_BENCH_SCENARIO_H

#include "base/config/config.h"
#include "bench/emulation/links.h"
#include "bench/predict/compute.h"
#include "model/networks/network.h"

#define PSR_SCENARIO_HOSTS_MAX 128 /* that may differ from one another */

/* What does not depend on the architecture. */
typedef struct psr_scenario {
    psr_config config; /* of the run: network, batch, buckets, slices, window, compression */
    psr_network *net;  /* owned */
    psr_buckets buckets;
    psr_compute_profile profile; /* of one worker's step */
    double compute_s; /* forward and backward pass of a step, with processors of its own */

    uint32_t hosts, workers_per_host;
    double bits_per_s; /* of each host's link, in a direction */
    /* Where hosts differ: what the first ones have, the shards' own hosts behind those of workers;
     * the rest are as 1. link: of bits_per_s, which is the slowest's; slow: of compute_s */
    uint32_t different_hosts;
    double link_of[PSR_SCENARIO_HOSTS_MAX], slow_of[PSR_SCENARIO_HOSTS_MAX];
    double latency_s;    /* one way, without the processes at its ends */
    double loss;         /* of packets */
    double window_bytes; /* of a TCP connection; 0: no limit */
    double frame_bytes;  /* of a frame beyond its TCP segment */
    psr_link_costs costs;
    uint32_t
        processors; /* of the one machine on which all hosts are emulated; 0: each has its own */
} psr_scenario;

typedef struct psr_choice {
    psr_mode mode;   /* PS or RING */
    uint32_t shards; /* PS */
    bool dedicated;  /* shards on hosts of their own, one on each */
} psr_choice;

typedef enum psr_limit {
    PSR_LIMIT_COMPUTE,     /* the exchange is hidden */
    PSR_LIMIT_WORKER_LINK, /* of a host with workers (and perhaps a shard) */
    PSR_LIMIT_SHARD_LINK,  /* of a host with a shard */
    PSR_LIMIT_WORKER,      /* a worker's processor: copies, encryption, sums */
    PSR_LIMIT_SHARD,
    PSR_LIMIT_LATENCY, /* none is busy: messages wait for one another */
    PSR_LIMITS
} psr_limit;

typedef struct psr_prediction {
    psr_choice choice;
    uint32_t workers;
    double step_s, images_per_s;
    double efficiency; /* of workers' images/s without any exchange */
    /* The same model with the exchange wholly behind the backward pass but for the last bucket, and
     * with nothing of it hidden. */
    double least_s, most_s;
    psr_limit limit;
    double link_busy;    /* share of a step in which the busiest link carries */
    double process_busy; /* and in which the busiest process handles messages */
    bool emulated;       /* by the machines; otherwise by the one-link model */
} psr_prediction;

const char *psr_limit_name(psr_limit limit);

/* "ps, 2 shards beside the workers" */
void psr_choice_describe(const psr_choice *choice, char *text, size_t size);

/* Makes network and buckets; config and compute_s are set. recorded: the file of a profile
 * (model/played/profile.h), which says how a step's time lies over the network; it says how long
 * the step computes too where compute_s is below 0. NULL: by the network's work. USAGE, NOMEM; and
 * what reading a profile gives. */
PSR_MUST_CHECK psr_err psr_scenario_init(psr_scenario *scenario, uint32_t classes,
                                         uint32_t channels, uint32_t height, uint32_t width,
                                         const char *recorded);
void psr_scenario_done(psr_scenario *scenario);

/* The bytes that are trained, padding included. */
double psr_scenario_bytes(const psr_scenario *scenario);
/* The bytes on the wire of so many bytes of parameters in messages of whole slices: gradients (or a
 * ring's sums) as --compress sends them, weights as --compress-weights does. */
double psr_scenario_gradient_bytes(const psr_scenario *scenario, double bytes);
double psr_scenario_weight_bytes(const psr_scenario *scenario, double bytes);

#endif
