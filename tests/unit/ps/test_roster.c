/* Who takes part, in each mode. */
#include "tests/unit/expect.h"

#include "ps/roster.h"

static psr_roster roster_in(psr_mode mode, bool exchange)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = mode;
    config.workers = 5;
    config.shards = 3;
    config.exchange = exchange;
    return psr_roster_of(&config);
}

static void expect_roster(psr_roster roster, uint32_t processes, uint32_t shards, psr_route route)
{
    assert_int_equal(roster.ranks, 5);
    assert_int_equal(roster.worker_processes, processes);
    assert_int_equal(roster.plays_all, processes == 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mode_has_its_processes_and_its_way_for_the_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
