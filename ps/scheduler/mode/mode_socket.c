#include "ps/scheduler/mode/mode_socket.h"

#include "base/clock.h"
#include "base/text/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX 1024

typedef enum connection_state {
    FREE,
    READING,  /* its line */
    ASKS,     /* nobody has taken the request */
    AWAITS,   /* waits for an answer */
    ANSWERED, /* the thread closes it */
} connection_state;

typedef struct connection {
    connection_state state;
    int fd;
    int64_t until_ms; /* for READING */
    psr_mode_request request;
    size_t used; /* bytes of the line */
} connection;

struct psr_mode_socket {
    int directory, listener, nudge; /* nudge: an eventfd that wakes the thread */
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    bool has_thread, bound;
    pthread_mutex_t mutex;
    /* ---- under the mutex ---- */
    bool quit;
    uint64_t last_id;
    connection connections[PSR_RUN_SOCKET_CONNECTIONS];
};

/* ---- the thread: with the mutex held, except while it waits ---- */

static void close_connection(connection *c)
{
    close(c->fd);
    *c = (connection){.state = FREE, .fd = -1};
}

/* The kernel tells which user has the other end, even on a file system that ignores modes. */
static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void take_connection(psr_mode_socket *s)
{
    connection *place = NULL;
    const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS && place == NULL; i++)
        if (s->connections[i].state == FREE)
            place = &s->connections[i];
    if (place == NULL || !is_ours(fd)) {
        close(fd);
        return;
    }
    *place = (connection){.state = READING,
                          .fd = fd,
                          .until_ms = psr_clock_ms() + PSR_RUN_SOCKET_WITHIN_MS,
                          .request.id = ++s->last_id};
}

/* true: its line is complete, and is a request. */
static bool read_line(connection *c)
{
    char *line = c->request.word;
    const ssize_t got = read(c->fd, line + c->used, PSR_RUN_SOCKET_LINE_MAX - c->used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (got <= 0) {
        close_connection(c);
        return false;
    }
    c->used += (size_t)got;
    char *end = memchr(line, '\n', c->used);
    if (end == NULL && c->used < PSR_RUN_SOCKET_LINE_MAX)
        return false;
    if (end == NULL || end != line + c->used - 1 || !psr_is_printable(line, c->used - 1)) {
        close_connection(c); /* not one line */
        return false;
    }
    *end = '\0';
    c->state = ASKS;
    return true;
}

/* A client that waits for an answer sends nothing more. So if its connection becomes readable, the
 * client has gone. */
static bool see(connection *c, int64_t now_ms, short seen)
{
    if (c->state == READING && seen != 0)
        return read_line(c);
    if (c->state == ANSWERED || ((c->state == ASKS || c->state == AWAITS) && seen != 0) ||
        (c->state == READING && now_ms >= c->until_ms))
        close_connection(c);
    return false;
}

/* Returns how long to wait in milliseconds, or -1: without limit. */
static int fill(psr_mode_socket *s, struct pollfd *fds, int64_t now_ms)
{
    int64_t until_ms = INT64_MAX;
    fds[0] = (struct pollfd){s->nudge, POLLIN, 0};
    fds[1] = (struct pollfd){s->listener, POLLIN, 0};
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++) {
        const connection *c = &s->connections[i];
        fds[2 + i] = (struct pollfd){c->state == FREE ? -1 : c->fd, POLLIN, 0};
        if (c->state == READING && c->until_ms < until_ms)
            until_ms = c->until_ms;
    }
    return until_ms == INT64_MAX ? -1 : until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

static void *serve(void *context)
{
    psr_mode_socket *s = context;
    struct pollfd fds[2 + PSR_RUN_SOCKET_CONNECTIONS];
    pthread_mutex_lock(&s->mutex);
    while (!s->quit) {
        const int wait_ms = fill(s, fds, psr_clock_ms());
        pthread_mutex_unlock(&s->mutex);
        const int ready = poll(fds, 2 + PSR_RUN_SOCKET_CONNECTIONS, wait_ms);
        pthread_mutex_lock(&s->mutex);
        const int64_t now_ms = psr_clock_ms();
        uint64_t count;
        bool asked = false;
        if (ready > 0 && fds[0].revents != 0)
            (void)!read(s->nudge, &count, sizeof count);
        for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++)
            asked |= see(&s->connections[i], now_ms, ready > 0 ? fds[2 + i].revents : 0);
        if (ready > 0 && fds[1].revents != 0)
            take_connection(s);
        if (asked)
            s->wake(s->context);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static void nudge(psr_mode_socket *s)
{
    const uint64_t one = 1;
    (void)!write(s->nudge, &one, sizeof one); /* the counter cannot overflow, so this cannot fail */
}

/* ---- for the scheduler ---- */

bool psr_mode_socket_next(psr_mode_socket *s, psr_mode_request *ret_request)
{
    connection *first = NULL;
    pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++) {
        connection *c = &s->connections[i];
        if (c->state == ASKS && (first == NULL || c->request.id < first->request.id))
            first = c;
    }
    if (first != NULL) {
        first->state = AWAITS;
        *ret_request = first->request;
    }
    pthread_mutex_unlock(&s->mutex);
    return first != NULL;
}

void psr_mode_socket_answer(psr_mode_socket *s, uint64_t id, bool ok, const char *text)
{
    char line[ANSWER_MAX];
    int size = snprintf(line, sizeof line - 1, "%s %s", ok ? "ok" : "no", text);
    size = size < (int)sizeof line - 2 ? size : (int)sizeof line - 2;
    line[size++] = '\n';
    pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++) {
        connection *c = &s->connections[i];
        if (c->state != AWAITS || c->request.id != id)
            continue;
        /* Nothing was sent on this connection before, so there is room. */
        (void)!send(c->fd, line, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
        c->state = ANSWERED;
    }
    pthread_mutex_unlock(&s->mutex);
    nudge(s);
}

/* ---- life ---- */

/* By the directory's descriptor, since its path may be longer than a socket's address (108
 * bytes). */
static psr_err bind_in(psr_mode_socket *s, const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    s->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" PSR_RUN_SOCKET_NAME,
             s->directory);
    /* The file gets the socket's mode when it is made, so it never has another one. */
    if (s->directory >= 0 && s->listener >= 0 && fchmod(s->listener, S_IRUSR | S_IWUSR) == 0 &&
        bind(s->listener, (const struct sockaddr *)&address, sizeof address) == 0) {
        s->bound = true;
        if (listen(s->listener, PSR_RUN_SOCKET_CONNECTIONS) == 0)
            return PSR_OK;
    }
    return psr_fail(PSR_ERR_IO, "%s/" PSR_RUN_SOCKET_NAME " cannot be made: %s", directory,
                    strerror(errno));
}

psr_err psr_mode_socket_new(const char *directory, void (*wake)(void *), void *context,
                            psr_mode_socket **ret_socket)
{
    psr_mode_socket *s = calloc(1, sizeof *s);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the socket of psring mode");
    *s = (psr_mode_socket){.directory = -1, .listener = -1, .wake = wake, .context = context};
    pthread_mutex_init(&s->mutex, NULL);
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++)
        s->connections[i].fd = -1;
    s->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    psr_err err = s->nudge >= 0 ? bind_in(s, directory)
                                : psr_fail(PSR_ERR_IO, "no eventfd: %s", strerror(errno));
    const int failure = err == PSR_OK ? pthread_create(&s->thread, NULL, serve, s) : 0;
    if (failure != 0)
        err =
            psr_fail(PSR_ERR_IO, "no thread for the socket of psring mode: %s", strerror(failure));
    s->has_thread = err == PSR_OK;
    if (err != PSR_OK) {
        psr_mode_socket_free(s);
        return err;
    }
    *ret_socket = s;
    return PSR_OK;
}

void psr_mode_socket_free(psr_mode_socket *s)
{
    if (s == NULL)
        return;
    if (s->has_thread) {
        pthread_mutex_lock(&s->mutex);
        s->quit = true;
        pthread_mutex_unlock(&s->mutex);
        nudge(s);
        pthread_join(s->thread, NULL);
    }
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++)
        if (s->connections[i].state != FREE)
            close_connection(&s->connections[i]);
    if (s->bound)
        (void)unlinkat(s->directory, PSR_RUN_SOCKET_NAME, 0);
    const int fds[] = {s->listener, s->directory, s->nudge};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}
