/* Data sets: IDX (MNIST family) and CIFAR-10/100 binary (each plain, .gz or .xz), which are
 * unpacked into memory; packs and large plain IDX files, which are mapped and may be larger than
 * memory; files of pictures, which are decoded as they are wanted; and generated data, which are
 * drawn then. The loader gets pictures from the data set's source (data/source.h). Pixels stay
 * bytes until the loader normalises them. Immutable after opening; any thread. */
#ifndef PSR_DATA_DATASET_H
#define PSR_DATA_DATASET_H

#include "base/config/config.h"
#include "data/files/mapped.h"
#include "data/files/reading.h"
#include "data/images/picture_set.h"
#include "data/source.h"

typedef enum psr_split { PSR_SPLIT_TRAIN, PSR_SPLIT_TEST } psr_split;

typedef struct psr_dataset {
    char name[64];          /* "fashion-mnist", ... */
    const uint8_t *pixels;  /* [count, channels, height, width]; NULL: not in memory */
    const uint32_t *labels; /* [count], below classes */
    /* classes: the number that the format gives. IDX gives none, so it is the largest label plus
     * one, over the splits that were opened. */
    uint32_t count, channels, height, width, classes; /* height and width 0: they vary */
    /* Normalisation constants on the 0..1 scale, per channel. They are computed from the train
     * split's pixels, and used for the test split too: exact integer sums, then double, rounded
     * once. A channel that never varies has deviation 1. */
    float mean[3], deviation[3];
    psr_picture_source *source; /* owned; gives the pictures */
    psr_mapped *mapped;         /* has the pixels; the storage's; NULL: they are not mapped */
    void *storage; /* owned: pixels and labels; NULL: they are the source's, or borrowed */
} psr_dataset;

/* Describes a data set without reading its pixels, for the layout and for early checks. (IDX labels
 * are read, to count classes.) Errors for missing files: as psr_dataset_open's. */
typedef struct psr_dataset_info {
    char name[64];
    uint32_t train_count, test_count, channels, height, width, classes; /* as psr_dataset's */
    /* What lies in memory when it is open, for all processes of a host that share it: pixels and
     * labels, or labels alone; 0 of packs, whose files are mapped, and of pictures in files */
    uint64_t memory_bytes;
} psr_dataset_info;

/* spec is --data: a directory that holds IDX or CIFAR files of one set, which is found by the
 * files' names (the authors', EMNIST's splits included; plain, .gz or .xz, the first of these that
 * exists); "mnist", "fashion-mnist", "cifar10", "cifar100": the directory of that name where
 * psr_dataset_find looks without a user's directory (to name a directory mnist in the working
 * directory, write ./mnist); "synthetic[:count=60000,test=10000,channels=3,size=32,classes=10]";
 * the path of a pack; a folder or TSV file of pictures (data/images/picture_set.h).
 * name is the known name, for IDX files in a directory the directory's last component. Errors:
 * NOT_FOUND (which files were looked for, and the package or command that brings them), FORMAT
 * (file, what is wrong: magic, truncated, over-long, label out of range), USAGE (spec), IO,
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_dataset_info_read(const char *spec, psr_dataset_info *ret_info);

/* The caller owns *ret_dataset. The test split alone reads the train split too, for its
 * constants. */
PSR_MUST_CHECK psr_err psr_dataset_open(const char *spec, psr_split split,
                                        psr_dataset **ret_dataset);

/* Both splits; each file is read once. The caller owns both results. Same errors. */
PSR_MUST_CHECK psr_err psr_dataset_open_both(const char *spec, psr_dataset **ret_train,
                                             psr_dataset **ret_test);
/* The same. cache: of pictures that are known to be whole, as psr_opened_init's; NULL: none.
 * `reading` (may be NULL) counts how much has been read. CANCELLED: the reading was
 * stopped. */
PSR_MUST_CHECK psr_err psr_dataset_read_both(const char *spec, const char *cache,
                                             psr_reading *reading, psr_dataset **ret_train,
                                             psr_dataset **ret_test);
/* The data set of a source, which it takes over, on failure too. The caller owns *ret_dataset.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_dataset_of_source(psr_picture_source *source, const char *name,
                                             psr_dataset **ret_dataset);
/* Both splits of a set of picture files, of which they become users. The caller owns both.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_dataset_of_pictures(psr_picture_set *set, const char *name,
                                               psr_dataset **ret_train, psr_dataset **ret_test);
/* Gives a data set over pixels in memory or in a mapped file its source. NOMEM. */
PSR_MUST_CHECK psr_err psr_dataset_add_source(psr_dataset *dataset);
/* Gives its source the data set's mean and deviation. */
void psr_dataset_copy_constants(psr_dataset *dataset);
void psr_dataset_free(psr_dataset *dataset);

/* Replaces the constants that were computed from the train split by --mean and --std. Each is ""
 * (no change), one number, or one for each channel with commas, on the scale of 0 to 1. USAGE,
 * naming the option. */
PSR_MUST_CHECK psr_err psr_dataset_normalise_by(psr_dataset *dataset, const char *mean,
                                                const char *deviation);

/* Resolves a --data spec into ret_spec. A known name becomes the directory of that name in the
 * distribution's /usr/share/datasets, or else in user_directory (NULL: none). "synthetic" without
 * classes= gets the given number of classes (0: stays as it is). Any other spec is copied. The main
 * of a program, which may read the environment, calls this once and opens ret_spec. USAGE: the
 * result is longer than size. NOT_FOUND: the message has the directories that were tried. */
PSR_MUST_CHECK psr_err psr_dataset_find(const char *spec, const char *user_directory,
                                        uint32_t classes, char *ret_spec, size_t size);

#endif
