/* Batch norm's loops for bf16, 32 elements at a time.
 *
 * A 32-bit word holds two bf16; the even one becomes a float32 by a shift, the odd one by a mask,
 * without the shuffles that widening takes, and rounding puts them back the same way. So 64 bytes
 * are a pair of vectors, even and odd:
 *   rows of 16 channels that lie side by side (blocked): two rows, the lanes being channels 0 2 ..
 *   14 0 2 .. 14;
 *   longer rows (channels last): 32 channels of a row, the lanes being channels 0 2 .. 30.
 * Either way two vectors of 16 channels (twice the same, or neighbours) are dealt out into even and
 * odd. What is left over, a last row or a last column, is for the kernels of 16 elements. */
#include "model/onednn/kernels/norm_kernels.h"

#include "base/arrays/multiversion.h"

#include <string.h>

typedef float lanes __attribute__((vector_size(64)));
typedef int32_t signs __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));

typedef struct pair {
    lanes even, odd;
} pair;

#define INLINE static inline __attribute__((always_inline))

/* How a slab is cut: units of `rows` wide rows. */
typedef struct cut {
    bool two_rows;
    size_t units, rows, stride, unit_stride;
} cut;

INLINE void cut_slab(cut *ret, const norm_slab *slab)
{
    ret->two_rows = slab->row_stride == 16;
    ret->units = ret->two_rows ? slab->columns : slab->columns / 2;
    ret->rows = ret->two_rows ? slab->rows / 2 : slab->rows;
    ret->stride = ret->two_rows ? 32 : slab->row_stride;
    ret->unit_stride = ret->two_rows ? slab->column_stride : 2 * slab->column_stride;
}

/* What the cut leaves over, if anything. */
static bool rest_of(const norm_slab *slab, norm_slab *ret_rest)
{
    *ret_rest = *slab;
    if (slab->row_stride == 16) {
        ret_rest->rows = slab->rows % 2;
        ret_rest->offset += (slab->rows - ret_rest->rows) * slab->row_stride;
    } else {
        ret_rest->columns = slab->columns % 2;
        ret_rest->offset += (slab->columns - ret_rest->columns) * slab->column_stride;
        ret_rest->channel += (slab->columns - ret_rest->columns) * 16;
    }
    return ret_rest->rows > 0 && ret_rest->columns > 0;
}

INLINE size_t channel_of(const norm_slab *slab, const cut *c, size_t unit)
{
    return slab->channel + unit * (c->two_rows ? 16 : 32);
}

INLINE void load(pair *ret, const uint16_t *from)
{
    words both;
    memcpy(&both, from, sizeof both);
    ret->even = (lanes)(both << 16);
    ret->odd = (lanes)(both & 0xffff0000u);
}

/* To nearest, ties to even. The NaNs that arise here have no low bits set, so that none is rounded
 * away. */
INLINE void store(uint16_t *to, const pair *value)
{
    words even = (words)value->even, odd = (words)value->odd;
    even = (even + 0x7fff + ((even >> 16) & 1)) >> 16;
    odd = (odd + 0x7fff + ((odd >> 16) & 1)) & 0xffff0000u;
    words both = even | odd;
    memcpy(to, &both, sizeof both);
}

/* Per-channel numbers, dealt out. */
INLINE void deal(pair *ret, const float *channels, bool two_rows)
{
    lanes low, high;
    memcpy(&low, channels, sizeof low);
    memcpy(&high, channels + (two_rows ? 0 : 16), sizeof high);
    ret->even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                        26, 28, 30);
    ret->odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                       29, 31);
}

/* sums[c] += what the lanes have for channel c. */
INLINE void gather(double *sums, const pair *value, bool two_rows)
{
    for (size_t lane = 0; lane < 16; lane++) {
        size_t channel = 2 * (two_rows ? lane % 8 : lane);
        sums[channel] += (double)value->even[lane];
        sums[channel + 1] += (double)value->odd[lane];
    }
}

INLINE void keep_positive(pair *value, const pair *of)
{
    value->even = (lanes)((signs)value->even & ~(of->even <= 0.0f));
    value->odd = (lanes)((signs)value->odd & ~(of->odd <= 0.0f));
}

INLINE void subtract(pair *value, const pair *other)
{
    value->even -= other->even;
    value->odd -= other->odd;
}

INLINE void add(pair *value, const pair *other)
{
    value->even += other->even;
    value->odd += other->odd;
}

/* value = value * a + b */
INLINE void scale_shift(pair *value, const pair *a, const pair *b)
{
    value->even = value->even * a->even + b->even;
    value->odd = value->odd * a->odd + b->odd;
}

INLINE void add_product(pair *sum, const pair *a, const pair *b)
{
    sum->even += a->even * b->even;
    sum->odd += a->odd * b->odd;
}

/* What a unit needs of one batch norm, and its values there. */
typedef struct unit {
    const uint16_t *x;
    pair mean, scale, shift, slope;
} unit;

INLINE void open_unit(unit *ret, const void *x, size_t at, const norm_channels *norm,
                      size_t channel, bool two_rows)
{
    ret->x = (const uint16_t *)x + at;
    deal(&ret->mean, norm->mean + channel, two_rows);
    deal(&ret->scale, norm->scale + channel, two_rows);
    deal(&ret->shift, norm->shift + channel, two_rows);
    deal(&ret->slope, norm->slope + channel, two_rows);
}

INLINE void centred(pair *ret, const unit *u, size_t i)
{
    load(ret, u->x + i);
    subtract(ret, &u->mean);
}

PSR_MULTIVERSION static void statistics_wide(const norm_slab *slab, const void *x_start,
                                             const float *centre, double *sums, double *squares)
{
    cut c;
    cut_slab(&c, slab);
    for (size_t i = 0; i < c.units; i++) {
        size_t channel = channel_of(slab, &c, i), stride = c.stride, row = 0;
        const uint16_t *x = (const uint16_t *)x_start + slab->offset + i * c.unit_stride;
        pair middle, d, sum[2] = {{{0}, {0}}}, square[2] = {{{0}, {0}}};
        deal(&middle, centre + channel, c.two_rows);
        for (; row + 2 <= c.rows; row += 2, x += 2 * stride) {
            for (size_t k = 0; k < 2; k++) {
                load(&d, x + k * stride);
                subtract(&d, &middle);
                add(&sum[k], &d);
                add_product(&square[k], &d, &d);
            }
        }
        if (row < c.rows) {
            load(&d, x);
            subtract(&d, &middle);
            add(&sum[0], &d);
            add_product(&square[0], &d, &d);
        }
        add(&sum[0], &sum[1]);
        add(&square[0], &square[1]);
        gather(sums + channel, &sum[0], c.two_rows);
        gather(squares + channel, &square[0], c.two_rows);
    }
}

INLINE void normalise_unit(const norm_slab *slab, const norm_pointers *p, const cut *c,
                           size_t index, bool relu, bool residual, bool second)
{
    size_t channel = channel_of(slab, c, index), at = slab->offset + index * c->unit_stride;
    size_t rows = c->rows, stride = c->stride;
    uint16_t *y = (uint16_t *)p->y + at;
    const uint16_t *added = residual ? (const uint16_t *)p->r + at : NULL;
    unit x, r;
    open_unit(&x, p->x, at, &p->norm, channel, c->two_rows);
    if (second) {
        open_unit(&r, p->r, at, &p->second, channel, c->two_rows);
        add(&x.shift, &r.shift);
    }
    for (size_t row = 0, i = 0; row < rows; row++, i += stride) {
        pair value, other;
        centred(&value, &x, i);
        scale_shift(&value, &x.scale, &x.shift);
        if (second) {
            centred(&other, &r, i);
            add_product(&value, &other, &r.scale);
        } else if (residual) {
            load(&other, added + i);
            add(&value, &other);
        }
        if (relu)
            keep_positive(&value, &value);
        store(y + i, &value);
    }
}

PSR_MULTIVERSION static void normalise_wide(const norm_slab *slab, const norm_pointers *p)
{
    bool second = p->second.mean != NULL, residual = p->r != NULL && !second;
    cut c;
    cut_slab(&c, slab);
    for (size_t i = 0; i < c.units; i++) {
        if (p->relu && !second && !residual)
            normalise_unit(slab, p, &c, i, true, false, false);
        else if (p->relu && residual)
            normalise_unit(slab, p, &c, i, true, true, false);
        else if (p->relu)
            normalise_unit(slab, p, &c, i, true, false, true);
        else
            normalise_unit(slab, p, &c, i, false, residual, second);
    }
}

/* masked: by y; kept: g is stored; two: dy2 is added. Compiled once for each combination that
 * occurs. */
INLINE void reduce_unit(const norm_slab *slab, const norm_pointers *p, const cut *c, size_t index,
                        bool masked, bool kept, bool two, bool second, double *sums,
                        double *products, double *second_products)
{
    size_t channel = channel_of(slab, c, index), at = slab->offset + index * c->unit_stride;
    size_t rows = c->rows, stride = c->stride;
    bool formed = p->relu && !masked;
    const uint16_t *mask = masked ? (const uint16_t *)p->mask + at : NULL;
    const uint16_t *dy = (const uint16_t *)p->dy + at,
                   *dy2 = two ? (const uint16_t *)p->dy2 + at : NULL;
    uint16_t *g_kept = kept ? (uint16_t *)p->g + at : NULL;
    pair sum = {{0}, {0}}, product = {{0}, {0}}, second_product = {{0}, {0}};
    unit x, r;
    open_unit(&x, p->x, at, &p->norm, channel, c->two_rows);
    if (second)
        open_unit(&r, p->r, at, &p->second, channel, c->two_rows);
    for (size_t row = 0, i = 0; row < rows; row++, i += stride) {
        pair g, d, other;
        load(&g, dy + i);
        centred(&d, &x, i);
        if (two) {
            load(&other, dy2 + i);
            add(&g, &other);
        }
        if (masked) {
            load(&other, mask + i);
            keep_positive(&g, &other);
        } else if (formed) {
            other = d;
            scale_shift(&other, &x.scale, &x.shift);
            keep_positive(&g, &other);
        }
        if (kept)
            store(g_kept + i, &g);
        add(&sum, &g);
        add_product(&product, &g, &d);
        if (second) {
            centred(&d, &r, i);
            add_product(&second_product, &g, &d);
        }
    }
    gather(sums + channel, &sum, c->two_rows);
    gather(products + channel, &product, c->two_rows);
    if (second)
        gather(second_products + channel, &second_product, c->two_rows);
}

PSR_MULTIVERSION static void reduce_wide(const norm_slab *slab, const norm_pointers *p,
                                         double *sums, double *products, double *second_products)
{
    bool masked = p->mask != NULL, two = p->dy2 != NULL;
    cut c;
    cut_slab(&c, slab);
    for (size_t i = 0; i < c.units; i++) {
        if (p->second.mean != NULL)
            reduce_unit(slab, p, &c, i, masked, true, two, true, sums, products, second_products);
        else if (p->g == NULL)
            reduce_unit(slab, p, &c, i, false, false, false, false, sums, products, NULL);
        else if (masked && two)
            reduce_unit(slab, p, &c, i, true, true, true, false, sums, products, NULL);
        else
            reduce_unit(slab, p, &c, i, masked, true, two, false, sums, products, NULL);
    }
}

/* relu: the mask has still to be applied to g. */
INLINE void differentiate_unit(const norm_slab *slab, const norm_pointers *p, const cut *c,
                               size_t index, bool relu, bool second)
{
    size_t channel = channel_of(slab, c, index), at = slab->offset + index * c->unit_stride;
    size_t rows = c->rows, stride = c->stride;
    const uint16_t *from = (const uint16_t *)(p->g != NULL ? p->g : p->dy) + at;
    uint16_t *dx = (uint16_t *)p->dx + at, *dr = second ? (uint16_t *)p->dr + at : NULL;
    pair mean_g;
    unit x, r;
    open_unit(&x, p->x, at, &p->norm, channel, c->two_rows);
    if (second)
        open_unit(&r, p->r, at, &p->second, channel, c->two_rows);
    deal(&mean_g, p->mean_g + channel, c->two_rows);
    for (size_t row = 0, i = 0; row < rows; row++, i += stride) {
        pair g, d, other;
        load(&g, from + i);
        centred(&d, &x, i);
        if (relu) {
            other = d;
            scale_shift(&other, &x.scale, &x.shift);
            keep_positive(&g, &other);
        }
        subtract(&g, &mean_g);
        other.even = x.scale.even * (g.even - d.even * x.slope.even);
        other.odd = x.scale.odd * (g.odd - d.odd * x.slope.odd);
        if (second)
            centred(&d, &r, i);
        store(dx + i, &other);
        if (second) {
            other.even = r.scale.even * (g.even - d.even * r.slope.even);
            other.odd = r.scale.odd * (g.odd - d.odd * r.slope.odd);
            store(dr + i, &other);
        }
    }
}

PSR_MULTIVERSION static void differentiate_wide(const norm_slab *slab, const norm_pointers *p)
{
    cut c;
    cut_slab(&c, slab);
    for (size_t i = 0; i < c.units; i++) {
        if (p->second.mean != NULL)
            differentiate_unit(slab, p, &c, i, false, true);
        else if (p->g != NULL || !p->relu)
            differentiate_unit(slab, p, &c, i, false, false);
        else
            differentiate_unit(slab, p, &c, i, true, false);
    }
}

/* ---- with what is left over ---- */

static void centre(const norm_slab *slab, const void *x, float *ret_centre)
{
    psr_onednn_norm_bf16_single.centre(slab, x, ret_centre);
}

static void statistics(const norm_slab *slab, const void *x, const float *about, double *sums,
                       double *squares)
{
    norm_slab rest;
    statistics_wide(slab, x, about, sums, squares);
    if (rest_of(slab, &rest))
        psr_onednn_norm_bf16_single.statistics(&rest, x, about, sums, squares);
}

static void normalise(const norm_slab *slab, const norm_pointers *p)
{
    norm_slab rest;
    normalise_wide(slab, p);
    if (rest_of(slab, &rest))
        psr_onednn_norm_bf16_single.normalise(&rest, p);
}

static void reduce(const norm_slab *slab, const norm_pointers *p, double *sums, double *products,
                   double *second_products)
{
    norm_slab rest;
    reduce_wide(slab, p, sums, products, second_products);
    if (rest_of(slab, &rest))
        psr_onednn_norm_bf16_single.reduce(&rest, p, sums, products, second_products);
}

static void differentiate(const norm_slab *slab, const norm_pointers *p)
{
    norm_slab rest;
    differentiate_wide(slab, p);
    if (rest_of(slab, &rest))
        psr_onednn_norm_bf16_single.differentiate(&rest, p);
}

const norm_kernels psr_onednn_norm_bf16_pairs = {16,        centre, statistics,
                                                 normalise, reduce, differentiate};
