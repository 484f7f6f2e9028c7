#include "tests/unit/network_fixture.h"

#include "comm/operations/loan.h"

#include <pthread.h>

static _Atomic unsigned told;

static void count_told(void *context)
{
    assert_ptr_equal(context, &told);
    atomic_fetch_add(&told, 1);
}

static const psr_outbox outbox = {.context = &told, .returned = count_told};

static void give_back(const psr_payload *payload)
{
    payload->release(payload->context);
}

static void memory_is_lent_until_all_of_it_came_back(void **state)
{
    (void)state;
    float values[4] = {0};
    psr_loan loan;
    psr_loan_init(&loan, &outbox);
    atomic_store(&told, 0);
    assert_int_equal(psr_loan_lent(&loan), 0);
    psr_loan_begin(&loan, 2); /* also before they are sent it must stay as it is */
    assert_int_equal(psr_loan_lent(&loan), 2);
    psr_payload first = psr_loan_payload(&loan, (psr_payload){.data = values, .bytes = 8}),
                second = psr_loan_payload(&loan, (psr_payload){.data = values + 2, .bytes = 8});
    assert_ptr_equal(second.data, values + 2);
    assert_int_equal(second.bytes, 8);
    give_back(&second);
    assert_int_equal(psr_loan_lent(&loan), 1);
    assert_int_equal(atomic_load(&told), 0);
    give_back(&first);
    assert_int_equal(psr_loan_lent(&loan), 0);
    assert_int_equal(atomic_load(&told), 1);
}

static void who_does_not_ask_is_not_told(void **state)
{
    (void)state;
    psr_loan loan;
    psr_loan_init(&loan, &(psr_outbox){0});
    psr_loan_begin(&loan, 1);
    psr_payload payload = psr_loan_payload(&loan, (psr_payload){.data = "abc", .bytes = 3}),
                standing = psr_loan_payload(NULL, (psr_payload){.data = "abc", .bytes = 3});
    assert_non_null(standing.release); /* lent, not copied */
    give_back(&standing);
    assert_int_equal(psr_loan_lent(&loan), 1);
    give_back(&payload);
    assert_int_equal(psr_loan_lent(&loan), 0);
}

static void a_payload_of_its_own_memory_is_lent_like_others(void **state)
{
    (void)state;
    psr_loan loan;
    psr_loan_init(&loan, &outbox);
    atomic_store(&told, 0);
    psr_payload payloads[3];
    for (size_t i = 0; i < 3; i++) { /* of no bytes too */
        void *memory;
        assert_ok(psr_loan_memory(&loan, 100 * i, &payloads[i], &memory));
        assert_ptr_equal(payloads[i].data, memory);
        assert_int_equal(payloads[i].bytes, 100 * i);
        assert_int_equal((uintptr_t)memory % sizeof(double), 0);
        memset(memory, (int)i, 100 * i);
    }
    assert_int_equal(psr_loan_lent(&loan), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&told), 0);
        give_back(&payloads[i]);
    }
    assert_int_equal(psr_loan_lent(&loan), 0);
    assert_int_equal(atomic_load(&told), 1);
}

enum { PAYLOADS = 10000 };

static void *give_all_back(void *context)
{
    psr_payload payload = psr_loan_payload(context, (psr_payload){.data = NULL, .bytes = 0});
    for (int i = 0; i < PAYLOADS; i++)
        give_back(&payload);
    return NULL;
}

static void threads_may_give_back_at_once_and_the_last_one_tells(void **state)
{
    (void)state;
    psr_loan loan;
    psr_loan_init(&loan, &outbox);
    atomic_store(&told, 0);
    psr_loan_begin(&loan, 2 * PAYLOADS);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, give_all_back, &loan), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(psr_loan_lent(&loan), 0);
    assert_int_equal(atomic_load(&told), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_lent_until_all_of_it_came_back),
        cmocka_unit_test(a_payload_of_its_own_memory_is_lent_like_others),
        cmocka_unit_test(who_does_not_ask_is_not_told),
        cmocka_unit_test(threads_may_give_back_at_once_and_the_last_one_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
