#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Puts the two ends of what a launcher reads in place of stdout and stderr for one test. The test's
 * own output (cmocka's TAP) must not get in between: it is put back before any assertion. */
typedef struct capture {
    int saved_out, saved_err;
    int out[2], err[2]; /* [0] is ours to read */
} capture;

static capture begin_capture(int (*make)(int fds[2]))
{
    capture c;
    fflush(stdout);
    fflush(stderr);
    c.saved_out = dup(STDOUT_FILENO);
    c.saved_err = dup(STDERR_FILENO);
    if (c.saved_out < 0 || c.saved_err < 0 || make(c.out) != 0 || make(c.err) != 0 ||
        dup2(c.out[1], STDOUT_FILENO) < 0 || dup2(c.err[1], STDERR_FILENO) < 0)
        _exit(99);
    return c;
}

static void end_capture(capture *c)
{
    dup2(c->saved_out, STDOUT_FILENO);
    dup2(c->saved_err, STDERR_FILENO);
    close(c->saved_out);
    close(c->saved_err);
    close(c->out[1]);
    close(c->err[1]);
    /* The log holds a description of its own of the pipe: let go of it. */
    psr_log_init("test", PSR_LOG_INFO);
}

static void close_capture(capture *c)
{
    close(c->out[0]);
    close(c->err[0]);
}

static int make_pipe(int fds[2])
{
    return pipe2(fds, O_CLOEXEC);
}

static int make_socket(int fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
}

/* What there is to read now, up to size - 1 bytes; ends with a zero. */
static size_t read_some(int fd, char *text, size_t size)
{
    size_t used = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (used < size - 1 && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0) {
        ssize_t got = read(fd, text + used, size - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    return used;
}

static void a_line_has_time_level_name_and_message(void **state)
{
    (void)state;
    char text[4096];
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 1", PSR_LOG_INFO);
    psr_log(PSR_LOG_INFO, "joined scheduler=%s step=%d", "here", 3);
    read_some(c.err[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);

    int hour, minute, second, thousandth, end = 0;
    assert_int_equal(sscanf(text, "%2d:%2d:%2d.%3d %n", &hour, &minute, &second, &thousandth, &end),
                     4);
    assert_int_equal(end, 13);
    assert_string_equal(text + end, "info  worker 1: joined scheduler=here step=3\n");
}

static void levels_below_the_threshold_are_left_out(void **state)
{
    (void)state;
    char text[4096];
    capture c = begin_capture(make_pipe);
    psr_log_init("shard 0", PSR_LOG_WARN);
    psr_log(PSR_LOG_DEBUG, "one");
    psr_log(PSR_LOG_INFO, "two");
    psr_log(PSR_LOG_WARN, "three");
    psr_log(PSR_LOG_ERROR, "four");
    read_some(c.err[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);
    assert_null(strstr(text, "one"));
    assert_null(strstr(text, "two"));
    assert_non_null(strstr(text, "warn  shard 0: three\n"));
    assert_non_null(strstr(text, "error shard 0: four\n"));
}

static void a_plain_line_is_unprefixed_and_on_stdout(void **state)
{
    (void)state;
    char text[4096];
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    psr_log_plain("epoch: %d step: %d, loss is %.16g", 1, 20, 2.241283893585205);
    read_some(c.out[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);
    assert_string_equal(text, "epoch: 1 step: 20, loss is 2.241283893585205\n");
}

static void a_message_stays_one_line_without_control_characters(void **state)
{
    (void)state;
    char text[4096];
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    psr_log_plain("a\nb\x1b[2J");
    read_some(c.out[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);
    assert_string_equal(text, "a b?[2J\n");
}

static void a_line_that_is_too_long_is_cut_to_what_a_pipe_takes_as_one(void **state)
{
    (void)state;
    char longer[2 * PIPE_BUF], text[4 * PIPE_BUF];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    psr_log_plain("%s", longer);
    size_t plain = read_some(c.out[0], text, sizeof text);
    psr_log(PSR_LOG_INFO, "%s", longer);
    size_t logged = read_some(c.err[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);
    assert_int_equal(plain, PIPE_BUF);
    assert_int_equal(logged, PIPE_BUF);
    assert_int_equal(text[PIPE_BUF - 1], '\n');
}

/* Were it to wait, it would wait for ever. */
static void a_full_output_drops_lines_counts_them_and_tells(int (*make)(int fds[2]))
{
    enum { LINES = 20000 };
    static char text[1 << 21];
    capture c = begin_capture(make);
    psr_log_init("worker 2", PSR_LOG_INFO);
    for (int i = 0; i < LINES; i++)
        psr_log(PSR_LOG_INFO,
                "line %d .......................................................................",
                i);
    size_t used = read_some(c.err[0], text, sizeof text);
    psr_log(PSR_LOG_INFO, "after");
    read_some(c.err[0], text + used, sizeof text - used);
    end_capture(&c);
    close_capture(&c);

    int arrived = 0;
    unsigned long long dropped_err = 0, dropped_out = 1;
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        const char *counts = strstr(line, "lines were dropped");
        int number;
        const char *numbered = strstr(line, ": line ");
        if (numbered != NULL && numbered < end) {
            /* In order and without a gap until it was full. */
            assert_int_equal(sscanf(numbered, ": line %d", &number), 1);
            assert_int_equal(number, arrived);
            arrived++;
        } else if (counts != NULL && counts < end) {
            assert_int_equal(sscanf(counts, "lines were dropped stderr=%llu stdout=%llu",
                                    &dropped_err, &dropped_out),
                             2);
        } else {
            assert_non_null(strstr(line, "worker 2: after\n"));
        }
        line = end + 1;
    }
    assert_true(arrived > 0);
    assert_int_equal(arrived + (int)dropped_err, LINES);
    assert_int_equal(dropped_out, 0);
}

static void a_full_pipe_drops_lines_counts_them_and_tells(void **state)
{
    (void)state;
    a_full_output_drops_lines_counts_them_and_tells(make_pipe);
}

static void a_full_socket_drops_lines_and_goes_on(void **state)
{
    (void)state;
    a_full_output_drops_lines_counts_them_and_tells(make_socket);
}

static void lines_lost_on_stdout_are_told_on_stderr(void **state)
{
    (void)state;
    static char text[1 << 21];
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    for (int i = 0; i < 5000; i++)
        psr_log_plain("epoch: 1 step: %d, loss is 2.241283893585205", i);
    psr_log(PSR_LOG_INFO, "still here");
    read_some(c.err[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);
    assert_non_null(strstr(text, "lines were dropped stderr=0 stdout="));
    assert_null(strstr(text, "stdout=0"));
    assert_non_null(strstr(text, "still here\n"));
}

static void the_flags_of_the_shared_pipe_are_left_alone(void **state)
{
    (void)state;
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    psr_log(PSR_LOG_INFO, "hello");
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    end_capture(&c);
    close_capture(&c);
    assert_int_equal(flags & O_NONBLOCK, 0);
}

static void a_reader_that_went_away_does_not_end_a_program_that_ignores_sigpipe(void **state)
{
    (void)state;
    void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 0", PSR_LOG_INFO);
    close_capture(&c);
    psr_log(PSR_LOG_INFO, "nobody");
    psr_log_plain("nobody");
    end_capture(&c);
    signal(SIGPIPE, handler);
}

static void a_line_is_read_as_it_was_printed(void **state)
{
    (void)state;
    char text[4096];
    capture c = begin_capture(make_pipe);
    psr_log_init("worker 1", PSR_LOG_DEBUG);
    psr_log(PSR_LOG_ERROR, "lost: all");
    psr_log(PSR_LOG_DEBUG, "turned away a stranger (stranger): so it says");
    psr_log_of(PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "turned away: %d", 7);
    read_some(c.err[0], text, sizeof text);
    end_capture(&c);
    close_capture(&c);

    const struct {
        psr_log_level level;
        psr_log_kind kind;
        const char *message;
    } expected[] = {
        {PSR_LOG_ERROR, PSR_LOG_OF_RUN, "lost: all"},
        {PSR_LOG_DEBUG, PSR_LOG_OF_RUN, "turned away a stranger (stranger): so it says"},
        {PSR_LOG_WARN, PSR_LOG_OF_STRANGER, "turned away: 7"}};
    char *rest = NULL, *line = strtok_r(text, "\n", &rest);
    for (size_t i = 0; i < sizeof expected / sizeof *expected;
         i++, line = strtok_r(NULL, "\n", &rest)) {
        psr_log_line read;
        assert_non_null(line);
        assert_true(psr_log_line_read(line, &read));
        assert_int_equal(read.level, expected[i].level);
        assert_int_equal(read.kind, expected[i].kind);
        assert_string_equal(read.message, expected[i].message);
    }
    assert_null(line);
}

static void what_others_print_is_no_line_of_the_log(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "Segmentation fault",
                                        "12:01:02.345 ",
                                        "12:01:02.345 warn",
                                        "12:01:02.345 fatal worker 1: words",
                                        "12:01:02.345 warning worker 1: words",
                                        "12:01:02.345 warn  worker 1 and no more",
                                        "error worker 1: words",
                                        "x12:01:02.345 error worker 1: words"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        psr_log_line read;
        assert_false(psr_log_line_read(lines[i], &read));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_name_and_message),
        cmocka_unit_test(a_line_is_read_as_it_was_printed),
        cmocka_unit_test(what_others_print_is_no_line_of_the_log),
        cmocka_unit_test(levels_below_the_threshold_are_left_out),
        cmocka_unit_test(a_plain_line_is_unprefixed_and_on_stdout),
        cmocka_unit_test(a_message_stays_one_line_without_control_characters),
        cmocka_unit_test(a_line_that_is_too_long_is_cut_to_what_a_pipe_takes_as_one),
        cmocka_unit_test(a_full_pipe_drops_lines_counts_them_and_tells),
        cmocka_unit_test(a_full_socket_drops_lines_and_goes_on),
        cmocka_unit_test(lines_lost_on_stdout_are_told_on_stderr),
        cmocka_unit_test(the_flags_of_the_shared_pipe_are_left_alone),
        cmocka_unit_test(a_reader_that_went_away_does_not_end_a_program_that_ignores_sigpipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
