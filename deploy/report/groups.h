/* Runs of one configuration are repetitions of one measurement. A difference of two configurations
 * is called one only if each was run at least PSR_GROUP_RUNS times, and every run of one was faster
 * than every run of the other: of equal ones that is so by chance in at most one case of 35 (the
 * exact two-sided rank-sum test with four runs each; Mann and Whitney, 1947). One thread. */
#ifndef PSR_DEPLOY_REPORT_GROUPS_H
#define PSR_DEPLOY_REPORT_GROUPS_H

#include "base/figures.h"
#include "deploy/report/runs.h"

#define PSR_GROUP_RUNS 4

typedef struct psr_run_group {
    size_t runs[PSR_RUNS_MAX]; /* indices; the first stands for the configuration */
    size_t count;
    size_t done;                /* how many of them ended well: the first so many */
    double median, least, most; /* of these: the groups' rate; NaN: there are none */
} psr_run_group;

typedef struct psr_run_groups {
    psr_run_group items[PSR_RUNS_MAX]; /* the fastest first; those without a rate last */
    size_t count;
    /* by which they are compared: steady_images_per_s where all runs that ended well have it, else
     * images_per_s */
    psr_figure rate;
} psr_run_groups;

/* Unreadable runs are in no group. */
void psr_run_groups_make(const psr_runs *runs, psr_run_groups *ret_groups);

/* Whether a may be called faster than b. */
bool psr_run_group_is_faster(const psr_run_group *a, const psr_run_group *b);

/* "mode ps, shards 2": the options in which the group differs from others; if there are none, the
 * name of its first run. */
void psr_run_group_name(const psr_runs *runs, const psr_run_group *group, char *text, size_t size);

/* The mean of a figure over the group's runs that ended well; NaN: there are none, or one of them
 * does not have it. */
double psr_run_group_figure(const psr_runs *runs, const psr_run_group *group, psr_figure figure);

#endif
