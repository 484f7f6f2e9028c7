/* The command line of `psring predict`. For its main: it prints and exits on wrong words. */
#ifndef PSR_BENCH_PREDICT_OPTIONS_H
#define PSR_BENCH_PREDICT_OPTIONS_H

#include "bench/predict/answer.h"

enum { PSR_PREDICT_OF_RUN = 11, PSR_PREDICT_RUNS_MAX = 64 };

/* What the command line says; options that are not given are below 0, or NULL. Texts are borrowed
 * from argv. */
typedef struct psr_predict_options {
    const char *runs[PSR_PREDICT_RUNS_MAX]; /* directories, or files of psring bench train */
    uint32_t run_count;
    const char *doctor, *lab, *profile, *costs;
    const char *of_run[PSR_PREDICT_OF_RUN]; /* by psr_predict_names_of_run */
    double compute_s, link_bits_per_s, latency_s, classes, channels, image_size;
    /* message, copy, seal, fold, update: in the order of psr_link_costs */
    double costs_given[5];
    uint32_t link_count, slow_count; /* of --host-links, --slow */
    bool json, calibrate, beside;
    /* The rest: hosts, shards, modes, placement, and of the scenario what is given or usual. */
    psr_predict_question question;
} psr_predict_options;

/* Options of psring train by their names. */
extern const char *const psr_predict_names_of_run[PSR_PREDICT_OF_RUN];

void psr_predict_options_parse(int argc, char **argv, psr_predict_options *ret_options);

#endif
