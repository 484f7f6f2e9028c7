/* The layout of a pack, a file that holds both splits of a data set (docs/pack.md). Little-endian,
 * which all processors are that psring runs on, so these structs are the file's bytes. Internal to
 * data/pack/.
 *
 *   head        PSR_PACK_HEAD_BYTES: this file's pack_head
 *   records     the pictures' stored bytes, in the order of the train split, then the test split
 *   index       from a multiple of 64 on to the file's end: of each split labels u32[count] and
 *               entries pack_entry[count], each at a multiple of 64; then the class names, each
 *               with a zero byte
 *
 * Checksums are XXH3-64 with seed 0: of each record in its entry, of the index in the head, of the
 * head in its last field. */
#ifndef PSR_DATA_PACK_FORM_H
#define PSR_DATA_PACK_FORM_H

#include "base/content.h"

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packs are written and mapped as the structs below, which takes a little-endian processor"
#endif

#define PSR_PACK_MAGIC "psring pack\r\n\x1a\n" /* a transfer as text breaks it */
#define PSR_PACK_VERSION 1u
#define PSR_PACK_HEAD_BYTES 512u
#define PSR_PACK_ALIGNMENT 64u
#define PSR_PACK_MAX_SIDE 65535u
#define PSR_PACK_MAX_CLASSES (1u << 20)

/* Of one picture. */
typedef struct pack_entry {
    uint64_t offset;        /* of its record in the file */
    uint32_t size;          /* of its record, in bytes */
    uint32_t form;          /* psr_stored_form */
    uint32_t height, width; /* of the upright picture at full size */
    uint64_t checksum;
} pack_entry;

typedef struct pack_split {
    uint32_t count, channels;
    uint32_t height, width; /* of every picture; 0, 0: they vary */
    uint32_t classes;
    uint32_t origin; /* psr_constants_origin of the constants */
    float mean[3], deviation[3];
    uint64_t labels_offset, entries_offset; /* in the file */
    char content[PSR_CONTENT_DIGITS];       /* of the labels and pictures, hexadecimal */
} pack_split;

typedef struct pack_head {
    char magic[16];
    uint32_t version, head_bytes;
    uint64_t file_bytes;
    uint64_t index_offset, index_checksum; /* the index goes on to the file's end */
    pack_split split[2];                   /* train, test */
    uint64_t names_offset;
    uint32_t names_bytes, names_count; /* 0, or the larger number of classes */
    char name[64];                     /* of the data set, with a zero byte */
    char zeroes[PSR_PACK_HEAD_BYTES - 328];
    uint64_t checksum; /* of all before it */
} pack_head;

_Static_assert(sizeof(pack_entry) == 32, "an entry has no padding");
_Static_assert(sizeof(pack_split) == 96, "a split has no padding");
_Static_assert(sizeof(pack_head) == PSR_PACK_HEAD_BYTES, "the head has no padding");

static inline uint64_t pack_aligned(uint64_t bytes)
{
    return (bytes + PSR_PACK_ALIGNMENT - 1) / PSR_PACK_ALIGNMENT * PSR_PACK_ALIGNMENT;
}

#endif
