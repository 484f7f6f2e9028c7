/* A recorded training step: how long each tensor's forward and backward pass took. A back end plays
 * it (played.c), `psring train --record` writes it, and other programs can: docs/lab.md has the
 * format.
 *
 * forward_s is the time from the moment that the tensor's weights were there until the layers that
 * begin with it, up to the next tensor's, were computed; backward_s the time until its gradient
 * was, from the moment that the tensor behind it had its own. Waiting is in neither. Plain data;
 * one thread. */
#ifndef PSR_MODEL_PLAYED_PROFILE_H
#define PSR_MODEL_PLAYED_PROFILE_H

#include "model/layout.h"

#define PSR_PROFILE_FORMAT "psring profile 1"
#define PSR_PROFILE_TEXT_BYTES 256

typedef struct psr_profile_tensor {
    char name[PSR_TENSOR_NAME_MAX];
    uint64_t bytes; /* of float32 */
    double forward_s, backward_s;
} psr_profile_tensor;

typedef struct psr_profile {
    char network[32];
    char machine[PSR_PROFILE_TEXT_BYTES]; /* for a person: what computed, and where */
    uint32_t batch;                       /* samples */
    uint32_t threads;
    double rest_s;               /* after the last gradient, until the next step could begin */
    psr_profile_tensor *tensors; /* in the order of the forward pass; owned */
    size_t count;
} psr_profile;

/* NOT_FOUND, IO; FORMAT: "FILE: what is wrong", also for a time that is negative or above an hour.
 * The caller owns *ret_profile: psr_profile_done. */
PSR_MUST_CHECK psr_err psr_profile_read(const char *path, psr_profile *ret_profile);
/* Writes it beside and renames. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_profile_write(const char *path, const psr_profile *profile);
void psr_profile_done(psr_profile *profile);

/* What `bytes` of a profile says of that tensor. */
uint64_t psr_profile_tensor_bytes(const psr_tensor *tensor);

/* MISMATCH: it is not of these parameters: another name, number or size. path is for the
 * message. */
PSR_MUST_CHECK psr_err psr_profile_fits(const psr_profile *profile, const char *path,
                                        const psr_layout *params);

double psr_profile_step_s(const psr_profile *profile); /* all of its times */

#endif
