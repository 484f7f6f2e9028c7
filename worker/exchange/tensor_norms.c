#include "worker/exchange/tensor_norms.h"

#include "comm/wire/messages.h"
#include "model/optimizers/tensor_runs.h"
#include "net/violation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct psr_tensor_norms {
    psr_tensor_norms_options options;
    psr_tensor_runs runs;
    /* Worker 0: */
    uint64_t step; /* of those that it has */
    uint32_t missing;
    bool *has;       /* [run] */
    double *squares; /* [run]; those that it has */
    double *tensors; /* [layout's tensors] */
};

static const psr_peer gatherer = {PSR_ROLE_WORKER, 0};

/* ---- life ---- */

static psr_err open_arrays(psr_tensor_norms *norms)
{
    const psr_tensor_norms_options *o = &norms->options;
    psr_span *spans;
    PSR_TRY(psr_plan_spans(o->plan, &spans));
    psr_err err = psr_tensor_runs_of(o->layout, spans, o->plan->bucket_count, &norms->runs);
    free(spans);
    PSR_TRY(err);
    norms->has = calloc((size_t)norms->runs.count + 1, sizeof *norms->has);
    norms->squares = calloc((size_t)norms->runs.count + 1, sizeof *norms->squares);
    norms->tensors = calloc(o->layout->tensor_count + 1, sizeof *norms->tensors);
    if (norms->has == NULL || norms->squares == NULL || norms->tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    norms->missing = norms->runs.count;
    return PSR_OK;
}

psr_err psr_tensor_norms_new(const psr_tensor_norms_options *options, psr_tensor_norms **ret_norms)
{
    psr_tensor_norms *norms = calloc(1, sizeof *norms);
    if (norms == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    norms->options = *options;
    psr_err err = open_arrays(norms);
    if (err != PSR_OK) {
        psr_tensor_norms_free(norms);
        return err;
    }
    *ret_norms = norms;
    return PSR_OK;
}

void psr_tensor_norms_free(psr_tensor_norms *norms)
{
    if (norms == NULL)
        return;
    psr_tensor_runs_done(&norms->runs);
    free(norms->has);
    free(norms->squares);
    free(norms->tensors);
    free(norms);
}

/* ---- parts ---- */

/* Worker 0. */
static void keep(psr_tensor_norms *norms, uint32_t run, uint64_t step, double squares)
{
    const psr_tensor_norms_options *o = &norms->options;
    norms->step = step;
    norms->has[run] = true;
    norms->squares[run] = squares;
    if (--norms->missing > 0)
        return;
    psr_tensor_runs_add(&norms->runs, norms->squares, o->layout->tensor_count, norms->tensors);
    memset(norms->has, 0, norms->runs.count * sizeof *norms->has);
    norms->missing = norms->runs.count;
    if (o->known != NULL)
        o->known(o->context, step, norms->tensors);
}

psr_err psr_tensor_norms_part(psr_tensor_norms *norms, uint32_t run, uint64_t step, double squares)
{
    const psr_tensor_norms_options *o = &norms->options;
    const psr_peer self = {PSR_ROLE_WORKER, o->rank};
    if (psr_peer_equal(self, gatherer)) {
        keep(norms, run, step, squares);
        return PSR_OK;
    }
    if (!psr_peer_equal(psr_plan_home(o->plan, norms->runs.items[run].bucket), self))
        return PSR_OK;
    const psr_head head = psr_msg_norm_head(
        &(psr_msg_norm){.bucket = run, .step = step, .phase = PSR_NORM_TENSOR, .value = squares});
    return o->outbox.send(o->outbox.context, gatherer, &head, NULL);
}

/* A step is due once, and all of its parts before those of another: worker 0 waits for them. */
static psr_err take(psr_tensor_norms *norms, const psr_message *message)
{
    const psr_tensor_norms_options *o = &norms->options;
    const psr_peer self = {PSR_ROLE_WORKER, o->rank};
    psr_msg_norm says;
    PSR_TRY(psr_msg_norm_read(message, &says));
    const bool begun = norms->missing < norms->runs.count;
    if (says.phase != PSR_NORM_TENSOR || !psr_peer_equal(self, gatherer) ||
        says.bucket >= norms->runs.count || norms->has[says.bucket] ||
        psr_plan_holds(o->plan, norms->runs.items[says.bucket].bucket, self) ||
        !psr_peer_equal(message->from,
                        psr_plan_home(o->plan, norms->runs.items[says.bucket].bucket)))
        return psr_violation(message, "the sum of squares of that part of a tensor is not the "
                                      "sender's to say, or was said");
    if (!isfinite(says.value))
        return psr_violation(message, "its value is infinite, which no tensor's norm is");
    if (!psr_config_norms_due(o->config, says.step + 1) || (begun && says.step != norms->step))
        return psr_violation(message, "no norms are due in step %" PRIu64, says.step + 1);
    keep(norms, says.bucket, says.step, says.value);
    return PSR_OK;
}

psr_err psr_tensor_norms_message(psr_tensor_norms *norms, psr_message **message)
{
    psr_err err = take(norms, *message);
    psr_message_free(message);
    return err;
}
