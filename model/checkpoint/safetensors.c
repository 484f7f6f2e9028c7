#include "model/checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

bool psr_utf8_valid(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint8_t lead = text[i++];
        if (lead < 0x80)
            continue;
        size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || size - i < more)
            return false;
        /* The second byte's bounds keep out overlong forms, surrogates and what lies past
         * U+10FFFF. */
        uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        for (; more > 0; more--, i++) {
            if (text[i] < low || text[i] > high)
                return false;
            low = 0x80;
            high = 0xbf;
        }
    }
    return true;
}

const char *psr_printable(const char *name, char buffer[PSR_PRINTABLE_SIZE])
{
    size_t i = 0;
    for (; name[i] && i + 1 < PSR_PRINTABLE_SIZE; i++)
        buffer[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    buffer[i] = '\0';
    return buffer;
}

/* ---- scanner ---- */

typedef struct scanner {
    const uint8_t *begin, *at, *end;
    char *text; /* where the next decoded string goes: it is never longer than its source */
} scanner;

static psr_err expected(const scanner *scan, const char *what)
{
    return psr_fail(PSR_ERR_FORMAT, "header: %s expected at byte %zu", what,
                    (size_t)(scan->at - scan->begin));
}

static void skip_space(scanner *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

/* Takes c, with space before it, if it comes next. */
static bool take(scanner *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != (uint8_t)c)
        return false;
    scan->at++;
    return true;
}

static psr_err scan_integer(scanner *scan, uint64_t *ret_value)
{
    skip_space(scan);
    const uint8_t *first = scan->at;
    uint64_t value = 0;
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*scan->at - '0'), &value))
            return expected(scan, "an integer below 2^64");
    if (scan->at == first || (*first == '0' && scan->at - first > 1))
        return expected(scan, "an integer, 0 or more,");
    *ret_value = value;
    return PSR_OK;
}

/* The four hex digits after \u. */
static bool scan_hex4(scanner *scan, uint32_t *ret_unit)
{
    if (scan->end - scan->at < 4)
        return false;
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *scan->at++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        unit = unit << 4 | digit;
    }
    *ret_unit = unit;
    return true;
}

/* \uXXXX, a surrogate pair as one character, appended as UTF-8 (at most 3 bytes from 6, 4 from
 * 12). */
static bool scan_unicode_escape(scanner *scan, char **out)
{
    uint32_t c = 0, low = 0;
    if (!scan_hex4(scan, &c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff))
        return false;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (scan->end - scan->at < 2 || scan->at[0] != '\\' || scan->at[1] != 'u')
            return false;
        scan->at += 2;
        if (!scan_hex4(scan, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    char *o = *out;
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xc0 | c >> 6);
        *o++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *o++ = (char)(0xe0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 0x3f));
        *o++ = (char)(0x80 | (c & 0x3f));
    } else {
        *o++ = (char)(0xf0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 0x3f));
        *o++ = (char)(0x80 | (c >> 6 & 0x3f));
        *o++ = (char)(0x80 | (c & 0x3f));
    }
    *out = o;
    return true;
}

static bool scan_escape(scanner *scan, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (scan->at == scan->end)
        return false;
    uint8_t c = *scan->at++;
    if (c == 'u')
        return scan_unicode_escape(scan, out);
    const char *found = c ? strchr(from, c) : NULL;
    if (found == NULL)
        return false;
    *(*out)++ = to[found - from];
    return true;
}

static psr_err scan_string(scanner *scan, const char **ret_text)
{
    if (!take(scan, '"'))
        return expected(scan, "a string");
    char *first = scan->text;
    char *out = first;
    while (scan->at < scan->end && *scan->at != '"') {
        uint8_t c = *scan->at++;
        if (c < 0x20)
            return expected(scan, "no control character in a string");
        if (c != '\\')
            *out++ = (char)c;
        else if (!scan_escape(scan, &out))
            return expected(scan, "a known escape in a string");
    }
    if (scan->at == scan->end)
        return expected(scan, "the end of a string");
    scan->at++;
    *out++ = '\0';
    scan->text = out;
    *ret_text = first;
    return PSR_OK;
}

/* "key": */
static psr_err scan_key(scanner *scan, const char **ret_key)
{
    PSR_TRY(scan_string(scan, ret_key));
    return take(scan, ':') ? PSR_OK : expected(scan, "':'");
}

/* [a, b, ..], at most max of them. */
static psr_err scan_integers(scanner *scan, const char *what, uint32_t max, uint64_t *values,
                             uint32_t *ret_count)
{
    if (!take(scan, '['))
        return expected(scan, what);
    uint32_t count = 0;
    if (!take(scan, ']')) {
        do {
            if (count == max)
                return psr_fail(PSR_ERR_FORMAT, "header: %s of more than %u numbers at byte %zu",
                                what, max, (size_t)(scan->at - scan->begin));
            PSR_TRY(scan_integer(scan, &values[count++]));
        } while (take(scan, ','));
        if (!take(scan, ']'))
            return expected(scan, "']'");
    }
    *ret_count = count;
    return PSR_OK;
}

/* ---- entries ---- */

static const struct {
    const char *name;
    uint64_t size_bytes;
} dtypes[] = {
    {"F32", 4},  {"I64", 8}, {"F64", 8}, {"F16", 2},     {"BF16", 2},
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"I16", 2},     {"U16", 2},
    {"I32", 4},  {"U32", 4}, {"U64", 8}, {"F8_E5M2", 1}, {"F8_E4M3", 1},
};
#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])

/* The range must be what shape and type need, and lie within the data. */
static psr_err check_range(const psr_safetensors_entry *entry, uint64_t element_bytes,
                           uint64_t data_bytes)
{
    char name[PSR_PRINTABLE_SIZE];
    uint64_t bytes = element_bytes;
    for (uint32_t i = 0; i < entry->rank; i++)
        if (__builtin_mul_overflow(bytes, entry->shape[i], &bytes))
            return psr_fail(PSR_ERR_FORMAT, "tensor %s: its shape asks for 2^64 bytes or more",
                            psr_printable(entry->name, name));
    if (entry->begin > entry->end || entry->end > data_bytes)
        return psr_fail(PSR_ERR_FORMAT,
                        "tensor %s: bytes %" PRIu64 " to %" PRIu64 " do not lie within the %" PRIu64
                        " bytes of data",
                        psr_printable(entry->name, name), entry->begin, entry->end, data_bytes);
    if (entry->end - entry->begin != bytes)
        return psr_fail(
            PSR_ERR_FORMAT, "tensor %s: has %" PRIu64 " bytes, its shape and type %s need %" PRIu64,
            psr_printable(entry->name, name), entry->end - entry->begin, entry->dtype, bytes);
    return PSR_OK;
}

/* { "dtype": .., "shape": .., "data_offsets": .. } in any order, each once. */
static psr_err scan_entry(scanner *scan, uint64_t data_bytes, psr_safetensors_entry *entry)
{
    char name[PSR_PRINTABLE_SIZE];
    psr_printable(entry->name, name);
    bool has_dtype = false, has_shape = false, has_offsets = false;
    uint64_t element_bytes = 0;
    if (!take(scan, '{'))
        return expected(scan, "'{'");
    do {
        const char *key = NULL;
        PSR_TRY(scan_key(scan, &key));
        if (strcmp(key, "dtype") == 0 && !has_dtype) {
            const char *dtype = NULL;
            PSR_TRY(scan_string(scan, &dtype));
            for (size_t i = 0; i < DTYPE_COUNT; i++)
                if (strcmp(dtype, dtypes[i].name) == 0) {
                    entry->dtype = dtypes[i].name;
                    element_bytes = dtypes[i].size_bytes;
                    has_dtype = true;
                }
            char shown[PSR_PRINTABLE_SIZE];
            if (!has_dtype)
                return psr_fail(PSR_ERR_FORMAT, "tensor %s: unknown type \"%.16s\"", name,
                                psr_printable(dtype, shown));
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            PSR_TRY(scan_integers(scan, "a shape", PSR_SAFETENSORS_RANK_MAX, entry->shape,
                                  &entry->rank));
            has_shape = true;
        } else if (strcmp(key, "data_offsets") == 0 && !has_offsets) {
            uint64_t offsets[2] = {0};
            uint32_t count = 0;
            PSR_TRY(scan_integers(scan, "offsets", 2, offsets, &count));
            if (count != 2)
                return psr_fail(PSR_ERR_FORMAT, "tensor %s: data_offsets needs two numbers", name);
            entry->begin = offsets[0];
            entry->end = offsets[1];
            has_offsets = true;
        } else {
            char shown[PSR_PRINTABLE_SIZE];
            return psr_fail(PSR_ERR_FORMAT, "tensor %s: unexpected or repeated key \"%.32s\"", name,
                            psr_printable(key, shown));
        }
    } while (take(scan, ','));
    if (!take(scan, '}'))
        return expected(scan, "'}'");
    if (!has_dtype || !has_shape || !has_offsets)
        return psr_fail(PSR_ERR_FORMAT, "tensor %s: dtype, shape and data_offsets are needed",
                        name);
    return check_range(entry, element_bytes, data_bytes);
}

/* Room for one more in an array that doubles. */
static psr_err grow(void **array, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return PSR_OK;
    size_t wanted = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*array, wanted * item_bytes);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a header of %zu entries", wanted);
    *array = grown;
    *capacity = wanted;
    return PSR_OK;
}

static psr_err scan_metadata(scanner *scan, psr_safetensors *header)
{
    if (header->pairs != NULL)
        return psr_fail(PSR_ERR_FORMAT, "header: __metadata__ comes twice");
    if (!take(scan, '{'))
        return expected(scan, "'{'");
    size_t capacity = 0;
    PSR_TRY(grow((void **)&header->pairs, 0, &capacity, sizeof *header->pairs));
    if (take(scan, '}'))
        return PSR_OK;
    do {
        psr_safetensors_pair pair = {0};
        PSR_TRY(scan_key(scan, &pair.key));
        PSR_TRY(scan_string(scan, &pair.value));
        PSR_TRY(
            grow((void **)&header->pairs, header->pair_count, &capacity, sizeof *header->pairs));
        header->pairs[header->pair_count++] = pair;
    } while (take(scan, ','));
    return take(scan, '}') ? PSR_OK : expected(scan, "'}'");
}

static psr_err scan_header(scanner *scan, uint64_t data_bytes, psr_safetensors *header)
{
    size_t capacity = 0;
    if (!take(scan, '{'))
        return expected(scan, "'{'");
    if (!take(scan, '}')) {
        do {
            psr_safetensors_entry entry = {0};
            PSR_TRY(scan_key(scan, &entry.name));
            if (strcmp(entry.name, "__metadata__") == 0) {
                PSR_TRY(scan_metadata(scan, header));
                continue;
            }
            PSR_TRY(scan_entry(scan, data_bytes, &entry));
            PSR_TRY(grow((void **)&header->entries, header->entry_count, &capacity,
                         sizeof *header->entries));
            header->entries[header->entry_count++] = entry;
        } while (take(scan, ','));
        if (!take(scan, '}'))
            return expected(scan, "'}'");
    }
    skip_space(scan);
    return scan->at == scan->end ? PSR_OK : expected(scan, "nothing more");
}

/* ---- the whole ---- */

static int by_range(const void *a, const void *b)
{
    const psr_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const psr_safetensors_entry *)a)->name,
                  ((const psr_safetensors_entry *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const psr_safetensors_pair *)a)->key, ((const psr_safetensors_pair *)b)->key);
}

/* Sorts by range, then by name. Finds holes, overlaps and names that come twice. */
static psr_err check_entries(psr_safetensors *header, uint64_t data_bytes)
{
    char shown[PSR_PRINTABLE_SIZE];
    psr_safetensors_entry *entries = header->entries;
    if (header->entry_count)
        qsort(entries, header->entry_count, sizeof *entries, by_range);
    uint64_t covered = 0;
    for (size_t i = 0; i < header->entry_count; i++) {
        if (entries[i].begin != covered)
            return psr_fail(PSR_ERR_FORMAT,
                            "tensor %s: begins at byte %" PRIu64 " of the data, %s byte %" PRIu64,
                            psr_printable(entries[i].name, shown), entries[i].begin,
                            entries[i].begin < covered ? "overlapping what ends at"
                                                       : "leaving a hole from",
                            covered);
        covered = entries[i].end;
    }
    if (covered != data_bytes)
        return psr_fail(PSR_ERR_FORMAT, "%" PRIu64 " bytes of data, the tensors need %" PRIu64,
                        data_bytes, covered);
    if (header->entry_count)
        qsort(entries, header->entry_count, sizeof *entries, by_name);
    for (size_t i = 1; i < header->entry_count; i++)
        if (strcmp(entries[i - 1].name, entries[i].name) == 0)
            return psr_fail(PSR_ERR_FORMAT, "tensor %s: comes twice",
                            psr_printable(entries[i].name, shown));
    return PSR_OK;
}

static psr_err check_pairs(psr_safetensors *header)
{
    char shown[PSR_PRINTABLE_SIZE];
    if (header->pair_count)
        qsort(header->pairs, header->pair_count, sizeof *header->pairs, by_key);
    for (size_t i = 1; i < header->pair_count; i++)
        if (strcmp(header->pairs[i - 1].key, header->pairs[i].key) == 0)
            return psr_fail(PSR_ERR_FORMAT, "metadata %s: comes twice",
                            psr_printable(header->pairs[i].key, shown));
    return PSR_OK;
}

psr_err psr_safetensors_data_begin(const uint8_t first[PSR_SAFETENSORS_LENGTH_BYTES],
                                   uint64_t file_bytes, size_t *ret_data_begin)
{
    uint64_t length = 0;
    for (int i = PSR_SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | first[i];
    if (length > file_bytes - PSR_SAFETENSORS_LENGTH_BYTES || length > PSR_SAFETENSORS_HEADER_MAX)
        return psr_fail(PSR_ERR_FORMAT,
                        "not safetensors, or torn: a header of %" PRIu64
                        " bytes in a file of %" PRIu64,
                        length, file_bytes);
    *ret_data_begin = PSR_SAFETENSORS_LENGTH_BYTES + (size_t)length;
    return PSR_OK;
}

psr_err psr_safetensors_parse(const uint8_t *bytes, size_t data_begin, uint64_t file_bytes,
                              psr_safetensors *ret_header)
{
    const uint8_t *json = bytes + PSR_SAFETENSORS_LENGTH_BYTES;
    size_t length = data_begin - PSR_SAFETENSORS_LENGTH_BYTES;
    if (!psr_utf8_valid(json, length))
        return psr_fail(PSR_ERR_FORMAT, "header: is not UTF-8");

    psr_safetensors header = {.data_begin = data_begin};
    header.text = malloc(length + 1);
    if (header.text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a header of %zu bytes", length);
    scanner scan = {json, json, bytes + data_begin, header.text};
    uint64_t data_bytes = file_bytes - data_begin;

    psr_err err = scan_header(&scan, data_bytes, &header);
    if (err == PSR_OK)
        err = check_entries(&header, data_bytes);
    if (err == PSR_OK)
        err = check_pairs(&header);
    if (err != PSR_OK) {
        psr_safetensors_done(&header);
        return err;
    }
    *ret_header = header;
    return PSR_OK;
}

void psr_safetensors_done(psr_safetensors *header)
{
    if (header == NULL)
        return;
    free(header->entries);
    free(header->pairs);
    free(header->text);
    *header = (psr_safetensors){0};
}

const psr_safetensors_entry *psr_safetensors_find(const psr_safetensors *header, const char *name)
{
    psr_safetensors_entry wanted = {.name = name};
    return header->entry_count
               ? bsearch(&wanted, header->entries, header->entry_count, sizeof wanted, by_name)
               : NULL;
}

const char *psr_safetensors_metadata(const psr_safetensors *header, const char *key)
{
    psr_safetensors_pair wanted = {.key = key};
    const psr_safetensors_pair *pair =
        header->pair_count
            ? bsearch(&wanted, header->pairs, header->pair_count, sizeof wanted, by_key)
            : NULL;
    return pair != NULL ? pair->value : NULL;
}
