#include "comm/command_queue.h"

#include "base/arrays/blocks.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct ring {
    /* The counts of commands that were ever written and read; a slot is the low bits of a count.
     * Each is on a cache line of its own, so that one side's progress does not slow the other. */
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) uint64_t mask;
    /* once it is set, nothing more is written to this ring. NULL: none */
    _Atomic(struct ring *) next;
    psr_command slots[];
} ring;

struct psr_command_queue {
    bool grows;
    ring *producers; /* the ring that is written */
    ring *consumers; /* the ring that is read */
};

static ring *ring_new(uint64_t slots)
{
    size_t bytes = sizeof(ring) + slots * sizeof(psr_command);
    ring *r = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (r == NULL)
        return NULL;
    atomic_init(&r->written, 0);
    atomic_init(&r->read, 0);
    atomic_init(&r->next, NULL);
    r->mask = slots - 1;
    return r;
}

psr_err psr_command_queue_new(uint32_t capacity, psr_command_queue **ret_queue)
{
    uint64_t slots = 16;
    while (slots < capacity)
        slots *= 2;
    psr_command_queue *queue = malloc(sizeof *queue);
    ring *first = ring_new(slots);
    if (queue == NULL || first == NULL) {
        free(queue);
        free(first);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a queue of %llu commands",
                        (unsigned long long)slots);
    }
    *queue = (psr_command_queue){capacity == 0, first, first};
    *ret_queue = queue;
    return PSR_OK;
}

void psr_outgoing_free(void *message)
{
    psr_outgoing *gone = message;
    if (gone != NULL && gone->is_block)
        psr_blocks_give(gone);
    else
        free(gone);
}

void psr_command_queue_free(psr_command_queue *queue)
{
    if (queue == NULL)
        return;
    psr_command command;
    while (psr_command_pop(queue, &command)) {
        if (command.kind == PSR_COMMAND_SEND)
            psr_outgoing_free(command.object);
    }
    free(queue->consumers);
    free(queue);
}

static bool ring_has_room(const ring *r)
{
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    return written - atomic_load_explicit(&r->read, memory_order_acquire) <= r->mask;
}

static void ring_push(ring *r, const psr_command *command)
{
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    r->slots[written & r->mask] = *command;
    atomic_store_explicit(&r->written, written + 1, memory_order_release);
}

static bool ring_pop(ring *r, psr_command *ret_command)
{
    uint64_t read = atomic_load_explicit(&r->read, memory_order_relaxed);
    if (read == atomic_load_explicit(&r->written, memory_order_acquire))
        return false;
    *ret_command = r->slots[read & r->mask];
    atomic_store_explicit(&r->read, read + 1, memory_order_release);
    return true;
}

bool psr_command_room(const psr_command_queue *queue)
{
    return queue->grows || ring_has_room(queue->producers);
}

bool psr_command_push(psr_command_queue *queue, const psr_command *command)
{
    ring *r = queue->producers;
    if (ring_has_room(r)) {
        ring_push(r, command);
        return true;
    }
    ring *larger = queue->grows ? ring_new(2 * (r->mask + 1)) : NULL;
    if (larger == NULL)
        return false;
    ring_push(larger, command);
    queue->producers = larger;
    atomic_store_explicit(&r->next, larger,
                          memory_order_release); /* the consumer may free r from here on */
    return true;
}

bool psr_command_pop(psr_command_queue *queue, psr_command *ret_command)
{
    for (;;) {
        ring *r = queue->consumers, *next = atomic_load_explicit(&r->next, memory_order_acquire);
        /* A consumer that sees next also sees what was written before next was set. */
        if (ring_pop(r, ret_command))
            return true;
        if (next == NULL)
            return false;
        queue->consumers = next;
        free(r);
    }
}
