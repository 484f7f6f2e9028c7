/* comm/start/meeting_file.h: the file by which the hosts of a job meet. */
#include "tests/unit/expect.h"

#include "base/system/thread.h"
#include "comm/start/meeting_file.h"
#include "net/trust/keys/keys.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON_MS 60        /* of a file that never comes */
#define PATIENCE_MS 60000 /* of one that does */

static char folder[] = "/tmp/psr-test-meeting-file-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* each test takes its files away */
}

/* The first of a job's processes, or another one; it listens on loopback. */
static psr_start one_of(const char *name, bool first)
{
    psr_start s = {.starts_scheduler = first};
    snprintf(s.job, sizeof s.job, "job %s", name);
    snprintf(s.interface, sizeof s.interface, "127.0.0.1");
    snprintf(s.host, sizeof s.host, "host1");
    snprintf(s.meeting, sizeof s.meeting, "%s/%s", folder, name);
    return s;
}

/* Listens where the first one's scheduler is to. Returns the descriptor. */
static int listen_at(const char *scheduler)
{
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port =
                                 htons((uint16_t)strtoul(strchr(scheduler, ':') + 1, NULL, 10)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void assert_keys(const char *path, psr_role role, uint32_t rank)
{
    psr_keys keys;
    expect_ok(psr_keys_load(path, (psr_peer){role, rank}, &keys));
    assert_true(keys.curve);
    psr_keys_done(&keys);
}

static void rank_0_says_where_and_makes_keys_for_all(void **state)
{
    (void)state;
    psr_start first = one_of("a", true), other = one_of("a", false);
    psr_meeting_file file = PSR_MEETING_FILE_NONE, none = PSR_MEETING_FILE_NONE;
    struct stat info;
    expect_ok(psr_meeting_file_meet(&first, 3, 2, 0, &file));
    assert_int_equal(stat(first.meeting, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    int listener = listen_at(first.scheduler);
    expect_ok(psr_meeting_file_meet(&other, 3, 2, PATIENCE_MS, &none));
    assert_string_equal(other.scheduler, first.scheduler);
    assert_string_equal(other.key_file, first.meeting);
    assert_string_equal(first.key_file, first.meeting);
    assert_keys(other.key_file, PSR_ROLE_SCHEDULER, 0);
    assert_keys(other.key_file, PSR_ROLE_SHARD, 1);
    assert_keys(other.key_file, PSR_ROLE_WORKER, 2);
    psr_meeting_file_remove(&none); /* it is not the other's to remove */
    assert_int_equal(access(first.meeting, F_OK), 0);
    psr_meeting_file_remove(&file);
    psr_meeting_file_remove(&file);
    assert_int_not_equal(access(first.meeting, F_OK), 0);
    close(listener);
}

static void a_port_that_is_told_is_the_schedulers(void **state)
{
    (void)state;
    psr_start first = one_of("p", true), again = first;
    psr_meeting_file file, none = PSR_MEETING_FILE_NONE;
    char line[160], wanted[32];
    expect_ok(psr_meeting_file_meet(&first, 1, 0, 0, &file));
    again.port = (uint16_t)strtoul(strchr(first.scheduler, ':') + 1, NULL, 10);
    again.port_is_told = true;
    int listener = listen_at(first.scheduler);
    snprintf(line, sizeof line, "address 127.0.0.1: port %u: Address already in use", again.port);
    expect_failure(psr_meeting_file_meet(&again, 1, 0, 0, &none), PSR_ERR_USAGE, line);
    close(listener);
    psr_meeting_file_remove(&file);
    expect_ok(psr_meeting_file_meet(&again, 1, 0, 0, &file));
    snprintf(wanted, sizeof wanted, "127.0.0.1:%u", again.port);
    assert_string_equal(again.scheduler, wanted);
    psr_meeting_file_remove(&file);
}

static void a_file_that_does_not_come_is_missed_by_name(void **state)
{
    (void)state;
    psr_start other = one_of("never", false), lost = other, before = other;
    psr_meeting_file none = PSR_MEETING_FILE_NONE;
    char line[1536];
    snprintf(line, sizeof line,
             "rank 0 has not written %s within 0.06 s: this host may not see its folder; name one "
             "that all hosts see by --meeting DIR or PSRING_MEETING, or say by "
             "PSRING_SCHEDULER=HOST:PORT and PSRING_KEY_FILE where the scheduler is",
             other.meeting);
    expect_failure(psr_meeting_file_meet(&other, 2, 0, SOON_MS, &none), PSR_ERR_TIMEOUT, line);
    assert_memory_equal(&other, &before, sizeof other);
    strcpy(lost.meeting, "/nonexistent/folder/file");
    expect_failure(psr_meeting_file_meet(&lost, 2, 0, SOON_MS, &none), PSR_ERR_USAGE,
                   "the folder in which this job's hosts meet, /nonexistent/folder: No such file "
                   "or directory");
    lost.starts_scheduler = true;
    assert_int_equal(psr_meeting_file_meet(&lost, 2, 0, 0, &none), PSR_ERR_IO);
    assert_int_equal(none.port, -1);
}

static void where_nobody_answers_is_told(void **state)
{
    (void)state;
    psr_start first = one_of("silent", true), other = one_of("silent", false);
    psr_meeting_file file, none = PSR_MEETING_FILE_NONE;
    char line[1536];
    expect_ok(psr_meeting_file_meet(&first, 2, 0, 0, &file));
    snprintf(
        line, sizeof line,
        "the scheduler on host host1, at %s as %s says, was not reached within 0.06 s: Connection "
        "refused; if that host has another network, name it by --interface or PSRING_INTERFACE",
        first.scheduler, first.meeting);
    expect_failure(psr_meeting_file_meet(&other, 2, 0, SOON_MS, &none), PSR_ERR_TIMEOUT, line);
    psr_meeting_file_remove(&file);
}

static void *wait_for_it(void *context)
{
    psr_meeting_file none = PSR_MEETING_FILE_NONE;
    expect_ok(psr_meeting_file_meet(context, 2, 0, PATIENCE_MS, &none));
    return NULL;
}

/* Rank 0 of the earlier start was killed: its file is there, and nobody listens where it says. */
static void what_an_earlier_start_left_is_replaced_and_not_believed(void **state)
{
    (void)state;
    psr_start dead = one_of("again", true), first = dead, other = one_of("again", false);
    psr_meeting_file left, file;
    pthread_t thread;
    expect_ok(psr_meeting_file_meet(&dead, 2, 0, 0, &left));
    expect_ok(psr_thread_start("other", wait_for_it, &other, &thread));
    expect_ok(psr_meeting_file_meet(&first, 2, 0, 0, &file));
    int listener = listen_at(first.scheduler);
    pthread_join(thread, NULL);
    assert_string_not_equal(dead.scheduler, first.scheduler); /* whose port is kept still */
    assert_string_equal(other.scheduler, first.scheduler);
    close(listener);
    psr_meeting_file_remove(&file);
    psr_meeting_file_remove(&left);
}

static void what_is_not_the_jobs_own_is_refused(void **state)
{
    (void)state;
    psr_start first = one_of("x", true), other = one_of("x", false), stranger = other;
    psr_meeting_file file, none = PSR_MEETING_FILE_NONE;
    char line[1536];
    expect_ok(psr_meeting_file_meet(&first, 2, 0, 0, &file));
    strcpy(stranger.job, "job y");
    snprintf(line, sizeof line, "%s: it is another job's (job x)", first.meeting);
    expect_failure(psr_meeting_file_meet(&stranger, 2, 0, PATIENCE_MS, &none), PSR_ERR_FORMAT,
                   line);
    assert_int_equal(chmod(first.meeting, 0644), 0);
    snprintf(line, sizeof line, "key file %s can be used by others (mode 0644): chmod 600 %s",
             first.meeting, first.meeting);
    expect_failure(psr_meeting_file_meet(&other, 2, 0, PATIENCE_MS, &none), PSR_ERR_USAGE, line);
    int fd = open(first.meeting, O_WRONLY | O_TRUNC);
    assert_int_equal(fchmod(fd, 0600), 0);
    close(fd);
    assert_int_equal(psr_meeting_file_meet(&other, 2, 0, PATIENCE_MS, &none), PSR_ERR_FORMAT);
    psr_meeting_file_remove(&file);
}

/* It would say which of this user's private files is meant. */
static void a_link_is_not_followed(void **state)
{
    (void)state;
    psr_start first = one_of("real", true), other = one_of("link", false);
    psr_meeting_file file, none = PSR_MEETING_FILE_NONE;
    char line[1536];
    expect_ok(psr_meeting_file_meet(&first, 2, 0, 0, &file));
    strcpy(other.job, first.job);
    int listener = listen_at(first.scheduler);
    assert_int_equal(symlink(first.meeting, other.meeting), 0);
    snprintf(line, sizeof line, "key file %s is a link: it should be a file", other.meeting);
    expect_failure(psr_meeting_file_meet(&other, 2, 0, PATIENCE_MS, &none), PSR_ERR_USAGE, line);
    /* Rank 0 puts its own in the place of one, and what it pointed to stays. */
    psr_start again = one_of("link", true);
    psr_meeting_file replaced;
    expect_ok(psr_meeting_file_meet(&again, 2, 0, 0, &replaced));
    assert_keys(first.meeting, PSR_ROLE_WORKER, 1);
    close(listener);
    psr_meeting_file_remove(&replaced);
    psr_meeting_file_remove(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_says_where_and_makes_keys_for_all),
        cmocka_unit_test(a_port_that_is_told_is_the_schedulers),
        cmocka_unit_test(a_file_that_does_not_come_is_missed_by_name),
        cmocka_unit_test(where_nobody_answers_is_told),
        cmocka_unit_test(what_an_earlier_start_left_is_replaced_and_not_believed),
        cmocka_unit_test(what_is_not_the_jobs_own_is_refused),
        cmocka_unit_test(a_link_is_not_followed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
