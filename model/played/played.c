/* The played back end: it computes nothing, and sleeps as long as a recorded pass took, tensor by
 * tensor, so that a few processors can play a cluster. Buckets ask for their weights and become
 * ready when they would.
 *
 * A sleep ends a little late (tens of microseconds), and a pass has hundreds, so the next sleep is
 * shorter by that. What the exchange takes of the compute thread is not slept away: in a computed
 * pass it comes on top too. */
#include "model/backend_private.h"
#include "model/played/profile.h"

#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SEEDED_SCALE 1e-3f

typedef struct played {
    const psr_network *net;
    int64_t *forward_ns, *backward_ns; /* [node] of a whole batch, dilated */
    int64_t rest_ns;
    uint32_t batch;
    bool seeded;
    bool zeroed; /* the gradients are */
    /* of the pass under way */
    int64_t due_ns; /* when the last sleep should have ended */
    double share;   /* of a whole batch */
} played;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the plan ---- */

static void add_tensor(played *p, const psr_profile *profile, uint32_t node, uint32_t tensor,
                       double dilate)
{
    if (tensor == PSR_NONE)
        return;
    p->forward_ns[node] += llround(profile->tensors[tensor].forward_s * dilate * 1e9);
    p->backward_ns[node] += llround(profile->tensors[tensor].backward_s * dilate * 1e9);
}

static psr_err plan(played *p, const char *path, double dilate)
{
    psr_profile profile;
    PSR_TRY(psr_profile_read(path, &profile));
    psr_err err = psr_profile_fits(&profile, path, &p->net->params);
    for (uint32_t node = 0; err == PSR_OK && node < p->net->node_count; node++) {
        add_tensor(p, &profile, node, p->net->nodes[node].weight, dilate);
        add_tensor(p, &profile, node, p->net->nodes[node].bias, dilate);
    }
    p->rest_ns = llround(profile.rest_s * dilate * 1e9);
    p->batch = profile.batch;
    psr_profile_done(&profile);
    return err;
}

static void destroy(void *self)
{
    played *p = self;
    if (p == NULL)
        return;
    free(p->forward_ns);
    free(p->backward_ns);
    free(p);
}

static psr_err create(const psr_network *net, const psr_backend_options *options, void **ret_self)
{
    played *p = calloc(1, sizeof *p);
    if (p == NULL)
        return psr_fail(PSR_ERR_NOMEM, "played back end: out of memory");
    p->net = net;
    p->seeded = options->seeded_gradients;
    p->forward_ns = calloc(net->node_count, sizeof *p->forward_ns);
    p->backward_ns = calloc(net->node_count, sizeof *p->backward_ns);
    psr_err err = p->forward_ns != NULL && p->backward_ns != NULL
                      ? plan(p, options->profile, options->dilate)
                      : psr_fail(PSR_ERR_NOMEM, "played back end: out of memory");
    if (err != PSR_OK) {
        destroy(p);
        return err;
    }
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* of the compute thread, whose sleeps these are */
    *ret_self = p;
    return PSR_OK;
}

/* ---- a pass ---- */

/* Until so much time has gone since the last sleep should have ended. */
static void sleep_for(played *p, int64_t duration_ns)
{
    p->due_ns += llround((double)duration_ns * p->share);
    if (p->due_ns <= now_ns())
        return;
    const struct timespec until = {(time_t)(p->due_ns / 1000000000),
                                   (long)(p->due_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* Calls the exchange; what that takes does not count as sleep. */
static psr_err tell(played *p, psr_readiness *readiness, uint32_t node, bool backward)
{
    const int64_t before_ns = now_ns();
    psr_err err = backward ? psr_readiness_backward(readiness, node, NULL)
                           : psr_readiness_forward(readiness, node);
    p->due_ns += now_ns() - before_ns;
    return err;
}

static void begin(played *p, const psr_batch *batch)
{
    p->due_ns = now_ns();
    p->share = (double)batch->count / p->batch;
}

static psr_err forward(played *p, psr_readiness *readiness)
{
    for (uint32_t node = 0; node < p->net->node_count; node++) {
        PSR_TRY(tell(p, readiness, node, false));
        sleep_for(p, p->forward_ns[node]);
    }
    return PSR_OK;
}

/* Numbers that depend on the batch, as a gradient does. */
static void seed_tensor(const played *p, const psr_batch *batch, const psr_exec_state *state,
                        float loss_scale, uint32_t tensor)
{
    if (tensor == PSR_NONE)
        return;
    const psr_tensor *t = &p->net->params.tensors[tensor];
    const psr_rng_at at = {batch->seed, PSR_RNG_TEST, batch->epoch, batch->samples[0], tensor};
    const float scale = SEEDED_SCALE * loss_scale * (float)batch->count;
    float *to = state->gradients + t->offset;
    uint32_t words[4];
    for (size_t i = 0; i < t->count; i++) {
        if (i % 4 == 0)
            psr_rng_block(at, (uint32_t)(i / 4), words);
        to[i] = (2 * psr_rng_unit(words[i % 4]) - 1) * scale;
    }
}

static psr_err train(void *self, const psr_batch *batch, const psr_exec_state *state,
                     float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result)
{
    played *p = self;
    if (!p->zeroed) /* it stays so: sums of zeros are zeros */
        memset(state->gradients, 0, p->net->params.length * sizeof *state->gradients);
    p->zeroed = true;
    begin(p, batch);
    PSR_TRY(forward(p, readiness));
    for (uint32_t node = p->net->node_count; node-- > 0;) {
        if (p->seeded) {
            seed_tensor(p, batch, state, loss_scale, p->net->nodes[node].weight);
            seed_tensor(p, batch, state, loss_scale, p->net->nodes[node].bias);
        }
        sleep_for(p, p->backward_ns[node]);
        PSR_TRY(tell(p, readiness, node, true));
    }
    sleep_for(p, p->rest_ns);
    /* the loss of who knows nothing */
    *ret_result = (psr_pass_result){.loss_sum = batch->count * log(p->net->classes)};
    return PSR_OK;
}

static psr_err infer(void *self, const psr_batch *batch, const psr_exec_state *state,
                     psr_readiness *readiness, float *logits, psr_pass_result *ret_result)
{
    (void)self;
    (void)batch;
    (void)state;
    (void)readiness;
    (void)logits;
    (void)ret_result;
    return psr_fail(PSR_ERR_UNSUPPORTED, "--backend played computes nothing that could be judged");
}

static const char *nothing(const void *self)
{
    (void)self;
    return "";
}

static const char *identity(uint32_t device)
{
    (void)device;
    return "played " PSR_VERSION;
}

static size_t bytes(const void *self)
{
    const played *p = self;
    return sizeof *p + 2 * p->net->node_count * sizeof *p->forward_ns;
}

const psr_backend_class psr_backend_class_played = {
    .create = create,
    .destroy = destroy,
    .train = train,
    .infer = infer,
    .algorithms = nothing,
    .loops = nothing,
    .identity = identity,
    .bytes = bytes,
};
