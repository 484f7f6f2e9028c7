#include "data/files/idx.h"

#include <inttypes.h>

enum {
    MAGIC_LABELS = 0x00000801,
    MAGIC_IMAGES = 0x00000803,
    HEADER_LABELS = 8,
    HEADER_IMAGES = 16
};

static uint32_t big_endian_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static psr_err read_header(psr_source *source, uint32_t magic, const char *what, uint8_t *header,
                           size_t size)
{
    PSR_TRY(psr_source_read(source, header, size, size));
    uint32_t found = big_endian_u32(header);
    if (found != magic)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: magic 0x%08" PRIx32 " at byte 0, should be 0x%08" PRIx32 " (IDX %s)",
                        psr_source_path(source), found, magic, what);
    return PSR_OK;
}

psr_err psr_idx_read_shape(psr_source *images, psr_source *labels, psr_idx_shape *ret_shape)
{
    uint8_t header[HEADER_IMAGES];
    PSR_TRY(read_header(images, MAGIC_IMAGES, "images of unsigned bytes", header, HEADER_IMAGES));
    psr_idx_shape shape = {
        .count = big_endian_u32(header + 4),
        .height = big_endian_u32(header + 8),
        .width = big_endian_u32(header + 12),
    };
    if (shape.count == 0)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: says at byte 4 that it holds 0 images, should be at least 1",
                        psr_source_path(images));
    if (shape.height - 1 >= PSR_SAMPLES_MAX_SIDE || shape.width - 1 >= PSR_SAMPLES_MAX_SIDE)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: images of %" PRIu32 "x%" PRIu32 " at byte 8, sides should be 1..%u",
                        psr_source_path(images), shape.height, shape.width, PSR_SAMPLES_MAX_SIDE);
    PSR_TRY(read_header(labels, MAGIC_LABELS, "labels of unsigned bytes", header, HEADER_LABELS));
    uint32_t label_count = big_endian_u32(header + 4);
    if (label_count != shape.count)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: says that it holds %" PRIu32 " labels, should be %" PRIu32 " as %s",
                        psr_source_path(labels), label_count, shape.count, psr_source_path(images));
    *ret_shape = shape;
    return PSR_OK;
}

static uint32_t classes_of(const uint8_t *labels, size_t count, uint32_t classes)
{
    for (size_t i = 0; i < count; i++)
        classes = labels[i] >= classes ? labels[i] + 1u : classes;
    return classes;
}

psr_err psr_idx_count_classes(psr_source *labels, uint32_t count, uint32_t *ret_classes)
{
    uint8_t some[16 * 1024];
    uint32_t classes = 0;
    for (size_t left = count; left > 0;) {
        size_t size = left < sizeof some ? left : sizeof some;
        PSR_TRY(psr_source_read(labels, some, size, HEADER_LABELS + (uint64_t)count));
        classes = classes_of(some, size, classes);
        left -= size;
    }
    PSR_TRY(psr_source_end(labels));
    *ret_classes = classes;
    return PSR_OK;
}

static psr_err read_labels(psr_source *source, uint32_t count, uint32_t **ret_labels,
                           uint32_t *ret_classes)
{
    uint8_t *bytes = NULL;
    uint32_t *labels = NULL;
    psr_err err = psr_source_read_new(source, count, HEADER_LABELS + (uint64_t)count, &bytes);
    if (err != PSR_OK)
        goto out;
    err = psr_source_end(source);
    if (err != PSR_OK)
        goto out;
    labels = malloc(count * sizeof *labels);
    if (labels == NULL) {
        err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for %" PRIu32 " labels",
                       psr_source_path(source), count);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++)
        labels[i] = bytes[i];
    *ret_classes = classes_of(bytes, count, 0);
    *ret_labels = labels;
out:
    free(bytes);
    return err;
}

/* 2^32 * 2^10 * 2^10 bytes at most, so their number cannot overflow. */
uint64_t psr_idx_bytes(const psr_idx_shape *shape)
{
    return (uint64_t)shape->count * shape->height * shape->width;
}

bool psr_idx_is_mapped(const psr_source *images, const psr_idx_shape *shape)
{
    return psr_idx_bytes(shape) > PSR_SAMPLES_MAPPED_BYTES && psr_source_is_plain_file(images);
}

static psr_err read_pixels(psr_source *images, const psr_idx_shape *shape, psr_samples *samples)
{
    const uint64_t bytes = psr_idx_bytes(shape);
    if (psr_idx_is_mapped(images, shape)) {
        PSR_TRY(psr_mapped_open(psr_source_path(images), HEADER_IMAGES, bytes, &samples->mapped));
        samples->pixels = (uint8_t *)(uintptr_t)psr_mapped_bytes(samples->mapped);
        return PSR_OK;
    }
    PSR_TRY(psr_samples_fit(psr_source_path(images), "pixels", bytes,
                            "unpack it: a plain file is mapped, and may be larger than memory"));
    PSR_TRY(psr_source_read_new(images, bytes, HEADER_IMAGES + bytes, &samples->pixels));
    return psr_source_end(images);
}

psr_err psr_idx_read(psr_source *images, psr_source *labels, psr_samples *ret_samples)
{
    psr_idx_shape shape;
    PSR_TRY(psr_idx_read_shape(images, labels, &shape));
    psr_samples samples = {
        .count = shape.count,
        .channels = 1,
        .height = shape.height,
        .width = shape.width,
    };
    /* The small file comes first, so that an error in it is found before the large one is
     * unpacked. */
    psr_err err = read_labels(labels, shape.count, &samples.labels, &samples.classes);
    if (err != PSR_OK)
        goto out;
    err = read_pixels(images, &shape, &samples);
    if (err != PSR_OK)
        goto out;
    *ret_samples = samples;
    samples = (psr_samples){0};
out:
    psr_samples_done(&samples);
    return err;
}
