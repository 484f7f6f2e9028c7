/* Carries out a graph: an operation after the other, over float32 values of its tensors. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/graph_parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct computing {
    const psr_cuda_plan *plan;
    psr_emulator_value values[PSR_CUDA_GRAPH_TENSORS];
    void *stored[PSR_CUDA_GRAPH_TENSORS]; /* the emulator's address; NULL: inner or by value */
    float numbers[PSR_CUDA_GRAPH_TENSORS];
} computing;

static bool is_half(const psr_cuda_tensor *t)
{
    return t->type == PSR_CUDA_BF16 || t->type == PSR_CUDA_FP16;
}

static void describe(const computing *c, uint32_t t, char *text, size_t size)
{
    char graph[PSR_CUDA_GRAPH_TEXT_MAX];
    psr_cuda_graph_describe(&c->plan->graph, graph, sizeof graph);
    snprintf(text, size, "graph %s uses, as tensor %u,", graph, t);
}

static void find_stored(computing *c, uint32_t t, const psr_cuda_plan_tensors *tensors)
{
    const psr_cuda_tensor *tensor = c->values[t].tensor;
    if (tensor->inner || tensor->by_value)
        return;
    char who[PSR_CUDA_GRAPH_TEXT_MAX + 64];
    describe(c, t, who, sizeof who);
    const size_t bytes = psr_emulator_count(tensor) * psr_emulator_type_bytes(tensor->type);
    c->stored[t] = psr_emulator_device_memory(tensors->at[t], bytes, who);
}

/* Where its values are: float32 that is stored is used in place. */
static void place(computing *c, uint32_t t, const psr_cuda_plan_tensors *tensors)
{
    psr_emulator_value *value = &c->values[t];
    value->tensor = &c->plan->graph.tensors[t];
    find_stored(c, t, tensors);
    if (value->tensor->by_value) {
        c->numbers[t] = tensors->numbers[t];
        value->at = &c->numbers[t];
    } else if (value->tensor->type == PSR_CUDA_INT8) {
        value->index = c->stored[t];
    } else if (c->stored[t] != NULL && !is_half(value->tensor)) {
        value->at = c->stored[t];
    } else {
        value->at = malloc(psr_emulator_count(value->tensor) * sizeof(float));
        if (value->at == NULL)
            psr_emulator_fault("no memory is left on the host");
    }
}

static void release(computing *c, uint32_t t)
{
    psr_emulator_value *value = &c->values[t];
    if (value->at != &c->numbers[t] && (void *)value->at != c->stored[t])
        free(value->at);
}

/* Of the same memory two tensors may be, one read and one written, where each value of a result
 * comes from values at its own place. */
static void refuse_overlaps(const computing *c)
{
    const psr_cuda_graph *graph = &c->plan->graph;
    bool made[PSR_CUDA_GRAPH_TENSORS] = {false}, by_points = true;
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        const psr_cuda_operation *o = &graph->operations[i];
        by_points &= o->kind == PSR_CUDA_POINTWISE;
        for (uint32_t k = o->tensor_count - psr_emulator_outputs(o); k < o->tensor_count; k++)
            made[o->tensors[k]] = true;
    }
    for (uint32_t a = 0; a < graph->tensor_count; a++)
        for (uint32_t b = 0; b < graph->tensor_count; b++) {
            if (a == b || !made[a] || c->stored[a] == NULL || c->stored[b] == NULL)
                continue;
            const psr_cuda_tensor *ta = &graph->tensors[a], *tb = &graph->tensors[b];
            const unsigned char *at_a = c->stored[a], *at_b = c->stored[b];
            const size_t bytes_a = psr_emulator_count(ta) * psr_emulator_type_bytes(ta->type);
            const size_t bytes_b = psr_emulator_count(tb) * psr_emulator_type_bytes(tb->type);
            const bool in_place = at_a == at_b && bytes_a == bytes_b && by_points && !made[b];
            /* A norm's running statistics are updated where they lie. */
            const bool statistics = at_a == at_b && bytes_a == bytes_b && ta->dims[0] == 1 &&
                                    ta->rank == 4 && graph->operations[0].kind == PSR_CUDA_NORM &&
                                    !made[b];
            if (at_a < at_b + bytes_b && at_b < at_a + bytes_a && !in_place && !statistics) {
                char who[PSR_CUDA_GRAPH_TEXT_MAX + 64];
                describe(c, a, who, sizeof who);
                psr_emulator_fault("%s memory of its tensor %u", who, b);
            }
        }
}

static void compute(const psr_cuda_operation *o, const psr_emulator_value *v, bool tf32)
{
    switch (o->kind) {
    case PSR_CUDA_CONV:
        psr_emulator_conv(&o->window, v, tf32);
        break;
    case PSR_CUDA_CONV_DATA:
        psr_emulator_conv_data(&o->window, v, tf32);
        break;
    case PSR_CUDA_CONV_WEIGHTS:
        psr_emulator_conv_weights(&o->window, v, tf32);
        break;
    case PSR_CUDA_STATISTICS:
        psr_emulator_statistics(v);
        break;
    case PSR_CUDA_NORM:
        psr_emulator_norm(v);
        break;
    case PSR_CUDA_NORM_BACKWARD:
        psr_emulator_norm_backward(v);
        break;
    case PSR_CUDA_MAX_POOL:
        psr_emulator_max_pool(&o->window, v);
        break;
    case PSR_CUDA_MAX_POOL_BACKWARD:
        psr_emulator_max_pool_backward(&o->window, v);
        break;
    case PSR_CUDA_MEAN_POOL:
        psr_emulator_mean_pool(&o->window, v);
        break;
    case PSR_CUDA_MEAN_POOL_BACKWARD:
        psr_emulator_mean_pool_backward(&o->window, v);
        break;
    case PSR_CUDA_POINTWISE:
        psr_emulator_pointwise(o->pointwise, v);
        break;
    case PSR_CUDA_MATMUL:
        psr_emulator_matmul(v, tf32);
        break;
    }
}

/* What an operation makes is rounded, and so read by later ones. */
static void store(const computing *c, uint32_t t)
{
    const psr_emulator_value *value = &c->values[t];
    if (!is_half(value->tensor))
        return;
    const size_t count = psr_emulator_count(value->tensor);
    uint16_t *rounded = c->stored[t];
    if (rounded != NULL) {
        psr_emulator_narrow(value->tensor->type, count, value->at, rounded);
        psr_emulator_widen(value->tensor->type, count, rounded, value->at);
    }
}

static void operate(computing *c, const psr_cuda_operation *o, bool *made)
{
    psr_emulator_value v[PSR_CUDA_OPERATION_TENSORS] = {{0}};
    const uint32_t inputs = o->tensor_count - psr_emulator_outputs(o);
    for (uint32_t k = 0; k < o->tensor_count; k++) {
        const uint32_t t = o->tensors[k];
        v[k] = c->values[t];
        if (k < inputs && !made[t] && is_half(v[k].tensor) && c->stored[t] != NULL)
            psr_emulator_widen(v[k].tensor->type, psr_emulator_count(v[k].tensor), c->stored[t],
                               v[k].at);
    }
    compute(o, v, c->plan->tf32);
    for (uint32_t k = inputs; k < o->tensor_count; k++) {
        store(c, o->tensors[k]);
        made[o->tensors[k]] = true;
    }
}

/* A graph may write to all of its workspace at any time, and so does this one. */
static unsigned char *take_workspace(const psr_cuda_plan *plan, void *workspace, unsigned char byte)
{
    unsigned char *memory = NULL;
    if (plan->workspace_bytes > 0) {
        memory = psr_emulator_device_memory(workspace, plan->workspace_bytes,
                                            "a graph uses, as workspace,");
        memset(memory, byte, plan->workspace_bytes);
    }
    return memory;
}

static void leave_workspace(const psr_cuda_plan *plan, unsigned char *memory, unsigned char byte)
{
    for (size_t i = 0; i < plan->workspace_bytes; i++)
        if (memory[i] != byte)
            psr_emulator_fault("a graph's workspace was written to while the graph ran");
}

static atomic_uint graphs_run;

void psr_emulator_graph_carry_out(const psr_cuda_plan *plan, const psr_cuda_plan_tensors *tensors,
                                  void *workspace)
{
    computing c = {.plan = plan};
    bool made[PSR_CUDA_GRAPH_TENSORS] = {false};
    for (uint32_t t = 0; t < plan->graph.tensor_count; t++)
        place(&c, t, tensors);
    refuse_overlaps(&c);
    const unsigned char byte = (unsigned char)atomic_fetch_add(&graphs_run, 1);
    unsigned char *memory = take_workspace(plan, workspace, byte);
    for (uint32_t i = 0; i < plan->graph.operation_count; i++)
        operate(&c, &plan->graph.operations[i], made);
    leave_workspace(plan, memory, byte);
    for (uint32_t t = 0; t < plan->graph.tensor_count; t++)
        release(&c, t);
}
