/* deploy/doctor/visit/measure.h, rounds.h */
#include "tests/unit/expect.h"

#include "deploy/doctor/visit/measure.h"
#include "deploy/doctor/visit/rounds.h"

#include <string.h>

#define MS 1000000ll

/* What is sent is answered one after the other: each message takes short_ns, each with a payload
 * large_ns more. */
typedef struct link {
    int64_t now_ns, short_ns, large_ns;
    size_t bytes[64]; /* of messages on the way */
    uint64_t first, count;
    size_t most;         /* that were on the way at once */
    uint64_t large_lost; /* messages with a payload never arrive */
} link;

static void send_all(psr_measure *m, link *l)
{
    uint64_t number = 0;
    size_t bytes = 0;
    while (psr_measure_next(m, l->now_ns, &number, &bytes)) {
        assert_int_equal(number, l->first + l->count);
        assert_true(l->count < 64);
        l->bytes[(l->first + l->count++) % 64] = bytes;
        l->most = l->count > l->most ? l->count : l->most;
    }
}

static void play(psr_measure *m, link *l)
{
    for (send_all(m, l); m->phase < PSR_MEASURE_DONE; send_all(m, l)) {
        size_t bytes = l->bytes[l->first % 64];
        if (l->count == 0 || (l->large_lost && bytes > 0)) {
            l->now_ns = m->end_ns;
            psr_measure_tick(m, l->now_ns);
            continue;
        }
        l->now_ns += l->short_ns + (bytes > 0 ? l->large_ns : 0);
        l->count--;
        assert_true(psr_measure_answered(m, l->first++, l->now_ns));
        psr_measure_tick(m, l->now_ns);
    }
}

static void a_link_is_measured(void **state)
{
    (void)state;
    psr_checkup_pair pair = {0};
    link l = {.now_ns = 5, .short_ns = 200000, .large_ns = 800000}; /* 1 MiB in 1 ms */
    psr_measure m = psr_measure_begin(l.now_ns, 100 * MS, 4000 * MS);
    play(&m, &l);
    psr_measure_result(&m, &pair);
    assert_true(pair.measured);
    assert_string_equal(pair.measure_failure, "");
    assert_int_equal(pair.round_trip_ns, 200000);
    assert_int_equal(l.most, PSR_PROBE_WINDOW);
    assert_true(pair.bytes_per_s > 1048 * 1000000ull && pair.bytes_per_s < 1049 * 1000000ull);
    assert_true(m.large >= 100 && m.large <= 100 + PSR_PROBE_WINDOW);
}

static void a_slow_link_has_carried_one_message(void **state)
{
    (void)state;
    psr_checkup_pair pair = {0};
    link l = {.short_ns = 20 * MS, .large_ns = 980 * MS};
    psr_measure m = psr_measure_begin(0, 100 * MS, 4000 * MS);
    play(&m, &l);
    psr_measure_result(&m, &pair);
    assert_true(pair.measured);
    assert_int_equal(m.large, 1);
    assert_int_equal(pair.bytes_per_s, 1 << 20);
    assert_int_equal(pair.round_trip_ns, 20 * MS);
}

static void the_round_trip_is_the_median(void **state)
{
    (void)state;
    psr_measure m = psr_measure_begin(0, 1, 4000 * MS);
    uint64_t number = 0;
    size_t bytes = 0;
    int64_t now_ns = 0;
    psr_checkup_pair pair = {0};
    for (int64_t i = -1; m.phase < PSR_MEASURE_DONE; i++) {
        if (!psr_measure_next(&m, now_ns, &number, &bytes))
            continue;
        now_ns += i == 7 ? 500 * MS : 1000 * (i + 2); /* one was held up */
        assert_true(psr_measure_answered(&m, number, now_ns));
    }
    psr_measure_result(&m, &pair);
    assert_true(pair.measured);
    assert_int_equal(pair.round_trip_ns, 22500); /* of 2, .. 8, 10, .. 41 and 500000 us */
}

static void what_is_not_answered_fails_by_its_time_and_says_what_did_come(void **state)
{
    (void)state;
    psr_checkup_pair pair = {0};
    psr_measure m = psr_measure_begin(0, 100 * MS, 4000 * MS);
    link l = {.short_ns = MS, .large_lost = true};
    play(&m, &l);
    psr_measure_result(&m, &pair);
    assert_false(pair.measured);
    assert_string_equal(pair.measure_failure,
                        "short messages are answered, but messages of 1 MiB are not in time");

    uint64_t number = 0;
    size_t bytes = 0;
    m = psr_measure_begin(0, 100 * MS, 4000 * MS);
    assert_true(psr_measure_next(&m, 0, &number, &bytes));
    assert_false(psr_measure_next(&m, 0, &number, &bytes));
    psr_measure_tick(&m, 4000 * MS - 1);
    assert_int_equal(m.phase, PSR_MEASURE_CONNECTING);
    psr_measure_tick(&m, 4000 * MS);
    assert_int_equal(m.phase, PSR_MEASURE_FAILED);
    assert_false(psr_measure_next(&m, 4000 * MS, &number, &bytes));
    psr_measure_result(&m, &pair);
    assert_string_equal(pair.measure_failure,
                        "a connection came about, but no message of psring's was answered in time");
}

static void answers_to_nothing_change_nothing(void **state)
{
    (void)state;
    uint64_t number = 0;
    size_t bytes = 0;
    psr_measure m = psr_measure_begin(0, 100 * MS, 4000 * MS);
    assert_false(psr_measure_answered(&m, 0, 1)); /* nothing was sent */
    assert_true(psr_measure_next(&m, 0, &number, &bytes));
    const psr_measure before = m;
    assert_false(psr_measure_answered(&m, 1, 1));
    assert_false(psr_measure_answered(&m, UINT64_MAX, 1));
    assert_memory_equal(&m, &before, sizeof m);
    assert_true(psr_measure_answered(&m, 0, 1));
    assert_false(psr_measure_answered(&m, 0, 2)); /* a second time */
}

static void each_two_hosts_meet_once(void **state)
{
    (void)state;
    enum { MOST = 40 };
    assert_int_equal(psr_rounds(0), 0);
    assert_int_equal(psr_rounds(1), 0);
    for (size_t hosts = 2; hosts <= MOST; hosts++) {
        unsigned met[MOST][MOST] = {{0}};
        assert_int_equal(psr_rounds(hosts), hosts % 2 ? hosts : hosts - 1);
        for (size_t round = 0; round < psr_rounds(hosts); round++)
            for (size_t i = 0; i < hosts; i++) {
                size_t other = psr_round_partner(hosts, round, i);
                if (other == SIZE_MAX)
                    continue;
                assert_true(other < hosts && other != i);
                assert_int_equal(psr_round_partner(hosts, round, other), i);
                met[i][other]++;
            }
        for (size_t i = 0; i < hosts; i++)
            for (size_t k = 0; k < hosts; k++)
                assert_int_equal(met[i][k], i != k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_measured),
        cmocka_unit_test(a_slow_link_has_carried_one_message),
        cmocka_unit_test(the_round_trip_is_the_median),
        cmocka_unit_test(what_is_not_answered_fails_by_its_time_and_says_what_did_come),
        cmocka_unit_test(answers_to_nothing_change_nothing),
        cmocka_unit_test(each_two_hosts_meet_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
