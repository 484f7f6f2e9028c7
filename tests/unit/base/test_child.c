/* base/system/child.h and base/text/lines.h, with real processes. */
#include "base/system/child.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_MS 100000

typedef struct seen {
    char text[4096];
    size_t lines;
} seen;

static psr_err remember(void *context, char *line)
{
    seen *s = context;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "%.1000s|", line);
    s->lines++;
    return PSR_OK;
}

static psr_child shell(const char *script)
{
    char sh[] = "/bin/sh", c[] = "-c", text[512];
    snprintf(text, sizeof text, "%s", script);
    char *argv[] = {sh, c, text, NULL};
    psr_child child;
    assert_int_equal(psr_child_start(argv, 0, &child), PSR_OK);
    return child;
}

/* Waits, bounded, until the child has ended, reading what it prints. */
static void run_out(psr_child *child, seen *out, seen *err)
{
    int64_t end = psr_clock_ms() + BOUND_MS;
    while (!child->ended || child->out.fd >= 0 || child->err.fd >= 0) {
        struct pollfd fds[] = {
            {child->pidfd, POLLIN, 0}, {child->out.fd, POLLIN, 0}, {child->err.fd, POLLIN, 0}};
        assert_true(psr_clock_ms() < end);
        (void)poll(fds, 3, BOUND_MS);
        psr_line_writer_flush(&child->in);
        assert_int_equal(psr_line_reader_visit(&child->out, remember, out), PSR_OK);
        assert_int_equal(psr_line_reader_visit(&child->err, remember, err), PSR_OK);
        (void)psr_child_reap(child);
    }
}

static void output_comes_back_line_by_line_and_the_rest_at_the_end(void **state)
{
    (void)state;
    seen out = {0}, err = {0};
    psr_child child = shell("echo one; echo two >&2; printf three");
    run_out(&child, &out, &err);
    assert_string_equal(out.text, "one|three|");
    assert_string_equal(err.text, "two|");
    char how[64];
    psr_child_describe(child.status, how, sizeof how);
    assert_string_equal(how, "exit status 0");
    psr_child_done(&child);
}

/* Waits, bounded, until so many bytes lie in the pipe unread. */
static void await_unread(const psr_line_reader *reader, uint64_t bytes)
{
    int64_t end = psr_clock_ms() + BOUND_MS;
    while (psr_line_reader_written(reader) - reader->taken < bytes)
        assert_true(psr_clock_ms() < end);
}

static void a_visit_ends_though_the_other_writes_without_end(void **state)
{
    (void)state;
    seen out = {0};
    psr_child child = shell("exec yes");
    for (uint64_t visits = 1; visits <= 3; visits++) {
        await_unread(&child.out, PSR_LINE_VISIT_BYTES);
        assert_int_equal(psr_line_reader_visit(&child.out, remember, &out), PSR_OK);
        assert_int_equal(child.out.taken, visits * PSR_LINE_VISIT_BYTES);
        assert_int_equal(out.lines, visits * PSR_LINE_VISIT_BYTES / 2);
    }
    psr_child_done(&child);
}

static void a_child_has_said_all_though_another_writes_on_in_its_place(void **state)
{
    (void)state;
    seen out = {0};
    psr_child child = shell("echo first; yes & exit 0");
    int64_t end = psr_clock_ms() + BOUND_MS;
    while (!psr_child_said_all(&child)) {
        struct pollfd fds[] = {{child.pidfd, POLLIN, 0}, {child.out.fd, POLLIN, 0}};
        assert_true(psr_clock_ms() < end);
        (void)poll(fds, 2, BOUND_MS);
        (void)psr_child_reap(&child);
        assert_int_equal(psr_line_reader_visit(&child.out, remember, &out), PSR_OK);
    }
    assert_memory_equal(out.text, "first|", 6);
    assert_true(child.out.fd >= 0); /* the pipe has not ended; its
                                       reader's end ends who writes on */
    psr_child_done(&child);
}

static void what_is_put_reaches_its_standard_input(void **state)
{
    (void)state;
    seen out = {0}, err = {0};
    psr_child child = shell("read a; read b; echo \"$b$a\"");
    psr_line_writer_put(&child.in, "x");
    psr_line_writer_put(&child.in, "y");
    run_out(&child, &out, &err);
    assert_string_equal(out.text, "yx|");
    psr_child_done(&child);
}

static void a_killed_child_is_described(void **state)
{
    (void)state;
    seen out = {0}, err = {0};
    psr_child child = shell("kill -9 $$");
    run_out(&child, &out, &err);
    char how[64];
    psr_child_describe(child.status, how, sizeof how);
    assert_string_equal(how, "killed by signal 9 (Killed)");
    psr_child_done(&child);
}

static void a_program_that_cannot_be_run_is_named(void **state)
{
    (void)state;
    char path[] = "/nonexistent/psring-ps";
    char *argv[] = {path, NULL};
    psr_child child;
    assert_int_equal(psr_child_start(argv, 0, &child), PSR_ERR_NOT_FOUND);
    assert_string_equal(psr_err_detail(),
                        "cannot run /nonexistent/psring-ps: No such file or directory");
}

/* A middle process starts a child and is killed; the child must end too, which its pipe to us
 * shows. */
static void a_child_dies_with_its_parent(void **state)
{
    (void)state;
    int ready[2], held[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(held), 0); /* its write end lives as long as the
                                        grandchild: inherited, not close-on-exec */
    pid_t middle = fork();
    if (middle == 0) {
        char sh[] = "/bin/sh", c[] = "-c", text[] = "while :; do read line || :; done </dev/zero";
        char *argv[] = {sh, c, text, NULL};
        psr_child child;
        close(held[0]);
        if (psr_child_start(argv, 0, &child) != PSR_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(1);
    }
    close(held[1]);
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(middle, SIGKILL);
    waitpid(middle, NULL, 0);
    struct pollfd gone = {held[0], POLLIN, 0};
    assert_int_equal(poll(&gone, 1, BOUND_MS), 1);
    assert_int_equal(read(held[0], &byte, 1), 0);
    close(held[0]);
    close(ready[0]);
    close(ready[1]);
}

static void a_reader_that_does_not_read_costs_lines_not_time(void **state)
{
    (void)state;
    psr_child child = shell("read never; exec sleep 60 </dev/null");
    char *big = malloc(1 << 20);
    assert_non_null(big);
    memset(big, 'x', (1 << 20) - 1);
    big[(1 << 20) - 1] = '\0';
    psr_child_signal(&child, SIGSTOP);
    for (int i = 0; i < 20; i++)
        psr_line_writer_put(&child.in, big);
    assert_true(child.in.dropped >= 3);
    assert_true(psr_line_writer_pending(&child.in));
    free(big);
    psr_child_done(&child);
    assert_true(child.ended);
}

static bool terminal_speaks;

/* What a terminal does to all of a group, at the worst moment: the child is forked and still in
 * it. */
static void at_fork_in_the_child(void)
{
    if (terminal_speaks) {
        raise(SIGTSTP);
        raise(SIGINT);
    }
}

/* A child that stopped before its exec would keep its parent waiting for ever. */
static void ctrl_z_and_ctrl_c_during_a_start_are_the_parents(void **state)
{
    (void)state;
    seen out = {0}, err = {0};
    assert_int_equal(pthread_atfork(NULL, NULL, at_fork_in_the_child), 0);
    terminal_speaks = true;
    psr_child child = shell("echo started");
    terminal_speaks = false;
    run_out(&child, &out, &err);
    assert_string_equal(out.text, "started|");
    assert_true(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    psr_child_done(&child);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_comes_back_line_by_line_and_the_rest_at_the_end),
        cmocka_unit_test(a_visit_ends_though_the_other_writes_without_end),
        cmocka_unit_test(a_child_has_said_all_though_another_writes_on_in_its_place),
        cmocka_unit_test(what_is_put_reaches_its_standard_input),
        cmocka_unit_test(a_killed_child_is_described),
        cmocka_unit_test(ctrl_z_and_ctrl_c_during_a_start_are_the_parents),
        cmocka_unit_test(a_program_that_cannot_be_run_is_named),
        cmocka_unit_test(a_child_dies_with_its_parent),
        cmocka_unit_test(a_reader_that_does_not_read_costs_lines_not_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
