/* The number type of the reference back end, and of the code that it shares with the others: float.
 * The finite-difference test compiles the same sources a second time with -DPSR_REAL=double. In
 * double, central differences are exact to nine digits; in float, to three. */
#ifndef PSR_MODEL_REAL_H
#define PSR_MODEL_REAL_H

#ifndef PSR_REAL
#define PSR_REAL float
#endif
typedef PSR_REAL psr_real;

#endif
