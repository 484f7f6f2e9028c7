/* Each operation over real sockets, with one rank to four: values against plain loops. The order of
 * folds and every algorithm are test_collectives' to hold; here the values are small integers,
 * whose sums are exact in any order. */
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
    expect_ok(psring_reduce(world, x, rank == root ? y : NULL, count, PSRING_FLOAT32, PSRING_SUM,
                            root, NULL, NULL));
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

/* Apart, in place, and started. */
static void scan(psring_group *world, int rank, size_t count)
{
    float *x = values(rank, count), *y = memory(count);
    expect_ok(psring_scan(world, x, y, count, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        expect(y[i] == sum(rank + 1, i) && x[i] == value(rank, i));
    psring_request *request = NULL;
    expect_ok(psring_scan(world, x, x, count, PSRING_FLOAT32, PSRING_SUM, NULL, &request));
    expect_ok(psring_wait(request, PSRING_FOREVER));
    for (size_t i = 0; i < count; i++)
        expect(x[i] == sum(rank + 1, i));
    psring_request_free(&request);
    free(x);
    free(y);
}

/* Rank 0 has no memory to receive in; then, in place, memory that is left alone. Persistent and by
 * name. */
static void exscan(psring_group *world, int rank, size_t count)
{
    float *x = values(rank, count), *y = rank > 0 ? memory(count) : NULL;
    expect_ok(psring_exscan(world, x, y, count, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    for (size_t i = 0; i < count && rank > 0; i++)
        expect(y[i] == sum(rank, i) && x[i] == value(rank, i));
    psring_request *request = NULL;
    expect_ok(psring_exscan(world, x, x, count, PSRING_FLOAT32, PSRING_SUM,
                            PSRING_CALL(.persistent = true, .algorithm = "chain"), &request));
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < count; i++)
            x[i] = value(rank, i);
        expect_ok(psring_start(request));
        expect_ok(psring_wait(request, PSRING_FOREVER));
        for (size_t i = 0; i < count; i++)
            expect(x[i] == (rank > 0 ? sum(rank, i) : value(0, i)));
    }
    expect(strcmp(psring_algorithm(request), "chain") == 0);
    psring_request_free(&request);
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
        expect_ok(
            psring_all_to_all_v(world, x, said ? each : NULL, x, each, PSRING_FLOAT32, NULL, NULL));
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
    expect_ok(psring_send(world, second, count, PSRING_FLOAT32, right, PSRING_TAG_MAX, NULL,
                          &requests[1]));
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
    expect_ok(psring_neighbor_exchange(world, sent, blocks, received, blocks, PSRING_FLOAT32, NULL,
                                       NULL));
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < count; i++)
            expect(y[b * count + i] == value(received[b].rank, i));
    free(x);
    free(y);
}

/* Tiles of two rows and three columns in a row of ranks: one column of each neighbour's, above and
 * below zeros; and back, where each value has been copied to those that it came to. */
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
    expect(psring_halo_exchange(world, &h, y, back, PSRING_FLOAT32, NULL, NULL) ==
           PSRING_ERR_USAGE);
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

#define OPERATION(name)                                                                            \
    static void name##_on_one_to_four_ranks(void **state)                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run_on_one_to_four_ranks(name);                                                            \
    }

OPERATION(all_reduce)
OPERATION(reduce)
OPERATION(reduce_scatter)
OPERATION(scan)
OPERATION(exscan)
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
    int16_t i16 = (int16_t)(INT16_MAX - rank);
    uint16_t u16 = (uint16_t)(UINT16_MAX - rank);
    uint32_t u32 = UINT32_MAX - (uint32_t)rank;
    uint64_t u64 = UINT64_MAX - (uint64_t)rank;
    expect_ok(psring_all_reduce(world, &d, &d, 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i8, &i8, 1, PSRING_INT8, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &u8, &u8, 1, PSRING_UINT8, PSRING_MAXIMUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i32, &i32, 1, PSRING_INT32, PSRING_MINIMUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &i64, &i64, 1, PSRING_INT64, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &half, &half, 1, PSRING_FLOAT16, PSRING_SUM, NULL, NULL));
    expect_ok(
        psring_all_reduce(world, &brain, &brain, 1, PSRING_BFLOAT16, PSRING_PRODUCT, NULL, NULL));
    expect(d == total && i8 == total && u8 == n && i32 == -n && i64 == (int64_t)total << 40);
    expect(half == 0x4200 && brain == 0x3f80); /* 3, 1 */
    expect_ok(psring_all_reduce(world, &i16, &i16, 1, PSRING_INT16, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &u16, &u16, 1, PSRING_UINT16, PSRING_MINIMUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &u32, &u32, 1, PSRING_UINT32, PSRING_SUM, NULL, NULL));
    expect_ok(psring_all_reduce(world, &u64, &u64, 1, PSRING_UINT64, PSRING_MAXIMUM, NULL, NULL));
    /* wrapped */
    expect(i16 == (int16_t)(n * INT16_MAX - n * (n - 1) / 2) && u16 == UINT16_MAX - (n - 1));
    expect(u32 == (uint32_t)-total && u64 == UINT64_MAX);
}

static void bits_and_truths(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    const int n = psring_size(world);
    uint32_t every = ~(1u << rank), any = 1u << rank, odd_ones = (1u << 16) | (1u << rank);
    int8_t all = (int8_t)(-1 - rank), one_not = (int8_t)(n - 1 - rank);
    float some = rank == 0 ? -0.0f : 3.5f, odd = 2.0f;
    (void)context;
    expect_ok(
        psring_all_reduce(world, &every, &every, 1, PSRING_UINT32, PSRING_BITWISE_AND, NULL, NULL));
    expect_ok(
        psring_all_reduce(world, &any, &any, 1, PSRING_UINT32, PSRING_BITWISE_OR, NULL, NULL));
    expect_ok(psring_all_reduce(world, &odd_ones, &odd_ones, 1, PSRING_UINT32, PSRING_BITWISE_XOR,
                                NULL, NULL));
    expect_ok(psring_all_reduce(world, &all, &all, 1, PSRING_INT8, PSRING_LOGICAL_AND, NULL, NULL));
    expect_ok(psring_all_reduce(world, &one_not, &one_not, 1, PSRING_INT8, PSRING_LOGICAL_AND, NULL,
                                NULL));
    expect_ok(
        psring_all_reduce(world, &some, &some, 1, PSRING_FLOAT32, PSRING_LOGICAL_OR, NULL, NULL));
    expect_ok(
        psring_all_reduce(world, &odd, &odd, 1, PSRING_FLOAT32, PSRING_LOGICAL_XOR, NULL, NULL));
    const uint32_t ranks = (1u << n) - 1;
    expect(every == ~ranks && any == ranks && odd_ones == (ranks | (n % 2 != 0 ? 1u << 16 : 0)));
    expect(all == 1 && one_not == 0 && some == (n > 1) && odd == n % 2);
}

static void bitwise_folds_keep_bits_and_logical_ones_give_0_or_1(void **state)
{
    (void)state;
    ranks_run(1, bits_and_truths, NULL);
    ranks_run(4, bits_and_truths, NULL);
    ranks_run(3, bits_and_truths, NULL);
}

/* Ranks 0 and 2 have the least value, ranks 1 and 3 the greatest; indices go down. */
static void places(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    const int index = -rank;
    const bool odd = rank % 2 != 0;
    psring_float32_int32 a = {odd ? 2.5f : -1.5f, index};
    psring_float64_int32 b = {odd ? 1e300 : -1e300, index};
    psring_int16_int32 c = {odd ? INT16_MAX : INT16_MIN, index};
    psring_int32_int32 d = {odd ? INT32_MAX : INT32_MIN, index};
    psring_int64_int32 e = {odd ? INT64_MAX : INT64_MIN, index}, least;
    psring_float64_int32 nothing = {rank == 1 ? 0.0 / 0.0 : -1.0, index};
    (void)context;
    expect_ok(psring_all_reduce(world, &a, &a, 1, PSRING_FLOAT32_INT32, PSRING_MINLOC, NULL, NULL));
    expect_ok(psring_all_reduce(world, &b, &b, 1, PSRING_FLOAT64_INT32, PSRING_MAXLOC, NULL, NULL));
    expect_ok(psring_all_reduce(world, &c, &c, 1, PSRING_INT16_INT32, PSRING_MINLOC, NULL, NULL));
    expect_ok(psring_all_reduce(world, &d, &d, 1, PSRING_INT32_INT32, PSRING_MAXLOC, NULL, NULL));
    expect_ok(psring_scan(world, &e, &least, 1, PSRING_INT64_INT32, PSRING_MINLOC, NULL, NULL));
    expect_ok(psring_all_reduce(world, &e, &e, 1, PSRING_INT64_INT32, PSRING_MAXLOC, NULL, NULL));
    expect_ok(psring_all_reduce(world, &nothing, &nothing, 1, PSRING_FLOAT64_INT32, PSRING_MINLOC,
                                NULL, NULL));
    expect(a.value == -1.5f && a.index == -2 && b.value == 1e300 && b.index == -3);
    expect(c.value == INT16_MIN && c.index == -2 && d.value == INT32_MAX && d.index == -3);
    expect(e.value == INT64_MAX && e.index == -3);
    expect(least.value == INT64_MIN && least.index == (rank < 2 ? 0 : -2));
    expect(nothing.value != nothing.value && nothing.index == -1);
}

static void minloc_and_maxloc_find_whose_it_is(void **state)
{
    (void)state;
    ranks_run(4, places, NULL);
}

static void refused_folds(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    static const struct {
        psring_type type;
        psring_op op;
        const char *line;
    } refused[] = {
        {PSRING_UINT16, PSRING_MEAN, "all_reduce: there is no mean of uint16"},
        {PSRING_FLOAT64, PSRING_BITWISE_AND, "all_reduce: there is no bitwise_and of float64"},
        {PSRING_INT64_INT32, PSRING_SUM, "all_reduce: there is no sum of int64_int32"},
        {PSRING_FLOAT32_INT32, PSRING_LOGICAL_OR,
         "all_reduce: there is no logical_or of float32_int32"},
        {PSRING_INT32, PSRING_MAXLOC, "all_reduce: there is no maxloc of int32"},
    };
    double x[2] = {0};
    (void)rank, (void)context;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        expect(psring_all_reduce(world, x, x, 1, refused[i].type, refused[i].op, NULL, NULL) ==
               PSRING_ERR_USAGE);
        expect(strcmp(psring_err_detail(), refused[i].line) == 0);
    }
    expect(psring_scan(world, x, x, 1, PSRING_FLOAT64, PSRING_MEAN, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(strcmp(psring_err_detail(), "scan: there is no mean of a prefix") == 0);
    expect(psring_scan(world, NULL, x, 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_scan(world, x, x + 1, 2, PSRING_FLOAT64, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    /* A pair is aligned as its value or index is. */
    expect(psring_all_reduce(world, (char *)x + 2, (char *)x + 2, 1, PSRING_INT16_INT32,
                             PSRING_MINLOC, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, (char *)x + 4, (char *)x + 4, 1, PSRING_FLOAT64_INT32,
                             PSRING_MINLOC, NULL, NULL) == PSRING_ERR_USAGE);
    expect_ok(psring_all_reduce(world, (char *)x + 4, (char *)x + 4, 1, PSRING_INT16_INT32,
                                PSRING_MINLOC, NULL, NULL));
}

static void a_fold_that_a_type_does_not_have_is_refused_by_both_names(void **state)
{
    (void)state;
    ranks_run(2, refused_folds, NULL);
}

static void every_type_is_its_own(void **state)
{
    (void)state;
    ranks_run(3, every_type, NULL);
}

/* ---- algorithms ---- */

static void named(psring_comm **comm, int rank, void *context)
{
    static const char *const names[] = {"ring", "direct", "doubling", "halving", "root"};
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
    expect(psring_all_reduce(world, &x, &x, 1, PSRING_INT32, PSRING_SUM,
                             PSRING_CALL(.algorithm = "bruck"), NULL) == PSRING_ERR_USAGE);
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
        cmocka_unit_test(scan_on_one_to_four_ranks),
        cmocka_unit_test(exscan_on_one_to_four_ranks),
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
        cmocka_unit_test(bitwise_folds_keep_bits_and_logical_ones_give_0_or_1),
        cmocka_unit_test(minloc_and_maxloc_find_whose_it_is),
        cmocka_unit_test(a_fold_that_a_type_does_not_have_is_refused_by_both_names),
        cmocka_unit_test(algorithms_are_taken_by_name),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
