/* A fence: the point at which a device has written a buffer. Nobody reads the buffer before its
 * fence has passed.
 *
 * A back end that computes on a device reports a gradient when the work that writes it has been
 * ordered, and hands over a fence that passes when the work is done. A back end that computes on
 * this processor hands over NULL: the values are there.
 *
 * The back end owns the fence. It keeps it alive until it has called what psr_fence_tell was given,
 * and until the buffer may be written again or the exchange has ended. Any thread calls both
 * functions. */
#ifndef PSR_BASE_FENCE_H
#define PSR_BASE_FENCE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct psr_fence psr_fence;

typedef struct psr_fence_ops {
    psr_err (*passed)(psr_fence *fence, bool *ret_passed);
    void (*tell)(psr_fence *fence, void (*told)(void *context), void *context);
} psr_fence_ops;

/* The beginning of every fence. */
struct psr_fence {
    const psr_fence_ops *ops;
};

/* Whether the buffer may be read now. NULL has passed. COMPUTE: the device has failed, and the
 * fence will never pass. */
PSR_MUST_CHECK static inline psr_err psr_fence_passed(psr_fence *fence, bool *ret_passed)
{
    if (fence != NULL)
        return fence->ops->passed(fence, ret_passed);
    *ret_passed = true;
    return PSR_OK;
}

/* Calls told(context) exactly once: when the fence has passed, when its device has failed, or when
 * the back end ends. The call comes on any thread, and may come before this returns. */
static inline void psr_fence_tell(psr_fence *fence, void (*told)(void *context), void *context)
{
    fence->ops->tell(fence, told, context);
}

#endif
