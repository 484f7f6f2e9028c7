/* The ipc sockets of a run and the directory that they are in. */
#include "tests/unit/network_fixture.h"

#include "net/address/socket_directory.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char top[] = "/tmp/psr-test-sockets-XXXXXX";

static int make_top(void **state)
{
    (void)state;
    return mkdtemp(top) == NULL ? -1 : 0;
}

static int remove_top(void **state)
{
    (void)state;
    return rmdir(top); /* fails where a test left something behind */
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void put_socket(const psr_socket_directory *directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/%.20s", directory->path, name);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void a_directory_is_this_users_alone_and_goes_with_its_sockets(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(top, &directory));
    assert_int_equal(strncmp(directory.path, top, strlen(top)), 0);
    struct stat info;
    assert_int_equal(stat(directory.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    put_socket(&directory, "worker-0-01234567");
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    strcpy(path, directory.path);
    psr_socket_directory_remove(&directory);
    assert_false(exists(path));
    psr_socket_directory_remove(&directory); /* none: nothing happens */
}

static void what_is_no_socket_is_not_removed(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(top, &directory));
    char path[PSR_SOCKET_DIRECTORY_BYTES], file[PSR_SOCKET_DIRECTORY_BYTES + 8];
    strcpy(path, directory.path);
    snprintf(file, sizeof file, "%s/letter", path);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    psr_socket_directory_remove(&directory);
    assert_true(exists(file));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(path), 0);
}

static void
one_that_nobody_holds_is_removed_by_the_next_run_and_one_that_is_held_is_not(void **state)
{
    (void)state;
    psr_socket_directory launchers, schedulers, next, last;
    assert_ok(psr_socket_directory_make(top, &launchers));
    assert_ok(psr_socket_directory_hold(launchers.path, &schedulers));
    put_socket(&launchers, "worker-0-01234567");
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    strcpy(path, launchers.path);
    psr_socket_directory_release(&launchers); /* as when it is killed */
    assert_ok(psr_socket_directory_make(top, &next));
    assert_true(exists(path)); /* the scheduler is still there */
    psr_socket_directory_release(&schedulers);
    assert_ok(psr_socket_directory_make(top, &last));
    assert_false(exists(path));
    assert_true(exists(next.path));
    psr_socket_directory_remove(&next);
    psr_socket_directory_remove(&last);
}

static void a_place_that_others_may_use_is_not_taken(void **state)
{
    (void)state;
    char open_place[64], link[64];
    snprintf(open_place, sizeof open_place, "%s/open", top);
    snprintf(link, sizeof link, "%s/link", top);
    assert_int_equal(mkdir(open_place, 0755), 0);
    assert_int_equal(symlink(top, link), 0);
    psr_socket_directory directory;
    assert_fails(psr_socket_directory_hold(open_place, &directory), PSR_ERR_USAGE, "of mode 0700");
    assert_fails(psr_socket_directory_hold(link, &directory), PSR_ERR_USAGE, "of mode 0700");
    assert_fails(psr_socket_directory_hold("/nonexistent/place", &directory), PSR_ERR_NOT_FOUND,
                 "its run is over");
    assert_fails(psr_socket_directory_hold("place", &directory), PSR_ERR_USAGE, "a path from /");
    const char *const not_runtime[] = {open_place, link, "relative", NULL};
    for (size_t i = 0; i < 4; i++) {
        assert_ok(psr_socket_directory_make(not_runtime[i], &directory));
        assert_int_equal(strncmp(directory.path, "/tmp/psring-run-", 16), 0);
        psr_socket_directory_remove(&directory);
    }
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(open_place), 0);
}

static void an_endpoint_tells_its_directory(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    assert_ok(psr_socket_directory_of("ipc:///run/user/7/psring-abc/worker-1-0", path));
    assert_string_equal(path, "/run/user/7/psring-abc");
    static const char *const others[] = {"ipc://relative/x",  "ipc:///x",          "ipc:///x/",
                                         "ipc://@abstract/x", "tcp://127.0.0.1:1", ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_fails(psr_socket_directory_of(others[i], path), PSR_ERR_USAGE,
                     "ipc:///DIRECTORY/SOCKET");
}

/* ---- of a job ---- */

static void a_jobs_directory_goes_with_the_last_who_holds_it(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES], other[PSR_SOCKET_DIRECTORY_BYTES];
    psr_socket_directory first, second;
    psr_socket_directory_of_job(top, 7, path);
    psr_socket_directory_of_job(top, 8, other);
    assert_string_not_equal(path, other);
    assert_true(psr_socket_directory_is_a_jobs(path));
    assert_false(psr_socket_directory_is_a_jobs("/tmp/psring-abcdef"));
    assert_false(exists(path));
    assert_ok(psr_socket_directory_enter(path, &first));
    assert_ok(psr_socket_directory_enter(path, &second));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    put_socket(&first, "scheduler");
    psr_socket_directory_remove(&first);
    assert_true(exists(path));
    psr_socket_directory_remove(&second);
    assert_false(exists(path));
}

static void what_a_killed_job_left_is_used_by_its_next_and_removed_by_others(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    psr_socket_directory killed, again, other;
    int claim;
    psr_socket_directory_of_job(top, 7, path);
    assert_ok(psr_socket_directory_enter(path, &killed));
    assert_ok(psr_socket_directory_claim(&killed, "rank-0", "rank 0", &claim));
    put_socket(&killed, "scheduler");
    close(claim);
    psr_socket_directory_release(&killed);
    assert_ok(psr_socket_directory_enter(path, &again));
    assert_ok(psr_socket_directory_claim(&again, "rank-0", "rank 0", &claim));
    close(claim);
    psr_socket_directory_release(&again);
    assert_ok(psr_socket_directory_make(top, &other));
    assert_false(exists(path));
    psr_socket_directory_remove(&other);
}

static void a_name_in_a_jobs_directory_is_one_processs(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES], who[64];
    psr_socket_directory first, second;
    int claim, other;
    psr_socket_directory_of_job(top, 7, path);
    assert_ok(psr_socket_directory_enter(path, &first));
    assert_ok(psr_socket_directory_enter(path, &second));
    assert_ok(psr_socket_directory_claim(&first, "rank-2", "rank 2", &claim));
    snprintf(who, sizeof who, "rank 2 is taken: process %d of this job", (int)getpid());
    assert_fails(psr_socket_directory_claim(&second, "rank-2", "rank 2", &other), PSR_ERR_USAGE,
                 who);
    assert_ok(psr_socket_directory_claim(&second, "rank-3", "rank 3", &other));
    close(other);
    close(claim);
    assert_ok(psr_socket_directory_claim(&second, "rank-2", "rank 2", &other));
    close(other);
    psr_socket_directory_remove(&first);
    psr_socket_directory_remove(&second);
    assert_false(exists(path));
}

static void a_jobs_directory_that_others_put_there_is_not_entered(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    psr_socket_directory directory;
    psr_socket_directory_of_job(top, 7, path);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_fails(psr_socket_directory_enter(path, &directory), PSR_ERR_USAGE,
                 "somebody else has put something");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink(top, path), 0);
    assert_fails(psr_socket_directory_enter(path, &directory), PSR_ERR_USAGE,
                 "somebody else has put something");
    assert_int_equal(unlink(path), 0);
    assert_fails(psr_socket_directory_enter("/tmp/elsewhere", &directory), PSR_ERR_USAGE,
                 "is not a job's or a run's");
    assert_fails(psr_socket_directory_enter("psring-run-0123456789abcdef", &directory),
                 PSR_ERR_USAGE, "is not a job's or a run's");
}

static void a_runs_directory_is_made_once_and_removed_by_whoever_ends(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES], other[PSR_SOCKET_DIRECTORY_BYTES];
    psr_socket_directory agents, schedulers, again = PSR_SOCKET_DIRECTORY_NONE;
    assert_ok(psr_socket_directory_of_run(top, path));
    assert_ok(psr_socket_directory_of_run(top, other));
    assert_string_not_equal(path, other);
    assert_false(psr_socket_directory_is_a_jobs(path));
    assert_false(exists(path));
    assert_fails(psr_socket_directory_enter(path, &again), PSR_ERR_NOT_FOUND, "its run is over");
    assert_false(exists(path));
    assert_ok(psr_socket_directory_make_named(path, &agents));
    assert_fails(psr_socket_directory_make_named(path, &again), PSR_ERR_USAGE,
                 "somebody else has put something");
    assert_ok(psr_socket_directory_enter(path, &schedulers));
    put_socket(&agents, "scheduler");
    psr_socket_directory_remove(&schedulers);
    assert_false(exists(path));
    /* one that is late finds the run over */
    assert_fails(psr_socket_directory_enter(path, &again), PSR_ERR_NOT_FOUND, "its run is over");
    assert_false(exists(path));
    psr_socket_directory_remove(&agents);
    assert_false(exists(path));
    assert_int_equal(again.hold, -1); /* who fails holds nothing */
}

/* Between making and holding it its maker is as one that was killed. */
static void one_that_is_just_made_is_left_to_its_maker_by_another_run(void **state)
{
    (void)state;
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    psr_socket_directory other, later;
    assert_ok(psr_socket_directory_of_run(top, path));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_ok(psr_socket_directory_make(top, &other));
    assert_true(exists(path));
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    assert_ok(psr_socket_directory_make(top, &later));
    assert_false(exists(path));
    psr_socket_directory_remove(&other);
    psr_socket_directory_remove(&later);
}

/* ---- inboxes in it ---- */

static psr_transport *open_in(const psr_socket_directory *directory, const run_keys *keys,
                              psr_peer self)
{
    psr_zmq_options options = {.self = self,
                               .keys = keys_of(keys, self),
                               .directory = directory->path,
                               .log_stranger = note_stranger};
    psr_transport *transport;
    assert_ok(psr_transport_zmq_new(&options, &transport));
    return transport;
}

static void members_talk_over_sockets_of_names_that_none_has_twice(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(top, &directory));
    run_keys keys = make_keys(false);
    for (size_t i = 0; i < keys.count; i++)
        keys.sets[i].bare = false; /* that is about TCP */
    psr_transport *s = open_in(&directory, &keys, scheduler),
                  *w = open_in(&directory, &keys, worker1),
                  *again = open_in(&directory, &keys, worker1);
    assert_string_not_equal(psr_transport_endpoint(w), psr_transport_endpoint(again));
    assert_non_null(strstr(psr_transport_endpoint(w), "/worker-1-"));
    join_to(w, scheduler, s);
    join_to(s, worker1, w);
    send_number(w, scheduler, 1);
    receive_number(s, worker1, 1);
    send_number(s, worker1, 2);
    receive_number(w, scheduler, 2);
    psr_transport_free(&again, 0);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    assert_int_equal(rmdir(directory.path), 0); /* each took its socket along */
    psr_socket_directory_release(&directory);
    free_keys(&keys);
}

static void a_wrong_token_is_turned_away_by_the_process_that_sent_it(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(top, &directory));
    run_keys keys = make_keys(false), others = make_keys(false);
    stranger_lines[0] = '\0';
    psr_transport *s = open_in(&directory, &keys, scheduler),
                  *w = open_in(&directory, &others, worker1);
    join_to(w, scheduler, s);
    await_strangers(s, 1);
    char from[64];
    snprintf(from, sizeof from, "turned away a stranger (process %d of user %u): ", (int)getpid(),
             (unsigned)geteuid());
    await_line(s, from);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    psr_socket_directory_remove(&directory);
    free_keys(&keys);
    free_keys(&others);
}

static void nobody_is_led_to_a_socket_elsewhere(void **state)
{
    (void)state;
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(top, &directory));
    run_keys keys = make_keys(false);
    psr_transport *w = open_in(&directory, &keys, worker1), *on_tcp = open_member(&keys, worker0);
    assert_fails(psr_transport_connect(w, scheduler, "ipc:///tmp/elsewhere/scheduler", NULL),
                 PSR_ERR_USAGE, "is not in the directory of this run's sockets");
    assert_fails(psr_transport_connect(on_tcp, worker1, psr_transport_endpoint(w), NULL),
                 PSR_ERR_USAGE, "this process listens on TCP");
    psr_transport_free(&w, 0);
    psr_transport_free(&on_tcp, 0);
    psr_socket_directory_remove(&directory);
    free_keys(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_this_users_alone_and_goes_with_its_sockets),
        cmocka_unit_test(what_is_no_socket_is_not_removed),
        cmocka_unit_test(
            one_that_nobody_holds_is_removed_by_the_next_run_and_one_that_is_held_is_not),
        cmocka_unit_test(a_place_that_others_may_use_is_not_taken),
        cmocka_unit_test(an_endpoint_tells_its_directory),
        cmocka_unit_test(a_jobs_directory_goes_with_the_last_who_holds_it),
        cmocka_unit_test(what_a_killed_job_left_is_used_by_its_next_and_removed_by_others),
        cmocka_unit_test(a_name_in_a_jobs_directory_is_one_processs),
        cmocka_unit_test(a_jobs_directory_that_others_put_there_is_not_entered),
        cmocka_unit_test(a_runs_directory_is_made_once_and_removed_by_whoever_ends),
        cmocka_unit_test(one_that_is_just_made_is_left_to_its_maker_by_another_run),
        cmocka_unit_test(members_talk_over_sockets_of_names_that_none_has_twice),
        cmocka_unit_test(a_wrong_token_is_turned_away_by_the_process_that_sent_it),
        cmocka_unit_test(nobody_is_led_to_a_socket_elsewhere),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
