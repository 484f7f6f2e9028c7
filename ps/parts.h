/* The buckets, and the plan by which they are exchanged, that follow from a configuration and a
 * layout. The scheduler prints the plan at the start and refuses a shard that would hold nothing.
 * In a ring, workers that share memory divide the buckets among them on each host, so the only hops
 * are those between hosts; but not with --compress, since hops are what rounds. Modes without
 * shards have only buckets otherwise. Immutable after building. */
#ifndef PSR_PS_PARTS_H
#define PSR_PS_PARTS_H

#include "base/config/config.h"
#include "comm/view/plan.h"
#include "model/layout.h"

typedef struct psr_parts {
    psr_buckets buckets;
    psr_plan plan;
    /* [plan.shards]: the bytes that each shard holds, with padding; NULL: there is none */
    uint64_t *bytes;
} psr_parts;

/* The plan by which these buckets are exchanged in that mode, except for the tensors that --route
 * sends another way: the first pattern that fits a name counts. A bucket with tensors of several
 * ways goes the way of most of its bytes, and with two equal ones that of the earlier tensor.
 * Tensors that the optimizer needs whole go one way. hosts: on which hosts several workers share
 * memory; borrowed for the call; NULL: none do. USAGE: --compress or --compress-weights names no
 * compression, or --route a way that does not exist. The caller owns *ret_plan: psr_plan_done. */
PSR_MUST_CHECK psr_err psr_parts_plan(const psr_config *config, psr_mode mode,
                                      const psr_layout *layout, const psr_buckets *buckets,
                                      const psr_host_ranks *hosts, psr_plan *ret_plan);

/* The parts for the run's first mode. config's bucket size must be resolved. hosts: as above. The
 * caller owns *ret_parts: psr_parts_done. */
PSR_MUST_CHECK psr_err psr_parts_init(const psr_config *config, const psr_layout *layout,
                                      const psr_host_ranks *hosts, psr_parts *ret_parts);
void psr_parts_done(psr_parts *parts);

/* USAGE: shards hold nothing; the line names them, and options that would avoid it. Or a pattern
 * of --route, --lr-factor or --decay-factor matches no tensor's name. */
PSR_MUST_CHECK psr_err psr_parts_check(const psr_parts *parts, const psr_config *config,
                                       const psr_layout *layout);

/* Writes a line for a person: "29 of at most 64K; shard 0 holds 527 KiB, shard 1 527 KiB". */
void psr_parts_describe(const psr_parts *parts, uint64_t bucket_bytes, char *line, size_t size);
/* With --freeze, what is never sent: "72 of 86 KiB of parameters: ..". false: nothing is frozen. */
bool psr_parts_describe_frozen(const psr_plan *plan, char *line, size_t size);

#endif
