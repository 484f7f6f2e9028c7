#include "tests/unit/played_fence.h"

static psr_err has_passed(psr_fence *fence, bool *ret_passed)
{
    played_fence *f = (played_fence *)fence;
    pthread_mutex_lock(&f->mutex);
    bool failed = f->failed;
    *ret_passed = f->passed;
    pthread_mutex_unlock(&f->mutex);
    return failed ? psr_fail(PSR_ERR_COMPUTE, "the device is gone") : PSR_OK;
}

/* Within the call when it has happened already, as any device may. */
static void tell(psr_fence *fence, void (*told)(void *context), void *context)
{
    played_fence *f = (played_fence *)fence;
    pthread_mutex_lock(&f->mutex);
    bool now = f->passed || f->failed;
    if (!now) {
        f->told = told;
        f->context = context;
    }
    pthread_mutex_unlock(&f->mutex);
    if (now)
        told(context);
}

static const psr_fence_ops played_ops = {has_passed, tell};

static void happen(played_fence *f, bool failed)
{
    pthread_mutex_lock(&f->mutex);
    f->passed = !failed;
    f->failed = failed;
    void (*told)(void *context) = f->told, *context = f->context;
    f->told = NULL;
    pthread_mutex_unlock(&f->mutex);
    if (told != NULL)
        told(context);
}

void played_fence_init(played_fence *fence)
{
    *fence = (played_fence){.fence = {&played_ops}};
    pthread_mutex_init(&fence->mutex, NULL);
}

void played_fence_pass(played_fence *fence)
{
    happen(fence, false);
}

void played_fence_fail(played_fence *fence)
{
    happen(fence, true);
}
