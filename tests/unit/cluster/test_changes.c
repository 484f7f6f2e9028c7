/* Runs that change their architecture: random modes from random steps on, random ways of single
 * tensors, on random hosts, with resumed, stopped and killed ones among them. Every step ends with
 * the bits of plain loops, and the last checkpoint has the optimizer's state. So does every run
 * that goes on from a checkpoint taken around a change, with other shards, hosts and ways.
 *
 * usage: test_changes [all | FIRST COUNT]: all: five times the seeds. FIRST COUNT: the seeds of the
 * first test; the others take as many for theirs. */
#include "tests/unit/cluster/cluster_reference.h"
#include "tests/unit/seeds.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TENSORS = 9, STEPS_MAX = 9, RUNS = 60, RUNS_OF_FAULTS = 30, RUNS_RESUMED = 6, ALL = 5 };

/* Of the test that goes on. */
static psr_layout layout;
static psr_buckets buckets;
static psr_config config;
static uint64_t seed, drawn;
/* Of this call. */
static uint64_t seeds_from = 1;
static uint32_t seeds_of_changes = RUNS, seeds_of_faults = RUNS_OF_FAULTS,
                seeds_of_resumes = RUNS_RESUMED;

static int set_up(void **state)
{
    (void)state;
    reference_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 256, &buckets), PSR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
    return 0;
}

static uint32_t draw(uint32_t below)
{
    return psr_rng_below((psr_rng_at){.seed = seed, .purpose = PSR_RNG_TEST}, &drawn, below);
}

/* ---- a random run ---- */

static void draw_route(void)
{
    size_t used = 0;
    config.route[0] = '\0';
    if (draw(2) == 0)
        return;
    for (uint32_t t = 0; t < TENSORS; t++)
        if (draw(3) == 0)
            used += (size_t)snprintf(config.route + used, sizeof config.route - used, "%st%u=%s",
                                     used > 0 ? "," : "", t, draw(2) == 0 ? "ps" : "ring");
}

static void draw_stretches(uint64_t end)
{
    config.mode = draw(2) == 0 ? PSR_MODE_PS : PSR_MODE_RING;
    config.stretch_count = 1;
    config.stretches[0] = (psr_stretch){config.mode, 0};
    psr_mode mode = config.mode;
    for (uint64_t step = 1; step < end; step++) {
        if (draw(3) != 0)
            continue;
        mode = mode == PSR_MODE_PS ? PSR_MODE_RING : PSR_MODE_PS;
        config.stretches[config.stretch_count++] = (psr_stretch){mode, step};
    }
}

static cluster_options draw_run(void)
{
    const uint32_t workers = 2 + draw(7);
    const uint64_t first = draw(4) == 0 ? 1 + draw(3) : 0, steps = 2 + draw(STEPS_MAX - 1);
    config = reference_config(&reference_rules[draw(REFERENCE_RULES)], workers);
    config.shards = 1 + draw(4);
    config.window = 1 + draw(4);
    config.checkpoint_every = (psr_duration){.steps = draw(4)};
    draw_route();
    draw_stretches(first + steps);
    const uint64_t shares[] = {0, CLUSTER_ONE_HOST, draw(256)};
    return (cluster_options){.config = &config,
                             .layout = &layout,
                             .buckets = &buckets,
                             .steps = steps,
                             .first_step = first,
                             .seed = seed,
                             .duplicate_permille = draw(3) == 0 ? 200 : 0,
                             .asks_permille = draw(2) == 0 ? draw(40) : 0,
                             .slow_worker = draw(4) == 0 ? draw(workers) : CLUSTER_NOBODY,
                             .stop_at = draw(5) == 0 ? first + draw((uint32_t)steps) : UINT64_MAX,
                             .shares = shares[draw(3)]};
}

static void say(char *text, size_t size, const cluster_options *o)
{
    char mode[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < config.stretch_count && used < sizeof mode; i++)
        used += (size_t)snprintf(mode + used, sizeof mode - used, "%s%s@%llu", i > 0 ? "," : "",
                                 config.stretches[i].mode == PSR_MODE_PS ? "ps" : "ring",
                                 (unsigned long long)config.stretches[i].first_step + 1);
    snprintf(
        text, size,
        "seed %llu: %s, route \"%s\", %u workers (shares %llx), %u shards, optimizer %d, steps "
        "%llu to %llu, stop at %lld, asks %u",
        (unsigned long long)seed, mode, config.route, config.workers, (unsigned long long)o->shares,
        config.shards, (int)config.optimizer, (unsigned long long)o->first_step,
        (unsigned long long)(o->first_step + o->steps), (long long)o->stop_at, o->asks_permille);
}

/* ---- what must come out ---- */

static void check(const cluster_options *o, const cluster *c)
{
    char text[1024];
    float *slots[CLUSTER_SLOTS] = {NULL};
    const uint64_t steps = cluster_steps(c) - o->first_step;
    say(text, sizeof text, o);
    for (int i = 0; i < CLUSTER_SLOTS; i++)
        slots[i] = calloc(layout.length + 1, sizeof *slots[i]);
    psr_config reference_of = config;
    reference_of.mode = PSR_MODE_PS;
    reference_of.stretch_count = 1;
    reference_of.route[0] = '\0';
    /* The learning rate is a function of the run's length, also where it stops earlier. */
    float *reference = reference_run(&reference_of, &layout, &buckets, o->first_step, o->steps,
                                     REFERENCE_FOLD, slots);
    for (uint64_t k = 0; k < steps; k++)
        for (uint32_t r = 0; r < config.workers; r++)
            if (!reference_same(&layout, cluster_weights(c, r, o->first_step + k),
                                reference + k * layout.length))
                fail_msg("%s: worker %u differs after step %llu", text, r,
                         (unsigned long long)(o->first_step + k + 1));
    const float *saved = cluster_checkpointed_weights(c, o->first_step + steps);
    if (saved == NULL || !reference_same(&layout, saved, reference + (steps - 1) * layout.length))
        fail_msg("%s: the last checkpoint has other weights", text);
    for (uint32_t i = 0; i < CLUSTER_SLOTS; i++) {
        const float *slot = cluster_slot(c, i, o->first_step + steps);
        if (slot != NULL && steps == o->steps && !reference_same(&layout, slot, slots[i]))
            fail_msg("%s: the last checkpoint has another slot %u", text, i);
        free(slots[i]);
    }
    free(reference);
}

/* ---- runs that go on from a checkpoint ---- */

/* What a run of three stretches leaves after so many steps: one before a change, at it, or one
 * behind it. */
typedef struct left_behind {
    uint64_t steps;
    float *weights, *slots[CLUSTER_SLOTS];
} left_behind;

static void keep(const cluster *c, uint64_t steps, left_behind *ret_left)
{
    const size_t bytes = layout.length * sizeof(float);
    *ret_left = (left_behind){.steps = steps, .weights = calloc(layout.length + 1, sizeof(float))};
    assert_non_null(cluster_checkpointed_weights(c, steps));
    memcpy(ret_left->weights, cluster_checkpointed_weights(c, steps), bytes);
    for (uint32_t i = 0; i < CLUSTER_SLOTS; i++) {
        ret_left->slots[i] = calloc(layout.length + 1, sizeof(float));
        if (cluster_slot(c, i, steps) != NULL)
            memcpy(ret_left->slots[i], cluster_slot(c, i, steps), bytes);
    }
}

static void forget(left_behind *left)
{
    free(left->weights);
    for (uint32_t i = 0; i < CLUSTER_SLOTS; i++)
        free(left->slots[i]);
}

static void set_stretches(bool ps_first, const uint64_t changes[2])
{
    const psr_mode modes[2] = {PSR_MODE_PS, PSR_MODE_RING};
    config.stretch_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        config.stretches[i] =
            (psr_stretch){modes[ps_first == (i % 2 != 0)], i > 0 ? changes[i - 1] : 0};
    config.mode = config.stretches[0].mode;
}

static void set_fixed(psr_mode mode)
{
    config.stretch_count = 1;
    config.stretches[0] = (psr_stretch){mode, 0};
    config.mode = mode;
}

/* The ways of a run that goes on: those of before, either mode, or the changes the other way
 * round. */
static void set_ways(uint32_t which, bool ps_first, const uint64_t changes[2])
{
    if (which == 1 || which == 2)
        set_fixed(which == 1 ? PSR_MODE_PS : PSR_MODE_RING);
    else
        set_stretches(which == 0 ? ps_first : !ps_first, changes);
}

static void check_resumed(const cluster_options *whole, const left_behind *left, uint32_t which,
                          const float *reference)
{
    char text[1024];
    cluster_options o = *whole;
    const uint64_t end = whole->steps;
    o.first_step = left->steps;
    o.steps = end - left->steps;
    o.restored_weights = left->weights;
    o.restored_slots = (const float *const *)left->slots;
    o.shares = draw(2) == 0 ? CLUSTER_ONE_HOST : draw(256);
    o.stop_at = UINT64_MAX;
    cluster *c = cluster_run(&o);
    say(text, sizeof text, &o);
    assert_int_equal(cluster_steps(c), end);
    for (uint64_t step = left->steps; step < end; step++)
        for (uint32_t r = 0; r < config.workers; r++)
            if (!reference_same(&layout, cluster_weights(c, r, step),
                                reference + step * layout.length))
                fail_msg("%s, ways %u: worker %u differs after step %llu", text, which, r,
                         (unsigned long long)(step + 1));
    cluster_free(c);
}

/* Each checkpoint lies one step before a change, at it, or one step behind it. */
static uint32_t resume_around_changes(bool ps_first)
{
    const uint64_t first_change = 2 + draw(2),
                   changes[2] = {first_change, first_change + 3 + draw(2)};
    const uint32_t shards = config.shards;
    uint32_t resumed = 0;
    cluster_options o = draw_run();
    o.first_step = 0;
    o.steps = changes[1] + 3;
    o.asks_permille = 0;
    config.checkpoint_every = (psr_duration){.steps = 1};
    config.route[0] = '\0';
    set_fixed(PSR_MODE_PS);
    float *reference = reference_run(&config, &layout, &buckets, 0, o.steps, REFERENCE_FOLD, NULL);
    for (uint32_t at = 0; at < 6; at++) {
        left_behind left;
        const uint64_t steps = changes[at / 3] + at % 3 - 1;
        set_stretches(ps_first, changes);
        config.shards = 1 + draw(4);
        o.stop_at = at % 2 == 0 ? steps - 1 : UINT64_MAX; /* it ends there, or goes on */
        cluster *c = cluster_run(&o);
        const uint64_t stopped = cluster_steps(c);
        keep(c, stopped < o.steps ? stopped : steps, &left);
        cluster_free(c);
        for (uint32_t which = 0; which < 4 && left.steps < o.steps; which++) {
            set_ways(which, ps_first, changes);
            config.shards = 1 + (config.shards + draw(3)) % 4; /* never as many as before */
            check_resumed(&o, &left, which, reference);
            resumed++;
        }
        forget(&left);
    }
    config.shards = shards;
    free(reference);
    return resumed;
}

/* ---- tests ---- */

static void every_step_ends_with_the_bits_of_plain_loops_whatever_changes_before_it(void **state)
{
    (void)state;
    uint32_t changes = 0, asked = 0;
    for (seed = seeds_from; seed < seeds_from + seeds_of_changes; seed++) {
        drawn = 0;
        const cluster_options o = draw_run();
        cluster *c = cluster_run(&o);
        changes += cluster_changes(c);
        asked += cluster_asked(c);
        check(&o, c);
        cluster_free(c);
    }
    if (seeds_of_changes >= RUNS)
        assert_true(changes > seeds_of_changes && asked > seeds_of_changes / 4);
}

/* A process that is gone in the middle of a change ends the run with a line that names it, and
 * nobody is left waiting. */
static void who_is_lost_during_a_change_is_named(void **state)
{
    (void)state;
    uint32_t named = 0;
    for (seed = 10000 + seeds_from; seed < 10000 + seeds_from + seeds_of_faults; seed++) {
        drawn = 0;
        cluster_options o = draw_run();
        o.stop_at = UINT64_MAX;
        cluster *whole = cluster_run(&o);
        const uint32_t whom = draw(config.workers + config.shards);
        const bool worker = whom < config.workers;
        const int64_t from_us = cluster_joined_us(whole),
                      for_us = cluster_decided_us(whole) - from_us;
        o.fault = (cluster_fault){.kind = draw(2) == 0 ? CLUSTER_LOST : CLUSTER_KILLED,
                                  .who = {worker ? PSR_ROLE_WORKER : PSR_ROLE_SHARD,
                                          worker ? whom : whom - config.workers},
                                  .at_us = from_us + for_us * draw(1000) / 1000};
        cluster_free(whole);
        if (!worker && !psr_config_needs_shards(&config))
            continue;
        cluster *c = cluster_run(&o);
        const char *line = "";
        char name[32], text[1024];
        snprintf(name, sizeof name, "%s %u", psr_role_name(o.fault.who.role), o.fault.who.rank);
        say(text, sizeof text, &o);
        if (cluster_status(c, &line) != PSR_OK) {
            if (strstr(line, name) == NULL)
                fail_msg("%s: %s was lost, and the line is: %s", text, name, line);
            named++;
        }
        cluster_free(c);
    }
    assert_true(named > seeds_of_faults / 2 || seeds_of_faults < RUNS_OF_FAULTS);
}

static void
a_run_goes_on_from_any_checkpoint_around_a_change_with_other_shards_and_ways(void **state)
{
    (void)state;
    uint32_t resumed = 0;
    for (seed = 20000 + seeds_from; seed < 20000 + seeds_from + seeds_of_resumes; seed++) {
        drawn = 0;
        resumed += resume_around_changes(seed % 2 == 0);
    }
    printf("# %u runs were resumed\n", resumed);
    assert_true(resumed >= 20 * seeds_of_resumes);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "all") == 0) {
        seeds_of_changes *= ALL;
        seeds_of_faults *= ALL;
        seeds_of_resumes *= ALL;
    } else if (argc == 3) {
        seeds_from = strtoull(argv[1], NULL, 10);
        seeds_of_changes = seeds_of_faults = seeds_of_resumes =
            (uint32_t)strtoul(argv[2], NULL, 10);
    } else {
        seeds_of_changes = (uint32_t)seeds_of(RUNS);
        seeds_of_faults = (uint32_t)seeds_of(RUNS_OF_FAULTS);
        seeds_of_resumes = (uint32_t)seeds_of(RUNS_RESUMED);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_step_ends_with_the_bits_of_plain_loops_whatever_changes_before_it, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(who_is_lost_during_a_change_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_run_goes_on_from_any_checkpoint_around_a_change_with_other_shards_and_ways, set_up,
            tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, cluster_print_rate);
}
