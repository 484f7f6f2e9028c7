/* Who takes part, in each mode. */
#include "tests/unit/expect.h"

#include "ps/roster.h"

static psr_roster roster_in(psr_mode mode, bool exchange)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = mode;
    config.workers = 5;
    config.shards = mode == PSR_MODE_PS ? 3 : 0;
    config.exchange = exchange;
    return psr_roster_of(&config);
}

static void expect_roster(psr_roster roster, uint32_t processes, uint32_t shards, psr_route route)
{
    assert_int_equal(roster.ranks, 5);
    assert_int_equal(roster.worker_processes, processes);
    assert_int_equal(roster.computes_all_ranks, processes == 1);
    assert_int_equal(roster.shards, shards);
    assert_int_equal(roster.route, route);
}

static void each_mode_has_its_processes_and_its_way_for_the_buckets(void **state)
{
    (void)state;
    expect_roster(roster_in(PSR_MODE_PS, true), 5, 3, PSR_ROUTE_SHARD);
    expect_roster(roster_in(PSR_MODE_RING, true), 5, 0, PSR_ROUTE_RING);
    expect_roster(roster_in(PSR_MODE_RING, false), 5, 0, PSR_ROUTE_NONE);
    expect_roster(roster_in(PSR_MODE_LOCAL, true), 1, 0, PSR_ROUTE_NONE);
}

static void shards_are_there_for_any_stretch_and_for_a_change_by_hand(void **state)
{
    (void)state;
    psr_config config;
    psr_config_defaults(&config);
    config.workers = 5;
    expect_ok(psr_config_set(&config, "mode", "ring@1,ps@7"));
    expect_roster(psr_roster_of(&config), 5, 1, PSR_ROUTE_RING);
    expect_ok(psr_config_set(&config, "shards", "3"));
    expect_roster(psr_roster_of(&config), 5, 3, PSR_ROUTE_RING);
    expect_ok(psr_config_set(&config, "mode", "ring"));
    expect_roster(psr_roster_of(&config), 5, 3, PSR_ROUTE_RING);
    expect_ok(psr_config_set(&config, "shards", "auto"));
    expect_roster(psr_roster_of(&config), 5, 0, PSR_ROUTE_RING);
    expect_ok(psr_config_set(&config, "route", "fc=ps"));
    expect_roster(psr_roster_of(&config), 5, 1, PSR_ROUTE_RING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mode_has_its_processes_and_its_way_for_the_buckets),
        cmocka_unit_test(shards_are_there_for_any_stretch_and_for_a_change_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
