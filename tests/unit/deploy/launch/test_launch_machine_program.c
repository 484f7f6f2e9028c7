/* The launcher's decisions about somebody else's program (psring run), where they are other than
 * about training. */
#include "tests/unit/deploy/launch/played_launch.h"

static void what_ranks_print_is_for_the_person_alone(void **state)
{
    (void)state;
    played p;
    begin_program(&p);
    agent_says(&p, A,
               "{\"event\":\"line\",\"role\":\"worker\",\"rank\":1,\"stream\":\"out\",\"text\":\"a "
               "line\"}",
               0);
    agent_says(&p, B,
               "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"err\",\"text\":"
               "\"2026-11-22 10:00:00.000 ERROR worker-2: one\"}",
               0);
    expect_done(&p, "rank 1 on stdout: a line\nrank 2 on stderr: 2026-11-22 10:00:00.000 ERROR "
                    "worker-2: one\n");
    psr_launch_machine_free(p.machine);
}

static void the_scheduler_is_told_how_each_rank_ends(void **state)
{
    (void)state;
    played p;
    begin_program(&p);
    agent_says(&p, B,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":2,\"ok\":true,\"by_itself\":"
               "true,\"how\":\"exit status 0\"}",
               0);
    expect_done(&p, "{\"order\":\"left\",\"role\":\"worker\",\"rank\":2,\"host\":\"b\"}\n");
    agent_says(&p, A,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":0,\"ok\":false,\"by_itself\":"
               "true,\"how\":\"exit status 3\"}",
               0);
    expect_done(&p, "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":0,\"host\":\"a\",\"by_"
                    "itself\":true,\"how\":\"exit status 3\"}\n");
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":1,\"line\":\"rank 0 on a: exit status 3\"}",
                   0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    close_all(&p, 0);
    expect_end(&p, 1, "end bar\nerror: psring run: rank 0 on a: exit status 3\n");
}

static void a_run_that_ends_well_says_nothing_of_its_own(void **state)
{
    (void)state;
    played p;
    begin_program(&p);
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":0,\"line\":\"all 3 ranks have ended\"}", 0);
    close_all(&p, 0);
    expect_end(&p, 0, "end bar\n");
}

static void ctrl_c_ends_it_and_the_second_at_once(void **state)
{
    (void)state;
    played p;
    begin_program(&p);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "{\"order\":\"stop\"}\nagent a: end in 750 ms\nagent b: end in 750 ms\n");
    assert_false(psr_launch_machine_ends_at_once(p.machine));
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    assert_true(psr_launch_machine_ends_at_once(p.machine));
    tick(&p, 0);
    expect_done(&p, "kill agent a\nkill agent b\nkill scheduler\n");
    close_all(&p, 10);
    expect_end(&p, 130, "end bar\nerror: psring run: interrupted\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_print_is_for_the_person_alone),
        cmocka_unit_test(the_scheduler_is_told_how_each_rank_ends),
        cmocka_unit_test(a_run_that_ends_well_says_nothing_of_its_own),
        cmocka_unit_test(ctrl_c_ends_it_and_the_second_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
