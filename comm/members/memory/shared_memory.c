#include "comm/members/memory/shared_memory.h"

#include "comm/wire/encoding.h"

#include <assert.h>
#include <stdio.h>

/* A warning if sharing was asked for by name; otherwise the run chooses, and it is only
 * information. */
static void say(void *context, bool shared, const char *line)
{
    const psr_shared_memory *memory = context;
    memory->say(memory->asked && !shared, line);
}

static void say_none(psr_shared_memory *memory)
{
    char line[1024];
    snprintf(line, sizeof line, "shares no memory, so values go as messages: %s", psr_err_detail());
    say(memory, false, line);
}

void psr_shared_memory_begin(psr_shared_memory *memory, psr_transport *transport, bool asked,
                             void (*user_say)(bool warning, const char *line))
{
    memory->asked = asked;
    memory->say = user_say;
    psr_err err = psr_transport_share(transport, say, memory);
    if (err == PSR_OK)
        memory->transport = transport;
    else
        say_none(memory);
}

float *psr_shared_memory_arena(psr_shared_memory *memory, size_t count)
{
    assert(memory->arena_count < PSR_SHARED_MEMORY_ARENAS);
    if (memory->transport == NULL)
        return NULL;
    psr_shared_arena *arena = &memory->arenas[memory->arena_count];
    psr_err err = psr_shared_arena_new(count, arena);
    if (err == PSR_OK) {
        memory->arena_count++;
        err = psr_transport_lend_from(memory->transport, arena);
    }
    if (err != PSR_OK)
        say_none(memory);
    return arena->values;
}

static psr_shared_arena *arena_of(psr_shared_memory *memory, const float *values)
{
    for (uint32_t i = 0; i < memory->arena_count; i++)
        if (values != NULL && memory->arenas[i].values == values)
            return &memory->arenas[i];
    return NULL;
}

psr_err psr_shared_memory_keep(psr_shared_memory *memory, const float *values, psr_span run)
{
    psr_shared_arena *arena = arena_of(memory, values);
    return arena != NULL ? psr_shared_arena_keep(arena, run) : PSR_OK;
}

psr_err psr_shared_memory_own(psr_shared_memory *memory, const float *values)
{
    psr_shared_arena *arena = arena_of(memory, values);
    return arena != NULL ? psr_shared_arena_own(arena) : PSR_OK;
}

void psr_shared_memory_fill(psr_shared_memory *memory, const float *values, psr_span run)
{
    const psr_shared_arena *arena = arena_of(memory, values);
    if (arena != NULL)
        psr_shared_arena_fill(arena, run);
}

void psr_shared_memory_fill_held(psr_shared_memory *memory, const float *values,
                                 const psr_plan *plan, psr_peer self)
{
    psr_span run;
    for (uint32_t b = plan->bucket_count;
         (run = psr_plan_next_run(plan, self, true, &b)).count > 0;)
        psr_shared_memory_fill(memory, values, run);
}

size_t psr_kept_pieces(size_t floats)
{
    const size_t most = psr_encoding_values_max(PSR_ENCODING_FLOAT32);
    return floats / most + (floats % most * sizeof(float) >= PSR_KEPT_PIECE_BYTES_MIN);
}

void psr_shared_memory_blocks(psr_shared_memory *memory, psr_blocks *blocks, size_t count,
                              bool backed)
{
    const size_t bytes = psr_blocks_bytes(blocks, count);
    float *values =
        count > 0 ? psr_shared_memory_arena(memory, (bytes + sizeof(float) - 1) / sizeof(float))
                  : NULL;
    if (values == NULL)
        return;
    if (backed) {
        psr_err err = psr_shared_arena_back(arena_of(memory, values));
        (void)err; /* it takes memory as it is used */
    }
    psr_blocks_lend(blocks, values, bytes);
}

void psr_shared_memory_done(psr_shared_memory *memory)
{
    for (uint32_t i = 0; i < memory->arena_count; i++)
        psr_shared_arena_done(&memory->arenas[i]);
}
