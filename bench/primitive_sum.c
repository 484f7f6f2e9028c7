#include "bench/primitive_sum.h"

#include "base/arrays/arena.h"
#include "base/clock.h"
#include "model/onednn/compat.h"

#include <omp.h>
#include <stddef.h>

enum { ARGS_MAX = 10, TIMES = 3 };

typedef struct timer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t type;
    uint32_t batch;
    double total_s;
} timer;

static psr_err check(dnnl_status_t status)
{
    return status == dnnl_success
               ? PSR_OK
               : psr_fail(PSR_ERR_COMPUTE, "primitive sum: oneDNN: %s", dnnl_status2str(status));
}

/* Which of a primitive's memories there are, and under which argument each goes. */
static const struct {
    dnnl_query_t query;
    int index, arg;
} forward_args[] = {{dnnl_query_src_md, 0, DNNL_ARG_SRC},
                    {dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS},
                    {dnnl_query_weights_md, 1, DNNL_ARG_BIAS},
                    {dnnl_query_dst_md, 0, DNNL_ARG_DST},
                    {dnnl_query_diff_src_md, 0, DNNL_ARG_DIFF_SRC},
                    {dnnl_query_diff_weights_md, 0, DNNL_ARG_DIFF_WEIGHTS},
                    {dnnl_query_diff_weights_md, 1, DNNL_ARG_DIFF_BIAS},
                    {dnnl_query_diff_dst_md, 0, DNNL_ARG_DIFF_DST},
                    {dnnl_query_workspace_md, 0, DNNL_ARG_WORKSPACE}};

typedef struct arguments {
    dnnl_exec_arg_t items[ARGS_MAX];
    float *arenas[ARGS_MAX];
    size_t lengths[ARGS_MAX];
    int count;
} arguments;

static psr_err add_argument(arguments *args, const timer *t, int arg, const_dnnl_memory_desc_t desc)
{
    size_t bytes = desc == NULL ? 0 : dnnl_memory_desc_get_size(desc);
    if (bytes == 0)
        return PSR_OK;
    int i = args->count;
    args->lengths[i] = (bytes + sizeof(float) - 1) / sizeof(float);
    PSR_TRY(psr_arena_new(args->lengths[i], &args->arenas[i]));
    args->count++; /* from here on it is freed */
    args->items[i].arg = arg;
    args->items[i].memory = NULL;
    for (size_t j = 0; j < args->lengths[i]; j++) /* small positive numbers in either type */
        args->arenas[i][j] = arg == DNNL_ARG_WORKSPACE ? 0 : 0.01f * (float)(j % 61);
    return check(dnnl_memory_create(&args->items[i].memory, desc, t->engine, args->arenas[i]));
}

static void arguments_done(arguments *args)
{
    for (int i = 0; i < args->count; i++) {
        if (args->items[i].memory != NULL)
            dnnl_memory_destroy(args->items[i].memory);
        psr_arena_free(args->arenas[i], args->lengths[i]);
    }
}

static psr_err run_timed(timer *t, dnnl_primitive_t primitive, const arguments *args)
{
    double times[TIMES + 1];
    for (int i = 0; i <= TIMES; i++) { /* the first is a warm-up */
        double began_s = psr_clock_s();
        PSR_TRY(check(dnnl_primitive_execute(primitive, t->stream, args->count, args->items)));
        PSR_TRY(check(dnnl_stream_wait(t->stream)));
        times[i] = psr_clock_s() - began_s;
    }
    double low = times[1] < times[2] ? times[1] : times[2],
           high = times[1] < times[2] ? times[2] : times[1];
    t->total_s += times[3] < low ? low : times[3] > high ? high : times[3];
    return PSR_OK;
}

/* extra: further memories (batch norm's statistics). */
static psr_err time_primitive(timer *t, const_dnnl_primitive_desc_t pd, const int *extra_args,
                              const const_dnnl_memory_desc_t *extra, int extra_count)
{
    arguments args = {0};
    dnnl_primitive_t primitive = NULL;
    psr_err err = check(dnnl_primitive_create(&primitive, pd));
    for (size_t i = 0; err == PSR_OK && i < sizeof forward_args / sizeof forward_args[0]; i++) {
        /* Batch norm's scale and shift go by arguments of their own. */
        bool weights = forward_args[i].query == dnnl_query_weights_md ||
                       forward_args[i].query == dnnl_query_diff_weights_md;
        if (weights && extra_count > 0)
            continue;
        err = add_argument(
            &args, t, forward_args[i].arg,
            dnnl_primitive_desc_query_md(pd, forward_args[i].query, forward_args[i].index));
    }
    for (int i = 0; err == PSR_OK && i < extra_count; i++)
        err = add_argument(&args, t, extra_args[i], extra[i]);
    if (err == PSR_OK)
        err = run_timed(t, primitive, &args);
    arguments_done(&args);
    if (primitive != NULL)
        dnnl_primitive_destroy(primitive);
    return err;
}

/* Descriptions of one convolution; all its values in any layout. */
typedef struct conv_shape {
    dnnl_memory_desc_t x, w, dw, bias, y;
    dnnl_dims_t stride, dilation, pad;
} conv_shape;

static psr_err describe(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                        dnnl_format_tag_t tag, dnnl_memory_desc_t *ret)
{
    return check(dnnl_memory_desc_create_with_tag(ret, rank, dims, type, tag));
}

static void conv_shape_done(conv_shape *c)
{
    dnnl_memory_desc_t all[] = {c->x, c->w, c->dw, c->bias, c->y};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL)
            dnnl_memory_desc_destroy(all[i]);
}

static psr_err conv_shape_init(const timer *t, const psr_network *net, const psr_network_node *node,
                               conv_shape *ret)
{
    const psr_network_node *from = &net->nodes[node->input[0]];
    const uint32_t *shape = net->params.tensors[node->weight].shape;
    dnnl_dims_t x = {t->batch, from->channels, from->height, from->width};
    dnnl_dims_t y = {t->batch, node->channels, node->height, node->width};
    dnnl_dims_t w = {shape[0], shape[1], shape[2], shape[3]};
    *ret = (conv_shape){.stride = {node->stride, node->stride}, .pad = {node->pad, node->pad}};
    PSR_TRY(describe(4, x, t->type, dnnl_format_tag_any, &ret->x));
    PSR_TRY(describe(4, y, t->type, dnnl_format_tag_any, &ret->y));
    PSR_TRY(describe(4, w, t->type, dnnl_format_tag_any, &ret->w));
    PSR_TRY(describe(4, w, dnnl_f32, dnnl_format_tag_any, &ret->dw));
    return node->bias == PSR_NONE ? PSR_OK : describe(1, w, dnnl_f32, dnnl_a, &ret->bias);
}

static psr_err time_convolution(timer *t, const conv_shape *c, bool wants_data)
{
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    PSR_TRY(check(dnnl_convolution_forward_primitive_desc_create(
        &forward, t->engine, dnnl_forward_training, dnnl_convolution_direct, c->x, c->w, c->bias,
        c->y, c->stride, c->dilation, c->pad, c->pad, NULL)));
    psr_err err = time_primitive(t, forward, NULL, NULL, 0);
    if (err == PSR_OK && wants_data) {
        err = check(dnnl_convolution_backward_data_primitive_desc_create(
            &pd, t->engine, dnnl_convolution_direct, c->x, c->w, c->y, c->stride, c->dilation,
            c->pad, c->pad, forward, NULL));
        if (err == PSR_OK) {
            err = time_primitive(t, pd, NULL, NULL, 0);
            dnnl_primitive_desc_destroy(pd);
        }
    }
    if (err == PSR_OK) {
        err = check(dnnl_convolution_backward_weights_primitive_desc_create(
            &pd, t->engine, dnnl_convolution_direct, c->x, c->dw, c->bias, c->y, c->stride,
            c->dilation, c->pad, c->pad, forward, NULL));
        if (err == PSR_OK) {
            err = time_primitive(t, pd, NULL, NULL, 0);
            dnnl_primitive_desc_destroy(pd);
        }
    }
    dnnl_primitive_desc_destroy(forward);
    return err;
}

/* In the layout that the convolution before it gives. */
static psr_err time_norm(timer *t, const_dnnl_memory_desc_t x, uint32_t channels, bool relu)
{
    const unsigned flags =
        dnnl_use_scale | dnnl_use_shift | (relu ? (unsigned)dnnl_fuse_norm_relu : 0);
    dnnl_dims_t dims = {channels};
    dnnl_memory_desc_t c = NULL;
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    PSR_TRY(describe(1, dims, dnnl_f32, dnnl_a, &c));
    psr_err err = check(dnnl_batch_normalization_forward_primitive_desc_create(
        &forward, t->engine, dnnl_forward_training, x, x, 1e-5f, flags, NULL));
    const int forward_extra[] = {DNNL_ARG_MEAN, DNNL_ARG_VARIANCE, DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
    const int backward_extra[] = {DNNL_ARG_MEAN,       DNNL_ARG_VARIANCE,   DNNL_ARG_SCALE,
                                  DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT, DNNL_ARG_SHIFT};
    const int backward_count = DNNL_VERSION_MAJOR < 3 ? 6 : 5; /* oneDNN 3 refuses the shift */
    const const_dnnl_memory_desc_t extra[] = {c, c, c, c, c, c};
    if (err == PSR_OK)
        err = time_primitive(t, forward, forward_extra, extra, 4);
    if (err == PSR_OK)
        err = check(dnnl_batch_normalization_backward_primitive_desc_create(
            &backward, t->engine, dnnl_backward, x, x, x, 1e-5f, flags, forward, NULL));
    if (err == PSR_OK)
        err = time_primitive(t, backward, backward_extra, extra, backward_count);
    if (backward != NULL)
        dnnl_primitive_desc_destroy(backward);
    if (forward != NULL)
        dnnl_primitive_desc_destroy(forward);
    dnnl_memory_desc_destroy(c);
    return err;
}

/* The layout of a convolution's destination. */
static psr_err time_norm_behind(timer *t, const conv_shape *c, uint32_t channels, bool relu)
{
    dnnl_primitive_desc_t forward = NULL;
    PSR_TRY(check(dnnl_convolution_forward_primitive_desc_create(
        &forward, t->engine, dnnl_forward_training, dnnl_convolution_direct, c->x, c->w, c->bias,
        c->y, c->stride, c->dilation, c->pad, c->pad, NULL)));
    psr_err err =
        time_norm(t, dnnl_primitive_desc_query_md(forward, dnnl_query_dst_md, 0), channels, relu);
    dnnl_primitive_desc_destroy(forward);
    return err;
}

static psr_err time_network(timer *t, const psr_network *net)
{
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *node = &net->nodes[i];
        if (node->op != PSR_OP_CONV && node->op != PSR_OP_BATCHNORM)
            continue;
        bool norm = node->op == PSR_OP_BATCHNORM;
        const psr_network_node *conv = norm ? &net->nodes[node->input[0]] : node;
        if (conv->op != PSR_OP_CONV)
            continue;
        conv_shape shape;
        psr_err err = conv_shape_init(t, net, conv, &shape);
        if (err == PSR_OK && norm)
            err = time_norm_behind(t, &shape, node->channels,
                                   i + 1 < net->node_count && net->nodes[i + 1].op == PSR_OP_RELU);
        else if (err == PSR_OK)
            err = time_convolution(t, &shape, conv->input[0] != 0);
        conv_shape_done(&shape);
        PSR_TRY(err);
    }
    return PSR_OK;
}

psr_err primitive_sum(const psr_network *net, uint32_t batch, bool bf16, int threads, double *ret_s)
{
    timer t = {.type = bf16 ? dnnl_bf16 : dnnl_f32, .batch = batch};
    omp_set_num_threads(threads);
    psr_err err = check(dnnl_engine_create(&t.engine, dnnl_cpu, 0));
    if (err == PSR_OK)
        err = check(dnnl_stream_create(&t.stream, t.engine, dnnl_stream_default_flags));
    if (err == PSR_OK)
        err = time_network(&t, net);
    if (t.stream != NULL)
        dnnl_stream_destroy(t.stream);
    if (t.engine != NULL)
        dnnl_engine_destroy(t.engine);
    if (err == PSR_OK)
        *ret_s = t.total_s;
    return err;
}
