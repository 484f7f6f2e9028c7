/* Reads ZPL, the text in which ZeroMQ programs keep certificates (rfc.zeromq.org/spec/4): one line
 * NAME or NAME = VALUE for each item, an item's own items indented by four more spaces, # before a
 * comment. It reads what czmq's zconfig reads, in place: it allocates nothing, so a secret has no
 * second copy. It refuses control characters, and a comment in the place of a value. Plain data;
 * any thread. */
#ifndef PSR_NET_TRUST_ZPL_H
#define PSR_NET_TRUST_ZPL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the text, without a terminating zero. */
typedef struct psr_zpl_text {
    const char *at;
    size_t length;
} psr_zpl_text;

typedef struct psr_zpl_item {
    int level;                /* 0 for items that are in no other item */
    psr_zpl_text name, value; /* value: without its quotes; length 0 if the line has none */
} psr_zpl_item;

/* The position of the reader. */
typedef struct psr_zpl {
    const char *rest, *end;
    int line;  /* of the item that was read last; the first is 1 */
    int depth; /* the highest level that the next item may have */
} psr_zpl;

/* Borrows text until the last call of psr_zpl_next. */
psr_zpl psr_zpl_begin(const char *text, size_t size);

/* The next item; ret_item's texts are views into the text. ret_end: there is none. FORMAT, which
 * names the line. Bytes may be hostile. */
PSR_MUST_CHECK psr_err psr_zpl_next(psr_zpl *zpl, psr_zpl_item *ret_item, bool *ret_end);

bool psr_zpl_is(psr_zpl_text text, const char *word);

#endif
