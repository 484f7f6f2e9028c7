/* A wake that a thread under test calls, and a test that waits for it. */
#ifndef PSR_TESTS_WAKES_H
#define PSR_TESTS_WAKES_H

#include <pthread.h>

static pthread_mutex_t wakes_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wakes_condition = PTHREAD_COND_INITIALIZER;
static unsigned wakes;

static void wake(void *context)
{
    (void)context;
    pthread_mutex_lock(&wakes_mutex);
    wakes++;
    pthread_cond_signal(&wakes_condition);
    pthread_mutex_unlock(&wakes_mutex);
}

static unsigned wakes_so_far(void)
{
    pthread_mutex_lock(&wakes_mutex);
    unsigned count = wakes;
    pthread_mutex_unlock(&wakes_mutex);
    return count;
}

/* Until there are more than before. */
static void await_wake(unsigned before)
{
    pthread_mutex_lock(&wakes_mutex);
    while (wakes == before)
        pthread_cond_wait(&wakes_condition, &wakes_mutex);
    pthread_mutex_unlock(&wakes_mutex);
}

#endif
