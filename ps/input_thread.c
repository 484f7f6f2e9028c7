#include "ps/input_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define WAITING_BYTES_MAX (1u << 20) /* of lines that nobody has taken: the rest waits where it was written */
#define LINE_BYTES_MAX (1u << 20)    /* a longer one is cut: lines are a launcher's, and short */

typedef struct event {
    psr_input_thread_kind kind;
    char *line;
    struct event *next;
} event;

struct psr_input_thread {
    int fd, signals, quit;
    int drained; /* there is room for lines again */
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    bool thread_runs;
    char *partial; /* of a line */
    size_t used, room;

    pthread_mutex_t mutex;
    event *first, **end;
    size_t waiting_bytes;
};

static void end_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void psr_input_thread_block_signals(void)
{
    sigset_t set;
    end_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE,
           SIG_IGN); /* who reads what we say may die before us: there is a run to put in order then */
}

/* ---- the thread ---- */

static size_t bytes_of(const event *e)
{
    return sizeof *e + (e->line ? strlen(e->line) : 0);
}

/* Consumes line. Without memory an event is lost, and the deadlines end the run. */
static void tell(psr_input_thread *watch, psr_input_thread_kind kind, char *line)
{
    event *e = malloc(sizeof *e);
    if (!e) {
        free(line);
        return;
    }
    *e = (event){kind, line, NULL};
    pthread_mutex_lock(&watch->mutex);
    *watch->end = e;
    watch->end = &e->next;
    watch->waiting_bytes += bytes_of(e);
    pthread_mutex_unlock(&watch->mutex);
    watch->wake(watch->context);
}

static void take_bytes(psr_input_thread *watch, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (watch->used + 1 >= watch->room && watch->room < LINE_BYTES_MAX) {
            size_t room = watch->room ? 2 * watch->room : 256;
            char *grown = realloc(watch->partial, room);
            if (grown) {
                watch->partial = grown;
                watch->room = room;
            }
        }
        if (bytes[i] == '\n') {
            char *line = watch->partial ? strndup(watch->partial, watch->used) : strdup("");
            watch->used = 0;
            if (line)
                tell(watch, PSR_INPUT_LINE, line);
        } else if (watch->used + 1 < watch->room) {
            watch->partial[watch->used++] = bytes[i];
        }
    }
}

/* false: the descriptor has ended. */
static bool read_some(psr_input_thread *watch)
{
    char bytes[4096];
    ssize_t got = read(watch->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0) {
        tell(watch, PSR_INPUT_END, NULL);
        return false;
    }
    take_bytes(watch, bytes, (size_t)got);
    return true;
}

static bool has_room(psr_input_thread *watch)
{
    pthread_mutex_lock(&watch->mutex);
    bool room = watch->waiting_bytes < WAITING_BYTES_MAX;
    pthread_mutex_unlock(&watch->mutex);
    return room;
}

static void *watch_all(void *context)
{
    psr_input_thread *watch = context;
    bool ended = false;
    struct pollfd fds[] = {{watch->quit, POLLIN, 0},
                           {watch->signals, POLLIN, 0},
                           {watch->fd, POLLIN, 0},
                           {watch->drained, POLLIN, 0}};
    for (;;) {
        fds[2].fd = ended || !has_room(watch) ? -1 : watch->fd;
        if (poll(fds, 4, -1) < 0 && errno != EINTR)
            return NULL;
        uint64_t count;
        if (fds[3].revents)
            (void)!read(watch->drained, &count, sizeof count);
        if (fds[0].revents)
            return NULL;
        struct signalfd_siginfo info;
        if (fds[1].revents && read(watch->signals, &info, sizeof info) == (ssize_t)sizeof info)
            tell(watch, PSR_INPUT_INTERRUPT, NULL);
        if (fds[2].revents && !read_some(watch))
            ended = true;
    }
}

/* ---- life ---- */

psr_err psr_input_thread_new(int fd, void (*wake)(void *), void *context, psr_input_thread **ret_watch)
{
    psr_input_thread *watch = calloc(1, sizeof *watch);
    if (!watch)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a watch");
    sigset_t set;
    end_signals(&set);
    *watch = (psr_input_thread){.fd = fd, .wake = wake, .context = context};
    watch->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    watch->quit = eventfd(0, EFD_CLOEXEC);
    watch->drained = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->end = &watch->first;
    pthread_mutex_init(&watch->mutex, NULL);
    int failure = watch->signals < 0 || watch->quit < 0 || watch->drained < 0
                      ? errno
                      : pthread_create(&watch->thread, NULL, watch_all, watch);
    watch->thread_runs = failure == 0;
    if (failure != 0) {
        psr_input_thread_free(watch);
        return psr_fail(PSR_ERR_IO, "no watch of standard input: %s", strerror(failure));
    }
    *ret_watch = watch;
    return PSR_OK;
}

void psr_input_thread_free(psr_input_thread *watch)
{
    if (!watch)
        return;
    if (watch->thread_runs) {
        uint64_t one = 1;
        ssize_t written = write(watch->quit, &one, sizeof one);
        (void)written;
        pthread_join(watch->thread, NULL);
    }
    char *line = NULL;
    while (psr_input_thread_next(watch, &line) != PSR_INPUT_NOTHING) {
        free(line);
        line = NULL;
    }
    if (watch->signals >= 0)
        close(watch->signals);
    if (watch->quit >= 0)
        close(watch->quit);
    if (watch->drained >= 0)
        close(watch->drained);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->partial);
    free(watch);
}

psr_input_thread_kind psr_input_thread_next(psr_input_thread *watch, char **ret_line)
{
    pthread_mutex_lock(&watch->mutex);
    event *e = watch->first;
    bool was_full = watch->waiting_bytes >= WAITING_BYTES_MAX;
    if (e) {
        watch->waiting_bytes -= bytes_of(e);
        was_full = was_full && watch->waiting_bytes < WAITING_BYTES_MAX;
        watch->first = e->next;
        if (!watch->first)
            watch->end = &watch->first;
    }
    pthread_mutex_unlock(&watch->mutex);
    if (!e)
        return PSR_INPUT_NOTHING;
    const uint64_t one = 1;
    if (was_full) /* the counter's end is far: this cannot fail */
        (void)!write(watch->drained, &one, sizeof one);
    psr_input_thread_kind kind = e->kind;
    if (kind == PSR_INPUT_LINE)
        *ret_line = e->line;
    free(e);
    return kind;
}
