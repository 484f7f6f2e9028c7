/* Whether processes of this host live: goodbyes, ends without one, strangers. The other process is
 * a child of the test, or the test itself with sockets of its own. */
#include "net/sharing/lives.h"

#include "tests/unit/network_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOST_RANK = 5 };

static const uint8_t ID[PSR_ROUTING_ID_BYTES] = {1, 2, 3}, OTHER_ID[PSR_ROUTING_ID_BYTES] = {1, 9};
static const psr_peer MEMBER = {PSR_ROLE_WORKER, 3};

typedef struct fixture {
    char folder[32], endpoint[64], path[80];
    bool knows; /* whether ID is a member's */
    psr_lives *lives;
} fixture;

static bool known(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer)
{
    const fixture *f = context;
    *ret_peer = MEMBER;
    return f->knows && memcmp(id, ID, sizeof ID) == 0;
}

static psr_err listen_at(fixture *f, psr_lives *lives)
{
    return psr_lives_listen(
        lives, &(psr_lives_listening){
                   .endpoint = f->endpoint, .host_rank = HOST_RANK, .context = f, .known = known});
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->folder, "/tmp/psr-test-lives-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->endpoint, sizeof f->endpoint, "ipc://%s/scheduler", f->folder);
    snprintf(f->path, sizeof f->path, "%s/scheduler.end", f->folder);
    f->knows = true;
    assert_ok(psr_lives_new((unsigned)geteuid(), &f->lives));
    assert_ok(listen_at(f, f->lives));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    psr_lives_free(f->lives);
    assert_int_equal(rmdir(f->folder), 0); /* the socket has gone */
    free(f);
    return 0;
}

/* Serves when there is something, until the condition holds. */
#define serve_until(lives, condition)                                                              \
    do {                                                                                           \
        const int64_t end_ms = psr_clock_ms() + WAIT_MS;                                           \
        while (!(condition)) {                                                                     \
            struct pollfd input = {.fd = psr_lives_fd(lives), .events = POLLIN};                   \
            assert_true(psr_clock_ms() < end_ms);                                                  \
            (void)poll(&input, 1, 1000);                                                           \
            psr_lives_serve(lives);                                                                \
        }                                                                                          \
    } while (0)

/* Nothing is there to be read any more. */
static void serve_all(psr_lives *lives)
{
    struct pollfd input = {.fd = psr_lives_fd(lives), .events = POLLIN};
    for (int i = 0; poll(&input, 1, 0) == 1; i++) {
        assert_true(i < 1000); /* each look takes something */
        psr_lives_serve(lives);
    }
}

typedef enum ending { HOW_KILLED, HOW_PARTS, HOW_LEAVES_A_CHILD } ending;

/* A member's process. ready: written when the scheduler has recognized it. hold: a pipe that its
 * child reads. */
static void be_member(const fixture *f, const uint8_t *id, ending how, int ready, const int hold[2])
{
    psr_lives *own = NULL;
    char byte;
    if (psr_lives_new((unsigned)geteuid(), &own) != PSR_OK)
        _exit(1);
    psr_lives_greet(own, f->endpoint, id);
    struct pollfd input = {.fd = psr_lives_fd(own), .events = POLLIN};
    if (poll(&input, 1, WAIT_MS) != 1 || write(ready, "r", 1) != 1)
        _exit(2);
    close(hold[1]);
    if (how == HOW_PARTS) {
        psr_lives_free(own);
        _exit(0);
    }
    if (how == HOW_LEAVES_A_CHILD && fork() == 0) {
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    (void)raise(SIGKILL);
}

static void play_member(fixture *f, const uint8_t *id, ending how, int hold[2])
{
    int ready[2];
    char byte;
    assert_true(pipe(ready) == 0 && pipe(hold) == 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        be_member(f, id, how, ready[1], hold);
    struct pollfd said = {.fd = ready[0], .events = POLLIN};
    serve_until(f->lives, poll(&said, 1, 0) == 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ready[0]);
    close(ready[1]);
}

static void let_go(int hold[2])
{
    close(hold[0]);
    close(hold[1]);
}

static void a_member_that_is_killed_is_told_once(void **state)
{
    fixture *f = *state;
    int hold[2];
    psr_peer peer = {0};
    play_member(f, ID, HOW_KILLED, hold);
    serve_until(f->lives, psr_lives_any_ended(f->lives));
    assert_true(psr_lives_ended(f->lives, &peer));
    assert_true(psr_peer_equal(peer, MEMBER));
    assert_false(psr_lives_ended(f->lives, &peer));
    serve_all(f->lives);
    let_go(hold);
}

static void its_child_that_holds_the_socket_does_not_hide_it(void **state)
{
    fixture *f = *state;
    int hold[2];
    psr_peer peer = {0};
    play_member(f, ID, HOW_LEAVES_A_CHILD, hold);
    serve_until(f->lives, psr_lives_any_ended(f->lives));
    assert_true(psr_lives_ended(f->lives, &peer) && psr_peer_equal(peer, MEMBER));
    serve_all(f->lives);
    let_go(hold);
}

static void one_that_says_goodbye_is_not_missed(void **state)
{
    fixture *f = *state;
    int hold[2];
    psr_peer peer;
    play_member(f, ID, HOW_PARTS, hold);
    serve_all(f->lives);
    assert_false(psr_lives_ended(f->lives, &peer));
    let_go(hold);
}

/* It is hung up on, so it hears nothing of the scheduler either. */
static void a_process_that_is_no_member_is_nobody(void **state)
{
    fixture *f = *state;
    int hold[2];
    psr_peer peer;
    psr_lives *own = NULL;
    play_member(f, OTHER_ID, HOW_KILLED, hold);
    serve_all(f->lives);
    assert_false(psr_lives_ended(f->lives, &peer));
    let_go(hold);

    assert_ok(psr_lives_new((unsigned)geteuid(), &own));
    psr_lives_greet(own, f->endpoint, OTHER_ID);
    serve_all(f->lives);
    serve_all(own);
    assert_false(psr_lives_scheduler_ended(own));
    psr_lives_free(own);
}

/* It was a member, and was given up since. */
static void who_is_a_member_no_longer_is_not_told(void **state)
{
    fixture *f = *state;
    int hold[2];
    psr_peer peer;
    play_member(f, ID, HOW_KILLED, hold);
    serve_until(f->lives, psr_lives_any_ended(f->lives));
    f->knows = false;
    assert_false(psr_lives_ended(f->lives, &peer));
    assert_false(psr_lives_any_ended(f->lives));
    let_go(hold);
}

static int connect_to(const fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", f->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool is_hung_up(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void who_says_nothing_keeps_nobody_out(void **state)
{
    fixture *f = *state;
    enum { MANY = 3 * PSR_LIVES_UNKNOWN_MAX };
    int fds[MANY], open = 0, hold[2];
    psr_peer peer = {0};
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(f);
        serve_all(f->lives);
    }
    for (int i = 0; i < MANY; i++)
        open += !is_hung_up(fds[i]);
    assert_true(open <= PSR_LIVES_UNKNOWN_MAX);
    play_member(f, ID, HOW_KILLED, hold);
    serve_until(f->lives, psr_lives_any_ended(f->lives));
    assert_true(psr_lives_ended(f->lives, &peer) && psr_peer_equal(peer, MEMBER));
    let_go(hold);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    serve_all(f->lives);
}

/* Noise, a goodbye without a hello, two hellos, and a descriptor. */
static void what_nobody_says_here_is_hung_up_on(void **state)
{
    fixture *f = *state;
    psr_record noise, bye = {.kind = PSR_RECORD_BYE}, hello = {.kind = PSR_RECORD_HELLO};
    psr_peer peer;
    memset(&noise, 0x5a, sizeof noise);
    memcpy(hello.id, ID, sizeof hello.id);
    const psr_record said[][2] = {{noise, noise}, {bye, bye}, {hello, hello}};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        psr_record answer;
        int fd = connect_to(f);
        assert_int_equal(psr_record_write(fd, said[i], 2, -1), PSR_RECORD_WRITTEN);
        serve_all(f->lives);
        (void)!recv(fd, &answer, sizeof answer, MSG_DONTWAIT); /* of a hello */
        assert_true(is_hung_up(fd));
        close(fd);
    }
    int fd = connect_to(f);
    assert_int_equal(psr_record_write(fd, &hello, 1, STDERR_FILENO), PSR_RECORD_WRITTEN);
    serve_all(f->lives);
    assert_true(is_hung_up(fd));
    close(fd);
    assert_false(psr_lives_ended(f->lives, &peer));
}

/* The scheduler's process: it is killed when this one has been recognized, or parts in order. */
static void be_scheduler(fixture *f, bool parts, int ready, int go)
{
    psr_lives *own = NULL;
    char byte;
    if (psr_lives_new((unsigned)geteuid(), &own) != PSR_OK || listen_at(f, own) != PSR_OK ||
        write(ready, "r", 1) != 1)
        _exit(1);
    for (struct pollfd said[] = {{.fd = psr_lives_fd(own), .events = POLLIN},
                                 {.fd = go, .events = POLLIN}};
         poll(said, 2, WAIT_MS) > 0 && said[1].revents == 0;)
        psr_lives_serve(own);
    (void)!read(go, &byte, 1);
    if (parts) {
        psr_lives_free(own);
        _exit(0);
    }
    (void)raise(SIGKILL);
}

static void watch_scheduler(fixture *f, bool parts)
{
    int ready[2], go[2];
    char byte;
    psr_lives *own = NULL;
    assert_true(pipe(ready) == 0 && pipe(go) == 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        be_scheduler(f, parts, ready[1], go[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_ok(psr_lives_new((unsigned)geteuid(), &own));
    psr_lives_greet(own, f->endpoint, ID);
    struct pollfd answer = {.fd = psr_lives_fd(own), .events = POLLIN};
    assert_int_equal(poll(&answer, 1, WAIT_MS), 1);
    serve_all(own);
    assert_false(psr_lives_scheduler_ended(own));
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    serve_all(own);
    assert_int_equal(psr_lives_scheduler_ended(own), !parts);
    assert_int_equal(psr_lives_scheduler_rank(own), HOST_RANK);
    psr_lives_free(own);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

/* The file that a killed scheduler leaves is in nobody's way. */
static void a_scheduler_that_is_killed_is_told_and_one_that_parts_is_not(void **state)
{
    fixture *f = *state;
    psr_lives_free(f->lives);
    watch_scheduler(f, true);
    watch_scheduler(f, false);
    watch_scheduler(f, false);
    assert_ok(psr_lives_new((unsigned)geteuid(), &f->lives));
    assert_ok(listen_at(f, f->lives));
}

static void a_scheduler_elsewhere_is_not_watched(void **state)
{
    const fixture *f = *state;
    psr_lives *own = NULL;
    char long_path[200];
    memset(long_path, 'x', sizeof long_path);
    memcpy(long_path, "ipc:///", strlen("ipc:///"));
    long_path[sizeof long_path - 1] = '\0';
    assert_ok(psr_lives_new((unsigned)geteuid(), &own));
    psr_lives_greet(own, "tcp://192.0.2.1:1", ID);
    psr_lives_greet(own, "ipc:///nowhere/scheduler", ID);
    psr_lives_greet(own, long_path, ID);
    psr_lives_greet(own, "", ID);
    serve_all(own);
    assert_false(psr_lives_scheduler_ended(own));
    assert_int_equal(psr_lives_scheduler_rank(own), PSR_RANK_ANY);
    assert_fails(
        psr_lives_listen(own, &(psr_lives_listening){.endpoint = long_path, .known = known}),
        PSR_ERR_IO, "no room");
    psr_lives_free(own);
    (void)f;
}

#define lives_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        lives_test(a_member_that_is_killed_is_told_once),
        lives_test(its_child_that_holds_the_socket_does_not_hide_it),
        lives_test(one_that_says_goodbye_is_not_missed),
        lives_test(a_process_that_is_no_member_is_nobody),
        lives_test(who_is_a_member_no_longer_is_not_told),
        lives_test(who_says_nothing_keeps_nobody_out),
        lives_test(what_nobody_says_here_is_hung_up_on),
        lives_test(a_scheduler_that_is_killed_is_told_and_one_that_parts_is_not),
        lives_test(a_scheduler_elsewhere_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
