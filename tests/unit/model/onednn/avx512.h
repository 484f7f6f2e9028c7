/* What oneDNN has on processors with AVX-512 alone: bf16, and kernels for blocks of 16 channels. */
#ifndef PSR_TESTS_AVX512_H
#define PSR_TESTS_AVX512_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "model/onednn/compat.h"

/* Tests that need it are a run of their own: `PROGRAM avx512`. The status with which such a run
 * ends before its first test: 77, a skip with its reason, without AVX-512; 2 when called otherwise;
 * 0: go on. */
static inline int status_before_avx512_tests(int argc, char **argv, const char *reason)
{
    if (argc != 2 || strcmp(argv[1], "avx512") != 0)
        return 2;
    if (psr_onednn_has_avx512())
        return 0;
    printf("skipped: without AVX-512 %s\n", reason);
    return 77;
}

#endif
