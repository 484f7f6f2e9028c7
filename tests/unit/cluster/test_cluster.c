/* Runs from one seed each, in virtual time: of any size, in any order of what happens, and with any
 * process killed, stopped or hung at any time. They end with the reference's bits, or within the
 * deadline with a line that names the culprit. */
#include "tests/unit/cluster/cluster_reference.h"
#include "tests/unit/seeds.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    STEPS = 3,
    /* of each kind of fault; and how many times as many with the word all */
    SCHEDULES = 30,
    ALL = 5,
    DEADLINE_S = 6, /* more than a first step is given in any case */
    SILENCE_S = 4   /* psr_liveness_silence_ms */
};

static uint64_t schedules = SCHEDULES;

#define SECOND_US ((int64_t)1000000)
#define SLACK_US (SECOND_US / 2)                    /* reports and the longest delays */
#define SILENCE_US (DEADLINE_S * SECOND_US * 3 / 4) /* until all know of a process's silence */
/* A process that has no CONFIG yet waits by the default deadline for one. */
#define FIRST_DEADLINE_US (30 * SECOND_US)

/* One run to play: sizes, mode and rule of a seed, and what it must come to. */
typedef struct play {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    float *reference;
    cluster_options options;
    uint64_t draws;
} play;

static uint32_t draw(play *p, uint32_t below)
{
    psr_rng_at at = {.seed = p->options.seed, .purpose = PSR_RNG_TEST, .layer = 10};
    return psr_rng_below(at, &p->draws, below);
}

static float *compressed_reference(play *p)
{
    static const char *const compressions[] = {"fp16", "bf16", "int8", "topk:0.1", "1bit"};
    float *residuals[5];
    strcpy(p->config.compress, compressions[draw(p, 5)]);
    for (uint32_t r = 0; r < p->config.workers; r++) {
        residuals[r] = calloc(p->layout.length, sizeof *residuals[r]);
        if (p->options.first_step > 0)
            cluster_initial_residual(&p->layout, r, residuals[r]);
    }
    float *reference = reference_run_compressed(&p->config, &p->layout, &p->buckets,
                                                p->options.first_step, STEPS, residuals);
    for (uint32_t r = 0; r < p->config.workers; r++)
        free(residuals[r]);
    return reference;
}

static void set_up_play(play *p, uint64_t seed)
{
    *p = (play){.options = {.seed = seed}};
    p->config = reference_config(&reference_rules[draw(p, REFERENCE_RULES)], 1 + draw(p, 5));
    p->config.mode = draw(p, 3) == 0 ? PSR_MODE_RING : PSR_MODE_PS;
    p->config.shards = 1 + draw(p, 3);
    p->config.window = 1 + draw(p, 4);
    p->config.checkpoint_every = (psr_duration){.steps = draw(p, 3)};
    p->config.deadline_s = DEADLINE_S;
    reference_layout(&p->layout);
    assert_int_equal(psr_buckets_plan(&p->layout, 256u << draw(p, 4), &p->buckets), PSR_OK);
    p->options = (cluster_options){.config = &p->config,
                                   .layout = &p->layout,
                                   .buckets = &p->buckets,
                                   .steps = STEPS,
                                   .first_step = draw(p, 4) == 0 ? 2 : 0,
                                   .seed = seed,
                                   .duplicate_permille = draw(p, 3) == 0 ? 100 : 0,
                                   .slow_worker = draw(p, 4),
                                   .shares = draw(p, 2) == 0 ? draw(p, 64) : 0,
                                   .stop_at = UINT64_MAX};
    p->reference = draw(p, 2) == 0
                       ? compressed_reference(p)
                       : reference_run(&p->config, &p->layout, &p->buckets, p->options.first_step,
                                       STEPS, REFERENCE_FOLD, NULL);
}

static void tear_down_play(play *p)
{
    free(p->reference);
    psr_buckets_done(&p->buckets);
    psr_layout_done(&p->layout);
}

/* At any time of the run, whose length is measured without a fault. */
static void plan_fault(play *p, cluster_fault_kind kind, psr_peer who)
{
    cluster *c = cluster_run(&p->options);
    uint32_t length_us = (uint32_t)cluster_ended_us(c);
    cluster_free(c);
    p->options.fault = (cluster_fault){.kind = kind, .who = who, .at_us = draw(p, length_us)};
}

static psr_peer any_worker(play *p)
{
    return (psr_peer){PSR_ROLE_WORKER, draw(p, p->config.workers)};
}

static psr_peer any_member(play *p)
{
    if (p->config.mode == PSR_MODE_PS && draw(p, 3) == 0)
        return (psr_peer){PSR_ROLE_SHARD, draw(p, p->config.shards)};
    return any_worker(p);
}

/* ---- what must come of it ---- */

static void refuse(const play *p, const char *why, const char *line)
{
    const cluster_fault *f = &p->options.fault;
    fail_msg("seed %llu, fault %d of %s %u at %lld us: %s: %s", (unsigned long long)p->options.seed,
             (int)f->kind, psr_role_name(f->who.role), (unsigned)f->who.rank, (long long)f->at_us,
             why, line);
}

static bool begins_with(const char *line, const char *text)
{
    return strncmp(line, text, strlen(text)) == 0;
}

/* The members other than the culprit have ended in order, or know what the scheduler knows. */
static void check_others(const play *p, const cluster *c, const char *line)
{
    uint32_t shards = p->config.mode == PSR_MODE_PS ? p->config.shards : 0;
    for (uint32_t i = 0; i < p->config.workers + shards; i++) {
        psr_peer peer = i < p->config.workers ? (psr_peer){PSR_ROLE_WORKER, i}
                                              : (psr_peer){PSR_ROLE_SHARD, i - p->config.workers};
        const char *said = NULL;
        psr_err status = cluster_status_of(c, peer, &said);
        if (psr_peer_equal(peer, p->options.fault.who) || status == PSR_OK)
            continue;
        /* Who came when it was over finds nobody there. */
        bool late = cluster_joined_us(c) == INT64_MAX && begins_with(said, "the scheduler at ");
        if (status != PSR_ERR_PEER || (strstr(said, line) == NULL && !late))
            refuse(p, "a member ends otherwise", said);
    }
}

/* It is named, within the deadline; or it had done all it had to do. */
static void check_named(const play *p, const cluster *c, const char *how, int64_t within_us)
{
    const cluster_fault *f = &p->options.fault;
    const char *line = NULL;
    char name[32];
    psr_err status = cluster_status(c, &line);
    if (status == PSR_OK) {
        if (cluster_struck_us(c) != INT64_MAX)
            refuse(p, "it ends well", line);
        return;
    }
    snprintf(name, sizeof name, "%s %u", psr_role_name(f->who.role), (unsigned)f->who.rank);
    bool never_came = strstr(line, " never came up") != NULL;
    if (!begins_with(line, name) || (strstr(line, how) == NULL && !never_came))
        refuse(p, "another line", line);
    int64_t since_us = f->at_us;
    if (f->kind == CLUSTER_HUNG || f->kind == CLUSTER_DEVICE_STUCK)
        since_us = cluster_struck_us(c);
    if (never_came && since_us < SECOND_US) /* it counts from the last one that came */
        since_us = SECOND_US;
    if (never_came)
        within_us = DEADLINE_S * SECOND_US;
    if (cluster_decided_us(c) > since_us + within_us + SLACK_US)
        refuse(p, "it took too long", line);
    int64_t all_us = cluster_joined_us(c) == INT64_MAX ? FIRST_DEADLINE_US + SECOND_US : SLACK_US;
    if (f->kind != CLUSTER_STOPPED && cluster_ended_us(c) > cluster_decided_us(c) + all_us)
        refuse(p, "some member took too long", line);
    check_others(p, c, line);
}

/* As check_named, of a process that is silent from then on: all others have ended by then. */
static void check_silence(const play *p, const cluster *c)
{
    const char *line = NULL;
    check_named(p, c, ": no sign of life for 4.", SILENCE_US - SLACK_US);
    if (cluster_status(c, &line) != PSR_OK && cluster_joined_us(c) != INT64_MAX &&
        p->options.fault.kind != CLUSTER_STOPPED &&
        cluster_ended_us(c) > p->options.fault.at_us + SILENCE_US)
        refuse(p, "some member heard of it too late", line);
}

/* ---- tests ---- */

static void runs_of_any_size_end_with_the_bits_of_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2 * schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        reference_check(&p.options, p.reference);
        tear_down_play(&p);
    }
}

static void a_stop_that_is_shorter_than_a_silence_may_be_changes_no_bit(void **state)
{
    (void)state;
    for (uint64_t seed = 1000; seed < 1000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        psr_peer who = draw(&p, 4) == 0 ? (psr_peer){PSR_ROLE_SCHEDULER, 0} : any_member(&p);
        plan_fault(&p, CLUSTER_STOPPED, who);
        p.options.fault.for_us = draw(&p, SILENCE_S * (uint32_t)SECOND_US / 10 * 9);
        reference_check(&p.options, p.reference);
        tear_down_play(&p);
    }
}

static void a_member_that_is_gone_is_named_within_three_quarters_of_the_deadline(void **state)
{
    (void)state;
    for (uint64_t seed = 2000; seed < 2000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        plan_fault(&p, CLUSTER_KILLED, any_member(&p));
        cluster *c = cluster_run(&p.options);
        check_silence(&p, c);
        cluster_free(c);
        tear_down_play(&p);
    }
}

static void one_whose_death_the_launcher_tells_of_is_named_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 3000; seed < 3000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        plan_fault(&p, CLUSTER_LOST, any_member(&p));
        cluster *c = cluster_run(&p.options);
        check_named(&p, c, " was lost: killed by signal 9", 0);
        cluster_free(c);
        tear_down_play(&p);
    }
}

static void
a_member_that_is_stopped_for_longer_than_the_deadline_is_named_and_hears_of_it(void **state)
{
    (void)state;
    for (uint64_t seed = 4000; seed < 4000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        plan_fault(&p, CLUSTER_STOPPED, any_member(&p));
        p.options.fault.for_us = 2 * DEADLINE_S * SECOND_US;
        cluster *c = cluster_run(&p.options);
        check_silence(&p, c);
        const char *line, *own;
        if (cluster_status(c, &line) != PSR_OK && cluster_joined_us(c) != INT64_MAX) {
            assert_int_equal(cluster_status_of(c, p.options.fault.who, &own), PSR_ERR_PEER);
            assert_non_null(strstr(own, line));
        }
        cluster_free(c);
        tear_down_play(&p);
    }
}

static void a_worker_that_hangs_is_named_within_the_deadline(void **state)
{
    (void)state;
    for (uint64_t seed = 5000; seed < 5000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        plan_fault(&p, CLUSTER_HUNG, any_worker(&p));
        cluster *c = cluster_run(&p.options);
        check_named(&p, c, ": alive, but no progress for 6.", DEADLINE_S * SECOND_US);
        cluster_free(c);
        tear_down_play(&p);
    }
}

/* Gradients come late, in any order, and some are on their way when others of the step have
 * landed. */
static void devices_that_finish_late_change_no_bit(void **state)
{
    (void)state;
    for (uint64_t seed = 7000; seed < 7000 + 2 * schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        p.options.late_devices = true;
        reference_check(&p.options, p.reference);
        tear_down_play(&p);
    }
}

static void a_device_that_is_stuck_is_named_with_its_worker_within_the_deadline(void **state)
{
    (void)state;
    for (uint64_t seed = 8000; seed < 8000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        p.options.late_devices = true;
        plan_fault(&p, CLUSTER_DEVICE_STUCK, any_worker(&p));
        cluster *c = cluster_run(&p.options);
        check_named(&p, c, ", waiting for its own device, bucket ", (DEADLINE_S + 1) * SECOND_US);
        cluster_free(c);
        tear_down_play(&p);
    }
}

static void without_their_scheduler_all_members_end_within_the_deadline(void **state)
{
    (void)state;
    for (uint64_t seed = 6000; seed < 6000 + schedules; seed++) {
        play p;
        set_up_play(&p, seed);
        plan_fault(&p, CLUSTER_KILLED, (psr_peer){PSR_ROLE_SCHEDULER, 0});
        cluster *c = cluster_run(&p.options);
        uint32_t shards = p.config.mode == PSR_MODE_PS ? p.config.shards : 0;
        for (uint32_t i = 0; i < p.config.workers + shards; i++) {
            psr_peer peer = i < p.config.workers ? (psr_peer){PSR_ROLE_WORKER, i}
                                                 : (psr_peer){PSR_ROLE_SHARD, i - p.config.workers};
            const char *line = NULL;
            psr_err status = cluster_status_of(c, peer, &line);
            if (status != PSR_OK &&
                (status != PSR_ERR_PEER || !begins_with(line, "the scheduler at sim://")))
                refuse(&p, "another line", line);
            if (status == PSR_OK && cluster_decided_us(c) == INT64_MAX)
                refuse(&p, "a member ends well", "");
        }
        bool some_unconfigured = p.options.fault.at_us < SECOND_US / 10;
        int64_t within_us = some_unconfigured ? FIRST_DEADLINE_US + SECOND_US : SILENCE_US;
        if (cluster_ended_us(c) > p.options.fault.at_us + within_us)
            refuse(&p, "some member took too long", "");
        cluster_free(c);
        tear_down_play(&p);
    }
}

static void a_seed_decides_everything(void **state)
{
    (void)state;
    play p;
    set_up_play(&p, 7);
    cluster *a = cluster_run(&p.options), *b = cluster_run(&p.options);
    assert_int_equal(cluster_ended_us(a), cluster_ended_us(b));
    p.options.seed = 8;
    cluster *other = cluster_run(&p.options);
    assert_true(cluster_ended_us(other) != cluster_ended_us(a));
    cluster_free(a);
    cluster_free(b);
    cluster_free(other);
    tear_down_play(&p);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "all") == 0)
        schedules *= ALL;
    else
        schedules = seeds_of(schedules);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_any_size_end_with_the_bits_of_the_reference),
        cmocka_unit_test(a_stop_that_is_shorter_than_a_silence_may_be_changes_no_bit),
        cmocka_unit_test(a_member_that_is_gone_is_named_within_three_quarters_of_the_deadline),
        cmocka_unit_test(one_whose_death_the_launcher_tells_of_is_named_at_once),
        cmocka_unit_test(
            a_member_that_is_stopped_for_longer_than_the_deadline_is_named_and_hears_of_it),
        cmocka_unit_test(a_worker_that_hangs_is_named_within_the_deadline),
        cmocka_unit_test(devices_that_finish_late_change_no_bit),
        cmocka_unit_test(a_device_that_is_stuck_is_named_with_its_worker_within_the_deadline),
        cmocka_unit_test(without_their_scheduler_all_members_end_within_the_deadline),
        cmocka_unit_test(a_seed_decides_everything),
    };
    return cmocka_run_group_tests(tests, NULL, cluster_print_rate);
}
