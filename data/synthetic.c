#include "data/synthetic.h"
#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { GRID = 4, BLOCKS = GRID * GRID, PIXELS_PER_DRAW = 16 };
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
        {"classes", &parsed.classes, 2, 65536},
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

/* pixels[channels, size, size] of the sample that at names. */
static void draw_image(const psr_synthetic *synthetic, psr_rng_at at, const uint8_t *pattern,
                       uint8_t *pixels)
{
    size_t plane_bytes = (size_t)synthetic->size * synthetic->size;
    size_t bytes = synthetic->channels * plane_bytes;
    for (uint32_t c = 0; c < synthetic->channels; c++)
        stretch_blocks(pattern + c * BLOCKS, synthetic->size, pixels + c * plane_bytes);
    at.layer = LAYER_NOISE;
    for (size_t i = 0; i < bytes; i += PIXELS_PER_DRAW) {
        uint32_t words[4];
        psr_rng_block(at, (uint32_t)(i / PIXELS_PER_DRAW), words);
        for (size_t k = 0; k < PIXELS_PER_DRAW && i + k < bytes; k++) {
            uint32_t noise = words[k / 4] >> (k % 4 * 8) & 0xff;
            pixels[i + k] = (uint8_t)((pixels[i + k] + noise) / 2);
        }
    }
}

psr_err psr_synthetic_generate(const psr_synthetic *synthetic, uint32_t split, psr_reading *reading,
                               psr_samples *ret_samples)
{
    psr_samples samples = {
        .count = split == 0 ? synthetic->train_count : synthetic->test_count,
        .channels = synthetic->channels,
        .height = synthetic->size,
        .width = synthetic->size,
        .classes = synthetic->classes,
    };
    size_t image_bytes = psr_samples_image_bytes(&samples);
    /* below 2^32 * 3 * 2^20 */
    PSR_TRY(psr_samples_fit("--data synthetic", (uint64_t)samples.count * image_bytes,
                            "give a smaller count=, test= or size="));
    size_t pattern_bytes = (size_t)samples.channels * BLOCKS;
    uint8_t *patterns = malloc(samples.classes * pattern_bytes);
    samples.pixels = malloc(samples.count * image_bytes);
    samples.labels = malloc(samples.count * sizeof *samples.labels);
    if (patterns == NULL || samples.pixels == NULL || samples.labels == NULL) {
        free(patterns);
        psr_samples_done(&samples);
        return psr_fail(PSR_ERR_NOMEM,
                        "--data synthetic: no memory for %" PRIu32 " images of %zu bytes",
                        samples.count, image_bytes);
    }
    psr_err err = PSR_OK;
    draw_patterns(synthetic, patterns);
    for (uint32_t i = 0; i < samples.count && (err = psr_reading_moved(reading)) == PSR_OK; i++) {
        psr_rng_at at = {
            .purpose = PSR_RNG_SYNTHETIC, .epoch = split, .sample = i, .layer = LAYER_LABEL};
        uint64_t element = 0;
        samples.labels[i] = psr_rng_below(at, &element, samples.classes);
        draw_image(synthetic, at, patterns + samples.labels[i] * pattern_bytes,
                   samples.pixels + i * image_bytes);
    }
    free(patterns);
    if (err != PSR_OK) {
        psr_samples_done(&samples);
        return err;
    }
    *ret_samples = samples;
    return PSR_OK;
}
