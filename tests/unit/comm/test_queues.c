/* Queues by key: in order, however many, with as many steps for one of 100,000 as for one of
 * few. */
#include "tests/unit/expect.h"

#include "comm/queues.h"

#include <stdlib.h>

typedef struct thing {
    uint64_t number;
    psr_queued queued;
} thing;

enum { MANY = 100000 };

static thing *first_of(psr_queues *queues, psr_queue_key key)
{
    return PSR_QUEUED_OF(psr_queues_first(queues, key), thing, queued);
}

static psr_queue_key key_of(uint64_t number)
{
    return (psr_queue_key){number % 7, number / 7};
}

static void a_queue_gives_out_in_order(void **state)
{
    (void)state;
    enum { THINGS = 50, KEYS = 5 };
    thing things[THINGS] = {0};
    psr_queues queues = {0};
    for (uint64_t i = 0; i < THINGS; i++) {
        things[i].number = i;
        psr_queues_add(&queues, &things[i].queued, key_of(i % KEYS));
    }
    psr_queues_remove(&queues, &things[THINGS - 1].queued); /* the last of its queue */
    psr_queues_remove(&queues, &things[KEYS].queued);       /* one between */
    psr_queues_remove(&queues, &things[1].queued);          /* a first */
    psr_queues_remove(&queues, &things[1].queued);          /* again: nothing */
    psr_queues_add(&queues, &things[1].queued, key_of(1));  /* now the last */
    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t k = 0; k < THINGS / KEYS; k++) {
            uint64_t number = key + k * KEYS;
            if (key == 1)
                number = k + 1 < THINGS / KEYS ? number + KEYS : 1;
            if (number == THINGS - 1 || number == KEYS)
                continue;
            thing *t = first_of(&queues, key_of(key));
            if (t == NULL) {
                fail_msg("queue %d has lost thing %d", (int)key, (int)number);
                return;
            }
            assert_int_equal(t->number, number);
            psr_queues_remove(&queues, &t->queued);
            assert_false(psr_queued_is_in(&t->queued));
        }
    assert_int_equal(queues.count, 0);
    assert_null(psr_queues_first(&queues, key_of(0)));
    psr_queues_done(&queues);
}

/* Steps of adding, finding and taking out one more thing while so many are there. */
static double steps_with(size_t count, bool one_key)
{
    thing *things = calloc(count + 1000, sizeof *things);
    psr_queues queues = {0};
    for (size_t i = 0; i < count; i++)
        psr_queues_add(&queues, &things[i].queued, key_of(one_key ? 3 : i));
    uint64_t before = queues.visited;
    for (size_t i = 0; i < 1000; i++) {
        thing *t = &things[count + i];
        psr_queue_key key = key_of(one_key ? 3 : count + i);
        psr_queues_add(&queues, &t->queued, key);
        assert_non_null(first_of(&queues, key));
        psr_queues_remove(&queues, &t->queued);
    }
    double steps = (double)(queues.visited - before) / 1000;
    size_t largest = queues.size;
    for (size_t i = 0; i < count; i++)
        psr_queues_remove(&queues, &things[i].queued);
    assert_int_equal(queues.count, 0);
    assert_true(queues.size <= 16 && largest <= 2 * count + 16); /* the table has shrunk again */
    psr_queues_done(&queues);
    free(things);
    return steps;
}

static void steps_do_not_grow_with_what_is_there(void **state)
{
    (void)state;
    for (int one_key = 0; one_key < 2; one_key++) {
        double few = steps_with(1, one_key != 0), many = steps_with(MANY, one_key != 0);
        if (many > 2 * few + 1)
            fail_msg("%g steps with %d things, %g with one", many, MANY, few);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_gives_out_in_order),
        cmocka_unit_test(steps_do_not_grow_with_what_is_there),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
