/* Whether the hosts of a run have the memory that its workers and shards need, by what the workers
 * told of themselves when they joined. Pure; any thread. */
#ifndef PSR_PS_MEMORY_FIT_H
#define PSR_PS_MEMORY_FIT_H

#include "base/config/config.h"
#include "base/facts.h"
#include "comm/view/view.h"

/* The facts of a worker. */
typedef const psr_facts *psr_facts_of_rank(const void *context, uint32_t rank);

/* Compares each host's workers with what is free there: the most that one of its workers has found,
 * since what another has found later may lack memory that the first one has taken already. Data
 * that the workers of a host share count once, and shards on the host, each with the bytes of
 * psr_memory_of_shard. Hosts whose workers do not tell, and hosts of shards alone, are not judged.
 * USAGE, naming the first host that has too little, what is missing, and how many workers or which
 * --batch-size would fit. */
PSR_MUST_CHECK psr_err psr_memory_fit(const psr_config *config, const psr_view *members,
                                      psr_facts_of_rank *facts_of, const void *context);

/* What a shard takes, with an equal part of so many parameters: the program, weights, the
 * optimizer's arrays and, where updates wait for whole sums, those; and a window of slices from
 * each worker, as much as may come before it is folded. */
uint64_t psr_memory_of_shard(const psr_config *config, uint64_t parameters);

#endif
