/* The scheduler's pipes with the launcher, and what a person sees of the run.
 * Standard input and output of this program are replaced for the tests by pipes of their own. */
#include "expect.h"
#include "metrics_line.h"
#include "wakes.h"

#include "ps/scheduler/launcher.h"
#include "ps/scheduler/progress.h"
#include "ps/input_thread.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* ---- the launcher's pipes ---- */

typedef struct pipes {
    int own_in, own_out; /* this program's, kept aside */
    int to, from;        /* the launcher's ends */
    psr_launcher *launcher;
} pipes;

static void open_pipes(pipes *p)
{
    int in[2], out[2];
    fflush(stdout);
    p->own_in = dup(STDIN_FILENO);
    p->own_out = dup(STDOUT_FILENO);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[0]);
    close(out[1]);
    p->to = in[1];
    p->from = out[0];
    expect_ok(psr_launcher_new(false, wake, NULL, &p->launcher));
}

static void close_pipes(pipes *p)
{
    if (p->to >= 0)
        close(p->to);
    close(p->from);
    psr_launcher_free(p->launcher);
    dup2(p->own_in, STDIN_FILENO);
    dup2(p->own_out, STDOUT_FILENO);
    close(p->own_in);
    close(p->own_out);
}

/* What it hears next; waits for a wake when there is nothing yet. */
static psr_launcher_heard hear(pipes *p, psr_order *order)
{
    for (;;) {
        unsigned before = wakes_so_far();
        psr_launcher_heard heard = psr_launcher_take(p->launcher, order);
        if (heard != PSR_LAUNCHER_NOTHING)
            return heard;
        await_wake(before);
    }
}

static void orders_are_read_and_what_is_none_is_told_as_such(void **state)
{
    (void)state;
    pipes p;
    psr_order order;
    open_pipes(&p);
    put(p.to, "{\"order\": \"lost\", \"role\": \"worker\", \"rank\": 3, \"host\": \"b\", \"how\": \"killed "
              "by signal 9\"}\n"
              "{\"order\": \"agent\", \"host\": \"b\"}\n"
              "{\"order\": \"stop\"}\n"
              "not json\n");
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_ORDER);
    assert_int_equal(order.kind, PSR_ORDER_LOST);
    assert_true(psr_peer_equal(order.peer, (psr_peer){PSR_ROLE_WORKER, 3}));
    assert_string_equal(order.host, "b");
    assert_string_equal(order.how, "killed by signal 9");
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_BAD);
    assert_string_equal(psr_err_detail(),
                        "'{\"order\": \"agent\", \"host\": \"b\"}': field \"how\" is missing");
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_ORDER);
    assert_int_equal(order.kind, PSR_ORDER_STOP);
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_BAD);
    assert_string_equal(psr_err_detail(), "'not json': field \"order\" is missing or no text");
    kill(getpid(), SIGTERM);
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_INTERRUPT);
    close(p.to);
    p.to = -1;
    assert_int_equal(hear(&p, &order), PSR_LAUNCHER_GONE);
    close_pipes(&p);
}

static void read_all(int fd, char *text, size_t size)
{
    ssize_t got = read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
}

static void events_are_one_line_of_json_each(void **state)
{
    (void)state;
    pipes p;
    char text[4096];
    open_pipes(&p);
    const psr_roster_entry entry = {{PSR_ROLE_WORKER, 1}, "b", "tcp://b:1"};
    psr_launcher_listening(p.launcher, "tcp://a:1");
    psr_launcher_joined(p.launcher, &entry, 2, 3);
    psr_launcher_running(p.launcher);
    psr_launcher_progress(p.launcher, 4, 10, 0.5, 100);
    psr_launcher_progress(p.launcher, 5, 10, NAN, 100);
    psr_launcher_evaluating(p.launcher, 5, 10, 30, 90);
    psr_launcher_evaluated(p.launcher, "well");
    psr_launcher_say(p.launcher, PSR_LOG_OF_RUN, PSR_LOG_INFO, "a \"word\"");
    psr_launcher_alive(p.launcher);
    psr_launcher_paused(p.launcher);
    psr_launcher_ended(p.launcher, PSR_ERR_PROTOCOL, "why", "{\"hash\": \"12\"}");
    read_all(p.from, text, sizeof text);
    assert_string_equal(
        text, "{\"event\":\"listening\",\"endpoint\":\"tcp://a:1\"}\n"
              "{\"event\":\"joined\",\"role\":\"worker\",\"rank\":1,\"host\":\"b\",\"count\":2,\"total\":3}\n"
              "{\"event\":\"running\"}\n"
              "{\"event\":\"progress\",\"step\":4,\"total\":10,\"loss\":0.5,\"images_per_s\":100}\n"
              "{\"event\":\"progress\",\"step\":5,\"total\":10,\"images_per_s\":100}\n"
              "{\"event\":\"evaluating\",\"step\":5,\"total\":10,\"counted\":30,\"samples\":90}\n"
              "{\"event\":\"evaluated\",\"line\":\"well\"}\n"
              "{\"event\":\"say\",\"level\":\"info\",\"kind\":\"run\",\"line\":\"a \\\"word\\\"\"}\n"
              "{\"event\":\"alive\"}\n"
              "{\"event\":\"paused\"}\n"
              "{\"event\":\"ended\",\"status\":3,\"line\":\"why\",\"outcome\":{\"hash\":\"12\"}}\n");
    close_pipes(&p);
}

static void a_launcher_that_does_not_read_stops_nobody_and_misses_nothing_that_is_said_once(void **state)
{
    (void)state;
    pipes p;
    open_pipes(&p);
    for (uint64_t step = 0; step < 20000; step++) /* far more than a pipe holds */
        psr_launcher_progress(p.launcher, step, 20000, 0.5, 100);
    for (int i = 0; i < 20000; i++)
        psr_launcher_say(p.launcher, PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "turned away one more");
    psr_launcher_ended(p.launcher, PSR_OK, "the end", NULL);
    size_t size = 1 << 20, used = 0;
    char *text = calloc(size, 1);
    while (!strstr(text + (used > 200 ? used - 200 : 0), "the end")) {
        ssize_t got = read(p.from, text + used, size - 1 - used);
        assert_true(got > 0);
        used += (size_t)got;
        psr_launcher_flush(p.launcher);
    }
    assert_true(used < 300000); /* the bar's many steps and the strangers were left out */
    assert_non_null(strstr(text, "{\"event\":\"ended\",\"status\":0,\"line\":\"the end\"}\n"));
    free(text);
    close_pipes(&p);
}

/* ---- what the bar shows ---- */

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
    expect_ok(psr_progress_new(&(psr_progress_options){2, 10, 5, 90}, &progress));
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

static void round_steps_are_always_shown(void **state)
{
    (void)state;
    psr_progress *progress;
    psr_progress_now now;
    expect_ok(psr_progress_new(&(psr_progress_options){1, 100, 5, 90}, &progress));
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
    expect_ok(psr_progress_new(&(psr_progress_options){2, 10, 5, 90}, &progress));
    assert_false(psr_progress_look_evaluating(progress, 1000, &now));
    psr_progress_counted(progress, 0, 3, 0);
    assert_true(psr_progress_look_evaluating(progress, 1000, &now)); /* that it has begun is told at once */
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
    psr_input_thread_block_signals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_read_and_what_is_none_is_told_as_such),
        cmocka_unit_test(events_are_one_line_of_json_each),
        cmocka_unit_test(a_launcher_that_does_not_read_stops_nobody_and_misses_nothing_that_is_said_once),
        cmocka_unit_test(progress_is_the_slowest_rank_and_the_mean_loss),
        cmocka_unit_test(round_steps_are_always_shown),
        cmocka_unit_test(an_evaluation_is_the_samples_of_all_ranks_until_its_outcome_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
