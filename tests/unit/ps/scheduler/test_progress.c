/* What a person sees of a run, from lines of metrics. */
#include "tests/unit/expect.h"
#include "tests/unit/ps/metrics_line.h"

#include "ps/scheduler/metrics/progress.h"

#include <math.h>
#include <stdio.h>

static void say_metrics(psr_progress *progress, const char *json)
{
    psr_metrics_line line = read_metrics_line(0, json);
    psr_progress_take(progress, &line);
    free_metrics_line(&line);
}

static void progress_is_the_slowest_rank_and_the_mean_loss(void **state)
{
    (void)state;
    psr_progress *progress;
    psr_progress_now now;
    expect_ok(psr_progress_new(&(psr_progress_options){2, 10, 5, 90, 0}, &progress));
    say_metrics(progress, "{\"step\": 1, \"rank\": 0, \"loss\": 2}");
    assert_false(psr_progress_look(progress, 1000, &now)); /* rank 1 has not done it */
    say_metrics(progress, "{\"step\": 1, \"rank\": 1, \"loss\": 3}");
    assert_true(psr_progress_look(progress, 1000, &now));
    assert_int_equal(now.step, 1);
    assert_int_equal(now.total, 10);
    assert_true(now.loss == 2.5);
    say_metrics(progress, "{\"step\": 2, \"rank\": 0, \"loss\": null}");
    say_metrics(progress, "{\"step\": 2, \"rank\": 1, \"loss\": 1}");
    assert_false(psr_progress_look(progress, 1050, &now)); /* ten times a second */
    assert_true(psr_progress_look(progress, 1100, &now));
    assert_true(now.loss == 1);
    assert_false(psr_progress_look(progress, 2000, &now)); /* nothing new */
    say_metrics(progress, "{\"step\": 10, \"rank\": 0}");
    say_metrics(progress, "{\"step\": 10, \"rank\": 1}");
    assert_true(psr_progress_look(progress, 1101, &now)); /* the last is always shown */
    assert_true(isnan(now.loss));
    assert_false(psr_progress_look(progress, 5000, &now));
    psr_progress_free(progress);
}

static void of_a_run_by_seconds_the_total_is_an_estimate(void **state)
{
    (void)state;
    psr_progress *progress;
    psr_progress_now now;
    const psr_progress_options options = {
        .ranks = 1, .total = 1000, .round_every = 1, .samples = 90, .seconds = 8};
    expect_ok(psr_progress_new(&options, &progress));
    say_metrics(progress, "{\"step\": 3, \"rank\": 0, \"train_s\": 2}");
    assert_true(psr_progress_look(progress, 0, &now));
    assert_int_equal(now.total, 12);
    say_metrics(progress, "{\"step\": 4, \"rank\": 0, \"train_s\": 0.001}"); /* not backwards */
    assert_true(psr_progress_look(progress, 0, &now));
    assert_int_equal(now.total, 16);
    say_metrics(progress, "{\"step\": 17, \"rank\": 0, \"train_s\": 8.5}");
    assert_true(psr_progress_look(progress, 0, &now));
    assert_int_equal(now.total, 17);
    psr_progress_free(progress);
}

static void round_steps_are_always_shown(void **state)
{
    (void)state;
    psr_progress *progress;
    psr_progress_now now;
    expect_ok(psr_progress_new(&(psr_progress_options){1, 100, 5, 90, 0}, &progress));
    uint32_t shown = 0;
    for (int step = 1; step <= 20; step++) { /* all within a millisecond */
        char json[64];
        snprintf(json, sizeof json, "{\"step\": %d, \"rank\": 0, \"loss\": 1}", step);
        say_metrics(progress, json);
        if (!psr_progress_look(progress, 1000, &now))
            continue;
        shown++;
        assert_true(now.step == 1 || now.step % 5 == 0);
    }
    assert_int_equal(shown, 5);
    psr_progress_free(progress);
}

static void an_evaluation_is_the_samples_of_all_ranks_until_its_outcome_is_there(void **state)
{
    (void)state;
    psr_progress *progress;
    psr_progress_evaluating now;
    expect_ok(psr_progress_new(&(psr_progress_options){2, 10, 5, 90, 0}, &progress));
    assert_false(psr_progress_look_evaluating(progress, 1000, &now));
    psr_progress_counted(progress, 0, 3, 0);
    /* that it has begun is told at once */
    assert_true(psr_progress_look_evaluating(progress, 1000, &now));
    assert_int_equal(now.step, 3);
    assert_int_equal(now.total, 10);
    assert_int_equal(now.counted, 0);
    assert_int_equal(now.samples, 90);
    psr_progress_counted(progress, 0, 3, 40);
    psr_progress_counted(progress, 1, 3, 20);
    assert_false(psr_progress_look_evaluating(progress, 1050, &now)); /* ten times a second */
    assert_true(psr_progress_look_evaluating(progress, 1100, &now));
    assert_int_equal(now.counted, 60);
    assert_false(psr_progress_look_evaluating(progress, 2000, &now)); /* nothing new */
    psr_progress_counted(progress, 7, 3, 20);                         /* no such rank */
    assert_false(psr_progress_look_evaluating(progress, 2000, &now));
    say_metrics(progress, "{\"step\": 3, \"rank\": 0, \"test_accuracy\": 0.5, \"test_loss\": 1}");
    psr_progress_counted(progress, 1, 3, 45); /* what was under way */
    assert_false(psr_progress_look_evaluating(progress, 3000, &now));
    psr_progress_counted(progress, 1, 6, 1);
    assert_true(psr_progress_look_evaluating(progress, 3001, &now));
    assert_int_equal(now.step, 6);
    assert_int_equal(now.counted, 1);
    psr_progress_free(progress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_the_slowest_rank_and_the_mean_loss),
        cmocka_unit_test(of_a_run_by_seconds_the_total_is_an_estimate),
        cmocka_unit_test(round_steps_are_always_shown),
        cmocka_unit_test(an_evaluation_is_the_samples_of_all_ranks_until_its_outcome_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
