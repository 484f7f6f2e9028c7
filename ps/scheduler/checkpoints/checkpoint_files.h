/* The directory of one checkpoint while it is written, checkpoints/.step-N.part. It has the
 * files of model/checkpoint/checkpoint.h. They are made when the first piece comes, filled from
 * pieces of sections and flushed; then the directory is renamed to checkpoints/step-N. Every call
 * may take as long as the disk does. One thread at a time. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINT_FILES_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINT_FILES_H

#include "ps/scheduler/checkpoints/sections.h"

typedef struct psr_checkpoint_files psr_checkpoint_files;

typedef struct psr_checkpoint_files_options {
    const char *directory;        /* .../checkpoints, which exists; copied */
    const psr_config *config;     /* borrowed for life */
    const psr_sections *sections; /* borrowed for life */
    const char *const *about;     /* more metadata of the model's file: pairs as
                                     psr_about_pairs makes them, borrowed for life; NULL: none */
    bool (*moved)(void *context); /* see psr_checkpoint_watch */
    void *context;
} psr_checkpoint_files_options;

/* Makes the directory and the files in it for the state after `step` steps. The caller owns
 * *ret_files. IO, NOMEM; nothing is left behind then. */
PSR_MUST_CHECK psr_err psr_checkpoint_files_new(const psr_checkpoint_files_options *options,
                                                uint64_t step, psr_checkpoint_files **ret_files);

/* The weights were evaluated on the test set: the model's metadata will say how. Before its first
 * piece. */
void psr_checkpoint_files_evaluated(psr_checkpoint_files *files,
                                    const psr_checkpoint_evaluation *evaluation);

/* Adds a piece: count floats at offset of the array of a section of this run, within its bounds.
 * PROTOCOL: part of it was added before; IO; CANCELLED. */
PSR_MUST_CHECK psr_err psr_checkpoint_files_put(psr_checkpoint_files *files, uint32_t section,
                                                const float *data, size_t offset, size_t count);

/* All pieces are there: flushes and renames. PROTOCOL: pieces are missing; IO; CANCELLED. */
PSR_MUST_CHECK psr_err psr_checkpoint_files_commit(psr_checkpoint_files *files);

/* Removes the checkpoint of a step from a directory .../checkpoints. It is renamed first, so that
 * nobody finds half of it. IO. */
PSR_MUST_CHECK psr_err psr_checkpoint_remove(const char *directory, uint64_t step);

/* Removes the files unless they were committed. NULL allowed. */
void psr_checkpoint_files_free(psr_checkpoint_files *files);

#endif
