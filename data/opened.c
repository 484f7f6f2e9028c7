#include "data/opened.h"

#include "data/content_cache.h"
#include "data/digest.h"
#include "data/location.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(PSR_DIGEST_BYTES == PSR_CONTENT_BYTES, "a content is a digest");

/* If a file changes twice within one tick of the clock, its times show only one change. So the
 * content of files that changed very recently is not remembered. */
#define SETTLED_S 3

/* ---- hashing ---- */

static void begin(XXH3_state_t *state, const char *what, const uint32_t *shape, size_t count)
{
    XXH3_INITSTATE(state);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, what, strlen(what) + 1);
    XXH3_128bits_update(state, shape, count * sizeof *shape);
}

/* count, channels, height, width; labels[count]; pixels[count, channels, height, width]. Numbers
 * have 32 bits, the least byte first, as the processors that psring runs on keep them. */
static psr_err hash_samples(const psr_dataset *dataset, psr_reading *reading,
                            char text[PSR_CONTENT_BYTES])
{
    const uint32_t shape[] = {dataset->count, dataset->channels, dataset->height, dataset->width};
    size_t left = (size_t)dataset->count * dataset->channels * dataset->height * dataset->width;
    XXH3_state_t state;
    begin(&state, "samples", shape, 4);
    XXH3_128bits_update(&state, dataset->labels, dataset->count * sizeof *dataset->labels);
    for (const uint8_t *at = dataset->pixels; left > 0;) {
        size_t size = left < PSR_READING_BYTES ? left : PSR_READING_BYTES;
        PSR_TRY(psr_reading_moved(reading));
        if (dataset->mapped != NULL)
            PSR_TRY(psr_mapped_check(dataset->mapped));
        XXH3_128bits_update(&state, at, size);
        at += size;
        left -= size;
    }
    psr_digest_print(&state, text);
    return PSR_OK;
}

/* For generated data: the parameters by which they are generated. */
static void hash_spec(const psr_synthetic *s, uint32_t split, char text[PSR_CONTENT_BYTES])
{
    const uint32_t spec[] = {split, split == PSR_SPLIT_TRAIN ? s->train_count : s->test_count,
                             s->channels, s->size, s->classes};
    XXH3_state_t state;
    begin(&state, "synthetic 1", spec, 5);
    psr_digest_print(&state, text);
}

static psr_err hash_both(const psr_location *location, psr_reading *reading, psr_opened *opened)
{
    /* A pack's head says it, and has a checksum. */
    if (location->is_pack || location->is_pictures) {
        memcpy(opened->content.train, opened->train->source->content, PSR_CONTENT_BYTES);
        memcpy(opened->content.test, opened->test->source->content, PSR_CONTENT_BYTES);
        return PSR_OK;
    }
    if (location->files == NULL) {
        hash_spec(&location->synthetic, PSR_SPLIT_TRAIN, opened->content.train);
        hash_spec(&location->synthetic, PSR_SPLIT_TEST, opened->content.test);
        return PSR_OK;
    }
    PSR_TRY(hash_samples(opened->train, reading, opened->content.train));
    return hash_samples(opened->test, reading, opened->content.test);
}

/* ---- opening ---- */

/* An entry of the cache counts only if the files had the same state before and after it was
 * read. */
static psr_err find_content(const psr_location *location, const psr_location_state *before,
                            const char *cache, psr_reading *reading, psr_opened *opened)
{
    psr_location_state after;
    PSR_TRY(psr_location_state_of(location, &after));
    bool may_cache = cache != NULL && (location->files != NULL || location->is_pictures) &&
                     strcmp(before->text, after.text) == 0;
    if (may_cache && psr_content_cache_get(cache, after.text, &opened->content))
        return PSR_OK;
    PSR_TRY(hash_both(location, reading, opened));
    if (may_cache && after.changed_s + SETTLED_S < (int64_t)time(NULL))
        psr_content_cache_put(cache, after.text, &opened->content);
    return PSR_OK;
}

static psr_err open_resolved(const char *spec, const psr_location *location, const char *cache,
                             psr_reading *reading, psr_opened *ret_opened)
{
    psr_opened opened = {0};
    psr_location_state before;
    PSR_TRY(psr_location_state_of(location, &before));
    PSR_TRY(psr_dataset_read_both(spec, cache, reading, &opened.train, &opened.test));
    psr_err err = find_content(location, &before, cache, reading, &opened);
    if (err != PSR_OK) {
        psr_opened_done(&opened);
        return err;
    }
    memcpy(opened.train->source->content, opened.content.train, PSR_CONTENT_BYTES);
    memcpy(opened.test->source->content, opened.content.test, PSR_CONTENT_BYTES);
    *ret_opened = opened;
    return PSR_OK;
}

bool psr_opened_is_passed(const psr_opened *opened)
{
    return opened->train->pixels != NULL || psr_synthetic_of(opened->train->source) != NULL;
}

psr_err psr_opened_init(const char *spec, const char *cache, psr_reading *reading,
                        psr_opened *ret_opened)
{
    psr_location location;
    PSR_TRY(psr_location_resolve(spec, &location));
    return open_resolved(spec, &location, cache, reading, ret_opened);
}

void psr_opened_done(psr_opened *opened)
{
    psr_dataset_free(opened->train);
    psr_dataset_free(opened->test);
    *opened = (psr_opened){0};
}

psr_err psr_content_find(const char *spec, const char *cache, psr_reading *reading,
                         psr_content *ret_content)
{
    psr_location location;
    psr_location_state state;
    psr_opened opened = {0};
    PSR_TRY(psr_location_resolve(spec, &location));
    PSR_TRY(psr_location_state_of(&location, &state));
    if (location.files == NULL && !location.is_pack && !location.is_pictures)
        PSR_TRY(hash_both(&location, reading, &opened));
    else if (cache == NULL || !psr_content_cache_get(cache, state.text, &opened.content))
        PSR_TRY(open_resolved(spec, &location, cache, reading, &opened));
    *ret_content = opened.content;
    psr_opened_done(&opened);
    return PSR_OK;
}

psr_err psr_content_key(const char *spec, char ret_key[PSR_CONTENT_BYTES])
{
    psr_location location;
    psr_location_state state;
    PSR_TRY(psr_location_resolve(spec, &location));
    PSR_TRY(psr_location_state_of(&location, &state));
    memcpy(ret_key, state.text, PSR_CONTENT_BYTES);
    return PSR_OK;
}
