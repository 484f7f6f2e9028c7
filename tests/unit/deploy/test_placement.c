/* deploy/launch/placement.h */
#include "deploy/launch/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static psr_config config_of(psr_mode mode, uint32_t workers, uint32_t shards)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = mode;
    config.workers = workers;
    config.shards = shards;
    return config;
}

static uint32_t host_of(const psr_placement *placement, psr_role role, uint32_t rank)
{
    for (size_t i = 0; i < placement->count; i++)
        if (placement->items[i].peer.role == role && placement->items[i].peer.rank == rank)
            return placement->items[i].host;
    return UINT32_MAX;
}

static psr_hosts list(const char *text)
{
    psr_hosts hosts = {0};
    assert_int_equal(psr_hosts_from_list(text, &hosts), PSR_OK);
    return hosts;
}

static void ranks_fill_slots_in_order_and_shards_go_round(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2,b:1,c:2");
    psr_config config = config_of(PSR_MODE_PS, 4, 4);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, &placement), PSR_OK);
    static const uint32_t worker_hosts[] = {0, 0, 1, 2}, shard_hosts[] = {0, 1, 2, 0};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(host_of(&placement, PSR_ROLE_WORKER, i), worker_hosts[i]);
        assert_int_equal(host_of(&placement, PSR_ROLE_SHARD, i), shard_hosts[i]);
    }
    assert_int_equal(placement.count, 8);
    assert_int_equal(placement.workers_most, 2);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void a_ps_hostfile_takes_the_shards_elsewhere(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2"), ps_hosts = list("p,q,a");
    psr_config config = config_of(PSR_MODE_PS, 2, 3);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, &ps_hosts, &placement), PSR_OK);
    assert_int_equal(placement.hosts.count, 3);
    assert_string_equal(placement.hosts.items[host_of(&placement, PSR_ROLE_SHARD, 0)].name, "p");
    assert_string_equal(placement.hosts.items[host_of(&placement, PSR_ROLE_SHARD, 1)].name, "q");
    assert_string_equal(placement.hosts.items[host_of(&placement, PSR_ROLE_SHARD, 2)].name, "a");
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
    psr_hosts_done(&ps_hosts);
}

static void local_mode_is_one_process_that_counts_cores_as_its_workers_would(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:3");
    psr_config config = config_of(PSR_MODE_LOCAL, 3, 2);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, &placement), PSR_OK);
    assert_int_equal(placement.count, 1);
    assert_int_equal(placement.workers_most, 3);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void ring_mode_has_no_shards(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:3");
    psr_config config = config_of(PSR_MODE_RING, 3, 2);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, &placement), PSR_OK);
    assert_int_equal(placement.count, 3);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void more_workers_than_slots_are_refused(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2,b");
    psr_config config = config_of(PSR_MODE_RING, 4, 1);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, &placement), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "--workers 4: the hosts have 3 slots in all; add slots=N or hosts");
    psr_hosts_done(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_fill_slots_in_order_and_shards_go_round),
        cmocka_unit_test(a_ps_hostfile_takes_the_shards_elsewhere),
        cmocka_unit_test(local_mode_is_one_process_that_counts_cores_as_its_workers_would),
        cmocka_unit_test(ring_mode_has_no_shards),
        cmocka_unit_test(more_workers_than_slots_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
