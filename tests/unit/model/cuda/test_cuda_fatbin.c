/* The kernels' bytes as a program has them. */
#include "model/cuda/kernels/fatbin.h"
#include "model/cuda/kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void the_fatbin_holds_every_kernel(void **state)
{
    (void)state;
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    assert_true(psr_cuda_kernels_fatbin_bytes > sizeof magic);
    assert_memory_equal(psr_cuda_kernels_fatbin, magic, sizeof magic);
#define NAME(name) "psr_kernel_" #name,
    static const char *const names[] = {PSR_CUDA_KERNELS(NAME)};
    for (size_t i = 0; i < PSR_CUDA_KERNEL_COUNT; i++)
        if (memmem(psr_cuda_kernels_fatbin, psr_cuda_kernels_fatbin_bytes, names[i],
                   strlen(names[i]) + 1) == NULL)
            fail_msg("%s is not in the fatbin", names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fatbin_holds_every_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
