/* A text that is appended to in the caller's buffer, and cut at the buffer's end. Any thread. */
#ifndef PSR_BASE_TEXT_TEXT_H
#define PSR_BASE_TEXT_TEXT_H

#include "base/err.h"

#include <stddef.h>

typedef struct psr_text_end {
    char *at;    /* where the next text goes; holds the end mark */
    size_t room; /* bytes from there on, at least 1 */
} psr_text_end;

/* Appends, as printf does. */
void psr_text_add(psr_text_end *end, const char *format, ...) PSR_PRINTF(2, 3);

#endif
