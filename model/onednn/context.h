/* The context that all executables of a back end share: oneDNN's engine and stream, the compute
 * type, the threads. */
#ifndef PSR_MODEL_ONEDNN_CONTEXT_H
#define PSR_MODEL_ONEDNN_CONTEXT_H

#include "model/onednn/private.h"

/* The caller owns *ret_context: psr_onednn_context_close. threads: 1 or more. UNSUPPORTED: this
 * processor or library has no training in the precision; COMPUTE. */
PSR_MUST_CHECK psr_err psr_onednn_context_open(psr_precision precision, uint32_t threads,
                                               psr_onednn_context *ret_context);
void psr_onednn_context_close(psr_onednn_context *context);

/* Sets libgomp's number of threads. libgomp keeps it per calling thread, so every entry of the back
 * end calls this. One thread. */
void psr_onednn_threads_set(const psr_onednn_context *context);

#endif
