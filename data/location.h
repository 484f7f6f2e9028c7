/* A resolved --data spec: which files a data set consists of, and where they are. Internal to
 * data/. Any thread. */
#ifndef PSR_DATA_LOCATION_H
#define PSR_DATA_LOCATION_H

#include "base/config/config.h"
#include "data/files/cifar.h"
#include "data/files/source.h"
#include "data/synthetic.h"

enum { PSR_LOCATION_MAX_FILES = 5 };

/* Files of one split, in the order of their samples; of IDX: images, labels. */
typedef struct psr_split_files {
    const char *name[PSR_LOCATION_MAX_FILES]; /* without .gz or .xz */
    uint32_t file_count;
    uint32_t records; /* of CIFAR: in each file */
} psr_split_files;

/* A set of files that is found by their names. */
typedef struct psr_file_set {
    const char *name;            /* NULL: the directory's own */
    const psr_cifar_kind *cifar; /* NULL: IDX */
    psr_split_files split[2];    /* train, test */
} psr_file_set;

typedef struct psr_location {
    char name[64];
    const psr_file_set *files;    /* NULL: generated, or a pack */
    bool is_pack;                 /* directory is the path of a pack (data/pack/pack.h) */
    bool is_pictures;             /* it is a folder or TSV file (data/images/picture_set.h) */
    char directory[PSR_PATH_MAX]; /* of files */
    psr_synthetic synthetic;      /* of generated data */
    const char *cache;            /* of known pictures; borrowed; NULL: none */
    psr_reading *reading;         /* counts while its files are read; borrowed; may be NULL */
} psr_location;

/* Errors as psr_dataset_info_read's: NOT_FOUND, USAGE, IO. */
PSR_MUST_CHECK psr_err psr_location_resolve(const char *spec, psr_location *ret_location);

/* Opens one of its files: the plain file, else .gz, else .xz. The caller owns *ret_source.
 * NOT_FOUND, IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_location_open(const psr_location *location, const char *name,
                                         psr_source **ret_source);

/* Identifies these files in their present state among all files of this host: a hash of their
 * names, devices, inodes, sizes and times. For generated data: a hash of what is generated. */
typedef struct psr_location_state {
    char text[33];     /* hexadecimal digits */
    int64_t changed_s; /* time of their last change, by CLOCK_REALTIME; generated data: INT64_MIN */
} psr_location_state;

/* NOT_FOUND, IO. */
PSR_MUST_CHECK psr_err psr_location_state_of(const psr_location *location,
                                             psr_location_state *ret_state);

#endif
