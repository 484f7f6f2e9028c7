/* deploy/launch/hosts/placement.h */
#include "deploy/launch/hosts/placement.h"

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
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
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
    assert_int_equal(psr_placement_make(&config, &hosts, &ps_hosts, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
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
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.count, 1);
    assert_int_equal(placement.workers_most, 3);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void ring_mode_has_no_shards_unless_they_are_asked_for(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:3");
    psr_config config = config_of(PSR_MODE_RING, 3, 0);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.count, 3);
    psr_placement_done(&placement);
    config.shards = 2;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.count, 5);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void more_workers_than_slots_are_refused(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2,b");
    psr_config config = config_of(PSR_MODE_RING, 4, 0);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "--workers 4: the hosts have 3 slots in all; add slots=N "
                                          "or hosts, or let a host take more by max_slots=N");
    psr_hosts_done(&hosts);
}

static psr_hosts file(const char *text)
{
    psr_hosts hosts = {0};
    assert_int_equal(psr_hostfile_parse("hosts", text, strlen(text), &hosts), PSR_OK);
    return hosts;
}

/* The hosts' names, one letter each, of ranks 0, 1, .. */
static void expect_mapping(const char *text, psr_map_by map_by, const char *names)
{
    psr_hosts hosts = file(text);
    psr_config config = config_of(PSR_MODE_RING, (uint32_t)strlen(names), 0);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, map_by, &placement), PSR_OK);
    for (uint32_t rank = 0; rank < config.workers; rank++)
        assert_int_equal(placement.hosts.items[host_of(&placement, PSR_ROLE_WORKER, rank)].name[0],
                         names[rank]);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

static void ranks_are_mapped_by_slot_or_by_node(void **state)
{
    (void)state;
    static const char hosts[] = "a slots=4\nb slots=4\nc slots=4\n",
                      uneven[] = "a slots=1\nb slots=3\n";
    expect_mapping(hosts, PSR_MAP_BY_SLOT, "aaaabb");
    expect_mapping(hosts, PSR_MAP_BY_NODE, "abcabc");
    expect_mapping(uneven, PSR_MAP_BY_NODE, "abbb");
}

/* Open MPI's own example: aa and bb are protected by max_slots, cc is not. */
static void when_all_slots_are_taken_hosts_take_more_in_turn_up_to_max_slots(void **state)
{
    (void)state;
    expect_mapping("a slots=2 max_slots=2\nb max_slots=2\nc slots=2 max_slots=9\n", PSR_MAP_BY_SLOT,
                   "aabbcccc");
    expect_mapping("a slots=1 max_slots=4\nb slots=2 max_slots=3\n", PSR_MAP_BY_SLOT, "abbabaa");
    expect_mapping("a slots=1 max_slots=4\nb slots=2 max_slots=3\n", PSR_MAP_BY_NODE, "abbabaa");
}

static void more_than_max_slots_are_refused(void **state)
{
    (void)state;
    psr_hosts hosts = file("a slots=1 max_slots=4\nb\n");
    psr_config config = config_of(PSR_MODE_RING, 6, 0);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--workers 6: the hosts have 2 slots in all, and room for 5 by their "
                        "max_slots; add slots=N, max_slots=N or hosts");
    psr_hosts_done(&hosts);
}

static void hosts_without_a_process_are_left_out(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2,b:1,c:2"), ps_hosts = list("p,q:2");
    psr_config config = config_of(PSR_MODE_PS, 2, 1);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.hosts.count, 1);
    psr_placement_done(&placement);
    assert_int_equal(psr_placement_make(&config, &hosts, &ps_hosts, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.hosts.count, 2);
    assert_int_equal(placement.worker_hosts, 1);
    assert_string_equal(placement.hosts.items[1].name, "p");
    psr_placement_done(&placement);
    config.shards = 4;
    assert_int_equal(psr_placement_make(&config, &hosts, &ps_hosts, PSR_MAP_BY_SLOT, &placement),
                     PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--shards 4 on the hosts of --ps-hostfile: they have 3 slots in all; add "
                        "slots=N or hosts, or let a host take more by max_slots=N");
    psr_hosts_done(&hosts);
    psr_hosts_done(&ps_hosts);
}

/* Its threads are those that it would have everywhere. */
static void local_mode_asks_all_hosts_whose_workers_it_plays(void **state)
{
    (void)state;
    psr_hosts hosts = list("a:2,b:1,c:2");
    psr_config config = config_of(PSR_MODE_LOCAL, 3, 2);
    psr_placement placement;
    assert_int_equal(psr_placement_make(&config, &hosts, NULL, PSR_MAP_BY_SLOT, &placement),
                     PSR_OK);
    assert_int_equal(placement.count, 1);
    assert_int_equal(placement.worker_hosts, 2);
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_fill_slots_in_order_and_shards_go_round),
        cmocka_unit_test(a_ps_hostfile_takes_the_shards_elsewhere),
        cmocka_unit_test(local_mode_is_one_process_that_counts_cores_as_its_workers_would),
        cmocka_unit_test(ring_mode_has_no_shards_unless_they_are_asked_for),
        cmocka_unit_test(more_workers_than_slots_are_refused),
        cmocka_unit_test(ranks_are_mapped_by_slot_or_by_node),
        cmocka_unit_test(when_all_slots_are_taken_hosts_take_more_in_turn_up_to_max_slots),
        cmocka_unit_test(more_than_max_slots_are_refused),
        cmocka_unit_test(hosts_without_a_process_are_left_out),
        cmocka_unit_test(local_mode_asks_all_hosts_whose_workers_it_plays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
