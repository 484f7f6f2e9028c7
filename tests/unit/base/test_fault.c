#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_process_stops_once_at_its_point_and_says_so(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (psr_fault_point_set("worker:1:push:3", "worker", 1) != PSR_OK)
            _exit(1);
        psr_fault_point("push", 2);
        psr_fault_point("pull", 3);
        psr_fault_point("push", 3);
        psr_fault_point("push", 3); /* not a second time */
        _exit(42);
    }
    close(ends[1]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(WSTOPSIG(status), SIGSTOP);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    char text[128] = "";
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "fault-point push:3 reached\n");
    close(ends[0]);
}

static void a_point_of_another_process_stops_nothing(void **state)
{
    (void)state;
    assert_int_equal(psr_fault_point_set("worker:1:push:3", "worker", 0), PSR_OK);
    psr_fault_point("push", 3);
    assert_int_equal(psr_fault_point_set("worker:1:push:3", "shard", 1), PSR_OK);
    psr_fault_point("push", 3);
    assert_int_equal(psr_fault_point_set("", "worker", 1), PSR_OK);
    psr_fault_point("push", 3);
}

static void a_text_of_another_form_is_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"worker",          "worker:1",        "worker:1:push",
                                 "worker:x:push:3", "worker:1:push:x", "worker:1:push:3:kill",
                                 "worker:1::3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(psr_fault_point_set(wrong[i], "worker", 1), PSR_ERR_USAGE);
        assert_non_null(strstr(psr_err_detail(), "is not ROLE:RANK:PHASE:STEP"));
    }
    psr_fault_point("push", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_stops_once_at_its_point_and_says_so),
        cmocka_unit_test(a_point_of_another_process_stops_nothing),
        cmocka_unit_test(a_text_of_another_form_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
