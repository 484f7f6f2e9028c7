/* Direct against Winograd, which does a 3x3 convolution in up to 4 times fewer multiplications, but
 * moves more memory and rounds more. There are two: oneDNN's, for AVX-512 alone and in version 2
 * alone, and our own (winograd.h).
 *
 * What rounds too much is no candidate; the numbers come before a few percent of a step. The
 * measure is the error of a network's first gradients over that of PyTorch's float32, both against
 * float64 (tests/golden), median over the tensors; it is to stay below 2. ResNet-18 at 32 px: 1.0
 * when all is direct; with oneDNN's Winograd in the backward pass 1.1, in the forward pass too,
 * where its rounding goes through all later layers and back, 2.4; with our own in both 1.1. So
 * oneDNN's may have the backward pass alone, and our own what winograd.h says. In bf16, where all
 * values are rounded to 8 bits anyway, the measure is that of the direct one: ResNet-18 at 48 px
 * has gradients 1.08 times as far from the reference's with our own in both. */
#include "model/onednn/choice/pick.h"

#include "model/onednn/choice/rule.h"
#include "model/onednn/choice/trial.h"

#include <stdlib.h>
#include <string.h>

/* Below this many multiplications and additions in a step, seconds of training are too few to win
 * back. */
#define LEAST_WORK 5e9
#define ROUNDS 3
/* Winograd has to win clearly. */
#define CLEARLY 0.9

enum { DIRECTIONS = PSR_ONEDNN_BACKWARD_WEIGHTS + 1 };

static bool is_conv(const psr_onednn_step *step)
{
    return step->group->op == PSR_OP_CONV;
}

/* Winograd is for 3x3 convolutions of stride 1 in one group, in bf16 where our own fits. */
static bool is_candidate(const psr_onednn_exec *exec, const psr_onednn_step *step)
{
    const psr_network_node *node = &exec->net->nodes[step->group->output];
    return is_conv(step) && node->kernel == 3 && node->stride == 1 && node->groups == 1;
}

/* Multiplications and additions of a training step's convolutions: three products each. */
static double work_of(const psr_onednn_exec *exec)
{
    double work = 0;
    for (uint32_t i = 0; i < exec->groups->count; i++) {
        if (!is_conv(&exec->steps[i]))
            continue;
        const psr_network_node *node = &exec->net->nodes[exec->steps[i].group->output];
        const uint32_t *w = exec->net->params.tensors[node->weight].shape;
        work += 6.0 * exec->count * node->height * node->width * w[0] * w[1] * w[2] * w[3];
    }
    return work;
}

static bool same_shape(const psr_onednn_exec *exec, uint32_t a, uint32_t b)
{
    const psr_network_node *x = &exec->net->nodes[a], *y = &exec->net->nodes[b];
    const psr_onednn_tensor *x_in = &exec->values[x->input[0]], *y_in = &exec->values[y->input[0]];
    return x->channels == y->channels && x->height == y->height && x->width == y->width &&
           x->kernel == y->kernel && x->stride == y->stride && x->pad == y->pad &&
           x->groups == y->groups && x_in->c == y_in->c && x_in->h == y_in->h &&
           x_in->w == y_in->w && x_in->layout == y_in->layout &&
           exec->values[a].layout == exec->values[b].layout &&
           psr_onednn_wants_gradient(exec, x->input[0]) ==
               psr_onednn_wants_gradient(exec, y->input[0]);
}

bool psr_onednn_may_take(const psr_onednn_exec *exec, const psr_onednn_step *step,
                         psr_onednn_direction direction, psr_onednn_algorithm algorithm)
{
    const uint32_t weight = exec->net->nodes[step->group->output].weight;
    const uint32_t *shape = exec->net->params.tensors[weight].shape;
    const bool rounds_most = direction == PSR_ONEDNN_FORWARD && exec->context->type == dnnl_f32;
    const uint32_t least =
        rounds_most ? PSR_WINOGRAD_FORWARD_CHANNELS : PSR_WINOGRAD_BACKWARD_CHANNELS;
    switch (algorithm) {
    case PSR_ONEDNN_WINOGRAD:
        return direction != PSR_ONEDNN_FORWARD;
    case PSR_ONEDNN_OWN_WINOGRAD:
        return shape[0] >= least && shape[1] >= least;
    default:
        return true;
    }
}

/* Whether the convolution can be computed so, other than by loops. */
static bool exists(const psr_onednn_exec *exec, const psr_onednn_step *step,
                   psr_onednn_direction direction, psr_onednn_algorithm algorithm)
{
    psr_winograd winograd;
    dnnl_primitive_desc_t pd;
    if (!psr_onednn_may_take(exec, step, direction, algorithm))
        return false;
    if (algorithm == PSR_ONEDNN_OWN_WINOGRAD)
        return psr_onednn_conv_winograd(exec, step, &winograd);
    if (!psr_onednn_conv_create(exec, step, direction, algorithm, &pd))
        return false;
    dnnl_primitive_desc_destroy(pd);
    return true;
}

psr_err psr_onednn_decide_by_rule(const psr_onednn_exec *exec, const psr_onednn_step *step,
                                  psr_onednn_direction direction,
                                  psr_onednn_algorithm *ret_algorithm)
{
    const psr_network_node *node = &exec->net->nodes[step->group->output];
    const uint32_t *w = exec->net->params.tensors[node->weight].shape;
    const psr_conv_shape shape = {.images = exec->count,
                                  .height = node->height,
                                  .width = node->width,
                                  .in = w[1],
                                  .out = w[0],
                                  .threads = exec->context->threads,
                                  .bf16 = exec->context->type == dnnl_bf16};
    bool exist[PSR_ONEDNN_ALGORITHMS];
    for (int i = 0; i < PSR_ONEDNN_ALGORITHMS; i++)
        exist[i] = exists(exec, step, direction, (psr_onednn_algorithm)i);
    *ret_algorithm = psr_onednn_rule(&shape, direction, exist);
    return PSR_OK;
}

/* Direct, unless another one is clearly faster. */
psr_err psr_onednn_decide_by_time(const psr_onednn_exec *exec, const psr_onednn_step *step,
                                  psr_onednn_direction direction,
                                  psr_onednn_algorithm *ret_algorithm)
{
    *ret_algorithm = PSR_ONEDNN_DIRECT;
    if (work_of(exec) < LEAST_WORK)
        return PSR_OK;
    double took_s[PSR_ONEDNN_ALGORITHMS];
    PSR_TRY(psr_onednn_trial(exec, step, direction, ROUNDS, took_s));
    double limit_s = CLEARLY * took_s[PSR_ONEDNN_DIRECT];
    for (int i = PSR_ONEDNN_DIRECT + 1; i < PSR_ONEDNN_ALGORITHMS; i++)
        if (took_s[i] > 0 && took_s[i] < limit_s) {
            *ret_algorithm = (psr_onednn_algorithm)i;
            limit_s = took_s[i];
        }
    return PSR_OK;
}

/* Three letters, those of an earlier step of the same shape if there is one. */
static psr_err pick_step(const psr_onednn_exec *exec, uint32_t index, psr_onednn_decide *decide,
                         const char *earlier, char letters[DIRECTIONS])
{
    const psr_onednn_step *step = &exec->steps[index];
    memset(letters, psr_onednn_letter(PSR_ONEDNN_DIRECT), DIRECTIONS);
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
    for (int direction = PSR_ONEDNN_FORWARD; direction < DIRECTIONS; direction++) {
        psr_onednn_algorithm algorithm;
        PSR_TRY(decide(exec, step, (psr_onednn_direction)direction, &algorithm));
        letters[direction] = psr_onednn_letter(algorithm);
    }
    return PSR_OK;
}

psr_err psr_onednn_pick(const psr_onednn_exec *exec, psr_onednn_decide *decide, char **ret_choices)
{
    char *choices = calloc((DIRECTIONS + 1) * (size_t)exec->groups->count + 1, 1);
    if (choices == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the algorithms");
    size_t length = 0;
    for (uint32_t i = 0; i < exec->groups->count; i++) {
        if (!is_conv(&exec->steps[i]))
            continue;
        psr_err err = pick_step(exec, i, decide, choices, choices + length);
        if (err != PSR_OK) {
            free(choices);
            return err;
        }
        length += DIRECTIONS;
        choices[length++] = ',';
    }
    if (length > 0)
        choices[length - 1] = '\0';
    *ret_choices = choices;
    return PSR_OK;
}
