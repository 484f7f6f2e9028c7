/* Which engine a configuration gets, and what it says of itself. */
#include "tests/unit/expect.h"

#include "worker/exchange/engines/engine.h"

static const psr_host_ranks one_host = {1, (uint32_t[]){0, 2}};

/* A plan of one bucket that goes that way. */
static psr_plan plan_of(psr_route route)
{
    const psr_plan_options options = {.route = route,
                                      .ranks = 2,
                                      .shards = route == PSR_ROUTE_SHARD ? 2 : 0,
                                      .hosts = route == PSR_ROUTE_HOST ? &one_host : NULL,
                                      .slice_floats = 16,
                                      .window = 1};
    static const psr_part part = {{0, 32}, 0};
    psr_plan plan = {0};
    expect_ok(psr_plan_make(&options, &part, 1, &plan));
    return plan;
}

static psr_err choose(psr_mode mode, bool exchange, psr_route route, psr_ways *ret_ways)
{
    psr_config config;
    psr_plan plan = plan_of(route);
    psr_config_defaults(&config);
    config.mode = mode;
    config.exchange = exchange;
    psr_err err = psr_engine_choose(&config, &plan, ret_ways);
    psr_plan_done(&plan);
    return err;
}

static const psr_engine_ops *chosen(psr_mode mode, bool exchange, psr_route route)
{
    psr_ways ways = {.count = 0};
    expect_ok(choose(mode, exchange, route, &ways));
    assert_int_equal(ways.count, 1);
    return ways.engines[0];
}

static void every_mode_of_this_build_has_its_engine(void **state)
{
    (void)state;
    assert_ptr_equal(chosen(PSR_MODE_PS, true, PSR_ROUTE_SHARD), &psr_engine_ps);
    assert_ptr_equal(chosen(PSR_MODE_RING, true, PSR_ROUTE_RING), &psr_engine_ring);
    assert_ptr_equal(chosen(PSR_MODE_RING, false, PSR_ROUTE_NONE), &psr_engine_none);
    assert_ptr_equal(chosen(PSR_MODE_LOCAL, true, PSR_ROUTE_NONE), &psr_engine_local);
#if PSR_MPI
    assert_ptr_equal(chosen(PSR_MODE_MPI, true, PSR_ROUTE_NONE), &psr_engine_mpi);
#endif
}

static void a_ring_whose_workers_hold_the_buckets_has_no_hops(void **state)
{
    (void)state;
    assert_ptr_equal(chosen(PSR_MODE_RING, true, PSR_ROUTE_HOST), &psr_engine_direct);
}

/* One bucket by each route, whatever the mode that the run began with. */
static void a_plan_of_several_ways_gets_an_engine_for_each(void **state)
{
    (void)state;
    const psr_plan_options options = {
        .routes =
            (const psr_route[]){PSR_ROUTE_SHARD, PSR_ROUTE_RING, PSR_ROUTE_HOST, PSR_ROUTE_SHARD},
        .ranks = 2,
        .shards = 2,
        .hosts = &one_host,
        .slice_floats = 16,
        .window = 1};
    static const psr_part parts[] = {{{96, 32}, 0}, {{64, 32}, 1}, {{32, 32}, 2}, {{0, 32}, 3}};
    const psr_engine_ops *const expected[] = {&psr_engine_ring, &psr_engine_ps, &psr_engine_direct};
    psr_plan plan = {0};
    psr_ways ways = {.count = 0};
    psr_config config;
    psr_config_defaults(&config);
    expect_ok(psr_plan_make(&options, parts, 4, &plan));
    for (int k = 0; k < 2; k++) {
        config.mode = k == 0 ? PSR_MODE_PS : PSR_MODE_RING;
        expect_ok(psr_engine_choose(&config, &plan, &ways));
        assert_int_equal(ways.count, 3);
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(ways.engines[i], expected[i]);
    }
    psr_plan_done(&plan);
}

static void a_plan_that_goes_another_way_is_refused(void **state)
{
    (void)state;
    const struct {
        psr_mode mode;
        bool exchange;
        psr_route route;
    } wrong[] = {{PSR_MODE_PS, true, PSR_ROUTE_NONE},
                 {PSR_MODE_RING, true, PSR_ROUTE_NONE},
                 {PSR_MODE_RING, false, PSR_ROUTE_RING}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_ways ways = {.count = 0};
        expect_failure(choose(wrong[i].mode, wrong[i].exchange, wrong[i].route, &ways),
                       PSR_ERR_FORMAT,
                       "the plan's bucket 0 goes by a way that --mode does not have");
        assert_int_equal(ways.count, 0);
    }
}

#if !PSR_MPI
static void a_mode_that_this_build_has_not_is_refused(void **state)
{
    (void)state;
    psr_ways ways = {.count = 0};
    expect_failure(choose(PSR_MODE_MPI, true, PSR_ROUTE_NONE, &ways), PSR_ERR_UNSUPPORTED,
                   "--mode: this build has no exchange of that kind");
    assert_int_equal(ways.count, 0);
}
#endif

/* Who asks the engine takes one of the two ways; both or none would lose gradients. */
static void every_engine_takes_gradients_bucket_by_bucket_or_step_by_step(void **state)
{
    (void)state;
    const psr_engine_ops *const engines[] = {
        &psr_engine_ps,
        &psr_engine_ring,
        &psr_engine_direct,
        &psr_engine_local,
        &psr_engine_none,
#if PSR_MPI
        &psr_engine_mpi,
#endif
    };
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        assert_true((engines[i]->ready == NULL) != (engines[i]->end_step == NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_of_this_build_has_its_engine),
        cmocka_unit_test(a_ring_whose_workers_hold_the_buckets_has_no_hops),
        cmocka_unit_test(a_plan_of_several_ways_gets_an_engine_for_each),
        cmocka_unit_test(a_plan_that_goes_another_way_is_refused),
#if !PSR_MPI
        cmocka_unit_test(a_mode_that_this_build_has_not_is_refused),
#endif
        cmocka_unit_test(every_engine_takes_gradients_bucket_by_bucket_or_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
