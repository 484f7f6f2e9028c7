/* What ranks tell each other of a table and of groups: words that may be a liar's. */
#include "tests/unit/expect.h"

#include "comm/psring/opening.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 64 };

static size_t words_of_a_table(int64_t words[WORDS_MAX])
{
    static const size_t parts[] = {3, 5};
    uint32_t workers[] = {2, 0, 1};
    psr_opening opening;
    int64_t *made = NULL;
    size_t count = 0;
    expect_ok(psr_opening_make("t", parts, 2, "sum", "ssp:2", &opening));
    opening.compression = (psr_compression){PSR_ENCODING_TOPK, 10000000};
    opening.id = 14;
    opening.workers = workers;
    opening.worker_count = 3;
    expect_ok(psr_opening_to_words(&opening, &made, &count));
    assert_true(count <= WORDS_MAX);
    memcpy(words, made, count * sizeof *words);
    free(made);
    opening.workers = NULL;
    psr_opening_done(&opening);
    return count;
}

static void what_is_told_of_a_table_is_read_as_it_was(void **state)
{
    (void)state;
    int64_t words[WORDS_MAX];
    psr_opening opening;
    expect_ok(psr_opening_from_words(words, words_of_a_table(words), &opening));
    assert_int_equal(opening.id, 14);
    assert_int_equal(opening.worker_count, 3);
    assert_int_equal(opening.workers[0], 2);
    assert_int_equal(psr_opening_values(&opening), 8);
    assert_string_equal(opening.update, "sum");
    assert_int_equal(opening.compression.encoding, PSR_ENCODING_TOPK);
    assert_int_equal(opening.compression.ratio, 10000000);
    psr_opening_done(&opening);
}

/* Each word becomes what ends an array, or is behind it: it is refused, or read as a number that
 * can be. */
static void a_count_that_cannot_be_is_refused(void **state)
{
    static const int64_t ends[] = {INT64_MIN, -1, UINT16_MAX + 1, UINT32_MAX + INT64_C(1),
                                   INT64_MAX};
    int64_t words[WORDS_MAX];
    (void)state;
    for (size_t i = 0; i < 13 + 5; i++) /* before the name */
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
            psr_opening opening = {0};
            size_t count = words_of_a_table(words);
            words[i] = ends[e];
            if (psr_opening_from_words(words, count, &opening) != PSR_OK)
                continue;
            assert_true(opening.worker_count == 3 && opening.part_count == 2 &&
                        psr_opening_values(&opening) <= PSR_OPENING_VALUES_MAX);
            psr_opening_done(&opening);
        }
}

static void a_group_has_an_id_of_the_rank_that_makes_it(void **state)
{
    (void)state;
    assert_true(psr_opening_id_is(14, 2, 3));
    assert_true(psr_opening_id_is(6, 0, 3));
    assert_false(psr_opening_id_is(14, 1, 3));
    assert_false(psr_opening_id_is(5, 2, 3)); /* is open from the beginning */
    assert_true(psr_opening_id_is(UINT32_MAX, 0, 3));
    assert_false(psr_opening_id_is((uint64_t)UINT32_MAX + 3, 0, 3));
    assert_false(psr_opening_id_is((uint64_t)-1, 0, 3));
}

/* One with nothing in its low half was taken for OK, and the table that nobody made was used. */
static void a_reply_with_no_status_that_there_is_counts_as_a_peers(void **state)
{
    (void)state;
    assert_int_equal(psr_opening_replied(PSR_OK), PSR_OK);
    assert_int_equal(psr_opening_replied(PSR_ERR_NOMEM), PSR_ERR_NOMEM);
    assert_int_equal(psr_opening_replied(INT64_C(1) << 32), PSR_ERR_PEER);
    assert_int_equal(psr_opening_replied(-1), PSR_ERR_PEER);
    assert_int_equal(psr_opening_replied(PSR_ERR_LAST + 1), PSR_ERR_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_of_a_table_is_read_as_it_was),
        cmocka_unit_test(a_count_that_cannot_be_is_refused),
        cmocka_unit_test(a_group_has_an_id_of_the_rank_that_makes_it),
        cmocka_unit_test(a_reply_with_no_status_that_there_is_counts_as_a_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
