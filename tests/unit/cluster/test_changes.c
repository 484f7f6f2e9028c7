/* Runs that change their architecture: random modes from random steps on, random ways of single
 * tensors, on random hosts, with resumed, stopped and killed ones among them. Every step ends with
 * the bits of plain loops, and the last checkpoint has the optimizer's state. */
#include "tests/unit/cluster/cluster_reference.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TENSORS = 9, STEPS_MAX = 9, RUNS = 300, RUNS_OF_FAULTS = 150 };

/* Of the test that goes on. */
static psr_layout layout;
static psr_buckets buckets;
static psr_config config;
static uint64_t seed, drawn;

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
    config.checkpoint_every = draw(4);
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

/* ---- tests ---- */

static void every_step_ends_with_the_bits_of_plain_loops_whatever_changes_before_it(void **state)
{
    (void)state;
    uint32_t changes = 0, asked = 0;
    for (seed = 1; seed <= RUNS; seed++) {
        drawn = 0;
        const cluster_options o = draw_run();
        cluster *c = cluster_run(&o);
        changes += cluster_changes(c);
        asked += cluster_asked(c);
        check(&o, c);
        cluster_free(c);
    }
    assert_true(changes > RUNS && asked > RUNS / 4);
}

/* A process that is gone in the middle of a change ends the run with a line that names it, and
 * nobody is left waiting. */
static void who_is_lost_during_a_change_is_named(void **state)
{
    (void)state;
    uint32_t named = 0;
    for (seed = 10001; seed <= 10000 + RUNS_OF_FAULTS; seed++) {
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
    assert_true(named > RUNS_OF_FAULTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_step_ends_with_the_bits_of_plain_loops_whatever_changes_before_it, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(who_is_lost_during_a_change_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, cluster_print_rate);
}
