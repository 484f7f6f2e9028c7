/* Messages of a rank to itself, alone and among others: matched by tag, in order, and never waited
 * for without end. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { LARGE = 300007 /* int32: several slices, were it sent */, SHORT_MS = 2500 };

static void end(psring_request **request)
{
    expect_ok(psring_wait(*request, PSRING_FOREVER));
    psring_request_free(request);
}

/* Either end may be the first, and one of them may wait in its call. */
static void pass(psring_group *world, int self, size_t count, bool sends_first)
{
    int32_t *x = calloc(count + 1, sizeof *x), *y = calloc(count + 1, sizeof *y);
    psring_request *request = NULL;
    expect(x != NULL && y != NULL);
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)(i * 7 + (size_t)self);
    if (sends_first) {
        expect_ok(psring_send(world, x, count, PSRING_INT32, self, 4, NULL, &request));
        expect(psring_test(request) == PSRING_ERR_BUSY);
        expect_ok(psring_receive(world, y, count, PSRING_INT32, self, 4, NULL, NULL));
    } else {
        expect_ok(psring_receive(world, y, count, PSRING_INT32, self, 4, NULL, &request));
        expect(psring_test(request) == PSRING_ERR_BUSY);
        expect_ok(psring_send(world, x, count, PSRING_INT32, self, 4, NULL, NULL));
    }
    end(&request);
    expect(memcmp(x, y, count * sizeof *x) == 0);
    free(x);
    free(y);
}

/* Two of one tag come in their order; another tag between them is not waited for. */
static void pass_by_tag(psring_group *world, int self)
{
    int32_t sent[3] = {1, 2, 3}, got[3] = {0};
    psring_request *requests[6] = {NULL};
    static const uint32_t tags[3] = {5, 6, 5};
    for (int k = 0; k < 3; k++)
        expect_ok(psring_send(world, &sent[k], 1, PSRING_INT32, self, tags[k], NULL, &requests[k]));
    expect_ok(psring_receive(world, &got[1], 1, PSRING_INT32, self, 6, NULL, &requests[3]));
    expect_ok(psring_receive(world, &got[0], 1, PSRING_INT32, self, 5, NULL, &requests[4]));
    expect_ok(psring_receive(world, &got[2], 1, PSRING_INT32, self, 5, NULL, &requests[5]));
    for (int k = 0; k < 6; k++)
        end(&requests[k]);
    expect(got[0] == 1 && got[1] == 2 && got[2] == 3);
}

static void pass_again(psring_group *world, int self)
{
    int32_t x = 0, y = 0;
    psring_request *send = NULL, *receive = NULL;
    const psring_call *again = PSRING_CALL(.persistent = true);
    expect_ok(psring_send(world, &x, 1, PSRING_INT32, self, 7, again, &send));
    expect_ok(psring_receive(world, &y, 1, PSRING_INT32, self, 7, again, &receive));
    for (int32_t round = 1; round <= 10; round++) {
        x = round;
        expect_ok(psring_start(round % 2 == 0 ? send : receive));
        expect_ok(psring_start(round % 2 == 0 ? receive : send));
        expect_ok(psring_wait(send, PSRING_FOREVER));
        expect_ok(psring_wait(receive, PSRING_FOREVER));
        expect(y == round);
    }
    psring_request_free(&send);
    psring_request_free(&receive);
}

static void be_with_oneself(psring_comm **comm, int rank, void *context)
{
    static const size_t counts[] = {0, 1, LARGE};
    psring_group *world = psring_world(*comm);
    (void)context;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int sends_first = 0; sends_first < 2; sends_first++)
            pass(world, rank, counts[c], sends_first);
    pass_by_tag(world, rank);
    pass_again(world, rank);
    int n = psring_size(world); /* beside messages of the same tag to and from others */
    int32_t own = rank, other = rank, from_self = -1, from_left = -1;
    psring_request *requests[2];
    expect_ok(psring_send(world, &own, 1, PSRING_INT32, rank, 8, NULL, &requests[0]));
    expect_ok(psring_send(world, &other, 1, PSRING_INT32, (rank + 1) % n, 8, NULL, &requests[1]));
    expect_ok(psring_receive(world, n > 1 ? &from_left : &from_self, 1, PSRING_INT32,
                             (rank + n - 1) % n, 8, NULL, NULL));
    expect_ok(psring_receive(world, n > 1 ? &from_self : &from_left, 1, PSRING_INT32, rank, 8, NULL,
                             NULL));
    end(&requests[0]);
    end(&requests[1]);
    expect(from_self == rank && from_left == (rank + n - 1) % n);
}

static void a_message_to_oneself_arrives(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++)
        ranks_run(n, be_with_oneself, NULL);
}

/* ---- what does not fit, and what never comes ---- */

static void differ(psring_comm **comm, int rank, void *context)
{
    int32_t x[3] = {0};
    psring_group *world = psring_world(*comm);
    psring_request *request = NULL;
    psring_failure failure = {.size = sizeof failure};
    (void)context;
    if (rank == 0) {
        expect_ok(psring_send(world, x, 3, PSRING_INT32, 0, 1, NULL, &request));
        expect(psring_receive(world, x, 2, PSRING_INT32, 0, 1, NULL, NULL) == PSRING_ERR_MISMATCH);
    } else {
        expect(psring_barrier(world, NULL, NULL) == PSRING_ERR_MISMATCH);
    }
    expect_ok(psring_group_failure(world, &failure));
    expect(failure.rank == 0 && failure.other == 0);
    expect(strstr(failure.line, "rank 0 calls send(count 3, int32, direct), rank 0 calls "
                                "receive(count 2, int32, direct)") != NULL);
}

static void a_message_to_oneself_is_of_one_count_and_type(void **state)
{
    (void)state;
    ranks_run(1, differ, NULL);
    ranks_run(2, differ, NULL);
}

static void wait_for_oneself(psring_comm **comm, int rank, void *context)
{
    const bool sends = *(const bool *)context;
    int32_t x = 0;
    psring_group *world = psring_world(*comm);
    psring_failure failure = {.size = sizeof failure};
    const psring_call *call = PSRING_CALL(.deadline_ms = SHORT_MS);
    if (rank > 0)
        expect(psring_barrier(world, NULL, NULL) == PSRING_ERR_TIMEOUT);
    else if (sends)
        expect(psring_send(world, &x, 1, PSRING_INT32, 0, 9, call, NULL) == PSRING_ERR_TIMEOUT);
    else
        expect(psring_receive(world, &x, 1, PSRING_INT32, 0, 9, call, NULL) == PSRING_ERR_TIMEOUT);
    expect_ok(psring_group_failure(world, &failure));
    expect(failure.rank == 0);
    expect(strstr(failure.line,
                  sends ? "in send to rank 0, tag 9" : "in receive from rank 0, tag 9") != NULL);
    expect(strstr(failure.line, "circle") == NULL);
    if (rank == 0)
        printf("# %s\n", failure.line);
}

static void who_waits_for_itself_is_named(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++)
        for (int sends = 0; sends < 2; sends++)
            ranks_run(n, wait_for_oneself, &(bool){sends});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_to_oneself_arrives),
        cmocka_unit_test(a_message_to_oneself_is_of_one_count_and_type),
        cmocka_unit_test(who_waits_for_itself_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
