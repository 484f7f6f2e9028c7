/* The thread that reads standard input and takes signals: lines, their end, and who is woken. */
#include "tests/unit/expect.h"
#include "tests/unit/ps/wakes.h"

#include "ps/input_thread.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The next event; waits for a wake when there is none yet. */
static psr_input_thread_kind next_event(psr_input_thread *input, char **line)
{
    for (;;) {
        unsigned before = wakes_so_far();
        psr_input_thread_kind kind = psr_input_thread_next(input, line);
        if (kind != PSR_INPUT_NOTHING)
            return kind;
        await_wake(before);
    }
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void expect_line(psr_input_thread *input, const char *text)
{
    char *line = NULL;
    assert_int_equal(next_event(input, &line), PSR_INPUT_LINE);
    assert_string_equal(line, text);
    free(line);
}

/* ---- events ---- */

static void lines_come_whole_and_in_order_however_they_were_written(void **state)
{
    (void)state;
    int ends[2];
    psr_input_thread *input;
    char *line = NULL;
    assert_int_equal(pipe(ends), 0);
    expect_ok(psr_input_thread_new(ends[0], wake, NULL, &input));
    put(ends[1], "first\n\nthi");
    expect_line(input, "first");
    expect_line(input, "");
    put(ends[1], "rd\nnever ended");
    expect_line(input, "third");
    close(ends[1]);
    assert_int_equal(next_event(input, &line), PSR_INPUT_END);
    assert_int_equal(psr_input_thread_next(input, &line), PSR_INPUT_NOTHING); /* told once */
    psr_input_thread_free(input);
    close(ends[0]);
}

static void a_line_without_end_is_cut_and_costs_no_more_memory(void **state)
{
    (void)state;
    int ends[2];
    psr_input_thread *input;
    char *line = NULL, block[4096];
    memset(block, 'x', sizeof block);
    assert_int_equal(pipe(ends), 0);
    expect_ok(psr_input_thread_new(ends[0], wake, NULL, &input));
    for (int i = 0; i < 1024; i++) /* 4 MiB */
        assert_int_equal(write(ends[1], block, sizeof block), sizeof block);
    put(ends[1], "\nshort\n");
    assert_int_equal(next_event(input, &line), PSR_INPUT_LINE);
    assert_true(strlen(line) < 1 << 20);
    free(line);
    expect_line(input, "short");
    close(ends[1]);
    psr_input_thread_free(input);
    close(ends[0]);
}

/* Who writes faster than the lines are taken waits, and nothing is lost. */
static void lines_that_nobody_takes_wait_where_they_were_written(void **state)
{
    (void)state;
    enum { LINES_MAX = 1 << 20 };
    int ends[2], written = 0;
    psr_input_thread *input;
    char line[16], *taken = NULL;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    expect_ok(psr_input_thread_new(ends[0], wake, NULL, &input));
    struct pollfd room = {ends[1], POLLOUT, 0};
    /* longer than the thread takes to read a pipe, or the test is easier */
    while (written < LINES_MAX && poll(&room, 1, 500) == 1) {
        int size = snprintf(line, sizeof line, "%d\n", written);
        written += write(ends[1], line, (size_t)size) == size;
    }
    assert_true(written < LINES_MAX); /* of all, it would have taken tens of MiB */
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    for (int i = 0; i < written; i++) {
        snprintf(line, sizeof line, "%d", i);
        expect_line(input, line);
    }
    close(ends[1]);
    assert_int_equal(next_event(input, &taken), PSR_INPUT_END);
    psr_input_thread_free(input);
    close(ends[0]);
}

static void a_signal_to_end_is_an_event(void **state)
{
    (void)state;
    psr_input_thread *input;
    char *line = NULL;
    expect_ok(psr_input_thread_new(-1, wake, NULL, &input));
    kill(getpid(), SIGTERM);
    assert_int_equal(next_event(input, &line), PSR_INPUT_INTERRUPT);
    kill(getpid(), SIGINT);
    assert_int_equal(next_event(input, &line), PSR_INPUT_INTERRUPT);
    psr_input_thread_free(input);
}

int main(void)
{
    psr_input_thread_block_signals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_and_in_order_however_they_were_written),
        cmocka_unit_test(a_line_without_end_is_cut_and_costs_no_more_memory),
        cmocka_unit_test(lines_that_nobody_takes_wait_where_they_were_written),
        cmocka_unit_test(a_signal_to_end_is_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
