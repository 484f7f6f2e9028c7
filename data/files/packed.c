/* The form of a data set that one process writes and other processes of its host map: a head, and
 * then for each split the labels, and the pixels or, if they are mapped, the place of the file that
 * has them, or, if they are generated, nothing; each at a multiple of 64 bytes. It is never on a
 * disk and never sent between hosts. */
#include "data/opened.h"

#include "base/system/memory.h"
#include "data/samples.h"
#include "data/synthetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

static const char magic[16] = "psring data 3";

enum { FORM_PIXELS, FORM_MAPPED, FORM_GENERATED, FORMS };

typedef struct packed_split {
    uint32_t count, channels, height, width, classes;
    float mean[3], deviation[3];
    uint32_t form; /* what stands behind the labels */
} packed_split;

typedef struct packed_head {
    char magic[16];
    psr_content content;
    packed_split split[2];
} packed_head;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t label_bytes(const packed_split *split)
{
    return aligned(split->count * sizeof(uint32_t));
}

/* Of at most PSR_SAMPLES_MAX_SIDE pixels a side. */
static size_t pixel_bytes(const packed_split *split)
{
    return (size_t)split->count * split->channels * split->height * split->width;
}

static size_t body_bytes(const packed_split *split)
{
    if (split->form == FORM_GENERATED)
        return 0;
    return aligned(split->form == FORM_MAPPED ? sizeof(psr_mapped_place) : pixel_bytes(split));
}

static uint32_t form_of(const psr_dataset *dataset)
{
    if (psr_synthetic_of(dataset->source) != NULL)
        return FORM_GENERATED;
    return dataset->mapped != NULL ? FORM_MAPPED : FORM_PIXELS;
}

static packed_split split_of(const psr_dataset *dataset)
{
    packed_split split = {.count = dataset->count,
                          .channels = dataset->channels,
                          .height = dataset->height,
                          .width = dataset->width,
                          .classes = dataset->classes,
                          .form = form_of(dataset)};
    memcpy(split.mean, dataset->mean, sizeof split.mean);
    memcpy(split.deviation, dataset->deviation, sizeof split.deviation);
    return split;
}

static size_t whole_bytes(const packed_head *head)
{
    size_t bytes = aligned(sizeof *head);
    for (int s = 0; s < 2; s++)
        bytes += label_bytes(&head->split[s]) + body_bytes(&head->split[s]);
    return bytes;
}

static packed_head head_of(const psr_opened *opened)
{
    packed_head head = {.content = opened->content,
                        .split = {split_of(opened->train), split_of(opened->test)}};
    memcpy(head.magic, magic, sizeof magic);
    return head;
}

size_t psr_opened_packed_bytes(const psr_opened *opened)
{
    packed_head head = head_of(opened);
    return whole_bytes(&head);
}

/* A piece at a time, since much memory takes long to be filled. What was copied is given back, so
 * that no more than a piece is in memory twice. */
static psr_err move_pixels(const psr_dataset *dataset, size_t bytes, psr_reading *reading,
                           uint8_t *to)
{
    const psr_samples *own = dataset->storage; /* NULL: the pixels are borrowed */
    for (size_t at = 0; at < bytes; at += PSR_READING_BYTES) {
        const size_t size = bytes - at < PSR_READING_BYTES ? bytes - at : PSR_READING_BYTES;
        PSR_TRY(psr_reading_moved(reading));
        memcpy(to + at, dataset->pixels + at, size);
        if (own != NULL)
            psr_memory_drop(own->pixels + at, size);
    }
    return PSR_OK;
}

psr_err psr_opened_pack(psr_opened *opened, psr_reading *reading, void *to)
{
    packed_head head = head_of(opened);
    uint8_t *at = (uint8_t *)to + aligned(sizeof head);
    memcpy(to, &head, sizeof head);
    for (int s = 0; s < 2; s++) {
        const packed_split *split = &head.split[s];
        const psr_dataset *dataset = s == 0 ? opened->train : opened->test;
        memcpy(at, dataset->labels, dataset->count * sizeof *dataset->labels);
        at += label_bytes(split);
        if (split->form == FORM_MAPPED)
            memcpy(at, psr_mapped_place_of(dataset->mapped), sizeof(psr_mapped_place));
        else if (split->form == FORM_PIXELS)
            PSR_TRY(move_pixels(dataset, pixel_bytes(split), reading, at));
        at += body_bytes(split);
    }
    return PSR_OK;
}

/* ---- reading ---- */

static bool is_possible(const packed_split *split)
{
    return split->count > 0 && (split->channels == 1 || split->channels == 3) &&
           split->height > 0 && split->height <= PSR_SAMPLES_MAX_SIDE && split->width > 0 &&
           split->width <= PSR_SAMPLES_MAX_SIDE && split->classes > 0 &&
           split->classes <= PSR_SYNTHETIC_MAX_CLASSES && split->form < FORMS &&
           (split->form != FORM_GENERATED || split->height == split->width);
}

static bool labels_are_below(const uint32_t *labels, uint32_t count, uint32_t classes)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++)
        largest = labels[i] > largest ? labels[i] : largest;
    return largest < classes;
}

/* Maps the file that has a split's pixels. */
static psr_err map_pixels(const packed_split *split, const uint8_t *at, psr_dataset *dataset)
{
    psr_mapped_place place;
    psr_samples *samples = calloc(1, sizeof *samples);
    if (samples == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to map a file");
    dataset->storage = samples;
    memcpy(&place, at, sizeof place);
    if (place.bytes != pixel_bytes(split))
        return psr_fail(PSR_ERR_FORMAT, "another process passed other pixels than it says");
    PSR_TRY(psr_mapped_open_place(&place, &samples->mapped));
    dataset->mapped = samples->mapped;
    dataset->pixels = psr_mapped_bytes(samples->mapped);
    return PSR_OK;
}

static psr_err add_source(const packed_split *split, int s, const uint8_t *body,
                          psr_dataset *dataset)
{
    if (split->form == FORM_GENERATED) {
        const psr_synthetic synthetic = {.train_count = split->count,
                                         .test_count = split->count,
                                         .channels = split->channels,
                                         .size = split->height,
                                         .classes = split->classes};
        PSR_TRY(
            psr_synthetic_source_new(&synthetic, (uint32_t)s, dataset->labels, &dataset->source));
        psr_dataset_copy_constants(dataset);
        return PSR_OK;
    }
    if (split->form == FORM_MAPPED)
        PSR_TRY(map_pixels(split, body, dataset));
    else
        dataset->pixels = body;
    return psr_dataset_add_source(dataset);
}

/* s: 0 train, 1 test. at: its labels. */
static psr_err unpack_split(const packed_split *split, int s, const uint8_t *at, const char *name,
                            psr_dataset **ret_dataset)
{
    psr_dataset *dataset = calloc(1, sizeof *dataset);
    if (dataset == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--data %s: no memory", name);
    *dataset = (psr_dataset){.labels = (const uint32_t *)(const void *)at,
                             .count = split->count,
                             .channels = split->channels,
                             .height = split->height,
                             .width = split->width,
                             .classes = split->classes};
    snprintf(dataset->name, sizeof dataset->name, "%s", name);
    memcpy(dataset->mean, split->mean, sizeof dataset->mean);
    memcpy(dataset->deviation, split->deviation, sizeof dataset->deviation);
    psr_err err = PSR_OK;
    if (!labels_are_below(dataset->labels, dataset->count, dataset->classes))
        err = psr_fail(PSR_ERR_FORMAT,
                       "--data %s: the data set that another process passed has labels of no class",
                       name);
    if (err == PSR_OK)
        err = add_source(split, s, at + label_bytes(split), dataset);
    if (err != PSR_OK) {
        psr_dataset_free(dataset);
        return err;
    }
    *ret_dataset = dataset;
    return PSR_OK;
}

psr_err psr_opened_unpack(const void *packed, size_t bytes, const char *name,
                          psr_opened *ret_opened)
{
    packed_head head;
    psr_opened opened = {0};
    if (bytes >= sizeof head)
        memcpy(&head, packed, sizeof head);
    if (bytes < sizeof head || memcmp(head.magic, magic, sizeof magic) != 0 ||
        !is_possible(&head.split[0]) || !is_possible(&head.split[1]) || whole_bytes(&head) > bytes)
        return psr_fail(PSR_ERR_FORMAT, "--data %s: what another process passed is not a data set",
                        name);
    const uint8_t *at = (const uint8_t *)packed + aligned(sizeof head);
    PSR_TRY(unpack_split(&head.split[0], 0, at, name, &opened.train));
    at += label_bytes(&head.split[0]) + body_bytes(&head.split[0]);
    psr_err err = unpack_split(&head.split[1], 1, at, name, &opened.test);
    if (err != PSR_OK) {
        psr_opened_done(&opened);
        return err;
    }
    opened.content = head.content;
    opened.content.train[PSR_CONTENT_BYTES - 1] = opened.content.test[PSR_CONTENT_BYTES - 1] = '\0';
    *ret_opened = opened;
    return PSR_OK;
}
