/* The deadlines of requests under way against an array of them that is searched from end to end,
 * with random additions, removals and changes. */

#include "tests/unit/expect.h"

#include "comm/node/node_private.h"

#include <stdlib.h>

enum { REQUESTS = 300, STEPS = 20000, TIMES = 50 };

static uint64_t drawn;

static uint32_t draw(uint32_t bound)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(drawn >> 33) % bound;
}

static int64_t earliest(const psr_node_request *requests, const bool *there)
{
    int64_t found = INT64_MAX;
    for (size_t i = 0; i < REQUESTS; i++)
        if (there[i] && requests[i].due_ms < found)
            found = requests[i].due_ms;
    return found;
}

/* Ties are frequent: there are few times. ascending: each is not before what was added last, as
 * with requests that have the same time. */
static void play(bool ascending, uint64_t seed)
{
    psr_node *node = calloc(1, sizeof *node);
    psr_node_request *requests = calloc(REQUESTS, sizeof *requests);
    bool there[REQUESTS] = {false};
    int64_t last = 0;
    size_t count = 0;
    assert_non_null(node);
    assert_non_null(requests);
    drawn = seed;
    for (int step = 0; step < STEPS; step++) {
        const size_t i = draw(REQUESTS);
        last += draw(4) == 0;
        const int64_t due_ms = ascending ? last : (int64_t)draw(TIMES);
        if (!there[i]) {
            requests[i].due_ms = due_ms;
            psr_node_due_add(node, &requests[i]);
            count++;
        } else if (draw(3) == 0) {
            psr_node_due_move(node, &requests[i], due_ms);
            assert_int_equal(requests[i].due_ms, due_ms);
        } else {
            psr_node_due_remove(node, &requests[i]);
            psr_node_due_remove(node, &requests[i]); /* again: nothing */
            count--;
        }
        there[i] = !there[i] || requests[i].due_listed || requests[i].due > 0;
        const psr_node_request *first = psr_node_due_first(node);
        assert_int_equal(first == NULL, count == 0);
        if (first != NULL)
            assert_int_equal(first->due_ms, earliest(requests, there));
        if (ascending)
            assert_int_equal(node->due_count, 0); /* all are in the list */
    }
    for (psr_node_request *first; (first = psr_node_due_first(node)) != NULL; count--) {
        assert_int_equal(first->due_ms, earliest(requests, there));
        there[first - requests] = false;
        psr_node_due_remove(node, first);
    }
    assert_int_equal(count, 0);
    assert_true(node->due_capacity <= 32); /* the heap has given its memory back */
    free(node->due);
    free(requests);
    free(node);
}

static void the_first_is_always_the_earliest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        play(false, seed);
}

static void those_of_one_time_need_no_heap(void **state)
{
    (void)state;
    play(true, 4);
}

/* Many with a long time are under way, and each of many with a short time begins behind them. */
static void a_short_time_behind_many_long_ones_comes_first(void **state)
{
    (void)state;
    enum { LONG = 100000, SHORT = 1000 };
    psr_node *node = calloc(1, sizeof *node);
    psr_node_request *requests = calloc(LONG + SHORT, sizeof *requests);
    assert_non_null(node);
    assert_non_null(requests);
    for (size_t i = 0; i < LONG + SHORT; i++) {
        requests[i].due_ms = i < LONG ? 1000000 + (int64_t)i : (int64_t)(LONG + SHORT - i);
        psr_node_due_add(node, &requests[i]);
    }
    assert_int_equal(node->due_count, SHORT);
    for (size_t i = LONG + SHORT; i-- > LONG;) {
        assert_ptr_equal(psr_node_due_first(node), &requests[i]);
        psr_node_due_remove(node, &requests[i]);
    }
    for (size_t i = 0; i < LONG; i++) {
        assert_ptr_equal(psr_node_due_first(node), &requests[i]);
        psr_node_due_remove(node, &requests[i]);
    }
    assert_null(psr_node_due_first(node));
    free(node->due);
    free(requests);
    free(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_always_the_earliest),
        cmocka_unit_test(those_of_one_time_need_no_heap),
        cmocka_unit_test(a_short_time_behind_many_long_ones_comes_first),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
