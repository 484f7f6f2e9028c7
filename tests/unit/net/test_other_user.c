/* Another user at a run's ipc sockets. Needs root, to be another user: exits with 77 otherwise. */
#include "tests/unit/key_file.h"
#include "tests/unit/network_fixture.h"

#include "net/address/socket_directory.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

enum { NO_CONNECTION = 10, HUNG_UP, GREETED, SILENT };

/* What a user gets from the socket, in a process of its own: 10 bytes are the beginning of ZeroMQ's
 * greeting. */
static int connect_as(uid_t uid, const char *path)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || setresuid(uid, uid, uid) != 0)
        _exit(1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        _exit(NO_CONNECTION);
    struct pollfd item = {.fd = fd, .events = POLLIN};
    char bytes[10];
    ssize_t got = poll(&item, 1, WAIT_MS) == 1 ? recv(fd, bytes, sizeof bytes, 0) : -2;
    _exit(got == -2 ? SILENT : got > 0 ? GREETED : HUNG_UP);
}

static void another_user_cannot_connect_and_where_the_directory_lets_it_is_hung_up_on(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(NULL, &directory));
    run_keys keys = make_keys(false);
    psr_zmq_options options = {.self = scheduler,
                               .keys = keys_of(&keys, scheduler),
                               .directory = directory.path,
                               .log_stranger = note_stranger};
    psr_transport *s;
    assert_ok(psr_transport_zmq_new(&options, &s));
    const char *path = psr_transport_endpoint(s) + strlen("ipc://");

    assert_int_equal(connect_as(geteuid(), path), GREETED);
    assert_int_equal(connect_as(NOBODY, path), NO_CONNECTION);
    /* The second wall, with the first one down. */
    assert_int_equal(chmod(directory.path, 0755), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(connect_as(NOBODY, path), HUNG_UP);
    assert_int_equal(connect_as(geteuid(), path), GREETED);

    psr_transport_free(&s, 0);
    psr_socket_directory_remove(&directory);
    free_keys(&keys);
}

static void keys_behind_another_users_link_are_not_loaded(void **state)
{
    (void)state;
    char folder[] = "/tmp/psr-test-other-user-XXXXXX", file[64], link[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    run_keys keys = make_keys(false);
    psr_keys loaded;
    assert_ok(save_key_file(keys_of(&keys, scheduler), file));
    assert_int_equal(symlink(file, link), 0);
    assert_ok(psr_keys_load(link, scheduler, &loaded));
    psr_keys_done(&loaded);
    assert_int_equal(lchown(link, NOBODY, NOBODY), 0);
    assert_fails(psr_keys_load(link, scheduler, &loaded), PSR_ERR_USAGE,
                 "is a link of user 65534's");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
    free_keys(&keys);
}

int main(void)
{
    if (geteuid() != 0) {
        printf("1..0 # SKIP only root can be another user\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_user_cannot_connect_and_where_the_directory_lets_it_is_hung_up_on),
        cmocka_unit_test(keys_behind_another_users_link_are_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
