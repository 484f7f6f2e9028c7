/* Which engine a configuration gets, and what it says of itself. */
#include "tests/unit/expect.h"

#include "worker/engine.h"

static const psr_host_ranks one_host = {1, (uint32_t[]){0, 2}};

/* A plan of one bucket that goes that way. */
static psr_plan plan_of(psr_route route, bool homes_are_workers)
{
    const psr_plan_options options = {.route = route,
                                      .ranks = 2,
                                      .shards = route == PSR_ROUTE_SHARD ? 2 : 0,
                                      .hosts = homes_are_workers ? &one_host : NULL,
                                      .slice_floats = 16,
                                      .window = 1};
    static const psr_part part = {{0, 32}, 0};
    psr_plan plan = {0};
    expect_ok(psr_plan_make(&options, &part, 1, &plan));
    return plan;
}

static psr_err choose(psr_mode mode, bool exchange, psr_route route, bool homes_are_workers,
                      const psr_engine_ops **ret_engine)
{
    psr_config config;
    psr_plan plan = plan_of(route, homes_are_workers);
    psr_config_defaults(&config);
    config.mode = mode;
    config.exchange = exchange;
    psr_err err = psr_engine_choose(&config, &plan, ret_engine);
    psr_plan_done(&plan);
    return err;
}

static const psr_engine_ops *chosen(psr_mode mode, bool exchange, psr_route route)
{
    const psr_engine_ops *engine = NULL;
    expect_ok(choose(mode, exchange, route, false, &engine));
    return engine;
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
    const psr_engine_ops *engine = NULL;
    expect_ok(choose(PSR_MODE_RING, true, PSR_ROUTE_SHARD, true, &engine));
    assert_ptr_equal(engine, &psr_engine_direct);
}

static void a_plan_that_goes_another_way_is_refused(void **state)
{
    (void)state;
    const psr_engine_ops *engine = NULL;
    expect_failure(choose(PSR_MODE_PS, true, PSR_ROUTE_RING, false, &engine), PSR_ERR_FORMAT,
                   "the plan's bucket 0 goes by a way that is not --mode's");
    expect_failure(choose(PSR_MODE_PS, true, PSR_ROUTE_SHARD, true, &engine), PSR_ERR_FORMAT,
                   "the plan's bucket 0 goes by a way that is not --mode's");
    expect_failure(choose(PSR_MODE_RING, true, PSR_ROUTE_SHARD, false, &engine), PSR_ERR_FORMAT,
                   "the plan's bucket 0 goes by a way that is not --mode's");
    assert_null(engine);
}

static void a_mode_that_this_build_has_not_is_refused(void **state)
{
    (void)state;
    const psr_mode modes[] = {PSR_MODE_NCCL, PSR_MODE_MPI};
    for (size_t i = 0; i < (PSR_MPI ? 1 : 2); i++) {
        const psr_engine_ops *engine = &psr_engine_none;
        expect_failure(choose(modes[i], true, PSR_ROUTE_NONE, false, &engine), PSR_ERR_UNSUPPORTED,
                       "--mode: this build has no exchange of that kind");
        assert_ptr_equal(engine, &psr_engine_none);
    }
}

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
        cmocka_unit_test(a_plan_that_goes_another_way_is_refused),
        cmocka_unit_test(a_mode_that_this_build_has_not_is_refused),
        cmocka_unit_test(every_engine_takes_gradients_bucket_by_bucket_or_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
