/* Writes a pack (data/pack/pack.h). One thread. */
#ifndef PSR_DATA_PACK_WRITE_H
#define PSR_DATA_PACK_WRITE_H

#include "data/survey.h"

typedef struct psr_pack_options {
    const char *name; /* of the data set */
    bool decoded;     /* every record is raw pixels */
    /* The train split's constants, which take the place of its source's; NULL: those of the
     * source. */
    const float *mean, *deviation;
    const psr_data_progress *progress; /* NULL allowed */
} psr_pack_options;

typedef struct psr_pack_written {
    uint64_t bytes; /* of the file */
    psr_content content;
} psr_pack_written;

/* Writes the pictures of sources[0] (train) and sources[1] (test) into a new file beside path,
 * which takes path's place at the end. On failure path is as it was and nothing is left beside it.
 * A content that is the same as the source's is called the same. Errors of the sources; USAGE: the
 * splits do not go together; IO, NOMEM; CANCELLED: told to stop. */
PSR_MUST_CHECK psr_err psr_pack_write(const char *path, const psr_picture_source *const sources[2],
                                      const psr_pack_options *options,
                                      psr_pack_written *ret_written);

#endif
