/* The back end cuda: one GPU, its executables (one per batch size and kind of pass), and a pass as
 * a row of orders to three streams.
 *
 *   coming    the batch, from pinned memory; of bytes the images are made there
 *   computing weights as the pass asks for them, or their updates (update.h), running statistics,
 *             every step; the results
 *   leaving   gradients of buckets (handover.h)
 *
 * The host is ahead of the device: it waits for weights that the exchange has not brought yet, and
 * at the pass's end for the results. Then the gradients of the last buckets may still be on their
 * way, which their fences tell. */
#include "base/arrays/finite.h"
#include "model/backend_private.h"
#include "model/cuda/api.h"
#include "model/cuda/device_memory.h"
#include "model/cuda/executable.h"
#include "model/cuda/handover.h"
#include "model/cuda/kernels/launch.h"
#include "model/cuda/layers.h"
#include "model/cuda/segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most that a convolution may have beside its tensors. */
#define WORKSPACE_MOST ((size_t)1 << 30)

typedef struct cuda {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    const psr_network *net;
    psr_cuda_type type;
    double label_smoothing;
    bool unrecorded;
    uint32_t max_batch;
    psr_cuda_stream *coming, *computing;
    psr_cuda_event *came;
    const uint8_t *ahead; /* whose copies have been ordered for a later pass; NULL: nobody's */
    psr_cuda_device_memory memory;
    psr_cuda_handover *handover;
    psr_cuda_update *update; /* --update-on device; otherwise NULL */
    psr_cuda_layers *layers; /* NULL until somebody wants to see a pass's */
    bool holds;              /* the device's weights are held there, and this update is due */
    psr_due_update due;
    psr_cuda_plans plans;
    char engines[PSR_BACKEND_ENGINES_MAX];
    psr_cuda_executable **executables;
    uint32_t executable_count;
} cuda;

/* ---- the life ---- */

static void free_executables(cuda *self)
{
    for (uint32_t i = 0; i < self->executable_count; i++)
        psr_cuda_executable_free(self->executables[i]);
    self->executable_count = 0;
}

static void close_stream(const cuda *self, psr_cuda_stream *stream)
{
    char detail[PSR_ERR_DETAIL_BYTES];
    if (stream == NULL)
        return;
    psr_err_detail_keep(detail);
    if (self->api->stream_synchronize(stream) != PSR_OK)
        psr_err_detail_restore(detail);
    self->api->stream_free(stream);
}

static void cuda_destroy(void *object)
{
    cuda *self = object;
    if (self == NULL)
        return;
    psr_cuda_handover_free(self->handover);
    close_stream(self, self->coming);
    close_stream(self, self->computing);
    psr_cuda_update_free(self->update);
    psr_cuda_layers_free(self->layers);
    if (self->came != NULL)
        self->api->event_free(self->came);
    free_executables(self);
    free(self->executables);
    if (self->device != NULL) {
        psr_cuda_plans_done(&self->plans);
        psr_cuda_device_memory_done(&self->memory);
        self->api->device_close(self->device);
    }
    free(self);
}

static psr_err find_segments(cuda *self, psr_cuda_executable *of)
{
    bool *has_buckets = calloc(self->net->node_count, sizeof *has_buckets);
    if (has_buckets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the segments of a pass");
    for (uint32_t node = 0; node < self->net->node_count; node++)
        has_buckets[node] = psr_cuda_handover_has_buckets(self->handover, node);
    const psr_cuda_segments_options options = {.api = self->api,
                                               .device = self->device,
                                               .stream = self->computing,
                                               .unrecorded = self->unrecorded,
                                               .has_buckets = has_buckets};
    const psr_err err = psr_cuda_segments_new(&options, of, &of->segments);
    free(has_buckets);
    return err;
}

/* Makes room for the newest executable. All get new addresses when something has moved. */
static psr_err settle(cuda *self)
{
    bool moved;
    psr_cuda_executable *newest = self->executables[self->executable_count - 1];
    PSR_TRY(psr_cuda_device_memory_grow(&self->memory, newest->program, self->plans.workspace_bytes,
                                        &moved));
    for (uint32_t i = moved ? 0 : self->executable_count - 1; i < self->executable_count; i++)
        psr_cuda_executable_bind(self->executables[i], self->memory.at);
    return find_segments(self, newest);
}

/* The executable for count samples, made at first use. */
static psr_err executable(cuda *self, uint32_t count, bool training, psr_cuda_executable **ret)
{
    for (uint32_t i = 0; i < self->executable_count; i++) {
        const psr_cuda_program *program = self->executables[i]->program;
        if (program->batch == count && program->training == training) {
            *ret = self->executables[i];
            return PSR_OK;
        }
    }
    psr_cuda_executable **list =
        realloc(self->executables, (self->executable_count + 1) * sizeof(*list));
    if (list == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for an executable");
    self->executables = list;
    PSR_TRY(psr_cuda_executable_new(self->net, count, self->type, training, &self->plans,
                                    &list[self->executable_count]));
    self->executable_count++;
    const psr_err err = settle(self);
    if (err != PSR_OK) { /* what the others had may be gone */
        free_executables(self);
        return err;
    }
    *ret = list[self->executable_count - 1];
    return PSR_OK;
}

static psr_err open_device(cuda *self, const psr_backend_options *options)
{
    uint32_t count, index = options->device;
    PSR_TRY(self->api->device_count(&count));
    if (options->shares_devices)
        index %= count;
    if (index >= count)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--device cuda:%u: this host has %u GPU%s, numbered from 0", index, count,
                        count == 1 ? "" : "s");
    return self->api->device_open(index, &self->device);
}

static psr_err zero_gradients(const cuda *self)
{
    return self->api->fill(self->computing, self->memory.at[PSR_CUDA_GRADIENTS], 0,
                           self->net->params.length * sizeof(float));
}

static psr_err open_update(cuda *self, const psr_backend_options *options)
{
    const psr_cuda_update_options update = {.api = self->api,
                                            .device = self->device,
                                            .computing = self->computing,
                                            .config = options->updates,
                                            .layout = &self->net->params,
                                            .buckets = options->buckets,
                                            .weights = self->memory.at[PSR_CUDA_WEIGHTS],
                                            .gradients = self->memory.at[PSR_CUDA_GRADIENTS]};
    if (options->updates == NULL)
        return PSR_OK;
    PSR_TRY(psr_cuda_update_new(&update, &self->update));
    /* the padding of a bucket, which no pass writes, is summed with it */
    return options->keeps_gradients ? zero_gradients(self) : PSR_OK;
}

static psr_err build(cuda *self, const psr_backend_options *options)
{
    const psr_cuda_api *api = self->api;
    psr_cuda_executable *training;
    PSR_TRY(open_device(self, options));
    self->plans = (psr_cuda_plans){
        .api = api,
        .device = self->device,
        .limits = {.workspace_bytes = WORKSPACE_MOST, .kept = options->plan_directory}};
    PSR_TRY(api->stream_new(self->device, &self->coming));
    PSR_TRY(api->stream_new(self->device, &self->computing));
    PSR_TRY(api->event_new(self->device, &self->came));
    PSR_TRY(
        psr_cuda_device_memory_init(&self->memory, api, self->device, self->net, self->max_batch));
    PSR_TRY(open_update(self, options));
    const psr_cuda_handover_options handover = {.api = api,
                                                .device = self->device,
                                                .computing = self->computing,
                                                .net = self->net,
                                                .buckets = options->buckets,
                                                .weights = self->memory.at[PSR_CUDA_WEIGHTS],
                                                .gradients = self->memory.at[PSR_CUDA_GRADIENTS],
                                                .update = self->update,
                                                .keeps_gradients = options->keeps_gradients};
    PSR_TRY(psr_cuda_handover_new(&handover, &self->handover));
    PSR_TRY(executable(self, self->max_batch, true, &training));
    psr_cuda_plans_engines(&self->plans, self->engines, sizeof self->engines);
    return PSR_OK;
}

static psr_cuda_type type_of(psr_precision precision)
{
    static const psr_cuda_type types[] = {[PSR_PRECISION_FP32] = PSR_CUDA_FLOAT32,
                                          [PSR_PRECISION_BF16] = PSR_CUDA_BF16,
                                          [PSR_PRECISION_FP16] = PSR_CUDA_FP16};
    return types[precision];
}

static psr_err cuda_create(const psr_network *net, const psr_backend_options *options,
                           void **ret_self)
{
    const psr_cuda_api *api = psr_cuda_offered();
    if (api == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "--device cuda: this program knows no GPUs");
    cuda *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory");
    self->api = api;
    self->net = net;
    self->type = type_of(options->precision);
    self->label_smoothing = options->label_smoothing;
    self->unrecorded = options->unrecorded;
    self->max_batch = options->max_batch;
    const psr_err err = build(self, options);
    if (err != PSR_OK) {
        cuda_destroy(self);
        return err;
    }
    *ret_self = self;
    return PSR_OK;
}

/* ---- a pass ---- */

typedef struct pass {
    cuda *self;
    const psr_cuda_executable *executable;
    const psr_exec_state *state;
    psr_readiness *readiness;
    psr_cuda_pass values;
    uint32_t asked; /* the nodes whose weights are on their way: those before this one */
    uint32_t done;  /* the nodes whose backward pass is over: from this one on */
} pass;

/* at: of the batch's block, which the device has too, and begins with the images. */
static void *on_device(const cuda *self, size_t at)
{
    return (char *)self->memory.at[PSR_CUDA_IMAGES] + at;
}

static psr_err bring(const cuda *self, size_t at, const void *from, size_t bytes)
{
    memcpy(self->memory.batch + at, from, bytes);
    return self->api->copy(self->coming, on_device(self, at), self->memory.batch + at, bytes);
}

static psr_err copy_bytes(const cuda *self, const psr_batch *batch)
{
    const psr_network *net = self->net;
    const psr_cuda_batch_block *block = &self->memory.block;
    PSR_TRY(bring(self, block->pixels, batch->bytes->bytes,
                  (size_t)batch->count * net->channels * net->height * net->width));
    PSR_TRY(bring(self, block->placed, batch->bytes->images,
                  batch->count * sizeof *batch->bytes->images));
    return bring(self, block->values, batch->bytes->values,
                 net->channels * PSR_BYTE_VALUES * sizeof(float));
}

/* Copies what the next pass will be given, while this one is computed. The pinned memory is free
 * when this pass's batch has come. */
static psr_err bring_ahead(cuda *self, const psr_batch *next)
{
    if (next == NULL || next->bytes == NULL)
        return PSR_OK;
    PSR_TRY(self->api->event_synchronize(self->came));
    PSR_TRY(copy_bytes(self, next));
    self->ahead = next->bytes->bytes;
    return PSR_OK;
}

/* What is on its way for another batch is overwritten behind it, so nobody waits for it. */
static psr_err bring_now(cuda *self, const psr_batch *batch)
{
    const bool has_come = self->ahead == batch->bytes->bytes;
    self->ahead = NULL;
    return has_come ? PSR_OK : copy_bytes(self, batch);
}

/* A kernel behind the copies makes the floats that would have been copied otherwise. */
static psr_err bring_bytes(cuda *self, const psr_batch *batch)
{
    const psr_network *net = self->net;
    const psr_cuda_batch_block *block = &self->memory.block;
    const psr_cuda_images_of_bytes_args make = {.bytes = on_device(self, block->pixels),
                                                .images = on_device(self, block->placed),
                                                .values = on_device(self, block->values),
                                                .y = on_device(self, block->images),
                                                .samples = batch->count,
                                                .channels = net->channels,
                                                .height = net->height,
                                                .width = net->width};
    PSR_TRY(bring_now(self, batch));
    return psr_cuda_kernel_launch(self->api, self->coming, PSR_CUDA_KERNEL_images_of_bytes, &make);
}

static psr_err bring_images(cuda *self, const psr_batch *batch)
{
    const size_t pixels = (size_t)self->net->channels * self->net->height * self->net->width;
    if (batch->bytes != NULL)
        return bring_bytes(self, batch);
    return bring(self, self->memory.block.images, batch->images,
                 batch->count * pixels * sizeof(float));
}

static psr_err bring_batch(const pass *p)
{
    cuda *self = p->self;
    const psr_batch *batch = p->values.batch;
    const psr_cuda_batch_block *block = &self->memory.block;
    const size_t words = batch->count * sizeof(uint32_t);
    PSR_TRY(bring_images(self, batch));
    PSR_TRY(bring(self, block->labels, batch->labels, words));
    PSR_TRY(bring(self, block->samples, batch->samples, words));
    if (batch->second != NULL) {
        PSR_TRY(bring(self, block->second_labels, batch->second->labels, words));
        PSR_TRY(bring(self, block->shares, batch->second->shares, words));
    }
    PSR_TRY(self->api->event_record(self->came, self->coming));
    return self->api->stream_wait(self->computing, self->came);
}

/* Batch norms by running statistics leave them as they are. */
static psr_err bring_buffers(const pass *p)
{
    const cuda *self = p->self;
    const size_t bytes = self->net->buffers.length * sizeof(float);
    if (bytes == 0)
        return PSR_OK;
    memcpy(self->memory.buffers, p->state->buffers, bytes);
    PSR_TRY(self->api->copy(self->computing, self->memory.at[PSR_CUDA_BUFFERS],
                            self->memory.buffers, bytes));
    if (!p->executable->program->training)
        return PSR_OK;
    return self->api->copy(self->computing, self->memory.at[PSR_CUDA_BUFFERS_AFTER],
                           self->memory.at[PSR_CUDA_BUFFERS], bytes);
}

static psr_err ask_weights(pass *p, uint32_t node)
{
    for (; p->asked <= node; p->asked++) {
        const cuda *self = p->self;
        PSR_TRY(psr_readiness_forward(p->readiness, p->asked));
        PSR_TRY(self->holds
                    ? psr_cuda_handover_update(self->handover, p->asked, &self->due)
                    : psr_cuda_handover_weights(self->handover, p->asked, p->state->weights));
    }
    return PSR_OK;
}

/* What gradients are multiplied by on their way back through the network. */
static float gradient_scale(const psr_batch *batch)
{
    return batch->gradient_scale > 0 ? batch->gradient_scale : 1;
}

/* The gradients of all nodes behind `node` are ordered. */
static psr_err report_gradients(pass *p, uint32_t node)
{
    while (p->done > node) {
        psr_fence *fence;
        PSR_TRY(psr_cuda_handover_gradients(p->self->handover, p->done - 1, p->state->gradients,
                                            &fence));
        p->done--;
        PSR_TRY(psr_readiness_backward(p->readiness, p->done, fence));
    }
    return PSR_OK;
}

static psr_err run_steps(pass *p)
{
    const cuda *self = p->self;
    const psr_cuda_program *program = p->executable->program;
    bool backward = false;
    for (uint32_t i = 0; i < program->step_count;) {
        const psr_cuda_step *step = &program->steps[i];
        if (step->backward && !backward)
            PSR_TRY(psr_cuda_handover_begin_gradients(self->handover,
                                                      1 / gradient_scale(p->values.batch)));
        backward = step->backward;
        if (backward)
            PSR_TRY(report_gradients(p, step->node + 1));
        else
            PSR_TRY(ask_weights(p, step->node));
        PSR_TRY(psr_cuda_segments_run(p->executable->segments, i, &p->values,
                                      self->memory.workspace, &i));
    }
    return program->training ? report_gradients(p, 0) : PSR_OK;
}

/* Orders the copies of what the pass gives. logits: whether they are wanted. */
static psr_err order_results(const pass *p, bool logits)
{
    const cuda *self = p->self;
    const psr_cuda_device_memory *m = &self->memory;
    const psr_cuda_program *program = p->executable->program;
    const psr_cuda_place *place = &program->places[program->logits];
    const size_t buffers = self->net->buffers.length * sizeof(float);
    PSR_TRY(self->api->copy(self->computing, m->result, m->at[PSR_CUDA_RESULT], sizeof *m->result));
    if (program->training && buffers > 0)
        PSR_TRY(
            self->api->copy(self->computing, m->buffers, m->at[PSR_CUDA_BUFFERS_AFTER], buffers));
    if (logits)
        PSR_TRY(self->api->copy(self->computing, m->logits,
                                (char *)m->at[place->memory] + place->offset, place->bytes));
    return self->holds ? psr_cuda_update_ask(self->update) : PSR_OK;
}

/* logits: NULL, or where they go. Waits for all that was ordered, but for leaving gradients and
 * what comes for the next pass. */
static psr_err fetch(const pass *p, float *logits, psr_pass_result *ret_result)
{
    const cuda *self = p->self;
    const psr_cuda_device_memory *m = &self->memory;
    const psr_cuda_program *program = p->executable->program;
    const size_t buffers = self->net->buffers.length * sizeof(float);
    PSR_TRY(self->api->stream_synchronize(self->computing));
    if (self->holds)
        PSR_TRY(psr_cuda_update_check(self->update));
    /* fp16: activations that have overflowed make the step one that is left out, and statistics of
     * them are not kept. */
    if (program->training &&
        (self->type != PSR_CUDA_FP16 || psr_finite(m->buffers, self->net->buffers.length)))
        memcpy(p->state->buffers, m->buffers, buffers);
    if (logits != NULL)
        memcpy(logits, m->logits, program->places[program->logits].bytes);
    *ret_result = (psr_pass_result){
        .loss_sum = m->result->loss, .correct = m->result->counts[0], .top5 = m->result->counts[1]};
    return PSR_OK;
}

static psr_err begin_layers(pass *p)
{
    cuda *self = p->self;
    if (!psr_readiness_wants_layers(p->readiness))
        return PSR_OK;
    if (self->layers == NULL)
        PSR_TRY(psr_cuda_layers_new(self->api, self->device, self->computing, &self->layers));
    p->values.layers = self->layers;
    return psr_cuda_layers_begin(self->layers, p->executable->program->step_count);
}

static psr_err run_pass(pass *p, float *logits, psr_pass_result *ret_result)
{
    cuda *self = p->self;
    PSR_TRY(self->api->device_check(self->device));
    PSR_TRY(begin_layers(p));
    PSR_TRY(bring_batch(p));
    PSR_TRY(bring_buffers(p));
    PSR_TRY(run_steps(p));
    PSR_TRY(order_results(p, logits != NULL));
    PSR_TRY(bring_ahead(self, p->values.batch->next));
    PSR_TRY(fetch(p, logits, ret_result));
    if (p->values.layers != NULL)
        PSR_TRY(psr_cuda_layers_tell(p->values.layers, p->readiness));
    if (p->executable->program->training && !psr_readiness_reports(p->readiness))
        PSR_TRY(psr_cuda_handover_finish(self->handover));
    return PSR_OK;
}

/* After a failure nothing is under way that reads what the caller has lent. */
static psr_err run(pass *p, float *logits, psr_pass_result *ret_result)
{
    const cuda *self = p->self;
    char detail[PSR_ERR_DETAIL_BYTES];
    const psr_err err = run_pass(p, logits, ret_result);
    if (err == PSR_OK)
        return PSR_OK;
    psr_err_detail_keep(detail);
    if (self->api->stream_synchronize(self->coming) != PSR_OK ||
        self->api->stream_synchronize(self->computing) != PSR_OK ||
        psr_cuda_handover_finish(self->handover) != PSR_OK)
        psr_err_detail_restore(detail);
    return err;
}

static psr_err cuda_train(void *object, const psr_batch *batch, const psr_exec_state *state,
                          float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result)
{
    cuda *self = object;
    psr_cuda_executable *exec;
    PSR_TRY(executable(self, batch->count, true, &exec));
    pass p = {.self = self,
              .executable = exec,
              .state = state,
              .readiness = readiness,
              .values = {.batch = batch,
                         .loss_scale = loss_scale * gradient_scale(batch),
                         .label_smoothing = self->label_smoothing},
              .done = self->net->node_count};
    return run(&p, NULL, ret_result);
}

static psr_err cuda_infer(void *object, const psr_batch *batch, const psr_exec_state *state,
                          psr_readiness *readiness, float *logits, psr_pass_result *ret_result)
{
    cuda *self = object;
    psr_cuda_executable *exec;
    PSR_TRY(executable(self, batch->count, false, &exec));
    pass p = {.self = self,
              .executable = exec,
              .state = state,
              .readiness = readiness,
              .values = {.batch = batch, .label_smoothing = self->label_smoothing}};
    return run(&p, logits, ret_result);
}

/* ---- weights that are held ---- */

static psr_err cuda_hold(void *object, const float *weights, float *const *slots, uint64_t number)
{
    cuda *self = object;
    PSR_TRY(psr_cuda_handover_put(self->handover, self->memory.at[PSR_CUDA_WEIGHTS], weights));
    for (uint32_t i = 0; slots != NULL && i < psr_cuda_update_slot_count(self->update); i++)
        PSR_TRY(
            psr_cuda_handover_put(self->handover, psr_cuda_update_slot(self->update, i), slots[i]));
    psr_cuda_update_begin(self->update, number);
    self->holds = true;
    self->due = (psr_due_update){0};
    return PSR_OK;
}

static void cuda_due(void *object, const psr_due_update *update)
{
    cuda *self = object;
    self->holds = update != NULL;
    self->due = update != NULL ? *update : (psr_due_update){0};
}

/* Nobody is given weights that a sum has spoilt. */
static psr_err make_due(const cuda *self, float *ret_weights)
{
    PSR_TRY(psr_cuda_handover_update_all(self->handover, &self->due));
    PSR_TRY(psr_cuda_update_ask(self->update));
    if (ret_weights != NULL)
        PSR_TRY(psr_cuda_handover_get(self->handover, self->memory.at[PSR_CUDA_WEIGHTS]));
    PSR_TRY(self->api->stream_synchronize(self->computing));
    PSR_TRY(psr_cuda_update_check(self->update));
    if (ret_weights != NULL)
        psr_cuda_handover_got(self->handover, ret_weights);
    return PSR_OK;
}

static psr_err cuda_held(void *object, float *ret_weights, float *const *ret_slots)
{
    cuda *self = object;
    PSR_TRY(self->api->device_check(self->device));
    PSR_TRY(make_due(self, ret_weights));
    for (uint32_t i = 0; ret_slots != NULL && i < psr_cuda_update_slot_count(self->update); i++) {
        PSR_TRY(psr_cuda_handover_get(self->handover, psr_cuda_update_slot(self->update, i)));
        PSR_TRY(self->api->stream_synchronize(self->computing));
        psr_cuda_handover_got(self->handover, ret_slots[i]);
    }
    return PSR_OK;
}

static float *cuda_gradients(void *object)
{
    return ((cuda *)object)->memory.at[PSR_CUDA_GRADIENTS];
}

/* Whoever sums them orders that elsewhere, so they have to be there. */
static psr_err cuda_zero_gradients(void *object)
{
    const cuda *self = object;
    PSR_TRY(zero_gradients(self));
    return self->api->stream_synchronize(self->computing);
}

/* ---- what it tells ---- */

static const char *cuda_engines(const void *object)
{
    const cuda *self = object;
    return self->engines;
}

static const char *no_text(const void *object)
{
    (void)object;
    return "";
}

static const char *cuda_identity(uint32_t index)
{
    static psr_cuda_device_facts facts;
    const psr_cuda_api *api = psr_cuda_offered();
    psr_cuda_device *device;
    uint32_t count;
    if (api == NULL || api->device_count(&count) != PSR_OK ||
        api->device_open(index % count, &device) != PSR_OK)
        return "no GPU";
    const psr_err err = api->device_facts(device, &facts);
    api->device_close(device);
    return err == PSR_OK ? facts.identity : "no GPU";
}

static size_t cuda_bytes(const void *object)
{
    const cuda *self = object;
    const psr_cuda_device_memory *m = &self->memory;
    return sizeof *self + m->room_bytes + m->workspace_bytes + m->other_bytes + m->pinned_bytes +
           psr_cuda_handover_bytes(self->handover) +
           (self->update != NULL ? psr_cuda_update_bytes(self->update) : 0);
}

const psr_backend_class psr_backend_class_cuda = {
    .create = cuda_create,
    .destroy = cuda_destroy,
    .train = cuda_train,
    .infer = cuda_infer,
    .hold = cuda_hold,
    .due = cuda_due,
    .held = cuda_held,
    .gradients = cuda_gradients,
    .zero_gradients = cuda_zero_gradients,
    .takes_bytes = true,
    .algorithms = no_text,
    .engines = cuda_engines,
    .loops = no_text,
    .identity = cuda_identity,
    .bytes = cuda_bytes,
};
