/* --tensorboard-norms: the sums of squares of tensors that a bucket cuts, two shards' and a ring's,
 * reach worker 0 in any order as the same doubles; what is not due or not the sender's is refused;
 * and the lines in which they are told. */
#include "worker/exchange/tensor_norms.h"

#include "comm/wire/messages.h"
#include "model/optimizers/tensor_runs.h"
#include "tests/unit/expect.h"
#include "worker/norm_lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 3, TENSORS = 3, RUNS = 3, LENGTH = 96 };

/* a: 16 elements, frozen; b: 40 of 48, which two buckets have; c: 20 of 32 */
static const psr_part parts[BUCKETS] = {{{48, 48}, 0}, {{16, 32}, 1}, {{0, 16}, 2}};
static const psr_span spans[BUCKETS] = {{48, 48}, {16, 32}, {0, 16}};

typedef struct fixture {
    psr_config config;
    psr_layout layout;
    psr_plan plan;
    psr_tensor_norms *norms;
    uint32_t known, sent;
    uint64_t step;
    double squares[TENSORS];
} fixture;

static psr_err keep_sent(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    fixture *f = context;
    assert_null(payload);
    assert_int_equal(to.role, PSR_ROLE_WORKER);
    assert_int_equal(to.rank, 0);
    assert_int_equal(head->type, PSR_MSG_NORM);
    f->sent++;
    return PSR_OK;
}

static void keep_known(void *context, uint64_t step, const double *squares)
{
    fixture *f = context;
    f->known++;
    f->step = step;
    memcpy(f->squares, squares, sizeof f->squares);
}

static void set_up(fixture *f, uint32_t rank, psr_route route)
{
    static const char *const names[TENSORS] = {"a", "b", "c"};
    static const uint32_t counts[TENSORS] = {16, 40, 20};
    *f = (fixture){0};
    psr_config_defaults(&f->config);
    f->config.tensorboard_norms = 2;
    for (int t = 0; t < TENSORS; t++)
        expect_ok(psr_layout_add(&f->layout, names[t], 1, &counts[t]));
    assert_int_equal(f->layout.length, LENGTH);
    f->layout.tensors[0].frozen = true;
    const psr_route routes[BUCKETS] = {route, PSR_ROUTE_SHARD, PSR_ROUTE_FROZEN};
    const psr_plan_options options = {
        .routes = routes, .ranks = 2, .shards = 2, .slice_floats = 16, .window = 2};
    expect_ok(psr_plan_make(&options, parts, BUCKETS, &f->plan));
    const psr_tensor_norms_options of = {.config = &f->config,
                                         .layout = &f->layout,
                                         .plan = &f->plan,
                                         .rank = rank,
                                         .outbox = {.context = f, .send = keep_sent},
                                         .context = f,
                                         .known = keep_known};
    expect_ok(psr_tensor_norms_new(&of, &f->norms));
}

static void tear_down(fixture *f)
{
    psr_tensor_norms_free(f->norms);
    psr_plan_done(&f->plan);
    psr_layout_done(&f->layout);
}

static psr_err give(fixture *f, psr_peer from, uint32_t run, uint64_t step, double squares)
{
    psr_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    message->from = from;
    message->head = psr_msg_norm_head(
        &(psr_msg_norm){.bucket = run, .step = step, .phase = PSR_NORM_TENSOR, .value = squares});
    message->release = (void (*)(psr_message *))free;
    return psr_tensor_norms_message(f->norms, &message);
}

static psr_peer home_of(const fixture *f, uint32_t bucket)
{
    return psr_plan_home(&f->plan, bucket);
}

/* Bucket 0 has the end of b and all of c, bucket 1 the beginning of b. */
static void a_tensor_that_buckets_cut_is_its_runs_and_a_frozen_one_has_none(void **state)
{
    (void)state;
    fixture f;
    psr_tensor_runs runs;
    float arena[LENGTH];
    double squares[RUNS], tensors[TENSORS];
    set_up(&f, 0, PSR_ROUTE_SHARD);
    for (int i = 0; i < LENGTH; i++)
        arena[i] = (float)i;
    expect_ok(psr_tensor_runs_of(&f.layout, spans, BUCKETS, &runs));
    assert_int_equal(runs.count, 3);
    static const psr_tensor_run expected[] = {{1, 0, {48, 8}}, {2, 0, {64, 20}}, {1, 1, {16, 32}}};
    for (uint32_t r = 0; r < runs.count; r++) {
        assert_int_equal(runs.items[r].tensor, expected[r].tensor);
        assert_int_equal(runs.items[r].bucket, expected[r].bucket);
        assert_true(psr_span_equal(runs.items[r].span, expected[r].span));
        squares[r] = psr_tensor_run_squares(&runs.items[r], arena);
    }
    const uint32_t first[] = {0, 2, 3, 3};
    assert_memory_equal(runs.first, first, sizeof first);
    psr_tensor_runs_add(&runs, squares, TENSORS, tensors);
    double b = 0;
    for (int i = 16; i < 56; i++)
        b += (double)arena[i] * (double)arena[i];
    assert_true(tensors[0] == 0 && tensors[1] == b); /* small whole numbers: exact */
    psr_tensor_runs_done(&runs);
    tear_down(&f);
}

static void worker_0_has_the_same_sums_whatever_comes_first(void **state)
{
    (void)state;
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    static const double values[] = {0x1p53, 3, 1};
    fixture f;
    set_up(&f, 0, PSR_ROUTE_SHARD);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t run = orders[i][k];
            assert_int_equal(f.known, i);
            expect_ok(give(&f, home_of(&f, run == 2), run, 2 * i + 1, values[run]));
        }
        assert_int_equal(f.known, i + 1);
        assert_int_equal(f.step, 2 * i + 1);
        assert_true(f.squares[0] == 0 && f.squares[1] == 0x1p53 + 1.0 && f.squares[2] == 3);
    }
    tear_down(&f);
}

/* What worker 0 updates itself it knows; another worker of a ring tells nobody. */
static void a_rings_buckets_are_told_by_worker_0_to_itself(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 0, PSR_ROUTE_RING);
    expect_ok(psr_tensor_norms_part(f.norms, 0, 1, 4));
    expect_ok(give(&f, home_of(&f, 1), 2, 1, 5));
    expect_ok(psr_tensor_norms_part(f.norms, 1, 1, 6));
    assert_int_equal(f.known, 1);
    assert_true(f.squares[1] == 9 && f.squares[2] == 6);
    assert_int_equal(f.sent, 0);
    tear_down(&f);
    set_up(&f, 1, PSR_ROUTE_RING);
    expect_ok(psr_tensor_norms_part(f.norms, 0, 1, 4));
    assert_int_equal(f.sent + f.known, 0);
    tear_down(&f);
}

static void refuses(fixture *f, psr_peer from, uint32_t run, uint64_t step, const char *words)
{
    assert_int_equal(give(f, from, run, step, 1), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), words));
}

static void what_is_not_due_or_not_the_senders_is_refused(void **state)
{
    (void)state;
    const psr_peer other = {PSR_ROLE_WORKER, 1};
    fixture f;
    set_up(&f, 0, PSR_ROUTE_RING);
    const psr_peer home = home_of(&f, 1);
    refuses(&f, home, 2, 0, "no norms are due in step 1");
    refuses(&f, other, 2, 1, "is not the sender's to say");
    refuses(&f, home, 0, 1, "is not the sender's to say");
    refuses(&f, home, 3, 1, "is not the sender's to say");
    expect_ok(give(&f, home, 2, 1, 1));
    refuses(&f, home, 2, 1, "or was said");
    refuses(&f, home, 2, 3, "or was said");
    assert_int_equal(f.known, 0);
    tear_down(&f);
    set_up(&f, 1, PSR_ROUTE_RING);
    refuses(&f, home_of(&f, 1), 2, 1, "not the sender's to say");
    tear_down(&f);
}

static void lines_have_every_tensor_once_and_end_where_the_scheduler_reads(void **state)
{
    (void)state;
    enum { MANY = 250 };
    psr_layout layout = {0};
    const uint32_t one = 1;
    double squares[MANY];
    char line[PSR_NORM_LINE_MAX], name[PSR_TENSOR_NAME_MAX];
    for (int t = 0; t < MANY; t++) {
        snprintf(name, sizeof name, "layer%d.%s", t, t < 125 ? "w" : "a.weight.of.a.long.name");
        expect_ok(psr_layout_add(&layout, name, 1, &one));
        squares[t] = t < 125 ? 0 : 2e-31 * t;
    }
    layout.tensors[7].frozen = true;
    float *weights = calloc(layout.length, sizeof *weights);
    assert_non_null(weights);
    weights[layout.tensors[9].offset] = -3;
    uint32_t lines = 0, rows = 0;
    for (size_t next = 0, before = 0;
         psr_norm_line_next(&layout, 20, 1.5, weights, squares, &next, line);
         before = next, lines++) {
        assert_true(next > before && next - before <= 100 && strlen(line) < PSR_NORM_LINE_MAX - 1);
        assert_string_equal(line + strlen(line) - 3, "]]}");
        for (const char *at = line; (at = strstr(at, "[\"layer")) != NULL; at++)
            rows++;
        if (before == 0)
            assert_non_null(strstr(line, "[\"layer7.w\", 0, null]"));
        if (before == 0)
            assert_non_null(strstr(line, "[\"layer9.w\", 3, 0]"));
    }
    assert_int_equal(rows, MANY);
    assert_true(lines >= 3);
    free(weights);
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_that_buckets_cut_is_its_runs_and_a_frozen_one_has_none),
        cmocka_unit_test(worker_0_has_the_same_sums_whatever_comes_first),
        cmocka_unit_test(a_rings_buckets_are_told_by_worker_0_to_itself),
        cmocka_unit_test(what_is_not_due_or_not_the_senders_is_refused),
        cmocka_unit_test(lines_have_every_tensor_once_and_end_where_the_scheduler_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
