/* The run directory's checkpoints/: puts together the pieces that workers and shards send, and
 * renames each checkpoint into place as one (ps/scheduler/checkpoints/checkpoint_files.h).
 *
 * All that the disk does happens on a thread of this one's own, so that the scheduler answers
 * however slow the disk is. What has come and is not written waits in memory: two checkpoints at
 * most, since a worker sends nothing of one before the one before it is in place (SAVED,
 * docs/wire.md). The calls are for one thread, the one that made it. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINTS_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_CHECKPOINTS_H

#include "ps/scheduler/checkpoints/sections.h"

typedef struct psr_checkpoints psr_checkpoints;

typedef struct psr_checkpoints_options {
    const char *directory; /* .../checkpoints, which exists; copied */
    const psr_config *config;
    const psr_sections *sections; /* borrowed for life */
    void (*wake)(void *context);  /* called on the writing thread:
                                     psr_checkpoints_take has something */
    void *context;
} psr_checkpoints_options;

/* ret owns. */
PSR_MUST_CHECK psr_err psr_checkpoints_new(const psr_checkpoints_options *options,
                                           psr_checkpoints **ret_checkpoints);
/* Gives what is whole a second to get into place; removes what is not. When the disk does not even
 * let go of the thread, which a process's end then will, it leaves all as it is. NULL allowed. */
void psr_checkpoints_free(psr_checkpoints *checkpoints);

/* A piece, which is copied: count floats at offset of a section's array after `step` steps.
 * PROTOCOL when it does not fit or comes twice; NOMEM. */
PSR_MUST_CHECK psr_err psr_checkpoints_put(psr_checkpoints *checkpoints, uint64_t step,
                                           uint32_t section, const float *data, size_t offset,
                                           size_t count);

/* PROTOCOL when that checkpoint lacks pieces, naming a section; OK when it is whole or in place
 * already. */
PSR_MUST_CHECK psr_err psr_checkpoints_whole(const psr_checkpoints *checkpoints, uint64_t step);

/* A checkpoint that is in place now: its step. NOT_FOUND when there is no news; otherwise why one
 * could not be written. */
PSR_MUST_CHECK psr_err psr_checkpoints_take(psr_checkpoints *checkpoints, uint64_t *ret_step);

/* How the disk is doing. */
typedef struct psr_checkpoints_pace {
    uint64_t step;    /* of the oldest checkpoint with something to write */
    double written;   /* of it, 0 to 1; 1: what is left is to flush it */
    int64_t busy_ms;  /* that the disk has been at work on it: not while it waited for pieces */
    int64_t moved_ms; /* when the disk last took or gave something, or got something to do */
} psr_checkpoints_pace;

/* false: there is nothing to write. */
bool psr_checkpoints_writing(psr_checkpoints *checkpoints, psr_checkpoints_pace *ret_pace);

#endif
