/* The labelled picture files of one split, in the order of their sample numbers, and where such
 * lists come from: a folder with a folder for each class, or a TSV file.
 *
 * Folders are read as torchvision's ImageFolder reads them: classes are the sorted names of the
 * folders, by bytes; a class's files are those below it, at any depth, with the extension of a
 * picture (.jpg, .jpeg, .png; also .ppm, .bmp, .pgm, .tif, .tiff, .webp, which psring cannot
 * decode), sorted by folder and then by name. Other files are not looked at.
 *
 * A TSV file has lines of PATH<tab>LABEL; empty lines and lines that begin with # are left out.
 * Paths are relative to the file's own folder. If every label is a number, they are the classes'
 * numbers; else they are names, and classes are numbered in their sorted order.
 *
 * In place; all zero: empty. Not changed after it was read; then any thread. */
#ifndef PSR_DATA_IMAGES_PICTURE_LIST_H
#define PSR_DATA_IMAGES_PICTURE_LIST_H

#include "data/images/names.h"

#include <stdbool.h>

#define PSR_PICTURE_CLASSES_MAX (1u << 20)

typedef struct psr_picture_list {
    psr_names paths;     /* of the files, below `directory` unless absolute */
    uint32_t *labels;    /* owned [paths.count] */
    uint32_t label_room; /* of labels */
    char *directory;     /* owned */
    psr_names classes;   /* sorted; of numbers: "0", "1", .. */
    psr_names empty;     /* a message for each class folder without a picture */
} psr_picture_list;

/* classes: the list whose classes this one must have (the train split's); NULL: its own. The
 * caller owns *ret_list: psr_picture_list_done. NOT_FOUND, IO: the folder or file cannot be read;
 * FORMAT: a line that is not PATH<tab>LABEL, no picture at all, a class that `classes` does not
 * have; USAGE: folders nested too deep; NOMEM. */
PSR_MUST_CHECK psr_err psr_picture_list_read_folder(const char *path,
                                                    const psr_picture_list *classes,
                                                    psr_picture_list *ret_list);
PSR_MUST_CHECK psr_err psr_picture_list_read_tsv(const char *path, const psr_picture_list *classes,
                                                 psr_picture_list *ret_list);
void psr_picture_list_done(psr_picture_list *list);

/* The path of file i, for opening. USAGE: longer than PSR_PATH_MAX. */
PSR_MUST_CHECK psr_err psr_picture_list_path(const psr_picture_list *list, uint32_t i, char *path,
                                             size_t size);

/* ---- for its readers ---- */

PSR_MUST_CHECK psr_err psr_picture_list_add(psr_picture_list *list, const char *path, size_t length,
                                            uint32_t label);
/* File `to` becomes what file `from` is. */
void psr_picture_list_copy(psr_picture_list *list, uint32_t from, uint32_t to);

#endif
