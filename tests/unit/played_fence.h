/* A fence (base/arrays/fence.h) that passes or fails when a test says so. One asker at a time. */
#ifndef PSR_TESTS_PLAYED_FENCE_H
#define PSR_TESTS_PLAYED_FENCE_H

#include "base/arrays/fence.h"

#include <pthread.h>

typedef struct played_fence {
    psr_fence fence;
    pthread_mutex_t mutex;
    bool passed, failed;
    void (*told)(void *context); /* NULL: nobody has asked */
    void *context;
} played_fence;

/* It has not passed. Also for the next round of one that nobody asks any more. */
void played_fence_init(played_fence *fence);
/* Any thread. */
void played_fence_pass(played_fence *fence);
void played_fence_fail(played_fence *fence); /* "the device is gone" */

#endif
