/* Links and busy processes for an emulated run: the carrier of its network (net/transport.h).
 *
 * Each host has a link with a rate for each direction. A message waits in its connection (an
 * ordered pair of processes); the connections of a host take turns on its link, a quantum at a
 * time, as TCP connections share a NIC; behind it the quantum waits in the queue in front of the
 * receiving host's link, first come first served, as in a switch. A connection has at most a window
 * of bytes on the way, so that a congested receiver slows its senders down, not their neighbours. A
 * receiver acknowledges every second segment, on its own link. On a lossy link the window is what
 * TCP holds on average at that loss:
 *     reno   W = sqrt(3 / (2 p)) segments         (Mathis et al. 1997)
 *     cubic  W = 1.054 (RTT / p)^(3/4) segments   (RFC 8312, section 5.1, with beta 0.7, C 0.4)
 * of which CUBIC takes the larger, and each byte is sent 1 / (1 - p) times. Processes of one host
 * have no link between them: they share memory.
 *
 * A process handles one message after another, what it sends before what it takes, and each takes
 * it some time: so much for a message, and so much for each byte of what it sends, receives and
 * folds. Where all hosts are emulated on one machine, as in psring lab, its processors are shared
 * (bench/emulation/processors.h) by what handles messages and what computes. Times are in
 * nanoseconds inside, and in whole microseconds, rounded up, where the network (psr_sim) sees them.
 *
 * Hollow payloads: a value that is emulated stands for `stands_for` values of the network that is
 * predicted. The machines work on few values, and the links carry the bytes of all.
 *
 * Until psr_links_open everything is carried at once and costs nothing: joining is not predicted.
 * One thread. */
#ifndef PSR_BENCH_LINKS_H
#define PSR_BENCH_LINKS_H

#include "net/transport.h"

#define PSR_LINK_SEGMENT_BYTES 1448.0 /* TCP's payload of an Ethernet frame, with timestamps */

/* What a message costs the process that handles it, in seconds. */
typedef struct psr_link_costs {
    double message_s;         /* each message, sent or received */
    double copy_s_per_byte;   /* between the process and its socket, sent or received */
    double seal_s_per_byte;   /* the same: encryption; 0: none */
    double fold_s_per_byte;   /* of a gradient or a partial sum: read, added */
    double update_s_per_byte; /* of new weights, by who makes the update */
} psr_link_costs;

typedef struct psr_links_options {
    psr_sim *sim; /* borrowed for life */
    uint32_t hosts;
    const double *bits_per_s; /* [hosts], of a direction; borrowed for the call */
    /* Which host a worker or shard is on; borrowed for life, as its context. */
    uint32_t (*host_of)(void *context, psr_peer peer);
    void *context;
    uint32_t workers, shards;
    double latency_s;     /* one way */
    double loss;          /* of packets, 0..0.5 */
    double window_bytes;  /* of a connection at most; 0: no limit */
    double quantum_bytes; /* of turns on a link */
    double frame_bytes;   /* of a frame beyond a segment: headers, and what the link adds */
    double stands_for;    /* values, at least 1 */
    /* Of a payload that do not grow with its values (int8: 4, 1bit: 8): of WEIGHTS, and of all
     * others */
    double extra_weight_bytes, extra_bytes;
    psr_link_costs costs;
    uint32_t processors; /* that all hosts share; 0: each process has as many as it uses */
    void (*computed)(void *context, uint32_t worker); /* psr_links_compute's work is done */
} psr_links_options;

typedef struct psr_links psr_links;

/* What a connection has on the way on average, in bytes, when that share of packets is lost;
 * infinite without loss. */
double psr_link_window_of_loss(double loss, double rtt_s);

/* Sets itself as the sim's carrier. NOMEM. The caller owns *ret_links: psr_links_free, after the
 * sim. */
PSR_MUST_CHECK psr_err psr_links_new(const psr_links_options *options, psr_links **ret_links);
void psr_links_free(psr_links *links);

void psr_links_open(psr_links *links);

/* When something happens on a link, in the sim's microseconds, rounded up; INT64_MAX: nothing. */
int64_t psr_links_next_us(const psr_links *links);
/* Lets what is due at the sim's time happen. NOMEM. */
PSR_MUST_CHECK psr_err psr_links_step(psr_links *links);

/* With shared processors: a worker computes, on so many threads, for so long if each of them has a
 * processor to itself. */
void psr_links_compute(psr_links *links, uint32_t worker, double seconds, uint32_t threads);

/* What was busy for how long since psr_links_open, in seconds. */
double psr_links_out_busy_s(const psr_links *links, uint32_t host);
double psr_links_in_busy_s(const psr_links *links, uint32_t host);
double psr_links_process_busy_s(const psr_links *links, psr_peer peer);
/* The most bytes that waited in front of a host's incoming link. */
double psr_links_queue_bytes(const psr_links *links, uint32_t host);
/* Bytes that links have carried, headers included. */
double psr_links_carried_bytes(const psr_links *links);

#endif
