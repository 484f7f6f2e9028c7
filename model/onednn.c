/* The oneDNN back end: its engine, its executables (one per batch size and kind of pass) and the workspace
 * that they share. */
#include "base/arena.h"
#include "model/backend_private.h"
#include "model/onednn_exec.h"
#include "model/onednn_pick.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct onednn {
    const psr_net *net;
    double label_smoothing;
    uint32_t max_batch;
    psr_onednn_context context;
    psr_onednn_graph graph;
    char *choices;
    psr_onednn_exec **execs;
    uint32_t exec_count;
    float *workspace; /* NULL until the first executable */
    size_t workspace_count;
} onednn;

static void onednn_destroy(void *object)
{
    onednn *self = object;
    if (self == NULL)
        return;
    for (uint32_t i = 0; i < self->exec_count; i++)
        psr_onednn_exec_free(self->execs[i]);
    free(self->execs);
    psr_arena_free(self->workspace, self->workspace_count);
    psr_onednn_graph_done(&self->graph);
    free(self->choices);
    if (self->context.attr != NULL)
        dnnl_primitive_attr_destroy(self->context.attr);
    if (self->context.stream != NULL)
        dnnl_stream_destroy(self->context.stream);
    if (self->context.engine != NULL)
        dnnl_engine_destroy(self->context.engine);
    free(self);
}

/* libgomp keeps the number per thread, so it is said on every entry; one thread calls. */
static void set_threads(const onednn *self)
{
    omp_set_dynamic(0);
    omp_set_num_threads((int)self->context.threads);
}

static psr_err open_engine(psr_onednn_context *context)
{
    dnnl_status_t status = dnnl_engine_create(&context->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&context->stream, context->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&context->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(context->attr, dnnl_scratchpad_mode_user);
#if PSR_ONEDNN_DETERMINISTIC
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_deterministic(context->attr, 1);
#endif
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "the engine", "the processor");
}

/* Whether this processor and library have training in the compute type: asked of a small convolution, since
 * oneDNN has no other way to tell. */
static psr_err check_type(const psr_onednn_context *context)
{
    const dnnl_dims_t x = {1, 16, 8, 8}, w = {16, 16, 3, 3}, stride = {1, 1}, dilation = {0, 0}, pad = {1, 1};
    dnnl_memory_desc_t value = NULL, weights = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&value, 4, x, context->type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = dnnl_memory_desc_create_with_tag(&weights, 4, w, context->type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = dnnl_convolution_forward_primitive_desc_create(
            &pd, context->engine, dnnl_forward_training, dnnl_convolution_direct, value, weights, NULL, value,
            stride, dilation, pad, pad, context->attr);
    if (status == dnnl_success)
        dnnl_primitive_desc_destroy(pd);
    if (weights != NULL)
        dnnl_memory_desc_destroy(weights);
    if (value != NULL)
        dnnl_memory_desc_destroy(value);
    if (status == dnnl_unimplemented)
        return psr_fail(
            PSR_ERR_UNSUPPORTED,
            "--precision bf16: this processor has none of the instructions that oneDNN %d.%d needs for "
            "it; fp32 runs everywhere",
            dnnl_version()->major, dnnl_version()->minor);
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a first convolution", "the processor");
}

/* The executable for count samples, compiled at first use. */
static psr_err executable(onednn *self, uint32_t count, bool training, psr_onednn_exec **ret_exec)
{
    for (uint32_t i = 0; i < self->exec_count; i++) {
        if (self->execs[i]->count == count && self->execs[i]->training == training) {
            *ret_exec = self->execs[i];
            return PSR_OK;
        }
    }
    psr_onednn_exec **execs = realloc(self->execs, (self->exec_count + 1) * sizeof *execs);
    if (execs == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for an executable");
    self->execs = execs;
    psr_onednn_exec *exec;
    PSR_TRY(
        psr_onednn_exec_new(&self->context, self->net, &self->graph, self->choices, count, training, &exec));
    size_t needed = (exec->buffers.bytes + sizeof(float) - 1) / sizeof(float);
    if (needed > self->workspace_count || self->workspace == NULL) {
        psr_arena_free(self->workspace, self->workspace_count);
        self->workspace = NULL;
        self->workspace_count = 0;
        psr_err err = psr_arena_new(needed, &self->workspace);
        if (err != PSR_OK) {
            psr_onednn_exec_free(exec);
            return err;
        }
        self->workspace_count = needed;
    }
    self->execs[self->exec_count++] = exec;
    *ret_exec = exec;
    return PSR_OK;
}

/* As told, or by timing. */
static psr_err choose_algorithms(onednn *self, const char *told)
{
    if (told != NULL) {
        PSR_TRY(psr_onednn_choice_check(self->net, told));
        self->choices = strdup(told);
        return self->choices != NULL ? PSR_OK
                                     : psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the algorithms");
    }
    psr_onednn_exec *direct;
    PSR_TRY(psr_onednn_exec_new(&self->context, self->net, &self->graph, "", self->max_batch, true, &direct));
    psr_err err = psr_onednn_pick(direct, &self->choices);
    psr_onednn_exec_free(direct);
    return err;
}

static psr_err build(onednn *self, const psr_backend_options *options)
{
    if (options->precision == PSR_PRECISION_FP16)
        return psr_fail(PSR_ERR_UNSUPPORTED, "--precision fp16: the oneDNN back end has fp32 and bf16");
    self->label_smoothing = options->label_smoothing;
    self->max_batch = options->max_batch;
    self->context.threads = options->threads == 0 ? 1 : options->threads;
    self->context.type = options->precision == PSR_PRECISION_BF16 ? dnnl_bf16 : dnnl_f32;
    self->context.layout = PSR_ONEDNN_OTHER;
    set_threads(self);
    PSR_TRY(open_engine(&self->context));
    PSR_TRY(check_type(&self->context));
    PSR_TRY(psr_onednn_graph_init(self->net, &self->graph));
    PSR_TRY(choose_algorithms(self, options->algorithms));
    psr_onednn_exec *exec;
    return executable(self, self->max_batch, true, &exec);
}

static psr_err onednn_create(const psr_net *net, const psr_backend_options *options, void **ret_self)
{
    onednn *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory");
    self->net = net;
    psr_err err = build(self, options);
    if (err != PSR_OK) {
        onednn_destroy(self);
        return err;
    }
    *ret_self = self;
    return PSR_OK;
}

static psr_onednn_pass pass_of(const onednn *self, const psr_batch *batch, const psr_exec_state *state,
                               psr_readiness *readiness)
{
    return (psr_onednn_pass){self->workspace, batch, state, readiness, self->label_smoothing};
}

static psr_err onednn_train(void *object, const psr_batch *batch, const psr_exec_state *state,
                            float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result)
{
    onednn *self = object;
    psr_onednn_exec *exec;
    set_threads(self);
    PSR_TRY(executable(self, batch->count, true, &exec));
    psr_onednn_pass pass = pass_of(self, batch, state, readiness);
    return psr_onednn_exec_train(exec, &pass, loss_scale, ret_result);
}

static psr_err onednn_infer(void *object, const psr_batch *batch, const psr_exec_state *state,
                            psr_readiness *readiness, float *logits, psr_pass_result *ret_result)
{
    onednn *self = object;
    psr_onednn_exec *exec;
    set_threads(self);
    PSR_TRY(executable(self, batch->count, false, &exec));
    psr_onednn_pass pass = pass_of(self, batch, state, readiness);
    return psr_onednn_exec_infer(exec, &pass, logits, ret_result);
}

static const char *onednn_algorithms(const void *object)
{
    return ((const onednn *)object)->choices;
}

static const char *runtime_name(unsigned runtime)
{
    switch (runtime) {
    case DNNL_RUNTIME_SEQ:
        return "sequential";
    case DNNL_RUNTIME_OMP:
        return "openmp";
    case DNNL_RUNTIME_TBB:
        return "tbb";
    default:
        return "threadpool";
    }
}

static const char *onednn_identity(void)
{
    static char text[128];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "onednn %d.%d.%d %s %s", version->major, version->minor, version->patch,
             dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()), runtime_name(version->cpu_runtime));
    return text;
}

static size_t onednn_bytes(const void *object)
{
    const onednn *self = object;
    size_t bytes = sizeof *self + self->workspace_count * sizeof(float);
    for (uint32_t i = 0; i < self->exec_count; i++)
        bytes += psr_onednn_exec_bytes(self->execs[i]);
    return bytes;
}

const psr_backend_class psr_backend_class_onednn = {
    onednn_create,     onednn_destroy,  onednn_train, onednn_infer,
    onednn_algorithms, onednn_identity, onednn_bytes,
};
