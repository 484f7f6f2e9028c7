/* The parameters of a table on which all its ranks must agree when it is opened, and their encoding
 * as words, which a group's first rank sends to the shards. No state; any thread. */
#ifndef PSR_COMM_PSRING_OPENING_H
#define PSR_COMM_PSRING_OPENING_H

#include "base/err.h"
#include "comm/buffer.h"
#include "comm/tables/consistency.h"
#include "comm/wire/compression/compression.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSR_OPENING_NAME_BYTES = 64, /* with the terminating zero */
    PSR_OPENING_UPDATE_BYTES = 512,
    PSR_OPENING_PARTS_MAX = 1 << 20,
    PSR_OPENING_LINE_BYTES = 320
};
#define PSR_OPENING_VALUES_MAX ((size_t)1 << 40)

typedef struct psr_opening {
    uint32_t id;  /* of the table's group */
    bool initial; /* the initial values are not zero */
    /* [worker_count] numbered among all ranks; the first one gives the initial values. Owned, as
     * parts */
    uint32_t *workers;
    uint32_t worker_count;
    size_t *parts; /* [part_count] */
    uint32_t part_count;
    psr_consistency consistency;
    psr_type type;               /* FLOAT32, FLOAT16, BFLOAT16 or FLOAT64 */
    bool mean;                   /* sums of pushes are divided by the number of workers */
    psr_compression compression; /* of pushes; other than none for FLOAT32 alone */
    uint64_t updates;            /* of every part before; at most INT64_MAX */
    char name[PSR_OPENING_NAME_BYTES];
    char update[PSR_OPENING_UPDATE_BYTES]; /* the update's name, with its arguments */
} psr_opening;

void psr_opening_done(psr_opening *opening);

/* Parses "bsp", "ssp:2", "async". USAGE. */
PSR_MUST_CHECK psr_err psr_opening_sync(const char *text, psr_consistency *ret_consistency);
/* USAGE: there are no parts, one is empty, or there are too many values; the name is missing or too
 * long; the update's text is too long. UNSUPPORTED: there are more parts than a table can have.
 * Everything is copied; workers are not set; type and compression are FLOAT32 and none. The caller
 * owns *ret_opening: psr_opening_done. */
PSR_MUST_CHECK psr_err psr_opening_make(const char *name, const size_t *parts, size_t part_count,
                                        const char *update, const char *sync,
                                        psr_opening *ret_opening);

size_t psr_opening_values(const psr_opening *opening);
/* NOMEM: the table is cut into `shares` shares, and `arrays` arrays of one share exceed this
 * machine's memory. */
PSR_MUST_CHECK psr_err psr_opening_fits(const psr_opening *opening, size_t shares, size_t arrays);

/* NOMEM. The caller owns *ret_words: free(). */
PSR_MUST_CHECK psr_err psr_opening_to_words(const psr_opening *opening, int64_t **ret_words,
                                            size_t *ret_count);
/* The bytes may be hostile. FORMAT: they are no possible opening. The caller owns *ret_opening:
 * psr_opening_done. */
PSR_MUST_CHECK psr_err psr_opening_from_words(const int64_t *words, size_t count,
                                              psr_opening *ret_opening);

/* Whether id can be that of a group that rank `first` of all ranks makes. Smaller ids belong to
 * groups that are open from the beginning. */
bool psr_opening_id_is(uint64_t id, uint32_t first, uint32_t ranks);
/* Whether a table may be of that type (a psr_type, if it is one). */
bool psr_opening_type_is(uint64_t type);
/* The status in a shard's reply. A number that is no status counts as PEER: the line that comes
 * with it matters. */
psr_err psr_opening_replied(int64_t status);

/* A digest of what the workers must agree on: all but id, workers and initial. */
uint64_t psr_opening_digest(const psr_opening *opening);
/* "table "weights" of 2 parts (7840, 10), update "sum", bsp" */
void psr_opening_describe(const psr_opening *opening, char line[PSR_OPENING_LINE_BYTES]);

#endif
