/* Starts that wait for their fences. The fences are played: a test says when one passes or
 * fails. */
#include "tests/unit/expect.h"
#include "tests/unit/played_fence.h"

#include "comm/operations/fences.h"

#include <sched.h>
#include <stdatomic.h>

enum { SLOTS = 3, NOT_STARTED = 99 };

static played_fence played[SLOTS];
static psr_fences *fences;
static uint64_t started[SLOTS]; /* rounds */
static _Atomic unsigned woken;

static psr_err start(void *context, uint32_t slot, uint64_t round)
{
    assert_ptr_equal(context, &started);
    started[slot] = round;
    return PSR_OK;
}

static void wake(void *context)
{
    (void)context;
    atomic_fetch_add(&woken, 1);
}

static int set_up(void **state)
{
    (void)state;
    const psr_fences_options options = {
        .slots = SLOTS, .context = &started, .start = start, .wake = wake};
    for (uint32_t i = 0; i < SLOTS; i++) {
        played_fence_init(&played[i]);
        started[i] = NOT_STARTED;
    }
    atomic_store(&woken, 0);
    expect_ok(psr_fences_new(&options, &fences));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_fences_free(fences);
    return 0;
}

static void without_a_fence_a_start_is_at_once(void **state)
{
    (void)state;
    uint64_t round;
    uint32_t slot;
    expect_ok(psr_fences_start(fences, 1, 7, NULL));
    assert_int_equal(started[1], 7);
    assert_false(psr_fences_waits(fences, &round, &slot));
    assert_int_equal(atomic_load(&woken), 0);
}

static void a_fence_that_has_passed_is_not_waited_for(void **state)
{
    (void)state;
    played_fence_pass(&played[0]);
    expect_ok(psr_fences_start(fences, 0, 3, &played[0].fence));
    assert_int_equal(started[0], 3);
    assert_int_equal(atomic_load(&woken), 0);
}

static void a_start_waits_for_its_fence_and_for_no_other(void **state)
{
    (void)state;
    expect_ok(psr_fences_start(fences, 0, 4, &played[0].fence));
    expect_ok(psr_fences_start(fences, 2, 4, &played[2].fence));
    expect_ok(psr_fences_look(fences)); /* in vain */
    assert_int_equal(started[0], NOT_STARTED);
    assert_int_equal(started[2], NOT_STARTED);
    played_fence_pass(&played[2]);
    assert_int_equal(atomic_load(&woken), 1);
    assert_int_equal(started[2], NOT_STARTED); /* it starts on its owner's thread */
    expect_ok(psr_fences_look(fences));
    assert_int_equal(started[0], NOT_STARTED);
    assert_int_equal(started[2], 4);
    played_fence_pass(&played[0]);
    expect_ok(psr_fences_look(fences));
    assert_int_equal(started[0], 4);
    assert_int_equal(atomic_load(&woken), 2);
}

static void a_slot_waits_again_in_its_next_round(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 5; round++) {
        played_fence_init(&played[1]);
        expect_ok(psr_fences_start(fences, 1, round, &played[1].fence));
        assert_true(started[1] != round);
        played_fence_pass(&played[1]);
        expect_ok(psr_fences_look(fences));
        assert_int_equal(started[1], round);
    }
}

static void the_oldest_start_that_waits_is_named(void **state)
{
    (void)state;
    uint64_t round = 0;
    uint32_t slot = 0;
    expect_ok(psr_fences_start(fences, 0, 6, &played[0].fence));
    expect_ok(psr_fences_start(fences, 1, 5, &played[1].fence));
    expect_ok(psr_fences_start(fences, 2, 5, &played[2].fence));
    assert_true(psr_fences_waits(fences, &round, &slot));
    assert_int_equal(round, 5);
    assert_int_equal(slot, 1);
    for (uint32_t i = 0; i < SLOTS; i++)
        played_fence_pass(&played[i]);
    expect_ok(psr_fences_look(fences));
    assert_false(psr_fences_waits(fences, &round, &slot));
}

static void a_device_that_fails_fails_the_start(void **state)
{
    (void)state;
    expect_ok(psr_fences_start(fences, 0, 1, &played[0].fence));
    played_fence_fail(&played[0]);
    assert_int_equal(atomic_load(&woken), 1);
    expect_failure(psr_fences_look(fences), PSR_ERR_COMPUTE, "the device is gone");
    played_fence_fail(&played[1]);
    expect_failure(psr_fences_start(fences, 1, 1, &played[1].fence), PSR_ERR_COMPUTE,
                   "the device is gone");
    assert_int_equal(started[0], NOT_STARTED);
    assert_int_equal(started[1], NOT_STARTED);
}

static void a_fence_that_passes_after_the_end_is_heard_by_nobody(void **state)
{
    (void)state;
    expect_ok(psr_fences_start(fences, 0, 1, &played[0].fence));
    expect_ok(psr_fences_start(fences, 1, 1, &played[1].fence));
    psr_fences_stop(fences);
    played_fence_pass(&played[0]);
    psr_fences_free(fences);
    played_fence_pass(&played[1]);
    assert_int_equal(atomic_load(&woken), 0);
    set_up(state);
}

enum { ROUNDS = 20000 };

static played_fence many[ROUNDS + 1];
static _Atomic uint64_t ordered; /* rounds that wait, or are about to */

static void *pass_them(void *unused)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&ordered) < round)
            sched_yield();
        played_fence_pass(&many[round]);
    }
    return unused;
}

/* The device passes a fence while its owner asks to be told of it: no start is lost. */
static void a_fence_that_passes_meanwhile_is_not_missed(void **state)
{
    (void)state;
    pthread_t device;
    for (uint64_t round = 1; round <= ROUNDS; round++)
        played_fence_init(&many[round]);
    assert_int_equal(pthread_create(&device, NULL, pass_them, NULL), 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        unsigned before = atomic_load(&woken);
        atomic_store(&ordered, round);
        expect_ok(psr_fences_start(fences, 0, round, &many[round].fence));
        while (started[0] != round) {
            while (atomic_load(&woken) == before) /* it must come */
                sched_yield();
            expect_ok(psr_fences_look(fences));
        }
    }
    pthread_join(device, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(without_a_fence_a_start_is_at_once),
        TEST(a_fence_that_has_passed_is_not_waited_for),
        TEST(a_start_waits_for_its_fence_and_for_no_other),
        TEST(a_slot_waits_again_in_its_next_round),
        TEST(the_oldest_start_that_waits_is_named),
        TEST(a_device_that_fails_fails_the_start),
        TEST(a_fence_that_passes_after_the_end_is_heard_by_nobody),
        TEST(a_fence_that_passes_meanwhile_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
