/* Images that come as bytes (base/arrays/byte_images.h). What a byte becomes is looked up, so the
 * floats are the host's, whatever a GPU makes of a division. */
#include "model/cuda/kernels/device.h"

PSR_DEVICE uint32_t psr_bytes_has(const psr_byte_box *box, uint32_t y, uint32_t x)
{
    return y - box->top < box->height && x - box->left < box->width;
}

/* All channels of a pixel by one thread, neighbours in a row by neighbours, so that both layouts of
 * the bytes are read along their lines. */
PSR_KERNEL(images_of_bytes)
{
    const uint32_t C = args.channels, plane = args.height * args.width;
    PSR_EACH(i, (uint64_t)args.samples * plane)
    {
        const uint64_t n = i / plane;
        const uint32_t pixel = (uint32_t)(i - n * plane);
        const uint32_t y = pixel / args.width, x = pixel - y * args.width;
        const psr_byte_image *image = &args.images[n];
        const psr_byte_box place = image->place;
        const uint32_t placed = psr_bytes_has(&place, y, x);
        const uint32_t blank = psr_bytes_has(&image->hole, y, x);
        const uint32_t column = x - place.left;
        const uint32_t at = (y - place.top) * place.width +
                            (image->mirrored ? place.width - 1 - column : column);
        const uint32_t first = image->by_pixels ? at * C : at;
        const uint32_t step = image->by_pixels ? 1 : place.height * place.width;
        const uint64_t begin = n * C * plane;
        for (uint32_t c = 0; c < C; c++) {
            const uint32_t byte = placed ? args.bytes[begin + first + (uint64_t)c * step] : 0;
            args.y[begin + (uint64_t)c * plane + pixel] =
                blank ? 0 : args.values[c * PSR_BYTE_VALUES + byte];
        }
    }
}
