/* bench/emulation/moments.h and bench/emulation/processors.h */
#include "tests/unit/expect.h"

#include "bench/emulation/moments.h"
#include "bench/emulation/processors.h"

#include "base/rng.h"

#include <math.h>

/* ---- moments ---- */

static uint32_t first_by_looking(const int64_t *at_us, uint32_t count)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < count; i++)
        first = at_us[i] < at_us[first] ? i : first;
    return first;
}

static void the_first_moment_is_the_earliest_and_of_equals_the_lowest_number(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 40; count += 3) {
        psr_moments m;
        int64_t at_us[40];
        uint64_t draws = 0;
        expect_ok(psr_moments_init(&m, count));
        for (uint32_t i = 0; i < count; i++)
            at_us[i] = INT64_MAX;
        assert_int_equal(psr_moments_first(&m), 0);
        for (int change = 0; change < 500; change++) {
            const psr_rng_at at = {.seed = count, .purpose = PSR_RNG_TEST};
            const uint32_t i = psr_rng_below(at, &draws, count), t = psr_rng_below(at, &draws, 9);
            at_us[i] = t < 8 ? t : INT64_MAX;
            psr_moments_set(&m, i, at_us[i]);
            const uint32_t first = first_by_looking(at_us, count);
            assert_int_equal(psr_moments_first(&m), first);
            assert_true(m.at_us[first] == at_us[first]);
        }
        psr_moments_done(&m);
    }
}

/* ---- processors ---- */

static void begin(psr_processors *p, double now_ns, double work_ns, uint32_t process,
                  uint32_t threads)
{
    const psr_processor_job job = {.threads = threads, .process = process};
    expect_ok(psr_processors_begin(p, now_ns, work_ns, &job));
}

static void expect_end(psr_processors *p, double at_ns, uint32_t process)
{
    assert_true(fabs(psr_processors_next_ns(p) - at_ns) < 1e-6);
    assert_int_equal(psr_processors_end(p).process, process);
}

static void as_many_jobs_as_processors_do_not_slow_one_another_down(void **state)
{
    psr_processors p;
    (void)state;
    psr_processors_init(&p, 2);
    assert_true(isinf(psr_processors_next_ns(&p)));
    begin(&p, 0, 100, 7, 1);
    begin(&p, 10, 50, 8, 1);
    expect_end(&p, 60, 8);
    expect_end(&p, 100, 7);
    assert_true(isinf(psr_processors_next_ns(&p)));
    psr_processors_done(&p);
}

/* On one processor: alone until 40, then at half the speed; the second has its 30 done at 100, when
 * the first has had 70; its last 30 come alone. */
static void more_jobs_share_the_processors_equally(void **state)
{
    psr_processors p;
    (void)state;
    psr_processors_init(&p, 1);
    begin(&p, 0, 100, 1, 1);
    begin(&p, 40, 30, 2, 1);
    expect_end(&p, 100, 2);
    expect_end(&p, 130, 1);
    psr_processors_done(&p);
}

static void a_job_of_two_threads_takes_two_processors(void **state)
{
    psr_processors p;
    (void)state;
    psr_processors_init(&p, 2);
    begin(&p, 0, 100, 1, 2);
    begin(&p, 0, 100, 2, 2);
    expect_end(&p, 200, 1);
    expect_end(&p, 200, 2);
    psr_processors_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_moment_is_the_earliest_and_of_equals_the_lowest_number),
        cmocka_unit_test(as_many_jobs_as_processors_do_not_slow_one_another_down),
        cmocka_unit_test(more_jobs_share_the_processors_equally),
        cmocka_unit_test(a_job_of_two_threads_takes_two_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
