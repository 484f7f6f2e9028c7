/* Direct against Winograd (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016), which
 * does a 3x3 convolution in up to 4 times fewer multiplications, but moves more memory and rounds more.
 *
 * Only the backward pass may have it. Its rounding in the forward pass goes through all later layers and
 * back: where every 3x3 convolution has it there too, the error of ResNet-18's gradients at 32 px is 2.4
 * times that of PyTorch's float32 (median over the tensors, against float64), and ResNet-50's at 224 px 1.7
 * times; in the backward pass alone it is 1.1 and 0.96 times. The numbers come before the 5% of a step.
 *
 * Each shape is timed once, however many layers have it. The two algorithms take turns and the least time of
 * each counts, so that a neighbour on the machine, who can only make things slower, has to hit one of them
 * every time to mislead. Winograd has to win clearly. */
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

enum { DIRECT, WINOGRAD, CANDIDATES };
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

/* A primitive to be timed, its arguments one after the other in an arena of its own. */
typedef struct trial {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[6];
    int arg_count;
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

static size_t floats_of(const_dnnl_primitive_desc_t pd, int memory)
{
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(pd, memories[memory].query, 0);
    size_t bytes = desc == NULL ? 0 : dnnl_memory_desc_get_size(desc);
    return (bytes + 4095) / 4096 * (4096 / sizeof(float));
}

/* The arena is fresh and therefore zero: what is timed does not depend on values. */
static psr_err trial_init(trial *t, const psr_onednn_exec *exec, const_dnnl_primitive_desc_t pd)
{
    size_t length = 0;
    *t = (trial){0};
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

static psr_err trial_run(trial *t, const psr_onednn_exec *exec, bool warm_up)
{
    double began_s = psr_clock_s();
    dnnl_status_t status = dnnl_primitive_execute(t->primitive, exec->context->stream, t->arg_count, t->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(exec->context->stream);
    double took_s = psr_clock_s() - began_s;
    if (!warm_up && (t->best_s == 0 || took_s < t->best_s))
        t->best_s = took_s;
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a trial", exec->net->name);
}

static psr_err race(trial trials[CANDIDATES], const psr_onednn_exec *exec)
{
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < CANDIDATES; i++)
            PSR_TRY(trial_run(&trials[i], exec, round == 0));
    return PSR_OK;
}

/* The letter of one direction of a step's convolution. */
static psr_err pick_direction(const psr_onednn_exec *exec, const psr_onednn_step *step,
                              psr_onednn_direction direction, char *ret_letter)
{
    static const dnnl_alg_kind_t algorithms[CANDIDATES] = {dnnl_convolution_direct,
                                                           dnnl_convolution_winograd};
    dnnl_primitive_desc_t pds[CANDIDATES] = {NULL};
    trial trials[CANDIDATES] = {{0}};
    psr_err err = PSR_OK;
    int count = 0;
    while (count < CANDIDATES &&
           psr_onednn_conv_create(exec, step, direction, algorithms[count], &pds[count]))
        count++;
    if (count == CANDIDATES) {
        for (int i = 0; err == PSR_OK && i < CANDIDATES; i++)
            err = trial_init(&trials[i], exec, pds[i]);
        if (err == PSR_OK)
            err = race(trials, exec);
        if (err == PSR_OK && trials[WINOGRAD].best_s < CLEARLY * trials[DIRECT].best_s)
            *ret_letter = 'w';
    }
    for (int i = 0; i < CANDIDATES; i++) {
        trial_done(&trials[i]);
        if (pds[i] != NULL)
            dnnl_primitive_desc_destroy(pds[i]);
    }
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
    for (int direction = PSR_ONEDNN_BACKWARD_DATA; direction < DIRECTIONS; direction++)
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
    if (strchr(choices, 'w') == NULL)
        choices[0] = '\0';
    *ret_choices = choices;
    return PSR_OK;
}
