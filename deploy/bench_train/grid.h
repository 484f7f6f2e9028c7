/* What `psring bench train` compares: a list of configurations, made of lists of values of
 * `psring train`'s options. Configurations of the same network, workers and batch are one group,
 * within which they are compared. Pure but for the options that it reads. One thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_GRID_H
#define PSR_DEPLOY_BENCH_TRAIN_GRID_H

#include "base/config/config.h"

#define PSR_GRID_MOST 256
#define PSR_GRID_NAME_MAX 96

/* The options whose values may be lists, separated by commas. */
typedef enum psr_grid_list {
    PSR_GRID_MODE, /* ps, ring, mpi, local, none */
    PSR_GRID_SHARDS,
    PSR_GRID_WORKERS,
    PSR_GRID_MODEL,
    PSR_GRID_BATCH_SIZE,
    PSR_GRID_BUCKET_SIZE,
    PSR_GRID_SYNC,
    PSR_GRID_COMPRESS,
    PSR_GRID_LISTS,
} psr_grid_list;

/* The option's long name. */
const char *psr_grid_list_name(psr_grid_list list);

typedef struct psr_grid_cell {
    psr_config config;
    bool dedicated; /* shards are on the hosts of --ps-hostfile */
    uint32_t group;
    char name[PSR_GRID_NAME_MAX]; /* within its group: "ps:2 async fp16" */
} psr_grid_cell;

typedef struct psr_grid {
    psr_grid_cell *cells; /* owned */
    size_t count;
    uint32_t groups;
} psr_grid;

/* base: the options that all have. lists: a text for each list; NULL: base's value alone; of the
 * mode ps, ring and none. dedicated: what has shards is there twice, beside the workers and on
 * hosts of their own. Where an option does not go with a mode (shards, sync: ps alone; compress:
 * ps, ring; bucket-size: not none) the mode is there once. USAGE: names the option and the value;
 * or a configuration that psring train would refuse; or there are more than PSR_GRID_MOST. NOMEM.
 * The caller owns *ret_grid. */
PSR_MUST_CHECK psr_err psr_grid_make(const psr_config *base,
                                     const char *const lists[static PSR_GRID_LISTS], bool dedicated,
                                     psr_grid *ret_grid);
void psr_grid_done(psr_grid *grid);

/* "resnet18, 2 workers, batches of 32": what all of the group have in common. */
void psr_grid_group_name(const psr_grid *grid, uint32_t group, char *text, size_t size);

/* Whether the cells exchange anything. */
bool psr_grid_exchanges(const psr_grid_cell *cell);

#endif
