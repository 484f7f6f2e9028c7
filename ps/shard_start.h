/* What a shard needs to begin: the parameters' layout and where the run is. The scheduler, which
 * knows the network, writes it as JSON into the bytes that WELCOME carries (comm/members/join.h).
 * The view's plan says who holds what, and the options that the shard gets before say how it
 * updates (psr_config_to_json_for_shards). No state; any thread. */
#ifndef PSR_PS_SHARD_START_H
#define PSR_PS_SHARD_START_H

#include "base/bytes.h"
#include "base/config/pace.h"
#include "model/layout.h"

typedef struct psr_shard_start {
    uint64_t first_step; /* completed steps: 0, or those of the resumed checkpoint */
    uint64_t total_steps;
    uint64_t skipped_steps; /* of first_step: those that were left out, in fp16 */
    psr_pace pace;
    psr_layout layout; /* owned if it was read: psr_shard_start_done */
} psr_shard_start;

/* The caller owns *ret_json: free() */
PSR_MUST_CHECK psr_err psr_shard_start_to_json(const psr_shard_start *start, char **ret_json);
/* The bytes may be hostile. FORMAT names the field, or the tensor of the layout
 * (model/layout_json.h). */
PSR_MUST_CHECK psr_err psr_shard_start_from_json(psr_bytes json, psr_shard_start *ret_start);
void psr_shard_start_done(psr_shard_start *start);

#endif
