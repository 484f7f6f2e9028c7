/* Each operation over real sockets, with one rank to four: values against plain loops. The order of folds and every algorithm are
 * test_collectives' to hold; here the values are small integers, whose sums are exact in any order. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { LARGE = 300007 /* float32: several slices */ };
static const size_t counts[] = {0, 1, 1001, LARGE};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 11);
}

static float *memory(size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    expect(x != NULL);
    return x;
}

static float *values(int rank, size_t count)
{
    float *x = memory(count);
    for (size_t i = 0; i < count; i++)
        x[i] = value(rank, i);
    return x;
}

static float sum(int ranks, size_t i)
{
    float total = 0;
    for (int r = 0; r < ranks; r++)
        total += value(r, i);
    return total;
}

/* ---- folds ---- */

static void all_reduce(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = values(rank, count), *y = memory(count);
    expect_ok(psring_all_reduce(world, x, y, count, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(y[i] == sum(n, i) && x[i] == value(rank, i));
    expect_ok(psring_all_reduce(world, x, x, count, PSRING_FLOAT32, PSRING_MEAN, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(x[i] == sum(n, i) / (float)n);
    free(x);
    free(y);
}

static void reduce(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world), root = n - 1;
    float *x = values(rank, count), *y = memory(count);
    expect_ok(psring_reduce(world, x, rank == root ? y : NULL, count, PSRING_FLOAT32, PSRING_SUM, root, NULL,
                            NULL));
    for (size_t i = 0; i < count && rank == root; i++)
        expect(y[i] == sum(n, i));
    free(x);
    free(y);
}

static void reduce_scatter(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = values(rank, (size_t)n * count), *y = memory(count);
    expect_ok(psring_reduce_scatter(world, x, y, count, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(y[i] == sum(n, (size_t)rank * count + i));
    free(x);
    free(y);
}

/* ---- moves ---- */

static void all_gather(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = values(rank, count), *y = memory((size_t)n * count);
    expect_ok(psring_all_gather(world, x, y, count, PSRING_FLOAT32, NULL, NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            expect(y[(size_t)r * count + i] == value(r, i));
    free(x);
    free(y);
}

/* Rank r has r values more than count. */
static void all_gather_of_varying_counts(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    size_t each[RANKS_MAX], total = 0, at = 0;
    for (int r = 0; r < n; r++)
        total += each[r] = count + (size_t)r;
    float *x = values(rank, each[rank]), *y = memory(total);
    expect_ok(psring_all_gather(world, x, y, 0, PSRING_FLOAT32, PSRING_CALL(.counts = each), NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < each[r]; i++)
            expect(y[at++] == value(r, i));
    free(x);
    free(y);
}

static void broadcast(psring_group *world, int rank, size_t count)
{
    int root = psring_size(world) / 2;
    float *x = values(rank, count);
    expect_ok(psring_broadcast(world, x, count, PSRING_FLOAT32, root, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(x[i] == value(root, i));
    free(x);
}

static void gather_and_scatter(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world), root = n - 1;
    float *x = values(rank, count), *all = rank == root ? memory((size_t)n * count) : NULL;
    expect_ok(psring_gather(world, x, all, count, PSRING_FLOAT32, root, NULL, NULL));
    for (int r = 0; r < n && rank == root; r++)
        for (size_t i = 0; i < count; i++) {
            expect(all[(size_t)r * count + i] == value(r, i));
            all[(size_t)r * count + i] += 100;
        }
    expect_ok(psring_scatter(world, all, x, count, PSRING_FLOAT32, root, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(x[i] == value(rank, i) + 100);
    free(x);
    free(all);
}

static void all_to_all(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = memory((size_t)n * count), *y = memory((size_t)n * count);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            x[(size_t)r * count + i] = value(rank * n + r, i);
    expect_ok(psring_all_to_all(world, x, y, count, PSRING_FLOAT32, NULL, NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            expect(y[(size_t)r * count + i] == value(r * n + rank, i));
    free(x);
    free(y);
}

static void all_to_all_in_place(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = memory((size_t)n * count);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            x[(size_t)r * count + i] = value(rank * n + r, i);
    expect_ok(psring_all_to_all(world, x, x, count, PSRING_FLOAT32, NULL, NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < count; i++)
            expect(x[(size_t)r * count + i] == value(r * n + rank, i));
    free(x);
}

/* Between a and b go count * (a + b) values each way, which may be none. */
static void all_to_all_of_varying_counts_in_place(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    size_t each[RANKS_MAX], all = 0, at = 0;
    for (int r = 0; r < n; r++)
        all += each[r] = count * (size_t)(rank + r) / 4;
    float *x = memory(all);
    for (int said = 0; said < 2; said++, at = 0) {
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < each[r]; i++)
                x[at++] = value(rank * n + r, i);
        expect_ok(psring_all_to_all_v(world, x, said ? each : NULL, x, each, PSRING_FLOAT32, NULL, NULL));
        at = 0;
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < each[r]; i++)
                expect(x[at++] == value(r * n + rank, i));
    }
    free(x);
}

/* From a to b go count + a - b + n values. */
static void all_to_all_of_varying_counts(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    size_t sent[RANKS_MAX], received[RANKS_MAX], sends = 0, receives = 0, at = 0;
    for (int r = 0; r < n; r++) {
        sends += sent[r] = count + (size_t)(n + rank - r);
        receives += received[r] = count + (size_t)(n + r - rank);
    }
    float *x = memory(sends), *y = memory(receives);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < sent[r]; i++)
            x[at++] = value(rank * n + r, i);
    expect_ok(psring_all_to_all_v(world, x, sent, y, received, PSRING_FLOAT32, NULL, NULL));
    at = 0;
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < received[r]; i++)
            expect(y[at++] == value(r * n + rank, i));
    free(x);
    free(y);
}

/* ---- messages and neighbours ---- */

/* Round the ring, two tags in the other order than they were sent. */
static void messages(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world), left = (rank + n - 1) % n, right = (rank + 1) % n;
    if (n == 1)
        return;
    psring_request *requests[2];
    float *first = values(rank, count), *second = values(rank + 5, count), *y = memory(count);
    expect_ok(psring_send(world, first, count, PSRING_FLOAT32, right, 1, NULL, &requests[0]));
    expect_ok(psring_send(world, second, count, PSRING_FLOAT32, right, PSRING_TAG_MAX, NULL, &requests[1]));
    expect_ok(psring_receive(world, y, count, PSRING_FLOAT32, left, PSRING_TAG_MAX, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(y[i] == value(left + 5, i));
    expect_ok(psring_receive(world, y, count, PSRING_FLOAT32, left, 1, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(y[i] == value(left, i));
    for (int k = 0; k < 2; k++) {
        expect_ok(psring_wait(requests[k], PSRING_FOREVER));
        psring_request_free(&requests[k]);
    }
    free(first);
    free(second);
    free(y);
}

/* Ranks in a row: the ends have one neighbour each, and one alone has none. */
static void neighbors(psring_group *world, int rank, size_t count)
{
    int n = psring_size(world);
    float *x = values(rank, count), *y = memory(2 * count);
    psring_block sent[2], received[2];
    size_t blocks = 0;
    for (int side = -1; side <= 1; side += 2) {
        if (rank + side < 0 || rank + side >= n)
            continue;
        sent[blocks] = (psring_block){rank + side, x, {1, 1, 1, count}, {0}};
        received[blocks] = (psring_block){rank + side, y + blocks * count, {1, 1, 1, count}, {0}};
        blocks++;
    }
    expect_ok(psring_neighbor_exchange(world, sent, blocks, received, blocks, PSRING_FLOAT32, NULL, NULL));
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < count; i++)
            expect(y[b * count + i] == value(received[b].rank, i));
    free(x);
    free(y);
}

/* Tiles of two rows and three columns in a row of ranks: one column of each neighbour's, above and below zeros; and back, where each value
 * has been copied to those that it came to. */
static void halo(psring_group *world, int rank, size_t count)
{
    enum { ROWS = 2, COLUMNS = 3, WIDE = COLUMNS + 2, HIGH = ROWS + 2 };
    int n = psring_size(world);
    float x[ROWS][COLUMNS], y[HIGH][WIDE], back[ROWS][COLUMNS];
    psring_halo h = {.size = sizeof h,
                     .shape = {1, 1, ROWS, COLUMNS},
                     .send_lengths = {1, 1, 1, 1},
                     .receive_lengths = {1, 1, 1, 1}};
    (void)count;
    for (int d = 0; d < 8; d++)
        h.send_ranks[d] = h.receive_ranks[d] = PSRING_NO_RANK;
    if (rank + 1 < n)
        h.send_ranks[2] = h.receive_ranks[2] = rank + 1;
    if (rank > 0)
        h.send_ranks[6] = h.receive_ranks[6] = rank - 1;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            x[i][k] = (float)(100 * (rank + 1) + 10 * i + k);
    expect_ok(psring_halo_exchange(world, &h, x, y, PSRING_FLOAT32, NULL, NULL));
    for (int i = 0; i < HIGH; i++)
        for (int k = 0; k < WIDE; k++) {
            int from = k == 0 ? rank - 1 : k == WIDE - 1 ? rank + 1 : rank;
            int column = k == 0 ? COLUMNS - 1 : k == WIDE - 1 ? 0 : k - 1;
            bool there = i > 0 && i < HIGH - 1 && from >= 0 && from < n;
            expect(y[i][k] == (there ? (float)(100 * (from + 1) + 10 * (i - 1) + column) : 0));
        }
    h.back = true;
    expect_ok(psring_halo_exchange(world, &h, y, back, PSRING_FLOAT32, NULL, NULL));
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) {
            int copies = 1 + (k == 0 && rank > 0) + (k == COLUMNS - 1 && rank + 1 < n);
            expect(back[i][k] == (float)copies * x[i][k]);
        }
    h.send_lengths[0] = 3; /* a tile has two rows */
    expect(psring_halo_exchange(world, &h, y, back, PSRING_FLOAT32, NULL, NULL) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "the top edge to send has 3 rows, and the tile 2") != NULL);
}

/* ---- all ---- */

typedef void one_operation(psring_group *world, int rank, size_t count);

static void for_each_count(psring_comm **comm, int rank, void *context)
{
    one_operation *const *operation = context;
    for (size_t c = 0; c < COUNTS; c++)
        (*operation)(psring_world(*comm), rank, counts[c]);
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
}

static void run_on_one_to_four_ranks(one_operation *operation)
{
    for (int n = 1; n <= 4; n++)
        ranks_run(n, for_each_count, &operation);
}

#define OPERATION(name)                                                                                      \
    static void name##_on_one_to_four_ranks(void **state)                                                    \
    {                                                                                                        \
        (void)state;                                                                                         \
        run_on_one_to_four_ranks(name);                                                                      \
    }

OPERATION(all_reduce)
OPERATION(reduce)
OPERATION(reduce_scatter)
OPERATION(all_gather)
OPERATION(all_gather_of_varying_counts)
OPERATION(broadcast)
OPERATION(gather_and_scatter)
OPERATION(all_to_all)
OPERATION(all_to_all_of_varying_counts)
OPERATION(all_to_all_in_place)
OPERATION(all_to_all_of_varying_counts_in_place)
OPERATION(messages)
OPERATION(neighbors)
OPERATION(halo)

/* ---- types ---- */

static void every_type(psring_comm **comm, int rank, void *context)
{
    (void)context;
    psring_group *world = psring_world(*comm);
    int n = psring_size(world), total = n * (n + 1) / 2;
    double d = rank + 1;
    int8_t i8 = (int8_t)(rank + 1);
    uint8_t u8 = (uint8_t)(rank + 1);
    int32_t i32 = -(rank + 1);
    int64_t i64 = (int64_t)(rank + 1) << 40;
    uint16_t half = 0x3c00, brain = 0x3f80; /* 1 */
    expect_ok(psring_all_reduce(world, &d, &d, 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i8, &i8, 1, PSRING_INT8, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &u8, &u8, 1, PSRING_UINT8, PSRING_MAXIMUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i32, &i32, 1, PSRING_INT32, PSRING_MINIMUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i64, &i64, 1, PSRING_INT64, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &half, &half, 1, PSRING_FLOAT16, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &brain, &brain, 1, PSRING_BFLOAT16, PSRING_PRODUCT, NULL, NULL));
    expect(d == total && i8 == total && u8 == n && i32 == -n && i64 == (int64_t)total << 40);
    expect(half == 0x4200 && brain == 0x3f80); /* 3, 1 */
}

static void every_type_is_its_own(void **state)
{
    (void)state;
    ranks_run(3, every_type, NULL);
}

/* ---- algorithms ---- */

static void named(psring_comm **comm, int rank, void *context)
{
    static const char *const names[] = {"ring", "direct", "doubling", "halving"};
    psring_group *world = psring_world(*comm);
    (void)context;
    for (size_t a = 0; a < sizeof names / sizeof names[0]; a++) {
        psring_request *request = NULL;
        int32_t x = rank;
        expect_ok(psring_all_reduce(world, &x, &x, 1, PSRING_INT32, PSRING_SUM,
                                    PSRING_CALL(.algorithm = names[a]), &request));
        expect_ok(psring_wait(request, PSRING_FOREVER));
        expect(x == 3 && strcmp(psring_algorithm(request), names[a]) == 0);
        psring_request_free(&request);
    }
    int32_t x = 0;
    expect(psring_all_reduce(world, &x, &x, 1, PSRING_INT32, PSRING_SUM, PSRING_CALL(.algorithm = "bruck"),
                             NULL) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "ring") != NULL); /* it says which there are */
}

static void algorithms_are_taken_by_name(void **state)
{
    (void)state;
    ranks_run(3, named, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_on_one_to_four_ranks),
        cmocka_unit_test(reduce_on_one_to_four_ranks),
        cmocka_unit_test(reduce_scatter_on_one_to_four_ranks),
        cmocka_unit_test(all_gather_on_one_to_four_ranks),
        cmocka_unit_test(all_gather_of_varying_counts_on_one_to_four_ranks),
        cmocka_unit_test(broadcast_on_one_to_four_ranks),
        cmocka_unit_test(gather_and_scatter_on_one_to_four_ranks),
        cmocka_unit_test(all_to_all_on_one_to_four_ranks),
        cmocka_unit_test(all_to_all_of_varying_counts_on_one_to_four_ranks),
        cmocka_unit_test(all_to_all_in_place_on_one_to_four_ranks),
        cmocka_unit_test(all_to_all_of_varying_counts_in_place_on_one_to_four_ranks),
        cmocka_unit_test(messages_on_one_to_four_ranks),
        cmocka_unit_test(neighbors_on_one_to_four_ranks),
        cmocka_unit_test(halo_on_one_to_four_ranks),
        cmocka_unit_test(every_type_is_its_own),
        cmocka_unit_test(algorithms_are_taken_by_name),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
