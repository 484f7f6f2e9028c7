#include "net/sharing/pipes_in.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct pipe_in {
    psr_pipe_reader reader; /* ring NULL: it was removed */
    uint8_t id[PSR_ROUTING_ID_BYTES];
    _Atomic bool held_up;
} pipe_in;

struct psr_pipes_in {
    psr_shared_arena memory;
    psr_board *board;     /* in memory */
    uint32_t count, live; /* places that were given; pipes that are read */
    uint32_t turn;        /* the place that is looked at next */
    bool any_held_up;
    uint64_t sleeps; /* numbers of sleeps that were given; protected by mutex */
    unsigned sleepers;
    pthread_mutex_t mutex; /* protects pipes against threads that go to sleep */
    pipe_in pipes[PSR_PIPES_MAX];
};

psr_err psr_pipes_in_new(psr_pipes_in **ret_pipes)
{
    psr_pipes_in *pipes = calloc(1, sizeof *pipes);
    if (pipes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    const psr_err err = psr_shared_arena_new(sizeof(psr_board) / sizeof(float), &pipes->memory);
    if (err != PSR_OK) {
        free(pipes);
        return err;
    }
    pipes->board = (psr_board *)(void *)pipes->memory.values;
    pthread_mutex_init(&pipes->mutex, NULL);
    *ret_pipes = pipes;
    return PSR_OK;
}

void psr_pipes_in_free(psr_pipes_in *pipes)
{
    if (pipes == NULL)
        return;
    psr_shared_arena_done(&pipes->memory);
    pthread_mutex_destroy(&pipes->mutex);
    free(pipes);
}

const psr_shared_arena *psr_pipes_in_board(const psr_pipes_in *pipes)
{
    return &pipes->memory;
}

psr_err psr_pipes_in_add(psr_pipes_in *pipes, const uint8_t *ring,
                         const uint8_t id[PSR_ROUTING_ID_BYTES], uint32_t *ret_place)
{
    if (pipes->count == PSR_PIPES_MAX)
        return psr_fail(PSR_ERR_NOMEM, "%d pipes were read already", PSR_PIPES_MAX);
    const uint32_t place = pipes->count;
    pthread_mutex_lock(&pipes->mutex);
    pipe_in *pipe = &pipes->pipes[place];
    pipe->reader = (psr_pipe_reader){ring, &pipes->board->places[place]};
    memcpy(pipe->id, id, sizeof pipe->id);
    pipes->count++;
    pipes->live++;
    pthread_mutex_unlock(&pipes->mutex);
    *ret_place = place;
    return PSR_OK;
}

void psr_pipes_in_remove(psr_pipes_in *pipes, uint32_t place)
{
    pthread_mutex_lock(&pipes->mutex);
    pipes->pipes[place].reader.ring = NULL;
    pipes->live--;
    pthread_mutex_unlock(&pipes->mutex);
}

/* ---- reading ---- */

static psr_pipe_look_result look_at(pipe_in *pipe, uint32_t place, psr_piped *ret_piped)
{
    psr_pipe_record record;
    const psr_pipe_look_result result = psr_pipe_look(&pipe->reader, &record);
    if (result == PSR_PIPE_EMPTY)
        return result;
    ret_piped->place = place;
    memcpy(ret_piped->id, pipe->id, sizeof pipe->id);
    if (result == PSR_PIPE_RECORD)
        ret_piped->record = record;
    return result;
}

static bool is_held_up(const pipe_in *pipe)
{
    return atomic_load_explicit(&pipe->held_up, memory_order_relaxed);
}

psr_pipe_look_result psr_pipes_in_look(psr_pipes_in *pipes, psr_piped *ret_piped)
{
    for (uint32_t i = 0; i < pipes->count; i++) {
        const uint32_t place = pipes->turn;
        pipe_in *pipe = &pipes->pipes[place];
        pipes->turn = place + 1 < pipes->count ? place + 1 : 0;
        if (pipe->reader.ring == NULL || is_held_up(pipe))
            continue;
        const psr_pipe_look_result result = look_at(pipe, place, ret_piped);
        if (result != PSR_PIPE_EMPTY)
            return result;
    }
    return PSR_PIPE_EMPTY;
}

psr_pipe_look_result psr_pipes_in_look_at(psr_pipes_in *pipes,
                                          const uint8_t id[PSR_ROUTING_ID_BYTES],
                                          psr_piped *ret_piped)
{
    for (uint32_t place = 0; place < pipes->count; place++) {
        pipe_in *pipe = &pipes->pipes[place];
        if (pipe->reader.ring != NULL && memcmp(pipe->id, id, sizeof pipe->id) == 0)
            return look_at(pipe, place, ret_piped);
    }
    return PSR_PIPE_EMPTY;
}

void psr_pipes_in_next(psr_pipes_in *pipes, const psr_piped *piped)
{
    psr_pipe_next(&pipes->pipes[piped->place].reader, &piped->record);
}

void psr_pipes_in_hold_up(psr_pipes_in *pipes, uint32_t place)
{
    atomic_store_explicit(&pipes->pipes[place].held_up, true, memory_order_relaxed);
    pipes->any_held_up = true;
}

void psr_pipes_in_go_on(psr_pipes_in *pipes)
{
    if (!pipes->any_held_up)
        return;
    for (uint32_t place = 0; place < pipes->count; place++)
        atomic_store_explicit(&pipes->pipes[place].held_up, false, memory_order_relaxed);
    pipes->any_held_up = false;
}

bool psr_pipes_in_are(const psr_pipes_in *pipes)
{
    return pipes->live > 0;
}

bool psr_pipes_in_any(const psr_pipes_in *pipes)
{
    for (uint32_t place = 0; place < pipes->count; place++) {
        const pipe_in *pipe = &pipes->pipes[place];
        if (pipe->reader.ring != NULL && !is_held_up(pipe) && psr_pipe_any(&pipe->reader))
            return true;
    }
    return false;
}

/* ---- sleeping ---- */

/* The fence pairs with that of a writer (psr_pipe_must_wake). */
static void number_sleep(psr_pipes_in *pipes)
{
    atomic_store_explicit(&pipes->board->asleep, ++pipes->sleeps, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void psr_pipes_in_woken(psr_pipes_in *pipes)
{
    pthread_mutex_lock(&pipes->mutex);
    if (pipes->sleepers > 0)
        number_sleep(pipes);
    pthread_mutex_unlock(&pipes->mutex);
}

bool psr_pipes_in_sleep(psr_pipes_in *pipes)
{
    pthread_mutex_lock(&pipes->mutex);
    pipes->sleepers++;
    number_sleep(pipes);
    const bool any = psr_pipes_in_any(pipes);
    pthread_mutex_unlock(&pipes->mutex);
    return !any;
}

void psr_pipes_in_awake(psr_pipes_in *pipes)
{
    pthread_mutex_lock(&pipes->mutex);
    if (--pipes->sleepers == 0)
        atomic_store_explicit(&pipes->board->asleep, 0, memory_order_relaxed);
    pthread_mutex_unlock(&pipes->mutex);
}
