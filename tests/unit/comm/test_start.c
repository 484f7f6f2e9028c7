/* comm/start: what each launcher's variables come to, and which are refused. */
#include "tests/unit/expect.h"

#include "comm/start/start.h"

#include <stdlib.h>
#include <string.h>

/* All that any way reads. */
static const char *const names[] = {
    "PSRING_RANK",
    "PSRING_RANKS",
    "PSRING_SHARDS",
    "PSRING_HOST_SCHEDULER",
    "PSRING_SCHEDULER",
    "PSRING_KEY_FILE",
    "PSRING_HOST",
    "PSRING_INTERFACE",
    "PSRING_DEADLINE_MS",
    "PSRING_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_PORT",
};

static int forget_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

/* "NAME=VALUE NAME=VALUE" and nothing else. */
static void surround(const char *assignments)
{
    char text[512], *rest = text;
    forget_all(NULL);
    assert_true(strlen(assignments) < sizeof text);
    strcpy(text, assignments);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(word, value + 1, 1);
    }
}

static psr_start place(const char *assignments)
{
    psr_start start;
    surround(assignments);
    expect_ok(psr_start_read(&start));
    return start;
}

static void assert_refused(const char *assignments, const char *detail)
{
    psr_start start, before;
    memset(&start, 7, sizeof start);
    before = start;
    surround(assignments);
    expect_failure(psr_start_read(&start), PSR_ERR_USAGE, detail);
    assert_memory_equal(&start, &before, sizeof start);
}

static void assert_described(const psr_start *start, const char *line)
{
    char text[PSR_START_LINE_MAX];
    psr_start_describe(start, text, sizeof text);
    assert_string_equal(text, line);
}

#define LOOP "WORLD_SIZE=8 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
#define TORCHRUN                                                                                             \
    "WORLD_SIZE=8 MASTER_ADDR=node1 MASTER_PORT=29500 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 "   \
    "TORCHELASTIC_RUN_ID=a TORCHELASTIC_RESTART_COUNT=0 RANK=5 LOCAL_RANK=1 "

static void without_variables_there_is_no_place(void **state)
{
    (void)state;
    psr_start start;
    surround("MASTER_ADDR=127.0.0.1 MASTER_PORT=1");
    assert_int_equal(psr_start_read(&start), PSR_ERR_NOT_FOUND);
}

static void psring_run_gives_a_place(void **state)
{
    (void)state;
    psr_start s =
        place("PSRING_RANK=1 PSRING_RANKS=4 PSRING_SCHEDULER=/a/b PSRING_KEY_FILE=/k PSRING_SHARDS=1");
    assert_int_equal(s.rank, 1);
    assert_int_equal(s.ranks, 4);
    assert_int_equal(s.shards, 1);
    assert_false(s.starts_scheduler);
    assert_string_equal(s.scheduler, "/a/b");
    assert_string_equal(s.key_file, "/k");
    assert_described(&s, "rank 1 of 4 from PSRING_RANK and PSRING_RANKS (psring)");
    s = place("PSRING_RANKS=4");
    assert_true(s.rank == PSR_RANK_ANY && !s.starts_scheduler);
    assert_true(place("PSRING_RANK=0 PSRING_RANKS=4").starts_scheduler);
    assert_false(place("PSRING_RANK=0 PSRING_RANKS=4 PSRING_HOST_SCHEDULER=0").starts_scheduler);
}

static void torchrun_gives_a_place(void **state)
{
    (void)state;
    psr_start s = place(TORCHRUN);
    assert_true(s.rank == 5 && s.ranks == 8 && s.local_rank == 1 && s.local_ranks == 4 && s.node == 1 &&
                s.nodes == 2);
    assert_true(s.role == PSR_ROLE_WORKER && !s.starts_scheduler && s.shards == PSR_START_UNTOLD);
    assert_string_equal(s.address, "node1");
    assert_int_equal(s.port, 30500); /* MASTER_PORT is torchrun's own */
    assert_false(psr_start_is_on_one_host(&s));
    assert_described(&s, "rank 5 of 8 from RANK and WORLD_SIZE (torchrun)");
    assert_int_equal(place("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65000").port, 64000);
}

static void a_shell_loop_gives_rank_or_local_rank(void **state)
{
    (void)state;
    psr_start s = place(LOOP "RANK=0");
    assert_true(s.rank == 0 && s.ranks == 8 && s.starts_scheduler && psr_start_is_on_one_host(&s));
    s = place(LOOP "LOCAL_RANK=3");
    assert_true(s.rank == 3 && !s.starts_scheduler);
    assert_described(&s, "rank 3 of 8 from LOCAL_RANK and WORLD_SIZE (torch.distributed's variables)");
    assert_int_equal(place("RANK=0 WORLD_SIZE=1").ranks, 1);
}

static void a_wrong_variable_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused(LOOP "RANK=8", "RANK is \"8\": it should be a number from 0 to 7");
    assert_refused(LOOP "RANK=-1", "RANK is \"-1\": it should be a number from 0 to 7");
    assert_refused(LOOP "RANK=3x", "RANK is \"3x\": it should be a number from 0 to 7");
    assert_refused(LOOP "LOCAL_RANK=8", "LOCAL_RANK is \"8\": it should be a number from 0 to 7");
    assert_refused("RANK=1 WORLD_SIZE=0", "WORLD_SIZE is \"0\": it should be a number from 1 to 65536");
    assert_refused("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000",
                   "MASTER_PORT is \"70000\": it should be a number from 1 to 65535");
    assert_refused(LOOP "RANK=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=8",
                   "RANK is 1 and LOCAL_RANK 2, and all 8 ranks are local: they are one");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=2", "PSRING_RANK is \"2\": it should be a number from 0 to 1");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=1 PSRING_HOST=a\x1b",
                   "PSRING_HOST has control characters, or is not UTF-8");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=1 PSRING_PORT=0",
                   "PSRING_PORT is \"0\": it should be a number from 1 to 65535");
}

static void a_variable_that_is_missing_beside_another_is_named(void **state)
{
    (void)state;
    assert_refused("RANK=1", "WORLD_SIZE is not set, and RANK or LOCAL_RANK is: it says of how many");
    assert_refused("WORLD_SIZE=2",
                   "RANK is not set, and WORLD_SIZE is: it says which of them this process is");
    assert_refused(
        "RANK=1 WORLD_SIZE=2",
        "MASTER_ADDR is not set, and WORLD_SIZE is more than 1: it says on which host the ranks meet");
    assert_refused("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a",
                   "MASTER_PORT is not set, and WORLD_SIZE is more than 1: it tells this run from others");
    assert_refused("LOCAL_RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1",
                   "RANK is not set, and LOCAL_RANK says who this is on one host alone (WORLD_SIZE and "
                   "LOCAL_WORLD_SIZE the same, or MASTER_ADDR 127.0.0.1)");
}

static void sources_that_contradict_each_other_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused(
        LOOP "RANK=3 PSRING_RANK=2 PSRING_RANKS=8",
        "PSRING_RANK=2 and PSRING_RANKS=8 say rank 2 of 8, but RANK=3 and WORLD_SIZE=8 say rank 3 of 8: "
        "unset those that are not meant");
    assert_refused(
        LOOP "RANK=3 PSRING_RANK=3 PSRING_RANKS=4",
        "PSRING_RANK=3 and PSRING_RANKS=4 say rank 3 of 4, but RANK=3 and WORLD_SIZE=8 say rank 3 of 8: "
        "unset those that are not meant");
    assert_int_equal(place(LOOP "RANK=3 PSRING_RANK=3 PSRING_RANKS=8").rank, 3);
    /* What psring run has started is in a place of its own, wherever psring run itself is. */
    assert_int_equal(place(LOOP "RANK=3 PSRING_RANK=1 PSRING_RANKS=2 PSRING_HOST_SCHEDULER=0").ranks, 2);
    /* A process on each of two places, which starts four ranks. */
    assert_int_equal(
        place("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 PSRING_RANK=5 PSRING_RANKS=8").rank, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_variables_there_is_no_place, forget_all),
        cmocka_unit_test_teardown(psring_run_gives_a_place, forget_all),
        cmocka_unit_test_teardown(torchrun_gives_a_place, forget_all),
        cmocka_unit_test_teardown(a_shell_loop_gives_rank_or_local_rank, forget_all),
        cmocka_unit_test_teardown(a_wrong_variable_is_refused_by_name, forget_all),
        cmocka_unit_test_teardown(a_variable_that_is_missing_beside_another_is_named, forget_all),
        cmocka_unit_test_teardown(sources_that_contradict_each_other_are_refused_by_name, forget_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
