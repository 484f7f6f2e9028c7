/* Packs: one file that holds a data set's pictures as they are stored (JPEG and PNG files, or raw
 * pixels), with an index, labels, class names, mean, deviation and checksums. `psring data pack`
 * writes them (data/pack/write.h), docs/pack.md describes them.
 *
 * A pack is mapped, not read: it may be larger than memory, and the workers of a host have it in
 * memory once. Its head and index are checked when it is opened, each record's checksum whenever
 * its picture is taken. A pack may come from anywhere: nothing in it leads outside it. A file that
 * becomes shorter while it is mapped is noticed before a picture is taken from it. (Between this
 * look and the reading of some pages a file that is cut still ends the process by SIGBUS. Packs are
 * replaced by renaming, which never cuts one.) Immutable; any thread. */
#ifndef PSR_DATA_PACK_PACK_H
#define PSR_DATA_PACK_PACK_H

#include "data/source.h"

#define PSR_PACK_NAME_BYTES 64

/* What a pack's head says. */
typedef struct psr_pack_info {
    char name[PSR_PACK_NAME_BYTES]; /* of the data set */
    uint32_t count[2];              /* train, test */
    uint32_t channels, classes;
    uint32_t height, width; /* 0, 0: they vary */
    psr_content content;
} psr_pack_info;

/* Whether the file at path begins as a pack does. false too if it cannot be read. */
bool psr_pack_is(const char *path);

/* Reads and checks the head alone. NOT_FOUND, IO; FORMAT: no pack, truncated, over-long, damaged;
 * VERSION: of another version. */
PSR_MUST_CHECK psr_err psr_pack_read_info(const char *path, psr_pack_info *ret_info);

/* Opens a pack as the sources of its train and test split. decode: decodes records that are not
 * pixels; NULL: such records are refused when they are wanted, by name. Errors as above, and NOMEM.
 * The caller owns both sources, which may be freed in any order. */
PSR_MUST_CHECK psr_err psr_pack_open(const char *path, psr_decode_function *decode,
                                     psr_pack_info *ret_info, psr_picture_source *ret_sources[2]);

#endif
