/* Data sets in memory: IDX (MNIST family, .gz too), CIFAR-10/100 binary (.xz too), generated data.
 * Pixels stay bytes (u8, CHW) until the loader normalises them. Immutable after opening; any thread. */
#ifndef PSR_DATA_DATASET_H
#define PSR_DATA_DATASET_H

#include "base/config.h"

typedef enum psr_split { PSR_SPLIT_TRAIN, PSR_SPLIT_TEST } psr_split;

typedef struct psr_dataset {
    char name[64];           /* "fashion-mnist", ... */
    const uint8_t *pixels;   /* [count, channels, height, width] */
    const uint32_t *labels;  /* [count], below classes */
    uint32_t count, channels, height, width, classes;
    float mean[3], deviation[3]; /* normalisation constants on the 0..1 scale, of the train split */
    void *storage;           /* owned */
} psr_dataset;

/* What a data set is, without reading its pixels: for the layout and for early checks. Same errors as
 * open for missing files. */
typedef struct psr_dataset_info {
    char name[64];
    uint32_t train_count, test_count, channels, height, width, classes;
} psr_dataset_info;

/* spec is --data: a directory that holds IDX or CIFAR files (which is found by the files' names),
 * "fashion-mnist" (the distribution's package /usr/share/datasets/fashion-mnist, else $XDG data set by
 * `psring data get`), or "synthetic[:count=60000,test=10000,channels=3,size=32,classes=10]".
 * Errors: NOT_FOUND (which files were looked for, and the package or command that brings them),
 * FORMAT (file, what is wrong: magic, truncated, over-long, label out of range), USAGE (spec). */
PSR_MUST_CHECK psr_err psr_dataset_info_read(const char *spec, psr_dataset_info *ret_info);
PSR_MUST_CHECK psr_err psr_dataset_open(const char *spec, psr_split split, psr_dataset **ret_dataset);
void psr_dataset_free(psr_dataset *dataset);

#endif
