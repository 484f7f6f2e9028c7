/* What a configuration and a layout come to: the buckets, and the plan by which they are exchanged.
 * The scheduler says it at the start and refuses a shard that would hold nothing. In a ring workers
 * that share memory hold the buckets between them, on each host: there are no hops but those from
 * host to host; but with --compress hops are what rounds. Else in modes without shards there are
 * buckets alone. Immutable after building. */
#ifndef PSR_PS_PARTS_H
#define PSR_PS_PARTS_H

#include "base/config/config.h"
#include "comm/comm.h"
#include "model/layout.h"

typedef struct psr_parts {
    psr_buckets buckets;
    psr_plan plan;
    uint64_t *bytes; /* [plan.shards]: what each shard holds,
                        padding included; NULL: there is none */
} psr_parts;

/* The plan by which these buckets of the layout are exchanged in that mode, but for the tensors
 * that --route sends elsewhere: the first of its patterns that a name fits counts. A bucket with
 * tensors of several ways goes the way of most of its bytes, of two the earlier tensor's; what the
 * optimizer needs whole goes one way. hosts: on which workers share memory, of which one has
 * several; borrowed for the call; NULL: none do. USAGE: --compress names none, --route a way that
 * there is not. ret owns: psr_plan_done. */
PSR_MUST_CHECK psr_err psr_parts_plan(const psr_config *config, psr_mode mode,
                                      const psr_layout *layout, const psr_buckets *buckets,
                                      const psr_host_ranks *hosts, psr_plan *ret_plan);

/* Of the run's first mode. config's bucket size must be resolved. hosts: as above. ret owns:
 * psr_parts_done. */
PSR_MUST_CHECK psr_err psr_parts_init(const psr_config *config, const psr_layout *layout,
                                      const psr_host_ranks *hosts, psr_parts *ret_parts);
void psr_parts_done(psr_parts *parts);

/* USAGE when shards hold nothing: names them, and which options would mend it. */
PSR_MUST_CHECK psr_err psr_parts_check(const psr_parts *parts, const psr_config *config,
                                       const psr_layout *layout);

/* "29 of at most 64K; shard 0 holds 527 KiB, shard 1 527 KiB", for the person. */
void psr_parts_describe(const psr_parts *parts, uint64_t bucket_bytes, char *line, size_t size);

#endif
