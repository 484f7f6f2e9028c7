/* What workers lack of a table's values: the arithmetic, against a receiver that adds what it
 * decodes; then a shard that answers so. */
#include "tests/unit/expect.h"
#include "tests/unit/values_message.h"

#include "comm/tables/differences.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "comm/wire/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part 1 is the beginning. Whole slices have 16 floats. */
enum { SECOND = 45, FIRST = 77, TABLE = SECOND + FIRST, SLICE = 16, SENT_MAX = 64 };

static const char *const texts[] = {"int8", "topk:0.1", "1bit"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static psr_compression compression;

static void make_plan(const char *text, size_t slice, psr_plan *ret_plan)
{
    const psr_part parts[] = {{{SECOND, FIRST}, 0}, {{0, SECOND}, 1}};
    expect_ok(psr_compression_parse(text, &compression));
    const psr_plan_options options = {.route = PSR_ROUTE_SHARD,
                                      .ranks = 2,
                                      .shards = 1,
                                      .slice_floats = slice,
                                      .window = 2,
                                      .pulled = &compression};
    expect_ok(psr_plan_make(&options, parts, 2, ret_plan));
}

static void fill(float *values, float scale)
{
    for (size_t i = 0; i < TABLE; i++)
        values[i] = scale * ldexpf(1 + (float)(i * 37 % 101) / 101, (int)(i * 7 % 9) - 4) *
                    (i % 3 == 0 ? -1.0f : 1.0f);
}

/* As a worker takes them. */
static void receive(const psr_head *head, const psr_payload *payload, psr_span slice, float *have)
{
    float sent[TABLE];
    const psr_message message = {
        .head = *head, .payload = payload->data, .payload_bytes = payload->bytes};
    expect_ok(psr_decode_slice(&message, compression, slice.count, sent));
    for (size_t i = 0; i < slice.count; i++)
        have[slice.offset + i] += sent[i];
}

static size_t send_part(psr_differences *d, const psr_plan *plan, uint32_t part, float *have)
{
    const psr_plan_bucket *b = &plan->buckets[part];
    size_t bytes = 0;
    for (uint32_t s = b->slice_count; s-- > 0;) { /* in any order */
        const psr_span slice = plan->slices[b->first_slice + s].span;
        psr_head head = {0};
        const psr_payload payload = psr_differences_send(d, slice, &head);
        bytes += payload.bytes;
        receive(&head, &payload, slice, have);
    }
    return bytes;
}

/* ---- the arithmetic ---- */

static void workers_have_what_the_shard_knows_however_parts_are_cut(void **state)
{
    (void)state;
    for (size_t k = 0; k < TEXTS; k++) {
        float w[TABLE], have[2][TABLE];
        for (size_t cut = 0; cut < 2; cut++) {
            psr_plan plan;
            psr_differences *d;
            make_plan(texts[k], cut == 0 ? SLICE : 80, &plan);
            expect_ok(psr_differences_new(&plan, NULL, NULL, &d));
            fill(have[cut], 1);
            memcpy(psr_differences_pulled(d), have[cut], sizeof have[cut]);
            for (uint64_t step = 0; step < 5; step++)
                for (uint32_t part = 0; part < 2; part++) {
                    fill(w, 1 + 0.1f * (float)step);
                    expect_ok(psr_differences_prepare(d, part, step, w));
                    send_part(d, &plan, part, have[cut]);
                }
            assert_memory_equal(psr_differences_pulled(d), have[cut], sizeof have[cut]);
            psr_differences_free(d);
            psr_plan_done(&plan);
        }
        assert_memory_equal(have[0], have[1], sizeof have[0]);
    }
}

/* Nothing is lost: of values that change no more, each step sends a further piece. */
static void what_is_lacking_comes_in_later_steps(void **state)
{
    (void)state;
    for (size_t k = 0; k < TEXTS; k++) {
        float w[TABLE], have[TABLE] = {0};
        double before = 0, after = 0;
        psr_plan plan;
        psr_differences *d;
        make_plan(texts[k], SLICE, &plan);
        expect_ok(psr_differences_new(&plan, NULL, NULL, &d));
        fill(w, 1);
        for (uint64_t step = 0; step < 200; step++)
            for (uint32_t part = 0; part < 2; part++) {
                expect_ok(psr_differences_prepare(d, part, step, w));
                send_part(d, &plan, part, have);
            }
        for (size_t i = 0; i < TABLE; i++) {
            before += fabs((double)w[i]);
            after += fabs((double)w[i] - (double)have[i]);
        }
        /* top-k: exactly, since it sends values as they are */
        assert_true(compression.encoding == PSR_ENCODING_TOPK ? after == 0 : after < before / 1000);
        psr_differences_free(d);
        psr_plan_done(&plan);
    }
}

static void bytes_are_those_of_the_encoding(void **state)
{
    (void)state;
    const size_t of_first[TEXTS] = {FIRST + 5 * 4, 8 * 8, 4 * 2 + 2 + 5 * 8};
    for (size_t k = 0; k < TEXTS; k++) {
        float w[TABLE], have[TABLE] = {0};
        psr_plan plan;
        psr_differences *d;
        make_plan(texts[k], SLICE, &plan);
        expect_ok(psr_differences_new(&plan, NULL, NULL, &d));
        fill(w, 1);
        expect_ok(psr_differences_prepare(d, 0, 0, w));
        assert_int_equal(send_part(d, &plan, 0, have), of_first[k]);
        psr_differences_free(d);
        psr_plan_done(&plan);
    }
}

static void blank_all_but_ten(void *context, psr_span span, float *differences)
{
    uint32_t *called = context;
    (*called)++;
    memset(differences + 10, 0, (span.count - 10) * sizeof *differences);
}

/* A scale of the rest would be a million times as large. */
static void what_nobody_uses_counts_in_no_scale(void **state)
{
    (void)state;
    float w[TABLE], have[TABLE] = {0};
    uint32_t called = 0;
    psr_plan plan;
    psr_differences *d;
    make_plan("int8", SLICE, &plan);
    expect_ok(psr_differences_new(&plan, &called, blank_all_but_ten, &d));
    for (size_t i = 0; i < TABLE; i++)
        w[i] = i < 10 ? 1 + (float)i / 100 : 1e6f;
    expect_ok(psr_differences_prepare(d, 1, 0, w));
    assert_int_equal(called, 1);
    send_part(d, &plan, 1, have);
    for (size_t i = 0; i < 10; i++)
        assert_true(fabsf(have[i] - w[i]) < 0.01f);
    for (size_t i = 10; i < SECOND; i++)
        assert_true(have[i] == 0);
    psr_differences_free(d);
    psr_plan_done(&plan);
}

static void a_value_that_is_not_finite_names_step_and_bucket(void **state)
{
    (void)state;
    for (size_t k = 0; k < TEXTS; k++) {
        float w[TABLE];
        psr_plan plan;
        psr_differences *d;
        make_plan(texts[k], SLICE, &plan);
        expect_ok(psr_differences_new(&plan, NULL, NULL, &d));
        fill(w, 1);
        w[SECOND + 20] = INFINITY;
        expect_ok(psr_differences_prepare(d, 1, 6, w));
        expect_failure(psr_differences_prepare(d, 0, 6, w), PSR_ERR_NUMERIC,
                       "step 7: the weights of bucket 0 are not finite");
        psr_differences_free(d);
        psr_plan_done(&plan);
    }
}

/* ---- a shard ---- */

typedef struct fixture {
    psr_plan plan;
    psr_table_shard *table;
    float have[2][TABLE];
    uint32_t answers[2];
} fixture;

static psr_err take_answer(void *context, psr_peer to, const psr_head *head,
                           const psr_payload *payload)
{
    fixture *f = context;
    if (head->type != PSR_MSG_WEIGHTS)
        return PSR_OK;
    const psr_message message = {.head = *head};
    psr_msg_weights says;
    expect_ok(psr_msg_weights_read(&message, &says));
    assert_null(payload->release); /* copied: the memory is used again */
    receive(head, payload, says.span, f->have[to.rank]);
    f->answers[to.rank]++;
    return PSR_OK;
}

static psr_table_shard_options options_of(fixture *f)
{
    return (psr_table_shard_options){.plan = &f->plan,
                                     .consistency = {PSR_CONSISTENCY_BSP, 0},
                                     .update = "sum",
                                     .end = 10,
                                     .outbox = {.context = f, .send = take_answer}};
}

static psr_err give(fixture *f, psr_message *message)
{
    psr_err err = psr_table_shard_message(f->table, &message);
    assert_null(message);
    return err;
}

static psr_err push(fixture *f, uint32_t rank, uint64_t step, uint32_t part, uint32_t s)
{
    const psr_span span = f->plan.slices[f->plan.buckets[part].first_slice + s].span;
    const psr_head head = psr_msg_push_head(&(psr_msg_push){part, step, span, true});
    return give(f, values_message(head, rank, span.count, 0.25f + (float)rank));
}

static void initialise(fixture *f, uint32_t section, float value)
{
    for (uint32_t part = 0; part < 2; part++)
        for (uint32_t s = 0; s < f->plan.buckets[part].slice_count; s++) {
            const psr_slice *slice = &f->plan.slices[f->plan.buckets[part].first_slice + s];
            const psr_head head = psr_msg_init_head(&(psr_msg_init){part, 0, slice->span, section});
            expect_ok(give(f, values_message(head, 0, slice->span.count, value)));
        }
}

static void a_part_is_answered_when_all_its_slices_are_updated(void **state)
{
    (void)state;
    fixture f = {0};
    make_plan("topk:1", SLICE, &f.plan);
    const psr_table_shard_options options = options_of(&f);
    expect_ok(psr_table_shard_new(&options, &f.table));
    initialise(&f, 0, 2);
    assert_true(psr_table_shard_initialised(f.table));
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            assert_int_equal(f.answers[0] + f.answers[1], 0);
            expect_ok(push(&f, rank, 0, 1, s));
        }
    assert_int_equal(f.answers[0], 3);
    assert_int_equal(f.answers[1], 3);
    for (size_t i = 0; i < SECOND; i++) /* of 2, which they have, they lack what was added */
        assert_true(f.have[0][i] == 1.5f && f.have[1][i] == 1.5f);
    assert_true(psr_table_shard_values(f.table)[0] == 3.5f);
    psr_table_shard_free(f.table);
    psr_plan_done(&f.plan);
}

static void a_push_before_the_answer_is_a_violation(void **state)
{
    (void)state;
    fixture f = {0};
    make_plan("1bit", SLICE, &f.plan);
    const psr_table_shard_options options = options_of(&f);
    expect_ok(psr_table_shard_new(&options, &f.table));
    initialise(&f, 0, 1);
    expect_ok(push(&f, 0, 0, 1, 0));
    expect_ok(push(&f, 1, 0, 1, 0));
    expect_ok(push(&f, 0, 0, 1, 0)); /* again: nothing */
    assert_int_equal(push(&f, 0, 1, 1, 0), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "the slice is at wire step 0"));
    psr_table_shard_free(f.table);
    psr_plan_done(&f.plan);
}

/* A table that goes on is given what workers have as well, which is not what it has. */
static void a_table_that_goes_on_is_given_what_workers_have(void **state)
{
    (void)state;
    fixture f = {0};
    make_plan("topk:1", SLICE, &f.plan);
    psr_table_shard_options options = options_of(&f);
    options.first_step = 4;
    expect_ok(psr_table_shard_new(&options, &f.table));
    initialise(&f, 0, 2);
    assert_false(psr_table_shard_initialised(f.table));
    initialise(&f, 1, 1.25f); /* "sum" has no state */
    assert_true(psr_table_shard_initialised(f.table));
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t rank = 0; rank < 2; rank++)
            expect_ok(push(&f, rank, 4, 1, s));
    for (size_t i = 0; i < SECOND; i++)
        assert_true(f.have[0][i] == 3.5f - 1.25f);
    psr_table_shard_free(f.table);
    psr_plan_done(&f.plan);
}

static psr_err nothing_landed(void *context, uint64_t round, uint32_t part)
{
    (void)context, (void)round, (void)part;
    return PSR_OK;
}

static void other_workers_than_those_of_bsp_are_refused(void **state)
{
    (void)state;
    static const psr_consistency kinds[] = {{PSR_CONSISTENCY_SSP, 1}, {PSR_CONSISTENCY_ASYNC, 0}};
    fixture f = {0};
    float values[TABLE] = {0};
    psr_table *table = NULL;
    make_plan("int8", SLICE, &f.plan);
    psr_table_shard_options options = options_of(&f);
    static const char refused[] =
        "values come back as int8 in BSP alone, to workers that began with the table";
    for (size_t k = 0; k < 2; k++) {
        options.consistency = kinds[k];
        expect_failure(psr_table_shard_new(&options, &f.table), PSR_ERR_USAGE, refused);
        const psr_table_options of_worker = {.plan = &f.plan,
                                             .consistency = kinds[k],
                                             .values = values,
                                             .outbox = {.context = &f, .send = take_answer},
                                             .landed = nothing_landed};
        expect_failure(psr_table_new(&of_worker, &table), PSR_ERR_USAGE,
                       "values come back as int8 in BSP alone");
    }
    options.consistency = (psr_consistency){PSR_CONSISTENCY_BSP, 0};
    options.given = true;
    expect_failure(psr_table_shard_new(&options, &f.table), PSR_ERR_USAGE, refused);
    psr_plan_done(&f.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_have_what_the_shard_knows_however_parts_are_cut),
        cmocka_unit_test(what_is_lacking_comes_in_later_steps),
        cmocka_unit_test(bytes_are_those_of_the_encoding),
        cmocka_unit_test(what_nobody_uses_counts_in_no_scale),
        cmocka_unit_test(a_value_that_is_not_finite_names_step_and_bucket),
        cmocka_unit_test(a_part_is_answered_when_all_its_slices_are_updated),
        cmocka_unit_test(a_push_before_the_answer_is_a_violation),
        cmocka_unit_test(a_table_that_goes_on_is_given_what_workers_have),
        cmocka_unit_test(other_workers_than_those_of_bsp_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
