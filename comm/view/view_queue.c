#include "comm/view/view_queue.h"

#include <string.h>

bool psr_view_queue_put(psr_view_queue *queue, const psr_view *view)
{
    uint32_t keep = queue->count;
    while (keep > 0 && queue->items[keep - 1]->first_step >= view->first_step)
        keep--;
    if (keep == PSR_VIEWS_MAX)
        return false;
    while (queue->count > keep)
        psr_view_release(queue->items[--queue->count]);
    queue->items[queue->count++] = view;
    return true;
}

const psr_view *psr_view_queue_first(const psr_view_queue *queue)
{
    return queue->count > 0 ? queue->items[0] : NULL;
}

const psr_view *psr_view_queue_take(psr_view_queue *queue)
{
    const psr_view *first = psr_view_queue_first(queue);
    if (first != NULL)
        memmove(queue->items, queue->items + 1, --queue->count * sizeof *queue->items);
    return first;
}

void psr_view_queue_done(psr_view_queue *queue)
{
    while (queue->count > 0)
        psr_view_release(queue->items[--queue->count]);
}
