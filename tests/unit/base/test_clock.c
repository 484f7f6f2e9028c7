/* The clock, which leaves out the time in which the process was stopped by SIGTSTP. */
#include "tests/unit/expect.h"

#include "base/clock.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Until the real clock has moved. */
static void let_time_pass(void)
{
    for (int64_t begin_ns = real_ns(); real_ns() - begin_ns < 2000000;)
        ;
}

static void it_stands_between_stop_and_go_on(void **state)
{
    (void)state;
    /* in this order: this thread may be stopped between */
    int64_t real_begin_ns = real_ns(), begin_ns = psr_clock_ns();
    psr_clock_go_on(); /* it runs: nothing */
    assert_true(psr_clock_ns() >= begin_ns);
    psr_clock_stop();
    int64_t stopped_ns = psr_clock_ns(), real_stopped_ns = real_ns();
    let_time_pass();
    psr_clock_stop(); /* again: nothing */
    assert_true(psr_clock_ns() == stopped_ns);
    assert_true(psr_clock_ms() == stopped_ns / 1000000);
    int64_t stood_ns = real_ns() - real_stopped_ns;
    psr_clock_go_on();
    int64_t now_ns = psr_clock_ns();
    assert_true(now_ns >= stopped_ns);
    assert_true(now_ns - begin_ns <= real_ns() - real_begin_ns - stood_ns);
    let_time_pass();
    assert_true(psr_clock_ns() > now_ns);
}

static void waits_of_threads_are_in_real_time(void **state)
{
    (void)state;
    psr_clock_stop();
    let_time_pass();
    psr_clock_go_on();
    int64_t before_ns = real_ns();
    struct timespec until = psr_clock_after_ns(5);
    int64_t until_ns = (int64_t)until.tv_sec * 1000000000 + until.tv_nsec;
    assert_true(until_ns >= before_ns + 5 && until_ns <= real_ns() + 5);
}

/* What is interrupted may have its stack pointer anywhere. */
static void ctrl_z_is_taken_on_a_stack_of_its_own(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stack_t own;
        struct sigaction action;
        psr_clock_stops_with_process();
        bool is_own = sigaltstack(NULL, &own) == 0 && !(own.ss_flags & SS_DISABLE) &&
                      sigaction(SIGTSTP, NULL, &action) == 0 &&
                      (action.sa_flags & SA_ONSTACK) != 0 &&
                      own.ss_size >= (size_t)sysconf(_SC_SIGSTKSZ);
        _exit(is_own ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The child tells how much its clock has left out; the parent knows how long it was stopped at
 * least. */
static void a_process_that_ctrl_z_stops_does_not_count_the_time(void **state)
{
    (void)state;
    int pipe_fds[2], status;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        psr_clock_stops_with_process();
        int64_t skipped_ns = real_ns() - psr_clock_ns();
        raise(SIGTSTP);
        skipped_ns = real_ns() - psr_clock_ns() - skipped_ns;
        _exit(write(pipe_fds[1], &skipped_ns, sizeof skipped_ns) == (ssize_t)sizeof skipped_ns ? 0
                                                                                               : 1);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    int64_t begin_ns = real_ns();
    let_time_pass();
    int64_t stopped_ns = real_ns() - begin_ns, skipped_ns = 0;
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(pipe_fds[0], &skipped_ns, sizeof skipped_ns), sizeof skipped_ns);
    assert_true(skipped_ns >= stopped_ns);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* ---- of one who watches others ---- */

static void while_its_keeper_looks_it_goes_with_the_time(void **state)
{
    (void)state;
    psr_presence_clock clock = psr_presence_clock_for(5000, 4000);
    assert_int_equal(psr_presence_clock_every_ms(&clock), 1000);
    for (int64_t now = 5000; now <= 100000; now += 1000)
        assert_int_equal(psr_presence_clock_ms(&clock, now), now);
    /* half a deadline: late, not absent */
    assert_int_equal(psr_presence_clock_ms(&clock, 102000), 102000);
}

static void an_absence_of_its_keeper_does_not_count(void **state)
{
    (void)state;
    psr_presence_clock clock = psr_presence_clock_for(0, 4000);
    int64_t heard = psr_presence_clock_ms(&clock, 1000);
    assert_int_equal(clock.back_ms, 0);
    assert_int_equal(psr_presence_clock_ms(&clock, 61000) - heard, 0); /* stopped for a minute */
    assert_int_equal(psr_presence_clock_ms(&clock, 62000) - heard, 1000);
    assert_int_equal(clock.back_ms, 61000);
    /* once more, for a little more than half a deadline */
    assert_int_equal(psr_presence_clock_ms(&clock, 64001) - heard, 1000);
    assert_int_equal(psr_presence_clock_ms(&clock, 66001) - heard, 3000);
}

static void with_a_short_deadline_it_does_not_stand_still(void **state)
{
    (void)state;
    psr_presence_clock clock = psr_presence_clock_for(0, 1);
    assert_true(psr_presence_clock_every_ms(&clock) >= 1);
    for (int64_t now = 0; now <= 1000; now += psr_presence_clock_every_ms(&clock))
        assert_int_equal(psr_presence_clock_ms(&clock, now), now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stands_between_stop_and_go_on),
        cmocka_unit_test(waits_of_threads_are_in_real_time),
        cmocka_unit_test(ctrl_z_is_taken_on_a_stack_of_its_own),
        cmocka_unit_test(a_process_that_ctrl_z_stops_does_not_count_the_time),
        cmocka_unit_test(while_its_keeper_looks_it_goes_with_the_time),
        cmocka_unit_test(an_absence_of_its_keeper_does_not_count),
        cmocka_unit_test(with_a_short_deadline_it_does_not_stand_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
