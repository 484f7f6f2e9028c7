/* A data set of picture files: its train and test lists, checked (data/images/check.h). What --data
 * may name:
 *   a folder with the folders train, and val or test, each with a folder for each class;
 *   a folder with the files train.tsv, and val.tsv or test.tsv;
 *   a folder with a folder for each class, or a TSV file: its pictures are the train and the test
 *   split alike, so that an evaluation says how well the training pictures are known.
 * Where there are both val and test, it is val (ImageNet's test pictures have no labels). Not
 * changed after it was read; then any thread. */
#ifndef PSR_DATA_IMAGES_PICTURE_SET_H
#define PSR_DATA_IMAGES_PICTURE_SET_H

#include "data/images/check.h"

typedef struct psr_picture_split {
    psr_picture_list list;
    psr_image_size *sizes; /* owned [list.paths.count]; upright */
    char content[PSR_CONTENT_BYTES];
} psr_picture_split;

typedef struct psr_picture_set {
    psr_picture_split split[2]; /* train, test */
    bool same;                  /* the test split is the train split: split[1] is empty */
    psr_names broken;           /* a message for each broken file, and each empty class */
    _Atomic uint32_t users;     /* who holds it: psr_picture_set_free lets go */
} psr_picture_set;

/* Whether path looks like such a set: nothing is read but the names in it. */
bool psr_picture_set_is(const char *path);

/* Lists the pictures and does not open them. The caller owns *ret_set: psr_picture_set_free.
 * Errors as psr_picture_list's; NOT_FOUND: no val or test beside train. */
PSR_MUST_CHECK psr_err psr_picture_set_list(const char *path, psr_picture_set **ret_set);

/* Lists and checks them: those that cache does not know as whole are read (as psr_opened_init's;
 * NULL: all), with as many threads as this process may use processors. However many are
 * broken: psr_picture_set_judge says whether they are too many. Other errors as
 * psr_picture_list_check's. */
PSR_MUST_CHECK psr_err psr_picture_set_read(const char *path, const char *cache,
                                            psr_reading *reading, psr_picture_set **ret_set);
/* FORMAT: more than max_bad (--max-bad) files and classes, in both splits together, are broken or
 * empty. The message has their number and the first. */
PSR_MUST_CHECK psr_err psr_picture_set_judge(const psr_picture_set *set, uint32_t max_bad);

/* Another user of the set. */
psr_picture_set *psr_picture_set_hold(psr_picture_set *set);
/* The last user's call frees it. NULL allowed. */
void psr_picture_set_free(psr_picture_set *set);

/* The train split, or the test split, which may be the same. */
static inline const psr_picture_split *psr_picture_set_split(const psr_picture_set *set, bool test)
{
    return &set->split[test && !set->same ? 1 : 0];
}

#endif
