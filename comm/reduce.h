/* Values combined element by element: what every fold of a collective is made of.
 *
 * float32 and float64 round once at each step. float16 and bfloat16 are computed in float32 and
 * rounded to the nearest, ties to even, at each step (exact sums and products of two of them fit
 * float32 or round alike: 24 >= 2 * 11 + 2 bits). Sums and products of integers wrap. MINIMUM and
 * MAXIMUM: a NaN wins, and -0 is below +0 (IEEE 754-2019, section 9.6), so that no order of
 * operands shows in a result. Of NaNs only that they are NaN is promised, not their bits. MEAN
 * folds as SUM does and divides once, at the end; there is none of integers. BITWISE_AND, _OR and
 * _XOR are of integers alone. In LOGICAL_AND, _OR and _XOR what is not 0 is true, a NaN too, and
 * the result is 1 or 0. MINLOC and MAXLOC are of pairs, which have no other (comm/pair.h). Any
 * thread; no state. */
#ifndef PSR_COMM_REDUCE_H
#define PSR_COMM_REDUCE_H

#include "comm/buffer.h"

#include <stdbool.h>

typedef enum psr_reduction {
    PSR_REDUCTION_SUM,
    PSR_REDUCTION_PRODUCT,
    PSR_REDUCTION_MINIMUM,
    PSR_REDUCTION_MAXIMUM,
    PSR_REDUCTION_MEAN,
    PSR_REDUCTION_BITWISE_AND,
    PSR_REDUCTION_BITWISE_OR,
    PSR_REDUCTION_BITWISE_XOR,
    PSR_REDUCTION_LOGICAL_AND,
    PSR_REDUCTION_LOGICAL_OR,
    PSR_REDUCTION_LOGICAL_XOR,
    PSR_REDUCTION_MINLOC,
    PSR_REDUCTION_MAXLOC
} psr_reduction;
#define PSR_REDUCTIONS (PSR_REDUCTION_MAXLOC + 1)

/* A fold that a program defined: a number from PSR_REDUCTION_OWN on, used in place of a
 * psr_reduction. */
#define PSR_REDUCTION_OWN 128u
#define PSR_REDUCTIONS_OWN 128u

typedef struct psr_own_fold {
    void (*fold)(void *context, void *out, const void *a, const void *b, size_t count, int type);
    void *context;
    int type;      /* the type as fold's parameter has it */
    bool in_order; /* it does not commute: always x[0] op x[1] op .. */
} psr_own_fold;

const char *psr_reduction_name(psr_reduction op); /* "sum", ..; "?" */
/* Whether op exists for that type. */
bool psr_reduction_fits(psr_reduction op, psr_type type);

/* out[i] = a[i] op b[i]. out may be a or b; otherwise nothing overlaps. Aligned for the type. */
void psr_reduce(psr_type type, psr_reduction op, void *out, const void *a, const void *b,
                size_t count);

/* Whether something is left to do when all is folded: a MEAN is divided; a logical fold of one
 * value alone becomes 1 or 0. */
bool psr_reduction_finishes(psr_reduction op);
/* Does it. values[i] was folded from n values, 0 < n < 2^24. */
void psr_reduce_finish(psr_type type, psr_reduction op, void *values, size_t count, uint32_t n);

/* Convert one value of the 16-bit types. To float32 is exact; from float32 it rounds to the
 * nearest, ties to even. Too large a value becomes infinite, a NaN stays a NaN. */
float psr_float16_to_float(uint16_t bits);
uint16_t psr_float16_of_float(float value);
float psr_bfloat16_to_float(uint16_t bits);
uint16_t psr_bfloat16_of_float(float value);

/* The same for count values. out and in do not overlap. */
void psr_float16_to_floats(float *restrict out, const uint16_t *restrict in, size_t count);
void psr_float16_of_floats(uint16_t *restrict out, const float *restrict in, size_t count);
void psr_bfloat16_to_floats(float *restrict out, const uint16_t *restrict in, size_t count);
void psr_bfloat16_of_floats(uint16_t *restrict out, const float *restrict in, size_t count);

#endif
