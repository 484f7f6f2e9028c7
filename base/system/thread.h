/* Starts threads for libraries. They have a name and block all signals, which are for the program's
 * own threads. */
#ifndef PSR_BASE_SYSTEM_THREAD_H
#define PSR_BASE_SYSTEM_THREAD_H

#include "base/err.h"

#include <pthread.h>

/* name: at most 15 characters. Join with pthread_join. IO: the system refused. */
PSR_MUST_CHECK psr_err psr_thread_start(const char *name, void *(*run)(void *), void *argument,
                                        pthread_t *ret_thread);

#endif
