#include "net/sharing/lives.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

enum { ACCEPTED_AT_ONCE = 64 };

/* A connection to a process of this host. */
typedef struct life {
    psr_record_stream stream;
    int pidfd;                        /* -1: the process cannot be held; its socket tells its end */
    uint8_t id[PSR_ROUTING_ID_BYTES]; /* of a member */
    bool known;                       /* it has said HELLO, and is a member, or the scheduler */
    bool ended;                       /* without a goodbye; both descriptors are closed */
} life;

struct psr_lives {
    unsigned user;
    int epoll, listener;
    psr_lives_listening listening;
    char path[PSR_SHARE_PATH_BYTES]; /* of the listener's socket; "": it has no file */
    life *members;                   /* in the order in which they came */
    size_t count;
    life scheduler; /* stream.fd -1: it is not watched, or has ended */
    uint32_t host_rank;
};

static const life NO_LIFE = {.stream = {.fd = -1, .passed = -1}, .pidfd = -1};

/* ---- connections ---- */

/* Descriptors are taken from epoll by name: a child that this process has forked may still hold
 * them, and epoll would report them for ever. */
static void unwatch(const psr_lives *lives, int fd)
{
    if (fd >= 0)
        (void)epoll_ctl(lives->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static bool watch(const psr_lives *lives, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(lives->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void hang_up(const psr_lives *lives, life *l)
{
    unwatch(lives, l->stream.fd);
    unwatch(lives, l->pidfd);
    psr_record_stream_close(&l->stream);
    if (l->pidfd >= 0)
        close(l->pidfd);
    l->pidfd = -1;
}

static bool is_readable(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&end, 1, 0) == 1;
}

/* The process at the other end, which may be in another namespace of processes: then it has no
 * number here. A number is taken only if its process still holds the socket, so it is not another
 * one's by now. */
static int hold_process(int fd)
{
    struct ucred who = {0};
    struct pollfd hung_up = {.fd = fd};
    socklen_t size = sizeof who;
    int pidfd = -1;
    socklen_t pidfd_size = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pidfd_size) == 0 && pidfd >= 0)
        return pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0)
        return -1;
    pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
    if (pidfd >= 0 && poll(&hung_up, 1, 0) != 0) {
        close(pidfd);
        pidfd = -1;
    }
    return pidfd;
}

/* Takes the descriptor. false: it is another user's, or cannot be watched. */
static bool begin(const psr_lives *lives, int fd, life *ret_life)
{
    unsigned user;
    life l = NO_LIFE;
    l.stream = psr_record_stream_of(fd);
    if (psr_share_user(fd, &user) && user == lives->user && watch(lives, fd)) {
        l.pidfd = hold_process(fd);
        if (l.pidfd < 0 || watch(lives, l.pidfd)) {
            *ret_life = l;
            return true;
        }
    }
    hang_up(lives, &l);
    return false;
}

static bool say(const life *l, uint32_t kind, uint32_t arena,
                const uint8_t id[PSR_ROUTING_ID_BYTES])
{
    psr_record record = {.kind = kind, .arena = arena};
    if (id != NULL)
        memcpy(record.id, id, sizeof record.id);
    return psr_record_write(l->stream.fd, &record, 1, -1) == PSR_RECORD_WRITTEN;
}

static void say_goodbye(psr_lives *lives, life *l)
{
    if (l->stream.fd >= 0)
        (void)say(l, PSR_RECORD_BYE, 0, NULL);
    hang_up(lives, l);
}

/* ---- what they say ---- */

static bool take_hello(psr_lives *lives, life *l, const psr_record *record)
{
    psr_peer peer;
    if (l == &lives->scheduler) {
        lives->host_rank = record->arena;
        return true;
    }
    memcpy(l->id, record->id, sizeof l->id);
    return lives->listening.known(lives->listening.context, l->id, &peer) &&
           say(l, PSR_RECORD_HELLO, lives->listening.host_rank, NULL);
}

/* Whether to go on listening to it. */
static bool take_record(psr_lives *lives, life *l, const psr_record *record)
{
    if (l->known || record->kind != PSR_RECORD_HELLO)
        return false; /* BYE, or what nobody says here */
    l->known = take_hello(lives, l, record);
    return l->known;
}

/* Reads all that it has said. A process that has ended has said all that it ever will, so it is
 * looked at first. */
static void hear(psr_lives *lives, life *l)
{
    bool ended = is_readable(l->pidfd);
    for (;;) {
        psr_record record;
        int passed = -1;
        const psr_record_read_result read = psr_record_read(&l->stream, &record, &passed);
        if (read == PSR_RECORD_NONE_YET)
            break;
        ended = ended || read == PSR_RECORD_CLOSED;
        if (read == PSR_RECORD_CLOSED)
            break;
        const bool goes_on =
            read == PSR_RECORD_COMPLETE && passed < 0 && take_record(lives, l, &record);
        if (passed >= 0)
            close(passed);
        if (!goes_on) {
            hang_up(lives, l);
            return;
        }
    }
    if (!ended)
        return;
    l->ended = l->known;
    hang_up(lives, l);
}

/* ---- members ---- */

static void remove_member(psr_lives *lives, size_t at)
{
    hang_up(lives, &lives->members[at]);
    lives->count--;
    memmove(&lives->members[at], &lives->members[at + 1],
            (lives->count - at) * sizeof *lives->members);
}

/* So that who says nothing keeps nobody out: the oldest of those that are not known goes. */
static void make_room_for_unknown(psr_lives *lives)
{
    size_t unknown = 0, oldest = 0;
    for (size_t i = lives->count; i-- > 0;) {
        if (lives->members[i].known)
            continue;
        unknown++;
        oldest = i;
    }
    if (unknown >= PSR_LIVES_UNKNOWN_MAX)
        remove_member(lives, oldest);
}

static void let_in(psr_lives *lives, int fd)
{
    life *grown = NULL;
    make_room_for_unknown(lives);
    if (lives->count < PSR_LIVES_MAX)
        grown = realloc(lives->members, (lives->count + 1) * sizeof *grown);
    if (grown == NULL) {
        close(fd);
        return;
    }
    lives->members = grown;
    lives->count += begin(lives, fd, &grown[lives->count]);
}

static void accept_some(psr_lives *lives)
{
    for (int i = 0; i < ACCEPTED_AT_ONCE && lives->listener >= 0; i++) {
        int fd = accept4(lives->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        let_in(lives, fd);
    }
}

bool psr_lives_any_ended(const psr_lives *lives)
{
    for (size_t i = 0; i < lives->count; i++)
        if (lives->members[i].ended)
            return true;
    return false;
}

bool psr_lives_ended(psr_lives *lives, psr_peer *ret_peer)
{
    for (size_t i = 0; i < lives->count;) {
        psr_peer peer;
        const life *l = &lives->members[i];
        if (!l->ended) {
            i++;
            continue;
        }
        const bool is = lives->listening.known(lives->listening.context, l->id, &peer);
        remove_member(lives, i);
        if (is) {
            *ret_peer = peer;
            return true;
        }
    }
    return false;
}

void psr_lives_serve(psr_lives *lives)
{
    accept_some(lives);
    for (size_t i = lives->count; i-- > 0;) {
        life *l = &lives->members[i];
        if (l->stream.fd >= 0)
            hear(lives, l);
        if (l->stream.fd < 0 && !l->ended)
            remove_member(lives, i);
    }
    if (lives->scheduler.stream.fd >= 0)
        hear(lives, &lives->scheduler);
}

/* ---- addresses ---- */

/* "ipc:///DIRECTORY/NAME": the file DIRECTORY/NAME.end; "tcp://HOST:PORT": the abstract name
 * "psring-end-PORT", which the processes in one namespace of networks see. *ret_path: the file; "":
 * there is none. 0: there is no such address. */
static socklen_t address_of(const char *endpoint, struct sockaddr_un *ret_address,
                            char ret_path[PSR_SHARE_PATH_BYTES])
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    ret_path[0] = '\0';
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) == 0 && colon != NULL) {
        const int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1,
                                    "psring-end-%lu", strtoul(colon + 1, NULL, 10));
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    }
    if (strncmp(endpoint, "ipc://", 6) != 0 ||
        strlen(endpoint + 6) + strlen(".end") >= PSR_SHARE_PATH_BYTES)
        return 0;
    (void)snprintf(ret_path, PSR_SHARE_PATH_BYTES, "%s.end", endpoint + 6);
    memcpy(ret_address->sun_path, ret_path, strlen(ret_path));
    return sizeof *ret_address;
}

psr_err psr_lives_listen(psr_lives *lives, const psr_lives_listening *listening)
{
    struct sockaddr_un address;
    char path[PSR_SHARE_PATH_BYTES];
    const socklen_t size = address_of(listening->endpoint, &address, path);
    if (size == 0)
        return psr_fail(PSR_ERR_IO, "there is no room for a socket's name beside %s",
                        listening->endpoint);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    if (path[0] != '\0')
        (void)unlink(path); /* of a process that was killed: the endpoint is this one's now */
    const bool bound = bind(fd, (const struct sockaddr *)&address, size) == 0;
    if (!bound || listen(fd, SOMAXCONN) != 0 || !watch(lives, fd)) {
        psr_err err = psr_fail(PSR_ERR_IO, "cannot listen beside %s: %s", listening->endpoint,
                               strerror(errno));
        if (bound && path[0] != '\0')
            (void)unlink(path);
        close(fd);
        return err;
    }
    lives->listener = fd;
    lives->listening = *listening;
    lives->listening.endpoint = NULL;
    memcpy(lives->path, path, sizeof path);
    return PSR_OK;
}

void psr_lives_greet(psr_lives *lives, const char *endpoint, const uint8_t id[PSR_ROUTING_ID_BYTES])
{
    struct sockaddr_un address;
    char path[PSR_SHARE_PATH_BYTES];
    const socklen_t size = address_of(endpoint, &address, path);
    if (lives->scheduler.stream.fd >= 0 || size == 0)
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&address, size) != 0) {
        close(fd);
        return;
    }
    if (begin(lives, fd, &lives->scheduler) && !say(&lives->scheduler, PSR_RECORD_HELLO, 0, id))
        hang_up(lives, &lives->scheduler);
}

void psr_lives_part(psr_lives *lives)
{
    say_goodbye(lives, &lives->scheduler);
    lives->scheduler = NO_LIFE;
}

bool psr_lives_scheduler_ended(const psr_lives *lives)
{
    return lives->scheduler.ended;
}

uint32_t psr_lives_scheduler_rank(const psr_lives *lives)
{
    return lives->host_rank;
}

/* ---- life ---- */

int psr_lives_fd(const psr_lives *lives)
{
    return lives->epoll;
}

psr_err psr_lives_new(unsigned user, psr_lives **ret_lives)
{
    psr_lives *lives = calloc(1, sizeof *lives);
    if (lives == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to watch processes");
    *lives =
        (psr_lives){.user = user, .listener = -1, .scheduler = NO_LIFE, .host_rank = PSR_RANK_ANY};
    lives->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (lives->epoll < 0) {
        free(lives);
        return psr_fail(PSR_ERR_IO, "no descriptor to wait on: %s", strerror(errno));
    }
    *ret_lives = lives;
    return PSR_OK;
}

void psr_lives_free(psr_lives *lives)
{
    if (lives == NULL)
        return;
    say_goodbye(lives, &lives->scheduler);
    for (size_t i = 0; i < lives->count; i++)
        say_goodbye(lives, &lives->members[i]);
    if (lives->path[0] != '\0')
        (void)unlink(lives->path);
    if (lives->listener >= 0) {
        unwatch(lives, lives->listener);
        close(lives->listener);
    }
    close(lives->epoll);
    free(lives->members);
    free(lives);
}
