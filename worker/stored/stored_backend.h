/* A back end that evaluates a stored model, as its run did. One thread. */
#ifndef PSR_WORKER_STORED_STORED_BACKEND_H
#define PSR_WORKER_STORED_STORED_BACKEND_H

#include "model/backend.h"
#include "model/checkpoint/stored.h"

/* For up to max_batch samples at once. model: borrowed for the back end's life. buckets: zeros;
 * they are planned here, and the caller's to end (psr_buckets_done), after a failure too and after
 * the back end. Fails as psr_buckets_plan and psr_backend_new do. The caller owns *ret_backend:
 * psr_backend_free. */
PSR_MUST_CHECK psr_err psr_stored_backend(const psr_stored_model *model, uint32_t max_batch,
                                          uint32_t threads, psr_buckets *buckets,
                                          psr_backend **ret_backend);

#endif
