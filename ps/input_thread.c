#include "ps/input_thread.h"

#include "base/system/signals.h"

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

/* bytes of lines that were not taken yet; more waits in the pipe */
#define WAITING_BYTES_MAX (1u << 20)
#define LINE_BYTES_MAX (1u << 20) /* a longer line is cut: the launcher's lines are short */

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
    bool interrupted; /* a signal to end has come */
    char *partial;    /* of a line */
    size_t used, room;

    pthread_mutex_t mutex;
    event *first, **end;
    size_t waiting_bytes;
};

/* A signal that ends jobs may be ignored when this process begins. Then it is meant for the process
 * that started this one (PSR_CHILD_LEAVES_TERM), or for no process (nohup). */
static void end_signals(sigset_t *set)
{
    const int of_jobs[] = {SIGTERM, SIGUSR1, SIGHUP};
    sigemptyset(set);
    sigaddset(set, SIGINT);
    for (size_t i = 0; i < sizeof of_jobs / sizeof *of_jobs; i++)
        if (!psr_signal_is_ignored(of_jobs[i]))
            sigaddset(set, of_jobs[i]);
}

void psr_input_thread_block_signals(void)
{
    sigset_t set;
    end_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* the reader of our output may end before us, and the run must still end in order */
    signal(SIGPIPE, SIG_IGN);
}

/* ---- the thread ---- */

static size_t bytes_of(const event *e)
{
    return sizeof *e + (e->line != NULL ? strlen(e->line) : 0);
}

/* Consumes line. Without memory an event is lost, and the deadlines end the run. */
static void tell(psr_input_thread *input, psr_input_thread_kind kind, char *line)
{
    event *e = malloc(sizeof *e);
    if (e == NULL) {
        free(line);
        return;
    }
    *e = (event){kind, line, NULL};
    pthread_mutex_lock(&input->mutex);
    *input->end = e;
    input->end = &e->next;
    input->waiting_bytes += bytes_of(e);
    pthread_mutex_unlock(&input->mutex);
    input->wake(input->context);
}

static void take_bytes(psr_input_thread *input, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (input->used + 1 >= input->room && input->room < LINE_BYTES_MAX) {
            size_t room = input->room ? 2 * input->room : 256;
            char *grown = realloc(input->partial, room);
            if (grown != NULL) {
                input->partial = grown;
                input->room = room;
            }
        }
        if (bytes[i] == '\n') {
            char *line = input->partial != NULL ? strndup(input->partial, input->used) : strdup("");
            input->used = 0;
            if (line != NULL)
                tell(input, PSR_INPUT_LINE, line);
        } else if (input->used + 1 < input->room) {
            input->partial[input->used++] = bytes[i];
        }
    }
}

/* false: the descriptor has ended. */
static bool read_some(psr_input_thread *input)
{
    char bytes[4096];
    ssize_t got = read(input->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0) {
        tell(input, PSR_INPUT_END, NULL);
        return false;
    }
    take_bytes(input, bytes, (size_t)got);
    return true;
}

static bool has_room(psr_input_thread *input)
{
    pthread_mutex_lock(&input->mutex);
    bool room = input->waiting_bytes < WAITING_BYTES_MAX;
    pthread_mutex_unlock(&input->mutex);
    return room;
}

static void take_signal(psr_input_thread *input)
{
    struct signalfd_siginfo info;
    if (read(input->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (!input->interrupted || !psr_signal_is_a_jobs((int)info.ssi_signo))
        tell(input, PSR_INPUT_INTERRUPT, NULL);
    input->interrupted = true;
}

static void *read_all(void *context)
{
    psr_input_thread *input = context;
    bool ended = false;
    struct pollfd fds[] = {{input->quit, POLLIN, 0},
                           {input->signals, POLLIN, 0},
                           {input->fd, POLLIN, 0},
                           {input->drained, POLLIN, 0}};
    for (;;) {
        fds[2].fd = ended || !has_room(input) ? -1 : input->fd;
        if (poll(fds, 4, -1) < 0 && errno != EINTR)
            return NULL;
        uint64_t count;
        if (fds[3].revents)
            (void)!read(input->drained, &count, sizeof count);
        if (fds[0].revents)
            return NULL;
        if (fds[1].revents)
            take_signal(input);
        if (fds[2].revents && !read_some(input))
            ended = true;
    }
}

/* ---- life ---- */

psr_err psr_input_thread_new(int fd, void (*wake)(void *), void *context,
                             psr_input_thread **ret_input)
{
    psr_input_thread *input = calloc(1, sizeof *input);
    if (input == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a thread that reads standard input");
    sigset_t set;
    end_signals(&set);
    *input = (psr_input_thread){.fd = fd, .wake = wake, .context = context};
    input->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    input->quit = eventfd(0, EFD_CLOEXEC);
    input->drained = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    input->end = &input->first;
    pthread_mutex_init(&input->mutex, NULL);
    int failure = input->signals < 0 || input->quit < 0 || input->drained < 0
                      ? errno
                      : pthread_create(&input->thread, NULL, read_all, input);
    input->thread_runs = failure == 0;
    if (failure != 0) {
        psr_input_thread_free(input);
        return psr_fail(PSR_ERR_IO, "no thread that reads standard input: %s", strerror(failure));
    }
    *ret_input = input;
    return PSR_OK;
}

void psr_input_thread_free(psr_input_thread *input)
{
    if (input == NULL)
        return;
    if (input->thread_runs) {
        uint64_t one = 1;
        ssize_t written = write(input->quit, &one, sizeof one);
        (void)written;
        pthread_join(input->thread, NULL);
    }
    char *line = NULL;
    while (psr_input_thread_next(input, &line) != PSR_INPUT_NOTHING) {
        free(line);
        line = NULL;
    }
    if (input->signals >= 0)
        close(input->signals);
    if (input->quit >= 0)
        close(input->quit);
    if (input->drained >= 0)
        close(input->drained);
    pthread_mutex_destroy(&input->mutex);
    free(input->partial);
    free(input);
}

psr_input_thread_kind psr_input_thread_next(psr_input_thread *input, char **ret_line)
{
    pthread_mutex_lock(&input->mutex);
    event *e = input->first;
    bool was_full = input->waiting_bytes >= WAITING_BYTES_MAX;
    if (e != NULL) {
        input->waiting_bytes -= bytes_of(e);
        was_full = was_full && input->waiting_bytes < WAITING_BYTES_MAX;
        input->first = e->next;
        if (input->first == NULL)
            input->end = &input->first;
    }
    pthread_mutex_unlock(&input->mutex);
    if (e == NULL)
        return PSR_INPUT_NOTHING;
    const uint64_t one = 1;
    if (was_full) /* the counter cannot overflow, so this cannot fail */
        (void)!write(input->drained, &one, sizeof one);
    psr_input_thread_kind kind = e->kind;
    if (kind == PSR_INPUT_LINE)
        *ret_line = e->line;
    free(e);
    return kind;
}
