#include "bench/predict/compute.h"

#include "model/backend.h"
#include "model/readiness.h"

#include <stdlib.h>

#define WORK_OF_MOVING 30.0

static double work_of(const psr_network *net, const psr_network_node *node)
{
    const double values = (double)node->channels * node->height * node->width;
    if ((node->op != PSR_OP_CONV && node->op != PSR_OP_LINEAR) || node->weight == PSR_NONE)
        return node->op == PSR_OP_INPUT ? 0 : WORK_OF_MOVING * values;
    const psr_tensor *weight = &net->params.tensors[node->weight];
    return 2 * (double)weight->count / weight->shape[0] * values;
}

/* What readiness tells of a pass. */
typedef struct hearing {
    psr_compute_profile *profile;
    double *into; /* where the work that follows goes */
    double work;  /* since the last gradient was ready */
} hearing;

static psr_err weights_wanted(void *context, uint32_t bucket)
{
    hearing *h = context;
    h->into = &h->profile->forward[bucket];
    return PSR_OK;
}

static psr_err gradient_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    hearing *h = context;
    (void)fence;
    h->profile->backward[bucket] += h->work;
    h->work = 0;
    return PSR_OK;
}

static psr_err play(const psr_network *net, psr_readiness *readiness, hearing *h)
{
    const psr_exec_hooks hooks = {
        .context = h, .weights_wanted = weights_wanted, .gradient_ready = gradient_ready};
    psr_readiness_begin(readiness, &hooks);
    for (uint32_t i = 0; i < net->node_count; i++) {
        PSR_TRY(psr_readiness_forward(readiness, i));
        *h->into += work_of(net, &net->nodes[i]);
    }
    for (uint32_t i = net->node_count; i-- > 0;) {
        h->work += 2 * work_of(net, &net->nodes[i]);
        PSR_TRY(psr_readiness_backward(readiness, i, NULL));
    }
    return PSR_OK;
}

static void make_shares(psr_compute_profile *p)
{
    double total = p->before;
    for (uint32_t b = 0; b < p->buckets; b++)
        total += p->forward[b] + p->backward[b];
    p->before /= total;
    for (uint32_t b = 0; b < p->buckets; b++) {
        p->forward[b] /= total;
        p->backward[b] /= total;
    }
}

psr_err psr_compute_profile_init(const psr_network *net, const psr_buckets *buckets,
                                 psr_compute_profile *ret_profile)
{
    psr_compute_profile p = {.buckets = buckets->count};
    psr_readiness *readiness = NULL;
    p.forward = calloc(buckets->count, sizeof *p.forward);
    p.backward = calloc(buckets->count, sizeof *p.backward);
    psr_err err = PSR_OK;
    if (p.forward == NULL || p.backward == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a profile");
    if (err == PSR_OK)
        err = psr_readiness_new(net, buckets, &readiness);
    hearing h = {&p, &p.before, 0};
    if (err == PSR_OK)
        err = play(net, readiness, &h);
    psr_readiness_free(readiness);
    if (err != PSR_OK) {
        psr_compute_profile_done(&p);
        return err;
    }
    p.backward[buckets->count - 1] += h.work;
    make_shares(&p);
    *ret_profile = p;
    return PSR_OK;
}

void psr_compute_profile_done(psr_compute_profile *profile)
{
    free(profile->forward);
    free(profile->backward);
    *profile = (psr_compute_profile){.buckets = 0};
}
