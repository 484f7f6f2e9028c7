/* The content of a data set as a hash for each split (data/opened.h): equal for equal samples in
 * equal order. Plain data. */
#ifndef PSR_BASE_CONTENT_H
#define PSR_BASE_CONTENT_H

#include <stdbool.h>
#include <string.h>

#define PSR_CONTENT_DIGITS 32
#define PSR_CONTENT_BYTES (PSR_CONTENT_DIGITS + 1)

/* Both "": not known. */
typedef struct psr_content {
    char train[PSR_CONTENT_BYTES], test[PSR_CONTENT_BYTES];
} psr_content;

/* Whether text begins with a split's digits. */
static inline bool psr_content_begins(const char *text)
{
    return strspn(text, "0123456789abcdef") >= PSR_CONTENT_DIGITS;
}

/* --data-content: both, with a hyphen between them. */
#define PSR_CONTENT_TEXT_BYTES (2 * PSR_CONTENT_BYTES)

#endif
