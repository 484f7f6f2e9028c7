/* The plan of a view: for every bucket the way by which it is summed, the shard that holds it, and
 * the slices that it is cut into. Made once, by the scheduler, in psr_plan_make; members get it
 * with their view (comm/view/view.h) and ask it: nobody else decides who owns what or where a
 * message begins. Immutable after building; any thread.
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
    PSR_ROUTE_NONE,  /* it does not leave the process */
    PSR_ROUTE_RING,  /* ring all-reduce over all ranks (comm/operations/ring.h) */
    PSR_ROUTE_SHARD, /* pushed to the shard that holds it, and pulled from there */
    /* On each host one of the workers holds it: the others push it there and pull it from there.
     * Between hosts the sums go from holder to holder (comm/tables/host_ring.h). */
    PSR_ROUTE_HOST,
    PSR_ROUTE_FROZEN, /* it never changes: every worker has it from the beginning (--freeze) */
    PSR_ROUTES
} psr_route;

typedef struct psr_plan_bucket {
    psr_span span; /* in the arena, in floats, as all spans here */
    psr_route route;
    /* SHARD: the shard that holds it. HOST: the number of its home (psr_plan.homes). Otherwise 0 */
    uint32_t home;
    /* for what is summed: PUSH and ring. For what is pulled see the plan's */
    psr_compression compression;
    /* floats of a whole slice: the plan's, or fewer if that would not surely fit into a message */
    size_t slice_floats;
    uint32_t first_slice, slice_count;
} psr_plan_bucket;

/* Hosts on which workers share memory, each with a run of consecutive ranks: host h has ranks
 * first[h] .. first[h + 1] - 1. */
typedef struct psr_host_ranks {
    uint32_t count;  /* 0: no hosts are known */
    uint32_t *first; /* [count + 1] from 0, ascending */
} psr_host_ranks;

/* What one data message carries. */
typedef struct psr_slice {
    uint32_t bucket;
    uint32_t chunk; /* RING, or HOST with several hosts; otherwise 0 */
    psr_span span;  /* in the arena */
} psr_slice;

typedef struct psr_plan {
    psr_plan_bucket *buckets; /* owned, as slices */
    psr_slice *slices;
    uint32_t bucket_count, slice_count;
    uint32_t ranks;  /* number of ranks whose gradients a sum has */
    uint32_t shards; /* number of the run's shard processes, which may hold nothing */
    /* If buckets may go by HOST: which ranks are on one host (first is owned), and how many homes
     * there are (psr_host_ranks_homes). On each host, home r is the worker r modulo the number of
     * workers there. Otherwise none. */
    psr_host_ranks hosts;
    uint32_t homes;
    uint32_t chunks; /* of a bucket by HOST: with one host 1, with several all ranks of the run */
    size_t slice_floats; /* floats of a whole slice at most; a bucket's own slice_floats counts */
    uint32_t window;     /* slices that may be on their way to one peer */
    /* How pulled values are encoded. With a residual: as what the workers lack of them
     * (comm/tables/differences.h), otherwise as they are */
    psr_compression pulled;
    bool reversed; /* sums count the ranks from the last one; not by HOST over hosts */
} psr_plan;

typedef struct psr_plan_options {
    psr_route route; /* the route of all buckets, unless routes gives each its own: */
    /* [bucket] or NULL; borrowed for the call, as all pointers here. Parts with the same `unit`
     * have the same route */
    const psr_route *routes;
    uint32_t ranks;              /* number of ranks whose gradients a sum has, at least 1 */
    uint32_t shards;             /* number of shards; with SHARD at least 1 */
    const psr_host_ranks *hosts; /* with HOST: the hosts of the ranks. NULL: nothing goes by HOST */
    size_t slice_floats;         /* floats of a whole slice at most; at least 1 */
    uint32_t window;             /* at least 1 */
    const psr_compression *compression; /* for all buckets; NULL: none */
    const psr_compression *pulled;      /* see psr_plan.pulled; NULL: none */
    bool reversed;                      /* see psr_plan.reversed */
} psr_plan_options;

/* The floats of a slice of at most so many bytes: a multiple of 16, at least 16, so that slices
 * begin at cache lines. */
size_t psr_plan_slice_floats(uint64_t slice_bytes);

/* How many homes there are for buckets that workers hold: the least common multiple of the numbers
 * of workers on each host, so that every worker of a host is as many homes as any other. If that is
 * above 1024: the largest number of workers on a host. */
uint32_t psr_host_ranks_homes(const psr_host_ranks *hosts);

/* Makes a plan; the one function that decides who holds what. Buckets that go by SHARD and those
 * that go by HOST are balanced by bytes, each kind by itself: the largest first onto the lightest
 * shard or home, ties to the lower rank. If hosts have different numbers of workers, the lightest
 * home is the one whose workers have least together. Parts with the same `unit` share a home.
 * USAGE: SHARD without shards, HOST without hosts, several hosts with reversed. UNSUPPORTED: there
 * are more slices than can be counted; a compressed bucket has 2^32 floats. The caller owns
 * *ret_plan: psr_plan_done. */
PSR_MUST_CHECK psr_err psr_plan_make(const psr_plan_options *options, const psr_part *parts,
                                     uint32_t count, psr_plan *ret_plan);
/* A plan that was made elsewhere: spans, routes, homes and compressions are those of buckets,
 * checked for their ranges; the options' route, routes and compression are not read. Errors and
 * ownership as psr_plan_make. */
PSR_MUST_CHECK psr_err psr_plan_of(const psr_plan_options *options, const psr_plan_bucket *buckets,
                                   uint32_t count, psr_plan *ret_plan);
void psr_plan_done(psr_plan *plan);

/* The runs of all buckets. NOMEM. The caller owns *ret_spans: free(). */
PSR_MUST_CHECK psr_err psr_plan_spans(const psr_plan *plan, psr_span **ret_spans);

/* The floats of the arena that the buckets cover. */
static inline size_t psr_plan_length(const psr_plan *plan)
{
    return plan->bucket_count > 0 ? psr_span_end(plan->buckets[0].span) : 0;
}

/* The most messages that an honest member leaves unread of those that a worker sends it, however
 * slow it is: for psr_transport_bound. All are slices: initial values and an optimizer's states;
 * or, of a step and the next one, push and pull, or both phases of a ring. Operations of all
 * workers come on top; no worker gets far ahead in these (comm/collectives/group.h). */
static inline size_t psr_plan_waiting_max(const psr_plan *plan)
{
    return 8 * (size_t)plan->slice_count + 4096;
}

/* With hosts: the host of a rank, and the worker that holds a bucket by HOST on a host. */
uint32_t psr_plan_host_of(const psr_plan *plan, uint32_t rank);
static inline uint32_t psr_plan_holder(const psr_plan *plan, uint32_t bucket, uint32_t host)
{
    const uint32_t *first = &plan->hosts.first[host];
    return first[0] + plan->buckets[bucket].home % (first[1] - first[0]);
}

/* The member that makes a bucket's updates and writes its state for a checkpoint: its shard; by
 * HOST the holder on the first host; otherwise worker 0, since every worker makes them. */
psr_peer psr_plan_home(const psr_plan *plan, uint32_t bucket);
/* Whether peer has the bucket's weights and optimizer state between two steps: its shard has; by
 * HOST the holder on each host; otherwise every worker. */
bool psr_plan_holds(const psr_plan *plan, uint32_t bucket, psr_peer peer);
/* Whether the bucket is cut into slices, which leave the process. */
static inline bool psr_plan_exchanges(const psr_plan_bucket *bucket)
{
    return bucket->route != PSR_ROUTE_NONE && bucket->route != PSR_ROUTE_FROZEN;
}
/* Whether any bucket goes that way. */
bool psr_plan_has_route(const psr_plan *plan, psr_route route);
/* Whether every bucket but frozen ones goes that way. */
bool psr_plan_all_go(const psr_plan *plan, psr_route route);

/* For SHARD or HOST: the number of homes, and their role. */
static inline uint32_t psr_plan_homes(const psr_plan *plan, psr_route route)
{
    return route == PSR_ROUTE_HOST ? plan->homes : plan->shards;
}

static inline psr_role psr_plan_home_role(psr_route route)
{
    return route == PSR_ROUTE_HOST ? PSR_ROLE_WORKER : PSR_ROLE_SHARD;
}

/* The lowest of the ranks whose gradients a sum of the plan has. */
static inline uint32_t psr_plan_first_rank(const psr_plan *plan)
{
    return plan->hosts.count > 0 ? plan->hosts.first[0] : 0;
}

/* The place of a rank in the order of base/arrays/fold.h, and the rank at a place. */
static inline uint32_t psr_plan_place(const psr_plan *plan, uint32_t rank)
{
    return plan->reversed ? plan->ranks - 1 - rank : rank;
}

/* Whether worker rank sends buckets to another: by RING to the next one; by HOST to all workers of
 * its host, and the buckets that it holds to their holders on the next host. */
bool psr_plan_sends(const psr_plan *plan, uint32_t rank, uint32_t other);
/* The plan within a rank's host, with the same slices: its ranks and homes are the host's workers.
 * NOMEM. The caller owns *ret_plan: psr_plan_done. */
PSR_MUST_CHECK psr_err psr_plan_within(const psr_plan *plan, uint32_t rank, psr_plan *ret_plan);

/* Whether some bucket's compression has a residual, so that senders keep values from one step to
 * the next. */
bool psr_plan_has_residual(const psr_plan *plan);

/* Whether pulled values come as what the workers lack of them. */
static inline bool psr_plan_pulls_differences(const psr_plan *plan)
{
    return psr_compression_has_residual(plan->pulled);
}

/* The next run of adjacent buckets, in the order of the arena, that peer holds (psr_plan_holds), or
 * with held false does not hold. *bucket: bucket_count before the first call; each call changes it.
 * A count of 0: there are no more. */
psr_span psr_plan_next_run(const psr_plan *plan, psr_peer peer, bool held, uint32_t *bucket);

/* ret_bytes[h], h < psr_plan_homes(plan, route): the bytes that home h holds by SHARD or HOST, with
 * padding. */
void psr_plan_loads(const psr_plan *plan, psr_route route, uint64_t *ret_bytes);

/* The run of the arena of chunk 0 <= chunk < ranks of a bucket by RING, or < chunks by HOST; it may
 * be empty. By SHARD the bucket is its only chunk. */
psr_span psr_plan_chunk(const psr_plan *plan, uint32_t bucket, uint32_t chunk);

/* The number of the slice that begins `begin` floats after the beginning of a chunk. begin: a
 * multiple of the bucket's slice_floats, less than the chunk's length. */
uint32_t psr_plan_slice_at(const psr_plan *plan, uint32_t bucket, uint32_t chunk, size_t begin);

/* How many floats of a RING bucket, of its gradients and their sums, this rank sends in a step. */
size_t psr_plan_ring_sends(const psr_plan *plan, uint32_t bucket, uint32_t rank);

/* The number of the slice whose bucket and span a message says. PROTOCOL: there is none. */
PSR_MUST_CHECK psr_err psr_plan_find(const psr_plan *plan, const psr_message *message,
                                     uint32_t bucket, psr_span span, uint32_t *ret_slice);

#endif
