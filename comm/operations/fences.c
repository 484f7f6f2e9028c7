#include "comm/operations/fences.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* What fences call. It lives until the last of them has called, since a fence may pass after its
 * psr_fences was freed. */
typedef struct bell {
    pthread_mutex_t mutex;
    uint32_t holders;            /* the psr_fences, and fences that have not passed yet */
    void (*wake)(void *context); /* NULL: stopped */
    void *context;
} bell;

typedef struct waiting_start {
    psr_fence *fence; /* NULL: none waits */
    uint64_t round;
} waiting_start;

struct psr_fences {
    psr_fences_options options;
    bell *bell;
    uint32_t count; /* of slots that wait */
    waiting_start slots[];
};

/* ---- the bell ---- */

static void bell_release(bell *b)
{
    pthread_mutex_lock(&b->mutex);
    bool last = --b->holders == 0;
    pthread_mutex_unlock(&b->mutex);
    if (!last)
        return;
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

static void bell_rings(void *context)
{
    bell *b = context;
    pthread_mutex_lock(&b->mutex);
    if (b->wake != NULL)
        b->wake(b->context);
    pthread_mutex_unlock(&b->mutex);
    bell_release(b);
}

static void hold_bell(bell *b)
{
    pthread_mutex_lock(&b->mutex);
    b->holders++;
    pthread_mutex_unlock(&b->mutex);
}

/* ---- life ---- */

psr_err psr_fences_new(const psr_fences_options *options, psr_fences **ret_fences)
{
    psr_fences *fences = calloc(1, sizeof *fences + options->slots * sizeof fences->slots[0]);
    bell *b = malloc(sizeof *b);
    if (fences == NULL || b == NULL) {
        free(fences);
        free(b);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the fences of %u buffers", options->slots);
    }
    *b = (bell){.holders = 1, .wake = options->wake, .context = options->context};
    pthread_mutex_init(&b->mutex, NULL);
    fences->options = *options;
    fences->bell = b;
    *ret_fences = fences;
    return PSR_OK;
}

void psr_fences_stop(psr_fences *fences)
{
    if (fences == NULL)
        return;
    pthread_mutex_lock(&fences->bell->mutex);
    fences->bell->wake = NULL;
    pthread_mutex_unlock(&fences->bell->mutex);
}

void psr_fences_free(psr_fences *fences)
{
    if (fences == NULL)
        return;
    psr_fences_stop(fences);
    bell_release(fences->bell);
    free(fences);
}

/* ---- starts ---- */

psr_err psr_fences_start(psr_fences *fences, uint32_t slot, uint64_t round, psr_fence *fence)
{
    bool passed = true;
    PSR_TRY(psr_fence_passed(fence, &passed));
    if (passed)
        return fences->options.start(fences->options.context, slot, round);
    assert(slot < fences->options.slots && fences->slots[slot].fence == NULL);
    fences->slots[slot] = (waiting_start){fence, round};
    fences->count++;
    hold_bell(fences->bell);
    psr_fence_tell(fence, bell_rings, fences->bell);
    return PSR_OK;
}

psr_err psr_fences_look(psr_fences *fences)
{
    for (uint32_t slot = 0; fences->count > 0 && slot < fences->options.slots; slot++) {
        const waiting_start waiting = fences->slots[slot];
        bool passed = false;
        if (waiting.fence == NULL)
            continue;
        PSR_TRY(psr_fence_passed(waiting.fence, &passed));
        if (!passed)
            continue;
        fences->slots[slot].fence = NULL;
        fences->count--;
        PSR_TRY(fences->options.start(fences->options.context, slot, waiting.round));
    }
    return PSR_OK;
}

bool psr_fences_waits(const psr_fences *fences, uint64_t *ret_round, uint32_t *ret_slot)
{
    const waiting_start *oldest = NULL;
    for (uint32_t slot = 0; fences->count > 0 && slot < fences->options.slots; slot++) {
        const waiting_start *waiting = &fences->slots[slot];
        if (waiting->fence != NULL && (oldest == NULL || waiting->round < oldest->round)) {
            oldest = waiting;
            *ret_round = waiting->round;
            *ret_slot = slot;
        }
    }
    return oldest != NULL;
}
