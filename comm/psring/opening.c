#include "comm/psring/opening.h"

#include "base/arrays/arena.h"
#include "comm/node/node_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_ID,
    WORD_INITIAL,
    WORD_WORKERS,
    WORD_PARTS,
    WORD_SYNC,
    WORD_BOUND,
    WORD_UPDATES,
    WORD_TYPE,
    WORD_MEAN,
    WORD_ENCODING, /* of pushes */
    WORD_RATIO,    /* of PSR_ENCODING_TOPK */
    WORD_NAME_BYTES,
    WORD_UPDATE_BYTES,
    WORDS_BEFORE /* workers, parts, name, update */
};

void psr_opening_done(psr_opening *opening)
{
    free(opening->workers);
    free(opening->parts);
    *opening = (psr_opening){0};
}

/* ---- from a program ---- */

psr_err psr_opening_sync(const char *text, psr_consistency *ret_consistency)
{
    unsigned bound = 0;
    int end = 0;
    psr_consistency c = {0};
    if (strcmp(text, "async") == 0)
        c.kind = PSR_CONSISTENCY_ASYNC;
    else if (strlen(text) <= 4 + 9 &&
             strspn(text + (strncmp(text, "ssp:", 4) == 0 ? 4 : 0), "0123456789") > 0 &&
             sscanf(text, "ssp:%u%n", &bound, &end) == 1 && text[end] == '\0')
        c = (psr_consistency){PSR_CONSISTENCY_SSP, bound};
    else if (strcmp(text, "bsp") != 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "sync is \"%.40s\": it should be bsp, ssp:K with K from 0 to 999999999, or async",
            text);
    *ret_consistency = c;
    return PSR_OK;
}

static psr_err check_parts(const size_t *parts, size_t count)
{
    size_t values = 0;
    if (parts == NULL || count == 0)
        return psr_fail(PSR_ERR_USAGE, "a table without parts");
    if (count > PSR_OPENING_PARTS_MAX)
        return psr_fail(PSR_ERR_UNSUPPORTED, "a table of %zu parts: %d is the most", count,
                        PSR_OPENING_PARTS_MAX);
    for (size_t p = 0; p < count; p++) {
        if (parts[p] == 0)
            return psr_fail(PSR_ERR_USAGE, "part %zu has no values", p);
        if (parts[p] > PSR_OPENING_VALUES_MAX - values)
            return psr_fail(PSR_ERR_USAGE, "a table of more than %zu values",
                            PSR_OPENING_VALUES_MAX);
        values += parts[p];
    }
    return PSR_OK;
}

static psr_err copy_text(const char *what, const char *text, char *to, size_t size)
{
    if (text == NULL || text[0] == '\0' || strlen(text) >= size)
        return psr_fail(PSR_ERR_USAGE, "%s: it should have 1 to %zu bytes", what, size - 1);
    strcpy(to, text);
    return PSR_OK;
}

psr_err psr_opening_make(const char *name, const size_t *parts, size_t part_count,
                         const char *update, const char *sync, psr_opening *ret_opening)
{
    psr_opening o = {.part_count = (uint32_t)part_count,
                     .type = PSR_TYPE_FLOAT32,
                     .compression = PSR_COMPRESSION_NONE};
    PSR_TRY(copy_text("a table's name", name, o.name, sizeof o.name));
    PSR_TRY(copy_text("update", update, o.update, sizeof o.update));
    PSR_TRY(psr_opening_sync(sync, &o.consistency));
    PSR_TRY(check_parts(parts, part_count));
    o.parts = malloc(part_count * sizeof *o.parts);
    if (o.parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu parts", part_count);
    memcpy(o.parts, parts, part_count * sizeof *o.parts);
    *ret_opening = o;
    return PSR_OK;
}

size_t psr_opening_values(const psr_opening *o)
{
    size_t values = 0;
    for (uint32_t p = 0; p < o->part_count; p++)
        values += o->parts[p];
    return values;
}

psr_err psr_opening_fits(const psr_opening *o, size_t shares, size_t arrays)
{
    const size_t values = psr_opening_values(o) / shares * arrays * psr_node_table_width(o->type);
    if (psr_arena_fits(values))
        return PSR_OK;
    return psr_fail(PSR_ERR_NOMEM, "no memory for table \"%s\": of it %.1f GiB would lie here",
                    o->name, (double)values * sizeof(float) / (1 << 30));
}

/* ---- words ---- */

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(int64_t) - 1) / sizeof(int64_t);
}

psr_err psr_opening_to_words(const psr_opening *o, int64_t **ret_words, size_t *ret_count)
{
    const size_t name = strlen(o->name), update = strlen(o->update);
    const size_t count =
        WORDS_BEFORE + o->worker_count + o->part_count + words_of(name) + words_of(update);
    int64_t *words = calloc(count, sizeof *words), *at = words + WORDS_BEFORE;
    if (words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to tell of %" PRIu32 " parts", o->part_count);
    words[WORD_ID] = o->id;
    words[WORD_INITIAL] = o->initial;
    words[WORD_WORKERS] = o->worker_count;
    words[WORD_PARTS] = o->part_count;
    words[WORD_SYNC] = o->consistency.kind;
    words[WORD_BOUND] = o->consistency.bound;
    words[WORD_UPDATES] = (int64_t)o->updates;
    words[WORD_TYPE] = o->type;
    words[WORD_MEAN] = o->mean;
    words[WORD_ENCODING] = o->compression.encoding;
    words[WORD_RATIO] = o->compression.ratio;
    words[WORD_NAME_BYTES] = (int64_t)name;
    words[WORD_UPDATE_BYTES] = (int64_t)update;
    for (uint32_t w = 0; w < o->worker_count; w++)
        *at++ = o->workers[w];
    for (uint32_t p = 0; p < o->part_count; p++)
        *at++ = (int64_t)o->parts[p];
    memcpy(at, o->name, name);
    memcpy(at + words_of(name), o->update, update);
    *ret_words = words;
    *ret_count = count;
    return PSR_OK;
}

static bool in(int64_t word, int64_t least, int64_t most)
{
    return word >= least && word <= most;
}

bool psr_opening_type_is(uint64_t type)
{
    return type == PSR_TYPE_FLOAT32 || type == PSR_TYPE_FLOAT16 || type == PSR_TYPE_BFLOAT16 ||
           type == PSR_TYPE_FLOAT64;
}

static bool encoding_can_be(const int64_t *words)
{
    const int64_t encoding = words[WORD_ENCODING], ratio = words[WORD_RATIO];
    if (encoding == PSR_ENCODING_FLOAT32)
        return ratio == 0;
    if (words[WORD_TYPE] != PSR_TYPE_FLOAT32 || !in(encoding, PSR_ENCODING_FP16, PSR_ENCODING_1BIT))
        return false;
    return encoding == PSR_ENCODING_TOPK ? in(ratio, 1, PSR_COMPRESSION_RATIO_ONE) : ratio == 0;
}

static bool can_be(const int64_t *words, size_t count)
{
    if (count < WORDS_BEFORE || !in(words[WORD_ID], 1, UINT32_MAX) ||
        !in(words[WORD_INITIAL], 0, 1) || !in(words[WORD_WORKERS], 1, UINT16_MAX) ||
        !in(words[WORD_PARTS], 1, PSR_OPENING_PARTS_MAX) ||
        !in(words[WORD_SYNC], PSR_CONSISTENCY_BSP, PSR_CONSISTENCY_ASYNC) ||
        !in(words[WORD_BOUND], 0, UINT32_MAX) || !in(words[WORD_UPDATES], 0, INT64_MAX) ||
        !psr_opening_type_is((uint64_t)words[WORD_TYPE]) || !in(words[WORD_MEAN], 0, 1) ||
        !encoding_can_be(words) || !in(words[WORD_NAME_BYTES], 1, PSR_OPENING_NAME_BYTES - 1) ||
        !in(words[WORD_UPDATE_BYTES], 1, PSR_OPENING_UPDATE_BYTES - 1))
        return false;
    return count == WORDS_BEFORE + (size_t)words[WORD_WORKERS] + (size_t)words[WORD_PARTS] +
                        words_of((size_t)words[WORD_NAME_BYTES]) +
                        words_of((size_t)words[WORD_UPDATE_BYTES]);
}

static psr_err read_lists(const int64_t *words, psr_opening *o)
{
    const int64_t *at = words + WORDS_BEFORE;
    for (uint32_t w = 0; w < o->worker_count; w++, at++) {
        if (!in(*at, 0, UINT16_MAX))
            return psr_fail(PSR_ERR_FORMAT, "worker %" PRIu32 " is rank %" PRId64, w, *at);
        o->workers[w] = (uint32_t)*at;
    }
    for (uint32_t p = 0; p < o->part_count; p++, at++) {
        if (!in(*at, 1, (int64_t)PSR_OPENING_VALUES_MAX))
            return psr_fail(PSR_ERR_FORMAT, "part %" PRIu32 " has %" PRId64 " values", p, *at);
        o->parts[p] = (size_t)*at;
    }
    const size_t name = (size_t)words[WORD_NAME_BYTES], update = (size_t)words[WORD_UPDATE_BYTES];
    memcpy(o->name, at, name);
    memcpy(o->update, at + words_of(name), update);
    if (strlen(o->name) != name || strlen(o->update) != update)
        return psr_fail(PSR_ERR_FORMAT, "its name or its update has a zero byte");
    return check_parts(o->parts, o->part_count) == PSR_OK
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "its parts have more values than can be");
}

psr_err psr_opening_from_words(const int64_t *words, size_t count, psr_opening *ret_opening)
{
    if (!can_be(words, count))
        return psr_fail(PSR_ERR_FORMAT, "its counts are out of range");
    psr_opening o = {
        .id = (uint32_t)words[WORD_ID],
        .initial = words[WORD_INITIAL] == 1,
        .worker_count = (uint32_t)words[WORD_WORKERS],
        .part_count = (uint32_t)words[WORD_PARTS],
        .consistency = {(psr_consistency_kind)words[WORD_SYNC], (uint32_t)words[WORD_BOUND]},
        .type = (psr_type)words[WORD_TYPE],
        .mean = words[WORD_MEAN] == 1,
        .compression = {(psr_encoding)words[WORD_ENCODING], (uint32_t)words[WORD_RATIO]},
        .updates = (uint64_t)words[WORD_UPDATES]};
    o.workers = calloc(o.worker_count, sizeof *o.workers);
    o.parts = calloc(o.part_count, sizeof *o.parts);
    psr_err err = o.workers != NULL && o.parts != NULL
                      ? read_lists(words, &o)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " parts", o.part_count);
    if (err != PSR_OK) {
        psr_opening_done(&o);
        return err;
    }
    *ret_opening = o;
    return PSR_OK;
}

bool psr_opening_id_is(uint64_t id, uint32_t first, uint32_t ranks)
{
    return id <= UINT32_MAX && id >= 2 * (uint64_t)ranks && id % ranks == first;
}

psr_err psr_opening_replied(int64_t status)
{
    return in(status, PSR_OK, PSR_ERR_LAST) ? (psr_err)status : PSR_ERR_PEER;
}

/* ---- what is said of it ---- */

static uint64_t digest(uint64_t sum, const void *data, size_t size)
{
    const uint8_t *bytes = data; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

uint64_t psr_opening_digest(const psr_opening *o)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    const uint64_t kind = o->consistency.kind, bound = o->consistency.bound;
    sum = digest(sum, &kind, sizeof kind);
    const uint64_t type = o->type, mean = o->mean, encoding = o->compression.encoding,
                   ratio = o->compression.ratio;
    sum = digest(sum, &bound, sizeof bound);
    sum = digest(sum, &type, sizeof type);
    sum = digest(sum, &mean, sizeof mean);
    sum = digest(sum, &encoding, sizeof encoding);
    sum = digest(sum, &ratio, sizeof ratio);
    sum = digest(sum, &o->updates, sizeof o->updates);
    sum = digest(sum, o->parts, o->part_count * sizeof *o->parts);
    sum = digest(sum, o->name, strlen(o->name) + 1);
    return digest(sum, o->update, strlen(o->update) + 1);
}

void psr_opening_describe(const psr_opening *o, char line[PSR_OPENING_LINE_BYTES])
{
    enum { PARTS_SHOWN = 4 };
    const size_t size = PSR_OPENING_LINE_BYTES;
    size_t used =
        (size_t)snprintf(line, size, "table \"%s\" of %" PRIu32 " parts (", o->name, o->part_count);
    for (uint32_t p = 0; p < o->part_count && p < PARTS_SHOWN; p++)
        used += (size_t)snprintf(line + used, size - used, "%s%zu", p > 0 ? ", " : "", o->parts[p]);
    used += (size_t)snprintf(line + used, size - used, "%s), update \"%.100s\", ",
                             o->part_count > PARTS_SHOWN ? ", .." : "", o->update);
    if (o->consistency.kind == PSR_CONSISTENCY_SSP)
        used += (size_t)snprintf(line + used, size - used, "ssp:%" PRIu32, o->consistency.bound);
    else
        used += (size_t)snprintf(line + used, size - used, "%s",
                                 o->consistency.kind == PSR_CONSISTENCY_BSP ? "bsp" : "async");
    if (o->type != PSR_TYPE_FLOAT32)
        used += (size_t)snprintf(line + used, size - used, ", of %s",
                                 o->type == PSR_TYPE_FLOAT16   ? "float16"
                                 : o->type == PSR_TYPE_FLOAT64 ? "float64"
                                                               : "bfloat16");
    if (o->mean)
        used += (size_t)snprintf(line + used, size - used, ", mean");
    if (!psr_compression_is_none(o->compression)) {
        char encoding[PSR_COMPRESSION_TEXT_BYTES];
        psr_compression_print(o->compression, encoding);
        used += (size_t)snprintf(line + used, size - used, ", %s", encoding);
    }
    if (o->updates > 0)
        snprintf(line + used, size - used, ", after %" PRIu64 " updates", o->updates);
}
