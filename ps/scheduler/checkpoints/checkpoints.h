/* The run directory's checkpoints/. It puts together the pieces that workers and shards send, and
 * renames each complete checkpoint into place (ps/scheduler/checkpoints/checkpoint_files.h). A
 * thread of its own does everything that involves the disk, so the scheduler answers however slow
 * the disk is. Pieces that are not written yet wait in memory: of two checkpoints at most, since a
 * worker sends nothing of the next one before the last one is in place (SAVED, docs/wire.md). All
 * calls come from the thread that made it. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINTS_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINTS_H

#include "net/message.h"
#include "ps/scheduler/checkpoints/sections.h"

typedef struct psr_checkpoints psr_checkpoints;

typedef struct psr_checkpoints_options {
    const char *directory; /* .../checkpoints, which exists; copied */
    const psr_config *config;
    const psr_sections *sections; /* borrowed for life */
    const char *const *about;     /* see psr_checkpoint_files_options */
    /* called on the writing thread: psr_checkpoints_take has something to return */
    void (*wake)(void *context);
    void *context;
} psr_checkpoints_options;

/* The caller owns *ret_checkpoints. */
PSR_MUST_CHECK psr_err psr_checkpoints_new(const psr_checkpoints_options *options,
                                           psr_checkpoints **ret_checkpoints);
/* Gives complete checkpoints five seconds to get into place, and removes incomplete ones. If the
 * disk does not even release the writing thread, everything is left to the end of the process. NULL
 * allowed. */
void psr_checkpoints_free(psr_checkpoints *checkpoints);

/* Adds a piece: count floats at offset of a section's array after `step` steps. data lies in
 * *message, which is consumed on success, and freed on any thread when the piece is written: the
 * piece is copied once, on its way to the disk, and its sender may own the memory (and even change
 * it) until then. PROTOCOL: it does not fit, or comes twice; NOMEM. */
PSR_MUST_CHECK psr_err psr_checkpoints_put(psr_checkpoints *checkpoints, uint64_t step,
                                           uint32_t section, const float *data, size_t offset,
                                           size_t count, psr_message **message);

/* An evaluation after that many steps gave this, before the first piece of their model is put: the
 * checkpoint says so. */
void psr_checkpoints_evaluated(psr_checkpoints *checkpoints, uint64_t step,
                               const psr_checkpoint_evaluation *means);

/* OK: the checkpoint is complete, or in place already. PROTOCOL: it lacks pieces; the detail names
 * a section. */
PSR_MUST_CHECK psr_err psr_checkpoints_whole(const psr_checkpoints *checkpoints, uint64_t step);

/* The step of a checkpoint that has just got into place. NOT_FOUND: there is none. Otherwise why
 * one could not be written. */
PSR_MUST_CHECK psr_err psr_checkpoints_take(psr_checkpoints *checkpoints, uint64_t *ret_step);

/* How the disk progresses. */
typedef struct psr_checkpoints_pace {
    uint64_t step;    /* the oldest checkpoint with something to write */
    double written;   /* the written share of it, 0 to 1; 1: only flushing is left */
    int64_t busy_ms;  /* how long the disk has been at work on it, without waiting for pieces */
    int64_t moved_ms; /* when the disk last finished something, or got something to do */
} psr_checkpoints_pace;

/* false: there is nothing to write. */
bool psr_checkpoints_writing(psr_checkpoints *checkpoints, psr_checkpoints_pace *ret_pace);

#endif
