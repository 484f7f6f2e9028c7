/* Time is what these tests say it is. Deadline: 1000 ms, so a member is given up when it has been
 * silent for 625 ms; members report every 250 ms. */
#include "tests/unit/network_fixture.h"

#include "comm/members/liveness.h"

static char line[512];

typedef struct doing {
    psr_phase phase;
    uint64_t step;
    uint32_t bucket;
    uint64_t counter;
    const psr_peer *waits_for;
} doing;

static void report(psr_liveness *l, psr_peer peer, int64_t now_ms, doing d)
{
    psr_msg_progress says = {.phase = d.phase,
                             .step = d.step,
                             .bucket = d.bucket,
                             .counter = d.counter,
                             .waits = d.waits_for != NULL};
    if (d.waits_for)
        says.waits_for = *d.waits_for;
    psr_liveness_progress(l, peer, &says, now_ms);
}

static psr_liveness *watch(const psr_peer *peers, size_t count)
{
    psr_liveness *l;
    assert_ok(psr_liveness_new(1000, 0, &l));
    for (size_t i = 0; i < count; i++) {
        char host[32];
        snprintf(host, sizeof host, "host%zu", i);
        assert_ok(psr_liveness_add(l, peers[i], host, 0));
    }
    return l;
}

static void nobody_to_blame(psr_liveness *l, int64_t now_ms)
{
    psr_peer peer;
    if (psr_liveness_check(l, now_ms, &peer, line, sizeof line))
        fail_msg("at %lld: %s", (long long)now_ms, line);
}

static void blamed(psr_liveness *l, int64_t now_ms, psr_peer whom, const char *text)
{
    psr_peer peer = {PSR_ROLE_SCHEDULER, 77};
    assert_true(psr_liveness_check(l, now_ms, &peer, line, sizeof line));
    assert_string_equal(line, text);
    assert_true(psr_peer_equal(peer, whom));
}

static const psr_peer w0 = {PSR_ROLE_WORKER, 0}, w1 = {PSR_ROLE_WORKER, 1},
                      w2 = {PSR_ROLE_WORKER, 2}, w3 = {PSR_ROLE_WORKER, 3},
                      s0 = {PSR_ROLE_SHARD, 0}, s1 = {PSR_ROLE_SHARD, 1};

static void a_silence_is_told_within_three_quarters_of_the_deadline(void **state)
{
    (void)state;
    static const struct {
        int64_t deadline_ms, silence_ms;
    } cases[] = {{400, 250}, {1000, 625}, {4000, 2500}, {8000, 5500}, {60000, 44500}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(psr_liveness_silence_ms(cases[i].deadline_ms), cases[i].silence_ms);
}

static void a_member_that_falls_silent_is_named_with_where_it_was_and_who_waits(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, s0}, 3);
    for (int64_t now = 0; now < 1375; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_PULL, 11, 4, 5, &s0});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 11, 4, (uint64_t)now, &w1});
        if (now <= 750)
            report(l, w1, now, (doing){PSR_PHASE_BACKWARD, 11, 3, (uint64_t)now, NULL});
        nobody_to_blame(l, now);
    }
    blamed(l, 1375, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in step 12, backward, bucket 3; "
           "shard 0 waits for it in step 12, push, bucket 4");
    psr_liveness_free(l);
}

static void one_that_never_reported_was_in_its_start(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    nobody_to_blame(l, 0);
    nobody_to_blame(l, 500);
    report(l, w0, 600, (doing){PSR_PHASE_BARRIER, 0, 0, 1, &w1});
    nobody_to_blame(l, 624);
    blamed(l, 625, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in start; worker 0 waits for it in "
           "step 1, barrier");
    psr_liveness_free(l);
}

static void any_message_is_a_sign_of_life(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    for (int64_t now = 0; now <= 10000; now += 250) {
        psr_liveness_heard(l, w0, now);
        report(l, w0, now, (doing){PSR_PHASE_PULL, 0, 0, 1, &w1});
        report(l, w1, now, (doing){PSR_PHASE_FORWARD, 0, 0, (uint64_t)now, NULL});
        nobody_to_blame(l, now);
    }
    psr_liveness_heard(l, (psr_peer){PSR_ROLE_WORKER, 9}, 10000); /* not watched: no matter */
    psr_liveness_free(l);
}

static void a_member_that_reports_and_does_nothing_is_named(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, w2, s0, s1}, 5);
    for (int64_t now = 0; now <= 1250; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_PULL, 7, 2, 5, &s0});
        report(l, w1, now, (doing){PSR_PHASE_FORWARD, 7, 2, now < 250 ? 1 : 2, NULL});
        report(l, w2, now, (doing){PSR_PHASE_PULL, 7, 2, 5, &s1});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 7, 2, 9, &w1});
        report(l, s1, now, (doing){PSR_PHASE_PUSH, 7, 2, 9, &w1});
        if (now < 1250)
            nobody_to_blame(l, now);
    }
    blamed(l, 1250, w1,
           "worker 1 on host1: alive, but no progress for 1.0 s in step 8, forward, bucket 2; "
           "shards 0, 1 wait for it in step 8, push, bucket 2");
    psr_liveness_free(l);
}

/* What else it says (metrics, a checkpoint's pieces) may be newer than its last report. */
static void one_that_falls_silent_behind_its_last_report_is_silent_and_not_alive(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    report(l, w1, 0, (doing){PSR_PHASE_FORWARD, 0, 0, 1, NULL});
    psr_liveness_heard(l, w1, 200);
    for (int64_t now = 0; now < 825; now += 100) {
        report(l, w0, now, (doing){PSR_PHASE_BARRIER, 3, 0, 1, &w1});
        nobody_to_blame(l, now);
    }
    blamed(l, 825, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in step 1, forward, bucket 0; "
           "worker 0 waits for it in step 4, barrier");
    psr_liveness_free(l);
}

static void waiters_at_different_places_are_told_by_the_one_furthest_behind(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, w2, s0}, 4);
    for (int64_t now = 0; now < 625; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_PULL, 5, 2, 5, &s0});
        report(l, w1, now, (doing){PSR_PHASE_PULL, 4, 1, 5, &s0});
        report(l, w2, now, (doing){PSR_PHASE_PULL, 5, 1, 5, &s0});
        nobody_to_blame(l, now);
    }
    blamed(l, 625, s0,
           "shard 0 on host3: no sign of life for 0.6 s; last in start; workers 0-2 wait for it, "
           "the one furthest behind in step 5, pull, bucket 1");
    psr_liveness_free(l);
}

/* As before all have joined, when it waits itself for those who have not, or while a checkpoint is
 * written. */
static void
who_waits_for_the_scheduler_while_it_works_is_not_to_blame_nor_who_waits_for_that_one(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, s0}, 2);
    for (int64_t now = 0; now <= 6000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_CHECKPOINT, 5, 0, 7, &scheduler});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 6, 0, 9, &w0});
        if (now <= 5000)
            psr_liveness_scheduler_works(l, now);
        if (now < 6000)
            nobody_to_blame(l, now);
    }
    blamed(l, 6000, w0,
           "worker 0 on host0: everybody has waited for 1.0 s, it for the scheduler in step 6, "
           "checkpoint; shard 0 waits for it in step 7, push, bucket 0");
    psr_liveness_free(l);
}

static void a_slow_member_that_moves_is_not_to_blame_and_neither_is_who_waits_for_it(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, s0}, 3);
    psr_peer slow;
    int64_t waited_ms;
    for (int64_t now = 0; now <= 20000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_PULL, 7, 2, 5, &s0});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 7, 2, 9, &w1});
        report(l, w1, now, (doing){PSR_PHASE_BACKWARD, 7, 2, (uint64_t)now / 900, NULL});
        nobody_to_blame(l, now);
        assert_int_equal(psr_liveness_slowest(l, now, 3000, &slow, &waited_ms), now > 3000);
    }
    assert_true(psr_peer_equal(slow, w1)); /* not shard 0, which waits too */
    assert_int_equal(waited_ms, 20000);
    psr_liveness_free(l);
}

static void nobody_is_slow_for_shards_while_workers_evaluate(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, s0}, 3);
    psr_peer slow;
    int64_t waited_ms;
    for (int64_t now = 0; now <= 20000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_EVALUATION, 7, 0, (uint64_t)now, NULL});
        report(l, w1, now, (doing){PSR_PHASE_EVALUATION, 7, 0, (uint64_t)now, NULL});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 8, 0, 5, &w0});
        assert_false(psr_liveness_slowest(l, now, 1000, &slow, &waited_ms));
    }
    /* Of one whose share takes longer the others say so. */
    for (int64_t now = 20250; now <= 25000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_EVALUATION, 7, 0, (uint64_t)now, NULL});
        report(l, w1, now, (doing){PSR_PHASE_BARRIER, 7, 0, 99999, &w0});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 8, 0, 5, &w0});
    }
    assert_true(psr_liveness_slowest(l, 25000, 1000, &slow, &waited_ms));
    assert_true(psr_peer_equal(slow, w0));
    assert_int_equal(waited_ms, 4750);
    psr_liveness_free(l);
}

static void waiting_for_one_thing_after_another_is_progress(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    psr_peer slow;
    int64_t waited_ms;
    for (int64_t now = 0; now <= 5000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_RING, 7, (uint32_t)(now / 750), 5, &w1});
        report(l, w1, now, (doing){PSR_PHASE_RING, 7, (uint32_t)(now / 750), 5, &w0});
        nobody_to_blame(l, now);
        assert_false(psr_liveness_slowest(l, now, 1000, &slow, &waited_ms));
    }
    psr_liveness_free(l);
}

static void when_all_wait_the_one_at_which_the_waiting_ends_is_named(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, s0, s1}, 4);
    for (int64_t now = 0; now <= 1000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_PULL, 3, 1, 5, &s0});
        report(l, w1, now, (doing){PSR_PHASE_PULL, 3, 1, 5, &s1});
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 3, 1, 5, &w1});
        report(l, s1, now, (doing){PSR_PHASE_PUSH, 3, 0, 5, &scheduler});
        if (now < 1000)
            nobody_to_blame(l, now);
    }
    blamed(l, 1000, s1,
           "shard 1 on host3: everybody has waited for 1.0 s, it for the scheduler in step 4, "
           "push, bucket 0; worker 1 waits for it in step 4, pull, bucket 1");
    psr_liveness_free(l);
}

static void in_a_circle_the_one_furthest_behind_is_named(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, w2, w3}, 4);
    for (int64_t now = 0; now <= 1000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_RING, 8, 1, 5, &w3});
        report(l, w1, now, (doing){PSR_PHASE_RING, 8, 1, 5, &w0});
        report(l, w2, now, (doing){PSR_PHASE_RING, 7, 0, 5, &w1});
        report(l, w3, now, (doing){PSR_PHASE_RING, 8, 1, 5, &w2});
    }
    blamed(l, 1000, w2,
           "worker 2 on host2: everybody has waited for 1.0 s, it for worker 1 in step 8, ring, "
           "bucket 0; worker 3 waits for it in step 9, ring, bucket 1");
    psr_liveness_free(l);
}

static void while_one_moves_nobody_is_stuck(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, w2}, 3);
    for (int64_t now = 0; now <= 5000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w1});
        report(l, w1, now, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w2});
        report(l, w2, now, (doing){PSR_PHASE_EVALUATION, 8, 0, (uint64_t)now, NULL});
        nobody_to_blame(l, now);
    }
    psr_liveness_free(l);
}

static void one_that_is_done_holds_nobody_up_and_is_not_hung(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    report(l, w0, 0, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w1});
    psr_liveness_done(l, w1);
    psr_liveness_done(l, w1);
    for (int64_t now = 250; now < 1000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w1});
        psr_liveness_heard(l, w1, now);
        nobody_to_blame(l, now);
    }
    report(l, w0, 1000, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w1});
    blamed(l, 1000, w0,
           "worker 0 on host0: everybody has waited for 1.0 s, it for worker 1 in step 9, barrier; "
           "worker 1: done");
    psr_liveness_done(l, w0);
    for (int64_t now = 1250; now <= 100000; now += 250) { /* a long evaluation elsewhere, say */
        psr_liveness_heard(l, w0, now);
        psr_liveness_heard(l, w1, now);
        nobody_to_blame(l, now);
        assert_true(psr_liveness_next(l) <= now + 250);
    }
    psr_liveness_free(l);
}

/* A shard that owns nothing is done from the first step on: stopped, nobody else would miss it. */
static void one_that_is_done_and_falls_silent_is_named(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){s0, s1, w0}, 3);
    report(l, s1, 0, (doing){PSR_PHASE_SHUTDOWN, 0, 0, 1, NULL});
    psr_liveness_done(l, s1);
    for (int64_t now = 250; now <= 1250; now += 250) {
        report(l, s0, now, (doing){PSR_PHASE_PUSH, 8, 2, 5, &w0});
        report(l, w0, now, (doing){PSR_PHASE_BACKWARD, 8, 2, (uint64_t)now, NULL});
        if (now <= 500)
            psr_liveness_heard(l, s1, now);
        if (now < 1125)
            nobody_to_blame(l, now);
        else
            blamed(l, now, s1,
                   "shard 1 on host1: no sign of life for 0.8 s; it was done; shard 0: step 9, "
                   "push, bucket 2, waiting for worker 0; worker 0: step 9, backward, bucket 2");
    }
    psr_liveness_free(l);
}

static void who_waited_long_for_one_that_is_done_now_has_time_to_tell(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    for (int64_t now = 0; now <= 5000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_BARRIER, 8, 0, 5, &w1});
        report(l, w1, now, (doing){PSR_PHASE_BACKWARD, 8, 0, (uint64_t)now, NULL});
        nobody_to_blame(l, now);
    }
    psr_liveness_done(l, w1);
    nobody_to_blame(l, 5100);
    nobody_to_blame(l, 5500);
    blamed(l, 5625, w0,
           "worker 0 on host0: no sign of life for 0.6 s; last in step 9, barrier, waiting for "
           "worker 1; worker 1: done");
    psr_liveness_free(l);
}

static void one_that_falls_silent_while_it_waits_is_silent_and_not_stuck(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    report(l, w1, 0, (doing){PSR_PHASE_PULL, 8, 0, 5, &w0});
    psr_liveness_done(l, w0);
    psr_liveness_heard(l, w1, 200);
    for (int64_t now = 0; now < 825; now += 100) {
        psr_liveness_heard(l, w0, now);
        nobody_to_blame(l, now);
    }
    blamed(l, 825, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in step 9, pull, bucket 0, waiting "
           "for worker 0; worker 0: done");
    psr_liveness_free(l);
}

static void in_its_start_and_first_step_a_member_has_five_seconds(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    for (int64_t now = 0; now <= 5000; now += 250) {
        report(l, w0, now, (doing){PSR_PHASE_START, 0, 0, 1, NULL});
        report(l, w1, now, (doing){PSR_PHASE_FORWARD, 0, 0, now < 250 ? 1 : 2, NULL});
        if (now < 5000)
            nobody_to_blame(l, now);
    }
    blamed(l, 5000, w0,
           "worker 0 on host0: alive, but no progress for 5.0 s in start; worker 1: step 1, "
           "forward, bucket 0");
    psr_liveness_done(l, w0);
    nobody_to_blame(l, 5200);
    report(l, w1, 5250, (doing){PSR_PHASE_FORWARD, 0, 0, 2, NULL});
    blamed(l, 5250, w1,
           "worker 1 on host1: alive, but no progress for 5.0 s in step 1, forward, bucket 0; "
           "worker 0: done");
    psr_liveness_free(l);
}

static void the_callers_own_absence_is_held_against_nobody(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    report(l, w0, 0, (doing){PSR_PHASE_FORWARD, 8, 0, 5, NULL});
    report(l, w1, 0, (doing){PSR_PHASE_FORWARD, 8, 0, 5, NULL});
    nobody_to_blame(l, 100);
    nobody_to_blame(l, 50000); /* stopped meanwhile */
    report(l, w0, 50100, (doing){PSR_PHASE_FORWARD, 8, 0, 6, NULL});
    for (int64_t now = 50250; now <= 50500; now += 250)
        nobody_to_blame(l, now);
    report(l, w0, 50510, (doing){PSR_PHASE_FORWARD, 8, 0, 7, NULL});
    blamed(l, 50525, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in step 9, forward, bucket 0; "
           "worker 0: step 9, forward, bucket 0");
    psr_liveness_free(l);
}

static void the_next_check_is_when_somebody_could_be_to_blame_and_often_enough(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    assert_int_equal(psr_liveness_next(l), 250); /* or an absence could not be told from silence */
    for (int64_t now = 0; (now = psr_liveness_next(l)) < 625;) {
        report(l, w0, now, (doing){PSR_PHASE_BARRIER, 1, 0, 1, &w1});
        nobody_to_blame(l, now);
    }
    assert_int_equal(psr_liveness_next(l), 625);
    blamed(l, 625, w1,
           "worker 1 on host1: no sign of life for 0.6 s; last in start; worker 0 waits for it in "
           "step 2, barrier");
    psr_liveness_free(l);
}

static void a_description_tells_those_that_do_the_same_in_one_breath(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){s0, w3, w0, w1, w2, s1}, 6);
    psr_liveness_describe(l, NULL, line, sizeof line);
    assert_string_equal(line, "shards 0, 1: start; workers 0-3: start");
    report(l, w0, 0, (doing){PSR_PHASE_PULL, 12, 3, 1, &s1});
    report(l, w2, 0, (doing){PSR_PHASE_PULL, 12, 3, 2, &s1});
    report(l, w3, 0, (doing){PSR_PHASE_PULL, 12, 3, 3, &s1});
    report(l, w1, 0, (doing){PSR_PHASE_BACKWARD, 12, 3, 1, NULL});
    report(l, s0, 0, (doing){PSR_PHASE_PUSH, 12, 0, 1, &w1});
    report(l, s1, 0, (doing){PSR_PHASE_CHECKPOINT, 12, 0, 1, NULL});
    psr_liveness_describe(l, &w1, line, sizeof line);
    assert_string_equal(
        line, "shard 0: step 13, push, bucket 0, waiting for worker 1; workers 0, 2, 3: step 13, "
              "pull, bucket 3, waiting for shard 1; shard 1: step 13, checkpoint");
    psr_liveness_done(l, s0);
    psr_liveness_done(l, s1);
    report(l, w0, 0, (doing){PSR_PHASE_RING, 12, 3, 1, &w3});
    report(l, w1, 0, (doing){PSR_PHASE_RING, 12, 3, 1, &w0});
    report(l, w2, 0, (doing){PSR_PHASE_RING, 12, 3, 2, &w1});
    report(l, w3, 0, (doing){PSR_PHASE_RING, 12, UINT32_MAX, 3, &w2});
    psr_liveness_describe(l, NULL, line, sizeof line);
    assert_string_equal(line, "shards 0, 1: done; worker 3: step 13, ring, waiting for worker 2; "
                              "workers 0-2: step 13, ring, bucket 3");
    psr_liveness_free(l);
}

static void a_line_that_is_too_short_ends_early_and_whole(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1, s0}, 3);
    report(l, w0, 0, (doing){PSR_PHASE_PULL, 12, 3, 1, &w1});
    report(l, s0, 0, (doing){PSR_PHASE_PUSH, 12, 3, 1, &w1});
    nobody_to_blame(l, 0);
    for (size_t size = 1; size < 200; size++) {
        char *small = malloc(size);
        psr_liveness_describe(l, NULL, small, size);
        assert_true(strlen(small) < size);
        psr_peer peer;
        nobody_to_blame(l, 0);
        nobody_to_blame(l, 400);
        report(l, w0, 600, (doing){PSR_PHASE_PULL, 12, 3, 1, &w1});
        report(l, s0, 600, (doing){PSR_PHASE_PUSH, 12, 3, 1, &w1});
        assert_true(psr_liveness_check(l, 625, &peer, small, size));
        assert_true(strlen(small) < size);
        free(small);
        psr_liveness_free(l);
        l = watch((psr_peer[]){w0, w1, s0}, 3);
    }
    psr_liveness_free(l);
    psr_liveness_free(NULL);
}

static void a_nonsensical_report_does_no_harm(void **state)
{
    (void)state;
    psr_liveness *l = watch((psr_peer[]){w0, w1}, 2);
    /* waits for itself */
    report(l, w0, 0, (doing){(psr_phase)UINT32_MAX, UINT64_MAX, UINT32_MAX, UINT64_MAX, &w0});
    psr_msg_progress nobody = {.waits = true, .waits_for = {(psr_role)77, UINT32_MAX}};
    psr_liveness_progress(l, w1, &nobody, 0);
    psr_liveness_progress(l, (psr_peer){PSR_ROLE_SHARD, 5}, &nobody, 0);
    nobody_to_blame(l, 0);
    psr_liveness_describe(l, NULL, line, sizeof line);
    assert_non_null(strstr(line, "worker 0: step 0, ?"));
    psr_peer slow;
    int64_t waited_ms;
    assert_false(psr_liveness_slowest(l, 900, 0, &slow, &waited_ms));
    psr_liveness_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silence_is_told_within_three_quarters_of_the_deadline),
        cmocka_unit_test(a_member_that_falls_silent_is_named_with_where_it_was_and_who_waits),
        cmocka_unit_test(one_that_never_reported_was_in_its_start),
        cmocka_unit_test(any_message_is_a_sign_of_life),
        cmocka_unit_test(a_member_that_reports_and_does_nothing_is_named),
        cmocka_unit_test(one_that_falls_silent_behind_its_last_report_is_silent_and_not_alive),
        cmocka_unit_test(waiters_at_different_places_are_told_by_the_one_furthest_behind),
        cmocka_unit_test(
            who_waits_for_the_scheduler_while_it_works_is_not_to_blame_nor_who_waits_for_that_one),
        cmocka_unit_test(a_slow_member_that_moves_is_not_to_blame_and_neither_is_who_waits_for_it),
        cmocka_unit_test(nobody_is_slow_for_shards_while_workers_evaluate),
        cmocka_unit_test(waiting_for_one_thing_after_another_is_progress),
        cmocka_unit_test(when_all_wait_the_one_at_which_the_waiting_ends_is_named),
        cmocka_unit_test(in_a_circle_the_one_furthest_behind_is_named),
        cmocka_unit_test(while_one_moves_nobody_is_stuck),
        cmocka_unit_test(one_that_is_done_holds_nobody_up_and_is_not_hung),
        cmocka_unit_test(one_that_is_done_and_falls_silent_is_named),
        cmocka_unit_test(who_waited_long_for_one_that_is_done_now_has_time_to_tell),
        cmocka_unit_test(one_that_falls_silent_while_it_waits_is_silent_and_not_stuck),
        cmocka_unit_test(in_its_start_and_first_step_a_member_has_five_seconds),
        cmocka_unit_test(the_callers_own_absence_is_held_against_nobody),
        cmocka_unit_test(the_next_check_is_when_somebody_could_be_to_blame_and_often_enough),
        cmocka_unit_test(a_description_tells_those_that_do_the_same_in_one_breath),
        cmocka_unit_test(a_line_that_is_too_short_ends_early_and_whole),
        cmocka_unit_test(a_nonsensical_report_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
