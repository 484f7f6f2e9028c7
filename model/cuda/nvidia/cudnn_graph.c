#include "model/cuda/nvidia/cudnn_graph.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_BYTES 16 /* of each tensor, in the device's memory */

psr_err psr_cudnn_check(const psr_cuda_wall *wall, cudnnStatus_t status, const char *what)
{
    char words[256] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return PSR_OK;
    wall->cudnnGetLastErrorString(words, sizeof words);
    words[strcspn(words, "\n")] = '\0';
    const psr_err err = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED
                            ? PSR_ERR_UNSUPPORTED
                            : PSR_ERR_COMPUTE;
    return psr_fail(err, "cuDNN: %s: %s%s%s", what, wall->cudnnGetErrorString(status),
                    words[0] ? ": " : "", words);
}

static psr_err get_text(const psr_cuda_wall *wall, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, const char *what, int64_t room, char *to,
                        int64_t *ret_bytes)
{
    return psr_cudnn_check(
        wall,
        wall->cudnnBackendGetAttribute(descriptor, name, CUDNN_TYPE_CHAR, room, ret_bytes, to),
        what);
}

/* cuDNN tells the size where there is no room. */
psr_err psr_cudnn_read_text(const psr_cuda_wall *wall, cudnnBackendDescriptor_t descriptor,
                            cudnnBackendAttributeName_t name, size_t most, const char *what,
                            char **ret_text, size_t *ret_bytes)
{
    int64_t room = 0, bytes = 0;
    PSR_TRY(get_text(wall, descriptor, name, what, 0, NULL, &room));
    if (room <= 0 || (uint64_t)room > most)
        return psr_fail(PSR_ERR_COMPUTE, "%s: cuDNN has %lld bytes of them", what, (long long)room);
    char *text = malloc((size_t)room + 1);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", what);
    psr_err err = get_text(wall, descriptor, name, what, room, text, &bytes);
    if (err == PSR_OK && (bytes <= 0 || bytes > room))
        err =
            psr_fail(PSR_ERR_COMPUTE, "%s: cuDNN wrote %lld bytes of them", what, (long long)bytes);
    if (err != PSR_OK) {
        free(text);
        return err;
    }
    text[bytes] = '\0';
    *ret_text = text;
    *ret_bytes = (size_t)bytes;
    return PSR_OK;
}

/* ---- descriptors ---- */

/* One that is being made. The first failure stays, and later calls do nothing. */
typedef struct making {
    const psr_cuda_wall *wall;
    cudnnBackendDescriptor_t descriptor;
    const char *what;
    psr_err err;
} making;

static making make(psr_cudnn_graph *g, cudnnBackendDescriptorType_t type, const char *what)
{
    making m = {.wall = g->wall, .what = what};
    m.err =
        psr_cudnn_check(g->wall, g->wall->cudnnBackendCreateDescriptor(type, &m.descriptor), what);
    if (m.err == PSR_OK)
        g->made[g->made_count++] = m.descriptor;
    return m;
}

static void set(making *m, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values)
{
    if (m->err == PSR_OK)
        m->err = psr_cudnn_check(
            m->wall, m->wall->cudnnBackendSetAttribute(m->descriptor, name, type, count, values),
            m->what);
}

static void set_descriptor(making *m, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(m, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static psr_err finish(making *m)
{
    if (m->err == PSR_OK)
        m->err = psr_cudnn_check(m->wall, m->wall->cudnnBackendFinalize(m->descriptor), m->what);
    return m->err;
}

/* ---- tensors ---- */

static cudnnDataType_t data_type(psr_cuda_type type)
{
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF,
                                            CUDNN_DATA_INT8};
    return types[type];
}

static psr_err make_tensor(psr_cudnn_graph *g, const psr_cuda_tensor *t, int64_t id)
{
    const cudnnDataType_t type = data_type(t->type);
    const int64_t alignment = ALIGNMENT_BYTES;
    making m = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    set(&m, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(&m, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank, t->dims);
    set(&m, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank, t->strides);
    set(&m, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(&m, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(&m, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &t->inner);
    if (t->by_value)
        set(&m, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &t->by_value);
    return finish(&m);
}

/* ---- operations ---- */

/* All sums are float32. */
static const cudnnDataType_t sums = CUDNN_DATA_FLOAT;

/* Sets the operation's tensors, in their order, by the names of their attributes. The graph's
 * tensors are the first descriptors that were made. */
static void set_tensors(making *m, const psr_cudnn_graph *g, const psr_cuda_operation *o,
                        const cudnnBackendAttributeName_t *names)
{
    for (uint32_t i = 0; i < o->tensor_count; i++)
        set_descriptor(m, names[i], g->made[o->tensors[i]]);
}

static psr_err make_window_of_conv(psr_cudnn_graph *g, const psr_cuda_window *w,
                                   cudnnBackendDescriptor_t *ret_window)
{
    const int64_t spatial = 2, one[] = {1, 1}, pad[] = {w->pad, w->pad};
    const int64_t stride[] = {w->stride, w->stride};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    making m = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution's window");
    set(&m, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(&m, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(&m, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(&m, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(&m, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, one);
    set(&m, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    *ret_window = m.descriptor;
    return finish(&m);
}

/* The names of attributes of the three operations of a convolution. */
typedef struct conv_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t window, alpha, beta, tensors[3];
} conv_names;

static psr_err make_conv(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const conv_names names[] = {
        [PSR_CUDA_CONV] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                           {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
        [PSR_CUDA_CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX}},
        [PSR_CUDA_CONV_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                   {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}},
    };
    const conv_names *n = &names[o->kind];
    const float one = 1, zero = 0; /* written, not added */
    cudnnBackendDescriptor_t window = NULL;
    PSR_TRY(make_window_of_conv(g, &o->window, &window));
    making m = make(g, n->operation, "a convolution");
    set_descriptor(&m, n->window, window);
    set_tensors(&m, g, o, n->tensors);
    set(&m, n->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(&m, n->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    return finish(&m);
}

static psr_err make_statistics(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_GENSTATS_XDESC,
                                                        CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
                                                        CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC};
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    making m = make(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, "sums of channels");
    set_tensors(&m, g, o, names);
    set(&m, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    return finish(&m);
}

static psr_err make_norm(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
    };
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
    making m = make(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "batch norm");
    set(&m, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    set_tensors(&m, g, o, names);
    return finish(&m);
}

static psr_err make_norm_backward(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,       CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,   CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,  CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
    };
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    making m = make(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "batch norm backward");
    set(&m, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    set_tensors(&m, g, o, names);
    return finish(&m);
}

static psr_err make_window_of_pool(psr_cudnn_graph *g, const psr_cuda_window *w, bool max,
                                   cudnnBackendDescriptor_t *ret_window)
{
    const int64_t spatial = 2;
    const cudnnFraction_t pad[] = {{w->pad, 1}, {w->pad, 1}};
    const cudnnFraction_t stride[] = {{w->stride, 1}, {w->stride, 1}};
    const cudnnFraction_t window[] = {{w->height, 1}, {w->width, 1}};
    const cudnnResampleMode_t mode =
        max ? CUDNN_RESAMPLE_MAXPOOL : CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
    const cudnnPaddingMode_t padding = max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    making m = make(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, "a pool's window");
    set(&m, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode);
    set(&m, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(&m, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding);
    set(&m, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(&m, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, 2, window);
    set(&m, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, 2, stride);
    set(&m, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, 2, pad);
    set(&m, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, 2, pad);
    *ret_window = m.descriptor;
    return finish(&m);
}

static psr_err make_pool(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnBackendAttributeName_t forward[] = {
        CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC,
        CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC};
    static const cudnnBackendAttributeName_t max_backward[] = {
        CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC,
        CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC};
    static const cudnnBackendAttributeName_t mean_backward[] = {
        CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC};
    const bool max = o->kind == PSR_CUDA_MAX_POOL || o->kind == PSR_CUDA_MAX_POOL_BACKWARD;
    const bool is_forward = o->kind == PSR_CUDA_MAX_POOL || o->kind == PSR_CUDA_MEAN_POOL;
    cudnnBackendDescriptor_t window = NULL;
    PSR_TRY(make_window_of_pool(g, &o->window, max, &window));
    if (is_forward) {
        making m = make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, "a pool");
        set_descriptor(&m, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, window);
        set_tensors(&m, g, o, forward);
        return finish(&m);
    }
    making m = make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, "a pool backward");
    set_descriptor(&m, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, window);
    set_tensors(&m, g, o, max ? max_backward : mean_backward);
    return finish(&m);
}

static bool is_backward(psr_cuda_pointwise mode)
{
    return mode == PSR_CUDA_RELU_BACKWARD || mode == PSR_CUDA_SIGMOID_BACKWARD ||
           mode == PSR_CUDA_GELU_BACKWARD;
}

static psr_err make_pointwise(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnPointwiseMode_t modes[] = {
        [PSR_CUDA_IDENTITY] = CUDNN_POINTWISE_IDENTITY,
        [PSR_CUDA_ADD] = CUDNN_POINTWISE_ADD,
        [PSR_CUDA_MULTIPLY] = CUDNN_POINTWISE_MUL,
        [PSR_CUDA_RELU] = CUDNN_POINTWISE_RELU_FWD,
        [PSR_CUDA_RELU_BACKWARD] = CUDNN_POINTWISE_RELU_BWD,
        [PSR_CUDA_SIGMOID] = CUDNN_POINTWISE_SIGMOID_FWD,
        [PSR_CUDA_SIGMOID_BACKWARD] = CUDNN_POINTWISE_SIGMOID_BWD,
        [PSR_CUDA_GELU] = CUDNN_POINTWISE_GELU_FWD,
        [PSR_CUDA_GELU_BACKWARD] = CUDNN_POINTWISE_GELU_BWD,
    };
    static const cudnnBackendAttributeName_t one[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    static const cudnnBackendAttributeName_t two[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    static const cudnnBackendAttributeName_t back[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_DYDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_DXDESC};
    making p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "an operation on single values");
    set(&p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &modes[o->pointwise]);
    set(&p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    PSR_TRY(finish(&p));
    making m = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, p.what);
    set_descriptor(&m, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p.descriptor);
    const cudnnBackendAttributeName_t *names = psr_cuda_reads_two(o->pointwise) ? two : one;
    set_tensors(&m, g, o, is_backward(o->pointwise) ? back : names);
    return finish(&m);
}

static psr_err make_matmul(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    static const cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                                        CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                                        CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    making p = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matrix product");
    set(&p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    PSR_TRY(finish(&p));
    making m = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, p.what);
    set_descriptor(&m, CUDNN_ATTR_OPERATION_MATMUL_DESC, p.descriptor);
    set_tensors(&m, g, o, names);
    return finish(&m);
}

/* The operation's own descriptor is the last one made. */
static psr_err make_operation(psr_cudnn_graph *g, const psr_cuda_operation *o)
{
    switch (o->kind) {
    case PSR_CUDA_CONV:
    case PSR_CUDA_CONV_DATA:
    case PSR_CUDA_CONV_WEIGHTS:
        return make_conv(g, o);
    case PSR_CUDA_STATISTICS:
        return make_statistics(g, o);
    case PSR_CUDA_NORM:
        return make_norm(g, o);
    case PSR_CUDA_NORM_BACKWARD:
        return make_norm_backward(g, o);
    case PSR_CUDA_MAX_POOL:
    case PSR_CUDA_MAX_POOL_BACKWARD:
    case PSR_CUDA_MEAN_POOL:
    case PSR_CUDA_MEAN_POOL_BACKWARD:
        return make_pool(g, o);
    case PSR_CUDA_POINTWISE:
        return make_pointwise(g, o);
    case PSR_CUDA_MATMUL:
        return make_matmul(g, o);
    }
    return psr_fail(PSR_ERR_UNSUPPORTED, "cuDNN has no operation %d", (int)o->kind);
}

psr_err psr_cudnn_graph_init(const psr_cuda_wall *wall, const psr_cuda_graph *graph,
                             psr_cudnn_graph *ret_graph)
{
    cudnnBackendDescriptor_t operations[PSR_CUDA_GRAPH_OPERATIONS];
    memset(ret_graph, 0, sizeof *ret_graph);
    ret_graph->wall = wall;
    PSR_TRY(psr_cuda_graph_check(graph));
    for (uint32_t i = 0; i < graph->tensor_count; i++)
        PSR_TRY(make_tensor(ret_graph, &graph->tensors[i], (int64_t)i + 1));
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        PSR_TRY(make_operation(ret_graph, &graph->operations[i]));
        operations[i] = ret_graph->made[ret_graph->made_count - 1];
    }
    making m = make(ret_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
    set(&m, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count,
        operations);
    ret_graph->whole = m.descriptor;
    return finish(&m);
}

void psr_cudnn_graph_done(psr_cudnn_graph *graph)
{
    while (graph->made_count > 0)
        graph->wall->cudnnBackendDestroyDescriptor(graph->made[--graph->made_count]);
}
