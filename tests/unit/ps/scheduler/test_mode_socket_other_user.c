/* Another user at a run's mode.sock. Needs root, to be another user: exits with 77 otherwise. */
#include "tests/unit/ps/scheduler/mode_clients.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define NOBODY 65534

enum { NO_CONNECTION = 10, HUNG_UP, ANSWERED };

/* What a user gets from the socket, in a process of its own. */
static pid_t ask_as(uid_t uid)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0)
        _exit(1);
    const int fd = connect_in(folder);
    if (fd < 0)
        _exit(NO_CONNECTION);
    (void)!send(fd, "tell\n", 5, MSG_NOSIGNAL);
    _exit(answer_of(fd)[0] != '\0' ? ANSWERED : HUNG_UP);
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void another_user_cannot_connect_and_where_modes_let_it_is_hung_up_on(void **state)
{
    (void)state;
    psr_mode_socket *asked = NULL;
    psr_mode_request request;
    int woken = eventfd(0, EFD_CLOEXEC);
    expect_ok(psr_mode_socket_new(folder, wake_test, &woken, &asked));
    assert_int_equal(end_of(ask_as(NOBODY)), NO_CONNECTION);
    assert_int_equal(chmod(folder, 0755), 0); /* the directory's wall is down: the socket's holds */
    assert_int_equal(end_of(ask_as(NOBODY)), NO_CONNECTION);
    assert_int_equal(chmod(in_folder(PSR_RUN_SOCKET_NAME), 0666), 0); /* and that one too */
    assert_int_equal(end_of(ask_as(NOBODY)), HUNG_UP);
    assert_false(psr_mode_socket_next(asked, &request));
    const pid_t own = ask_as(geteuid());
    psr_mode_socket_answer(asked, next_request(asked, woken).id, true, "ps");
    assert_int_equal(end_of(own), ANSWERED);
    psr_mode_socket_free(asked);
    close(woken);
}

int main(void)
{
    if (geteuid() != 0) {
        printf("1..0 # SKIP only root can be another user\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(another_user_cannot_connect_and_where_modes_let_it_is_hung_up_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
