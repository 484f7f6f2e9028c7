/* The data sets that psring knows by name: where their authors' files are and what these must be.
 * Constant. */
#ifndef PSR_DATA_COMMAND_KNOWN_H
#define PSR_DATA_COMMAND_KNOWN_H

#include <stddef.h>

enum { PSR_KNOWN_FILES_MAX = 4 };

typedef struct psr_known_file {
    const char *name;   /* NULL: no more */
    const char *sha256; /* hexadecimal */
} psr_known_file;

typedef struct psr_known_set {
    const char *name;
    const char *base;   /* URL of the folder of its files, with the last slash */
    const char *origin; /* whose site that is */
    psr_known_file files[PSR_KNOWN_FILES_MAX];
    const char *folder; /* in its archive, whose files are the data; NULL: the files are */
    /* Of both splits, as psr_content: whatever the files are packed with. "": not known. */
    const char *content;
} psr_known_set;

/* NULL at the end. */
const psr_known_set *psr_known_set_at(size_t i);
/* NULL: there is none of that name. */
const psr_known_set *psr_known_set_find(const char *name);

#endif
