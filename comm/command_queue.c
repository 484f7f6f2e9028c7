#include "comm/command_queue.h"

#include <stdatomic.h>
#include <stdlib.h>

struct psr_command_queue {
    /* Counts of commands ever written and ever read; the slot is the count's low bits. They lie on cache
     * lines of their own, so that one side's progress does not slow the other. */
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) uint64_t mask;
    psr_command slots[];
};

psr_err psr_command_queue_new(uint32_t capacity, psr_command_queue **ret_queue)
{
    uint64_t slots = 16;
    while (slots < capacity)
        slots *= 2;
    size_t bytes = sizeof(psr_command_queue) + slots * sizeof(psr_command);
    psr_command_queue *queue = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (queue == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a queue of %llu commands", (unsigned long long)slots);
    atomic_init(&queue->written, 0);
    atomic_init(&queue->read, 0);
    queue->mask = slots - 1;
    *ret_queue = queue;
    return PSR_OK;
}

void psr_command_queue_free(psr_command_queue *queue)
{
    if (queue == NULL)
        return;
    psr_command command;
    while (psr_command_pop(queue, &command)) {
        if (command.kind == PSR_COMMAND_SEND)
            free(command.data);
    }
    free(queue);
}

bool psr_command_room(const psr_command_queue *queue)
{
    uint64_t written = atomic_load_explicit(&queue->written, memory_order_relaxed);
    return written - atomic_load_explicit(&queue->read, memory_order_acquire) <= queue->mask;
}

bool psr_command_push(psr_command_queue *queue, const psr_command *command)
{
    uint64_t written = atomic_load_explicit(&queue->written, memory_order_relaxed);
    if (!psr_command_room(queue))
        return false;
    queue->slots[written & queue->mask] = *command;
    atomic_store_explicit(&queue->written, written + 1, memory_order_release);
    return true;
}

bool psr_command_pop(psr_command_queue *queue, psr_command *ret_command)
{
    uint64_t read = atomic_load_explicit(&queue->read, memory_order_relaxed);
    if (read == atomic_load_explicit(&queue->written, memory_order_acquire))
        return false;
    *ret_command = queue->slots[read & queue->mask];
    atomic_store_explicit(&queue->read, read + 1, memory_order_release);
    return true;
}
