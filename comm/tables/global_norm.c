#include "comm/tables/global_norm.h"

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct psr_global_norm {
    const psr_plan *plan;
    psr_peer self;
    psr_outbox outbox;
    bool skips;
    uint64_t step;
    uint32_t own;         /* buckets that this member updates */
    uint32_t own_missing; /* of these, not summed in this step */
    uint32_t missing;     /* buckets whose sum is not known here */
    bool known;           /* total is this step's */
    double total;
    bool *has;       /* [bucket] */
    double *squares; /* [bucket]; those that it has */
};

static const psr_peer adder = {PSR_ROLE_WORKER, 0};

/* A frozen bucket has no gradient, and so no part in its norm. */
static bool counts(const psr_plan *plan, uint32_t bucket)
{
    return plan->buckets[bucket].route != PSR_ROUTE_FROZEN;
}

static uint32_t count_all(const psr_plan *plan)
{
    uint32_t all = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        all += counts(plan, b);
    return all;
}

static uint32_t count_held(const psr_plan *plan, psr_peer peer)
{
    uint32_t held = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        held += counts(plan, b) && psr_plan_holds(plan, b, peer);
    return held;
}

static bool adds(const psr_global_norm *norm)
{
    return psr_peer_equal(norm->self, adder);
}

/* ---- life ---- */

static void begin_step(psr_global_norm *norm, uint64_t step)
{
    norm->step = step;
    norm->own_missing = norm->own;
    norm->missing = count_all(norm->plan);
    norm->known = false;
    memset(norm->has, 0, norm->plan->bucket_count * sizeof *norm->has);
}

psr_err psr_global_norm_new(const psr_plan *plan, psr_peer self, uint64_t first_step, bool skips,
                            const psr_outbox *outbox, psr_global_norm **ret_norm)
{
    psr_global_norm *norm = calloc(1, sizeof *norm);
    if (norm != NULL) {
        norm->has = calloc((size_t)plan->bucket_count + 1, sizeof *norm->has);
        norm->squares = calloc((size_t)plan->bucket_count + 1, sizeof *norm->squares);
    }
    if (norm == NULL || norm->has == NULL || norm->squares == NULL) {
        psr_global_norm_free(norm);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norm of %" PRIu32 " buckets",
                        plan->bucket_count);
    }
    norm->plan = plan;
    norm->self = self;
    norm->skips = skips;
    norm->outbox = *outbox;
    norm->own = count_held(plan, self);
    begin_step(norm, first_step);
    *ret_norm = norm;
    return PSR_OK;
}

void psr_global_norm_free(psr_global_norm *norm)
{
    if (norm == NULL)
        return;
    free(norm->has);
    free(norm->squares);
    free(norm);
}

/* ---- what is told ---- */

static psr_err send(psr_global_norm *norm, psr_peer to, psr_norm_phase phase, uint32_t bucket,
                    double value)
{
    const psr_head head = psr_msg_norm_head(
        &(psr_msg_norm){.bucket = bucket, .step = norm->step, .phase = phase, .value = value});
    return norm->outbox.send(norm->outbox.context, to, &head, NULL);
}

static psr_err send_total(psr_global_norm *norm, psr_peer to)
{
    const uint32_t held = count_held(norm->plan, to);
    const bool listens = held > 0 || (norm->skips && to.role == PSR_ROLE_WORKER);
    if (psr_peer_equal(to, norm->self) || !listens || held == count_all(norm->plan))
        return PSR_OK;
    return send(norm, to, PSR_NORM_TOTAL, 0, norm->total);
}

/* All parts are here: they are added in the order of buckets. */
static psr_err add_up(psr_global_norm *norm)
{
    const psr_plan *plan = norm->plan;
    norm->total = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        norm->total += counts(plan, b) ? norm->squares[b] : 0;
    if (!isfinite(norm->total) && !norm->skips) /* all parts are finite */
        return psr_fail(PSR_ERR_NUMERIC,
                        "step %" PRIu64 ": the norm of the gradient is not finite; a lower --lr "
                        "may help",
                        norm->step + 1);
    norm->known = true;
    for (uint32_t s = 0; adds(norm) && s < plan->shards; s++)
        PSR_TRY(send_total(norm, (psr_peer){PSR_ROLE_SHARD, s}));
    for (uint32_t r = 0; adds(norm) && r < plan->ranks; r++)
        PSR_TRY(send_total(norm, (psr_peer){PSR_ROLE_WORKER, r}));
    return PSR_OK;
}

static psr_err take_part(psr_global_norm *norm, uint32_t bucket, double squares)
{
    norm->has[bucket] = true;
    norm->squares[bucket] = squares;
    return --norm->missing == 0 ? add_up(norm) : PSR_OK;
}

psr_err psr_global_norm_part(psr_global_norm *norm, uint32_t bucket, double squares)
{
    norm->own_missing--;
    if (!adds(norm) && psr_peer_equal(psr_plan_home(norm->plan, bucket), norm->self))
        PSR_TRY(send(norm, adder, PSR_NORM_PART, bucket, squares));
    return norm->has[bucket] ? PSR_OK : take_part(norm, bucket, squares);
}

/* ---- what others tell ---- */

static psr_err take(psr_global_norm *norm, const psr_message *message)
{
    psr_msg_norm says;
    PSR_TRY(psr_msg_norm_read(message, &says));
    if (says.step != norm->step)
        return psr_violation(message, "the norm is at wire step %" PRIu64, norm->step);
    if (!isfinite(says.value) && !norm->skips)
        return psr_violation(message, "its value is infinite, and no step may be left out");
    if (says.phase == PSR_NORM_TOTAL) {
        if (!psr_peer_equal(message->from, adder) || norm->known)
            return psr_violation(message, "the norm is worker 0's to say, once a step");
        norm->total = says.value;
        norm->known = true;
        return PSR_OK;
    }
    if (says.phase != PSR_NORM_PART || !adds(norm) || says.bucket >= norm->plan->bucket_count ||
        !counts(norm->plan, says.bucket) || norm->has[says.bucket] ||
        psr_plan_holds(norm->plan, says.bucket, norm->self) ||
        !psr_peer_equal(message->from, psr_plan_home(norm->plan, says.bucket)))
        return psr_violation(message, "the sum of squares of that bucket is not the sender's to "
                                      "say, or was said");
    return take_part(norm, says.bucket, says.value);
}

psr_err psr_global_norm_message(psr_global_norm *norm, psr_message **message)
{
    psr_err err = take(norm, *message);
    psr_message_free(message);
    return err;
}

bool psr_global_norm_take(psr_global_norm *norm, uint64_t *ret_step, double *ret_norm)
{
    if (!norm->known || norm->own_missing > 0)
        return false;
    *ret_step = norm->step;
    *ret_norm = sqrt(norm->total);
    begin_step(norm, norm->step + 1);
    return true;
}

bool psr_global_norm_waits(const psr_global_norm *norm, psr_waiting *ret_waiting,
                           uint32_t *ret_bucket)
{
    if (norm->known || norm->own_missing > 0 || (norm->own == 0 && !adds(norm)))
        return false;
    *ret_bucket = 0;
    for (uint32_t b = 0;
         adds(norm) && b < norm->plan->bucket_count && (norm->has[b] || !counts(norm->plan, b));
         b++)
        *ret_bucket = b + 1; /* the first that it lacks */
    *ret_waiting =
        (psr_waiting){adds(norm) ? psr_plan_home(norm->plan, *ret_bucket) : adder, norm->step};
    return true;
}
