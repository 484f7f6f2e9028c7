/* How many of its pushes a shard tells each worker that it has received, which is the worker's
 * leave to push more (comm/operations/lane.h).
 *
 * A worker whose link carries nothing but its pushes sends faster than one whose host also sends a
 * shard's answers. It fills the queue in front of the shard's link, the others' pushes wait there,
 * and no slice gets complete: the shard answers nothing, and its link out stands idle. So the
 * credit of a worker that is more than `ahead` pushes before the slowest one is held back until
 * that one has caught up. The slowest is sought among the workers that are in the middle of a
 * step; one that has not begun keeps nobody back, since all of the others' pushes are best there
 * when it comes. The slowest itself is never held back, in whatever order workers push their
 * slices, so nothing can stand still.
 *
 * A worker on the shard's own host is neither held back nor waited for: its pushes are in no queue.
 * As the first to begin a step it would push all that is ready, of buckets that the others push
 * last, and be kept from the bucket that all need first until they had caught up.
 *
 * In place. One thread. */
#ifndef PSR_COMM_CREDITS_H
#define PSR_COMM_CREDITS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_credits {
    uint64_t *received, *told; /* [worker] pushes that came, and of how many it was told; owned */
    bool *near;                /* [worker] on the shard's host; owned */
    uint32_t workers;
    uint64_t of_step; /* pushes of a worker in a step */
    uint64_t ahead;   /* 0: nobody is held back */
    uint64_t at_once; /* so many are told in a message of their own */
    uint64_t least;   /* of those in the middle of a step; UINT64_MAX: there are none */
} psr_credits;

/* NOMEM; psr_credits_done is right after it too. */
PSR_MUST_CHECK psr_err psr_credits_init(psr_credits *credits, uint32_t workers, uint64_t of_step,
                                        uint64_t ahead, uint64_t at_once);
void psr_credits_done(psr_credits *credits);

/* From now on the worker counts as on the shard's host. true: others may be due. */
bool psr_credits_set_near(psr_credits *credits, uint32_t worker);
/* A push of that worker came. true: the slowest is further now, so others may be due. */
bool psr_credits_take(psr_credits *credits, uint32_t worker);
/* Whether the worker is to be told in a message of its own, if no other goes to it now. */
bool psr_credits_due(const psr_credits *credits, uint32_t worker);
/* What a message to the worker says; it counts as told. */
uint64_t psr_credits_tell(psr_credits *credits, uint32_t worker);

#endif
