#include "model/cuda/graph.h"

#include "base/text/text.h"

#include <inttypes.h>
#include <string.h>

void psr_cuda_graph_begin(psr_cuda_graph *graph)
{
    memset(graph, 0, sizeof *graph);
}

/* ---- tensors ---- */

static uint32_t add_tensor(psr_cuda_graph *graph, const psr_cuda_tensor *tensor)
{
    if (graph->tensor_count == PSR_CUDA_GRAPH_TENSORS) {
        graph->failed = true;
        return 0;
    }
    graph->tensors[graph->tensor_count] = *tensor;
    return graph->tensor_count++;
}

uint32_t psr_cuda_image(psr_cuda_graph *graph, psr_cuda_type type, int64_t n, int64_t c, int64_t h,
                        int64_t w)
{
    const psr_cuda_tensor tensor = {
        .type = type, .rank = 4, .dims = {n, c, h, w}, .strides = {h * w * c, 1, w * c, c}};
    return add_tensor(graph, &tensor);
}

uint32_t psr_cuda_channels(psr_cuda_graph *graph, int64_t channels)
{
    return psr_cuda_image(graph, PSR_CUDA_FLOAT32, 1, channels, 1, 1);
}

uint32_t psr_cuda_number(psr_cuda_graph *graph)
{
    const uint32_t number = psr_cuda_image(graph, PSR_CUDA_FLOAT32, 1, 1, 1, 1);
    graph->tensors[number].by_value = true;
    return number;
}

uint32_t psr_cuda_matrix(psr_cuda_graph *graph, psr_cuda_type type, int64_t rows, int64_t columns,
                         bool transposed)
{
    psr_cuda_tensor tensor = {.type = type, .rank = 3, .dims = {1, rows, columns}};
    tensor.strides[0] = rows * columns;
    tensor.strides[1] = transposed ? 1 : columns;
    tensor.strides[2] = transposed ? rows : 1;
    return add_tensor(graph, &tensor);
}

uint32_t psr_cuda_like(psr_cuda_graph *graph, uint32_t like, psr_cuda_type type)
{
    psr_cuda_tensor tensor = graph->tensors[like];
    tensor.type = type;
    tensor.inner = false;
    return add_tensor(graph, &tensor);
}

uint32_t psr_cuda_inner(psr_cuda_graph *graph, uint32_t like)
{
    const uint32_t inner = psr_cuda_like(graph, like, PSR_CUDA_FLOAT32);
    graph->tensors[inner].inner = true;
    return inner;
}

/* ---- operations ---- */

void psr_cuda_operate(psr_cuda_graph *graph, psr_cuda_operation_kind kind,
                      const psr_cuda_window *window, const uint32_t *tensors, uint32_t count)
{
    if (graph->operation_count == PSR_CUDA_GRAPH_OPERATIONS || count > PSR_CUDA_OPERATION_TENSORS) {
        graph->failed = true;
        return;
    }
    psr_cuda_operation *operation = &graph->operations[graph->operation_count++];
    operation->kind = kind;
    if (window != NULL)
        operation->window = *window;
    memcpy(operation->tensors, tensors, count * sizeof *tensors);
    operation->tensor_count = count;
}

bool psr_cuda_reads_two(psr_cuda_pointwise mode)
{
    return mode != PSR_CUDA_IDENTITY && mode != PSR_CUDA_RELU && mode != PSR_CUDA_SIGMOID &&
           mode != PSR_CUDA_GELU;
}

void psr_cuda_point(psr_cuda_graph *graph, psr_cuda_pointwise mode, uint32_t x, uint32_t b,
                    uint32_t y)
{
    const uint32_t one[] = {x, y}, two[] = {x, b, y};
    const bool reads_two = psr_cuda_reads_two(mode);
    psr_cuda_operate(graph, PSR_CUDA_POINTWISE, NULL, reads_two ? two : one, reads_two ? 3 : 2);
    if (!graph->failed)
        graph->operations[graph->operation_count - 1].pointwise = mode;
}

psr_err psr_cuda_graph_check(const psr_cuda_graph *graph)
{
    if (graph->failed)
        return psr_fail(PSR_ERR_UNSUPPORTED, "a graph has more than %d tensors or %d operations",
                        PSR_CUDA_GRAPH_TENSORS, PSR_CUDA_GRAPH_OPERATIONS);
    return PSR_OK;
}

/* ---- text ---- */

static const char *const types[] = {"fp32", "bf16", "fp16", "int8"};

static void describe_tensor(psr_text_end *end, const psr_cuda_tensor *t)
{
    psr_text_add(end, " %s[", types[t->type]);
    for (uint32_t i = 0; i < t->rank; i++)
        psr_text_add(end, "%s%" PRId64, i > 0 ? "," : "", t->dims[i]);
    psr_text_add(end, "]");
}

static const char *name_of(const psr_cuda_operation *o)
{
    static const char *const kinds[] = {"conv",
                                        "conv-data",
                                        "conv-weights",
                                        "statistics",
                                        "norm",
                                        "norm-backward",
                                        "max-pool",
                                        "max-pool-backward",
                                        "mean-pool",
                                        "mean-pool-backward",
                                        "",
                                        "matmul"};
    static const char *const modes[] = {"identity",      "add",     "multiply",         "relu",
                                        "relu-backward", "sigmoid", "sigmoid-backward", "gelu",
                                        "gelu-backward"};
    return o->kind == PSR_CUDA_POINTWISE ? modes[o->pointwise] : kinds[o->kind];
}

void psr_cuda_graph_describe(const psr_cuda_graph *graph, char *text, size_t size)
{
    psr_text_end end = {text, size};
    text[0] = '\0';
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        const psr_cuda_operation *o = &graph->operations[i];
        psr_text_add(&end, "%s%s", i > 0 ? " + " : "", name_of(o));
        for (uint32_t k = 0; i == 0 && k < o->tensor_count && k < 2; k++)
            describe_tensor(&end, &graph->tensors[o->tensors[k]]);
        if (o->window.stride > 1)
            psr_text_add(&end, " stride %" PRId64, o->window.stride);
    }
}

static void spell_tensor(psr_text_end *end, const psr_cuda_tensor *t)
{
    psr_text_add(end, "%s", types[t->type]);
    for (uint32_t i = 0; i < t->rank; i++)
        psr_text_add(end, " %" PRId64 ":%" PRId64, t->dims[i], t->strides[i]);
    psr_text_add(end, "%s%s\n", t->inner ? " inner" : "", t->by_value ? " by-value" : "");
}

static void spell_operation(psr_text_end *end, const psr_cuda_operation *o)
{
    const psr_cuda_window *w = &o->window;
    psr_text_add(end, "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " of", name_of(o),
                 w->height, w->width, w->stride, w->pad);
    for (uint32_t i = 0; i < o->tensor_count; i++)
        psr_text_add(end, " %" PRIu32, o->tensors[i]);
    psr_text_add(end, "\n");
}

void psr_cuda_graph_spell(const psr_cuda_graph *graph, char *text, size_t size)
{
    psr_text_end end = {text, size};
    text[0] = '\0';
    for (uint32_t i = 0; i < graph->tensor_count; i++)
        spell_tensor(&end, &graph->tensors[i]);
    for (uint32_t i = 0; i < graph->operation_count; i++)
        spell_operation(&end, &graph->operations[i]);
}
