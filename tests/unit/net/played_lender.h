/* A borrower, and whoever lends to it played by the test: on a real socket, record by record. */
#ifndef PSR_TESTS_PLAYED_LENDER_H
#define PSR_TESTS_PLAYED_LENDER_H

#include "tests/unit/network_fixture.h"

#include "net/sharing/borrower.h"
#include "net/sharing/shared_arena.h"
#include "net/address/socket_directory.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const uint8_t known_id[PSR_ROUTING_ID_BYTES] = "a known channel",
                     other_id[PSR_ROUTING_ID_BYTES] = "another of them";

typedef struct played_lender {
    psr_socket_directory directory;
    char path[PSR_SHARE_PATH_BYTES];
    int epoll;
    psr_borrower *borrower;
    bool introduced; /* the channels have said who they are */
    char said[1024];
} played_lender;

static inline bool known(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer)
{
    bool first = memcmp(id, known_id, PSR_ROUTING_ID_BYTES) == 0;
    if (!((played_lender *)context)->introduced ||
        (!first && memcmp(id, other_id, PSR_ROUTING_ID_BYTES) != 0))
        return false;
    *ret_peer = first ? worker1 : worker0;
    return true;
}

static inline void note(void *context, const char *line)
{
    char *said = ((played_lender *)context)->said;
    size_t used = strlen(said);
    snprintf(said + used, sizeof((played_lender *)context)->said - used, "%s\n", line);
}

/* pipes: those that the borrower reads; NULL: none. */
static inline void play_with(played_lender *p, unsigned user, psr_pipes_in *pipes)
{
    *p = (played_lender){.introduced = true};
    assert_ok(psr_socket_directory_make(NULL, &p->directory));
    assert_true((size_t)snprintf(p->path, sizeof p->path, "%s/worker-0.fd", p->directory.path) <
                sizeof p->path);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_ok(psr_borrower_new(&(psr_borrower_options){.path = p->path,
                                                       .user = user,
                                                       .epoll = p->epoll,
                                                       .pipes = pipes,
                                                       .context = p,
                                                       .known = known,
                                                       .stranger = note},
                               &p->borrower));
}

static inline void play_for(played_lender *p, unsigned user)
{
    play_with(p, user, NULL);
}

static inline void play(played_lender *p)
{
    play_for(p, geteuid());
}

static inline void end_play(played_lender *p)
{
    psr_borrower_free(p->borrower);
    assert_int_equal(access(p->path, F_OK), -1);
    close(p->epoll);
    psr_socket_directory_remove(&p->directory);
    assert_int_equal(access(p->directory.path, F_OK), -1);
}

static inline int connect_to(const played_lender *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, p->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void say(int fd, psr_record record, int pass)
{
    assert_int_equal(psr_record_write(fd, &record, 1, pass), PSR_RECORD_WRITTEN);
}

static inline int greet_as(const played_lender *p, const uint8_t id[PSR_ROUTING_ID_BYTES])
{
    int fd = connect_to(p);
    psr_record hello = {.kind = PSR_RECORD_HELLO};
    memcpy(hello.id, id, sizeof hello.id);
    say(fd, hello, -1);
    return fd;
}

static inline int greet(const played_lender *p)
{
    return greet_as(p, known_id);
}

static inline psr_record answer_to(int fd)
{
    psr_record_stream stream = psr_record_stream_of(fd);
    psr_record record = {0};
    int passed;
    assert_int_equal(psr_record_read(&stream, &record, &passed), PSR_RECORD_COMPLETE);
    return record;
}

static inline void offer(played_lender *p, int fd, const psr_shared_arena *arena)
{
    say(fd, (psr_record){.kind = PSR_RECORD_ARENA, .value = arena->bytes}, arena->fd);
    assert_ok(psr_borrower_serve(p->borrower));
    assert_int_equal(answer_to(fd).kind, PSR_RECORD_TAKEN);
}

static inline psr_err take(played_lender *p, psr_reference reference, uint64_t bytes,
                           psr_encoding encoding, psr_message **ret_message)
{
    const psr_head head = {.type = PSR_MSG_PUSH, .encoding = encoding};
    return psr_borrower_take(p->borrower, known_id, worker1, &head, bytes, &reference, ret_message);
}

#endif
