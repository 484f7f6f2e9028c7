#include "data/synthetic.h"
#include "base/arrays/multiversion.h"
#include "base/rng.h"
#include "data/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { GRID = 4, BLOCKS = GRID * GRID, PIXELS_PER_DRAW = 16, DRAWS_AT_ONCE = 64 };
enum { LAYER_LABEL = 0, LAYER_NOISE = 1, LAYER_PATTERN = 2 }; /* streams of random numbers */

#define SYNTHETIC_FORM "synthetic[:count=60000,test=10000,channels=3,size=32,classes=10]"

typedef struct spec_key {
    const char *name;
    uint32_t *value;
    uint32_t least, most;
} spec_key;

static psr_err set_key(const spec_key *keys, size_t key_count, const char *pair, size_t length)
{
    const char *equals = memchr(pair, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - pair) : length;
    for (size_t k = 0; k < key_count; k++) {
        if (strlen(keys[k].name) != name_length || memcmp(keys[k].name, pair, name_length) != 0)
            continue;
        /* strtoull would take a sign and white space. */
        bool digit = equals != NULL && equals[1] >= '0' && equals[1] <= '9';
        char *end = NULL;
        errno = 0;
        unsigned long long value = digit ? strtoull(equals + 1, &end, 10) : 0;
        if (!digit || end != pair + length || errno != 0 || value < keys[k].least ||
            value > keys[k].most)
            return psr_fail(PSR_ERR_USAGE,
                            "--data synthetic: \"%.*s\": %s should be a whole number in %" PRIu32
                            "..%" PRIu32,
                            (int)length, pair, keys[k].name, keys[k].least, keys[k].most);
        *keys[k].value = (uint32_t)value;
        return PSR_OK;
    }
    return psr_fail(PSR_ERR_USAGE,
                    "--data synthetic: \"%.*s\" is not known, should be " SYNTHETIC_FORM,
                    (int)length, pair);
}

psr_err psr_synthetic_parse(const char *spec, psr_synthetic *ret_synthetic)
{
    psr_synthetic parsed = {
        .train_count = 60000, .test_count = 10000, .channels = 3, .size = 32, .classes = 10};
    const spec_key keys[] = {
        {"count", &parsed.train_count, 1, UINT32_MAX},
        {"test", &parsed.test_count, 1, UINT32_MAX},
        {"channels", &parsed.channels, 1, 3},
        {"size", &parsed.size, 1, PSR_SAMPLES_MAX_SIDE},
        {"classes", &parsed.classes, 2, PSR_SYNTHETIC_MAX_CLASSES},
    };
    while (*spec != '\0') {
        size_t length = strcspn(spec, ",");
        PSR_TRY(set_key(keys, sizeof keys / sizeof keys[0], spec, length));
        spec += length;
        if (*spec == ',' && *++spec == '\0')
            return psr_fail(PSR_ERR_USAGE,
                            "--data synthetic: ends in a comma, should be " SYNTHETIC_FORM);
    }
    if (parsed.channels == 2)
        return psr_fail(PSR_ERR_USAGE,
                        "--data synthetic: \"channels=2\": channels should be 1 or 3");
    *ret_synthetic = parsed;
    return PSR_OK;
}

/* pattern[classes, channels, GRID, GRID] */
static void draw_patterns(const psr_synthetic *synthetic, uint8_t *pattern)
{
    for (uint32_t c = 0; c < synthetic->classes; c++) {
        psr_rng_at at = {.purpose = PSR_RNG_SYNTHETIC, .sample = c, .layer = LAYER_PATTERN};
        for (uint32_t i = 0; i < synthetic->channels * BLOCKS; i++)
            *pattern++ = (uint8_t)psr_rng_word(at, i);
    }
}

/* plane[size, size] of GRID x GRID blocks; block (r, c) covers rows floor(r size / GRID) up to that
 * of r + 1.
 */
static void stretch_blocks(const uint8_t *blocks, uint32_t size, uint8_t *plane)
{
    for (uint32_t r = 0; r < GRID; r++) {
        for (uint32_t y = r * size / GRID; y < (r + 1) * size / GRID; y++) {
            for (uint32_t c = 0; c < GRID; c++) {
                uint32_t begin = c * size / GRID, end = (c + 1) * size / GRID;
                memset(plane + (size_t)y * size + begin, blocks[r * GRID + c], end - begin);
            }
        }
    }
}

/* Bytes that draw_image writes: whole draws. */
static size_t drawn_bytes(const psr_synthetic *synthetic)
{
    const size_t bytes = (size_t)synthetic->channels * synthetic->size * synthetic->size;
    return (bytes + PIXELS_PER_DRAW - 1) / PIXELS_PER_DRAW * PIXELS_PER_DRAW;
}

PSR_MULTIVERSION static void average(uint8_t *pixels, const uint8_t *noise, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)((pixels[i] + noise[i]) / 2);
}

/* pixels[channels, size, size], drawn_bytes of memory, of the sample that at names. A word has the
 * noise of four pixels, the first in its least byte: as the processors that psring runs on keep
 * it. */
static void draw_image(const psr_synthetic *synthetic, psr_rng_at at, const uint8_t *pattern,
                       uint8_t *pixels)
{
    const size_t plane_bytes = (size_t)synthetic->size * synthetic->size,
                 bytes = drawn_bytes(synthetic);
    memset(pixels + bytes - PIXELS_PER_DRAW, 0, PIXELS_PER_DRAW); /* those behind the last plane */
    for (uint32_t c = 0; c < synthetic->channels; c++)
        stretch_blocks(pattern + c * BLOCKS, synthetic->size, pixels + c * plane_bytes);
    at.layer = LAYER_NOISE;
    for (size_t i = 0; i < bytes;) {
        uint32_t words[DRAWS_AT_ONCE * PIXELS_PER_DRAW / sizeof(uint32_t)];
        const size_t run = bytes - i < sizeof words ? bytes - i : sizeof words;
        psr_rng_blocks(at, (uint32_t)(i / PIXELS_PER_DRAW), run / PIXELS_PER_DRAW, words);
        average(pixels + i, (const uint8_t *)words, run);
        i += run;
    }
}

static psr_rng_at place_of(uint32_t split, uint32_t sample)
{
    return (psr_rng_at){
        .purpose = PSR_RNG_SYNTHETIC, .epoch = split, .sample = sample, .layer = LAYER_LABEL};
}

static uint32_t count_of(const psr_synthetic *synthetic, uint32_t split)
{
    return split == 0 ? synthetic->train_count : synthetic->test_count;
}

psr_err psr_synthetic_labels(const psr_synthetic *synthetic, uint32_t split, psr_reading *reading,
                             uint32_t **ret_labels)
{
    const uint32_t count = count_of(synthetic, split);
    psr_err err = PSR_OK;
    PSR_TRY(psr_samples_fit("--data synthetic", "labels", count * (uint64_t)sizeof(uint32_t),
                            "give a smaller count= or test="));
    uint32_t *labels = malloc(count * sizeof *labels);
    if (labels == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--data synthetic: no memory for %" PRIu32 " labels", count);
    for (uint32_t i = 0; i < count && (err = psr_reading_moved(reading)) == PSR_OK; i++) {
        uint64_t element = 0;
        labels[i] = psr_rng_below(place_of(split, i), &element, synthetic->classes);
    }
    if (err != PSR_OK) {
        free(labels);
        return err;
    }
    *ret_labels = labels;
    return PSR_OK;
}

/* ---- the source ---- */

typedef struct synthetic_source {
    psr_picture_source base;
    psr_synthetic synthetic;
    uint32_t split;
    uint8_t patterns[]; /* [classes, channels, GRID, GRID] */
} synthetic_source;

static psr_err synthetic_picture(const psr_picture_source *source, uint32_t i,
                                 const psr_picture_part *part, psr_picture_scratch *scratch,
                                 psr_picture *ret_picture)
{
    const synthetic_source *s = source->state;
    const size_t pattern_bytes = (size_t)source->channels * BLOCKS;
    uint8_t *pixels = NULL;
    PSR_TRY(psr_scratch_bytes(scratch, source->scratch_bytes, &pixels));
    draw_image(&s->synthetic, place_of(s->split, i),
               s->patterns + source->labels[i] * pattern_bytes, pixels);
    return psr_picture_of_planes(source, pixels, part, ret_picture);
}

static void synthetic_free(psr_picture_source *source)
{
    free(source->state);
}

static const psr_picture_source_kind synthetic_kind = {
    .name = "synthetic", .picture = synthetic_picture, .free = synthetic_free};

psr_err psr_synthetic_source_new(const psr_synthetic *synthetic, uint32_t split,
                                 const uint32_t *labels, psr_picture_source **ret_source)
{
    const size_t pattern_bytes = (size_t)synthetic->channels * BLOCKS;
    synthetic_source *s = malloc(sizeof *s + synthetic->classes * pattern_bytes);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--data synthetic: no memory for %" PRIu32 " classes",
                        synthetic->classes);
    *s = (synthetic_source){.base = {.kind = &synthetic_kind,
                                     .count = count_of(synthetic, split),
                                     .classes = synthetic->classes,
                                     .channels = synthetic->channels,
                                     .height = synthetic->size,
                                     .width = synthetic->size,
                                     .scratch_bytes = drawn_bytes(synthetic),
                                     .labels = labels,
                                     .deviation = {1, 1, 1},
                                     .state = s},
                            .synthetic = *synthetic,
                            .split = split};
    draw_patterns(synthetic, s->patterns);
    *ret_source = &s->base;
    return PSR_OK;
}

const psr_synthetic *psr_synthetic_of(const psr_picture_source *source)
{
    const synthetic_source *s = source->state;
    return source->kind == &synthetic_kind ? &s->synthetic : NULL;
}
