/* Direct against Winograd, which does a 3x3 convolution in up to 4 times fewer multiplications, but moves more
 * memory and rounds more. There are two: oneDNN's, for AVX-512 alone and in version 2 alone, and our own
 * (winograd.h).
 *
 * What rounds too much is no candidate; the numbers come before a few percent of a step. The measure is the error of
 * a network's first gradients over that of PyTorch's float32, both against float64 (tests/golden), median over the
 * tensors; it is to stay below 2. ResNet-18 at 32 px: 1.0 when all is direct; with oneDNN's Winograd in the backward
 * pass 1.1, in the forward pass too, where its rounding goes through all later layers and back, 2.4; with our own in
 * both 1.1. So oneDNN's may have the backward pass alone, and our own what winograd.h says.
 *
 * Each shape is timed once, however many layers have it. The algorithms take turns and the least time of each counts,
 * so that a neighbour on the machine, who can only make things slower, has to hit one of them every time to mislead.
 * Winograd has to win clearly. */
#include "model/onednn_pick.h"

#include "base/arena.h"
#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Below this many multiplications and additions in a step, seconds of training are too few to win back. */
#define LEAST_WORK 5e9
#define ROUNDS 3
#define CLEARLY 0.9

enum { DIRECTIONS = PSR_ONEDNN_BACKWARD_WEIGHTS + 1 };

static bool is_conv(const psr_onednn_step *step)
{
    return step->group->op == PSR_OP_CONV;
}

/* Winograd is for 3x3 convolutions of stride 1. */
static bool is_candidate(const psr_onednn_exec *exec, const psr_onednn_step *step)
{
    const psr_node *node = &exec->net->nodes[step->group->output];
    return is_conv(step) && node->kernel == 3 && node->stride == 1 && exec->context->type == dnnl_f32;
}

/* Multiplications and additions of a training step's convolutions: three products each. */
static double work_of(const psr_onednn_exec *exec)
{
    double work = 0;
    for (uint32_t i = 0; i < exec->graph->count; i++) {
        if (!is_conv(&exec->steps[i]))
            continue;
        const psr_node *node = &exec->net->nodes[exec->steps[i].group->output];
        const uint32_t *w = exec->net->params.tensors[node->weight].shape;
        work += 6.0 * exec->count * node->height * node->width * w[0] * w[1] * w[2] * w[3];
    }
    return work;
}

static bool same_shape(const psr_onednn_exec *exec, uint32_t a, uint32_t b)
{
    const psr_node *x = &exec->net->nodes[a], *y = &exec->net->nodes[b];
    const psr_onednn_tensor *x_in = &exec->values[x->input[0]], *y_in = &exec->values[y->input[0]];
    return x->channels == y->channels && x->height == y->height && x->width == y->width &&
           x->kernel == y->kernel && x->stride == y->stride && x->pad == y->pad && x_in->c == y_in->c &&
           x_in->h == y_in->h && x_in->w == y_in->w && x_in->layout == y_in->layout &&
           exec->values[a].layout == exec->values[b].layout &&
           psr_onednn_wants_gradient(exec, x->input[0]) == psr_onednn_wants_gradient(exec, y->input[0]);
}

/* A primitive, or our own Winograd, to be timed, with its arguments one after the other in an arena of its
 * own. Zero: no candidate. */
typedef struct trial {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[6];
    int arg_count;
    psr_winograd winograd;
    psr_onednn_direction direction;
    float *arena;
    size_t length;
    double best_s;
} trial;

static void trial_done(trial *t)
{
    for (int i = 0; i < t->arg_count; i++)
        dnnl_memory_destroy(t->args[i].memory);
    if (t->primitive != NULL)
        dnnl_primitive_destroy(t->primitive);
    psr_arena_free(t->arena, t->length);
}

static const struct {
    dnnl_query_t query;
    int arg;
} memories[] = {
    {dnnl_query_src_md, DNNL_ARG_SRC},
    {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
    {dnnl_query_dst_md, DNNL_ARG_DST},
    {dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC},
    {dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS},
    {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
    {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD},
};
enum { MEMORIES = sizeof memories / sizeof memories[0] };

static size_t whole_pages(size_t floats)
{
    const size_t page = 4096 / sizeof(float);
    return (floats + page - 1) / page * page;
}

static size_t floats_of(const_dnnl_primitive_desc_t pd, int memory)
{
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(pd, memories[memory].query, 0);
    return whole_pages(desc == NULL ? 0 : dnnl_memory_desc_get_size(desc) / sizeof(float));
}

/* The arena is fresh and therefore zero: what is timed does not depend on values. */
static psr_err init_primitive(trial *t, const psr_onednn_exec *exec, const_dnnl_primitive_desc_t pd)
{
    size_t length = 0;
    for (int i = 0; i < MEMORIES; i++)
        length += floats_of(pd, i);
    PSR_TRY(psr_arena_new(length, &t->arena));
    t->length = length;
    dnnl_status_t status = dnnl_primitive_create(&t->primitive, pd);
    float *at = t->arena;
    for (int i = 0; status == dnnl_success && i < MEMORIES; i++) {
        if (floats_of(pd, i) == 0)
            continue;
        assert((size_t)t->arg_count < sizeof t->args / sizeof t->args[0]);
        t->args[t->arg_count].arg = memories[i].arg;
        status = dnnl_memory_create(&t->args[t->arg_count].memory,
                                    dnnl_primitive_desc_query_md(pd, memories[i].query, 0),
                                    exec->context->engine, at);
        t->arg_count += status == dnnl_success;
        at += floats_of(pd, i);
    }
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a trial", exec->net->name);
}

/* Floats of our own Winograd's arguments: the two values, the weights, the scratchpad. */
enum { WINOGRAD_X, WINOGRAD_Y, WINOGRAD_WEIGHTS, WINOGRAD_SCRATCH, WINOGRAD_ARGS };

static size_t winograd_floats(const psr_winograd *w, psr_onednn_direction direction, int arg)
{
    const size_t pixels = (size_t)w->images * w->height * w->width;
    switch (arg) {
    case WINOGRAD_X:
        return whole_pages(pixels * w->in);
    case WINOGRAD_Y:
        return whole_pages(pixels * w->out);
    case WINOGRAD_WEIGHTS:
        return whole_pages((size_t)w->out * w->in * 9);
    default:
        return direction == PSR_ONEDNN_BACKWARD_WEIGHTS ? psr_winograd_weights_scratch(w)
                                                        : psr_winograd_values_scratch(w);
    }
}

static psr_err init_winograd(trial *t)
{
    size_t length = 0;
    for (int i = 0; i < WINOGRAD_ARGS; i++)
        length += winograd_floats(&t->winograd, t->direction, i);
    PSR_TRY(psr_arena_new(length, &t->arena));
    t->length = length;
    return PSR_OK;
}

static void run_winograd(const trial *t)
{
    float *args[WINOGRAD_ARGS], *at = t->arena;
    for (int i = 0; i < WINOGRAD_ARGS; i++) {
        args[i] = at;
        at += winograd_floats(&t->winograd, t->direction, i);
    }
    if (t->direction == PSR_ONEDNN_FORWARD)
        psr_winograd_forward(&t->winograd, args[WINOGRAD_X], args[WINOGRAD_WEIGHTS], args[WINOGRAD_Y],
                             args[WINOGRAD_SCRATCH]);
    else if (t->direction == PSR_ONEDNN_BACKWARD_DATA)
        psr_winograd_source_gradient(&t->winograd, args[WINOGRAD_Y], args[WINOGRAD_WEIGHTS], args[WINOGRAD_X],
                                     args[WINOGRAD_SCRATCH]);
    else
        psr_winograd_weights_gradient(&t->winograd, args[WINOGRAD_X], args[WINOGRAD_Y],
                                      args[WINOGRAD_WEIGHTS], args[WINOGRAD_SCRATCH]);
}

static bool rounds_little(const psr_onednn_exec *exec, const psr_onednn_step *step,
                          psr_onednn_direction direction, psr_onednn_algorithm algorithm)
{
    const uint32_t weight = exec->net->nodes[step->group->output].weight;
    const uint32_t *shape = exec->net->params.tensors[weight].shape;
    const uint32_t least =
        direction == PSR_ONEDNN_FORWARD ? PSR_WINOGRAD_FORWARD_CHANNELS : PSR_WINOGRAD_BACKWARD_CHANNELS;
    switch (algorithm) {
    case PSR_ONEDNN_WINOGRAD:
        return direction != PSR_ONEDNN_FORWARD;
    case PSR_ONEDNN_OWN_WINOGRAD:
        return shape[0] >= least && shape[1] >= least;
    default:
        return true;
    }
}

/* Remains zero when the algorithm is no candidate. */
static psr_err trial_init(trial *t, const psr_onednn_exec *exec, const psr_onednn_step *step,
                          psr_onednn_direction direction, psr_onednn_algorithm algorithm)
{
    dnnl_primitive_desc_t pd;
    t->direction = direction;
    if (!rounds_little(exec, step, direction, algorithm))
        return PSR_OK;
    if (algorithm == PSR_ONEDNN_OWN_WINOGRAD)
        return psr_onednn_conv_winograd(exec, step, &t->winograd) ? init_winograd(t) : PSR_OK;
    if (!psr_onednn_conv_create(exec, step, direction, algorithm, &pd))
        return PSR_OK;
    psr_err err = init_primitive(t, exec, pd);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err trial_run(trial *t, const psr_onednn_exec *exec, bool warm_up)
{
    dnnl_status_t status = dnnl_success;
    double began_s = psr_clock_s();
    if (t->primitive == NULL)
        run_winograd(t);
    else
        status = dnnl_primitive_execute(t->primitive, exec->context->stream, t->arg_count, t->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(exec->context->stream);
    double took_s = psr_clock_s() - began_s;
    if (!warm_up && (t->best_s == 0 || took_s < t->best_s))
        t->best_s = took_s;
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a trial", exec->net->name);
}

static psr_err race(trial trials[PSR_ONEDNN_ALGORITHMS], const psr_onednn_exec *exec)
{
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < PSR_ONEDNN_ALGORITHMS; i++)
            if (trials[i].arena != NULL)
                PSR_TRY(trial_run(&trials[i], exec, round == 0));
    return PSR_OK;
}

/* Direct, unless another one is clearly faster. */
static psr_onednn_algorithm winner(const trial trials[PSR_ONEDNN_ALGORITHMS])
{
    psr_onednn_algorithm best = PSR_ONEDNN_DIRECT;
    double limit_s = CLEARLY * trials[PSR_ONEDNN_DIRECT].best_s;
    for (int i = PSR_ONEDNN_DIRECT + 1; i < PSR_ONEDNN_ALGORITHMS; i++)
        if (trials[i].arena != NULL && trials[i].best_s < limit_s) {
            best = (psr_onednn_algorithm)i;
            limit_s = trials[i].best_s;
        }
    return best;
}

/* The letter of one direction of a step's convolution. */
static psr_err pick_direction(const psr_onednn_exec *exec, const psr_onednn_step *step,
                              psr_onednn_direction direction, char *ret_letter)
{
    trial trials[PSR_ONEDNN_ALGORITHMS] = {{0}};
    psr_err err = PSR_OK;
    for (int i = 0; err == PSR_OK && i < PSR_ONEDNN_ALGORITHMS; i++)
        err = trial_init(&trials[i], exec, step, direction, (psr_onednn_algorithm)i);
    if (err == PSR_OK && trials[PSR_ONEDNN_DIRECT].arena != NULL) {
        err = race(trials, exec);
        if (err == PSR_OK)
            *ret_letter = psr_onednn_letter(winner(trials));
    }
    for (int i = 0; i < PSR_ONEDNN_ALGORITHMS; i++)
        trial_done(&trials[i]);
    return err;
}

/* Three letters, those of an earlier step of the same shape if there is one. */
static psr_err pick_step(const psr_onednn_exec *exec, uint32_t index, const char *earlier,
                         char letters[DIRECTIONS])
{
    const psr_onednn_step *step = &exec->steps[index];
    memset(letters, 'd', DIRECTIONS);
    if (!is_candidate(exec, step))
        return PSR_OK;
    for (uint32_t i = 0; i < index; i++) {
        if (!is_conv(&exec->steps[i]))
            continue;
        if (is_candidate(exec, &exec->steps[i]) &&
            same_shape(exec, exec->steps[i].group->output, step->group->output)) {
            memcpy(letters, earlier, DIRECTIONS);
            return PSR_OK;
        }
        earlier += DIRECTIONS + 1;
    }
    for (int direction = PSR_ONEDNN_FORWARD; direction < DIRECTIONS; direction++)
        PSR_TRY(pick_direction(exec, step, (psr_onednn_direction)direction, &letters[direction]));
    return PSR_OK;
}

psr_err psr_onednn_pick(psr_onednn_exec *exec, char **ret_choices)
{
    char *choices = calloc((DIRECTIONS + 1) * (size_t)exec->graph->count + 1, 1);
    if (choices == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the algorithms");
    size_t length = 0;
    bool worth_it = work_of(exec) >= LEAST_WORK;
    for (uint32_t i = 0; worth_it && i < exec->graph->count; i++) {
        if (!is_conv(&exec->steps[i]))
            continue;
        psr_err err = pick_step(exec, i, choices, choices + length);
        if (err != PSR_OK) {
            free(choices);
            return err;
        }
        length += DIRECTIONS;
        choices[length++] = ',';
    }
    if (length > 0)
        choices[length - 1] = '\0';
    if (strspn(choices, "d,") == strlen(choices))
        choices[0] = '\0';
    *ret_choices = choices;
    return PSR_OK;
}
