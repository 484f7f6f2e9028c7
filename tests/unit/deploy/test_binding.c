/* deploy/launch/hosts/binding.h */
#include "tests/unit/expect.h"

#include "deploy/launch/hosts/binding.h"

#include "base/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

/* Two nodes of four cores with two hardware threads each, numbered as Linux does: siblings are 8
 * apart. */
#define TWO_NODES "[[[0,8],[1,9],[2,10],[3,11]],[[4,12],[5,13],[6,14],[7,15]]]"
/* Processors 1 and 6 are offline, and 3 belongs to another cgroup. */
#define HOLES "[[[0],[2,10],[4]],[[5,13],[7]]]"
#define ONE_NODE "[[[0],[1],[2],[3]]]"

static psr_topology topology_of(const char *text)
{
    psr_topology topology = {0};
    cJSON *json = cJSON_Parse(text);
    expect_ok(psr_topology_from_json(json, &topology));
    cJSON_Delete(json);
    return topology;
}

static psr_err plan(const char *text, psr_bind_to to, uint32_t workers, uint32_t shards,
                    uint32_t threads, psr_cpus *cpus)
{
    psr_topology topology = topology_of(text);
    const psr_binding_request request = {to, "a", workers, shards, threads};
    psr_err err = psr_binding_plan(&request, &topology, cpus);
    psr_topology_done(&topology);
    return err;
}

/* wanted: the processes' lists, with '|' between them. */
static void expect_plan(const char *text, psr_bind_to to, uint32_t workers, uint32_t shards,
                        uint32_t threads, const char *wanted)
{
    psr_cpus cpus[MOST];
    char all[1024] = "";
    psr_text_end end = {all, sizeof all};
    expect_ok(plan(text, to, workers, shards, threads, cpus));
    for (uint32_t i = 0; i < workers + shards; i++) {
        char *list = NULL;
        expect_ok(psr_cpus_print(&cpus[i], &list));
        psr_text_add(&end, "%s%s", i ? " | " : "", list);
        free(list);
    }
    assert_string_equal(all, wanted);
}

static void expect_refused(const char *text, psr_bind_to to, uint32_t workers, uint32_t shards,
                           uint32_t threads, const char *detail)
{
    psr_cpus cpus[MOST];
    assert_int_equal(plan(text, to, workers, shards, threads, cpus), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), detail);
}

static void workers_get_whole_cores_of_their_own(void **state)
{
    (void)state;
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 2, 0, 1, "0-1 | 2-3");
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 3, 0, 1, "0 | 1 | 2");
    expect_plan(TWO_NODES, PSR_BIND_TO_CORE, 2, 0, 4, "0-3,8-11 | 4-7,12-15");
    expect_plan(TWO_NODES, PSR_BIND_TO_CORE, 1, 0, 8, "0-15");
}

static void no_share_is_in_two_nodes_where_that_is_possible(void **state)
{
    (void)state;
    expect_plan(TWO_NODES, PSR_BIND_TO_CORE, 3, 0, 2, "0-1,8-9 | 2-3,10-11 | 4-5,12-13");
    expect_plan(HOLES, PSR_BIND_TO_CORE, 2, 0, 2, "0,2,10 | 5,7,13"); /* 4 is left */
    expect_plan(HOLES, PSR_BIND_TO_CORE, 1, 0, 5, "0,2,4-5,7,10,13");
    expect_plan("[[[0],[1],[2]],[[3],[4],[5]]]", PSR_BIND_TO_CORE, 3, 0, 2, "0-1 | 2-3 | 4-5");
}

static void shards_get_the_last_cores(void **state)
{
    (void)state;
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 2, 2, 1, "0 | 1 | 3 | 2");
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 1, 1, 2, "0-2 | 3");
    expect_plan(HOLES, PSR_BIND_TO_CORE, 2, 1, 2, "0,2,10 | 5,7,13 | 4");
    /* alone they share */
    expect_plan(TWO_NODES, PSR_BIND_TO_CORE, 0, 2, 1, "0-3,8-11 | 4-7,12-15");
}

static void shards_run_anywhere_where_workers_leave_too_few_cores(void **state)
{
    (void)state;
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 2, 1, 2, "0-1 | 2-3 | 0-3");
    expect_plan(ONE_NODE, PSR_BIND_TO_CORE, 3, 2, 1, "0 | 1 | 2 | 0-3 | 0-3");
}

static void nodes_are_shared_by_neighbours(void **state)
{
    (void)state;
    expect_plan(TWO_NODES, PSR_BIND_TO_NUMA, 3, 3, 2,
                "0-3,8-11 | 0-3,8-11 | 4-7,12-15 | 0-3,8-11 | 4-7,12-15 | 0-3,8-11");
    expect_plan(HOLES, PSR_BIND_TO_NUMA, 1, 0, 3, "0,2,4,10");
}

static void too_few_cores_are_named(void **state)
{
    (void)state;
    expect_refused(
        ONE_NODE, PSR_BIND_TO_CORE, 2, 1, 3,
        "host a: --bind-to core needs 6 cores there (workers: 2, threads of each: 3, shards: 1), "
        "and it has 4; give --threads 2, fewer processes there, or --bind-to none");
    expect_refused(ONE_NODE, PSR_BIND_TO_CORE, 0, 5, 1,
                   "host a: --bind-to core needs 5 cores there (workers: 0, threads of each: 1, "
                   "shards: 5), and it has 4; give fewer processes there, or --bind-to none");
    expect_refused(ONE_NODE, PSR_BIND_TO_CORE, 5, 0, 1,
                   "host a: --bind-to core needs 5 cores there (workers: 5, threads of each: 1, "
                   "shards: 0), and it has 4; give fewer processes there, or --bind-to none");
    expect_refused(
        HOLES, PSR_BIND_TO_NUMA, 2, 0, 3,
        "host a: --bind-to numa needs 3 cores in its NUMA node 1 (workers: 1, threads of each: 3), "
        "and that has 2; give --threads 2, fewer workers there, or --bind-to none");
}

static void expect_threads(const char *text, psr_bind_to to, uint32_t workers, uint32_t threads)
{
    psr_topology topology = topology_of(text);
    assert_int_equal(psr_binding_threads(to, &topology, workers), threads);
    psr_topology_done(&topology);
}

static void threads_are_counted_in_whole_cores(void **state)
{
    (void)state;
    expect_threads(TWO_NODES, PSR_BIND_TO_CORE, 1, 8);
    expect_threads(TWO_NODES, PSR_BIND_TO_CORE, 3, 2);
    expect_threads(TWO_NODES, PSR_BIND_TO_NUMA, 1, 4);
    expect_threads(TWO_NODES, PSR_BIND_TO_NUMA, 3, 2);
    expect_threads(HOLES, PSR_BIND_TO_NUMA, 2, 2);
    expect_threads(ONE_NODE, PSR_BIND_TO_CORE, 9, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_get_whole_cores_of_their_own),
        cmocka_unit_test(no_share_is_in_two_nodes_where_that_is_possible),
        cmocka_unit_test(shards_get_the_last_cores),
        cmocka_unit_test(shards_run_anywhere_where_workers_leave_too_few_cores),
        cmocka_unit_test(nodes_are_shared_by_neighbours),
        cmocka_unit_test(too_few_cores_are_named),
        cmocka_unit_test(threads_are_counted_in_whole_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
