#include "data/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- scratch ---- */

static psr_err grow(uint8_t **bytes, size_t *have, size_t size, uint8_t **ret_bytes)
{
    enum { ALIGNMENT = 64 };
    if (size > *have) {
        size_t room = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        uint8_t *grown = room >= size ? aligned_alloc(ALIGNMENT, room) : NULL;
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a picture of %zu bytes", size);
        free(*bytes);
        *bytes = grown;
        *have = room;
    }
    *ret_bytes = *bytes;
    return PSR_OK;
}

psr_err psr_scratch_bytes(psr_picture_scratch *scratch, size_t size, uint8_t **ret_bytes)
{
    return grow(&scratch->bytes, &scratch->size, size, ret_bytes);
}

psr_err psr_scratch_stored(psr_picture_scratch *scratch, size_t size, uint8_t **ret_bytes)
{
    return grow(&scratch->stored, &scratch->stored_size, size, ret_bytes);
}

void psr_scratch_done(psr_picture_scratch *scratch)
{
    if (scratch->decoder != NULL)
        scratch->decoder_free(scratch->decoder);
    free(scratch->bytes);
    free(scratch->stored);
    *scratch = (psr_picture_scratch){0};
}

/* ---- any source ---- */

psr_err psr_picture_source_get(const psr_picture_source *source, uint32_t i,
                               const psr_picture_part *part, psr_picture_scratch *scratch,
                               psr_picture *ret_picture)
{
    psr_picture_part full;
    if (part != NULL && !source->scaled) {
        full = *part;
        full.to_height = full.to_width = 0;
        part = &full;
    }
    return source->kind->picture(source, i, part, scratch, ret_picture);
}

psr_err psr_picture_source_size(const psr_picture_source *source, uint32_t i,
                                psr_picture_scratch *scratch, uint32_t *ret_height,
                                uint32_t *ret_width)
{
    if (source->kind->size != NULL)
        return source->kind->size(source, i, scratch, ret_height, ret_width);
    *ret_height = source->height;
    *ret_width = source->width;
    return PSR_OK;
}

/* out: [channels, height, width]. */
static void copy_planes(const psr_picture *picture, uint8_t *out)
{
    for (uint32_t c = 0; c < picture->channels; c++) {
        for (uint32_t y = 0; y < picture->height; y++) {
            const uint8_t *row = picture->pixels + c * picture->plane + y * picture->row;
            for (uint32_t x = 0; x < picture->width; x++)
                *out++ = row[x * picture->step];
        }
    }
}

static bool is_contiguous(const psr_picture *picture)
{
    return picture->step == 1 && picture->row == picture->width &&
           picture->plane == picture->row * picture->height;
}

/* What is decoded is laid out in the scratch's other memory. */
psr_err psr_picture_source_pixels(const psr_picture_source *source, uint32_t i,
                                  psr_picture_scratch *scratch, psr_stored *ret_stored)
{
    psr_picture picture;
    PSR_TRY(psr_picture_source_get(source, i, NULL, scratch, &picture));
    psr_stored stored = {.bytes = picture.pixels,
                         .size = (size_t)picture.channels * picture.height * picture.width,
                         .form = PSR_STORED_PIXELS,
                         .channels = picture.channels,
                         .height = picture.height,
                         .width = picture.width};
    if (!is_contiguous(&picture)) {
        uint8_t *bytes = NULL;
        PSR_TRY(psr_scratch_stored(scratch, stored.size, &bytes));
        copy_planes(&picture, bytes);
        stored.bytes = bytes;
    }
    *ret_stored = stored;
    return PSR_OK;
}

psr_err psr_picture_source_stored(const psr_picture_source *source, uint32_t i,
                                  psr_picture_scratch *scratch, psr_stored *ret_stored)
{
    return source->kind->stored != NULL ? source->kind->stored(source, i, scratch, ret_stored)
                                        : psr_picture_source_pixels(source, i, scratch, ret_stored);
}

void psr_picture_source_name(const psr_picture_source *source, uint32_t i, char *name, size_t size)
{
    if (source->kind->name_of != NULL)
        source->kind->name_of(source, i, name, size);
    else
        snprintf(name, size, "%" PRIu32, i);
}

void psr_picture_source_prefetch(const psr_picture_source *source, uint32_t i)
{
    if (source->kind->prefetch != NULL)
        source->kind->prefetch(source, i);
}

void psr_picture_source_free(psr_picture_source *source)
{
    if (source != NULL)
        source->kind->free(source);
}

psr_err psr_picture_cut(psr_picture *picture, const psr_picture_part *part)
{
    if (part == NULL)
        return PSR_OK;
    if (part->height == 0 || part->width == 0 || part->height > picture->height ||
        part->width > picture->width || part->top > picture->height - part->height ||
        part->left > picture->width - part->width)
        return psr_fail(PSR_ERR_USAGE,
                        "a part of %" PRIu32 "x%" PRIu32 " at row %" PRIu32 ", column %" PRIu32
                        " is not inside a picture of %" PRIu32 "x%" PRIu32,
                        part->height, part->width, part->top, part->left, picture->height,
                        picture->width);
    picture->pixels += part->top * picture->row + part->left * picture->step;
    picture->height = part->height;
    picture->width = part->width;
    return PSR_OK;
}

psr_err psr_picture_of_planes(const psr_picture_source *source, const uint8_t *pixels,
                              const psr_picture_part *part, psr_picture *ret_picture)
{
    psr_picture picture = {
        .pixels = pixels,
        .channels = source->channels,
        .height = source->height,
        .width = source->width,
        .plane = (size_t)source->height * source->width,
        .row = source->width,
        .step = 1,
    };
    PSR_TRY(psr_picture_cut(&picture, part));
    *ret_picture = picture;
    return PSR_OK;
}

/* ---- arrays in memory: state is their first pixel ---- */

static const uint8_t *pixels_of(const psr_picture_source *source, uint32_t i)
{
    return (const uint8_t *)source->state +
           (size_t)i * source->channels * source->height * source->width;
}

static psr_err memory_picture(const psr_picture_source *source, uint32_t i,
                              const psr_picture_part *part, psr_picture_scratch *scratch,
                              psr_picture *ret_picture)
{
    (void)scratch;
    return psr_picture_of_planes(source, pixels_of(source, i), part, ret_picture);
}

/* Shuffled samples lie anywhere in memory, so the processor cannot guess them. */
static void memory_prefetch(const psr_picture_source *source, uint32_t i)
{
    enum { LINE_BYTES = 64, MOST_BYTES = 4096 };
    size_t bytes = (size_t)source->channels * source->height * source->width;
    const uint8_t *pixels = pixels_of(source, i);
    for (size_t at = 0; at < bytes && at < MOST_BYTES; at += LINE_BYTES)
        __builtin_prefetch(pixels + at);
}

static void memory_free(psr_picture_source *source)
{
    free(source);
}

static const psr_picture_source_kind memory_kind = {
    .name = "memory", .picture = memory_picture, .prefetch = memory_prefetch, .free = memory_free};

psr_err psr_memory_source_new(const uint8_t *pixels, const uint32_t *labels, uint32_t count,
                              uint32_t channels, uint32_t height, uint32_t width, uint32_t classes,
                              psr_picture_source **ret_source)
{
    psr_picture_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a source of pictures");
    *source = (psr_picture_source){
        .kind = &memory_kind,
        .count = count,
        .classes = classes,
        .channels = channels,
        .height = height,
        .width = width,
        .labels = labels,
        .deviation = {1, 1, 1},
        .state = (void *)(uintptr_t)pixels,
    };
    *ret_source = source;
    return PSR_OK;
}
