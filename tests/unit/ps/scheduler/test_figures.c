/* The figures of runs whose lines are written by hand: what each must come to is worked out in the
 * comments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "tests/unit/ps/metrics_line.h"
#include "ps/scheduler/metrics/figures.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_figures *figures;
static double v[PSR_FIGURE_COUNT];

static void open_figures(uint32_t workers, bool in_turn, uint64_t first_step, uint64_t total_steps)
{
    const psr_figures_options options = {.workers = workers,
                                         .shards = 2,
                                         .in_turn = in_turn,
                                         .first_step = first_step,
                                         .total_steps = total_steps};
    expect_ok(psr_figures_new(&options, &figures));
}

static int close_figures(void **state)
{
    (void)state;
    psr_figures_free(figures);
    figures = NULL;
    return 0;
}

static void take(uint32_t worker, const char *json)
{
    psr_metrics_line line = read_metrics_line(worker, json);
    psr_figures_take_metrics(figures, &line);
    free_metrics_line(&line);
}

/* A line of worker `rank` as its step ended: at train_s of its training clock, wait_s of it spent
 * waiting. */
static void line_after(uint32_t rank, uint32_t step, uint32_t images, double train_s, double wait_s,
                       double pause_s)
{
    char json[256];
    snprintf(json, sizeof json,
             "{\"rank\": %u, \"step\": %u, \"images\": %u, \"train_s\": %g, \"wait_s\": %g, "
             "\"compute_s\": 0.25, \"load_wait_s\": 0, \"pause_s\": %g}",
             rank, step, images, train_s, wait_s, pause_s);
    take(rank, json);
}

static void line(uint32_t rank, uint32_t step, uint32_t images, double train_s, double wait_s)
{
    line_after(rank, step, images, train_s, wait_s, 0);
}

static void done(uint32_t rank, const char *json)
{
    psr_figures_take_done(figures, rank, json, strlen(json));
}

static void look(void)
{
    psr_figures_values(figures, v);
}

/* Async, 20 steps each of 8 images. A step of ranks 0 and 1 takes 0.5 s, one of rank 2 takes 5 s:
 * it ends at 100 s, they at 10 s. */
static void
the_time_of_a_run_is_that_of_its_last_worker_and_its_images_are_all_workers(void **state)
{
    (void)state;
    open_figures(3, false, 0, 20);
    for (uint32_t step = 1; step <= 20; step++) {
        line(0, step, 8, step * 0.5, 0.125);
        line(1, step, 8, step * 0.5, 0.25);
    }
    look();
    assert_true(v[PSR_FIGURE_STEPS] == 0); /* rank 2 has none yet */
    assert_true(v[PSR_FIGURE_IMAGES] == 320 && v[PSR_FIGURE_TRAIN_S] == 10);
    for (uint32_t step = 1; step <= 20; step++)
        line(2, step, 8, step * 5.0, 0);
    look();
    assert_true(v[PSR_FIGURE_STEPS] == 20 && v[PSR_FIGURE_OWN_STEPS] == 20);
    assert_true(v[PSR_FIGURE_IMAGES] == 480);
    assert_true(v[PSR_FIGURE_TRAIN_S] == 100);
    assert_true(v[PSR_FIGURE_IMAGES_PER_S] == 4.8);
    assert_true(v[PSR_FIGURE_WAIT_S] == 2.5); /* of 2.5, 5 and 0 */
    assert_true(v[PSR_FIGURE_WAIT_S_MIN] == 0 && v[PSR_FIGURE_WAIT_S_MAX] == 5);
    assert_true(v[PSR_FIGURE_COMPUTE_S] == 5 && v[PSR_FIGURE_COMPUTE_S_MIN] == 5);
    assert_true(isnan(v[PSR_FIGURE_LOSS]) && isnan(v[PSR_FIGURE_TEST_ACCURACY]));
}

/* The same run. The warm-up of 2 steps ends at 1 s, with 2 steps of ranks 0 and 1 (32 images). They
 * have ended at 10 s, when rank 2 has done 2 of its 20 steps: 42 steps, 336 images. The last step
 * of rank 0 ended at 10.5 s, but it waited for its last weights for 0.5 s. */
static void the_rate_of_all_together_leaves_out_the_tail_of_the_slow_worker(void **state)
{
    (void)state;
    open_figures(3, false, 0, 20);
    for (uint32_t step = 1; step < 20; step++)
        line(0, step, 8, step * 0.5, 0);
    for (uint32_t step = 1; step <= 20; step++)
        line(1, step, 8, step * 0.5, 0);
    look();
    assert_true(v[PSR_FIGURE_TOGETHER_S] == 10);
    take(0, "{\"rank\": 0, \"step\": 20, \"images\": 8, \"train_s\": 10.5, \"drain_s\": 0.5, "
            "\"staleness\": 6}");
    for (uint32_t step = 1; step <= 20; step++)
        line(2, step, 8, step * 5.0, 0);
    look();
    assert_true(v[PSR_FIGURE_TOGETHER_S] == 10 && v[PSR_FIGURE_TRAIN_S] == 100);
    assert_true(fabs(v[PSR_FIGURE_TOGETHER_IMAGES_PER_S] - (336 - 32) / 9.0) < 1e-9);
    assert_true(v[PSR_FIGURE_STALENESS] == 0.1 && v[PSR_FIGURE_STALENESS_MAX] == 6);
    assert_true(v[PSR_FIGURE_DRAIN_S_MAX] == 0.5);
}

/* --seconds ended it after 3 of up to 20 steps. Rank 0 had computed its third at 3 s, rank 1 at 4
 * s, whose images of that step are not of all together. */
static void a_run_that_was_ended_has_its_last_step_by_done(void **state)
{
    (void)state;
    open_figures(2, false, 0, 20);
    for (uint32_t step = 1; step <= 3; step++) {
        line(0, step, 8, step, 0);
        line(1, step, 8, step + (step == 3 ? 1 : 0), 0);
    }
    look();
    assert_true(isnan(v[PSR_FIGURE_TOGETHER_S]));
    done(1, "{\"train_s\": 4}");
    done(0, "{\"train_s\": 3}");
    look();
    assert_true(v[PSR_FIGURE_TOGETHER_S] == 3);
    /* after the two steps of warm-up: 16 + 16 images until 2 s, 40 until 3 s */
    assert_true(v[PSR_FIGURE_TOGETHER_IMAGES_PER_S] == 8);
}

/* 20 steps have a warm-up of 2. Rank 0 has done it after 4 s, rank 1 after 5 s; by 4 s they have
 * done 2 steps and 1. */
static void the_warmup_ends_with_the_first_worker_that_has_done_it(void **state)
{
    (void)state;
    open_figures(2, false, 0, 20);
    look();
    assert_true(v[PSR_FIGURE_WARMUP_STEPS] == 2 && isnan(v[PSR_FIGURE_WARMUP_S]) &&
                isnan(v[PSR_FIGURE_STEADY_IMAGES_PER_S]));
    line(1, 1, 10, 3.5, 0);
    line(1, 2, 10, 5, 0);
    line(0, 1, 10, 3, 0);
    line(0, 2, 10, 4, 0);
    for (uint32_t step = 3; step <= 20; step++) {
        line(0, step, 10, 2 + step, 0);
        line(1, step, 10, 4 + step, 0); /* to 24 s */
    }
    look();
    assert_true(v[PSR_FIGURE_WARMUP_S] == 4);
    assert_true(v[PSR_FIGURE_IMAGES_PER_S] == 400.0 / 24);
    assert_true(v[PSR_FIGURE_STEADY_IMAGES_PER_S] == (400.0 - 30) / (24 - 4));
}

static void the_warmup_is_a_tenth_and_ten_steps_at_most(void **state)
{
    (void)state;
    const uint64_t own[] = {0, 1, 10, 11, 20, 21, 99, 100, 101, UINT64_MAX},
                   warmup[] = {0, 1, 1, 2, 2, 3, 10, 10, 10, 10};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_int_equal(psr_warmup_steps(own[i]), warmup[i]);
}

/* Of 20 steps: what a slower worker completed of its warm-up after the first is no rate of steps
 * that are warm. */
static void a_run_that_fails_in_its_warmup_has_no_steady_rate(void **state)
{
    (void)state;
    open_figures(2, false, 0, 20);
    line(0, 1, 10, 1, 0);
    line(1, 1, 10, 1, 0);
    line(0, 2, 10, 2, 0);
    line(1, 2, 10, 2.0625, 0);
    line(0, 3, 10, 3, 0);
    look();
    assert_true(v[PSR_FIGURE_WARMUP_S] == 2 && isnan(v[PSR_FIGURE_STEADY_IMAGES_PER_S]));
    line(1, 3, 10, 3, 0);
    look();
    assert_true(v[PSR_FIGURE_STEADY_IMAGES_PER_S] == 30);
}

static void one_step_is_all_warmup(void **state)
{
    (void)state;
    open_figures(1, false, 0, 1);
    line(0, 1, 10, 2, 0);
    look();
    assert_true(v[PSR_FIGURE_IMAGES_PER_S] == 5 && v[PSR_FIGURE_WARMUP_S] == 2);
    assert_true(isnan(v[PSR_FIGURE_STEADY_IMAGES_PER_S]));
}

/* Steps 101 to 110, each of a second. */
static void a_resumed_run_counts_its_own_steps(void **state)
{
    (void)state;
    open_figures(2, false, 100, 110);
    look();
    assert_true(v[PSR_FIGURE_STEPS] == 100 && v[PSR_FIGURE_OWN_STEPS] == 0);
    assert_true(isnan(v[PSR_FIGURE_IMAGES_PER_S]));
    for (uint32_t step = 101; step <= 110; step++)
        for (uint32_t rank = 0; rank < 2; rank++)
            line(rank, step, 4, step - 100, 0);
    look();
    assert_true(v[PSR_FIGURE_STEPS] == 110 && v[PSR_FIGURE_OWN_STEPS] == 10);
    assert_true(v[PSR_FIGURE_IMAGES] == 80 && v[PSR_FIGURE_TRAIN_S] == 10 &&
                v[PSR_FIGURE_IMAGES_PER_S] == 8);
    assert_true(v[PSR_FIGURE_WARMUP_STEPS] == 1 && v[PSR_FIGURE_WARMUP_S] == 1);
}

/* The evaluation after step 2 lasts: unix_s goes on, train_s does not, and train_s is what
 * counts. */
static void an_evaluation_is_no_training_time(void **state)
{
    (void)state;
    open_figures(1, false, 0, 4);
    take(0, "{\"rank\": 0, \"step\": 1, \"images\": 10, \"train_s\": 1, \"unix_s\": 1001}");
    take(0, "{\"rank\": 0, \"step\": 2, \"images\": 10, \"train_s\": 2, \"unix_s\": 1002, "
            "\"test_accuracy\": 0.5}");
    take(0, "{\"rank\": 0, \"step\": 3, \"images\": 10, \"train_s\": 3, \"unix_s\": 2003}");
    take(0, "{\"rank\": 0, \"step\": 4, \"images\": 10, \"train_s\": 4, \"unix_s\": 2004}");
    look();
    assert_true(v[PSR_FIGURE_TRAIN_S] == 4 && v[PSR_FIGURE_IMAGES_PER_S] == 10);
}

/* Stopped after a step that was not known as the last: its weights came when its line was told
 * already. */
static void done_has_the_wait_for_the_last_weights(void **state)
{
    (void)state;
    open_figures(2, false, 0, 10);
    line(0, 1, 10, 1, 0.5);
    line(1, 1, 10, 1, 0.25);
    done(0, "{\"steps\": 1, \"train_s\": 1.5, \"wait_s\": 1, \"loss\": 2.5, \"test_loss\": null, "
            "\"test_accuracy\": 0.75, \"test_count\": 40, \"loss_scale\": 512, "
            "\"skipped_steps\": 1, "
            "\"hash\": \"00000000000000ab\"}");
    done(1, "{\"steps\": 1, \"train_s\": 2, \"wait_s\": 0.5, \"loss\": 7, \"hash\": "
            "\"0000000000000000\"}");
    look();
    assert_true(v[PSR_FIGURE_TRAIN_S] == 2 && v[PSR_FIGURE_IMAGES_PER_S] == 10);
    assert_true(v[PSR_FIGURE_WAIT_S] == 0.75 && v[PSR_FIGURE_WAIT_S_MIN] == 0.5 &&
                v[PSR_FIGURE_WAIT_S_MAX] == 1);
    assert_true(v[PSR_FIGURE_LOSS] == 2.5 && isnan(v[PSR_FIGURE_TEST_LOSS]) &&
                v[PSR_FIGURE_TEST_ACCURACY] == 0.75);
    assert_true(v[PSR_FIGURE_LOSS_SCALE] == 512 && v[PSR_FIGURE_SKIPPED_STEPS] == 1);
    char *json = NULL;
    expect_ok(psr_figures_to_json(figures, &json));
    cJSON *object = cJSON_Parse(json);
    for (size_t i = 0; i < PSR_FIGURE_COUNT; i++)
        assert_non_null(cJSON_GetObjectItemCaseSensitive(object, psr_figure_definitions[i].name));
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "hash")),
                        "00000000000000ab");
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, "test_loss")));
    assert_true(cJSON_GetObjectItemCaseSensitive(object, "train_s")->valuedouble == 2);
    cJSON_Delete(object);
    free(json);
}

/* What two workers sent in two steps; the second's DONE tells of a step that has no line. */
static void bytes_of_gradients_are_all_workers_together(void **state)
{
    (void)state;
    open_figures(2, false, 0, 2);
    look();
    assert_true(v[PSR_FIGURE_GRADIENT_BYTES] == 0 && v[PSR_FIGURE_GRADIENT_FLOAT32_BYTES] == 0);
    for (uint32_t step = 1; step <= 2; step++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            char json[128];
            snprintf(json, sizeof json,
                     "{\"rank\": %u, \"step\": %u, \"gradient_bytes\": 10, "
                     "\"gradient_float32_bytes\": 40}",
                     rank, step);
            take(rank, json);
        }
    look();
    assert_true(v[PSR_FIGURE_GRADIENT_BYTES] == 40 && v[PSR_FIGURE_GRADIENT_FLOAT32_BYTES] == 160);
    done(0, "{\"steps\": 2, \"gradient_bytes\": 20, \"gradient_float32_bytes\": 80}");
    done(1, "{\"steps\": 3, \"gradient_bytes\": 30, \"gradient_float32_bytes\": 120}");
    look();
    assert_true(v[PSR_FIGURE_GRADIENT_BYTES] == 50 && v[PSR_FIGURE_GRADIENT_FLOAT32_BYTES] == 200);
}

static void what_the_shards_carried_is_there_when_all_are_done(void **state)
{
    (void)state;
    const psr_traffic carried = {.gradient_bytes = 800, .weight_bytes = 400};
    char *json = NULL;
    open_figures(1, false, 0, 1);
    psr_figures_take_shard(figures, 1, &carried);
    psr_figures_take_shard(figures, 2, &carried); /* there is none */
    expect_ok(psr_figures_to_json(figures, &json));
    assert_null(strstr(json, "shards"));
    free(json);
    psr_figures_take_shard(figures, 0, &carried);
    expect_ok(psr_figures_to_json(figures, &json));
    assert_non_null(strstr(json, "\"shards\":[{\"rank\":0,\"gradient_bytes\":800,\"weight_bytes\":"
                                 "400},{\"rank\":1,\"gradient_bytes\":800,\"weight_bytes\":400}]"));
    free(json);
}

static void one_process_that_plays_all_ranks_is_one_worker(void **state)
{
    (void)state;
    open_figures(3, true, 0, 2);
    for (uint32_t turn = 0; turn < 6; turn++) {
        char json[160];
        snprintf(
            json, sizeof json,
            "{\"rank\": %u, \"step\": %u, \"images\": 10, \"train_s\": %u, \"compute_s\": 0.5}",
            turn % 3, 1 + turn / 3, turn + 1);
        take(0, json);
    }
    look();
    assert_true(v[PSR_FIGURE_STEPS] == 2 && v[PSR_FIGURE_TRAIN_S] == 6 &&
                v[PSR_FIGURE_IMAGES_PER_S] == 10);
    assert_true(v[PSR_FIGURE_COMPUTE_S] == 3 && v[PSR_FIGURE_COMPUTE_S_MIN] == 3 &&
                v[PSR_FIGURE_COMPUTE_S_MAX] == 3);
}

/* A second each; from step 21 on a step takes two. */
static void the_rate_of_now_is_that_of_the_last_seconds(void **state)
{
    (void)state;
    open_figures(1, false, 0, 40);
    assert_true(isnan(psr_figures_recent_rate(figures)));
    line(0, 1, 10, 1, 0);
    assert_true(psr_figures_recent_rate(figures) == 10);
    for (uint32_t step = 2; step <= 40; step++)
        line(0, step, 10, step <= 20 ? step : 20 + (step - 20) * 2.0, 0);
    assert_true(psr_figures_recent_rate(figures) == 5);
}

/* Steps of 7 s, which the two ranks end a little apart. */
static void the_rate_of_now_counts_whole_steps(void **state)
{
    (void)state;
    open_figures(2, false, 0, 10);
    for (uint32_t step = 1; step <= 10; step++) {
        line(step % 2, step, 35, 7.0 * step - 0.125, 0);
        assert_true(step == 1 || psr_figures_recent_rate(figures) == 10);
        line(1 - step % 2, step, 35, 7.0 * step, 0);
        assert_true(psr_figures_recent_rate(figures) == 10);
    }
}

static void what_is_no_plausible_number_counts_as_nothing(void **state)
{
    (void)state;
    open_figures(1, false, 0, 3);
    take(0, "{\"rank\": 0, \"step\": 1, \"images\": -5, \"train_s\": 1e300, \"wait_s\": null}");
    take(0, "{\"rank\": 0, \"step\": 2, \"images\": \"many\", \"train_s\": [1], \"wait_s\": -1}");
    take(0, "{\"rank\": 0, \"step\": 3}");
    done(0, "{\"train_s\": -1, \"hash\": \"\\u001b[2J\"}");
    done(3, "{\"train_s\": 9}");
    done(0, "garbage");
    look();
    assert_true(v[PSR_FIGURE_IMAGES] == 0 && v[PSR_FIGURE_TRAIN_S] == 0 &&
                v[PSR_FIGURE_WAIT_S] == 0);
    assert_true(isnan(v[PSR_FIGURE_IMAGES_PER_S]));
    char *json = NULL;
    expect_ok(psr_figures_to_json(figures, &json));
    assert_null(strstr(json, "hash"));
    free(json);
}

#define A_RUN(test) cmocka_unit_test_teardown(test, close_figures)

static const cJSON *stretches_of(cJSON **ret_outcome)
{
    char *json = NULL;
    expect_ok(psr_figures_to_json(figures, &json));
    *ret_outcome = cJSON_Parse(json);
    free(json);
    return cJSON_GetObjectItemCaseSensitive(*ret_outcome, "stretches");
}

static void expect_stretch(const cJSON *stretches, int i, const char *name, double expected)
{
    const cJSON *stretch = cJSON_GetArrayItem(stretches, i);
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(stretch, name)) == expected);
}

/* Steps 1 and 2 in ps take until 4 s of rank 0 and until 3.5 s of rank 1; the change to ring 1 s of
 * rank 1 and 0.5 s of rank 0; steps 3 and 4 until 9 s, 5 and 6 until 13 s. A change to ps at step 5
 * was planned and is replaced; of one at step 7 no step is taken. */
static void each_stretch_has_its_own_figures(void **state)
{
    (void)state;
    cJSON *outcome;
    open_figures(2, false, 0, 8);
    psr_figures_stretch_decided(figures, PSR_MODE_RING, 2);
    for (uint32_t step = 1; step <= 2; step++)
        for (uint32_t rank = 0; rank < 2; rank++)
            line(rank, step, 8, 2 * step - 0.5 * rank, 0.25 + 0.5 * rank);
    line_after(1, 3, 8, 7, 1, 1); /* before all have said that they stand on it */
    psr_figures_stretch_begun(figures, 2, 1);
    assert_null(stretches_of(&outcome)); /* rank 0 has no step of the second one yet */
    cJSON_Delete(outcome);
    line_after(0, 3, 8, 7, 1, 0.5);
    psr_figures_stretch_decided(figures, PSR_MODE_PS, 4);
    psr_figures_stretch_decided(figures, PSR_MODE_PS, 6);
    psr_figures_stretch_decided(figures, PSR_MODE_RING, 4);
    psr_figures_stretch_decided(figures, PSR_MODE_PS, 6);
    for (uint32_t step = 4; step <= 6; step++)
        for (uint32_t rank = 0; rank < 2; rank++)
            line(rank, step, 8, 1 + 2 * step, 1);
    const cJSON *stretches = stretches_of(&outcome);
    assert_int_equal(cJSON_GetArraySize(stretches), 3);
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(stretches, 1), "mode")),
        "ring");
    expect_stretch(stretches, 0, "first_step", 1);
    expect_stretch(stretches, 0, "steps", 2);
    expect_stretch(stretches, 0, "seconds", 4);
    expect_stretch(stretches, 0, "images_per_s", 8); /* 32 images */
    expect_stretch(stretches, 0, "wait_s", 1);
    expect_stretch(stretches, 0, "wait_s_min", 0.5);
    expect_stretch(stretches, 0, "wait_s_max", 1.5);
    expect_stretch(stretches, 0, "pause_s", 0);
    expect_stretch(stretches, 1, "first_step", 3);
    expect_stretch(stretches, 1, "steps", 2);
    expect_stretch(stretches, 1, "seconds", 4.5); /* of either, without its pause */
    expect_stretch(stretches, 1, "pause_s", 1);
    expect_stretch(stretches, 2, "first_step", 5);
    expect_stretch(stretches, 2, "seconds", 4);
    cJSON_Delete(outcome);
}

static void a_run_of_one_architecture_has_no_stretches(void **state)
{
    (void)state;
    cJSON *outcome;
    open_figures(1, false, 0, 2);
    psr_figures_stretch_decided(figures, PSR_MODE_RING, 1);
    line(0, 1, 8, 1, 0);
    assert_null(stretches_of(&outcome));
    cJSON_Delete(outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        A_RUN(the_time_of_a_run_is_that_of_its_last_worker_and_its_images_are_all_workers),
        A_RUN(the_rate_of_all_together_leaves_out_the_tail_of_the_slow_worker),
        A_RUN(a_run_that_was_ended_has_its_last_step_by_done),
        A_RUN(the_warmup_ends_with_the_first_worker_that_has_done_it),
        A_RUN(the_warmup_is_a_tenth_and_ten_steps_at_most),
        A_RUN(a_run_that_fails_in_its_warmup_has_no_steady_rate),
        A_RUN(one_step_is_all_warmup),
        A_RUN(a_resumed_run_counts_its_own_steps),
        A_RUN(an_evaluation_is_no_training_time),
        A_RUN(done_has_the_wait_for_the_last_weights),
        A_RUN(bytes_of_gradients_are_all_workers_together),
        A_RUN(what_the_shards_carried_is_there_when_all_are_done),
        A_RUN(one_process_that_plays_all_ranks_is_one_worker),
        A_RUN(the_rate_of_now_is_that_of_the_last_seconds),
        A_RUN(the_rate_of_now_counts_whole_steps),
        A_RUN(each_stretch_has_its_own_figures),
        A_RUN(a_run_of_one_architecture_has_no_stretches),
        A_RUN(what_is_no_plausible_number_counts_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
