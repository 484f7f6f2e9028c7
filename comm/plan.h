/* The plan of a view: for every bucket the way by which it is summed, the shard that holds it, and
 * the slices that it is cut into. Made once, by the scheduler, in psr_plan_make; members get it
 * with their view (comm/view.h) and ask it: nobody else decides who owns what or where a message
 * begins. Immutable after building; any thread.
 *
 * Buckets count from the end of the arena, as a backward pass reaches them; slices ascend in the
 * arena, so that of two slices the lower number is the one that the next forward pass needs first.
 * By SHARD a bucket is cut from its beginning on; by RING it has as many chunks as there are ranks
 * (base/arrays/fold.h), and each chunk is cut from its beginning on. */
#ifndef PSR_COMM_PLAN_H
#define PSR_COMM_PLAN_H

#include "base/span.h"
#include "comm/wire/compression/compression.h"
#include "net/message.h"

typedef enum psr_route {
    PSR_ROUTE_NONE,  /* it leaves no process */
    PSR_ROUTE_RING,  /* ring all-reduce over all ranks (comm/operations/ring.h) */
    PSR_ROUTE_SHARD, /* pushed to the shard that holds it, and pulled from there */
    /* On each host one of its workers holds it: the others push it there and pull it from there,
     * and between hosts the sums go from holder to holder (comm/tables/host_ring.h). */
    PSR_ROUTE_HOST,
    PSR_ROUTES
} psr_route;

typedef struct psr_plan_bucket {
    psr_span span; /* of the arena, in floats, as all here */
    psr_route route;
    uint32_t home;               /* SHARD: the shard that holds it. HOST:
                                    which home (psr_plan.homes). Else 0 */
    psr_compression compression; /* of what is summed: PUSH and RING. Of
                                    what is pulled, see the plan's */
    size_t slice_floats;         /* of a whole slice of it: the plan's, or what
                                    is sure to fit a message if that is less */
    uint32_t first_slice, slice_count;
} psr_plan_bucket;

/* Hosts on which workers share memory, each with a run of consecutive ranks: host h has ranks
 * first[h] .. first[h + 1] - 1. */
typedef struct psr_host_ranks {
    uint32_t count;  /* 0: none is known */
    uint32_t *first; /* [count + 1] from 0, ascending */
} psr_host_ranks;

/* What one data message carries. */
typedef struct psr_slice {
    uint32_t bucket;
    uint32_t chunk; /* RING, or HOST where there are several hosts; else 0 */
    psr_span span;  /* of the arena */
} psr_slice;

typedef struct psr_plan {
    psr_plan_bucket *buckets; /* owned, as slices */
    psr_slice *slices;
    uint32_t bucket_count, slice_count;
    uint32_t ranks;  /* whose gradients a sum is of */
    uint32_t shards; /* shard processes of the run, which may hold nothing */
    /* Where buckets may go by HOST: which ranks are on one host (first owned), and how many homes
     * there are (psr_host_ranks_homes): home r is a host's worker r, modulo how many it has. Else
     * none. */
    psr_host_ranks hosts;
    uint32_t homes;
    uint32_t chunks;        /* of a bucket by HOST: 1; with several hosts, all ranks of the run */
    size_t slice_floats;    /* of a whole slice, at most: a bucket's own counts */
    uint32_t window;        /* slices on their way to one peer */
    psr_compression pulled; /* how the values of what is pushed come
                               back: none, or one without a residual */
} psr_plan;

typedef struct psr_plan_options {
    psr_route route;                    /* of all buckets; where it is not each one's own: */
    const psr_route *routes;            /* [bucket] or NULL; borrowed for the call, as all
                                           here. Parts that are `together` go one way */
    uint32_t ranks;                     /* whose gradients a sum is of, at least 1 */
    uint32_t shards;                    /* SHARD: at least 1 */
    const psr_host_ranks *hosts;        /* HOST: of the ranks. NULL: nothing goes by HOST */
    size_t slice_floats;                /* of a whole slice at most, at least 1 */
    uint32_t window;                    /* at least 1 */
    const psr_compression *compression; /* of all buckets; NULL: none */
    const psr_compression *pulled;      /* as the plan's; NULL: none */
} psr_plan_options;

/* Floats of a slice of at most so many bytes: whole runs of 16, at least one, so that slices begin
 * where cache lines do. */
size_t psr_plan_slice_floats(uint64_t slice_bytes);

/* How many homes buckets have that workers hold: the least common multiple of how many workers each
 * host has, so that on each host every worker stands for as many homes; the most that a host has
 * where the multiple is beyond 1024. */
uint32_t psr_host_ranks_homes(const psr_host_ranks *hosts);

/* The one function that shares out. What goes by SHARD and what goes by HOST is balanced by bytes,
 * each for itself: the largest first onto the lightest shard or home, ties to the lower rank; on
 * hosts of several sizes onto the home whose workers are the lightest, together. Parts that are
 * `together` share a home. USAGE: SHARD without shards, HOST without hosts. UNSUPPORTED: pulled has
 * a residual; more slices than can be counted; a compressed bucket of 2^32 floats. ret owns:
 * psr_plan_done. */
PSR_MUST_CHECK psr_err psr_plan_make(const psr_plan_options *options, const psr_part *parts,
                                     uint32_t count, psr_plan *ret_plan);
/* The plan that was made elsewhere: spans, routes, homes and compressions are buckets', which lie
 * in their ranges; options' route, routes and compression are not read. Errors and ret as
 * psr_plan_make. */
PSR_MUST_CHECK psr_err psr_plan_of(const psr_plan_options *options, const psr_plan_bucket *buckets,
                                   uint32_t count, psr_plan *ret_plan);
void psr_plan_done(psr_plan *plan);

/* Floats of the arena that the buckets cover. */
static inline size_t psr_plan_length(const psr_plan *plan)
{
    return plan->bucket_count > 0 ? psr_span_end(plan->buckets[0].span) : 0;
}

/* Messages that an honest member leaves unread at most of what a worker sends it, however slow it
 * is: for psr_transport_bound. All are of slices: first values and an optimizer's states; or, of a
 * step and the next one, push and pull, or both rounds of a ring. Beside them stand
 * operations of all workers, of which nobody is far ahead (comm/collectives/group.h). */
static inline size_t psr_plan_waiting_max(const psr_plan *plan)
{
    return 8 * (size_t)plan->slice_count + 4096;
}

/* Where there are hosts: the host of a rank, and which worker holds a bucket by HOST on a host. */
uint32_t psr_plan_host_of(const psr_plan *plan, uint32_t rank);
static inline uint32_t psr_plan_holder(const psr_plan *plan, uint32_t bucket, uint32_t host)
{
    const uint32_t *first = &plan->hosts.first[host];
    return first[0] + plan->buckets[bucket].home % (first[1] - first[0]);
}

/* Who holds the bucket and makes its updates, and says its state for a checkpoint: its shard; by
 * HOST the holder on the first host; else, where every worker does, worker 0. */
psr_peer psr_plan_home(const psr_plan *plan, uint32_t bucket);
/* Whether peer has the bucket's weights and the optimizer's state of it between two steps: its
 * shard; by HOST the holder on each host; else every worker. */
bool psr_plan_holds(const psr_plan *plan, uint32_t bucket, psr_peer peer);
/* Some bucket goes that way. */
bool psr_plan_has_route(const psr_plan *plan, psr_route route);
/* Every bucket goes that way. */
bool psr_plan_all_go(const psr_plan *plan, psr_route route);

/* Of what goes by SHARD or HOST: how many homes there are, and of which role they are. */
static inline uint32_t psr_plan_homes(const psr_plan *plan, psr_route route)
{
    return route == PSR_ROUTE_HOST ? plan->homes : plan->shards;
}

static inline psr_role psr_plan_home_role(psr_route route)
{
    return route == PSR_ROUTE_HOST ? PSR_ROLE_WORKER : PSR_ROLE_SHARD;
}

/* The lowest rank of those whose gradients a sum of the plan is of. */
static inline uint32_t psr_plan_first_rank(const psr_plan *plan)
{
    return plan->hosts.count > 0 ? plan->hosts.first[0] : 0;
}

/* Whether worker rank sends another one buckets: by RING to the next one; by HOST to all of its
 * host, and those that it holds to who holds them on the next host. */
bool psr_plan_sends(const psr_plan *plan, uint32_t rank, uint32_t other);
/* The plan of a rank's host alone, with the same slices: its ranks and homes are the host's
 * workers, and what goes by HOST goes by it. NOMEM. ret owns: psr_plan_done. */
PSR_MUST_CHECK psr_err psr_plan_within(const psr_plan *plan, uint32_t rank, psr_plan *ret_plan);

/* Who sends by the plan keeps something of what was not sent: some bucket's compression has a
 * residual. */
bool psr_plan_has_residual(const psr_plan *plan);

/* Runs of the arena, ascending, each of adjacent buckets that peer holds (psr_plan_holds), or
 * (held: false) that it does not. *bucket: bucket_count before the first one, and then what the
 * call before left. A count of 0: there is no more. */
psr_span psr_plan_next_run(const psr_plan *plan, psr_peer peer, bool held, uint32_t *bucket);

/* ret_bytes[h], h < psr_plan_homes(plan, route): what home h holds by SHARD or HOST, padding
 * included. */
void psr_plan_loads(const psr_plan *plan, psr_route route, uint64_t *ret_bytes);

/* Chunk 0 <= chunk < ranks of a bucket by RING, or of the plan's chunks by HOST: its run of the
 * arena, which may be empty. By SHARD the bucket is the one chunk. */
psr_span psr_plan_chunk(const psr_plan *plan, uint32_t bucket, uint32_t chunk);

/* Number of the slice that begins `begin` floats after the beginning of a chunk. begin: a multiple
 * of the bucket's slice_floats below the chunk's length. */
uint32_t psr_plan_slice_at(const psr_plan *plan, uint32_t bucket, uint32_t chunk, size_t begin);

/* The number of the slice of which a message says bucket, chunk (RING; else it is not read) and
 * span. PROTOCOL: there is none. */
PSR_MUST_CHECK psr_err psr_plan_find(const psr_plan *plan, const psr_message *message,
                                     psr_slice says, uint32_t *ret_slice);

#endif
