/* The back end cuda with recordings and without: the same bits, whatever changes between passes, on
 * a GPU that this processor plays; what is recorded and when; and devices that cannot record. */
#include "base/clock.h"
#include "model/backend.h"
#include "model/cuda/api.h"

#include <stdlib.h>
#include <string.h>

#include "tests/emulator/cuda/emulator.h"
#include "tests/unit/expect.h"
#include "tests/unit/model/parity.h"

/* ---- the table, which counts, and fails where it is told to ---- */

typedef enum failing {
    NOTHING_FAILS,
    BEGIN_FAILS,
    ORDER_FAILS, /* a library asks for what may not be recorded */
    END_FAILS,
} failing;

static psr_cuda_api table;
static failing fails;
static size_t more_workspace; /* of graphs that are planned from now on */
static uint32_t begun, ended, run_again, ordered, freed;
static bool recording;

static psr_err record_begin(psr_cuda_stream *stream)
{
    if (fails == BEGIN_FAILS && begun++ % 2 == 0)
        return psr_fail(PSR_ERR_COMPUTE, "played: it cannot be recorded");
    begun += fails != BEGIN_FAILS;
    recording = true;
    return psr_emulator()->record_begin(stream);
}

static psr_err record_end(psr_cuda_stream *stream, psr_cuda_recording **ret_recording)
{
    recording = false;
    PSR_TRY(psr_emulator()->record_end(stream, ret_recording));
    if (fails == END_FAILS && ended++ % 2 == 0) {
        psr_emulator()->recording_free(*ret_recording);
        *ret_recording = NULL;
        return psr_fail(PSR_ERR_NOMEM, "played: no memory for a recording");
    }
    ended += fails != END_FAILS;
    return PSR_OK;
}

static psr_err recording_run(psr_cuda_stream *stream, const psr_cuda_recording *of)
{
    run_again++;
    return psr_emulator()->recording_run(stream, of);
}

static void recording_free(psr_cuda_recording *of)
{
    freed++;
    psr_emulator()->recording_free(of);
}

static psr_err plan_run(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                        const psr_cuda_plan_tensors *tensors, void *workspace)
{
    if (fails == ORDER_FAILS && recording)
        return psr_fail(PSR_ERR_COMPUTE, "played: an engine that cannot be recorded");
    ordered++;
    return psr_emulator()->plan_run(stream, plan, tensors, workspace);
}

static psr_err launch(psr_cuda_stream *stream, psr_cuda_kernel kernel, uint32_t blocks,
                      uint32_t threads, const void *arguments, size_t argument_bytes)
{
    ordered++;
    return psr_emulator()->launch(stream, kernel, blocks, threads, arguments, argument_bytes);
}

static size_t plan_workspace(const psr_cuda_plan *plan)
{
    return psr_emulator()->plan_workspace(plan) + more_workspace;
}

static void offer(void)
{
    table = *psr_emulator();
    table.record_begin = record_begin;
    table.record_end = record_end;
    table.recording_run = recording_run;
    table.recording_free = recording_free;
    table.plan_run = plan_run;
    table.launch = launch;
    table.plan_workspace = plan_workspace;
    psr_cuda_offer(&table);
}

/* Streams that the seed orders; 0: threads. Nothing fails, and nothing has happened. */
static void begin(uint64_t seed)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = seed > 0 ? PSR_EMULATOR_LAZY : PSR_EMULATOR_THREADS;
    settings.seed = seed;
    psr_emulator_set(&settings);
    fails = NOTHING_FAILS;
    more_workspace = 0;
    begun = ended = run_again = ordered = freed = 0;
}

/* ---- passes ---- */

/* Of a back end: all that its passes have given. */
typedef struct passed {
    psr_backend *backend;
    float *buffers, *gradients, *all;
    size_t count, room;
} passed;

static void put(passed *p, const void *values, size_t bytes)
{
    assert_true(p->count + bytes / sizeof(float) <= p->room);
    memcpy(p->all + p->count, values, bytes);
    p->count += bytes / sizeof(float);
}

#define PASSES_MOST 16

static passed open_backend(const setting *s, psr_precision precision, bool unrecorded)
{
    const psr_backend_options options = {.kind = PSR_BACKEND_CUDA,
                                         .precision = precision,
                                         .max_batch = s->max_batch,
                                         .label_smoothing = 0.1,
                                         .buckets = &s->buckets,
                                         .unrecorded = unrecorded};
    passed p = {.room = PASSES_MOST * (s->net->params.length + s->net->buffers.length +
                                       (size_t)s->max_batch * s->net->classes + 16)};
    p.buffers = floats(s->net->buffers.length);
    p.gradients = floats(s->net->params.length);
    p.all = floats(p.room);
    memcpy(p.buffers, s->buffers, s->net->buffers.length * sizeof(float));
    expect_ok(psr_backend_new(s->net, &options, &p.backend));
    return p;
}

static void close_backend(passed *p)
{
    psr_backend_free(p->backend);
    free(p->buffers);
    free(p->gradients);
    free(p->all);
}

typedef struct pass_of {
    uint32_t count, epoch;
    float scale;
    bool infers, has_second, grows; /* grows: graphs need more workspace from here on */
    bool sees;                      /* somebody wants to see its layers */
} pass_of;

typedef struct seen {
    psr_exec_layer layer;
    int64_t begin_ns, end_ns;
} seen;
#define SEEN_MOST 512
static seen layers[SEEN_MOST];
static uint32_t layer_count;

static void see_layer(void *context, const psr_exec_layer *layer, int64_t begin_ns, int64_t end_ns)
{
    (void)context;
    assert_true(layer_count < SEEN_MOST);
    layers[layer_count++] = (seen){*layer, begin_ns, end_ns};
}

static void run_pass(const setting *s, passed *p, const pass_of *of)
{
    static const uint32_t second_labels[8] = {1, 0, 2, 1, 1, 0, 2, 0};
    static const float shares[8] = {0.25f, 0.5f, 0.75f, 1, 0, 0.5f, 0.5f, 0.5f};
    const psr_second_labels second = {second_labels, shares};
    const psr_batch batch = {s->images,
                             s->labels,
                             s->samples,
                             of->count,
                             .epoch = of->epoch,
                             .seed = 5 + of->epoch % 3,
                             .second = of->has_second ? &second : NULL};
    const psr_exec_state state = {s->weights, of->infers ? NULL : p->gradients, p->buffers};
    const psr_exec_hooks hooks = {.layer = see_layer};
    psr_pass_result result;
    layer_count = 0;
    more_workspace += of->grows ? 1 << 20 : 0;
    if (of->infers) {
        float *logits = floats((size_t)of->count * s->net->classes);
        expect_ok(psr_backend_infer(p->backend, &batch, &state, NULL, logits, &result));
        put(p, logits, of->count * s->net->classes * sizeof *logits);
        free(logits);
    } else {
        expect_ok(psr_backend_train(p->backend, &batch, &state, of->scale, of->sees ? &hooks : NULL,
                                    &result));
        put(p, p->gradients, s->net->params.length * sizeof *p->gradients);
        put(p, p->buffers, s->net->buffers.length * sizeof *p->buffers);
    }
    const float told[] = {(float)result.loss_sum, (float)result.correct, (float)result.top5};
    put(p, told, sizeof told);
}

/* Batches of several sizes, again and again, with all that changes between passes. A new size comes
 * when others are recorded, and takes them to other addresses. */
static const pass_of several[] = {
    {.count = 4, .epoch = 0, .scale = 0.25f},
    {.count = 4, .epoch = 1, .scale = 0.25f},
    {.count = 4, .infers = true},
    {.count = 4, .epoch = 2, .scale = 0.5f, .sees = true},
    {.count = 4, .epoch = 2, .scale = 0.25f, .has_second = true, .sees = true},
    {.count = 4, .infers = true},
    {.count = 3, .epoch = 3, .scale = 0.25f, .grows = true},
    {.count = 4, .epoch = 4, .scale = 0.25f},
    {.count = 4, .infers = true},
    {.count = 3, .epoch = 5, .scale = 0.125f},
    {.count = 4, .epoch = 5, .scale = 0.25f},
    {.count = 3, .epoch = 6, .scale = 0.25f},
};
enum { SEVERAL = sizeof several / sizeof *several };

static passed run_several(const setting *s, psr_precision precision, bool unrecorded)
{
    passed p = open_backend(s, precision, unrecorded);
    for (int i = 0; i < SEVERAL; i++) {
        pass_of of = several[i];
        of.sees = of.sees && !unrecorded; /* what is expected is that of passes nobody looks at */
        run_pass(s, &p, &of);
    }
    return p;
}

static void assert_same(const passed *a, const passed *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->all, b->all, a->count * sizeof *a->all);
}

/* bucket_bytes: small ones, so that segments are cut between most nodes; or large ones. */
static setting setting_cut(psr_network *net, uint32_t bucket_bytes)
{
    setting s = setting_of(net, 4);
    psr_buckets_done(&s.buckets);
    expect_ok(psr_buckets_plan(&s.net->params, bucket_bytes, &s.buckets));
    return s;
}

/* net is consumed. */
static void compare(psr_network *net, psr_precision precision, uint32_t bucket_bytes)
{
    setting s = setting_cut(net, bucket_bytes);
    begin(0);
    passed expected = run_several(&s, precision, true);
    assert_int_equal(begun + run_again, 0);
    for (uint64_t seed = 0; seed < 3; seed++) {
        begin(seed);
        passed found = run_several(&s, precision, false);
        assert_same(&found, &expected);
        assert_true(begun > 0 && ended == begun && run_again > begun);
        close_backend(&found);
        assert_int_equal(freed, begun);
    }
    close_backend(&expected);
    setting_done(&s);
}

/* ---- the tests ---- */

static void recorded_passes_give_the_bits_of_passes_that_are_not(void **state)
{
    (void)state;
    compare(everything(), PSR_PRECISION_FP32, 1 << 14);
    compare(everything(), PSR_PRECISION_BF16, 256);
    compare(dropouts(), PSR_PRECISION_FP32, 256);
    compare(norm_add(16, true), PSR_PRECISION_BF16, 1 << 14);
    compare(squeezed(16, true), PSR_PRECISION_FP32, 1 << 10);
}

/* Its numbers are a function of the epoch, which a recording must not hold. */
static void numbers_of_dropout_are_others_in_each_recorded_pass(void **state)
{
    (void)state;
    setting s = setting_cut(dropouts(), 1 << 14);
    const pass_of first = {.count = 4, .epoch = 1, .scale = 1},
                  second = {.count = 4, .epoch = 2, .scale = 1};
    const size_t bytes = s.net->params.length * sizeof(float);
    float *before = floats(s.net->params.length);
    begin(0);
    passed p = open_backend(&s, PSR_PRECISION_FP32, false);
    for (int i = 0; i < 3; i++) {
        run_pass(&s, &p, &first);
        if (i > 0)
            assert_memory_equal(p.gradients, before, bytes);
        memcpy(before, p.gradients, bytes);
    }
    const uint32_t runs = run_again;
    run_pass(&s, &p, &second);
    assert_true(run_again > runs);
    assert_memory_not_equal(p.gradients, before, bytes);
    run_pass(&s, &p, &first);
    assert_memory_equal(p.gradients, before, bytes);
    close_backend(&p);
    free(before);
    setting_done(&s);
}

/* One order for a segment in the place of one for each step. */
static void the_second_pass_records_and_the_third_orders_little(void **state)
{
    (void)state;
    setting s = setting_cut(named("resnet20", 3, 16, PSR_SHORTCUT_A), 1 << 18);
    const pass_of pass = {.count = 2, .epoch = 1, .scale = 1};
    begin(0);
    passed p = open_backend(&s, PSR_PRECISION_FP32, false);
    run_pass(&s, &p, &pass);
    const uint32_t steps = ordered;
    assert_int_equal(begun + run_again, 0);
    run_pass(&s, &p, &pass);
    const uint32_t segments = begun;
    assert_int_equal(ordered, 2 * steps); /* into recordings */
    assert_true(segments > 0 && run_again == segments);
    run_pass(&s, &p, &pass);
    assert_int_equal(begun, segments);
    assert_int_equal(run_again, 2 * segments);
    const uint32_t orders = ordered - 2 * steps + segments;
    print_message("# of %u steps %u orders are left, %u of them recordings\n", steps, orders,
                  segments);
    assert_true(orders < steps / 4);
    close_backend(&p);
    setting_done(&s);
}

/* Of a training pass of two samples by that back end, which nobody else sees. */
static uint32_t layers_of(const setting *s, psr_backend_kind kind, seen ret_layers[SEEN_MOST])
{
    const pass_of pass = {.count = 2, .epoch = 1, .scale = 1, .sees = true};
    const psr_backend_options options = {
        .kind = kind, .max_batch = 4, .threads = 1, .buckets = &s->buckets};
    passed p = open_backend(s, PSR_PRECISION_FP32, false);
    psr_backend_free(p.backend);
    expect_ok(psr_backend_new(s->net, &options, &p.backend));
    run_pass(s, &p, &pass);
    memcpy(ret_layers, layers, layer_count * sizeof *layers);
    close_backend(&p);
    return layer_count;
}

static bool has_layer(const seen *of, uint32_t count, const psr_exec_layer *layer)
{
    for (uint32_t i = 0; i < count; i++)
        if (of[i].layer.node == layer->node && of[i].layer.count == layer->count &&
            of[i].layer.backward == layer->backward)
            return true;
    return false;
}

/* What the processor's back end groups, a GPU's forward pass does: but for what costs nothing. */
static void layers_are_those_of_the_processor(void **state)
{
    (void)state;
    static seen here[SEEN_MOST], there[SEEN_MOST];
    setting s = setting_cut(named("resnet20", 3, 16, PSR_SHORTCUT_B), 1 << 14);
    begin(0);
    const uint32_t ours = layers_of(&s, PSR_BACKEND_ONEDNN, here),
                   theirs = layers_of(&s, PSR_BACKEND_CUDA, there);
    for (uint32_t i = 0; i < theirs; i++)
        assert_true(there[i].layer.backward || has_layer(here, ours, &there[i].layer));
    uint32_t with_weights = 0;
    for (uint32_t i = 0; i < ours; i++) {
        const psr_exec_layer *layer = &here[i].layer;
        if (s.net->nodes[layer->node].weight == PSR_NONE)
            continue;
        with_weights++;
        const psr_exec_layer back = {layer->node, 1, true};
        assert_true(has_layer(there, theirs, layer->backward ? &back : layer));
    }
    assert_true(with_weights > 40);
    setting_done(&s);
}

static void layers_follow_each_other_within_the_pass(void **state)
{
    (void)state;
    setting s = setting_cut(everything(), 256);
    const pass_of pass = {.count = 4, .epoch = 1, .scale = 1, .sees = true};
    for (uint64_t seed = 0; seed < 3; seed++) {
        begin(seed);
        passed p = open_backend(&s, PSR_PRECISION_BF16, false);
        for (int i = 0; i < 3; i++) {
            const int64_t before_ns = psr_clock_ns();
            run_pass(&s, &p, &pass);
            int64_t at_ns = before_ns;
            assert_true(layer_count > 20);
            for (uint32_t k = 0; k < layer_count; k++) {
                assert_true(layers[k].begin_ns >= at_ns && layers[k].end_ns >= layers[k].begin_ns);
                assert_true(k == 0 || layers[k].layer.backward || !layers[k - 1].layer.backward);
                at_ns = layers[k].end_ns;
            }
            assert_true(at_ns <= psr_clock_ns() && layers[layer_count - 1].layer.backward);
        }
        assert_int_equal(begun + run_again, 0); /* recordings have no layers */
        close_backend(&p);
    }
    setting_done(&s);
}

/* How many orders the device had been given when each bucket was asked for, and when it was
 * ready. */
typedef struct hand_over {
    uint32_t wanted[64], ready[64], wanted_count, ready_count;
} hand_over;

static void note(uint32_t at[64], uint32_t *count)
{
    const uint32_t orders = ordered + run_again;
    if (*count == 0 || at[*count - 1] != orders)
        at[(*count)++] = orders;
    assert_true(*count < 64);
}

static psr_err want(void *context, uint32_t bucket)
{
    hand_over *h = context;
    (void)bucket;
    note(h->wanted, &h->wanted_count);
    return PSR_OK;
}

static psr_err be_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    hand_over *h = context;
    (void)bucket;
    (void)fence;
    note(h->ready, &h->ready_count);
    return PSR_OK;
}

static void buckets_come_and_go_between_the_same_steps_as_without_recordings(void **state)
{
    (void)state;
    setting s = setting_cut(named("resnet20", 3, 16, PSR_SHORTCUT_A), 1 << 16);
    float *gradients = floats(s.net->params.length);
    const psr_batch batch = {s.images, s.labels, s.samples, 2, .epoch = 1, .seed = 5};
    const psr_exec_state work = {s.weights, gradients, s.buffers};
    begin(0);
    passed p = open_backend(&s, PSR_PRECISION_FP32, false);
    hand_over passes[3] = {0};
    for (int i = 0; i < 3; i++) {
        const psr_exec_hooks hooks = {
            .context = &passes[i], .weights_wanted = want, .gradient_ready = be_ready};
        psr_pass_result result;
        expect_ok(psr_backend_train(p.backend, &batch, &work, 1, &hooks, &result));
    }
    assert_true(run_again > 0 && passes[0].ready_count > 5 && passes[0].wanted_count > 5);
    assert_int_equal(passes[2].ready_count, passes[0].ready_count);
    assert_int_equal(passes[2].wanted_count, passes[0].wanted_count);
    close_backend(&p);
    free(gradients);
    setting_done(&s);
}

static void what_cannot_be_recorded_is_ordered_step_by_step(void **state)
{
    static const failing all[] = {BEGIN_FAILS, ORDER_FAILS, END_FAILS};
    (void)state;
    setting s = setting_cut(everything(), 256);
    begin(0);
    passed expected = run_several(&s, PSR_PRECISION_FP32, true);
    for (int i = 0; i < 3; i++) {
        begin(0);
        fails = all[i];
        passed found = run_several(&s, PSR_PRECISION_FP32, false);
        assert_same(&found, &expected);
        assert_true(begun > 0);
        const uint32_t tried = begun;
        run_pass(&s, &found, &several[0]);
        assert_int_equal(begun, tried); /* and is not tried again */
        close_backend(&found);
    }
    begin(0);
    close_backend(&expected);
    setting_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_passes_give_the_bits_of_passes_that_are_not),
        cmocka_unit_test(numbers_of_dropout_are_others_in_each_recorded_pass),
        cmocka_unit_test(the_second_pass_records_and_the_third_orders_little),
        cmocka_unit_test(layers_are_those_of_the_processor),
        cmocka_unit_test(layers_follow_each_other_within_the_pass),
        cmocka_unit_test(buckets_come_and_go_between_the_same_steps_as_without_recordings),
        cmocka_unit_test(what_cannot_be_recorded_is_ordered_step_by_step),
    };
    offer();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
