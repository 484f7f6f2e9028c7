/* Byte 0: packing of the images (bits 0-1) and of the labels (bits 2-3); bytes 1-2: length of the
 * labels' file, big-endian; then that file, then the images' file. */
#include "data/files/idx.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 3)
        return 0;
    size_t labels_size = (size_t)bytes[1] << 8 | bytes[2];
    if (labels_size > size - 3)
        return 0;
    psr_source *images = NULL, *labels = NULL;
    psr_samples samples = {0};
    psr_err err =
        psr_source_open_memory("labels", (bytes[0] >> 2) % 3, bytes + 3, labels_size, &labels);
    if (err == PSR_OK)
        err = psr_source_open_memory("images", bytes[0] % 4 % 3, bytes + 3 + labels_size,
                                     size - 3 - labels_size, &images);
    if (err == PSR_OK)
        err = psr_idx_read(images, labels, &samples);
    if (err == PSR_OK) {
        /* What came through is whole: every byte and label can be read. */
        uint64_t sum = 0;
        for (size_t i = 0; i < samples.count * psr_samples_image_bytes(&samples); i++)
            sum += samples.pixels[i];
        assert(sum <= 255 * samples.count * psr_samples_image_bytes(&samples));
        for (uint32_t i = 0; i < samples.count; i++)
            assert(samples.labels[i] < samples.classes);
    } else {
        assert(samples.pixels == NULL && psr_err_detail()[0] != '\0');
    }
    psr_samples_done(&samples);
    psr_source_free(images);
    psr_source_free(labels);
    return 0;
}
