#include "tests/unit/expect.h"

#include "model/optimizers/updater.h"

#include <math.h>
#include <string.h>

enum { LENGTH = 96 };

/* Three tensors of 16, 48 and 32 floats: [0,16) [16,64) [64,96). Part 0 holds the first and a piece
 * of the second. */
static const psr_span parts[] = {{0, 32}, {32, 64}};
enum { PARTS = 2 };

typedef struct fixture {
    psr_config config;
    psr_layout layout;
    psr_optimizer *optimizer;
    psr_updater *updater;
    float weights[LENGTH], sums[LENGTH];
    uint32_t updated; /* a bit for each part */
} fixture;

static psr_err updated(void *context, uint32_t part)
{
    ((fixture *)context)->updated |= 1u << part;
    return PSR_OK;
}

static void open_fixture(fixture *f, psr_optimizer_kind kind, float *sums)
{
    *f = (fixture){0};
    psr_config_defaults(&f->config);
    f->config.optimizer = kind;
    f->config.schedule.kind = PSR_SCHEDULE_COSINE;
    expect_ok(psr_layout_add(&f->layout, "a", 1, (uint32_t[]){10}));
    expect_ok(psr_layout_add(&f->layout, "b", 2, (uint32_t[]){6, 8}));
    expect_ok(psr_layout_add(&f->layout, "c", 2, (uint32_t[]){4, 5}));
    assert_int_equal(f->layout.length, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        f->weights[i] = 0.01f * (float)(i % 7) - 0.02f;
        f->sums[i] = 0.3f * (float)(i % 11) - 1;
    }
    expect_ok(psr_optimizer_new(&f->config, &f->layout, &f->optimizer));
    const psr_updater_options options = {.config = &f->config,
                                         .layout = &f->layout,
                                         .optimizer = f->optimizer,
                                         .total_steps = 10,
                                         .sums = sums,
                                         .context = f,
                                         .updated = updated};
    expect_ok(psr_updater_new(&options, &f->updater));
    expect_ok(psr_updater_begin(f->updater, f->weights, parts, PARTS));
}

static void close_fixture(fixture *f)
{
    psr_updater_free(f->updater);
    psr_optimizer_free(f->optimizer);
    psr_layout_done(&f->layout);
}

static psr_sum sum_of(const fixture *f, size_t begin, size_t end, uint64_t step)
{
    return (psr_sum){.bucket = 4,
                     .span = {begin, end - begin},
                     .step = step,
                     .number = step + 1,
                     .values = f->sums + begin};
}

static void runs_of_any_cut_update_as_the_optimizer_does_at_the_rate_of_their_step(void **state)
{
    (void)state;
    for (size_t cut = 1; cut <= LENGTH; cut += 19) {
        fixture f, once;
        open_fixture(&f, PSR_OPTIMIZER_ADAM, NULL);
        open_fixture(&once, PSR_OPTIMIZER_ADAM, NULL);
        for (uint64_t step = 0; step < 3; step++) {
            for (size_t at = 0; at < LENGTH; at += cut) {
                psr_sum sum = sum_of(&f, at, at + cut < LENGTH ? at + cut : LENGTH, step);
                expect_ok(psr_updater_take(f.updater, &sum));
            }
            psr_optimizer_update(once.optimizer, once.weights, once.sums, 0, LENGTH,
                                 psr_schedule_lr(&once.config, step, 10), step + 1);
        }
        assert_memory_equal(f.weights, once.weights, sizeof f.weights);
        assert_int_equal(f.updated, 0);
        close_fixture(&f);
        close_fixture(&once);
    }
}

static void check_whole_tensors(fixture *f, fixture *once, const float *values)
{
    for (uint64_t step = 0; step < 2; step++) {
        float before[LENGTH];
        memcpy(before, f->weights, sizeof before);
        f->updated = 0;
        psr_sum second = sum_of(f, 32, 96, step), first = sum_of(f, 0, 32, step);
        second.values = values + 32;
        first.values = values;
        expect_ok(psr_updater_take(f->updater, &second));
        assert_memory_equal(f->weights, before, sizeof before);
        expect_ok(psr_updater_summed(f->updater, 1, step));
        assert_int_equal(f->updated, 0);
        expect_ok(psr_updater_take(f->updater, &first));
        expect_ok(psr_updater_summed(f->updater, 0, step));
        assert_int_equal(f->updated, 3);
        for (size_t t = 0; t < 3; t++)
            psr_optimizer_update_tensor(once->optimizer, once->weights, once->sums, t,
                                        psr_schedule_lr(&once->config, step, 10), step + 1);
        assert_memory_equal(f->weights, once->weights, sizeof f->weights);
    }
}

/* Kept in memory of its own, or in that where the sums lie already. */
static void whole_tensors_wait_for_their_parts(void **state)
{
    (void)state;
    static float sums[LENGTH];
    fixture f, once;
    open_fixture(&f, PSR_OPTIMIZER_LARS, NULL);
    open_fixture(&once, PSR_OPTIMIZER_LARS, NULL);
    check_whole_tensors(&f, &once, f.sums);
    close_fixture(&f);
    close_fixture(&once);
    open_fixture(&f, PSR_OPTIMIZER_LARS, sums);
    open_fixture(&once, PSR_OPTIMIZER_LARS, NULL);
    memcpy(sums, f.sums, sizeof sums);
    check_whole_tensors(&f, &once, sums);
    close_fixture(&f);
    close_fixture(&once);
}

static void what_is_not_finite_is_refused_in_words_and_changes_nothing(void **state)
{
    (void)state;
    const psr_optimizer_kind kinds[] = {PSR_OPTIMIZER_SGD, PSR_OPTIMIZER_LARS};
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        float before[LENGTH];
        open_fixture(&f, kinds[k], NULL);
        memcpy(before, f.weights, sizeof before);
        f.sums[40] = NAN;
        psr_sum sum = sum_of(&f, 32, 96, 6);
        expect_failure(psr_updater_take(f.updater, &sum), PSR_ERR_NUMERIC,
                       "step 7: the gradient of bucket 4 is not finite; a lower --lr may help");
        assert_memory_equal(f.weights, before, sizeof before);
        close_fixture(&f);
    }
}

/* ---- --clip-norm ---- */

static psr_err take_squares(void *context, uint32_t bucket, double squares)
{
    double *found = context;
    assert_int_equal(bucket, 0);
    *found = squares;
    return PSR_OK;
}

static psr_err count_updated(void *context, uint32_t part)
{
    (void)context;
    (void)part;
    return PSR_OK;
}

/* With SGD at rate 1 the weights move by the clipped gradient itself. */
static void clip_to(double limit, float *weights, double *ret_norm)
{
    fixture f;
    open_fixture(&f, PSR_OPTIMIZER_SGD, NULL);
    psr_updater_free(f.updater);
    psr_optimizer_free(f.optimizer);
    f.config.clip_norm = limit;
    f.config.lr = 1;
    f.config.momentum = f.config.weight_decay = 0;
    f.config.schedule = (psr_lr_schedule){.kind = PSR_SCHEDULE_CONSTANT};
    memset(f.weights, 0, sizeof f.weights);
    expect_ok(psr_optimizer_new(&f.config, &f.layout, &f.optimizer));
    const psr_span bucket = {0, LENGTH};
    double squares = -1;
    const psr_updater_options options = {.config = &f.config,
                                         .layout = &f.layout,
                                         .optimizer = f.optimizer,
                                         .context = &squares,
                                         .updated = count_updated,
                                         .buckets = &bucket,
                                         .bucket_count = 1,
                                         .squares = take_squares};
    expect_ok(psr_updater_new(&options, &f.updater));
    expect_ok(psr_updater_begin(f.updater, f.weights, parts, PARTS));
    for (uint32_t p = 0; p < PARTS; p++) {
        const psr_sum sum = {0, parts[p], 0, 1, f.sums + parts[p].offset};
        expect_ok(psr_updater_take(f.updater, &sum));
        assert_true(squares < 0); /* not before all of the bucket is there */
        expect_ok(psr_updater_summed(f.updater, p, 0));
    }
    assert_true(f.weights[0] == 0); /* not before the norm is known */
    *ret_norm = sqrt(squares);
    expect_ok(psr_updater_norm_known(f.updater, 0, *ret_norm));
    memcpy(weights, f.weights, sizeof f.weights);
    close_fixture(&f);
}

static void a_gradient_is_scaled_down_to_the_norm_as_pytorch_does(void **state)
{
    (void)state;
    float plain[LENGTH], clipped[LENGTH];
    double norm, squares = 0;
    clip_to(1e6, plain, &norm);
    for (size_t i = 0; i < LENGTH; i++)
        squares += (double)plain[i] * (double)plain[i]; /* the padding has moved by nothing */
    assert_true(fabs(norm - sqrt(squares)) < 1e-9 * norm);
    clip_to(0.5, clipped, &norm);
    const float factor = (float)(0.5 / (norm + 1e-6)); /* torch.nn.utils.clip_grad_norm_ */
    for (size_t i = 0; i < LENGTH; i++)
        assert_true(clipped[i] == plain[i] * factor);
    assert_true(factor < 1);
}

/* ---- --precision fp16 ---- */

static void sum_all(fixture *f, uint64_t step)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        const psr_sum sum = {0, parts[p], step, step + 1, f->sums + parts[p].offset};
        expect_ok(psr_updater_take(f->updater, &sum));
        expect_ok(psr_updater_summed(f->updater, p, step));
    }
}

/* Steps 1 and 2 overflow. Adam's correction counts updates alone, those before a resume too. */
static void a_step_that_is_not_finite_is_left_out_and_is_no_update(void **state)
{
    (void)state;
    enum { BEFORE = 3 };
    fixture f, once;
    open_fixture(&f, PSR_OPTIMIZER_ADAM, NULL);
    open_fixture(&once, PSR_OPTIMIZER_ADAM, NULL);
    psr_updater_free(f.updater);
    f.config.precision = PSR_PRECISION_FP16;
    const psr_span bucket = {0, LENGTH};
    double squares = -1;
    const psr_updater_options options = {.config = &f.config,
                                         .layout = &f.layout,
                                         .optimizer = f.optimizer,
                                         .total_steps = 10,
                                         .skipped = BEFORE,
                                         .context = &squares,
                                         .updated = count_updated,
                                         .buckets = &bucket,
                                         .bucket_count = 1,
                                         .squares = take_squares};
    expect_ok(psr_updater_new(&options, &f.updater));
    expect_ok(psr_updater_begin(f.updater, f.weights, parts, PARTS));
    for (uint64_t step = 0; step < 4; step++) {
        const bool overflows = step == 1 || step == 2;
        const float kept = f.sums[40];
        if (overflows)
            f.sums[40] = step == 1 ? INFINITY : NAN;
        sum_all(&f, BEFORE + step);
        f.sums[40] = kept;
        assert_true(squares == (overflows ? INFINITY : 0));
        expect_ok(psr_updater_norm_known(f.updater, BEFORE + step, sqrt(squares)));
        if (!overflows)
            psr_optimizer_update(once.optimizer, once.weights, once.sums, 0, LENGTH,
                                 psr_schedule_lr(&once.config, BEFORE + step, 10),
                                 step == 0 ? 1 : 2);
        assert_memory_equal(f.weights, once.weights, sizeof f.weights);
    }
    close_fixture(&f);
    close_fixture(&once);
}

/* A run that was in fp16 goes on in float32: elements at once, whole tensors, and whole parts. */
static void steps_left_out_before_are_no_updates_in_another_precision_either(void **state)
{
    (void)state;
    enum { BEFORE = 3, STEP = 5 };
    static const struct {
        psr_optimizer_kind kind;
        uint32_t norms;
    } cases[] = {{PSR_OPTIMIZER_ADAM, 0}, {PSR_OPTIMIZER_LAMB, 0}, {PSR_OPTIMIZER_ADAM, 100}};
    const psr_span bucket = {0, LENGTH};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        fixture f, once;
        open_fixture(&f, cases[c].kind, NULL);
        open_fixture(&once, cases[c].kind, NULL);
        psr_updater_free(f.updater);
        f.config.tensorboard_norms = cases[c].norms;
        const psr_updater_options options = {.config = &f.config,
                                             .layout = &f.layout,
                                             .optimizer = f.optimizer,
                                             .total_steps = 10,
                                             .skipped = BEFORE,
                                             .context = &f,
                                             .updated = updated,
                                             .buckets = &bucket,
                                             .bucket_count = 1};
        expect_ok(psr_updater_new(&options, &f.updater));
        expect_ok(psr_updater_begin(f.updater, f.weights, parts, PARTS));
        for (uint32_t p = 0; p < PARTS; p++) {
            const psr_sum sum = {0, parts[p], STEP, STEP + 1, f.sums + parts[p].offset};
            expect_ok(psr_updater_take(f.updater, &sum));
            if (psr_updater_waits(&f.config))
                expect_ok(psr_updater_summed(f.updater, p, STEP));
        }
        const float lr = psr_schedule_lr(&once.config, STEP, 10);
        const bool whole = psr_optimizer_whole_tensors(once.optimizer);
        for (size_t t = 0; t < once.layout.tensor_count && whole; t++)
            psr_optimizer_update_tensor(once.optimizer, once.weights, once.sums, t, lr,
                                        STEP + 1 - BEFORE);
        if (!whole)
            psr_optimizer_update(once.optimizer, once.weights, once.sums, 0, LENGTH, lr,
                                 STEP + 1 - BEFORE);
        assert_memory_equal(f.weights, once.weights, sizeof f.weights);
        close_fixture(&f);
        close_fixture(&once);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_any_cut_update_as_the_optimizer_does_at_the_rate_of_their_step),
        cmocka_unit_test(whole_tensors_wait_for_their_parts),
        cmocka_unit_test(a_gradient_is_scaled_down_to_the_norm_as_pytorch_does),
        cmocka_unit_test(what_is_not_finite_is_refused_in_words_and_changes_nothing),
        cmocka_unit_test(a_step_that_is_not_finite_is_left_out_and_is_no_update),
        cmocka_unit_test(steps_left_out_before_are_no_updates_in_another_precision_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
