/* The figures that an exchange's observer adds up. */
#include "worker/exchange/exchange_figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { BUCKETS = 2 };

static psr_exchange_tally tally;
static psr_exchange_figures figures;

static int set_up(void **state)
{
    (void)state;
    psr_exchange_tally_init(&tally, BUCKETS);
    figures = (psr_exchange_figures){.wait_s = 1, .bytes_lent = 2, .staleness = 3};
    return 0;
}

static void bucket(psr_observed_kind kind, uint64_t step, uint32_t number, int64_t stamp_ns)
{
    psr_exchange_tally_see(
        &tally,
        &(psr_observed){.kind = kind, .step = step, .bucket = number, .stamp_ns = stamp_ns});
}

/* Of a ring's messages only BEGIN says how many floats there are. */
static void ring(uint64_t step, size_t floats, size_t bytes)
{
    psr_exchange_tally_see(
        &tally, &(psr_observed){.kind = PSR_OBSERVED_BEGIN, .step = step, .ring_floats = floats});
    psr_exchange_tally_see(&tally, &(psr_observed){.kind = PSR_OBSERVED_OUT,
                                                   .type = PSR_MSG_VALUES,
                                                   .step = step,
                                                   .bytes = bytes});
}

static void message(psr_observed_kind kind, psr_message_type type, size_t floats, size_t bytes)
{
    psr_exchange_tally_see(
        &tally, &(psr_observed){.kind = kind, .type = type, .span = {0, floats}, .bytes = bytes});
}

static double exchange_s(void)
{
    psr_exchange_tally_take(&tally, 0, &figures);
    return figures.exchange_s;
}

static void bytes_are_those_since_the_last_call_and_of_gradients_apart(void **state)
{
    (void)state;
    message(PSR_OBSERVED_OUT, PSR_MSG_PUSH, 100, 200); /* in fp16 */
    message(PSR_OBSERVED_OUT, PSR_MSG_RING, 10, 40);
    message(PSR_OBSERVED_OUT, PSR_MSG_WEIGHTS, 100, 400);
    message(PSR_OBSERVED_OUT, PSR_MSG_METRICS, 0, 7);
    message(PSR_OBSERVED_IN, PSR_MSG_RING, 10, 41);
    message(PSR_OBSERVED_IN, PSR_MSG_START, 0, 0);
    psr_exchange_tally_take(&tally, 0, &figures);
    assert_int_equal(figures.bytes_sent, 647);
    assert_int_equal(figures.bytes_received, 41);
    assert_int_equal(figures.gradient_bytes, 240);
    assert_int_equal(figures.gradient_float32_bytes, 440);
    ring(6, 50, 100);
    psr_exchange_tally_see(&tally, &(psr_observed){.kind = PSR_OBSERVED_OUT, /* of an average */
                                                   .type = PSR_MSG_VALUES,
                                                   .bucket = PSR_OBSERVED_NO_BUCKET,
                                                   .bytes = 8});
    psr_exchange_tally_take(&tally, 0, &figures);
    assert_int_equal(figures.bytes_sent, 108);
    assert_int_equal(figures.gradient_bytes, 100);
    assert_int_equal(figures.gradient_float32_bytes, 200);
    /* The others are not its own. */
    assert_true(figures.wait_s == 1);
    assert_int_equal(figures.bytes_lent, 2);
    assert_int_equal(figures.staleness, 3);
    message(PSR_OBSERVED_OUT, PSR_MSG_PUSH, 1, 4);
    psr_exchange_tally_take(&tally, 0, &figures);
    assert_int_equal(figures.bytes_sent, 4);
    assert_int_equal(figures.bytes_received, 0);
    assert_int_equal(figures.gradient_bytes, 4);
    assert_int_equal(figures.gradient_float32_bytes, 4);
}

static void an_exchange_lasts_from_the_first_begin_to_the_last_landed_of_its_step(void **state)
{
    (void)state;
    assert_true(exchange_s() == 0);
    bucket(PSR_OBSERVED_BEGIN, 4, 1, 1000000000);
    bucket(PSR_OBSERVED_BEGIN, 4, 0, 1500000000);
    bucket(PSR_OBSERVED_LANDED, 4, 1, 2000000000);
    assert_true(exchange_s() == 0);
    bucket(PSR_OBSERVED_LANDED, 4, 0, 3000000000);
    assert_true(exchange_s() == 2);
    assert_true(exchange_s() == 2); /* until another one is complete */
}

static void two_steps_may_overlap(void **state)
{
    (void)state;
    bucket(PSR_OBSERVED_BEGIN, 0, 1, 1000000000);
    bucket(PSR_OBSERVED_BEGIN, 0, 0, 1000000000);
    bucket(PSR_OBSERVED_LANDED, 0, 1, 2000000000);
    bucket(PSR_OBSERVED_BEGIN, 1, 1, 4000000000);
    bucket(PSR_OBSERVED_LANDED, 1, 1, 5000000000);
    bucket(PSR_OBSERVED_LANDED, 0, 0, 6000000000);
    assert_true(exchange_s() == 5);
    bucket(PSR_OBSERVED_BEGIN, 1, 0, 7000000000);
    bucket(PSR_OBSERVED_LANDED, 1, 0, 8000000000);
    assert_true(exchange_s() == 4);
    bucket(PSR_OBSERVED_BEGIN, 2, 1, 9000000000);
    bucket(PSR_OBSERVED_BEGIN, 2, 0, 9000000000);
    bucket(PSR_OBSERVED_LANDED, 2, 1, 9500000000);
    bucket(PSR_OBSERVED_LANDED, 2, 0, 10000000000);
    assert_true(exchange_s() == 1);
}

/* Buckets are under way from 1 s to 4 s and from 6 s to 7 s. The compute thread waits from 3 s to 5
 * s: for 1 s of that nothing is under way. */
static void time_under_way_is_hidden_unless_the_compute_thread_waits(void **state)
{
    (void)state;
    bucket(PSR_OBSERVED_LANDED, 0, 0, 500000000); /* at the start, without having begun */
    bucket(PSR_OBSERVED_BEGIN, 1, 1, 1000000000);
    bucket(PSR_OBSERVED_BEGIN, 1, 0, 2000000000);
    bucket(PSR_OBSERVED_LANDED, 1, 1, 2500000000);
    const int64_t before_ns = psr_exchange_tally_busy_ns(&tally, 3000000000);
    assert_int_equal(before_ns, 2000000000);
    bucket(PSR_OBSERVED_LANDED, 1, 0, 4000000000);
    psr_exchange_tally_exposed(&tally, psr_exchange_tally_busy_ns(&tally, 5000000000) - before_ns);
    psr_exchange_tally_take(&tally, 5000000000, &figures);
    assert_true(figures.exposed_s == 1 && figures.hidden_s == 2);
    bucket(PSR_OBSERVED_BEGIN, 2, 1, 6000000000);
    psr_exchange_tally_take(&tally, 6500000000, &figures);
    assert_true(figures.exposed_s == 0 && figures.hidden_s == 0.5);
    bucket(PSR_OBSERVED_LANDED, 2, 1, 7000000000);
    psr_exchange_tally_take(&tally, 9000000000, &figures);
    assert_true(figures.exposed_s == 0 && figures.hidden_s == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_are_those_since_the_last_call_and_of_gradients_apart, set_up),
        cmocka_unit_test_setup(
            an_exchange_lasts_from_the_first_begin_to_the_last_landed_of_its_step, set_up),
        cmocka_unit_test_setup(two_steps_may_overlap, set_up),
        cmocka_unit_test_setup(time_under_way_is_hidden_unless_the_compute_thread_waits, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
