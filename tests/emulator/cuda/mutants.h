/* Kernels that are wrong, each in one way, to see that it is found. Each sums up what its block's
 * threads hold, or moves values on by one. */
#ifndef PSR_TESTS_EMULATOR_CUDA_MUTANTS_H
#define PSR_TESTS_EMULATOR_CUDA_MUTANTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_mutant_args {
    const float *x; /* [blocks * threads] */
    float *y;       /* [blocks], or of the size of x */
} psr_mutant_args;

typedef struct psr_mutant {
    const char *name;
    void (*body)(const void *arguments);
    bool barriers;
    const char *expected; /* part of the problem; NULL: there is none */
    bool by_watching;     /* only watched kernels show it in every order */
} psr_mutant;

extern const psr_mutant psr_mutants[];
extern const uint32_t psr_mutant_count;

#endif
