#include "worker/exchange/engines/sum_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psr_err psr_sum_queue_init(psr_sum_queue *queue, uint32_t most, void (*changed)(void *context),
                           void *context)
{
    *queue = (psr_sum_queue){.most = most, .context = context, .changed = changed};
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->condition, NULL);
    queue->started = calloc(most, sizeof *queue->started);
    queue->ended = calloc(most, sizeof *queue->ended);
    return queue->started != NULL && queue->ended != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " sums", most);
}

void psr_sum_queue_done(psr_sum_queue *queue)
{
    pthread_cond_destroy(&queue->condition);
    pthread_mutex_destroy(&queue->mutex);
    free(queue->started);
    free(queue->ended);
}

/* ---- the owner's ---- */

psr_err psr_sum_queue_start(psr_sum_queue *queue, psr_started_sum sum)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&queue->mutex);
    if (queue->under_way == queue->most) {
        err = psr_fail(PSR_ERR_USAGE, "%" PRIu32 " sums are under way already", queue->under_way);
    } else {
        queue->under_way++;
        queue->started[queue->started_count++] = sum;
        pthread_cond_signal(&queue->condition);
    }
    pthread_mutex_unlock(&queue->mutex);
    return err;
}

psr_err psr_sum_queue_take(psr_sum_queue *queue, bool *ret_any, uint32_t *ret_number)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&queue->mutex);
    if (queue->ended_count > 0) {
        *ret_any = true;
        *ret_number = queue->ended[0];
        queue->ended_count--;
        queue->under_way--;
        memmove(queue->ended, queue->ended + 1, queue->ended_count * sizeof *queue->ended);
    } else if (queue->status != PSR_OK) {
        err = psr_fail(queue->status, "%s", queue->failure);
    } else {
        *ret_any = false;
    }
    pthread_mutex_unlock(&queue->mutex);
    return err;
}

void psr_sum_queue_quit(psr_sum_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->quit = true;
    pthread_cond_signal(&queue->condition);
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- the sums' thread's ---- */

uint32_t psr_sum_queue_take_started(psr_sum_queue *queue, psr_started_sum *sums)
{
    const uint32_t count = queue->started_count;
    memcpy(sums, queue->started, count * sizeof *sums);
    queue->started_count = 0;
    return count;
}

/* Under the mutex. Once the owner has let go it hears no more. */
static void tell_owner(const psr_sum_queue *queue)
{
    if (!queue->quit)
        queue->changed(queue->context);
}

void psr_sum_queue_end(psr_sum_queue *queue, const uint32_t *numbers, uint32_t count)
{
    pthread_mutex_lock(&queue->mutex);
    memcpy(queue->ended + queue->ended_count, numbers, count * sizeof *numbers);
    queue->ended_count += count;
    tell_owner(queue);
    pthread_mutex_unlock(&queue->mutex);
}

void psr_sum_queue_fail(psr_sum_queue *queue, psr_err status, const char *line)
{
    pthread_mutex_lock(&queue->mutex);
    snprintf(queue->failure, sizeof queue->failure, "%s", line);
    queue->status = status;
    tell_owner(queue);
    pthread_mutex_unlock(&queue->mutex);
}
