#include "net/sharing/stage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    psr_stage *stage;
    struct slot *next_free;
} slot;

struct psr_stage {
    psr_shared_arena arena;
    slot slots[PSR_STAGE_SLOTS];
    slot *first_free; /* the slot that came back last */
    uint32_t lent;
};

psr_err psr_stage_new(psr_stage **ret_stage)
{
    psr_stage *stage = calloc(1, sizeof *stage);
    if (stage == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    psr_err err =
        psr_shared_arena_new(PSR_STAGE_SLOTS * PSR_STAGE_SLOT_BYTES / sizeof(float), &stage->arena);
    if (err != PSR_OK) {
        free(stage);
        return err;
    }
    for (uint32_t i = PSR_STAGE_SLOTS; i-- > 0;) {
        stage->slots[i] = (slot){stage, stage->first_free};
        stage->first_free = &stage->slots[i];
    }
    *ret_stage = stage;
    return PSR_OK;
}

void psr_stage_free(psr_stage *stage)
{
    if (stage == NULL)
        return;
    assert(stage->lent == 0);
    psr_shared_arena_done(&stage->arena);
    free(stage);
}

const psr_shared_arena *psr_stage_arena(const psr_stage *stage)
{
    return &stage->arena;
}

static void come_back(void *context)
{
    slot *s = context;
    s->next_free = s->stage->first_free;
    s->stage->first_free = s;
    s->stage->lent--;
}

bool psr_stage_put(psr_stage *stage, const psr_payload *payload, psr_payload *ret_staged)
{
    slot *s = stage->first_free;
    if (s == NULL || payload->bytes > PSR_STAGE_SLOT_BYTES)
        return false;
    stage->first_free = s->next_free;
    stage->lent++;
    uint8_t *to =
        (uint8_t *)stage->arena.values + (size_t)(s - stage->slots) * PSR_STAGE_SLOT_BYTES;
    memcpy(to, payload->data, payload->bytes);
    *ret_staged = (psr_payload){to, payload->bytes, come_back, s};
    return true;
}
