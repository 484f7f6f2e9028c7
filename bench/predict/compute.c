#include "bench/predict/compute.h"

#include "model/backend.h"
#include "model/readiness.h"

#include <stdlib.h>
#include <string.h>

#define WORK_OF_MOVING 30.0

static double work_of(const psr_network *net, const psr_network_node *node)
{
    const double values = (double)node->channels * node->height * node->width;
    if ((node->op != PSR_OP_CONV && node->op != PSR_OP_LINEAR) || node->weight == PSR_NONE)
        return node->op == PSR_OP_INPUT ? 0 : WORK_OF_MOVING * values;
    const psr_tensor *weight = &net->params.tensors[node->weight];
    return 2 * (double)weight->count / weight->shape[0] * values;
}

/* What each node takes in a pass. */
typedef struct passes {
    const psr_network *net;
    double *forward, *backward; /* [nodes] */
} passes;

static void take_work(passes *p)
{
    for (uint32_t i = 0; i < p->net->node_count; i++) {
        const psr_network_node *node = &p->net->nodes[i];
        const bool frozen = node->weight != PSR_NONE && p->net->params.tensors[node->weight].frozen;
        p->forward[i] = work_of(p->net, node);
        p->backward[i] = (node->fixed ? 0 : frozen ? 1 : 2) * p->forward[i];
    }
}

static double total_of(const passes *p)
{
    double total = 0;
    for (uint32_t i = 0; i < p->net->node_count; i++)
        total += p->forward[i] + p->backward[i];
    return total;
}

/* A tensor's times are those of the node that has it; a profile has all of them. Returns the share
 * that is taken: what no backward pass reaches is left out. */
static double take_recorded(passes *p, const psr_profile *recorded)
{
    for (uint32_t i = 0; i < p->net->node_count; i++) {
        const uint32_t of_node[] = {p->net->nodes[i].weight, p->net->nodes[i].bias};
        for (size_t k = 0; k < 2; k++)
            for (size_t t = 0; of_node[k] != PSR_NONE && t < recorded->count; t++)
                if (strcmp(recorded->tensors[t].name, p->net->params.tensors[of_node[k]].name) ==
                    0) {
                    p->forward[i] += recorded->tensors[t].forward_s;
                    p->backward[i] += recorded->tensors[t].backward_s;
                }
    }
    const double all = total_of(p) + recorded->rest_s;
    for (uint32_t i = 0; i < p->net->node_count; i++)
        if (p->net->nodes[i].fixed)
            p->backward[i] = 0;
    return all > 0 ? (total_of(p) + recorded->rest_s) / all : 1;
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

static psr_err play(const passes *p, psr_readiness *readiness, hearing *h)
{
    const psr_exec_hooks hooks = {
        .context = h, .weights_wanted = weights_wanted, .gradient_ready = gradient_ready};
    psr_readiness_begin(readiness, &hooks);
    for (uint32_t i = 0; i < p->net->node_count; i++) {
        PSR_TRY(psr_readiness_forward(readiness, i));
        *h->into += p->forward[i];
    }
    for (uint32_t i = p->net->node_count; i-- > 0;) {
        h->work += p->backward[i];
        PSR_TRY(psr_readiness_backward(readiness, i, NULL));
    }
    return PSR_OK;
}

/* Nobody waits for a frozen bucket, and nothing was counted for it. */
static void leave_frozen_out(const psr_buckets *buckets, psr_compute_profile *p)
{
    p->buckets = 0;
    for (uint32_t b = 0; b < buckets->count; b++) {
        if (buckets->items[b].frozen)
            continue;
        p->forward[p->buckets] = p->forward[b];
        p->backward[p->buckets++] = p->backward[b];
    }
}

/* false: there is no work. */
static bool make_shares(psr_compute_profile *p)
{
    double total = p->before;
    for (uint32_t b = 0; b < p->buckets; b++)
        total += p->forward[b] + p->backward[b];
    if (!(total > 0))
        return false;
    p->before /= total;
    for (uint32_t b = 0; b < p->buckets; b++) {
        p->forward[b] /= total;
        p->backward[b] /= total;
    }
    return true;
}

psr_err psr_compute_profile_init(const psr_network *net, const psr_buckets *buckets,
                                 const psr_profile *recorded, psr_compute_profile *ret_profile)
{
    passes each = {.net = net,
                   .forward = calloc(net->node_count, sizeof(double)),
                   .backward = calloc(net->node_count, sizeof(double))};
    psr_compute_profile p = {.buckets = buckets->count, .kept = 1};
    psr_readiness *readiness = NULL;
    p.forward = calloc(buckets->count, sizeof *p.forward);
    p.backward = calloc(buckets->count, sizeof *p.backward);
    psr_err err = PSR_OK;
    if (p.forward == NULL || p.backward == NULL || each.forward == NULL || each.backward == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a profile");
    if (err == PSR_OK)
        err = psr_readiness_new(net, buckets, &readiness);
    hearing h = {&p, &p.before, 0};
    if (err == PSR_OK && recorded != NULL)
        p.kept = take_recorded(&each, recorded);
    else if (err == PSR_OK)
        take_work(&each);
    if (err == PSR_OK)
        err = play(&each, readiness, &h);
    psr_readiness_free(readiness);
    free(each.forward);
    free(each.backward);
    if (err != PSR_OK) {
        psr_compute_profile_done(&p);
        return err;
    }
    leave_frozen_out(buckets, &p);
    p.backward[p.buckets - 1] += h.work;
    if (recorded != NULL)
        p.before += recorded->rest_s;
    if (!make_shares(&p)) {
        psr_compute_profile_done(&p);
        return psr_fail(PSR_ERR_FORMAT, "--profile: all of its times are zero");
    }
    *ret_profile = p;
    return PSR_OK;
}

void psr_compute_profile_done(psr_compute_profile *profile)
{
    free(profile->forward);
    free(profile->backward);
    *profile = (psr_compute_profile){.buckets = 0};
}
