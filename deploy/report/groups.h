/* Runs of one configuration are repetitions of one measurement. Whether two configurations differ
 * is decided as in psring bench train (deploy/bench_train/samples.h). One thread. */
#ifndef PSR_DEPLOY_REPORT_GROUPS_H
#define PSR_DEPLOY_REPORT_GROUPS_H

#include "base/figures.h"
#include "deploy/bench_train/samples.h"
#include "deploy/report/runs.h"

typedef struct psr_run_group {
    size_t runs[PSR_RUNS_MAX]; /* indices; the first stands for the configuration */
    size_t count;
    /* Groups of one network, number of workers and batch have the same number here: these are
     * compared. Numbers count from 0, in the order of the runs */
    size_t training;
    size_t done;                   /* how many of them ended well: the first so many */
    double rates[PSR_SAMPLES_MAX]; /* of these, the first so many, in images per second */
    size_t rate_count;
    double median, least, most; /* of the rates; NaN: there are none */
} psr_run_group;

typedef struct psr_run_groups {
    /* by training, and of each the fastest first; those without a rate last of all */
    psr_run_group items[PSR_RUNS_MAX];
    size_t count;
    /* by which they are compared: together_images_per_s where all runs that ended well have it,
     * else images_per_s */
    psr_figure rate;
} psr_run_groups;

/* Unreadable runs are in no group. */
void psr_run_groups_make(const psr_runs *runs, psr_run_groups *ret_groups);

/* What may be said of a beside b: PSR_SAMPLES_HIGHER if it is faster. */
psr_samples_verdict psr_run_group_compare(const psr_run_group *a, const psr_run_group *b);

/* "mode ps, shards 2": the options in which the group differs from others; if there are none, the
 * name of its first run. */
void psr_run_group_name(const psr_runs *runs, const psr_run_group *group, char *text, size_t size);

/* The mean of a figure over the group's runs that ended well; NaN: there are none, or one of them
 * does not have it. */
double psr_run_group_figure(const psr_runs *runs, const psr_run_group *group, psr_figure figure);

#endif
