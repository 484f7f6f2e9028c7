/* Memory of the program's. What is shared is an arena from which the transport lends, as training's
 * arenas are (net/sharing/shared_arena.h). */
#include "comm/psring/internal.h"

#include "base/arrays/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

struct psr_memory {
    psr_memory *next; /* of the communicator's */
    size_t count;     /* floats */
    float *own;       /* NULL: it is shared */
    psr_driver_arena shared;
    bool freed; /* by the program, and the transport keeps it */
};

static const void *data_of(const psr_memory *m)
{
    return m->own != NULL ? m->own : m->shared.arena.values;
}

static void free_memory(psr_memory *m)
{
    psr_arena_free(m->own, m->count);
    psr_shared_arena_done(&m->shared.arena);
    free(m);
}

static size_t shared_count(const psring_comm *comm)
{
    size_t count = 0;
    for (const psr_memory *m = comm->memories; m != NULL; m = m->next)
        count += m->own == NULL;
    return count;
}

/* ---- making ---- */

/* A child that wrote it would change what other ranks add up. */
static void keep_from_children(const psr_shared_arena *arena)
{
    (void)madvise(arena->values, arena->bytes, MADV_DONTFORK);
}

static psr_err share(psring_comm *comm, psr_memory *m)
{
    if (shared_count(comm) == PSRING_SHARED_MEMORIES_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "psring_memory_new: there are %d pieces of shared memory already: make "
                        "fewer that are larger",
                        PSRING_SHARED_MEMORIES_MAX);
    PSR_TRY(psr_shared_arena_new(m->count, &m->shared.arena));
    PSR_TRY(psr_shared_arena_back(&m->shared.arena));
    keep_from_children(&m->shared.arena);
    return psr_driver_lend_from(comm->driver, &m->shared);
}

/* Where the system has no memory that can be shared it is ordinary memory. */
static psr_err fill_in(psring_comm *comm, psring_space space, psr_memory *m)
{
    psr_err err =
        space == PSRING_SHARED && comm->shares_memory ? share(comm, m) : PSR_ERR_UNSUPPORTED;
    return err == PSR_ERR_UNSUPPORTED ? psr_arena_new(m->count, &m->own) : err;
}

static psr_err make(psring_comm *comm, psring_space space, size_t bytes, void **ret_memory)
{
    const size_t count = bytes / sizeof(float) + (bytes % sizeof(float) > 0);
    if (space != PSRING_HOST && space != PSRING_SHARED)
        return psr_fail(PSR_ERR_USAGE, "psring_memory_new: there is no space %d", (int)space);
    if (bytes == 0)
        return psr_fail(PSR_ERR_USAGE, "psring_memory_new: bytes is 0");
    psr_memory *m = psr_arena_fits(count) ? calloc(1, sizeof *m) : NULL;
    if (m == NULL)
        return psr_fail(PSR_ERR_NOMEM, "psring_memory_new: no memory for %zu bytes", bytes);
    m->count = count;
    m->shared.arena = PSR_SHARED_ARENA_NONE;
    psr_err err = fill_in(comm, space, m);
    if (err != PSR_OK) {
        free_memory(m);
        return err;
    }
    m->next = comm->memories;
    comm->memories = m;
    *ret_memory = (void *)(uintptr_t)data_of(m);
    return PSR_OK;
}

psring_err psring_memory_new(psring_comm *comm, psring_space space, size_t bytes, void **ret_memory)
{
    psr_err err = psr_comm_need(comm, "comm");
    if (err == PSR_OK)
        err = psr_comm_need(ret_memory, "ret_memory");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, make(comm, space, bytes, ret_memory))
                         : (psring_err)err;
}

/* ---- freeing ---- */

static bool is_used_by(const psr_memory *m, const psring_request *r)
{
    return r->request != NULL && (r->persistent || !psr_node_request_ended(r->request)) &&
           psr_node_request_uses(r->request, data_of(m), m->count * sizeof(float));
}

static bool is_used(const psring_comm *comm, const psr_memory *m)
{
    for (const psring_group *g = &comm->world; g != NULL;
         g = g == &comm->world ? comm->groups : g->next)
        for (const psring_request *r = g->requests; r != NULL; r = r->next)
            if (is_used_by(m, r))
                return true;
    return false;
}

/* Where what points to it stands. NULL: there is none. */
static psr_memory **find(psring_comm *comm, const void *data)
{
    psr_memory **at = &comm->memories;
    while (*at != NULL && (data_of(*at) != data || (*at)->freed))
        at = &(*at)->next;
    return *at != NULL ? at : NULL;
}

static psr_err release(psring_comm *comm, void **memory)
{
    psr_memory **at = find(comm, *memory);
    if (at == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_memory_free: no memory begins there");
    psr_memory *m = *at;
    if (is_used(comm, m))
        return psr_fail(PSR_ERR_BUSY, "psring_memory_free: a request uses the memory");
    *memory = NULL;
    m->freed = true;
    if (m->own == NULL && !psr_driver_lend_no_more(comm->driver, &m->shared))
        return PSR_OK;
    for (at = &comm->memories; *at != m; at = &(*at)->next)
        ; /* others were made and freed during the wait */
    *at = m->next;
    free_memory(m);
    return PSR_OK;
}

psring_err psring_memory_free(psring_comm *comm, void **memory)
{
    if (memory == NULL || *memory == NULL)
        return PSRING_OK;
    psr_err err = psr_comm_need(comm, "comm");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, release(comm, memory)) : (psring_err)err;
}

void psr_comm_withdraw_memories(psring_comm *comm)
{
    for (psr_memory *m = comm->memories; m != NULL; m = m->next)
        if (m->own == NULL && !psr_driver_lend_no_more(comm->driver, &m->shared))
            return;
}

void psr_comm_free_memories(psring_comm *comm)
{
    for (psr_memory *m = comm->memories, *next; m != NULL; m = next) {
        next = m->next;
        free_memory(m);
    }
    comm->memories = NULL;
}
