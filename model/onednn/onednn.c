/* The oneDNN back end: its engine, its executables (one per batch size and kind of pass) and the
 * workspace that they share. */
#include "base/arrays/arena.h"
#include "model/backend_private.h"
#include "model/onednn/context.h"
#include "model/onednn/exec.h"
#include "model/onednn/choice/pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct onednn {
    const psr_network *net;
    double label_smoothing;
    uint32_t max_batch;
    psr_onednn_context context;
    psr_fusion_groups groups;
    char *choices;
    char loops[PSR_BACKEND_LOOPS_MAX];
    psr_onednn_exec **execs;
    uint32_t exec_count;
    float *workspace; /* NULL until the first executable */
    size_t workspace_count;
    psr_onednn_exec *under_way; /* whose pass is in parts */
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
    psr_fusion_groups_done(&self->groups);
    free(self->choices);
    psr_onednn_context_close(&self->context);
    free(self);
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
    PSR_TRY(psr_onednn_exec_new(&self->context, self->net, &self->groups, self->choices, count,
                                training, &exec));
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

static psr_err pick(onednn *self, psr_onednn_decide *decide)
{
    psr_onednn_exec *direct;
    PSR_TRY(psr_onednn_exec_new(&self->context, self->net, &self->groups, "", self->max_batch, true,
                                &direct));
    psr_err err = psr_onednn_pick(direct, decide, &self->choices);
    psr_onednn_exec_free(direct);
    return err;
}

/* As told in full, or by one of the ways to choose. */
static psr_err choose_algorithms(onednn *self, const char *told)
{
    if (strcmp(told, "auto") == 0)
        return pick(self, psr_onednn_decide_by_rule);
    if (strcmp(told, "timed") == 0)
        return pick(self, psr_onednn_decide_by_time);
    if (strcmp(told, "direct") == 0)
        return psr_onednn_choice_direct(self->net, &self->choices);
    PSR_TRY(psr_onednn_choice_check(self->net, told));
    self->choices = strdup(told);
    return self->choices != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the algorithms");
}

static psr_err build(onednn *self, const psr_backend_options *options)
{
    self->label_smoothing = options->label_smoothing;
    self->max_batch = options->max_batch;
    PSR_TRY(psr_onednn_context_open(options->precision,
                                    options->threads == 0 ? 1 : options->threads, &self->context));
    self->context.sync_norms = options->sync_norms;
    PSR_TRY(psr_fusion_groups_init(self->net, &self->groups));
    PSR_TRY(choose_algorithms(self, options->algorithms != NULL ? options->algorithms : "auto"));
    psr_onednn_exec *exec;
    PSR_TRY(executable(self, self->max_batch, true, &exec));
    psr_onednn_implementations_tell(&exec->implementations, self->loops, sizeof self->loops);
    return PSR_OK;
}

static psr_err onednn_create(const psr_network *net, const psr_backend_options *options,
                             void **ret_self)
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

static psr_onednn_pass pass_of(const onednn *self, const psr_batch *batch,
                               const psr_exec_state *state, psr_readiness *readiness)
{
    return (psr_onednn_pass){self->workspace, batch, state, readiness, self->label_smoothing};
}

static psr_err onednn_train(void *object, const psr_batch *batch, const psr_exec_state *state,
                            float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result)
{
    onednn *self = object;
    psr_onednn_exec *exec;
    psr_onednn_threads_set(&self->context);
    PSR_TRY(executable(self, batch->count, true, &exec));
    psr_onednn_pass pass = pass_of(self, batch, state, readiness);
    return psr_onednn_exec_train(exec, &pass, loss_scale, ret_result);
}

static psr_err onednn_begin(void *object, const psr_batch *batch, const psr_exec_state *state,
                            float loss_scale, psr_readiness *readiness)
{
    onednn *self = object;
    psr_onednn_threads_set(&self->context);
    PSR_TRY(executable(self, batch->count, true, &self->under_way));
    psr_onednn_pass pass = pass_of(self, batch, state, readiness);
    return psr_onednn_exec_begin(self->under_way, &pass, loss_scale);
}

static psr_err onednn_advance(void *object, psr_norm_sums *ret_sums, psr_pass_result *ret_result)
{
    return psr_onednn_exec_advance(((onednn *)object)->under_way, ret_sums, ret_result);
}

static uint32_t onednn_stops(const void *object, psr_norm_stop *ret_stops)
{
    const onednn *self = object;
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->groups.count; i++) {
        const psr_fusion_group *group = &self->groups.items[i];
        if (group->op != PSR_OP_BATCHNORM || self->net->nodes[group->norm].held)
            continue;
        ret_stops[count] = psr_onednn_stop(group);
        ret_stops[count++].backward = !self->net->nodes[group->output].fixed;
    }
    return count;
}

static psr_err onednn_infer(void *object, const psr_batch *batch, const psr_exec_state *state,
                            psr_readiness *readiness, float *logits, psr_pass_result *ret_result)
{
    onednn *self = object;
    psr_onednn_exec *exec;
    psr_onednn_threads_set(&self->context);
    PSR_TRY(executable(self, batch->count, false, &exec));
    psr_onednn_pass pass = pass_of(self, batch, state, readiness);
    return psr_onednn_exec_infer(exec, &pass, logits, ret_result);
}

static const char *onednn_algorithms(const void *object)
{
    return ((const onednn *)object)->choices;
}

static const char *onednn_loops(const void *object)
{
    return ((const onednn *)object)->loops;
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

static const char *onednn_identity(uint32_t device)
{
    (void)device;
    static char text[128];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "onednn %d.%d.%d %s %s", version->major, version->minor,
             version->patch, dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()),
             runtime_name(version->cpu_runtime));
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
    .create = onednn_create,
    .destroy = onednn_destroy,
    .train = onednn_train,
    .begin = onednn_begin,
    .advance = onednn_advance,
    .stops = onednn_stops,
    .infer = onednn_infer,
    .algorithms = onednn_algorithms,
    .loops = onednn_loops,
    .identity = onednn_identity,
    .bytes = onednn_bytes,
};
