/* Plans: what the library that the emulator plays would refuse is refused, by docs/gpu.md's table
 * of what cuDNN 9.19 has no engine for, and so is what makes no sense. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/graph_parts.h"

#include <stdlib.h>

typedef struct reading {
    const psr_cuda_graph *graph;
    const psr_cuda_operation *operation;
    bool tf32;
} reading;

static const psr_cuda_tensor *tensor(const reading *r, uint32_t k)
{
    return &r->graph->tensors[r->operation->tensors[k]];
}

static bool is_half(const psr_cuda_tensor *t)
{
    return t->type == PSR_CUDA_BF16 || t->type == PSR_CUDA_FP16;
}

static bool same_shape(const psr_cuda_tensor *a, const psr_cuda_tensor *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; i < a->rank && same; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

static bool is_of_channels(const psr_cuda_tensor *t, int64_t channels)
{
    return t->type == PSR_CUDA_FLOAT32 && t->dims[1] == channels &&
           psr_emulator_count(t) == (size_t)channels;
}

/* ---- each kind; NULL: accepted ---- */

static const char *refuse_window(const reading *r, const psr_cuda_tensor *x,
                                 const psr_cuda_tensor *y)
{
    const psr_cuda_window *w = &r->operation->window;
    if (w->stride < 1 || w->height < 1 || w->width < 1 || w->pad < 0)
        return "its window has no size or stride";
    if (x->dims[0] != y->dims[0] || x->dims[2] + 2 * w->pad < w->height ||
        x->dims[3] + 2 * w->pad < w->width ||
        y->dims[2] != (x->dims[2] + 2 * w->pad - w->height) / w->stride + 1 ||
        y->dims[3] != (x->dims[3] + 2 * w->pad - w->width) / w->stride + 1)
        return "its window does not lead from one image to the other";
    return NULL;
}

static const char *refuse_conv(const reading *r, const psr_cuda_tensor *x, const psr_cuda_tensor *w,
                               const psr_cuda_tensor *y)
{
    const psr_cuda_window *window = &r->operation->window;
    if (w->dims[1] < 1 || x->dims[1] % w->dims[1] != 0 || w->dims[0] != y->dims[1] ||
        y->dims[1] % (x->dims[1] / w->dims[1]) != 0)
        return "the filter's channels are not the images'";
    if (w->dims[2] != window->height || w->dims[3] != window->width)
        return "the filter has not the window's size";
    return refuse_window(r, x, y);
}

static const char *refuse_weights(const reading *r)
{
    const psr_cuda_tensor *x = tensor(r, 0), *dw = tensor(r, 2);
    if (is_half(x) && dw->type == PSR_CUDA_FLOAT32 && !dw->inner)
        return "weight gradients of 16 bits come in 16 bits, or pass an identity";
    if (is_half(x) && dw->inner && dw->dims[1] != x->dims[1])
        return "nothing follows weight gradients of groups in 16 bits";
    if (is_half(x) && (x->dims[1] == 1 || x->dims[1] == 3))
        return "there are no weight gradients in 16 bits for one or three channels";
    return refuse_conv(r, x, dw, tensor(r, 1));
}

static const char *refuse_statistics(const reading *r)
{
    for (uint32_t i = 0; i < r->graph->operation_count; i++) {
        const psr_cuda_operation *o = &r->graph->operations[i];
        if (o->kind == PSR_CUDA_CONV && !r->tf32 &&
            r->graph->tensors[o->tensors[0]].type == PSR_CUDA_FLOAT32)
            return "a convolution in float32 gives sums of channels on tensor cores alone";
    }
    for (uint32_t k = 1; k < 3; k++)
        if (!is_of_channels(tensor(r, k), tensor(r, 0)->dims[1]))
            return "sums are float32, one for each channel";
    return NULL;
}

static const char *refuse_norm(const reading *r)
{
    const int64_t channels = tensor(r, 0)->dims[1];
    for (uint32_t k = 1; k < 12; k++) {
        if (k == 7)
            continue;
        const bool number = k == 3 || k == 6;
        if (number ? !tensor(r, k)->by_value : !is_of_channels(tensor(r, k), channels))
            return "a norm's parameters are float32, one for each channel";
    }
    return same_shape(tensor(r, 0), tensor(r, 7)) ? NULL : "a norm's images differ in shape";
}

static const char *refuse_norm_backward(const reading *r)
{
    if (tensor(r, 1)->inner)
        return "a norm's backward pass reads stored gradients, no inner ones";
    for (uint32_t k = 2; k < 8; k++)
        if (k != 5 && !is_of_channels(tensor(r, k), tensor(r, 0)->dims[1]))
            return "a norm's parameters are float32, one for each channel";
    if (!same_shape(tensor(r, 0), tensor(r, 1)) || !same_shape(tensor(r, 0), tensor(r, 5)))
        return "a norm's images differ in shape";
    return NULL;
}

static const char *refuse_pool(const reading *r, const psr_cuda_tensor *x, const psr_cuda_tensor *y,
                               const psr_cuda_tensor *index)
{
    if (x->dims[1] != y->dims[1])
        return "a pool's images differ in channels";
    if (index != NULL && (index->type != PSR_CUDA_INT8 || !same_shape(index, y)))
        return "a pool's index has 8 bits and the shape of its result";
    if (r->operation->window.height * r->operation->window.width > 127 && index != NULL)
        return "a pool's index has 8 bits";
    return refuse_window(r, x, y);
}

static const char *refuse_mean_pool(const reading *r, const psr_cuda_tensor *x,
                                    const psr_cuda_tensor *y)
{
    if (r->operation->window.pad > 0)
        return "means are taken without padding";
    return refuse_pool(r, x, y, NULL);
}

static const char *refuse_pointwise(const reading *r)
{
    const bool two = psr_cuda_reads_two(r->operation->pointwise);
    const psr_cuda_tensor *x = tensor(r, 0), *b = tensor(r, two ? 1 : 0);
    const psr_cuda_tensor *y = tensor(r, two ? 2 : 1);
    if (!same_shape(x, y))
        return "its value and its result differ in shape";
    if (r->graph->operation_count == 1 && y->rank == 4 &&
        psr_emulator_count(y) == (size_t)y->dims[0])
        return "there is no engine for one number a sample";
    if (same_shape(b, y) || psr_emulator_count(b) == 1)
        return NULL;
    const uint32_t fastest = y->rank == 4 ? 1 : 2;
    if (b->rank != y->rank || b->dims[fastest] != y->dims[fastest] ||
        psr_emulator_count(b) != (size_t)y->dims[fastest])
        return "there is no engine for values of each sample and channel";
    return y->strides[fastest] == 1 ? NULL : "its result lies by columns";
}

static const char *refuse_matmul(const reading *r)
{
    const psr_cuda_tensor *a = tensor(r, 0), *b = tensor(r, 1), *c = tensor(r, 2);
    if (a->type == PSR_CUDA_FLOAT32 && !r->tf32)
        return "there are no products of float32 without TF32";
    if (a->rank != 3 || b->rank != 3 || c->rank != 3 || a->dims[2] != b->dims[1] ||
        a->dims[1] != c->dims[1] || b->dims[2] != c->dims[2] || a->type != b->type)
        return "its matrices do not fit";
    return NULL;
}

static const char *refuse_operation(const reading *r)
{
    switch (r->operation->kind) {
    case PSR_CUDA_CONV:
        return refuse_conv(r, tensor(r, 0), tensor(r, 1), tensor(r, 2));
    case PSR_CUDA_CONV_DATA:
        return refuse_conv(r, tensor(r, 2), tensor(r, 1), tensor(r, 0));
    case PSR_CUDA_CONV_WEIGHTS:
        return refuse_weights(r);
    case PSR_CUDA_STATISTICS:
        return refuse_statistics(r);
    case PSR_CUDA_NORM:
        return refuse_norm(r);
    case PSR_CUDA_NORM_BACKWARD:
        return refuse_norm_backward(r);
    case PSR_CUDA_MAX_POOL:
        return refuse_pool(r, tensor(r, 0), tensor(r, 1),
                           r->operation->tensor_count > 2 ? tensor(r, 2) : NULL);
    case PSR_CUDA_MAX_POOL_BACKWARD:
        return refuse_pool(r, tensor(r, 2), tensor(r, 0), tensor(r, 1));
    case PSR_CUDA_MEAN_POOL:
        return refuse_mean_pool(r, tensor(r, 0), tensor(r, 1));
    case PSR_CUDA_MEAN_POOL_BACKWARD:
        return refuse_mean_pool(r, tensor(r, 1), tensor(r, 0));
    case PSR_CUDA_POINTWISE:
        return refuse_pointwise(r);
    case PSR_CUDA_MATMUL:
        return refuse_matmul(r);
    }
    return "it is of no kind";
}

/* ---- the whole ---- */

static bool has_its_tensors(const psr_cuda_operation *o)
{
    static const uint32_t counts[] = {3, 3, 3, 3, 12, 8, 2, 3, 2, 2, 2, 3};
    uint32_t count = counts[o->kind];
    if (o->kind == PSR_CUDA_POINTWISE)
        count += psr_cuda_reads_two(o->pointwise);
    return o->tensor_count == count || (o->kind == PSR_CUDA_MAX_POOL && o->tensor_count == 3);
}

uint32_t psr_emulator_outputs(const psr_cuda_operation *o)
{
    static const uint32_t outputs[] = {1, 1, 1, 2, 5, 3, 1, 1, 1, 1, 1, 1};
    return outputs[o->kind] + (o->kind == PSR_CUDA_MAX_POOL && o->tensor_count == 3);
}

/* Inner tensors are made before they are read, and no tensor is made twice. */
static const char *refuse_flow(const psr_cuda_graph *graph)
{
    bool made[PSR_CUDA_GRAPH_TENSORS] = {false};
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        const psr_cuda_operation *o = &graph->operations[i];
        const uint32_t inputs = o->tensor_count - psr_emulator_outputs(o);
        for (uint32_t k = 0; k < o->tensor_count; k++) {
            const uint32_t t = o->tensors[k];
            if (t >= graph->tensor_count)
                return "an operation has a tensor that the graph lacks";
            if (k < inputs && graph->tensors[t].inner && !made[t])
                return "an inner tensor is read before it is made";
            if (k >= inputs && (made[t] || graph->tensors[t].by_value))
                return "a tensor is made twice";
            made[t] |= k >= inputs;
        }
    }
    return NULL;
}

static bool is_packed(const psr_cuda_tensor *t)
{
    size_t last = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] < 1)
            return false;
        last += (size_t)((t->dims[i] - 1) * t->strides[i]);
    }
    return last + 1 == psr_emulator_count(t);
}

static const char *refuse_graph(const psr_cuda_graph *graph, bool tf32)
{
    if (graph->operation_count == 0)
        return "it has no operation";
    for (uint32_t t = 0; t < graph->tensor_count; t++)
        if (!is_packed(&graph->tensors[t]))
            return "a tensor has holes";
    for (uint32_t i = 0; i < graph->operation_count; i++)
        if (!has_its_tensors(&graph->operations[i]))
            return "an operation has not the tensors that it takes";
    const char *reason = refuse_flow(graph);
    for (uint32_t i = 0; i < graph->operation_count && reason == NULL; i++)
        reason = refuse_operation(&(reading){graph, &graph->operations[i], tf32});
    return reason;
}

/* Something, so that whoever forgets a workspace, or gives one to two graphs at once, is found:
 * engines of convolutions take some. */
static size_t workspace_of(const psr_cuda_graph *graph, size_t limit)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < graph->operation_count; i++)
        if (graph->operations[i].kind <= PSR_CUDA_CONV_WEIGHTS)
            bytes += 4096 + 256 * (size_t)graph->tensors[graph->operations[i].tensors[2]].dims[1];
    return bytes <= limit ? bytes : 0;
}

static void free_plan(void *object)
{
    psr_emulator_plan_free(object);
}

psr_err psr_emulator_plan_new(psr_cuda_device *device, const psr_cuda_graph *graph,
                              const psr_cuda_plan_limits *limits, psr_cuda_plan **ret_plan)
{
    PSR_TRY(psr_cuda_graph_check(graph));
    const char *reason = refuse_graph(graph, limits->tf32);
    if (reason != NULL) {
        char text[PSR_CUDA_GRAPH_TEXT_MAX];
        psr_cuda_graph_describe(graph, text, sizeof text);
        return psr_fail(PSR_ERR_UNSUPPORTED, "the emulated library has no engine for %s: %s", text,
                        reason);
    }
    psr_cuda_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a plan");
    plan->graph = *graph;
    plan->tf32 = limits->tf32;
    plan->workspace_bytes = workspace_of(graph, limits->workspace_bytes);
    psr_emulator_keep(device, PSR_EMULATOR_PLAN, &plan->made, free_plan);
    *ret_plan = plan;
    return PSR_OK;
}

void psr_emulator_plan_free(psr_cuda_plan *plan)
{
    if (plan == NULL)
        return;
    psr_emulator_forget(&plan->made);
    free(plan);
}

size_t psr_emulator_plan_workspace(const psr_cuda_plan *plan)
{
    return plan->workspace_bytes;
}

/* It has one engine for each kind of graph. */
int64_t psr_emulator_plan_engine(const psr_cuda_plan *plan)
{
    return plan->graph.operations[0].kind;
}
