#include "model/onednn/exec.h"

#include "model/loss.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const psr_onednn_step_class *class_of(psr_op op)
{
    switch (op) {
    case PSR_OP_INPUT:
        return &psr_onednn_input;
    case PSR_OP_CONV:
        return &psr_onednn_conv;
    case PSR_OP_BATCHNORM:
        return &psr_onednn_norm;
    case PSR_OP_RELU:
        return &psr_onednn_relu;
    case PSR_OP_MAXPOOL:
        return &psr_onednn_pool;
    case PSR_OP_AVGPOOL:
        return &psr_onednn_mean;
    case PSR_OP_ADD:
        return &psr_onednn_add;
    case PSR_OP_SHORTCUT_A:
        return &psr_onednn_shortcut;
    case PSR_OP_FLATTEN:
        return &psr_onednn_flatten;
    case PSR_OP_LINEAR:
        return &psr_onednn_linear;
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
        return &psr_onednn_dropout;
    case PSR_OP_SIGMOID:
        return &psr_onednn_sigmoid;
    case PSR_OP_GATE:
        return &psr_onednn_gate;
    case PSR_OP_SCALE:
        return &psr_onednn_scale;
    case PSR_OP_GELU:
        return &psr_onednn_gelu;
    }
    assert(!"an operator that psr_op does not name");
    return NULL;
}

static psr_err plan_shared(psr_onednn_exec *exec)
{
    uint32_t *shared[] = {&exec->scratch, &exec->packed, &exec->diff_weights};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        PSR_TRY(psr_pass_buffer_add(&exec->buffers, 0, shared[i]));
        psr_pass_buffer_keep(&exec->buffers, *shared[i]);
    }
    return PSR_OK;
}

static psr_err plan(psr_onednn_exec *exec)
{
    const psr_fusion_groups *groups = exec->groups;
    uint32_t logits = exec->net->node_count - 1;
    PSR_TRY(plan_shared(exec));
    for (uint32_t i = 0; i < groups->count; i++, exec->buffers.now++)
        PSR_TRY(exec->steps[i].class->plan_forward(exec, &exec->steps[i]));
    const psr_onednn_tensor *value = psr_onednn_use(exec, logits);
    if (value->layout != PSR_ONEDNN_PLAIN || value->type != dnnl_f32)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s does not end in a linear layer",
                        exec->net->name);
    if (exec->training) {
        PSR_TRY(psr_pass_buffer_add(&exec->buffers, value->bytes, &exec->logits_gradient));
        PSR_TRY(psr_onednn_gradient_put(exec, logits, exec->logits_gradient));
        for (uint32_t i = groups->count; i-- > 0;) {
            psr_onednn_step *step = &exec->steps[i];
            exec->buffers.now++;
            step->has_gradient = exec->gradients[step->group->output].count > 0;
            if (step->has_gradient)
                PSR_TRY(step->class->plan_backward(exec, step));
        }
    }
    return psr_pass_buffers_place(&exec->buffers);
}

static psr_err open_sums(psr_onednn_exec *exec)
{
    size_t most = 1;
    for (uint32_t i = 0; i < exec->groups->count; i++) {
        const psr_norm_stop stop = psr_onednn_stop(&exec->groups->items[i]);
        if (exec->groups->items[i].op != PSR_OP_BATCHNORM)
            continue;
        const size_t count = psr_norm_stop_count(exec->net, &stop, false);
        most = count > most ? count : most;
    }
    exec->sums = calloc(most, sizeof *exec->sums);
    return exec->sums != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the sums of batch norms");
}

psr_err psr_onednn_exec_new(const psr_onednn_context *context, const psr_network *net,
                            const psr_fusion_groups *groups, const char *choices, uint32_t count,
                            bool training, psr_onednn_exec **ret_exec)
{
    psr_onednn_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for an executable");
    exec->context = context;
    exec->net = net;
    exec->groups = groups;
    exec->choices = choices;
    exec->count = count;
    exec->training = training;
    exec->steps = calloc(groups->count, sizeof *exec->steps);
    exec->values = calloc(net->node_count, sizeof *exec->values);
    exec->gradients = calloc(net->node_count, sizeof *exec->gradients);
    psr_err err = PSR_OK;
    if (exec->steps == NULL || exec->values == NULL || exec->gradients == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for an executable");
    for (uint32_t i = 0; err == PSR_OK && i < groups->count; i++)
        exec->steps[i] =
            (psr_onednn_step){.class = class_of(groups->items[i].op), .group = &groups->items[i]};
    if (err == PSR_OK && training && context->sync_norms)
        err = open_sums(exec);
    if (err == PSR_OK)
        err = plan(exec);
    if (err != PSR_OK) {
        psr_onednn_exec_free(exec);
        return err;
    }
    *ret_exec = exec;
    return PSR_OK;
}

void psr_onednn_exec_free(psr_onednn_exec *exec)
{
    if (exec == NULL)
        return;
    for (uint32_t i = 0; exec->steps != NULL && i < exec->groups->count; i++) {
        psr_onednn_step *step = &exec->steps[i];
        if (step->self != NULL && step->class->done != NULL)
            step->class->done(step);
        free(step->self);
    }
    for (uint32_t i = 0; i < exec->binding_count; i++)
        dnnl_memory_destroy(exec->bindings[i].memory);
    for (uint32_t i = 0; i < exec->desc_count; i++)
        dnnl_memory_desc_destroy(exec->descs[i]);
    psr_onednn_implementations_done(&exec->implementations);
    free(exec->bindings);
    free(exec->descs);
    psr_pass_buffers_done(&exec->buffers);
    free(exec->steps);
    free(exec->values);
    free(exec->gradients);
    free(exec->sums);
    free(exec);
}

static psr_err begin(psr_onednn_exec *exec, const psr_onednn_pass *pass)
{
    assert(pass->batch->count == exec->count);
    exec->base = pass->workspace;
    exec->batch = pass->batch;
    exec->state = pass->state;
    exec->readiness = pass->readiness;
    exec->label_smoothing = pass->label_smoothing;
    exec->backward = exec->stopped = false;
    exec->at = 0;
    return psr_onednn_bind(exec);
}

/* Both return early where the pass stops. */

static psr_err forward(psr_onednn_exec *exec)
{
    for (; exec->at < exec->groups->count; exec->at++) {
        psr_onednn_step *step = &exec->steps[exec->at];
        const psr_fusion_group *group = step->group;
        for (uint32_t node = 0; node < group->node_count && !exec->stopped; node++)
            PSR_TRY(psr_readiness_forward(exec->readiness, group->nodes[node]));
        const psr_exec_layer layer = {group->nodes[0], group->node_count, false};
        psr_readiness_layer_begins(exec->readiness);
        PSR_TRY(step->class->forward(exec, step));
        psr_readiness_layer_ends(exec->readiness, &layer);
        if (exec->stopped)
            return PSR_OK;
    }
    return PSR_OK;
}

static void add_gradients(psr_onednn_exec *exec, const psr_onednn_step *step)
{
    for (uint32_t sum = 0; sum < step->sum_count; sum++)
        psr_onednn_accumulate(exec->context->threads, exec->values[step->group->output].type,
                              psr_onednn_at(exec, step->sums[sum].into),
                              psr_onednn_at(exec, step->sums[sum].from), step->sums[sum].count);
}

static psr_err step_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const psr_exec_layer layer = {step->group->nodes[0], step->group->node_count, true};
    psr_readiness_layer_begins(exec->readiness);
    if (!exec->stopped)
        add_gradients(exec, step);
    if (step->has_gradient)
        PSR_TRY(step->class->backward(exec, step));
    psr_readiness_layer_ends(exec->readiness, &layer);
    return PSR_OK;
}

static psr_err backward(psr_onednn_exec *exec)
{
    for (; exec->at > 0; exec->at--) {
        psr_onednn_step *step = &exec->steps[exec->at - 1];
        const psr_fusion_group *group = step->group;
        if (!exec->net->nodes[group->output].fixed)
            PSR_TRY(step_backward(exec, step));
        if (exec->stopped)
            return PSR_OK;
        for (uint32_t node = group->node_count; node-- > 0;)
            PSR_TRY(psr_readiness_backward(exec->readiness, group->nodes[node], NULL));
    }
    return PSR_OK;
}

static const float *logits_of(const psr_onednn_exec *exec)
{
    return psr_onednn_data(exec, &exec->values[exec->net->node_count - 1]);
}

static psr_err advance(psr_onednn_exec *exec)
{
    if (!exec->backward) {
        PSR_TRY(forward(exec));
        if (exec->stopped)
            return PSR_OK;
        psr_loss_cross_entropy(logits_of(exec), exec->batch->labels, exec->batch->second,
                               exec->count, exec->net->classes, exec->label_smoothing,
                               exec->loss_scale, psr_onednn_at(exec, exec->logits_gradient),
                               &exec->result);
        exec->backward = true;
        exec->at = exec->groups->count;
    }
    return backward(exec);
}

psr_err psr_onednn_exec_begin(psr_onednn_exec *exec, const psr_onednn_pass *pass, float loss_scale)
{
    exec->loss_scale = loss_scale;
    return begin(exec, pass);
}

psr_err psr_onednn_exec_advance(psr_onednn_exec *exec, psr_norm_sums *ret_sums,
                                psr_pass_result *ret_result)
{
    PSR_TRY(advance(exec));
    *ret_sums = (psr_norm_sums){0};
    if (!exec->stopped) {
        *ret_result = exec->result;
        return PSR_OK;
    }
    const uint32_t at = exec->backward ? exec->at - 1 : exec->at;
    const psr_norm_stop stop = psr_onednn_stop(exec->steps[at].group);
    *ret_sums = (psr_norm_sums){exec->sums, psr_norm_stop_count(exec->net, &stop, exec->backward)};
    return PSR_OK;
}

psr_err psr_onednn_exec_train(psr_onednn_exec *exec, const psr_onednn_pass *pass, float loss_scale,
                              psr_pass_result *ret_result)
{
    psr_norm_sums sums;
    assert(exec->sums == NULL);
    PSR_TRY(psr_onednn_exec_begin(exec, pass, loss_scale));
    return psr_onednn_exec_advance(exec, &sums, ret_result);
}

psr_err psr_onednn_exec_infer(psr_onednn_exec *exec, const psr_onednn_pass *pass, float *logits,
                              psr_pass_result *ret_result)
{
    PSR_TRY(begin(exec, pass));
    PSR_TRY(forward(exec));
    psr_loss_cross_entropy(logits_of(exec), pass->batch->labels, pass->batch->second, exec->count,
                           exec->net->classes, pass->label_smoothing, 1.0f, NULL, ret_result);
    if (logits != NULL)
        memcpy(logits, logits_of(exec), (size_t)exec->count * exec->net->classes * sizeof(float));
    return PSR_OK;
}

size_t psr_onednn_exec_bytes(const psr_onednn_exec *exec)
{
    return sizeof *exec + exec->groups->count * sizeof *exec->steps +
           exec->net->node_count * (sizeof *exec->values + sizeof *exec->gradients) +
           exec->buffers.capacity * sizeof *exec->buffers.items +
           exec->binding_capacity * sizeof *exec->bindings +
           exec->implementations.capacity * sizeof *exec->implementations.items +
           exec->desc_capacity * sizeof *exec->descs;
}
