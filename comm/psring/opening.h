/* The parameters of a table on which all its ranks must agree when it is opened, and their encoding
 * as words, which a group's first rank sends to the shards. No state; any thread. */
#ifndef PSR_COMM_PSRING_OPENING_H
#define PSR_COMM_PSRING_OPENING_H

#include "base/err.h"
#include "comm/tables/consistency.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSR_OPENING_NAME_BYTES = 64, /* with the zero at the end */
    PSR_OPENING_UPDATE_BYTES = 512,
    PSR_OPENING_PARTS_MAX = 1 << 20,
    PSR_OPENING_LINE_BYTES = 320
};
#define PSR_OPENING_VALUES_MAX ((size_t)1 << 40)

typedef struct psr_opening {
    uint32_t id;       /* of the table's group of ranks */
    bool initial;      /* the values are not zero at first */
    uint32_t *workers; /* [worker_count] of all ranks; the first one tells. owned, as parts */
    uint32_t worker_count;
    size_t *parts; /* [part_count] */
    uint32_t part_count;
    psr_consistency consistency;
    char name[PSR_OPENING_NAME_BYTES];
    char update[PSR_OPENING_UPDATE_BYTES]; /* with its arguments */
} psr_opening;

void psr_opening_done(psr_opening *opening);

/* "bsp", "ssp:2", "async". USAGE. */
PSR_MUST_CHECK psr_err psr_opening_sync(const char *text, psr_consistency *ret_consistency);
/* USAGE: no parts, one of them empty, or more values than can be; no name, or one too long; an
 * update's text too long. UNSUPPORTED: more parts than a table can have. What it points to is
 * copied; workers are not set. ret owns: psr_opening_done. */
PSR_MUST_CHECK psr_err psr_opening_make(const char *name, const size_t *parts, size_t part_count,
                                        const char *update, const char *sync,
                                        psr_opening *ret_opening);

size_t psr_opening_values(const psr_opening *opening);
/* NOMEM: `arrays` arrays of one share of `shares` of the table are more than this machine's
 * memory. */
PSR_MUST_CHECK psr_err psr_opening_fits(const psr_opening *opening, size_t shares, size_t arrays);

/* NOMEM. ret owns: free(). */
PSR_MUST_CHECK psr_err psr_opening_to_words(const psr_opening *opening, int64_t **ret_words,
                                            size_t *ret_count);
/* The bytes may be hostile. FORMAT: they say nothing that can be. ret owns: psr_opening_done. */
PSR_MUST_CHECK psr_err psr_opening_from_words(const int64_t *words, size_t count,
                                              psr_opening *ret_opening);

/* Can a group have it that rank `first` of all ranks makes? Those below belong to what is open from
 * the beginning. */
bool psr_opening_id_is(uint64_t id, uint32_t first, uint32_t ranks);
/* What a shard's reply says. A status that is none is PEER: the line that comes with it counts. */
psr_err psr_opening_replied(int64_t status);

/* Of what the workers must say alike: neither id, workers nor initial. */
uint64_t psr_opening_digest(const psr_opening *opening);
/* "table "weights" of 2 parts (7840, 10), update "sum", bsp" */
void psr_opening_describe(const psr_opening *opening, char line[PSR_OPENING_LINE_BYTES]);

#endif
