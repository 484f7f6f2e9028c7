/* Loops of batch norm over one slab, for one width of vector and one element type. Included once
 * for each, with
 *   INSTANCE    the table's declaration
 *   LANES       channels in a vector: 8 or 16
 *   BF16        1: elements are bfloat16; 0: float32
 *   KERNEL(x)   the name x of this instance
 *
 * Vectors are GNU C's, so that the same sums are formed in the same order whatever the processor's
 * width; loads and stores are unaligned because channels-last rows begin where they like. The
 * inlined helpers take vectors by pointer: by value their calling convention would depend on the
 * caller's instruction set. */

typedef float KERNEL(vector) __attribute__((vector_size(4 * LANES)));
typedef int32_t KERNEL(mask) __attribute__((vector_size(4 * LANES)));
#define VECTOR KERNEL(vector)
#define MASK KERNEL(mask)
#define ELEMENT KERNEL(element)
#define COLUMN KERNEL(columns)
#define INLINE static inline __attribute__((always_inline))

#if BF16
typedef uint16_t KERNEL(element);
typedef uint16_t KERNEL(halves) __attribute__((vector_size(2 * LANES)));
typedef uint32_t KERNEL(words) __attribute__((vector_size(4 * LANES)));

INLINE void KERNEL(load)(VECTOR *ret, const uint16_t *from)
{
    KERNEL(halves) halves;
    memcpy(&halves, from, sizeof halves);
    *ret = (VECTOR)(__builtin_convertvector(halves, KERNEL(words)) << 16);
}

/* To nearest, ties to even; a NaN stays one, for its quiet bit is set. */
INLINE void KERNEL(store)(uint16_t *to, const VECTOR *value)
{
    KERNEL(words) bits = (KERNEL(words)) * value;
    KERNEL(words) nan = (KERNEL(words))(*value != *value);
    KERNEL(words) rounded = bits + 0x7fff + ((bits >> 16) & 1);
    KERNEL(words) chosen = ((rounded & ~nan) | ((bits | 0x400000) & nan)) >> 16;
    KERNEL(halves) halves = __builtin_convertvector(chosen, KERNEL(halves));
    memcpy(to, &halves, sizeof halves);
}
#else
typedef float KERNEL(element);

INLINE void KERNEL(load)(VECTOR *ret, const float *from)
{
    memcpy(ret, from, sizeof *ret);
}

INLINE void KERNEL(store)(float *to, const VECTOR *value)
{
    memcpy(to, value, sizeof *value);
}
#endif

/* value where of is positive (or a NaN), else zero: ReLU with of = value, its gradient with of what
 * went in.
 */
INLINE void KERNEL(keep_positive)(VECTOR *value, const VECTOR *of)
{
    *value = (VECTOR)((MASK)*value & ~(*of <= 0.0f));
}

/* centre[c] = mean of the first rows, at most 32. */
PSR_MULTIVERSION static void KERNEL(centre)(const norm_slab *slab, const void *x_start,
                                            float *centre)
{
    size_t rows = slab->rows < 32 ? slab->rows : 32;
    for (size_t column = 0; column < slab->columns; column++) {
        const ELEMENT *x = (const ELEMENT *)x_start + slab->offset + column * slab->column_stride;
        VECTOR sum = {0}, value;
        for (size_t row = 0; row < rows; row++, x += slab->row_stride) {
            KERNEL(load)(&value, x);
            sum += value;
        }
        sum /= (float)rows;
        memcpy(centre + slab->channel + column * LANES, &sum, sizeof sum);
    }
}

/* sums[c] += sum of x - centre, squares[c] += sum of its square. */
PSR_MULTIVERSION static void KERNEL(statistics)(const norm_slab *slab, const void *x_start,
                                                const float *centre, double *sums, double *squares)
{
    for (size_t column = 0; column < slab->columns; column++) {
        const ELEMENT *x = (const ELEMENT *)x_start + slab->offset + column * slab->column_stride;
        size_t channel = slab->channel + column * LANES, stride = slab->row_stride, row = 0;
        VECTOR middle, d, sum[4] = {{0}}, square[4] = {{0}};
        memcpy(&middle, centre + channel, sizeof middle);
        for (; row + 4 <= slab->rows; row += 4, x += 4 * stride) {
            for (size_t i = 0; i < 4; i++) {
                KERNEL(load)(&d, x + i * stride);
                d -= middle;
                sum[i] += d;
                square[i] += d * d;
            }
        }
        for (; row < slab->rows; row++, x += stride) {
            KERNEL(load)(&d, x);
            d -= middle;
            sum[0] += d;
            square[0] += d * d;
        }
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        square[0] = (square[0] + square[1]) + (square[2] + square[3]);
        for (size_t lane = 0; lane < LANES; lane++) {
            sums[channel + lane] += (double)sum[0][lane];
            squares[channel + lane] += (double)square[0][lane];
        }
    }
}

/* What a column needs of one batch norm, and its values there. */
typedef struct COLUMN {
    const ELEMENT *x;
    VECTOR mean, scale, shift, slope;
} COLUMN;

INLINE void KERNEL(open_column)(COLUMN *ret, const void *x, size_t at, const norm_channels *norm,
                                size_t channel)
{
    ret->x = (const ELEMENT *)x + at;
    memcpy(&ret->mean, norm->mean + channel, sizeof ret->mean);
    memcpy(&ret->scale, norm->scale + channel, sizeof ret->scale);
    memcpy(&ret->shift, norm->shift + channel, sizeof ret->shift);
    memcpy(&ret->slope, norm->slope + channel, sizeof ret->slope);
}

/* x - mean of the element i past the column's start. */
INLINE void KERNEL(centred)(VECTOR *ret, const COLUMN *column, size_t i)
{
    KERNEL(load)(ret, column->x + i);
    *ret -= column->mean;
}

INLINE void KERNEL(normalise_column)(const norm_slab *slab, const norm_pointers *p, size_t index,
                                     bool relu, bool residual, bool second)
{
    size_t channel = slab->channel + index * LANES, stride = slab->row_stride;
    size_t at = slab->offset + index * slab->column_stride;
    ELEMENT *y = (ELEMENT *)p->y + at;
    const ELEMENT *added = residual ? (const ELEMENT *)p->r + at : NULL;
    COLUMN x, r;
    KERNEL(open_column)(&x, p->x, at, &p->norm, channel);
    if (second)
        KERNEL(open_column)(&r, p->r, at, &p->second, channel);
    VECTOR shift = second ? x.shift + r.shift : x.shift;
    for (size_t row = 0, i = 0; row < slab->rows; row++, i += stride) {
        VECTOR value, other;
        KERNEL(centred)(&value, &x, i);
        value = value * x.scale + shift;
        if (second) {
            KERNEL(centred)(&other, &r, i);
            value += other * r.scale;
        } else if (residual) {
            KERNEL(load)(&other, added + i);
            value += other;
        }
        if (relu)
            KERNEL(keep_positive)(&value, &value);
        KERNEL(store)(y + i, &value);
    }
}

/* y = relu((x - mean) * scale + shift + r), r: nothing, a value, or a second batch norm's. */
PSR_MULTIVERSION static void KERNEL(normalise)(const norm_slab *slab, const norm_pointers *p)
{
    bool second = p->second.mean != NULL, residual = p->r != NULL && !second;
    for (size_t column = 0; column < slab->columns; column++) {
        if (p->relu && !second && !residual)
            KERNEL(normalise_column)(slab, p, column, true, false, false);
        else if (p->relu && residual)
            KERNEL(normalise_column)(slab, p, column, true, true, false);
        else if (p->relu)
            KERNEL(normalise_column)(slab, p, column, true, false, true);
        else
            KERNEL(normalise_column)(slab, p, column, false, residual, second);
    }
}

/* sums[c] += sum of g, products[c] += sum of g * (x - mean), second_products likewise; keeps g
 * where asked.
 */
INLINE void KERNEL(reduce_column)(const norm_slab *slab, const norm_pointers *p, size_t index,
                                  bool second, double *sums, double *products,
                                  double *second_products)
{
    size_t channel = slab->channel + index * LANES, stride = slab->row_stride;
    size_t at = slab->offset + index * slab->column_stride;
    const ELEMENT *mask = p->mask != NULL ? (const ELEMENT *)p->mask + at : NULL;
    const ELEMENT *dy = (const ELEMENT *)p->dy + at;
    const ELEMENT *dy2 = p->dy2 != NULL ? (const ELEMENT *)p->dy2 + at : NULL;
    ELEMENT *kept = p->g != NULL ? (ELEMENT *)p->g + at : NULL;
    COLUMN x, r;
    KERNEL(open_column)(&x, p->x, at, &p->norm, channel);
    if (second)
        KERNEL(open_column)(&r, p->r, at, &p->second, channel);
    /* On two levels: a single running sum over a slab's rows loses three times what PyTorch's
     * does. */
    VECTOR sum = {0}, product = {0}, second_product = {0};
    for (size_t row = 0, i = 0; row < slab->rows;) {
        VECTOR block_sum = {0}, block_product = {0}, block_second = {0};
        size_t end = slab->rows - row < 32 ? slab->rows : row + 32;
        for (; row < end; row++, i += stride) {
            VECTOR g, centred, other;
            KERNEL(load)(&g, dy + i);
            KERNEL(centred)(&centred, &x, i);
            if (dy2 != NULL) {
                KERNEL(load)(&other, dy2 + i);
                g += other;
            }
            /* What went into the ReLU has the sign of what came out; without y, it is formed as in
             * normalise. */
            if (mask != NULL) {
                KERNEL(load)(&other, mask + i);
                KERNEL(keep_positive)(&g, &other);
            } else if (p->relu) {
                other = centred * x.scale + x.shift;
                KERNEL(keep_positive)(&g, &other);
            }
            if (kept != NULL)
                KERNEL(store)(kept + i, &g);
            block_sum += g;
            block_product += g * centred;
            if (second) {
                KERNEL(centred)(&centred, &r, i);
                block_second += g * centred;
            }
        }
        sum += block_sum;
        product += block_product;
        if (second)
            second_product += block_second;
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        sums[channel + lane] += (double)sum[lane];
        products[channel + lane] += (double)product[lane];
        if (second)
            second_products[channel + lane] += (double)second_product[lane];
    }
}

PSR_MULTIVERSION static void KERNEL(reduce)(const norm_slab *slab, const norm_pointers *p,
                                            double *sums, double *products, double *second_products)
{
    for (size_t column = 0; column < slab->columns; column++) {
        if (p->second.mean != NULL)
            KERNEL(reduce_column)(slab, p, column, true, sums, products, second_products);
        else
            KERNEL(reduce_column)(slab, p, column, false, sums, products, NULL);
    }
}

/* relu: the mask has still to be applied to g. */
INLINE void KERNEL(differentiate_column)(const norm_slab *slab, const norm_pointers *p,
                                         size_t index, bool relu, bool second)
{
    size_t channel = slab->channel + index * LANES, stride = slab->row_stride;
    size_t at = slab->offset + index * slab->column_stride;
    const ELEMENT *from = (const ELEMENT *)(p->g != NULL ? p->g : p->dy) + at;
    ELEMENT *dx = (ELEMENT *)p->dx + at, *dr = second ? (ELEMENT *)p->dr + at : NULL;
    COLUMN x, r;
    KERNEL(open_column)(&x, p->x, at, &p->norm, channel);
    if (second)
        KERNEL(open_column)(&r, p->r, at, &p->second, channel);
    VECTOR mean_g;
    memcpy(&mean_g, p->mean_g + channel, sizeof mean_g);
    for (size_t row = 0, i = 0; row < slab->rows; row++, i += stride) {
        VECTOR g, centred, other;
        KERNEL(load)(&g, from + i);
        KERNEL(centred)(&centred, &x, i);
        if (relu) {
            other = centred * x.scale + x.shift;
            KERNEL(keep_positive)(&g, &other);
        }
        g -= mean_g;
        other = x.scale * (g - centred * x.slope);
        if (second)
            KERNEL(centred)(&centred, &r, i);
        KERNEL(store)(dx + i, &other);
        if (second) {
            other = r.scale * (g - centred * r.slope);
            KERNEL(store)(dr + i, &other);
        }
    }
}

/* dx = scale * (g - mean_g - (x - mean) * slope), and dr of the second batch norm; g from where it
 * was kept, or formed again from dy. */
PSR_MULTIVERSION static void KERNEL(differentiate)(const norm_slab *slab, const norm_pointers *p)
{
    for (size_t column = 0; column < slab->columns; column++) {
        if (p->second.mean != NULL)
            KERNEL(differentiate_column)(slab, p, column, false, true);
        else if (p->g != NULL || !p->relu)
            KERNEL(differentiate_column)(slab, p, column, false, false);
        else
            KERNEL(differentiate_column)(slab, p, column, true, false);
    }
}

INSTANCE = {
    LANES,          KERNEL(centre),        KERNEL(statistics), KERNEL(normalise),
    KERNEL(reduce), KERNEL(differentiate),
};

#undef INLINE
#undef COLUMN
#undef ELEMENT
#undef MASK
#undef VECTOR
#undef KERNEL
#undef BF16
#undef LANES
#undef INSTANCE
