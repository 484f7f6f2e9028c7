/* comm/start/meeting.h: where the processes of a run find their scheduler. */
#include "tests/unit/expect.h"

#include "comm/start/meeting.h"
#include "net/address/socket_directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char runtime[] = "/tmp/psr-test-meeting-XXXXXX";

static int make_runtime(void **state)
{
    (void)state;
    return mkdtemp(runtime) == NULL ? -1 : setenv("XDG_RUNTIME_DIR", runtime, 1);
}

static int remove_runtime(void **state)
{
    (void)state;
    unsetenv("XDG_RUNTIME_DIR");
    return rmdir(runtime); /* the meeting makes nothing */
}

static psr_start here(const char *job)
{
    psr_start s = {.level = PSR_START_RANKS,
                   .role = PSR_ROLE_WORKER,
                   .ranks = 4,
                   .nodes = 1,
                   .port = 4100,
                   .address_variable = "MASTER_ADDR"};
    snprintf(s.address, sizeof s.address, "node1");
    snprintf(s.job, sizeof s.job, "%s", job);
    return s;
}

static void on_one_host_they_meet_in_the_jobs_own_directory(void **state)
{
    (void)state;
    psr_start a = here("a"), again = here("a"), b = here("b");
    expect_ok(psr_start_meet(&a));
    expect_ok(psr_start_meet(&again));
    expect_ok(psr_start_meet(&b));
    assert_string_equal(a.scheduler, again.scheduler);
    assert_string_not_equal(a.scheduler, b.scheduler); /* two jobs never meet */
    char directory[sizeof a.scheduler];
    snprintf(directory, sizeof directory, "%s", a.scheduler);
    char *slash = strrchr(directory, '/');
    assert_string_equal(slash, "/scheduler");
    *slash = '\0';
    assert_true(psr_socket_directory_is_a_jobs(directory));
    assert_int_equal(strncmp(directory, runtime, strlen(runtime)), 0);
}

static void a_runtime_directory_that_others_may_enter_is_not_used(void **state)
{
    (void)state;
    psr_start s = here("a");
    setenv("XDG_RUNTIME_DIR", "/", 1);
    expect_ok(psr_start_meet(&s));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    assert_int_equal(strncmp(s.scheduler, "/tmp/psring-job-", 16), 0);
}

static void with_keys_they_meet_over_tcp(void **state)
{
    (void)state;
    psr_start s = here("a"), v6 = here("a"), nowhere = here("a");
    strcpy(s.key_file, "keys");
    v6 = nowhere = s;
    expect_ok(psr_start_meet(&s));
    assert_string_equal(s.scheduler, "node1:4100");
    strcpy(v6.address, "::1");
    expect_ok(psr_start_meet(&v6));
    assert_string_equal(v6.scheduler, "[::1]:4100");
    nowhere.port = 0;
    expect_failure(psr_start_meet(&nowhere), PSR_ERR_USAGE,
                   "with a key file the ranks meet over TCP, and nothing says where: give "
                   "--scheduler HOST:PORT, or set PSRING_SCHEDULER");
}

static void several_hosts_need_keys(void **state)
{
    (void)state;
    psr_start s = here("a");
    s.nodes = 2;
    expect_failure(psr_start_meet(&s), PSR_ERR_USAGE,
                   "the ranks may be on several hosts (MASTER_ADDR is node1), where they meet over "
                   "TCP, encrypted: give --key-file DIR, as psring keygen writes it, or set "
                   "PSRING_KEY_FILE, or name a folder that all hosts see by PSRING_MEETING; on "
                   "this host alone let MASTER_ADDR be 127.0.0.1");
    psr_start by_role = s;
    by_role.rank = PSR_RANK_ANY; /* which a key is not for: the whole cure in one line */
    expect_failure(
        psr_start_meet(&by_role), PSR_ERR_USAGE,
        "the ranks may be on several hosts (MASTER_ADDR is node1), where they meet over TCP, "
        "encrypted: give all of them --key-file DIR, as psring keygen writes it, or set "
        "PSRING_KEY_FILE, or name a folder that all hosts see by PSRING_MEETING, and each worker "
        "and each server its own --rank, from 0; on this host alone let MASTER_ADDR be 127.0.0.1");
    strcpy(s.address, "127.0.0.1"); /* nobody else reaches that, however many agents there are */
    expect_ok(psr_start_meet(&s));
    assert_int_equal(s.scheduler[0], '/');
}

static void several_hosts_of_mpirun_meet_by_a_file(void **state)
{
    (void)state;
    psr_start s = {.level = PSR_START_MPI,
                   .ranks = 4,
                   .local_ranks = 2,
                   .job = "openmpi 1",
                   .job_here = "here"};
    psr_start there = s, other = s, named = s, torch = here("a");
    char here[sizeof s.meeting], wanted[sizeof s.meeting];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(wanted, sizeof wanted, "%.400s/.psring-meeting-", here);
    strcpy(there.job_here, "there");
    strcpy(other.job, "openmpi 2");
    strcpy(named.meeting_folder, runtime);
    expect_ok(psr_start_meet(&s));
    expect_ok(psr_start_meet(&there));
    expect_ok(psr_start_meet(&other));
    expect_ok(psr_start_meet(&named));
    assert_string_equal(s.scheduler, "");
    assert_int_equal(strncmp(s.meeting, wanted, strlen(wanted)), 0);
    assert_string_equal(s.meeting, there.meeting); /* each host knows the same one */
    assert_string_not_equal(s.meeting, other.meeting);
    assert_int_equal(strncmp(named.meeting, runtime, strlen(runtime)), 0);
    assert_string_equal(strrchr(named.meeting, '/'), strrchr(s.meeting, '/'));
    torch.nodes = 2;
    strcpy(torch.meeting_folder, runtime); /* MASTER_ADDR's hosts meet so where they are told to */
    expect_ok(psr_start_meet(&torch));
    assert_int_equal(strncmp(torch.meeting, runtime, strlen(runtime)), 0);
    strcpy(named.meeting_folder, "/nonexistent/folder");
    named.meeting[0] = '\0';
    expect_failure(psr_start_meet(&named), PSR_ERR_USAGE,
                   "the folder in which the ranks' hosts meet, /nonexistent/folder: No such file "
                   "or directory");
}

static void what_is_told_stays(void **state)
{
    (void)state;
    psr_start s = here("a"), alone = {.ranks = 1};
    strcpy(s.scheduler, "/run/somewhere/socket");
    expect_ok(psr_start_meet(&s));
    assert_string_equal(s.scheduler, "/run/somewhere/socket");
    expect_ok(psr_start_meet(&alone));
    assert_string_equal(alone.scheduler, "");
    psr_start lost = {.ranks = 2, .rank_variable = "PSRING_RANK", .ranks_variable = "PSRING_RANKS"};
    expect_failure(psr_start_meet(&lost), PSR_ERR_USAGE,
                   "PSRING_RANK and PSRING_RANKS do not say where the ranks meet: set "
                   "PSRING_SCHEDULER to HOST:PORT or to a socket's path");
}

static void the_way_to_the_scheduler_has_an_address_here(void **state)
{
    (void)state;
    char address[PSR_HOST_MAX];
    expect_ok(psr_start_interface("127.0.0.1:4100", address));
    assert_string_equal(address, "127.0.0.1");
    expect_failure(psr_start_interface("4100", address), PSR_ERR_USAGE,
                   "\"4100\" is not HOST:PORT");
    assert_int_equal(psr_start_interface("no-such-host.invalid:4100", address), PSR_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_host_they_meet_in_the_jobs_own_directory),
        cmocka_unit_test(a_runtime_directory_that_others_may_enter_is_not_used),
        cmocka_unit_test(with_keys_they_meet_over_tcp),
        cmocka_unit_test(several_hosts_need_keys),
        cmocka_unit_test(several_hosts_of_mpirun_meet_by_a_file),
        cmocka_unit_test(what_is_told_stays),
        cmocka_unit_test(the_way_to_the_scheduler_has_an_address_here),
    };
    return cmocka_run_group_tests(tests, make_runtime, remove_runtime);
}
