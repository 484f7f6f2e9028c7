/* A convolution of 5 x 5 whose image is sliced by height. Rank r has some rows, and needs RADIUS
 * rows more of each neighbour:
 *   forward:  the halo exchange brings them, and zeros at the edges of the image
 *   backward: the gradient of those rows goes back to where they came from, and is added there; the
 *             weights' gradient is summed over ranks
 * Slices need not be equal. Each rank computes the unsliced convolution too, and compares. Build
 * and run:
 *   cc sliced_convolution.c -o sliced_convolution $(pkg-config --cflags --libs psring) -lm &&
 *     ./run_ranks 4 ./sliced_convolution */
#include <math.h>
#include <psring/psring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    IMAGES = 2,
    INPUTS = 3,
    OUTPUTS = 4,
    HEIGHT = 13,
    WIDTH = 11,
    RADIUS = 2,
    KERNEL = 2 * RADIUS + 1
};
enum { PADDED_HEIGHT = HEIGHT + 2 * RADIUS, PADDED_WIDTH = WIDTH + 2 * RADIUS };
enum { WEIGHTS = OUTPUTS * INPUTS * KERNEL * KERNEL };
enum { RANKS_MAX = HEIGHT / RADIUS }; /* a slice has all that its neighbour needs */
enum { Y, DX, DW, RESULTS };
static const char *const RESULT_NAMES[RESULTS] = {"y", "dx", "dw"};
static const float TOLERANCE = 1e-5F;

/* A convolution over `height` rows: HEIGHT of the unsliced one, some of a slice. Gradients are
 * called d. padded: with a frame of RADIUS. */
typedef struct convolution {
    int height;
    float x[IMAGES * INPUTS * HEIGHT * WIDTH], dx[IMAGES * INPUTS * HEIGHT * WIDTH];
    float padded[IMAGES * INPUTS * PADDED_HEIGHT * PADDED_WIDTH],
        dpadded[IMAGES * INPUTS * PADDED_HEIGHT * PADDED_WIDTH];
    float w[WEIGHTS], dw[WEIGHTS]; /* [OUTPUTS][INPUTS][KERNEL][KERNEL] */
    float y[IMAGES * OUTPUTS * HEIGHT * WIDTH], dy[IMAGES * OUTPUTS * HEIGHT * WIDTH];
} convolution;

/* Where rank's rows begin; they end where the next one's begin. */
static int first_row(int rank, int ranks)
{
    return HEIGHT * rank / ranks;
}

/* From -1 to 1; the same numbers on every rank. */
static void fill(float *values, int count, float scale, uint64_t *state)
{
    for (int i = 0; i < count; i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        values[i] = scale * ((float)(*state >> 40) / (float)(1 << 23) - 1);
    }
}

static int padded_index(const convolution *c, int image, int channel, int row, int column)
{
    return ((image * INPUTS + channel) * (c->height + 2 * RADIUS) + row) * PADDED_WIDTH + column;
}

static int weight_index(int output, int input, int row, int column)
{
    return ((output * INPUTS + input) * KERNEL + row) * KERNEL + column;
}

/* One value of y, from `padded`. */
static float convolve_at(const convolution *c, int image, int output, int row, int column)
{
    float sum = 0;
    for (int input = 0; input < INPUTS; input++)
        for (int i = 0; i < KERNEL; i++)
            for (int j = 0; j < KERNEL; j++)
                sum += c->padded[padded_index(c, image, input, row + i, column + j)] *
                       c->w[weight_index(output, input, i, j)];
    return sum;
}

/* What one value of dy adds to dpadded and dw. */
static void convolve_back_at(convolution *c, float dy, int image, int output, int row, int column)
{
    for (int input = 0; input < INPUTS; input++)
        for (int i = 0; i < KERNEL; i++)
            for (int j = 0; j < KERNEL; j++) {
                int p = padded_index(c, image, input, row + i, column + j);
                int w = weight_index(output, input, i, j);
                c->dpadded[p] += dy * c->w[w];
                c->dw[w] += dy * c->padded[p];
            }
}

/* y from padded. */
static void forward(convolution *c)
{
    float *y = c->y;
    for (int image = 0; image < IMAGES; image++)
        for (int output = 0; output < OUTPUTS; output++)
            for (int row = 0; row < c->height; row++)
                for (int column = 0; column < WIDTH; column++)
                    *y++ = convolve_at(c, image, output, row, column);
}

/* dpadded and dw, zeros until then, from dy and padded. */
static void backward(convolution *c)
{
    const float *dy = c->dy;
    for (int image = 0; image < IMAGES; image++)
        for (int output = 0; output < OUTPUTS; output++)
            for (int row = 0; row < c->height; row++)
                for (int column = 0; column < WIDTH; column++)
                    convolve_back_at(c, *dy++, image, output, row, column);
}

static void make_whole(convolution *c)
{
    uint64_t random = 1;
    c->height = HEIGHT;
    fill(c->x, IMAGES * INPUTS * HEIGHT * WIDTH, 1, &random);
    fill(c->w, WEIGHTS, 0.1F, &random);
    fill(c->dy, IMAGES * OUTPUTS * HEIGHT * WIDTH, 0.1F, &random);
}

/* Without psring: the frame is put on and taken off by hand. A plane is a channel of an image. */
static void run_whole(convolution *c)
{
    for (int plane = 0; plane < IMAGES * INPUTS; plane++)
        for (int row = 0; row < HEIGHT; row++)
            for (int column = 0; column < WIDTH; column++)
                c->padded[padded_index(c, 0, plane, row + RADIUS, column + RADIUS)] =
                    c->x[(plane * HEIGHT + row) * WIDTH + column];
    forward(c);
    backward(c);
    for (int plane = 0; plane < IMAGES * INPUTS; plane++)
        for (int row = 0; row < HEIGHT; row++)
            for (int column = 0; column < WIDTH; column++)
                c->dx[(plane * HEIGHT + row) * WIDTH + column] =
                    c->dpadded[padded_index(c, 0, plane, row + RADIUS, column + RADIUS)];
}

/* [planes][rows][WIDTH]: rows of a tensor of HEIGHT rows, from `first`. */
static void take_rows(float *part, const float *whole, int planes, int first, int rows)
{
    for (int plane = 0; plane < planes; plane++)
        for (int i = 0; i < rows * WIDTH; i++)
            part[plane * rows * WIDTH + i] = whole[(plane * HEIGHT + first) * WIDTH + i];
}

/* Neighbours above and below; nobody at the sides, so zeros come in there, which is the
 * convolution's padding. */
static psring_halo make_halo(psring_group *world, int height)
{
    int rank = psring_rank(world), ranks = psring_size(world);
    psring_halo halo = {.size = sizeof halo,
                        .shape = {IMAGES, INPUTS, (size_t)height, WIDTH},
                        .send_lengths = {RADIUS, RADIUS, RADIUS, RADIUS},
                        .receive_lengths = {RADIUS, RADIUS, RADIUS, RADIUS}};
    for (int i = 0; i < 8; i++)
        halo.send_ranks[i] = halo.receive_ranks[i] = PSRING_NO_RANK;
    halo.send_ranks[PSRING_TOP] = halo.receive_ranks[PSRING_TOP] =
        rank > 0 ? rank - 1 : PSRING_NO_RANK;
    halo.send_ranks[PSRING_BOTTOM] = halo.receive_ranks[PSRING_BOTTOM] =
        rank + 1 < ranks ? rank + 1 : PSRING_NO_RANK;
    return halo;
}

static psring_err run_slice(convolution *c, psring_group *world)
{
    psring_halo halo = make_halo(world, c->height);
    psring_err err =
        psring_halo_exchange(world, &halo, c->x, c->padded, PSRING_FLOAT32, NULL, NULL);
    if (err != PSRING_OK)
        return err;
    forward(c);
    backward(c);
    halo.back = true;
    err = psring_halo_exchange(world, &halo, c->dpadded, c->dx, PSRING_FLOAT32, NULL, NULL);
    if (err == PSRING_OK)
        err =
            psring_all_reduce(world, c->dw, c->dw, WEIGHTS, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
    return err;
}

/* The larger one of `largest` and |a - b|; NAN stays. */
static float larger(float largest, float a, float b)
{
    float d = fabsf(a - b);
    return isnan(largest) || d <= largest ? largest : d;
}

/* The largest difference; part has `rows` rows of each of whole's planes, from `first`. NAN: there
 * is one. */
static float difference_of_rows(const float *part, const float *whole, int planes, int first,
                                int rows)
{
    float largest = 0;
    for (int plane = 0; plane < planes; plane++)
        for (int i = 0; i < rows * WIDTH; i++)
            largest = larger(largest, part[plane * rows * WIDTH + i],
                             whole[(plane * HEIGHT + first) * WIDTH + i]);
    return largest;
}

static float difference_of_weights(const float *a, const float *b)
{
    float largest = 0;
    for (int i = 0; i < WEIGHTS; i++)
        largest = larger(largest, a[i], b[i]);
    return largest;
}

static psring_err compare(psring_group *world, convolution *whole, convolution *slice,
                          bool *ret_equal)
{
    int rank = psring_rank(world), ranks = psring_size(world);
    int first = first_row(rank, ranks), rows = first_row(rank + 1, ranks) - first;
    if (ranks > RANKS_MAX) {
        fprintf(stderr, "at most %d ranks\n", RANKS_MAX);
        *ret_equal = false;
        return PSRING_OK;
    }
    make_whole(whole);
    slice->height = rows;
    take_rows(slice->x, whole->x, IMAGES * INPUTS, first, rows);
    take_rows(slice->dy, whole->dy, IMAGES * OUTPUTS, first, rows);
    for (int i = 0; i < WEIGHTS; i++)
        slice->w[i] = whole->w[i];
    psring_err err = run_slice(slice, world);
    if (err != PSRING_OK)
        return err;
    run_whole(whole);
    float differences[RESULTS] = {
        [Y] = difference_of_rows(slice->y, whole->y, IMAGES * OUTPUTS, first, rows),
        [DX] = difference_of_rows(slice->dx, whole->dx, IMAGES * INPUTS, first, rows),
        [DW] = difference_of_weights(slice->dw, whole->dw)};
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
    convolution *both = calloc(2, sizeof *both); /* the unsliced one, and this rank's slice */
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
