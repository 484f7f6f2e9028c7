/* The run directory's checkpoints/: puts together the pieces that workers and shards send, and renames each
 * checkpoint into place as one, checkpoints/.step-N.part to checkpoints/step-N.
 *
 * Flushing to the disk may take seconds and happens on a thread of its own, so that the scheduler keeps
 * answering; the rest is for one thread, the one that made it. */
#ifndef PSR_PS_CHECKPOINTS_H
#define PSR_PS_CHECKPOINTS_H

#include "ps/sections.h"

typedef struct psr_checkpoints psr_checkpoints;

typedef struct psr_checkpoints_options {
    const char *directory; /* .../checkpoints, which exists; copied */
    const psr_config *config;
    const psr_sections *sections; /* borrowed for life */
    void (*wake)(void *context);  /* called on the flushing thread: psr_checkpoints_take has something */
    void *context;
} psr_checkpoints_options;

/* ret owns. */
PSR_MUST_CHECK psr_err psr_checkpoints_new(const psr_checkpoints_options *options,
                                           psr_checkpoints **ret_checkpoints);
/* Waits for what is being flushed; removes what is not whole. NULL allowed. */
void psr_checkpoints_free(psr_checkpoints *checkpoints);

/* A piece: count floats at offset of a section's array after `step` steps. PROTOCOL when it does not fit or
 * comes twice; IO. */
PSR_MUST_CHECK psr_err psr_checkpoints_put(psr_checkpoints *checkpoints, uint64_t step, uint32_t section,
                                           const float *data, size_t offset, size_t count);

/* PROTOCOL when that checkpoint lacks pieces, naming a section; OK when it is whole or in place already. */
PSR_MUST_CHECK psr_err psr_checkpoints_whole(const psr_checkpoints *checkpoints, uint64_t step);

/* A checkpoint that is in place now: its step. NOT_FOUND when there is no news; otherwise why one could not
 * be written. */
PSR_MUST_CHECK psr_err psr_checkpoints_take(psr_checkpoints *checkpoints, uint64_t *ret_step);

#endif
