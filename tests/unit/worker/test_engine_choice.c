/* Which engine a configuration gets, and what it says of itself. */
#include "tests/unit/expect.h"

#include "worker/engine.h"

static const psr_engine_ops *chosen(psr_mode mode, bool exchange)
{
    psr_config config;
    const psr_engine_ops *engine = NULL;
    psr_config_defaults(&config);
    config.mode = mode;
    config.exchange = exchange;
    expect_ok(psr_engine_choose(&config, &engine));
    return engine;
}

static void every_mode_of_this_build_has_its_engine(void **state)
{
    (void)state;
    assert_ptr_equal(chosen(PSR_MODE_PS, true), &psr_engine_ps);
    assert_ptr_equal(chosen(PSR_MODE_RING, true), &psr_engine_ring);
    assert_ptr_equal(chosen(PSR_MODE_RING, false), &psr_engine_none);
    assert_ptr_equal(chosen(PSR_MODE_LOCAL, true), &psr_engine_local);
#if PSR_MPI
    assert_ptr_equal(chosen(PSR_MODE_MPI, true), &psr_engine_mpi);
#endif
}

static void a_mode_that_this_build_has_not_is_refused(void **state)
{
    (void)state;
    const psr_mode modes[] = {PSR_MODE_NCCL, PSR_MODE_MPI};
    for (size_t i = 0; i < (PSR_MPI ? 1 : 2); i++) {
        psr_config config;
        const psr_engine_ops *engine = &psr_engine_none;
        psr_config_defaults(&config);
        config.mode = modes[i];
        expect_failure(psr_engine_choose(&config, &engine), PSR_ERR_UNSUPPORTED,
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
        cmocka_unit_test(a_mode_that_this_build_has_not_is_refused),
        cmocka_unit_test(every_engine_takes_gradients_bucket_by_bucket_or_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
