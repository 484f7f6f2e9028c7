#include "model/checkpoint.h"
#include "model/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY /* the streaming state on the stack */
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are mapped as they lie in the file");

struct psr_checkpoint {
    char *origin;
    psr_safetensors header;
    const uint8_t *data; /* 4-byte aligned: into the file's bytes, or copy */
    uint8_t *copy;
    void *map; /* of psr_checkpoint_open */
    size_t map_size;
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

/* XXH3 of length and header, the digits of "xxh3" taken as zeros. A quote within a JSON string is escaped, so
 * the key's text cannot be met anywhere but at the key. */
static psr_err verify_header(const uint8_t *bytes, const psr_safetensors *header, uint64_t checksum)
{
    static const char key[] = "\"xxh3\":\"", zeros[] = "0000000000000000";
    const uint8_t *found = memmem(bytes + 8, header->data_begin - 8, key, sizeof key - 1);
    if (!found)
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

/* Every checksum that the metadata has. Header first: then the rest of the metadata can be believed. */
static psr_err verify(const uint8_t *bytes, const psr_safetensors *header)
{
    char shown[PSR_PRINTABLE_SIZE];
    uint64_t checksum = 0;
    const char *text = psr_safetensors_metadata(header, "xxh3");
    if (text) {
        if (!parse_checksum(text, &checksum))
            return psr_fail(PSR_ERR_FORMAT, "metadata xxh3: is not 16 hex digits");
        PSR_TRY(verify_header(bytes, header, checksum));
    }
    for (size_t i = 0; i < header->pair_count; i++) {
        const psr_safetensors_pair *pair = &header->pairs[i];
        if (strncmp(pair->key, "xxh3/", 5) != 0)
            continue;
        psr_printable(pair->key + 5, shown);
        if (!text)
            return psr_fail(PSR_ERR_FORMAT, "metadata xxh3: is missing beside the checksum of tensor %s",
                            shown);
        if (!parse_checksum(pair->value, &checksum))
            return psr_fail(PSR_ERR_FORMAT, "metadata xxh3/%s: is not 16 hex digits", shown);
        const psr_safetensors_entry *entry = psr_safetensors_find(header, pair->key + 5);
        if (!entry)
            return psr_fail(PSR_ERR_FORMAT, "tensor %s: has a checksum but is missing", shown);
        if (XXH3_64bits(bytes + header->data_begin + entry->begin, entry->end - entry->begin) != checksum)
            return psr_fail(PSR_ERR_FORMAT, "tensor %s: its bytes do not match their checksum", shown);
    }
    return PSR_OK;
}

/* ---- opening ---- */

static psr_err parse(psr_checkpoint *checkpoint, const uint8_t *bytes, size_t size)
{
    PSR_TRY(psr_safetensors_parse(bytes, size, &checkpoint->header));
    PSR_TRY(verify(bytes, &checkpoint->header));
    size_t data_begin = checkpoint->header.data_begin;
    checkpoint->data = bytes + data_begin;
    if ((uintptr_t)checkpoint->data % sizeof(float) == 0)
        return PSR_OK;
    /* Writers before safetensors 0.3 did not pad the header. */
    checkpoint->copy = malloc(size - data_begin + 1);
    if (!checkpoint->copy)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of tensors", size - data_begin);
    memcpy(checkpoint->copy, checkpoint->data, size - data_begin);
    checkpoint->data = checkpoint->copy;
    return PSR_OK;
}

psr_err psr_checkpoint_parse(const char *origin, const void *bytes, size_t size,
                             psr_checkpoint **ret_checkpoint)
{
    psr_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint)
        checkpoint->origin = strdup(origin);
    psr_err err = !checkpoint || !checkpoint->origin ? psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint")
                                                     : parse(checkpoint, bytes, size);
    if (err != PSR_OK) {
        psr_checkpoint_close(checkpoint);
        return psr_fail_context(err, "%s", origin);
    }
    *ret_checkpoint = checkpoint;
    return PSR_OK;
}

static psr_err fail_errno(const char *path)
{
    return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "%s: %s", path, strerror(errno));
}

psr_err psr_checkpoint_open(const char *path, psr_checkpoint **ret_checkpoint)
{
    psr_err err = PSR_OK;
    void *map = MAP_FAILED;
    size_t size = 0;
    struct stat status;
    /* Without O_NONBLOCK a FIFO of that name would keep us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        err = fail_errno(path);
        goto out;
    }
    if (!S_ISREG(status.st_mode)) {
        err = psr_fail(PSR_ERR_FORMAT, "%s: is not a file; a .safetensors file is needed", path);
        goto out;
    }
    size = (size_t)status.st_size;
    if (size == 0) {
        err = psr_fail(PSR_ERR_FORMAT, "%s: is empty", path);
        goto out;
    }
    map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        err = fail_errno(path);
        goto out;
    }
    psr_checkpoint *checkpoint = NULL;
    err = psr_checkpoint_parse(path, map, size, &checkpoint);
    if (err != PSR_OK)
        goto out;
    checkpoint->map = map;
    checkpoint->map_size = size;
    map = MAP_FAILED;
    *ret_checkpoint = checkpoint;
out:
    if (map != MAP_FAILED)
        munmap(map, size);
    if (fd >= 0)
        close(fd);
    return err;
}

void psr_checkpoint_close(psr_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    if (checkpoint->map)
        munmap(checkpoint->map, checkpoint->map_size);
    psr_safetensors_done(&checkpoint->header);
    free(checkpoint->copy);
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

psr_err psr_checkpoint_tensor(const psr_checkpoint *checkpoint, const char *name, uint32_t rank,
                              const uint32_t *shape, const float **ret_data)
{
    const psr_safetensors_entry *entry = psr_safetensors_find(&checkpoint->header, name);
    if (!entry)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: tensor %s is missing", checkpoint->origin, name);
    if (strcmp(entry->dtype, "F32") != 0)
        return psr_fail(PSR_ERR_FORMAT, "%s: tensor %s is of type %s, F32 is needed", checkpoint->origin,
                        name, entry->dtype);
    assert(rank <= 4);
    uint64_t wanted[4] = {0};
    bool same = entry->rank == rank;
    for (uint32_t i = 0; i < rank; i++) {
        wanted[i] = shape[i];
        same = same && entry->shape[i] == shape[i];
    }
    char is[96], needed[96];
    if (!same)
        return psr_fail(PSR_ERR_FORMAT, "%s: tensor %s has shape %s, %s is needed", checkpoint->origin, name,
                        shape_text(is, sizeof is, entry->rank, entry->shape),
                        shape_text(needed, sizeof needed, rank, wanted));
    /* Not aligned: behind a tensor of one- or two-byte elements of another program's file. */
    const uint8_t *data = checkpoint->data + entry->begin;
    if ((uintptr_t)data % sizeof(float) != 0)
        return psr_fail(PSR_ERR_FORMAT, "%s: tensor %s does not lie at a multiple of 4 bytes",
                        checkpoint->origin, name);
    *ret_data = (const float *)(const void *)data;
    return PSR_OK;
}

static psr_err find_tensor(const psr_checkpoint *checkpoint, const char *prefix, const psr_tensor *tensor,
                           const float **ret_data)
{
    char name[2 * PSR_TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    return psr_checkpoint_tensor(checkpoint, name, tensor->rank, tensor->shape, ret_data);
}

psr_err psr_checkpoint_load(const psr_checkpoint *checkpoint, const char *prefix, const psr_layout *layout,
                            float *arena)
{
    const float *data = NULL;
    for (size_t i = 0; i < layout->tensor_count; i++)
        PSR_TRY(find_tensor(checkpoint, prefix, &layout->tensors[i], &data));
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *tensor = &layout->tensors[i];
        PSR_TRY(find_tensor(checkpoint, prefix, tensor, &data));
        memcpy(arena + tensor->offset, data, tensor->count * sizeof *data);
    }
    return PSR_OK;
}
