/* The number type of the reference back end and of what it shares with the others: float. The
 * finite difference test compiles the same sources a second time with -DPSR_REAL=double, in which
 * central differences are good to nine digits rather than three. */
#ifndef PSR_MODEL_REAL_H
#define PSR_MODEL_REAL_H

#ifndef PSR_REAL
#define PSR_REAL float
#endif
typedef PSR_REAL psr_real;

#endif
