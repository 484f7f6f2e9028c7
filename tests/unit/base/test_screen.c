/* What a program prints while somebody reads it, and while nobody does. Standard output and error
 * of this program are replaced for a test by one pipe. */
#include "tests/unit/expect.h"

#include "base/show/screen.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX = 4 << 20 };

static int pipe_fds[2], before[2], give_up[2];
static psr_screen *screen;

static int set_up(void **state)
{
    (void)state;
    fflush(stdout);
    if (pipe(pipe_fds) != 0 || pipe(give_up) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        before[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 10);
        dup2(pipe_fds[1], STDOUT_FILENO + i);
    }
    close(pipe_fds[1]);
    return psr_screen_new(&screen) == PSR_OK ? 0 : -1;
}

/* The pipe's writing end is closed with it. */
static void restore_output(void)
{
    for (int i = 0; i < 2; i++) {
        dup2(before[i], STDOUT_FILENO + i);
        close(before[i]);
    }
}

static int tear_down(void **state)
{
    (void)state;
    close(pipe_fds[0]);
    close(give_up[0]);
    close(give_up[1]);
    return 0;
}

/* All that was printed and is not read, to its end. */
static char *read_all(void)
{
    char *text = calloc(1, TEXT_MAX + 1);
    size_t used = 0;
    for (ssize_t got; (got = read(pipe_fds[0], text + used, TEXT_MAX - used)) > 0;)
        used += (size_t)got;
    return text;
}

static void what_is_printed_comes_out_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        psr_screen_out(screen, "out %d, ", i);
        psr_screen_err(screen, "err %d\n", i);
    }
    psr_screen_drain(screen, give_up[0], -1);
    bool behind = psr_screen_is_behind(screen);
    psr_screen_free(screen);
    restore_output();
    assert_false(behind);
    char *text = read_all(), expected[64];
    const char *at = text;
    for (int i = 0; i < 50; i++) {
        size_t size = (size_t)snprintf(expected, sizeof expected, "out %d, err %d\n", i, i);
        assert_memory_equal(at, expected, size);
        at += size;
    }
    assert_string_equal(at, "");
    free(text);
}

static void what_comes_from_elsewhere_is_no_command_to_the_terminal(void **state)
{
    (void)state;
    psr_screen_out(screen, "on %s\n", "\x1b]0;a\x07\xc2\x9bm");
    psr_screen_err(screen, "of %s\n", "\x1b[2J");
    psr_screen_draw(screen, "\r\033[K%d", 7); /* our own is */
    psr_screen_drain(screen, give_up[0], -1);
    psr_screen_free(screen);
    restore_output();
    char *text = read_all();
    assert_string_equal(text, "on ?]0;a???m\nof ?[2J\n\r\033[K7");
    free(text);
}

static void *read_all_meanwhile(void *unused)
{
    (void)unused;
    return read_all();
}

static void beyond_a_mebibyte_text_is_left_out_and_that_is_told(void **state)
{
    (void)state;
    enum { PIECES = 2000, PIECE = 1000 };
    for (int i = 0; i < PIECES; i++)
        psr_screen_out(screen, "%-*d\n", PIECE - 1, i);
    bool behind = psr_screen_is_behind(screen);
    pthread_t reader;
    pthread_create(&reader, NULL, read_all_meanwhile, NULL);
    psr_screen_drain(screen, give_up[0], -1);
    psr_screen_out(screen, "the end\n");
    psr_screen_drain(screen, give_up[0], -1);
    psr_screen_free(screen);
    restore_output();
    void *text;
    pthread_join(reader, &text);

    assert_true(behind);
    int whole = 0, last = -1;
    const char *at = text;
    for (; *at != '('; at += PIECE, whole++) { /* while the thread fills the
                                                  pipe there is room again */
        assert_in_range(atoi(at), last + 1, PIECES - 1);
        last = atoi(at);
    }
    /* and what the pipe took */
    assert_in_range(whole * PIECE, (1 << 20) - PIECE, (1 << 20) + (128 << 10));
    char expected[128];
    snprintf(expected, sizeof expected,
             "(nobody read this output: %d pieces of it were left out)\nthe end\n", PIECES - whole);
    assert_string_equal(at, expected);
    free(text);
}

static bool gives_up_without_a_reader(void)
{
    if (set_up(NULL) != 0)
        return false;
    for (int i = 0; i < 200; i++)
        psr_screen_out(screen, "%-999d\n", i);
    psr_screen_drain(screen, give_up[0], 10);
    if (write(give_up[1], "x", 1) != 1)
        return false;
    psr_screen_drain(screen, give_up[0], -1);
    bool behind = psr_screen_is_behind(screen);
    psr_screen_free(screen);
    return behind;
}

/* In a process of its own, which ends as a program does then: with a thread in write(). A signal,
 * such as the leak checker's at exit, begins that write anew, and here on a standard output that is
 * the test's again. */
static void who_will_not_wait_for_a_reader_need_not(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(gives_up_without_a_reader() ? EXIT_SUCCESS : EXIT_FAILURE);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, EXIT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_printed_comes_out_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_from_elsewhere_is_no_command_to_the_terminal,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(beyond_a_mebibyte_text_is_left_out_and_that_is_told, set_up,
                                        tear_down),
        cmocka_unit_test(who_will_not_wait_for_a_reader_need_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
