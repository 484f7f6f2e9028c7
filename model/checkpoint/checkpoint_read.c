#include "model/checkpoint/checkpoint.h"

#include "base/system/file.h"
#include "model/checkpoint/safetensors.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY /* the streaming state on the stack */
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are read as they lie in the file");

/* Read at once, so that it is still in the cache when its checksum is computed. */
#define BUFFER_BYTES ((size_t)256 << 10)
/* Before a tensor's name, the metadata key of its checksum. */
#define TENSOR_KEY "xxh3/"

struct psr_checkpoint {
    char *origin;
    psr_safetensors header;
    int fd;               /* of a file; -1: memory */
    const uint8_t *bytes; /* of memory, borrowed; NULL: a file */
};

/* ---- checksums ---- */

/* 16 lower-case hex digits. */
static bool parse_checksum(const char *text, uint64_t *ret_checksum)
{
    uint64_t checksum = 0;
    for (int i = 0; i < 16; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        checksum = checksum << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret_checksum = checksum;
    return text[16] == '\0';
}

/* XXH3 of length and header, with the digits of "xxh3" replaced by zeros. A quote within a JSON
 * string is escaped, so the key's text occurs only at the key. */
static psr_err verify_header(const uint8_t *bytes, const psr_safetensors *header, uint64_t checksum)
{
    static const char key[] = "\"xxh3\":\"", zeros[] = "0000000000000000";
    const uint8_t *found = memmem(bytes + 8, header->data_begin - 8, key, sizeof key - 1);
    if (found == NULL)
        return psr_fail(PSR_ERR_FORMAT, "metadata xxh3: written in a form that cannot be verified");
    size_t digits = (size_t)(found - bytes) + sizeof key - 1;
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, bytes, digits);
    XXH3_64bits_update(&state, zeros, 16);
    XXH3_64bits_update(&state, bytes + digits + 16, header->data_begin - digits - 16);
    if (XXH3_64bits_digest(&state) != checksum)
        return psr_fail(PSR_ERR_FORMAT, "header: does not match its checksum");
    return PSR_OK;
}

static psr_err read_bytes(const psr_checkpoint *checkpoint, void *to, size_t size, uint64_t offset)
{
    if (checkpoint->bytes == NULL)
        return psr_file_read_at(checkpoint->fd, checkpoint->origin, to, size, offset);
    if (size > 0)
        memcpy(to, checkpoint->bytes + offset, size);
    return PSR_OK;
}

/* XXH3 of an entry's bytes. They are read through a buffer of BUFFER_BYTES, or into the place that
 * is given for them. */
static psr_err read_and_sum(const psr_checkpoint *checkpoint, const psr_safetensors_entry *entry,
                            uint8_t *buffer, uint8_t *place, uint64_t *ret_checksum)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    for (uint64_t at = entry->begin; at < entry->end;) {
        size_t size = entry->end - at < BUFFER_BYTES ? (size_t)(entry->end - at) : BUFFER_BYTES;
        uint8_t *to = place != NULL ? place + (at - entry->begin) : buffer;
        PSR_TRY(read_bytes(checkpoint, to, size, checkpoint->header.data_begin + at));
        XXH3_64bits_update(&state, to, size);
        at += size;
    }
    *ret_checksum = XXH3_64bits_digest(&state);
    return PSR_OK;
}

static psr_err fail_sum(const char *name)
{
    char shown[PSR_PRINTABLE_SIZE];
    return psr_fail(PSR_ERR_FORMAT, "tensor %s: its bytes do not match their checksum",
                    psr_printable(name, shown));
}

/* One "xxh3/NAME" of the metadata. */
static psr_err verify_tensor(const psr_checkpoint *checkpoint, const psr_safetensors_pair *pair,
                             uint8_t *buffer)
{
    char shown[PSR_PRINTABLE_SIZE];
    const char *name = pair->key + strlen(TENSOR_KEY);
    uint64_t checksum = 0, is = 0;
    psr_printable(name, shown);
    if (!parse_checksum(pair->value, &checksum))
        return psr_fail(PSR_ERR_FORMAT, "metadata " TENSOR_KEY "%s: is not 16 hex digits", shown);
    const psr_safetensors_entry *entry = psr_safetensors_find(&checkpoint->header, name);
    if (entry == NULL)
        return psr_fail(PSR_ERR_FORMAT, "tensor %s: has a checksum but is missing", shown);
    PSR_TRY(read_and_sum(checkpoint, entry, buffer, NULL, &is));
    return is == checksum ? PSR_OK : fail_sum(name);
}

/* Verifies every checksum of the metadata. The header's comes first: after it the rest of the
 * metadata can be believed. */
static psr_err verify(const psr_checkpoint *checkpoint, const uint8_t *first_bytes)
{
    const psr_safetensors *header = &checkpoint->header;
    char shown[PSR_PRINTABLE_SIZE];
    uint64_t checksum = 0;
    const char *text = psr_safetensors_metadata(header, "xxh3");
    if (text != NULL) {
        if (!parse_checksum(text, &checksum))
            return psr_fail(PSR_ERR_FORMAT, "metadata xxh3: is not 16 hex digits");
        PSR_TRY(verify_header(first_bytes, header, checksum));
    }
    uint8_t *buffer = malloc(BUFFER_BYTES);
    if (buffer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to verify a checkpoint");
    psr_err err = PSR_OK;
    for (size_t i = 0; i < header->pair_count && err == PSR_OK; i++) {
        const psr_safetensors_pair *pair = &header->pairs[i];
        if (strncmp(pair->key, TENSOR_KEY, strlen(TENSOR_KEY)) != 0)
            continue;
        if (text != NULL)
            err = verify_tensor(checkpoint, pair, buffer);
        else
            err = psr_fail(PSR_ERR_FORMAT,
                           "metadata xxh3: is missing beside the checksum of tensor %s",
                           psr_printable(pair->key + strlen(TENSOR_KEY), shown));
    }
    free(buffer);
    return err;
}

/* ---- opening ---- */

static psr_err read_header(psr_checkpoint *checkpoint, uint64_t file_bytes)
{
    uint8_t first[PSR_SAFETENSORS_LENGTH_BYTES];
    size_t data_begin = 0;
    if (file_bytes < sizeof first)
        return psr_fail(PSR_ERR_FORMAT, "%" PRIu64 " bytes: too short for a safetensors file",
                        file_bytes);
    PSR_TRY(read_bytes(checkpoint, first, sizeof first, 0));
    if (memcmp(first, "PK\003\004", 4) == 0)
        return psr_fail(PSR_ERR_FORMAT, "a file of torch.save: psring reads safetensors, which "
                                        "safetensors.torch.save_file(torch.load(FILE), ..) writes");
    PSR_TRY(psr_safetensors_data_begin(first, file_bytes, &data_begin));
    assert(data_begin >= sizeof first);
    uint8_t *bytes = malloc(data_begin);
    if (bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a header of %zu bytes", data_begin);
    psr_err err = read_bytes(checkpoint, bytes, data_begin, 0);
    /* The file may have changed, and data_begin is of its first bytes as they were. */
    memcpy(bytes, first, sizeof first);
    if (err == PSR_OK)
        err = psr_safetensors_parse(bytes, data_begin, file_bytes, &checkpoint->header);
    if (err == PSR_OK)
        err = verify(checkpoint, bytes);
    free(bytes);
    return err;
}

/* bytes: NULL for a file. Consumes fd, also on failure. */
static psr_err open_checkpoint(const char *origin, const uint8_t *bytes, int fd, uint64_t size,
                               psr_checkpoint **ret_checkpoint)
{
    psr_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint == NULL) {
        if (fd >= 0)
            close(fd);
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory for a checkpoint", origin);
    }
    checkpoint->fd = fd;
    checkpoint->bytes = bytes;
    checkpoint->origin = strdup(origin);
    psr_err err = checkpoint->origin != NULL
                      ? read_header(checkpoint, size)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    if (err != PSR_OK) {
        psr_checkpoint_close(checkpoint);
        /* The reader's message already names the file. */
        return err == PSR_ERR_IO ? err : psr_fail_context(err, "%s", origin);
    }
    *ret_checkpoint = checkpoint;
    return PSR_OK;
}

psr_err psr_checkpoint_parse(const char *origin, const void *bytes, size_t size,
                             psr_checkpoint **ret_checkpoint)
{
    return open_checkpoint(origin, bytes, -1, size, ret_checkpoint);
}

psr_err psr_checkpoint_open(const char *path, psr_checkpoint **ret_checkpoint)
{
    int fd = -1;
    uint64_t size = 0;
    PSR_TRY(psr_file_open(path, &fd, &size));
    if (size == 0) {
        close(fd);
        return psr_fail(PSR_ERR_FORMAT, "%s: is empty", path);
    }
    return open_checkpoint(path, NULL, fd, size, ret_checkpoint);
}

void psr_checkpoint_close(psr_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    if (checkpoint->fd >= 0)
        close(checkpoint->fd);
    psr_safetensors_done(&checkpoint->header);
    free(checkpoint->origin);
    free(checkpoint);
}

/* ---- looking ---- */

const char *psr_checkpoint_metadata(const psr_checkpoint *checkpoint, const char *key)
{
    return psr_safetensors_metadata(&checkpoint->header, key);
}

const char *psr_checkpoint_name(const psr_checkpoint *checkpoint, size_t i)
{
    return i < checkpoint->header.entry_count ? checkpoint->header.entries[i].name : NULL;
}

/* "64x3x7x7", cut where the buffer ends; "scalar" for rank 0. */
static const char *shape_text(char *buffer, size_t size, uint32_t rank, const uint64_t *shape)
{
    snprintf(buffer, size, "scalar");
    size_t used = 0;
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu64, i ? "x" : "", shape[i]);
    return buffer;
}

/* half: of 16 bits instead of float32. */
static psr_err find_entry(const psr_checkpoint *checkpoint, const char *name, uint32_t rank,
                          const uint32_t *shape, bool half, const psr_safetensors_entry **ret_entry)
{
    const psr_safetensors_entry *entry = psr_safetensors_find(&checkpoint->header, name);
    if (entry == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: tensor %s is missing", checkpoint->origin, name);
    if (half ? strcmp(entry->dtype, "F16") != 0 && strcmp(entry->dtype, "BF16") != 0
             : strcmp(entry->dtype, "F32") != 0)
        return psr_fail(PSR_ERR_FORMAT, "%s: tensor %s is of type %s, F32 is needed",
                        checkpoint->origin, name, entry->dtype);
    assert(rank <= 4);
    uint64_t wanted[4] = {0};
    bool same = entry->rank == rank;
    for (uint32_t i = 0; i < rank; i++) {
        wanted[i] = shape[i];
        same = same && entry->shape[i] == shape[i];
    }
    char is[96], needed[96];
    if (!same)
        return psr_fail(PSR_ERR_FORMAT, "%s: tensor %s has shape %s, %s is needed",
                        checkpoint->origin, name,
                        shape_text(is, sizeof is, entry->rank, entry->shape),
                        shape_text(needed, sizeof needed, rank, wanted));
    *ret_entry = entry;
    return PSR_OK;
}

psr_err psr_checkpoint_find(const psr_checkpoint *checkpoint, const char *name, uint32_t rank,
                            const uint32_t *shape)
{
    const psr_safetensors_entry *entry = NULL;
    return find_entry(checkpoint, name, rank, shape, false, &entry);
}

bool psr_checkpoint_entry_of(const psr_checkpoint *checkpoint, const char *name,
                             psr_checkpoint_entry *ret_entry)
{
    const psr_safetensors_entry *entry = psr_safetensors_find(&checkpoint->header, name);
    if (entry != NULL)
        *ret_entry = (psr_checkpoint_entry){entry->dtype, entry->rank, entry->shape};
    return entry != NULL;
}

bool psr_checkpoint_holds_floats(const psr_checkpoint_entry *entry)
{
    return strcmp(entry->dtype, "F32") == 0 || strcmp(entry->dtype, "F16") == 0 ||
           strcmp(entry->dtype, "BF16") == 0;
}

/* Reads an entry's bytes to data and compares them with their checksum, where there is one. */
static psr_err read_entry(const psr_checkpoint *checkpoint, const char *name,
                          const psr_safetensors_entry *entry, uint8_t *data)
{
    uint64_t is = 0, checksum = 0;
    PSR_TRY(read_and_sum(checkpoint, entry, NULL, data, &is));
    char *key = NULL;
    if (asprintf(&key, TENSOR_KEY "%s", name) < 0)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to read a tensor", checkpoint->origin);
    const char *text = psr_safetensors_metadata(&checkpoint->header, key);
    free(key);
    /* It was one of 16 digits when the file was opened. */
    if (text != NULL && parse_checksum(text, &checksum) && checksum != is)
        return psr_fail_context(fail_sum(name), "%s", checkpoint->origin);
    return PSR_OK;
}

psr_err psr_checkpoint_read(const psr_checkpoint *checkpoint, const char *name, uint32_t rank,
                            const uint32_t *shape, float *data)
{
    const psr_safetensors_entry *entry = NULL;
    PSR_TRY(find_entry(checkpoint, name, rank, shape, false, &entry));
    return read_entry(checkpoint, name, entry, (uint8_t *)data);
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754's binary16: a sign, 5 bits of exponent (bias 15), 10 of fraction. */
static float float_of_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1F,
                   fraction = half & 0x3FF;
    if (exponent == 0x1F)
        return float_of_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent > 0)
        return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = (float)fraction * 0x1p-24f; /* subnormal */
    return sign != 0 ? -magnitude : magnitude;
}

psr_err psr_checkpoint_read_floats(const psr_checkpoint *checkpoint, const char *name,
                                   uint32_t rank, const uint32_t *shape, float *data)
{
    psr_checkpoint_entry types;
    const psr_safetensors_entry *entry = NULL;
    if (!psr_checkpoint_entry_of(checkpoint, name, &types) || strcmp(types.dtype, "F32") == 0)
        return psr_checkpoint_read(checkpoint, name, rank, shape, data);
    PSR_TRY(find_entry(checkpoint, name, rank, shape, true, &entry));
    const size_t count = (size_t)(entry->end - entry->begin) / sizeof(uint16_t);
    uint16_t *halves = malloc(count * sizeof *halves + 1);
    if (halves == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to read a tensor", checkpoint->origin);
    const psr_err err = read_entry(checkpoint, name, entry, (uint8_t *)halves);
    const bool bfloat = strcmp(entry->dtype, "BF16") == 0;
    for (size_t i = 0; i < count && err == PSR_OK; i++)
        data[i] = bfloat ? float_of_bits((uint32_t)halves[i] << 16) : float_of_half(halves[i]);
    free(halves);
    return err;
}

/* psr_checkpoint_find, or with a place for the data psr_checkpoint_read. */
static psr_err take_tensor(const psr_checkpoint *checkpoint, const char *prefix,
                           const psr_tensor *tensor, float *data)
{
    char name[2 * PSR_TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    return data != NULL ? psr_checkpoint_read(checkpoint, name, tensor->rank, tensor->shape, data)
                        : psr_checkpoint_find(checkpoint, name, tensor->rank, tensor->shape);
}

psr_err psr_checkpoint_load(const psr_checkpoint *checkpoint, const char *prefix,
                            const psr_layout *layout, float *arena)
{
    for (size_t i = 0; i < layout->tensor_count; i++)
        PSR_TRY(take_tensor(checkpoint, prefix, &layout->tensors[i], NULL));
    for (size_t i = 0; i < layout->tensor_count; i++)
        PSR_TRY(take_tensor(checkpoint, prefix, &layout->tensors[i],
                            arena + layout->tensors[i].offset));
    return PSR_OK;
}

const psr_safetensors_entry *psr_checkpoint_tensor_at(const psr_checkpoint *checkpoint, size_t i)
{
    return i < checkpoint->header.entry_count ? &checkpoint->header.entries[i] : NULL;
}

bool psr_checkpoint_pair(const psr_checkpoint *checkpoint, size_t i, const char **ret_key,
                         const char **ret_value)
{
    if (i >= checkpoint->header.pair_count)
        return false;
    *ret_key = checkpoint->header.pairs[i].key;
    *ret_value = checkpoint->header.pairs[i].value;
    return true;
}

/* ---- a folder of checkpoints ---- */

bool psr_checkpoint_newest(const char *directory, uint64_t below, uint64_t *ret_step)
{
    bool found = false;
    DIR *entries = opendir(directory);
    if (entries == NULL)
        return false;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, "step-", 5) != 0)
            continue;
        char *end;
        unsigned long long step = strtoull(entry->d_name + 5, &end, 10);
        if (*end != '\0' || end == entry->d_name + 5 || step >= below ||
            (found && step <= *ret_step))
            continue;
        *ret_step = step;
        found = true;
    }
    closedir(entries);
    return found;
}
