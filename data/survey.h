/* Reads every picture of a source: how many each class has, which cannot be given, their sizes, and
 * the mean and deviation of each channel. */
#ifndef PSR_DATA_SURVEY_H
#define PSR_DATA_SURVEY_H

#include "data/source.h"

#include <stdatomic.h>

/* Whom to tell how far a long reading is, and who may stop it. */
typedef struct psr_data_progress {
    void (*at)(void *context, uint64_t done, uint64_t total); /* from one thread at a time */
    void *context;
    const atomic_bool *stop; /* set: the reading ends with CANCELLED; NULL allowed */
} psr_data_progress;

/* NULL allowed. CANCELLED: told to stop. */
PSR_MUST_CHECK psr_err psr_data_progress_at(const psr_data_progress *progress, uint64_t done,
                                            uint64_t total);

typedef struct psr_survey {
    uint32_t *of_class; /* [classes], owned: pictures that could be given */
    uint32_t given, bad;
    uint32_t least_height, most_height, least_width, most_width;
    /* On the scale of 0 to 1, over all pixels of all pictures: exact integer sums, then double,
     * rounded once. Sums have no order, so threads change nothing. A channel that never varies has
     * deviation 1. */
    float mean[3], deviation[3];
} psr_survey;

typedef struct psr_survey_options {
    uint32_t threads;
    const psr_data_progress *progress; /* NULL allowed */
    /* Told of each picture that cannot be given, from one thread at a time, in no order. NULL
     * allowed. */
    void (*bad)(void *context, uint32_t sample, const char *message);
    void *context;
} psr_survey_options;

/* Where not all threads can be started, fewer read. The caller owns *ret_survey: psr_survey_done.
 * CANCELLED, NOMEM; UNSUPPORTED: this build cannot decode the pictures. */
PSR_MUST_CHECK psr_err psr_survey_make(const psr_picture_source *source,
                                       const psr_survey_options *options, psr_survey *ret_survey);
/* Safe on one of zeroes. */
void psr_survey_done(psr_survey *survey);

/* The mean and deviation of n bytes with these sums of bytes and of their squares, both exact. */
void psr_constants_of_sums(uint64_t n, uint64_t sum, uint64_t squares, float *ret_mean,
                           float *ret_deviation);

#endif
