/* Byte 0: packing (bits 0-1), CIFAR-10 or CIFAR-100 (bit 2), records expected (bits 3-4, plus 1);
 * then the file. */
#include "data/files/cifar.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t pixels[4 * PSR_CIFAR_IMAGE_BYTES];
    static uint32_t labels[4];
    if (size < 1)
        return 0;
    const psr_cifar_kind *kind = bytes[0] & 4 ? &psr_cifar_100 : &psr_cifar_10;
    uint32_t count = 1 + (bytes[0] >> 3) % 4;
    psr_source *source = NULL;
    psr_err err = psr_source_open_memory("file", bytes[0] % 4 % 3, bytes + 1, size - 1, &source);
    if (err == PSR_OK)
        err = psr_cifar_read(source, kind, count, pixels, labels);
    for (uint32_t i = 0; err == PSR_OK && i < count; i++)
        assert(labels[i] < kind->classes);
    assert(err == PSR_OK || psr_err_detail()[0] != '\0');
    psr_source_free(source);
    return 0;
}
