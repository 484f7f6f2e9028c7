#include "data/augment.h"

#include "base/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Two neighbours on one axis of the source and the second one's weight. */
typedef struct tap {
    uint32_t first, second;
    float weight;
} tap;

struct psr_augmenter {
    const psr_dataset *dataset;
    uint64_t seed;
    uint32_t size;
    uint32_t padding; /* 0: no crop, no flip */
    bool random;
    tap *rows, *columns; /* [size], NULL: no resize */
    float value[3][256]; /* of a byte, per channel */
};

psr_crop psr_augment_crop(uint64_t seed, uint32_t epoch, uint32_t sample, uint32_t padding)
{
    uint32_t words[4];
    psr_rng_at at = {.seed = seed, .purpose = PSR_RNG_AUGMENT, .epoch = epoch, .sample = sample};
    psr_rng_block(at, 0, words);
    uint64_t choices = 2 * (uint64_t)padding + 1;
    return (psr_crop){
        .top = (uint32_t)(words[0] * choices >> 32),
        .left = (uint32_t)(words[1] * choices >> 32),
        .flip = words[2] >> 31 != 0,
    };
}

/* Source position of output i: (i + 1/2) from / to - 1/2, not below 0 (PyTorch's
 * area_pixel_compute_source_index); in double, which is exact enough to be the same everywhere. */
static tap *taps_new(uint32_t from, uint32_t to)
{
    tap *taps = malloc(to * sizeof *taps);
    if (taps == NULL)
        return NULL;
    for (uint32_t i = 0; i < to; i++) {
        double at = (i + 0.5) * ((double)from / to) - 0.5;
        if (at < 0)
            at = 0;
        uint32_t first = (uint32_t)at;
        taps[i] = (tap){
            .first = first,
            .second = first + 1 < from ? first + 1 : first,
            .weight = (float)(at - first),
        };
    }
    return taps;
}

psr_err psr_augmenter_new(const psr_dataset *dataset, psr_augment augment, uint32_t size,
                          uint64_t seed, psr_augmenter **ret_augmenter)
{
    if (augment == PSR_AUGMENT_IMAGENET)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--augment imagenet: needs a folder of JPEG images, which this build does "
                        "not read; should be none or crop-flip");
    if (dataset->height == 0)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--augment: the pictures of %s have different sizes, which this build does "
                        "not bring to one",
                        dataset->name);
    if (size == 0 && dataset->height != dataset->width)
        return psr_fail(PSR_ERR_USAGE,
                        "--image-size: images of %" PRIu32 "x%" PRIu32
                        " are not square, a size must be given",
                        dataset->height, dataset->width);
    psr_augmenter *augmenter = calloc(1, sizeof *augmenter);
    if (augmenter == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to augment images");
    augmenter->dataset = dataset;
    augmenter->seed = seed;
    augmenter->size = size > 0 ? size : dataset->height;
    augmenter->random = augment == PSR_AUGMENT_CROP_FLIP;
    augmenter->padding = augmenter->random ? augmenter->size / 8 : 0;
    for (uint32_t c = 0; c < dataset->channels; c++)
        for (int u = 0; u < 256; u++)
            augmenter->value[c][u] = ((float)u / 255.0f - dataset->mean[c]) / dataset->deviation[c];
    if (augmenter->size != dataset->height || augmenter->size != dataset->width) {
        augmenter->rows = taps_new(dataset->height, augmenter->size);
        augmenter->columns = taps_new(dataset->width, augmenter->size);
        if (augmenter->rows == NULL || augmenter->columns == NULL) {
            psr_augmenter_free(augmenter);
            return psr_fail(PSR_ERR_NOMEM, "no memory to resize images");
        }
    }
    *ret_augmenter = augmenter;
    return PSR_OK;
}

void psr_augmenter_free(psr_augmenter *augmenter)
{
    if (augmenter == NULL)
        return;
    free(augmenter->rows);
    free(augmenter->columns);
    free(augmenter);
}

uint32_t psr_augmenter_size(const psr_augmenter *augmenter)
{
    return augmenter->size;
}

/* out[i] = value[row[i]] for count pixels, or of the mirrored row. */
static void convert_run(float *restrict out, const uint8_t *restrict row, uint32_t count,
                        const float *restrict value, bool flip)
{
    if (!flip) {
        for (uint32_t i = 0; i < count; i++)
            out[i] = value[row[i]];
    } else {
        for (uint32_t i = 0; i < count; i++)
            out[i] = value[row[count - 1 - i]];
    }
}

/* The same, bilinear between two rows of the source, for columns begin.. of the resized image. */
static void resize_run(const psr_augmenter *augmenter, float *restrict out, const uint8_t *plane,
                       uint32_t y, uint32_t begin, uint32_t count, const float *restrict value,
                       bool flip)
{
    uint32_t width = augmenter->dataset->width;
    tap vertical = augmenter->rows[y];
    const uint8_t *above = plane + (size_t)vertical.first * width;
    const uint8_t *below = plane + (size_t)vertical.second * width;
    for (uint32_t i = 0; i < count; i++) {
        tap across = augmenter->columns[begin + (flip ? count - 1 - i : i)];
        float keep = 1.0f - across.weight;
        float upper =
            keep * value[above[across.first]] + across.weight * value[above[across.second]];
        float lower =
            keep * value[below[across.first]] + across.weight * value[below[across.second]];
        out[i] = (1.0f - vertical.weight) * upper + vertical.weight * lower;
    }
}

static void fill(float *out, float value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

/* With padding p, row y of the crop is row y + top - p of the image and column x is column x +
 * left - p; what falls outside is a zero pixel. A mirrored row is written from its other end. */
static void write_plane(const psr_augmenter *augmenter, psr_crop crop, const uint8_t *plane,
                        const float *value, float *out)
{
    uint32_t size = augmenter->size, padding = augmenter->padding;
    uint32_t outside_left = crop.left < padding ? padding - crop.left : 0;
    uint32_t begin = crop.left > padding ? crop.left - padding : 0;
    uint32_t count = size - outside_left - begin;
    uint32_t before = crop.flip ? begin : outside_left; /* zeros at the row's start;
                                                           the rest at its end */
    for (uint32_t y = 0; y < size; y++, out += size) {
        uint32_t source_y = y + crop.top - padding; /* wraps when it lies above */
        if (source_y >= size) {
            fill(out, value[0], size);
            continue;
        }
        fill(out, value[0], before);
        if (augmenter->rows != NULL)
            resize_run(augmenter, out + before, plane, source_y, begin, count, value, crop.flip);
        else
            convert_run(out + before, plane + (size_t)source_y * size + begin, count, value,
                        crop.flip);
        fill(out + before + count, value[0], size - before - count);
    }
}

void psr_augmenter_image(const psr_augmenter *augmenter, uint32_t epoch, uint32_t sample,
                         const psr_picture *picture, float *image)
{
    psr_crop crop = {0};
    if (augmenter->random)
        crop = psr_augment_crop(augmenter->seed, epoch, sample, augmenter->padding);
    for (uint32_t c = 0; c < picture->channels; c++)
        write_plane(augmenter, crop, picture->pixels + c * picture->plane, augmenter->value[c],
                    image + (size_t)c * augmenter->size * augmenter->size);
}
