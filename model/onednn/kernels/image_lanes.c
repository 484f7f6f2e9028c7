#include "model/onednn/kernels/image_lanes.h"

#include "model/onednn/kernels/bf16.h"
#include "model/onednn/kernels/image_lanes_kernels.h"

#include <string.h>

/* More channels are oneDNN's. */
#define MOST_CHANNELS 32
/* Of a thread's scratchpad: in a second-level cache, or nearly. */
#define MOST_BYTES ((size_t)1 << 20)

static size_t out_height(const psr_image_lanes *c)
{
    return c->height - c->kernel + 1;
}

static size_t out_width(const psr_image_lanes *c)
{
    return c->width - c->kernel + 1;
}

static size_t groups_of(const psr_image_lanes *c)
{
    return (c->images + IMAGE_LANES - 1) / IMAGE_LANES;
}

/* ---- a thread's scratchpad: both values in lanes, dy with columns of zeros, and the sums ---- */

static size_t source_floats(const psr_image_lanes *c)
{
    return (size_t)c->in * c->height * c->width * IMAGE_LANES;
}

static size_t destination_floats(const psr_image_lanes *c)
{
    return c->out * out_height(c) * (out_width(c) + 2 * (c->kernel - 1)) * IMAGE_LANES;
}

static size_t weights_count(const psr_image_lanes *c)
{
    return (size_t)c->out * c->in * c->kernel * c->kernel;
}

static size_t thread_floats(const psr_image_lanes *c)
{
    return source_floats(c) + destination_floats(c) + (weights_count(c) + c->out) * IMAGE_LANES;
}

size_t psr_image_lanes_scratch(const psr_image_lanes *c)
{
    return thread_floats(c) * c->threads;
}

bool psr_image_lanes_fit(const psr_image_lanes *c)
{
    const size_t groups = groups_of(c), rounds = (groups + c->threads - 1) / c->threads;
    /* Three quarters of all lanes, in all rounds of all threads, have an image. */
    return c->lanes != 0 && c->in <= MOST_CHANNELS && c->out <= MOST_CHANNELS && c->kernel > 1 &&
           c->kernel <= c->height && c->kernel <= c->width &&
           thread_floats(c) * sizeof(float) <= MOST_BYTES &&
           4 * (size_t)c->images >= 3 * rounds * c->threads * IMAGE_LANES;
}

/* ---- into lanes and out of them ---- */

typedef float four __attribute__((vector_size(16)));

/* Four rows of four become four columns. */
static inline void turn(four rows[4])
{
    const four a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const four b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const four c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const four d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    rows[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    rows[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

typedef uint32_t four_words __attribute__((vector_size(16)));
typedef uint16_t four_halves __attribute__((vector_size(8)));

/* values[at..at + 3], float32 or bf16. */
static inline four load_four(bool bf16, const void *values, size_t at)
{
    four result;
    if (bf16) {
        four_halves halves;
        memcpy(&halves, (const uint16_t *)values + at, sizeof halves);
        const four_words words = __builtin_convertvector(halves, four_words) << 16;
        memcpy(&result, &words, sizeof result);
    } else {
        memcpy(&result, (const float *)values + at, sizeof result);
    }
    return result;
}

/* As psr_bf16_from_float rounds. */
static inline four_halves round_four(four row)
{
    four_words words;
    memcpy(&words, &row, sizeof words);
    const four_words nan = (four_words)((words & 0x7fffffff) > 0x7f800000);
    const four_words rounded = (words + 0x7fff + ((words >> 16) & 1)) >> 16;
    return __builtin_convertvector((nan & ((words >> 16) | 0x40)) | (~nan & rounded), four_halves);
}

static inline void store_four(bool bf16, four row, void *values, size_t at)
{
    if (bf16) {
        const four_halves halves = round_four(row);
        memcpy((uint16_t *)values + at, &halves, sizeof halves);
    } else {
        memcpy((float *)values + at, &row, sizeof row);
    }
}

static inline float load_one(bool bf16, const void *values, size_t at)
{
    return bf16 ? psr_bf16_to_float(((const uint16_t *)values)[at]) : ((const float *)values)[at];
}

static inline void store_one(bool bf16, float value, void *values, size_t at)
{
    if (bf16)
        ((uint16_t *)values)[at] = psr_bf16_from_float(value);
    else
        ((float *)values)[at] = value;
}

/* to[count][16] from `lanes` images of `step` values each, from values[first] on; the other lanes
 * zero. */
static inline void turn_in(bool bf16, const void *values, size_t first, size_t step, size_t lanes,
                           size_t count, float *to)
{
    size_t i = 0;
    for (; lanes == IMAGE_LANES && i + 4 <= count; i += 4)
        for (size_t lane = 0; lane < IMAGE_LANES; lane += 4) {
            four rows[4];
            for (size_t j = 0; j < 4; j++)
                rows[j] = load_four(bf16, values, first + (lane + j) * step + i);
            turn(rows);
            for (size_t j = 0; j < 4; j++)
                memcpy(to + (i + j) * IMAGE_LANES + lane, &rows[j], sizeof rows[j]);
        }
    for (; i < count; i++)
        for (size_t lane = 0; lane < IMAGE_LANES; lane++)
            to[i * IMAGE_LANES + lane] =
                lane < lanes ? load_one(bf16, values, first + lane * step + i) : 0.0f;
}

static inline void turn_out(bool bf16, const float *from, size_t step, size_t lanes, size_t count,
                            void *values, size_t first)
{
    size_t i = 0;
    for (; lanes == IMAGE_LANES && i + 4 <= count; i += 4)
        for (size_t lane = 0; lane < IMAGE_LANES; lane += 4) {
            four rows[4];
            for (size_t j = 0; j < 4; j++)
                memcpy(&rows[j], from + (i + j) * IMAGE_LANES + lane, sizeof rows[j]);
            turn(rows);
            for (size_t j = 0; j < 4; j++)
                store_four(bf16, rows[j], values, first + (lane + j) * step + i);
        }
    for (; i < count; i++)
        for (size_t lane = 0; lane < lanes; lane++)
            store_one(bf16, from[i * IMAGE_LANES + lane], values, first + lane * step + i);
}

/* One loop for each type. */
static void to_lanes(const psr_image_lanes *c, const void *values, size_t first, size_t step,
                     size_t lanes, size_t count, float *to)
{
    if (c->bf16)
        turn_in(true, values, first, step, lanes, count, to);
    else
        turn_in(false, values, first, step, lanes, count, to);
}

static void from_lanes(const psr_image_lanes *c, const float *from, size_t step, size_t lanes,
                       size_t count, void *values, size_t first)
{
    if (c->bf16)
        turn_out(true, from, step, lanes, count, values, first);
    else
        turn_out(false, from, step, lanes, count, values, first);
}

/* Rows of `width`, with `margin` columns of zeros on both sides. */
static void to_lanes_with_margins(const psr_image_lanes *c, const void *values, size_t first,
                                  size_t step, size_t lanes, size_t rows, size_t width,
                                  size_t margin, float *to)
{
    for (size_t row = 0; row < rows; row++) {
        memset(to, 0, margin * IMAGE_LANES * sizeof *to);
        to += margin * IMAGE_LANES;
        to_lanes(c, values, first + row * width, step, lanes, width, to);
        to += width * IMAGE_LANES;
        memset(to, 0, margin * IMAGE_LANES * sizeof *to);
        to += margin * IMAGE_LANES;
    }
}

/* ---- sixteen images ---- */

typedef struct group {
    size_t first, lanes; /* images */
    float *source, *destination, *sums, *bias_sums;
} group;

/* The g-th, in the scratchpad of thread `thread`. */
static group group_at(const psr_image_lanes *c, size_t g, size_t thread, float *scratch)
{
    const size_t first = g * IMAGE_LANES, left = c->images - first;
    group at = {.first = first, .lanes = left < IMAGE_LANES ? left : IMAGE_LANES};
    at.source = scratch + thread * thread_floats(c);
    at.destination = at.source + source_floats(c);
    at.sums = at.destination + destination_floats(c);
    at.bias_sums = at.sums + weights_count(c) * IMAGE_LANES;
    return at;
}

/* Values of one image. */
static size_t source_image(const psr_image_lanes *c)
{
    return (size_t)c->in * c->height * c->width;
}

static size_t destination_image(const psr_image_lanes *c)
{
    return c->out * out_height(c) * out_width(c);
}

static void forward_group(const psr_image_lanes *c, const group *at, const void *x,
                          const float *weights, const float *bias, void *y)
{
    const size_t x_image = source_image(c), y_image = destination_image(c);
    const ptrdiff_t kernel = c->kernel;
    const image_lanes_sum sum = {.from = at->source,
                                 .in = c->in,
                                 .from_rows = c->height,
                                 .from_width = c->width,
                                 .weights = weights,
                                 .bias = bias,
                                 .w_out = c->in * kernel * kernel,
                                 .w_in = kernel * kernel,
                                 .w_row = kernel,
                                 .w_column = 1,
                                 .to = at->destination,
                                 .out = c->out,
                                 .rows = out_height(c),
                                 .width = out_width(c),
                                 .kernel = c->kernel};
    to_lanes(c, x, at->first * x_image, x_image, at->lanes, x_image, at->source);
    psr_image_lanes_kernels(c->lanes)->sum(&sum);
    from_lanes(c, at->destination, y_image, at->lanes, y_image, y, at->first * y_image);
}

/* dy's columns have K - 1 zeros on both sides, so that all taps of all columns are there; the
 * windows are read from their last column to their first. */
static void source_gradient_group(const psr_image_lanes *c, const group *at, const void *dy,
                                  const float *weights, void *dx)
{
    const size_t x_image = source_image(c), y_image = destination_image(c), margin = c->kernel - 1;
    const ptrdiff_t kernel = c->kernel;
    const image_lanes_sum sum = {.from = at->destination,
                                 .in = c->out,
                                 .from_rows = out_height(c),
                                 .from_width = out_width(c) + 2 * margin,
                                 .weights = weights + margin,
                                 .w_out = kernel * kernel,
                                 .w_in = c->in * kernel * kernel,
                                 .w_row = kernel,
                                 .w_column = -1,
                                 .to = at->source,
                                 .out = c->in,
                                 .rows = c->height,
                                 .width = c->width,
                                 .kernel = c->kernel,
                                 .turned = true};
    to_lanes_with_margins(c, dy, at->first * y_image, y_image, at->lanes, c->out * out_height(c),
                          out_width(c), margin, at->destination);
    psr_image_lanes_kernels(c->lanes)->sum(&sum);
    from_lanes(c, at->source, x_image, at->lanes, x_image, dx, at->first * x_image);
}

static void weights_gradient_group(const psr_image_lanes *c, const group *at, const void *x,
                                   const void *dy)
{
    const size_t x_image = source_image(c), y_image = destination_image(c);
    const image_lanes_product product = {.x = at->source,
                                         .dy = at->destination,
                                         .in = c->in,
                                         .x_rows = c->height,
                                         .x_width = c->width,
                                         .out = c->out,
                                         .rows = out_height(c),
                                         .width = out_width(c),
                                         .kernel = c->kernel,
                                         .sums = at->sums,
                                         .bias_sums = at->bias_sums};
    to_lanes(c, x, at->first * x_image, x_image, at->lanes, x_image, at->source);
    to_lanes(c, dy, at->first * y_image, y_image, at->lanes, y_image, at->destination);
    psr_image_lanes_kernels(c->lanes)->multiply(&product);
}

/* ---- all of them: thread t takes a run of groups ---- */

static size_t cut(size_t count, size_t parts, size_t i)
{
    return count * i / parts;
}

void psr_image_lanes_forward(const psr_image_lanes *c, const void *x, const float *weights,
                             const float *bias, void *y, float *scratch)
{
    const size_t groups = groups_of(c), threads = c->threads;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (size_t thread = 0; thread < threads; thread++)
        for (size_t g = cut(groups, threads, thread); g < cut(groups, threads, thread + 1); g++) {
            const group at = group_at(c, g, thread, scratch);
            forward_group(c, &at, x, weights, bias, y);
        }
}

void psr_image_lanes_source_gradient(const psr_image_lanes *c, const void *dy, const float *weights,
                                     void *dx, float *scratch)
{
    const size_t groups = groups_of(c), threads = c->threads;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (size_t thread = 0; thread < threads; thread++)
        for (size_t g = cut(groups, threads, thread); g < cut(groups, threads, thread + 1); g++) {
            const group at = group_at(c, g, thread, scratch);
            source_gradient_group(c, &at, dy, weights, dx);
        }
}

/* The sixteen lanes by halves, in place. */
static float sum_of_lanes(const float lanes[IMAGE_LANES])
{
    float sums[IMAGE_LANES];
    memcpy(sums, lanes, sizeof sums);
    for (size_t half = IMAGE_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            sums[lane] += sums[lane + half];
    return sums[0];
}

/* to[i] = sum over threads of their lanes, at `from` in the first thread's scratchpad. */
static void add_threads(const psr_image_lanes *c, const float *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = sum_of_lanes(from + i * IMAGE_LANES);
    for (size_t thread = 1; thread < c->threads; thread++)
        for (size_t i = 0; i < count; i++)
            to[i] += sum_of_lanes(from + thread * thread_floats(c) + i * IMAGE_LANES);
}

void psr_image_lanes_weights_gradient(const psr_image_lanes *c, const void *x, const void *dy,
                                      float *dw, float *dbias, float *scratch)
{
    const size_t groups = groups_of(c), threads = c->threads;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (size_t thread = 0; thread < threads; thread++) {
        const group own = group_at(c, 0, thread, scratch);
        memset(own.sums, 0, (weights_count(c) + c->out) * IMAGE_LANES * sizeof *own.sums);
        for (size_t g = cut(groups, threads, thread); g < cut(groups, threads, thread + 1); g++) {
            const group at = group_at(c, g, thread, scratch);
            weights_gradient_group(c, &at, x, dy);
        }
    }
    const group first = group_at(c, 0, 0, scratch);
    add_threads(c, first.sums, weights_count(c), dw);
    if (dbias != NULL)
        add_threads(c, first.bias_sums, c->out, dbias);
}
