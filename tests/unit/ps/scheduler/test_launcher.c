/* The scheduler's pipes with the launcher. Standard input and output of this program are replaced
 * for the tests by pipes of their own. */
#include "tests/unit/expect.h"
#include "tests/unit/ps/wakes.h"

#include "ps/scheduler/launcher/launcher.h"
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
    expect_ok(psr_launcher_new(PSR_LAUNCHER_WHOLE, NULL, wake, NULL, &p->launcher));
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
    put(p.to, "{\"order\": \"lost\", \"role\": \"worker\", \"rank\": 3, \"host\": \"b\", "
              "\"by_itself\": false, \"how\": \"killed by signal 9\"}\n"
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
    const psr_view_member entry = {
        .peer = {PSR_ROLE_WORKER, 1}, .host = "b", .endpoint = "tcp://b:1"};
    psr_launcher_listening(p.launcher, "tcp://a:1");
    psr_launcher_joined(p.launcher, &entry, 2, 3);
    psr_launcher_directory(p.launcher, "runs/b", "runs/a");
    psr_launcher_running(p.launcher);
    psr_launcher_progress(p.launcher, 4, 10, 0.5, 100);
    psr_launcher_progress(p.launcher, 5, 10, NAN, 100);
    psr_launcher_evaluating(p.launcher, 5, 10, 30, 90);
    psr_launcher_evaluated(p.launcher, "well");
    psr_launcher_say(p.launcher, PSR_LOG_OF_RUN, PSR_LOG_INFO, "a \"word\"");
    psr_launcher_alive(p.launcher);
    psr_launcher_paused(p.launcher);
    psr_launcher_ended(p.launcher, PSR_ERR_PROTOCOL, "why", "{\"hash\": \"12\"}", NULL);
    read_all(p.from, text, sizeof text);
    assert_string_equal(
        text,
        "{\"event\":\"listening\",\"endpoint\":\"tcp://a:1\"}\n"
        "{\"event\":\"joined\",\"role\":\"worker\",\"rank\":1,\"host\":\"b\",\"count\":2,\"total\":"
        "3}\n"
        "{\"event\":\"directory\",\"out\":\"runs/b\",\"resumed\":\"runs/a\"}\n"
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

static void
a_launcher_that_does_not_read_stops_nobody_and_misses_nothing_that_is_said_once(void **state)
{
    (void)state;
    pipes p;
    open_pipes(&p);
    for (uint64_t step = 0; step < 20000; step++) /* far more than a pipe holds */
        psr_launcher_progress(p.launcher, step, 20000, 0.5, 100);
    for (int i = 0; i < 20000; i++)
        psr_launcher_say(p.launcher, PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "turned away one more");
    psr_launcher_ended(p.launcher, PSR_OK, "the end", NULL, NULL);
    size_t size = 1 << 20, used = 0;
    char *text = calloc(size, 1);
    while (strstr(text + (used > 200 ? used - 200 : 0), "the end") == NULL) {
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

/* ---- by hand ---- */

/* What a start without psring's launcher shows is what psring train shows, and asks nobody to read
 * it. */
static void by_hand_a_run_is_shown_as_psring_train_shows_it(void **state)
{
    (void)state;
    psr_config config;
    psr_launcher *launcher;
    char text[8192];
    int out[2], own_out = dup(STDOUT_FILENO);
    const psr_show_place place = {
        .hosts = {"a", "b"}, .host_count = 2, .sharing = 1, .sockets = ""};
    psr_config_defaults(&config);
    config.threads = 2;
    config.log_every = 10;
    fflush(stdout);
    assert_int_equal(pipe(out), 0);
    dup2(out[1], STDOUT_FILENO);
    close(out[1]);
    expect_ok(psr_launcher_new(PSR_LAUNCHER_NONE, &config, wake, NULL, &launcher));
    psr_launcher_configuration(launcher, &place);
    psr_launcher_say(launcher, PSR_LOG_OF_RUN, PSR_LOG_INFO, "  buckets    3");
    psr_launcher_directory(launcher, "runs/b", "runs/a");
    for (uint64_t step = 1; step <= 25; step++)
        psr_launcher_progress(launcher, step, 25, 0.5, 100);
    psr_launcher_evaluated(launcher, "step 25: well");
    psr_launcher_ended(launcher, PSR_OK, "25 steps done",
                       "{\"steps\": 25, \"own_steps\": 25, \"train_s\": 2, \"images_per_s\": 100, "
                       "\"loss\": 0.5, \"hash\": \"0123456789abcdef\"}",
                       NULL);
    psr_launcher_free(launcher); /* writes what waits */
    dup2(own_out, STDOUT_FILENO);
    close(own_out);
    size_t used = 0;
    for (ssize_t got; (got = read(out[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(out[0]);
    const char *const lines[] = {
        "psring " PSR_VERSION "\n",
        ("  hosts      a, b\n"
         "  network    memory shared within 1 host, tcp between them, encrypted (CURVE, values "
         "sealed)\n"),
        "  buckets    3\n  resumes    runs/a\n  run        runs/b\nstep 10/25  ",
        "\nstep 20/25  ",
        "\nstep 25/25  ",
        "\nstep 25: well\ntrained    25 steps in 2.000 s",
        "\nresult     loss 0.5, weight hash 0123456789abcdef\nwritten    runs/b\n"};
    const char *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *found = strstr(at, lines[i]);
        if (found == NULL)
            print_error("no '%s' in: %s", lines[i], at);
        assert_non_null(found);
        at = found + strlen(lines[i]);
    }
    assert_string_equal(at, "");
}

int main(void)
{
    psr_input_thread_block_signals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_read_and_what_is_none_is_told_as_such),
        cmocka_unit_test(events_are_one_line_of_json_each),
        cmocka_unit_test(
            a_launcher_that_does_not_read_stops_nobody_and_misses_nothing_that_is_said_once),
        cmocka_unit_test(by_hand_a_run_is_shown_as_psring_train_shows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
