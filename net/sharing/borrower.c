#include "net/sharing/borrower.h"

#include "net/sharing/shared_arena.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct mapping {
    const uint8_t *data; /* NULL: none */
    size_t bytes;
    uint64_t number;           /* never given again */
    _Atomic uint32_t borrowed; /* messages whose payload lies there */
} mapping;

/* A process that lends. It is held by the borrower and by each message with one of its payloads. */
typedef struct source {
    _Atomic uint32_t holders;
    psr_borrower *borrower; /* set only while the stream is open */
    mapping arenas[PSR_SHARED_ARENAS_MAX];
    const void *pipe; /* NULL: none */
    size_t pipe_bytes;

    pthread_mutex_t mutex;
    psr_record_stream stream;
    psr_message *freed; /* payloads to return: linked by next, newest first */
    bool asks_for_room; /* the stream is full; epoll reports when there is room */

    /* ---- the owner's thread alone ---- */
    uint8_t id[PSR_ROUTING_ID_BYTES];
    uint32_t place; /* of its pipe */
    bool has_id, known;
    bool has_memory; /* an arena or a pipe */
    bool pipe_asked; /* it has passed one */
    bool unheard;    /* its records are not read before it is known */
    psr_peer peer;
    uint64_t number; /* in the order of creation, never used again */
} source;

struct psr_borrower {
    psr_borrower_options options;
    char path[PSR_SHARE_PATH_BYTES];
    int listener;
    source **sources;
    size_t count;
    uint64_t numbers, arena_numbers;
    atomic_bool waits;
};

typedef struct borrowed {
    psr_message base;
    source *of;
    mapping *arena; /* of the source's */
    psr_borrowed_place place;
    uint64_t token;
} borrowed;

/* ---- sources ---- */

static void drop(source *s)
{
    if (atomic_fetch_sub(&s->holders, 1) != 1)
        return;
    for (size_t a = 0; a < PSR_SHARED_ARENAS_MAX; a++)
        if (s->arenas[a].data != NULL)
            munmap((void *)(uintptr_t)s->arenas[a].data, s->arenas[a].bytes);
    if (s->pipe != NULL)
        munmap((void *)(uintptr_t)s->pipe, s->pipe_bytes);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* Nobody is told of them any more. */
static void forget_freed(source *s)
{
    while (s->freed != NULL) {
        psr_message *message = s->freed;
        s->freed = message->next;
        free(message);
    }
}

/* From now on nobody is told of what is freed. Its memory stays. */
static void close_source(source *s)
{
    pthread_mutex_lock(&s->mutex);
    psr_record_stream_close(&s->stream);
    forget_freed(s);
    pthread_mutex_unlock(&s->mutex);
}

static void remove_source(psr_borrower *borrower, size_t at)
{
    source *s = borrower->sources[at];
    borrower->sources[at] = borrower->sources[--borrower->count];
    if (s->pipe != NULL)
        psr_pipes_in_remove(borrower->options.pipes, s->place);
    close_source(s);
    drop(s);
}

static void watch(const source *s, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = PSR_BORROWER_EVENT | s->number};
    (void)epoll_ctl(s->borrower->options.epoll, operation, s->stream.fd, &event);
}

/* ---- giving back ---- */

/* Under the mutex, with an open stream. What the stream has no room for waits until it has. */
static void give_back(source *s)
{
    while (s->freed != NULL) {
        psr_record records[PSR_RECORDS_AT_ONCE];
        psr_message *rest = s->freed;
        size_t count = 0;
        for (; rest != NULL && count < PSR_RECORDS_AT_ONCE; rest = rest->next)
            records[count++] =
                (psr_record){.kind = PSR_RECORD_RETURNED, .value = ((const borrowed *)rest)->token};
        if (psr_record_write(s->stream.fd, records, count, -1) == PSR_RECORD_FULL)
            break;
        /* Written; or nobody is there any more to be told, which its end will say. */
        while (s->freed != rest) {
            psr_message *told = s->freed;
            s->freed = told->next;
            free(told);
        }
    }
    bool needs_room = s->freed != NULL;
    if (needs_room != s->asks_for_room)
        watch(s, EPOLL_CTL_MOD, EPOLLIN | (needs_room ? EPOLLOUT : 0));
    s->asks_for_room = needs_room;
}

/* Any thread. */
static void borrowed_release(psr_message *message)
{
    source *s = ((borrowed *)message)->of;
    /* First: who hears that it is given back may withdraw the arena. */
    atomic_fetch_sub(&((borrowed *)message)->arena->borrowed, 1);
    pthread_mutex_lock(&s->mutex);
    if (s->stream.fd < 0) {
        free(message);
    } else {
        message->next = s->freed;
        s->freed = message;
        /* Either the owner finds it when it settles, or this sees that it waits. */
        if (atomic_load(&s->borrower->waits))
            give_back(s);
    }
    pthread_mutex_unlock(&s->mutex);
    drop(s);
}

void psr_borrower_busy(psr_borrower *borrower)
{
    atomic_store(&borrower->waits, false);
}

void psr_borrower_settle(psr_borrower *borrower)
{
    atomic_store(&borrower->waits, true);
    for (size_t i = 0; i < borrower->count; i++) {
        source *s = borrower->sources[i];
        pthread_mutex_lock(&s->mutex);
        if (s->freed != NULL && s->stream.fd >= 0)
            give_back(s);
        pthread_mutex_unlock(&s->mutex);
    }
}

/* ---- what a lender says ---- */

static psr_err answer(source *s, uint32_t arena, int refused)
{
    psr_record record = {.kind = refused == 0 ? PSR_RECORD_TAKEN : PSR_RECORD_REFUSED,
                         .arena = arena,
                         .value = (uint64_t)refused};
    if (psr_record_write(s->stream.fd, &record, 1, -1) == PSR_RECORD_FULL)
        return psr_fail(PSR_ERR_PROTOCOL, "does not read what it is answered");
    return PSR_OK;
}

static psr_err drop_arena(source *s, const psr_record *record)
{
    mapping *arena = record->arena < PSR_SHARED_ARENAS_MAX ? &s->arenas[record->arena] : NULL;
    if (arena == NULL || arena->data == NULL)
        return psr_fail(PSR_ERR_PROTOCOL, "withdraws an arena %" PRIu32 " that it has not shared",
                        record->arena);
    if (atomic_load(&arena->borrowed) > 0)
        return psr_fail(PSR_ERR_PROTOCOL, "withdraws an arena %" PRIu32 " while it lends from it",
                        record->arena);
    munmap((void *)(uintptr_t)arena->data, arena->bytes);
    arena->data = NULL;
    return PSR_OK;
}

/* The descriptor is borrowed; -1: this process could not take it, having too many. */
static psr_err take_arena(source *s, const psr_record *record, int fd)
{
    if (record->arena >= PSR_SHARED_ARENAS_MAX || s->arenas[record->arena].data != NULL)
        return psr_fail(PSR_ERR_PROTOCOL, "passes an arena %" PRIu32 " twice or too many",
                        record->arena);
    if (fd < 0)
        return answer(s, record->arena, EMFILE);
    const void *data;
    psr_err err = record->value <= SIZE_MAX
                      ? psr_shared_arena_map(fd, (size_t)record->value, &data)
                      : psr_fail(PSR_ERR_FORMAT, "passes more than can be mapped");
    if (err == PSR_ERR_NOMEM)
        return answer(s, record->arena, ENOMEM);
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_PROTOCOL, "shared memory");
    mapping *arena = &s->arenas[record->arena];
    arena->data = data;
    arena->bytes = (size_t)record->value;
    arena->number = s->borrower->arena_numbers++;
    s->has_memory = true;
    return answer(s, record->arena, 0);
}

/* ---- pipes ---- */

/* What cannot be mapped or read is answered so, and messages come by the socket. */
static psr_err map_pipe(source *s, const psr_record *record, int fd, bool *ret_is)
{
    psr_pipes_in *pipes = s->borrower->options.pipes;
    const void *ring;
    *ret_is = false;
    if (fd < 0 || pipes == NULL)
        return PSR_OK;
    if (record->value < PSR_PIPE_BYTES || record->value > SIZE_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "passes a pipe of %" PRIu64 " bytes", record->value);
    psr_err err = psr_shared_arena_map(fd, (size_t)record->value, &ring);
    if (err == PSR_ERR_NOMEM)
        return PSR_OK;
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_PROTOCOL, "its pipe");
    err = psr_pipes_in_add(pipes, ring, s->id, &s->place);
    if (err != PSR_OK) {
        munmap((void *)(uintptr_t)ring, (size_t)record->value);
        return PSR_OK;
    }
    s->pipe = ring;
    s->pipe_bytes = (size_t)record->value;
    s->has_memory = true;
    *ret_is = true;
    return PSR_OK;
}

/* The descriptor is borrowed; -1: this process could not take it, having too many. */
static psr_err take_pipe(source *s, const psr_record *record, int fd)
{
    bool is;
    if (s->pipe_asked)
        return psr_fail(PSR_ERR_PROTOCOL, "passes a second pipe");
    s->pipe_asked = true;
    PSR_TRY(map_pipe(s, record, fd, &is));
    const psr_shared_arena *board = is ? psr_pipes_in_board(s->borrower->options.pipes) : NULL;
    const psr_record answer = {
        .kind = PSR_RECORD_BOARD, .arena = is ? s->place : 0, .value = is ? board->bytes : 0};
    if (psr_record_write(s->stream.fd, &answer, 1, is ? board->fd : -1) == PSR_RECORD_FULL)
        return psr_fail(PSR_ERR_PROTOCOL, "does not read what it is answered");
    return PSR_OK;
}

/* ---- who it is ---- */

static psr_err take_hello(psr_borrower *borrower, source *s, const psr_record *record)
{
    if (s->has_id || record->kind != PSR_RECORD_HELLO)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "sent a record that no process that lends memory sends (record %" PRIu32
                        ")",
                        record->kind);
    for (size_t i = 0; i < borrower->count; i++)
        if (borrower->sources[i]->has_id &&
            memcmp(borrower->sources[i]->id, record->id, sizeof s->id) == 0)
            return psr_fail(PSR_ERR_PROTOCOL, "lends memory on a second socket");
    memcpy(s->id, record->id, sizeof s->id);
    s->has_id = true;
    return PSR_OK;
}

/* Whether its channel has said who it is. Until then the socket is watched for its end alone. */
static bool become_known(psr_borrower *borrower, source *s, bool *ret_closed)
{
    s->known = borrower->options.known(borrower->options.context, s->id, &s->peer);
    if (s->known == s->unheard)
        watch(s, EPOLL_CTL_MOD, s->known ? EPOLLIN : 0);
    s->unheard = !s->known;
    struct pollfd end = {.fd = s->stream.fd};
    *ret_closed = !s->known && poll(&end, 1, 0) == 1;
    return s->known;
}

/* passed: the descriptor that came with it, borrowed; -1: none. */
static psr_err take_record(psr_borrower *borrower, source *s, const psr_record *record, int passed)
{
    if (s->known && record->kind == PSR_RECORD_ARENA)
        return take_arena(s, record, passed);
    if (s->known && record->kind == PSR_RECORD_PIPE)
        return take_pipe(s, record, passed);
    if (passed >= 0)
        return psr_fail(PSR_ERR_PROTOCOL, "passes a descriptor that nobody asked for");
    if (s->known && record->kind == PSR_RECORD_WITHDRAWN)
        return drop_arena(s, record);
    if (s->known && record->kind == PSR_RECORD_WAKE)
        return PSR_OK; /* this process is awake */
    return take_hello(borrower, s, record);
}

/* *ret_closed: it has hung up. */
static psr_err hear(psr_borrower *borrower, source *s, bool *ret_closed)
{
    /* So many in a turn, since a lender may go on and on; epoll tells of the rest. */
    for (int i = 0; i < PSR_RECORDS_AT_ONCE; i++) {
        if (s->has_id && !s->known && !become_known(borrower, s, ret_closed))
            return PSR_OK;
        psr_record record;
        int passed = -1;
        switch (psr_record_read(&s->stream, &record, &passed)) {
        case PSR_RECORD_NONE_YET:
            return PSR_OK;
        case PSR_RECORD_CLOSED:
            *ret_closed = true;
            return PSR_OK;
        case PSR_RECORD_BROKEN:
            return psr_fail(PSR_ERR_PROTOCOL, "passes more than one descriptor at once");
        case PSR_RECORD_COMPLETE:
            break;
        }
        psr_err err = take_record(borrower, s, &record, passed);
        if (passed >= 0)
            close(passed);
        PSR_TRY(err);
    }
    return PSR_OK;
}

/* ---- serving ---- */

static void turn_away(psr_borrower *borrower, const char *why)
{
    char line[256];
    snprintf(line, sizeof line, "turned away a process that would share memory: %s", why);
    borrower->options.stranger(borrower->options.context, line);
}

/* So that who says nothing keeps nobody out: the oldest of those that are not known goes. */
static void make_room_for_unknown(psr_borrower *borrower)
{
    size_t unknown = 0, oldest = SIZE_MAX;
    for (size_t i = 0; i < borrower->count; i++) {
        if (borrower->sources[i]->known)
            continue;
        unknown++;
        if (oldest == SIZE_MAX || borrower->sources[i]->number < borrower->sources[oldest]->number)
            oldest = i;
    }
    if (unknown < PSR_BORROWER_UNKNOWN_MAX)
        return;
    remove_source(borrower, oldest);
    turn_away(borrower, "it did not say who it is");
}

static source *source_new(psr_borrower *borrower, int fd)
{
    source *s = calloc(1, sizeof *s);
    source **sources =
        s != NULL ? realloc(borrower->sources, (borrower->count + 1) * sizeof(source *)) : NULL;
    if (sources == NULL) {
        free(s);
        return NULL;
    }
    borrower->sources = sources;
    s->stream = psr_record_stream_of(fd);
    s->borrower = borrower;
    s->number = borrower->numbers++;
    atomic_init(&s->holders, 1);
    pthread_mutex_init(&s->mutex, NULL);
    borrower->sources[borrower->count++] = s;
    watch(s, EPOLL_CTL_ADD, EPOLLIN);
    return s;
}

static void let_in(psr_borrower *borrower, int fd)
{
    unsigned user;
    const char *why = NULL;
    if (!psr_share_user(fd, &user) || user != borrower->options.user)
        why = "it is another user's";
    else if (borrower->count >= PSR_BORROWER_SOURCES_MAX)
        why = "too many have come";
    if (why == NULL) {
        make_room_for_unknown(borrower);
        if (source_new(borrower, fd) != NULL)
            return;
        why = "no memory";
    }
    close(fd);
    turn_away(borrower, why);
}

static void accept_some(psr_borrower *borrower)
{
    for (int i = 0; i < PSR_BORROWER_UNKNOWN_MAX; i++) {
        int fd = accept4(borrower->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        let_in(borrower, fd);
    }
}

/* A member's end is known only with its messages, which may still be on their way and refer to its
 * memory. */
static psr_err serve_source(psr_borrower *borrower, size_t at, bool *ret_removed)
{
    source *s = borrower->sources[at];
    bool closed = false;
    pthread_mutex_lock(&s->mutex);
    if (s->asks_for_room)
        give_back(s);
    pthread_mutex_unlock(&s->mutex);
    psr_err err = hear(borrower, s, &closed);
    if (err != PSR_OK && !s->known) {
        turn_away(borrower, psr_err_detail());
        closed = true;
        err = PSR_OK;
    }
    if (err != PSR_OK)
        return psr_fail_context(err, "%s %" PRIu32, psr_role_name(s->peer.role), s->peer.rank);
    *ret_removed = closed && !s->has_memory;
    if (*ret_removed)
        remove_source(borrower, at);
    else if (closed)
        close_source(s);
    return PSR_OK;
}

psr_err psr_borrower_serve(psr_borrower *borrower)
{
    accept_some(borrower);
    for (size_t at = 0; at < borrower->count;) {
        bool removed = false;
        if (borrower->sources[at]->stream.fd >= 0)
            PSR_TRY(serve_source(borrower, at, &removed));
        at += !removed;
    }
    return PSR_OK;
}

psr_err psr_borrower_serve_one(psr_borrower *borrower, uint64_t event)
{
    bool removed;
    if (event == 0) {
        accept_some(borrower);
        return PSR_OK;
    }
    for (size_t at = 0; at < borrower->count; at++)
        if ((borrower->sources[at]->number | PSR_BORROWER_EVENT) == event)
            return borrower->sources[at]->stream.fd >= 0 ? serve_source(borrower, at, &removed)
                                                         : PSR_OK;
    return PSR_OK; /* it was removed meanwhile */
}

/* ---- messages ---- */

static psr_err check_reference(const source *s, const psr_head *head, uint64_t payload_bytes,
                               const psr_reference *reference)
{
    if (!psr_reference_may(head))
        return psr_fail(
            PSR_ERR_PROTOCOL,
            "refers to a payload that is not in float32, nor of VALUES: only such are lent");
    const mapping *arena =
        s != NULL && reference->arena < PSR_SHARED_ARENAS_MAX ? &s->arenas[reference->arena] : NULL;
    if (arena == NULL || arena->data == NULL)
        return psr_fail(PSR_ERR_PROTOCOL, "refers to an arena %" PRIu32 " that it has not shared",
                        reference->arena);
    if (payload_bytes > PSR_PAYLOAD_BYTES_MAX || payload_bytes > arena->bytes ||
        reference->offset > arena->bytes - payload_bytes ||
        reference->offset % psr_reference_alignment(head) != 0)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "refers to %" PRIu64 " bytes at %" PRIu64 " of an arena of %zu bytes",
                        payload_bytes, reference->offset, arena->bytes);
    return PSR_OK;
}

static source *find(const psr_borrower *borrower, const uint8_t id[PSR_ROUTING_ID_BYTES])
{
    for (size_t i = 0; i < borrower->count; i++)
        if (borrower->sources[i]->known &&
            memcmp(borrower->sources[i]->id, id, PSR_ROUTING_ID_BYTES) == 0)
            return borrower->sources[i];
    return NULL;
}

psr_err psr_borrower_take(psr_borrower *borrower, const uint8_t id[PSR_ROUTING_ID_BYTES],
                          psr_peer from, const psr_head *head, uint64_t payload_bytes,
                          const psr_reference *reference, psr_message **ret_message)
{
    source *s = find(borrower, id);
    PSR_TRY(check_reference(s, head, payload_bytes, reference));
    borrowed *b = malloc(sizeof *b);
    if (b == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    mapping *arena = &s->arenas[reference->arena];
    *b = (borrowed){.base = {.from = from,
                             .head = *head,
                             .payload = arena->data + reference->offset,
                             .payload_bytes = (size_t)payload_bytes,
                             .release = borrowed_release},
                    .of = s,
                    .arena = arena,
                    .place = {arena->number, reference->offset},
                    .token = reference->token};
    atomic_fetch_add(&s->holders, 1);
    atomic_fetch_add(&arena->borrowed, 1);
    *ret_message = &b->base;
    return PSR_OK;
}

bool psr_borrowed_place_of(const psr_message *message, psr_borrowed_place *ret_place)
{
    if (message->release != borrowed_release)
        return false;
    *ret_place = ((const borrowed *)message)->place;
    return true;
}

void psr_borrower_retire(psr_borrower *borrower, psr_peer peer)
{
    for (size_t at = borrower->count; at-- > 0;)
        if (borrower->sources[at]->known && psr_peer_equal(borrower->sources[at]->peer, peer))
            remove_source(borrower, at);
}

/* ---- beginning and end ---- */

static psr_err listen_at(psr_borrower *borrower)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, borrower->path, sizeof address.sun_path);
    borrower->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (borrower->listener < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    if (bind(borrower->listener, (const struct sockaddr *)&address, sizeof address) != 0) {
        psr_err err =
            psr_fail(PSR_ERR_IO, "cannot listen at %s: %s", borrower->path, strerror(errno));
        borrower->path[0] = '\0'; /* not ours, so it is not removed */
        return err;
    }
    struct epoll_event event = {.events = EPOLLIN};
    if (listen(borrower->listener, SOMAXCONN) != 0 ||
        epoll_ctl(borrower->options.epoll, EPOLL_CTL_ADD, borrower->listener, &event) != 0)
        return psr_fail(PSR_ERR_IO, "cannot listen at %s: %s", borrower->path, strerror(errno));
    return PSR_OK;
}

psr_err psr_borrower_new(const psr_borrower_options *options, psr_borrower **ret_borrower)
{
    if (strlen(options->path) >= PSR_SHARE_PATH_BYTES)
        return psr_fail(PSR_ERR_IO, "the path %s is too long for a socket", options->path);
    psr_borrower *borrower = calloc(1, sizeof *borrower);
    if (borrower == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    borrower->options = *options;
    borrower->listener = -1;
    strcpy(borrower->path, options->path);
    borrower->options.path = borrower->path;
    psr_err err = listen_at(borrower);
    if (err != PSR_OK) {
        psr_borrower_free(borrower);
        return err;
    }
    *ret_borrower = borrower;
    return PSR_OK;
}

void psr_borrower_free(psr_borrower *borrower)
{
    if (borrower == NULL)
        return;
    while (borrower->count > 0)
        remove_source(borrower, borrower->count - 1);
    if (borrower->listener >= 0)
        close(borrower->listener);
    if (borrower->path[0] != '\0')
        (void)unlink(borrower->path);
    free(borrower->sources);
    free(borrower);
}
