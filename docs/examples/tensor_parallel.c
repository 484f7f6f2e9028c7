/* Tensor parallelism: a pair of layers, y = relu(x a) b, in slices. Rank r has some columns of a
 * and the same rows of b, so
 *   y = sum over ranks of relu(x a_r) b_r
 * and nobody needs another rank's weights. Between such pairs each rank has some rows of x and of
 * y:
 *   forward:  all-gather of x's rows; the ranks' parts of y are summed and cut into rows at once by
 *             a reduce-scatter
 *   backward: the same with the gradients: all-gather of dy's rows, reduce-scatter of the parts of
 *             dx
 * Slices need not be equal. Each rank computes the unsliced pair too, and compares. Build and run:
 *   cc tensor_parallel.c -o tensor_parallel $(pkg-config --cflags --libs psring) -lm &&
 *     ./run_ranks 4 ./tensor_parallel */
#include <math.h>
#include <psring/psring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 22, INPUTS = 40, HIDDEN = 50, OUTPUTS = 30, RANKS_MAX = 16 };
enum { Y, DX, DA, DB, RESULTS };
static const char *const RESULT_NAMES[RESULTS] = {"y", "dx", "da", "db"};
static const float TOLERANCE = 1e-5F;

/* A pair of layers whose middle has `hidden` columns: HIDDEN of the unsliced one, some of a slice.
 * Gradients are called d. */
typedef struct pair {
    int hidden;
    float x[ROWS * INPUTS], dx[ROWS * INPUTS];
    float a[INPUTS * HIDDEN], da[INPUTS * HIDDEN]; /* [INPUTS][hidden] */
    float h[ROWS * HIDDEN], dh[ROWS * HIDDEN];     /* [ROWS][hidden]: relu(x a) */
    float b[HIDDEN * OUTPUTS], db[HIDDEN * OUTPUTS];
    float y[ROWS * OUTPUTS], dy[ROWS * OUTPUTS];
} pair;

/* Where rank's part of `count` things begins; it ends where the next one's begins. */
static int part_begin(int count, int rank, int ranks)
{
    return count * rank / ranks;
}

/* From -1 to 1; the same numbers on every rank. */
static void fill(float *values, int count, float scale, uint64_t *state)
{
    for (int i = 0; i < count; i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        values[i] = scale * ((float)(*state >> 40) / (float)(1 << 23) - 1);
    }
}

/* c[rows][columns] = a[rows][inner] b[inner][columns]. A matrix that is to be taken transposed is
 * given with its strides exchanged: element (i, k) of a is a[i * a_row + k * a_column], and so of
 * b. */
static void multiply(float *c, int rows, int columns, int inner, const float *a, int a_row,
                     int a_column, const float *b, int b_row, int b_column)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float sum = 0;
            for (int k = 0; k < inner; k++)
                sum += a[i * a_row + k * a_column] * b[k * b_row + j * b_column];
            c[i * columns + j] = sum;
        }
}

static void forward(pair *p)
{
    multiply(p->h, ROWS, p->hidden, INPUTS, p->x, INPUTS, 1, p->a, p->hidden, 1);
    for (int i = 0; i < ROWS * p->hidden; i++)
        p->h[i] = fmaxf(p->h[i], 0);
    multiply(p->y, ROWS, OUTPUTS, p->hidden, p->h, p->hidden, 1, p->b, OUTPUTS, 1);
}

static void backward(pair *p)
{
    multiply(p->db, p->hidden, OUTPUTS, ROWS, p->h, 1, p->hidden, p->dy, OUTPUTS, 1);
    multiply(p->dh, ROWS, p->hidden, OUTPUTS, p->dy, OUTPUTS, 1, p->b, 1, OUTPUTS);
    for (int i = 0; i < ROWS * p->hidden; i++)
        p->dh[i] = p->h[i] > 0 ? p->dh[i] : 0;
    multiply(p->da, INPUTS, p->hidden, ROWS, p->x, 1, INPUTS, p->dh, p->hidden, 1);
    multiply(p->dx, ROWS, INPUTS, p->hidden, p->dh, p->hidden, 1, p->a, 1, p->hidden);
}

static void make_whole(pair *whole)
{
    uint64_t random = 1;
    whole->hidden = HIDDEN;
    fill(whole->x, ROWS * INPUTS, 1, &random);
    fill(whole->a, INPUTS * HIDDEN, 1 / sqrtf(INPUTS), &random);
    fill(whole->b, HIDDEN * OUTPUTS, 1 / sqrtf(HIDDEN), &random);
    fill(whole->dy, ROWS * OUTPUTS, 1, &random);
}

/* Columns of a and rows of b, from `first`. */
static void take_slice(pair *slice, const pair *whole, int first, int hidden)
{
    slice->hidden = hidden;
    for (int i = 0; i < INPUTS; i++)
        for (int j = 0; j < hidden; j++)
            slice->a[i * hidden + j] = whole->a[i * HIDDEN + first + j];
    for (int i = 0; i < hidden * OUTPUTS; i++)
        slice->b[i] = whole->b[first * OUTPUTS + i];
}

/* x_rows, dy_rows: what this rank has of x and dy; y_rows and dx_rows are set. Values a rank are
 * rows a rank times columns. */
static psring_err run_slice(pair *slice, psring_group *world, const float *x_rows,
                            const float *dy_rows, float *y_rows, float *dx_rows)
{
    int rank = psring_rank(world), ranks = psring_size(world);
    size_t input_counts[RANKS_MAX], output_counts[RANKS_MAX];
    for (int r = 0; r < ranks; r++) {
        int rows = part_begin(ROWS, r + 1, ranks) - part_begin(ROWS, r, ranks);
        input_counts[r] = (size_t)(rows * INPUTS);
        output_counts[r] = (size_t)(rows * OUTPUTS);
    }
    const psring_call *of_inputs = PSRING_CALL(.counts = input_counts);
    const psring_call *of_outputs = PSRING_CALL(.counts = output_counts);

    psring_err err = psring_all_gather(world, x_rows, slice->x, input_counts[rank], PSRING_FLOAT32,
                                       of_inputs, NULL);
    if (err != PSRING_OK)
        return err;
    forward(slice);
    err = psring_reduce_scatter(world, slice->y, y_rows, output_counts[rank], PSRING_FLOAT32,
                                PSRING_SUM, of_outputs, NULL);
    if (err == PSRING_OK)
        err = psring_all_gather(world, dy_rows, slice->dy, output_counts[rank], PSRING_FLOAT32,
                                of_outputs, NULL);
    if (err != PSRING_OK)
        return err;
    backward(slice);
    return psring_reduce_scatter(world, slice->dx, dx_rows, input_counts[rank], PSRING_FLOAT32,
                                 PSRING_SUM, of_inputs, NULL);
}

/* The largest |part - whole|, of `rows` rows of `columns` values; whole's rows are whole_row values
 * apart. NAN: there is one. */
static float difference(const float *part, const float *whole, int rows, int columns, int whole_row)
{
    float largest = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float d = fabsf(part[i * columns + j] - whole[i * whole_row + j]);
            if (isnan(d))
                return d;
            largest = fmaxf(largest, d);
        }
    return largest;
}

static psring_err compare(psring_group *world, pair *whole, pair *slice, bool *ret_equal)
{
    int rank = psring_rank(world), ranks = psring_size(world);
    int first_row = part_begin(ROWS, rank, ranks),
        rows = part_begin(ROWS, rank + 1, ranks) - first_row;
    int first = part_begin(HIDDEN, rank, ranks),
        hidden = part_begin(HIDDEN, rank + 1, ranks) - first;
    float y_rows[ROWS * OUTPUTS], dx_rows[ROWS * INPUTS], differences[RESULTS];

    if (ranks > RANKS_MAX) {
        fprintf(stderr, "at most %d ranks\n", RANKS_MAX);
        *ret_equal = false;
        return PSRING_OK;
    }
    make_whole(whole);
    take_slice(slice, whole, first, hidden);
    psring_err err = run_slice(slice, world, whole->x + first_row * INPUTS,
                               whole->dy + first_row * OUTPUTS, y_rows, dx_rows);
    if (err != PSRING_OK)
        return err;
    forward(whole);
    backward(whole);
    differences[Y] = difference(y_rows, whole->y + first_row * OUTPUTS, rows, OUTPUTS, OUTPUTS);
    differences[DX] = difference(dx_rows, whole->dx + first_row * INPUTS, rows, INPUTS, INPUTS);
    differences[DA] = difference(slice->da, whole->da + first, INPUTS, hidden, HIDDEN);
    differences[DB] = difference(slice->db, whole->db + first * OUTPUTS, hidden, OUTPUTS, OUTPUTS);
    err = psring_all_reduce(world, differences, differences, RESULTS, PSRING_FLOAT32,
                            PSRING_MAXIMUM, NULL, NULL);
    bool equal = true;
    for (int i = 0; err == PSRING_OK && i < RESULTS; i++) {
        if (rank == 0)
            printf("%s: differs from the unsliced one by at most %g\n", RESULT_NAMES[i],
                   differences[i]);
        equal = equal && differences[i] <= TOLERANCE; /* a NaN is not */
    }
    if (err == PSRING_OK)
        *ret_equal = equal;
    return err;
}

int main(void)
{
    pair *both = calloc(2, sizeof *both); /* the unsliced one, and this rank's slice */
    if (both == NULL)
        return 1;
    bool equal = false;
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    if (err == PSRING_OK)
        err = compare(psring_world(comm), &both[0], &both[1], &equal);
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err != PSRING_OK) {
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
        psring_abort(&comm, psring_err_detail()); /* the others learn why at once */
    }
    free(both);
    return err != PSRING_OK || !equal;
}
