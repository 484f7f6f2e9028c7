/* A list of texts that grows: paths, class names, messages. In place; all zero: empty. One thread
 * at a time may add. */
#ifndef PSR_DATA_IMAGES_NAMES_H
#define PSR_DATA_IMAGES_NAMES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct psr_names {
    char *text; /* owned: all of them, each with its zero byte */
    size_t text_size, text_room;
    size_t *at; /* owned [room]: where each begins */
    uint32_t count, room;
} psr_names;

/* Copies length bytes of name. NOMEM. */
PSR_MUST_CHECK psr_err psr_names_add(psr_names *names, const char *name, size_t length);
/* Borrowed until the next psr_names_add. */
const char *psr_names_get(const psr_names *names, uint32_t i);
/* Sorts by bytes, and keeps one of each. */
void psr_names_sort_unique(psr_names *names);
/* Among sorted names: the place of name, or UINT32_MAX. */
uint32_t psr_names_find(const psr_names *names, const char *name);
void psr_names_done(psr_names *names);

#endif
