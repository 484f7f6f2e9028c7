/* Whether each wait of the back end cuda shows when it is missing. A small run (training passes and
 * an inference, whose weights and images are overwritten as soon as they may be; or inferences
 * between which the back end updates its weights itself, whose sums are) is made with one call of
 * stream_wait, event_record or a synchronize left out, under lazy streams and up to 50 seeds: one
 * of them has to give other numbers, or fail. Images come as floats and as bytes. The first pass
 * orders each step, the second records, and later ones run what was recorded (segments.h). Each run
 * is a child of its own, so it may end in any way. */
#include "model/backend.h"
#include "model/cuda/api.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emulator/cuda/emulator.h"
#include "tests/unit/expect.h"
#include "tests/unit/model/byte_batch.h"
#include "tests/unit/model/parity.h"

#define SEEDS 50
#define PASSES 4
#define BATCH 3

static setting s;

/* ---- the table ---- */

/* The one that leaves a call out, which counts what was recorded and run. */
static psr_cuda_api table;
static uint32_t recordings_run;

static psr_err recording_run(psr_cuda_stream *stream, const psr_cuda_recording *recording)
{
    recordings_run++;
    return psr_emulator()->recording_run(stream, recording);
}

/* ---- the runs ---- */

/* All that it gives, one after the other. */
typedef struct outputs {
    float *at;
    size_t count;
} outputs;

/* One of those below. */
typedef struct small_run {
    const char *name;
    psr_err (*run)(outputs *out);
    /* The last waits, for streams that the passes have waited for, or have told nothing: they are
     * there for passes that fail. */
    uint32_t idle_waits;
} small_run;

static void put(outputs *out, const void *values, size_t bytes)
{
    memcpy(out->at + out->count, values, bytes);
    out->count += bytes / sizeof(float);
}

static outputs outputs_new(void)
{
    const size_t pass =
        s.net->params.length + s.net->buffers.length + 16 + (size_t)BATCH * s.net->classes;
    return (outputs){floats(PASSES * pass), 0};
}

typedef struct reported {
    uint32_t ready; /* buckets */
} reported;

static psr_err want(void *context, uint32_t bucket)
{
    (void)context;
    (void)bucket;
    return PSR_OK;
}

static psr_err be_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    reported *r = context;
    (void)bucket;
    (void)fence;
    r->ready++;
    return PSR_OK;
}

static void progress(void *context)
{
    (void)context;
}

static size_t pixels(void)
{
    return BATCH * (size_t)s.net->channels * s.net->height * s.net->width;
}

/* Others in each pass. */
static float *images_of(uint32_t pass)
{
    float *images = floats(pixels());
    for (size_t i = 0; i < pixels(); i++)
        images[i] = s.images[(i + (size_t)pass * 7) % pixels()];
    return images;
}

/* An optimising compiler would leave memset out before free. */
static void spoil(float *values, size_t count)
{
    explicit_bzero(values, count * sizeof *values);
    free(values);
}

static byte_batch bytes_of(uint32_t pass)
{
    return byte_batch_new(pass, BATCH, s.net->channels, s.net->height, s.net->width);
}

/* given: spoilt as soon as the pass is over; it stays until then. next: what the pass is told that
 * will come; NULL: nothing. */
static psr_err train(psr_backend *backend, uint32_t pass, byte_batch *given, const byte_batch *next,
                     float *buffers, float *gradients, outputs *out)
{
    float *weights = floats(s.net->params.length);
    reported r = {0};
    const psr_exec_hooks hooks = {
        .context = &r, .weights_wanted = want, .gradient_ready = be_ready, .progress = progress};
    psr_pass_result result;
    for (size_t i = 0; i < s.net->params.length; i++)
        weights[i] = s.weights[i] * (1 + 0.25f * (float)pass);
    const psr_batch after = {.bytes = next != NULL ? &next->of : NULL, .count = BATCH};
    const psr_batch batch = {NULL,          s.labels,  s.samples,           BATCH,
                             .epoch = pass, .seed = 5, .bytes = &given->of, .next = &after};
    const psr_exec_state state = {weights, gradients, buffers};
    const psr_err err = psr_backend_train(backend, &batch, &state, 1.0f / BATCH, &hooks, &result);
    byte_batch_spoil(given, BATCH, s.net->channels);
    spoil(weights, s.net->params.length);
    PSR_TRY(err);
    if (r.ready != s.buckets.count)
        return psr_fail(PSR_ERR_COMPUTE, "a bucket is never ready");
    const float sums[] = {(float)result.loss_sum, (float)result.correct};
    put(out, sums, sizeof sums);
    put(out, buffers, s.net->buffers.length * sizeof *buffers);
    return PSR_OK;
}

/* Of floats, or in every second pass of bytes. */
static psr_err infer(psr_backend *backend, uint32_t pass, float *buffers, outputs *out)
{
    const bool as_bytes = pass % 2 == 1;
    float *logits = floats((size_t)BATCH * s.net->classes), *images = images_of(pass);
    byte_batch bytes = bytes_of(pass);
    const psr_batch batch = {images,
                             s.labels,
                             s.samples,
                             BATCH,
                             .epoch = 0,
                             .seed = 5,
                             .bytes = as_bytes ? &bytes.of : NULL};
    const psr_exec_state state = {s.weights, NULL, buffers};
    psr_pass_result result;
    const psr_err err = psr_backend_infer(backend, &batch, &state, NULL, logits, &result);
    spoil(images, pixels());
    byte_batch_spoil(&bytes, BATCH, s.net->channels);
    put(out, logits, (size_t)BATCH * s.net->classes * sizeof *logits);
    free(logits);
    return err;
}

/* Nobody waits for a pass's gradients but the next pass and the back end's end, behind which they
 * have to be there. The second pass is told of images that do not come. */
static psr_err run_training(outputs *out)
{
    enum { OTHERS = PASSES };
    static const uint32_t next[PASSES] = {1, OTHERS, 3};
    const size_t params = s.net->params.length;
    psr_backend *backend = backend_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1);
    float *gradients = floats(PASSES * params), *buffers = floats(s.net->buffers.length);
    byte_batch bytes[PASSES + 1];
    for (uint32_t i = 0; i <= OTHERS; i++)
        bytes[i] = bytes_of(i);
    memcpy(buffers, s.buffers, s.net->buffers.length * sizeof *buffers);
    psr_err err = PSR_OK;
    for (uint32_t pass = 0; pass < PASSES && err == PSR_OK; pass++) {
        if (pass + 1 == PASSES)
            err = infer(backend, 0, buffers, out);
        if (err == PSR_OK)
            err = train(backend, pass, &bytes[pass], pass + 1 < PASSES ? &bytes[next[pass]] : NULL,
                        buffers, gradients + pass * params, out);
    }
    byte_batch_spoil(&bytes[OTHERS], BATCH, s.net->channels);
    psr_backend_free(backend);
    put(out, gradients, PASSES * params * sizeof *gradients);
    free(gradients);
    free(buffers);
    return err;
}

/* Each pass makes an update of Adam: weights and both arrays of its state come and go. */
static psr_err run_updates(outputs *out)
{
    const size_t params = s.net->params.length;
    psr_config config;
    psr_config_defaults(&config);
    config.optimizer = PSR_OPTIMIZER_ADAM;
    const psr_backend_options options = {
        .kind = PSR_BACKEND_CUDA, .max_batch = BATCH, .buckets = &s.buckets, .updates = &config};
    psr_backend *backend = NULL;
    float *arenas = floats(4 * params), *sums = arenas + 3 * params;
    float *const slots[] = {arenas + params, arenas + 2 * params};
    fill(arenas, 3 * params, 31, 0, 0.1f);
    psr_err err = psr_backend_new(s.net, &options, &backend);
    if (err == PSR_OK)
        err = psr_backend_hold(backend, arenas, slots, 0);
    memset(arenas, 0x55, 3 * params * sizeof *arenas);
    for (uint32_t pass = 0; pass < PASSES && err == PSR_OK; pass++) {
        const psr_due_update due = {.number = pass + 1, .lr = 0.1f, .sums = sums};
        fill(sums, params, 32 + pass, -1, 1);
        psr_backend_due(backend, &due);
        err = infer(backend, pass, s.buffers, out);
    }
    if (err == PSR_OK)
        err = psr_backend_held(backend, arenas, slots);
    psr_backend_free(backend);
    put(out, arenas, 3 * params * sizeof *arenas);
    free(arenas);
    return err;
}

static const small_run runs[] = {{"training passes", run_training, 2}, {"updates", run_updates, 3}};

/* ---- mutants ---- */

static const char *const kinds[] = {"stream_wait", "event_record", "synchronize"};

static void use_lazy_streams(uint64_t seed)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = PSR_EMULATOR_LAZY;
    settings.seed = seed;
    psr_emulator_set(&settings);
}

/* What a fault says is of no interest here. */
static void be_child(const small_run *r, psr_emulator_droppable kind, uint64_t number,
                     uint64_t seed, const outputs *expected)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    assert_non_null(freopen("/dev/null", "w", stderr));
    use_lazy_streams(seed);
    psr_emulator_dropping(kind, number);
    outputs out = outputs_new();
    const bool same = r->run(&out) == PSR_OK && out.count == expected->count &&
                      memcmp(out.at, expected->at, out.count * sizeof *out.at) == 0;
    _exit(same ? 0 : 1);
}

static bool shows(const small_run *r, psr_emulator_droppable kind, uint64_t number, uint64_t seed,
                  const outputs *expected)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_child(r, kind, number, seed, expected);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* The seeds that were needed; more than SEEDS: none shows it. */
static uint64_t seeds_until_shown(const small_run *r, psr_emulator_droppable kind, uint64_t number,
                                  const outputs *expected)
{
    uint64_t seed = 0;
    while (seed < SEEDS && !shows(r, kind, number, seed, expected))
        seed++;
    return seed + 1;
}

/* What nobody waited for cannot be missed; nor can idle waits. */
static bool is_needed(const small_run *r, psr_emulator_droppable kind, uint64_t number,
                      const uint64_t *counts, const bool *waited_for)
{
    if (kind == PSR_EMULATOR_EVENT_RECORD)
        return waited_for[number];
    return kind != PSR_EMULATOR_SYNCHRONIZE || number + r->idle_waits < counts[kind];
}

static uint32_t count_survivors(const small_run *r, psr_emulator_droppable kind,
                                const uint64_t *counts, const bool *waited_for,
                                const outputs *expected)
{
    uint32_t survivors = 0, left_out = 0, most = 0;
    for (uint64_t number = 0; number < counts[kind]; number++) {
        if (!is_needed(r, kind, number, counts, waited_for))
            continue;
        const uint32_t seeds = (uint32_t)seeds_until_shown(r, kind, number, expected);
        if (seeds > SEEDS)
            print_message("# %s: %s %u: nobody misses it\n", r->name, kinds[kind],
                          (unsigned)number);
        survivors += seeds > SEEDS;
        most = seeds > most ? seeds : most;
        left_out++;
    }
    print_message("# %s: %s: %u of %u calls left out, one by one; %u seeds at most show it\n",
                  r->name, kinds[kind], left_out, (unsigned)counts[kind], most);
    return survivors;
}

static void miss_each_wait(const small_run *r)
{
    outputs expected = outputs_new();
    uint64_t counts[PSR_EMULATOR_DROPPABLE_COUNT];
    psr_emulator_dropping(PSR_EMULATOR_STREAM_WAIT, PSR_EMULATOR_DROP_NONE);
    use_lazy_streams(0);
    expect_ok(r->run(&expected));
    assert_true(recordings_run > 0);
    for (int kind = 0; kind < PSR_EMULATOR_DROPPABLE_COUNT; kind++) {
        counts[kind] = psr_emulator_calls((psr_emulator_droppable)kind);
        assert_true(counts[kind] > 0);
    }
    bool *waited_for = calloc(counts[PSR_EMULATOR_EVENT_RECORD], sizeof *waited_for);
    assert_non_null(waited_for);
    for (uint64_t i = 0; i < counts[PSR_EMULATOR_EVENT_RECORD]; i++)
        waited_for[i] = psr_emulator_was_waited_for(i);
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        assert_false(shows(r, PSR_EMULATOR_STREAM_WAIT, PSR_EMULATOR_DROP_NONE, seed, &expected));
    uint32_t survivors = 0;
    for (int kind = 0; kind < PSR_EMULATOR_DROPPABLE_COUNT; kind++)
        survivors +=
            count_survivors(r, (psr_emulator_droppable)kind, counts, waited_for, &expected);
    free(waited_for);
    free(expected.at);
    assert_int_equal(survivors, 0);
}

static void each_wait_is_missed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        miss_each_wait(&runs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_wait_is_missed)};
    table = *psr_emulator_dropping(PSR_EMULATOR_STREAM_WAIT, PSR_EMULATOR_DROP_NONE);
    table.recording_run = recording_run;
    psr_cuda_offer(&table);
    s = setting_of(norm_add(16, true), BATCH);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    setting_done(&s);
    return failed;
}
