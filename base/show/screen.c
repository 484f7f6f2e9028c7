#include "base/show/screen.h"

#include "base/text/printable.h"
#include "base/system/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WAITING_BYTES_MAX (1u << 20)
#define BEHIND_BYTES 4096

typedef struct text {
    struct text *next;
    int fd;
    size_t size;
    char bytes[];
} text;

struct psr_screen {
    pthread_t thread;
    int progress_fd; /* counts what the thread has written */
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    /* under the mutex */
    text *first, **last;
    size_t waiting_bytes; /* with what is being written */
    size_t left_out;
    bool quit;
};

/* ---- the thread ---- */

/* Without a reader, and on a disk that is full, text is lost: the run matters more. */
static void write_whole(const text *t)
{
    for (size_t sent = 0; sent < t->size;) {
        ssize_t put = write(t->fd, t->bytes + sent, t->size - sent);
        if (put >= 0)
            sent += (size_t)put;
        /* another process on the same terminal has made it non-blocking */
        else if (errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = t->fd, .events = POLLOUT}, 1, -1);
        else if (errno != EINTR)
            return;
    }
}

static void tell_progress(const psr_screen *screen)
{
    const uint64_t one = 1;
    (void)!write(screen->progress_fd, &one, sizeof one);
}

static void *write_all(void *context)
{
    psr_screen *screen = context;
    pthread_mutex_lock(&screen->mutex);
    while (!screen->quit) {
        text *t = screen->first;
        if (t == NULL) {
            pthread_cond_wait(&screen->condition, &screen->mutex);
            continue;
        }
        screen->first = t->next;
        if (t->next == NULL)
            screen->last = &screen->first;
        pthread_mutex_unlock(&screen->mutex);
        write_whole(t);
        pthread_mutex_lock(&screen->mutex);
        screen->waiting_bytes -= t->size;
        free(t);
        tell_progress(screen);
    }
    pthread_mutex_unlock(&screen->mutex);
    return NULL;
}

/* ---- out ---- */

/* Call with the mutex held. */
static void queue(psr_screen *screen, int fd, const char *bytes, size_t size)
{
    text *t = screen->waiting_bytes + size <= WAITING_BYTES_MAX ? malloc(sizeof *t + size) : NULL;
    if (t == NULL) {
        screen->left_out++;
        return;
    }
    *t = (text){.fd = fd, .size = size};
    memcpy(t->bytes, bytes, size);
    *screen->last = t;
    screen->last = &t->next;
    screen->waiting_bytes += size;
    pthread_cond_signal(&screen->condition);
}

static void tell_left_out(psr_screen *screen)
{
    char line[96];
    if (screen->left_out == 0 || screen->waiting_bytes + sizeof line > WAITING_BYTES_MAX / 2)
        return;
    int size =
        snprintf(line, sizeof line, "(nobody read this output: %zu pieces of it were left out)\n",
                 screen->left_out);
    screen->left_out = 0;
    queue(screen, STDERR_FILENO, line, (size_t)size);
}

static void print(psr_screen *screen, int fd, bool filtered, const char *format, va_list args)
    PSR_PRINTF(4, 0);
static void print(psr_screen *screen, int fd, bool filtered, const char *format, va_list args)
{
    char *bytes = NULL;
    int size = vasprintf(&bytes, format, args);
    if (size < 0)
        return;
    if (filtered)
        psr_printable_text(bytes, (size_t)size);
    pthread_mutex_lock(&screen->mutex);
    tell_left_out(screen);
    queue(screen, fd, bytes, (size_t)size);
    pthread_mutex_unlock(&screen->mutex);
    free(bytes);
}

void psr_screen_out(psr_screen *screen, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(screen, STDOUT_FILENO, true, format, args);
    va_end(args);
}

void psr_screen_err(psr_screen *screen, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(screen, STDERR_FILENO, true, format, args);
    va_end(args);
}

void psr_screen_draw(psr_screen *screen, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(screen, STDOUT_FILENO, false, format, args);
    va_end(args);
}

bool psr_screen_has_room(psr_screen *screen)
{
    pthread_mutex_lock(&screen->mutex);
    bool room = screen->waiting_bytes <= WAITING_BYTES_MAX / 2;
    screen->left_out += !room;
    pthread_mutex_unlock(&screen->mutex);
    return room;
}

bool psr_screen_is_behind(psr_screen *screen)
{
    pthread_mutex_lock(&screen->mutex);
    bool behind = screen->waiting_bytes > BEHIND_BYTES;
    pthread_mutex_unlock(&screen->mutex);
    return behind;
}

/* Waits until the thread reports something. false: give_up_fd became readable first, or the time is
 * over. */
static bool await_progress(const psr_screen *screen, int give_up_fd, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = screen->progress_fd, .events = POLLIN},
                           {.fd = give_up_fd, .events = POLLIN}};
    while (poll(fds, 2, timeout_ms) < 0 && errno == EINTR)
        ;
    uint64_t count;
    return read(screen->progress_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

void psr_screen_drain(psr_screen *screen, int give_up_fd, int timeout_ms)
{
    bool waits = screen != NULL;
    while (waits) {
        pthread_mutex_lock(&screen->mutex);
        tell_left_out(screen);
        waits = screen->waiting_bytes > 0;
        pthread_mutex_unlock(&screen->mutex);
        waits = waits && await_progress(screen, give_up_fd, timeout_ms);
    }
}

/* ---- life ---- */

psr_err psr_screen_new(psr_screen **ret_screen)
{
    psr_screen *screen = calloc(1, sizeof *screen);
    if (screen == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a screen");
    screen->last = &screen->first;
    pthread_mutex_init(&screen->mutex, NULL);
    pthread_cond_init(&screen->condition, NULL);
    screen->progress_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    psr_err err = screen->progress_fd < 0
                      ? psr_fail(PSR_ERR_IO, "no descriptor for the screen: %s", strerror(errno))
                      : psr_thread_start("psr-screen", write_all, screen, &screen->thread);
    if (err != PSR_OK) {
        if (screen->progress_fd >= 0)
            close(screen->progress_fd);
        free(screen);
        return err;
    }
    *ret_screen = screen;
    return PSR_OK;
}

void psr_screen_free(psr_screen *screen)
{
    if (screen == NULL)
        return;
    pthread_mutex_lock(&screen->mutex);
    screen->quit = true;
    bool held = screen->waiting_bytes > 0;
    pthread_cond_signal(&screen->condition);
    pthread_mutex_unlock(&screen->mutex);
    if (held)
        return;
    pthread_join(screen->thread, NULL);
    close(screen->progress_fd);
    pthread_mutex_destroy(&screen->mutex);
    pthread_cond_destroy(&screen->condition);
    free(screen);
}
