/* The header of a safetensors file. Private to model/'s checkpoints.
 *
 *   file   = length (8 bytes, little endian) header (JSON, `length` bytes) data
 *   header = { "__metadata__": { key: value, .. }, name: { "dtype": "F32", "shape": [..],
 *              "data_offsets": [begin, end] }, .. } and spaces
 *   data   = the tensors, without holes: sorted by begin, each begins where the one before it ends
 *
 * The scanner knows this grammar and no other JSON, on purpose. So it does not recurse, it keeps
 * 64-bit integers exact, and it allocates only a small multiple of the bytes that are really
 * there. */
#ifndef PSR_MODEL_SAFETENSORS_H
#define PSR_MODEL_SAFETENSORS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_SAFETENSORS_RANK_MAX 8
#define PSR_SAFETENSORS_HEADER_MAX 100000000 /* bytes; the format's own bound */

typedef struct psr_safetensors_entry {
    const char *name;  /* UTF-8 */
    const char *dtype; /* "F32"; static storage */
    uint32_t rank;     /* 0 for a scalar */
    uint64_t shape[PSR_SAFETENSORS_RANK_MAX];
    uint64_t begin, end; /* bytes from the data's start */
} psr_safetensors_entry;

typedef struct psr_safetensors_pair {
    const char *key, *value; /* UTF-8 */
} psr_safetensors_pair;

typedef struct psr_safetensors {
    psr_safetensors_entry *entries; /* sorted by name */
    size_t entry_count;
    psr_safetensors_pair *pairs; /* of __metadata__, sorted by key */
    size_t pair_count;
    char *text;        /* what names, keys and values point into */
    size_t data_begin; /* bytes from the file's start */
} psr_safetensors;

/* Finds where the data of a file of file_bytes bytes begin: behind its first
 * PSR_SAFETENSORS_LENGTH_BYTES, which are in first, and the header whose length they tell.
 * *ret_data_begin lies within the file. FORMAT. */
#define PSR_SAFETENSORS_LENGTH_BYTES 8
PSR_MUST_CHECK psr_err psr_safetensors_data_begin(const uint8_t first[PSR_SAFETENSORS_LENGTH_BYTES],
                                                  uint64_t file_bytes, size_t *ret_data_begin);

/* Reads the header of a file of file_bytes bytes. bytes: its first data_begin bytes
 * (psr_safetensors_data_begin). On success every entry's range lies within the file, fits its shape
 * and type, and the ranges cover the data exactly. FORMAT, NOMEM. The caller owns *ret_header:
 * psr_safetensors_done; bytes are borrowed for the call. */
PSR_MUST_CHECK psr_err psr_safetensors_parse(const uint8_t *bytes, size_t data_begin,
                                             uint64_t file_bytes, psr_safetensors *ret_header);
void psr_safetensors_done(psr_safetensors *header);

/* NULL when there is none of that name. Borrowed from header. */
const psr_safetensors_entry *psr_safetensors_find(const psr_safetensors *header, const char *name);
const char *psr_safetensors_metadata(const psr_safetensors *header, const char *key);

/* True when text is well-formed UTF-8 (RFC 3629). */
bool psr_utf8_valid(const uint8_t *text, size_t size);

/* Makes a name from a file safe for one line of a message: cut, and with '?' for control
 * characters. */
#define PSR_PRINTABLE_SIZE 96
const char *psr_printable(const char *name, char buffer[PSR_PRINTABLE_SIZE]);

#endif
