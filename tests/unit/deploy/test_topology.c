/* deploy/agent/topology.h */
#include "tests/unit/expect.h"

#include "deploy/agent/topology.h"

#include <stdlib.h>

static psr_err parse(const char *text, psr_topology *topology)
{
    cJSON *json = cJSON_Parse(text);
    psr_err err = psr_topology_from_json(json, topology);
    cJSON_Delete(json);
    return err;
}

static void a_topology_comes_back_as_it_was(void **state)
{
    (void)state;
    static const char *const texts[] = {"[[[0]]]", "[[[0,4],[1,5]],[[2,6],[3,7]]]",
                                        "[[[9],[2,4095]],[[7]]]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        psr_topology topology;
        cJSON *json = NULL;
        expect_ok(parse(texts[i], &topology));
        expect_ok(psr_topology_to_json(&topology, &json));
        char *text = cJSON_PrintUnformatted(json);
        assert_string_equal(text, texts[i]);
        free(text);
        cJSON_Delete(json);
        psr_topology_done(&topology);
    }
}

static void what_is_no_topology_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"1",          "{}",          "[]",          "[[]]",
                                        "[[[]]]",     "[[0]]",       "[[[-1]]]",    "[[[0.5]]]",
                                        "[[[4096]]]", "[[[1e300]]]", "[[[\"0\"]]]", "[[[0],[0]]]",
                                        "[[[0]],[]]", "[[[0]],1]",   "nothing"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        psr_topology topology;
        assert_int_equal(parse(texts[i], &topology), PSR_ERR_FORMAT);
    }
}

static void more_cores_than_there_can_be_are_refused(void **state)
{
    (void)state;
    cJSON *json = cJSON_CreateArray(), *node = cJSON_CreateArray();
    psr_topology topology;
    cJSON_AddItemToArray(json, node);
    for (int i = 0; i <= PSR_CPUS_MAX; i++) {
        cJSON *core = cJSON_CreateArray();
        cJSON_AddItemToArray(core, cJSON_CreateNumber(i));
        cJSON_AddItemToArray(node, core);
    }
    assert_int_equal(psr_topology_from_json(json, &topology), PSR_ERR_FORMAT);
    cJSON_Delete(json);
}

/* Each processor that this process may use is in one core, and no other is. */
static void this_host_is_read(void **state)
{
    (void)state;
    psr_topology topology;
    psr_err err = psr_topology_read(&topology);
    if (err == PSR_ERR_UNSUPPORTED)
        return;
    expect_ok(err);
    const psr_cpus allowed = psr_cpus_allowed();
    assert_int_equal(topology.cpu_count, psr_cpus_count(&allowed));
    for (uint32_t i = 0; i < topology.cpu_count; i++)
        assert_true(psr_cpus_has(&allowed, topology.cpus[i]));
    psr_topology_done(&topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topology_comes_back_as_it_was),
        cmocka_unit_test(what_is_no_topology_is_refused),
        cmocka_unit_test(more_cores_than_there_can_be_are_refused),
        cmocka_unit_test(this_host_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
