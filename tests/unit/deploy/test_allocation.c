/* deploy/launch/hosts/allocation.h: the hosts of a Slurm job. */
#include "tests/unit/expect.h"

#include "deploy/launch/hosts/allocation.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE",
                                    "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"};

static int forget_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static void surround(const char *nodes, const char *tasks)
{
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_JOB_NODELIST", nodes, 1);
    setenv("SLURM_TASKS_PER_NODE", tasks, 1);
}

static void nodes_are_hosts_and_tasks_are_slots(void **state)
{
    (void)state;
    static const char *const wanted[] = {"node08", "node09", "node20", "other"};
    static const uint32_t slots[] = {2, 2, 2, 1};
    psr_hosts hosts = {0};
    surround("node[08-09,20],other", "2(x3),1");
    expect_ok(psr_allocation_read(&hosts));
    assert_int_equal(hosts.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(hosts.items[i].name, wanted[i]);
        assert_int_equal(hosts.items[i].slots, slots[i]);
    }
    psr_hosts_done(&hosts);
}

static void outside_a_job_there_are_none(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(psr_allocation_read(&hosts), PSR_ERR_NOT_FOUND);
    setenv("SLURM_JOB_ID", "7", 1);
    assert_int_equal(psr_allocation_read(&hosts), PSR_ERR_NOT_FOUND);
    assert_null(hosts.items);
}

static void several_launchers_in_one_step_are_refused(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    surround("a,b", "1(x2)");
    setenv("SLURM_STEP_NODELIST", "a", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    expect_failure(
        psr_allocation_read(&hosts), PSR_ERR_USAGE,
        "srun has started this program 2 times, but it must be started once, since it starts the "
        "workers itself; call it without srun or by srun -n 1, or give srun psring-worker");
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    expect_ok(psr_allocation_read(&hosts));
    assert_int_equal(hosts.count, 2);
    psr_hosts_done(&hosts);
}

static void wrong_variables_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const tasks[] = {"",
                                        "x",
                                        "2(x",
                                        "2(x3",
                                        "2(x)",
                                        "0",
                                        "2(x3),",
                                        "2(x4)",
                                        "1,1",
                                        "99999999999999999999",
                                        "1(x99999999999)"};
    for (size_t i = 1; i < sizeof tasks / sizeof *tasks; i++) {
        psr_hosts hosts = {0};
        surround("a,b,c", tasks[i]);
        assert_int_equal(psr_allocation_read(&hosts), PSR_ERR_USAGE);
        assert_memory_equal(psr_err_detail(), "SLURM_TASKS_PER_NODE is ",
                            strlen("SLURM_TASKS_PER_NODE is "));
        assert_null(hosts.items);
    }
    psr_hosts hosts = {0};
    surround("a[3-", "1");
    assert_int_equal(psr_allocation_read(&hosts), PSR_ERR_USAGE);
    assert_memory_equal(psr_err_detail(), "SLURM_JOB_NODELIST is ",
                        strlen("SLURM_JOB_NODELIST is "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_are_hosts_and_tasks_are_slots, forget_all),
        cmocka_unit_test_teardown(outside_a_job_there_are_none, forget_all),
        cmocka_unit_test_teardown(several_launchers_in_one_step_are_refused, forget_all),
        cmocka_unit_test_teardown(wrong_variables_are_refused_and_change_nothing, forget_all),
    };
    forget_all(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
