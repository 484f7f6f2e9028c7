#include "tests/emulator/cuda/faults.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void be_child(void (*call)(void), int said)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL); /* cmocka would go on with its next test */
    signal(SIGSEGV, SIG_DFL);
    dup2(said, STDERR_FILENO);
    call();
    _exit(0);
}

void expect_fault(void (*call)(void), const char *text)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_child(call, ends[1]);
    close(ends[1]);
    char said[4096] = "";
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length + 1 < sizeof said; length += (size_t)got)
        got = read(ends[0], said + length, sizeof said - 1 - length);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (strstr(said, text) == NULL)
        fail_msg("\"%s\" was expected, but this was said: %s", text, said);
    assert_true(WIFSIGNALED(status));
}
