/* What a member can do wrong that shares memory with others on its host: towards shard 0, or worker
 * 0 where there is none. It speaks by itself, with records of its own and messages that refer to
 * what it likes; docs/wire.md has what an honest one says. */
#include "bad_member.h"

#include "net/sharing/share_wire.h"
#include "net/sharing/shared_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FLOATS ((size_t)65536)
#define BYTES (FLOATS * sizeof(float))

/* ---- as who lends ---- */

static psr_err victim(bad *b, const psr_view_member **ret_member)
{
    const psr_view *view = psr_member_view(b->member);
    const psr_view_member *member = psr_view_find(view, (psr_peer){PSR_ROLE_SHARD, 0});
    if (member == NULL)
        member = psr_view_find(view, (psr_peer){PSR_ROLE_WORKER, 0});
    if (member == NULL || member->memory.socket[0] == '\0')
        return psr_fail(PSR_ERR_NOT_FOUND, "nobody shares memory");
    *ret_member = member;
    return PSR_OK;
}

static psr_err dial(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
    *ret_fd = fd;
    return PSR_OK;
}

static psr_err say(int fd, psr_record record, int pass)
{
    return psr_record_write(fd, &record, 1, pass) == PSR_RECORD_WRITTEN
               ? PSR_OK
               : psr_fail(PSR_ERR_IO, "a record: %s", strerror(errno));
}

/* The next record that comes. */
static psr_err hear(int fd, psr_record *ret_record)
{
    psr_record_stream stream = psr_record_stream_of(fd);
    int passed = -1;
    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        (void)poll(&item, 1, -1);
        psr_record_read_result result = psr_record_read(&stream, ret_record, &passed);
        if (passed >= 0)
            close(passed);
        if (result == PSR_RECORD_COMPLETE)
            return PSR_OK;
        if (result != PSR_RECORD_NONE_YET)
            return psr_fail(PSR_ERR_IO, "no record came");
    }
}

/* A channel to the victim, which knows it, and a socket beside it. */
static psr_err begin(bad *b, int *ret_fd)
{
    const psr_view_member *member = NULL;
    psr_record hello = {.kind = PSR_RECORD_HELLO, .id = BAD_ID};
    PSR_TRY(bad_join(b));
    PSR_TRY(victim(b, &member));
    if (member == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "nobody is there");
    PSR_TRY(bad_connect(b, member->peer, member->endpoint));
    PSR_TRY(bad_send(b, psr_msg_hello_head(psr_member_self(b->member)), 0, NULL, 0));
    PSR_TRY(dial(member->memory.socket, ret_fd));
    return say(*ret_fd, hello, -1);
}

/* descriptor: of what is no arena; it lies there as one of so many bytes. */
static psr_err pass(bad *b, int descriptor, uint64_t bytes)
{
    int fd;
    if (descriptor < 0)
        return psr_fail(PSR_ERR_IO, "a descriptor: %s", strerror(errno));
    PSR_TRY(begin(b, &fd));
    return say(fd, (psr_record){.kind = PSR_RECORD_ARENA, .value = bytes}, descriptor);
}

static psr_err pass_a_pipe(bad *b)
{
    int ends[2] = {-1, -1};
    (void)!pipe(ends);
    return pass(b, ends[0], BYTES);
}

static psr_err pass_a_file(bad *b)
{
    return pass(b, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), BYTES);
}

static psr_err pass_dev_zero(bad *b)
{
    return pass(b, open("/dev/zero", O_RDWR | O_CLOEXEC), BYTES);
}

static int memory_of(size_t bytes, int seals)
{
    int fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0 ? fd : -1;
}

static psr_err pass_what_can_shrink(bad *b)
{
    return pass(b, memory_of(BYTES, F_SEAL_GROW), BYTES);
}

static psr_err pass_less_than_it_says(bad *b)
{
    return pass(b, memory_of(4096, F_SEAL_GROW | F_SEAL_SHRINK), BYTES);
}

static psr_err pass_more_than_there_is(bad *b)
{
    return pass(b, memory_of(4096, F_SEAL_GROW | F_SEAL_SHRINK), UINT64_MAX - 4095);
}

static psr_err pass_too_many(bad *b)
{
    int fd, memory = memory_of(BYTES, F_SEAL_GROW | F_SEAL_SHRINK);
    PSR_TRY(begin(b, &fd));
    for (uint32_t arena = 0; arena <= PSR_SHARED_ARENAS_MAX; arena++)
        PSR_TRY(say(fd, (psr_record){.kind = PSR_RECORD_ARENA, .arena = arena, .value = BYTES},
                    memory));
    return PSR_OK;
}

static psr_err flood(bad *b)
{
    int fd;
    PSR_TRY(begin(b, &fd));
    for (int i = 0; i < 100000; i++) /* until it is hung up on */
        if (say(fd, (psr_record){.kind = PSR_RECORD_RETURNED, .value = (uint64_t)i}, -1) !=
                PSR_OK &&
            errno != EAGAIN)
            break;
    return PSR_OK;
}

/* ---- as who refers ---- */

/* A slice that would be right. */
static psr_err refer(bad *b, psr_reference reference, psr_encoding encoding)
{
    uint8_t bytes[PSR_REFERENCE_BYTES];
    psr_head head = psr_view_shards(psr_member_view(b->member)) > 0
                        ? psr_msg_push_head(&(psr_msg_push){.span = {0, FLOATS}, .answer = true})
                        : psr_msg_ring_head(&(psr_msg_ring){.span = {0, FLOATS}});
    head.encoding = encoding;
    psr_reference_encode(&reference, bytes);
    return bad_send(b, head, BYTES, bytes, sizeof bytes);
}

/* To an arena that was taken. */
static psr_err lend_and_refer(bad *b, psr_reference reference, psr_encoding encoding)
{
    int fd;
    psr_record answer = {0};
    PSR_TRY(begin(b, &fd));
    PSR_TRY(say(fd, (psr_record){.kind = PSR_RECORD_ARENA, .value = 2 * BYTES},
                memory_of(2 * BYTES, F_SEAL_GROW | F_SEAL_SHRINK)));
    PSR_TRY(hear(fd, &answer));
    if (answer.kind != PSR_RECORD_TAKEN)
        return psr_fail(PSR_ERR_PROTOCOL, "the memory was not taken");
    return refer(b, reference, encoding);
}

static psr_err refer_to_nothing(bad *b)
{
    int fd;
    PSR_TRY(begin(b, &fd));
    return refer(b, (psr_reference){0, 0, 1}, PSR_ENCODING_FLOAT32);
}

static psr_err refer_to_another_arena(bad *b)
{
    return lend_and_refer(b, (psr_reference){3, 0, 1}, PSR_ENCODING_FLOAT32);
}

static psr_err refer_beyond(bad *b)
{
    return lend_and_refer(b, (psr_reference){0, BYTES + 4, 1}, PSR_ENCODING_FLOAT32);
}

static psr_err refer_beyond_2_64(bad *b)
{
    return lend_and_refer(b, (psr_reference){0, UINT64_MAX - BYTES + 1, 1}, PSR_ENCODING_FLOAT32);
}

static psr_err refer_to_an_odd_place(bad *b)
{
    return lend_and_refer(b, (psr_reference){0, 2, 1}, PSR_ENCODING_FLOAT32);
}

static psr_err refer_to_counts(bad *b)
{
    return lend_and_refer(b, (psr_reference){0, 0, 1}, PSR_ENCODING_TOPK);
}

/* ---- as who borrows ---- */

/* Takes what it is lent, and then says that. */
static psr_err borrow_and_say(bad *b, psr_record record, int pass)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    psr_record heard = {0};
    PSR_TRY(bad_open(b));
    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             psr_transport_share_path(b->transport));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 8) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", address.sun_path, strerror(errno));
    PSR_TRY(bad_join(b));
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "nobody lends: %s", strerror(errno));
    PSR_TRY(hear(fd, &heard)); /* HELLO */
    PSR_TRY(hear(fd, &heard)); /* ARENA */
    PSR_TRY(say(fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1));
    return say(fd, record, pass);
}

static psr_err return_what_it_was_not_lent(bad *b)
{
    return borrow_and_say(b, (psr_record){.kind = PSR_RECORD_RETURNED, .value = 1234567}, -1);
}

static psr_err take_twice(bad *b)
{
    return borrow_and_say(b, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
}

static psr_err refuse_what_it_has_taken(bad *b)
{
    return borrow_and_say(b, (psr_record){.kind = PSR_RECORD_REFUSED, .value = UINT64_MAX}, -1);
}

static psr_err pass_as_a_borrower(bad *b)
{
    return borrow_and_say(b, (psr_record){.kind = PSR_RECORD_RETURNED}, STDOUT_FILENO);
}

const behaviour bad_memory_behaviours[] = {
    {"pass-a-pipe", pass_a_pipe},
    {"pass-a-file", pass_a_file},
    {"pass-dev-zero", pass_dev_zero},
    {"pass-what-can-shrink", pass_what_can_shrink},
    {"pass-less-than-it-says", pass_less_than_it_says},
    {"pass-more-than-there-is", pass_more_than_there_is},
    {"pass-too-many", pass_too_many},
    {"flood-records", flood},
    {"refer-to-nothing", refer_to_nothing},
    {"refer-to-another-arena", refer_to_another_arena},
    {"refer-beyond", refer_beyond},
    {"refer-beyond-2-64", refer_beyond_2_64},
    {"refer-to-an-odd-place", refer_to_an_odd_place},
    {"refer-to-counts", refer_to_counts},
    {"return-what-it-was-not-lent", return_what_it_was_not_lent},
    {"take-twice", take_twice},
    {"refuse-what-it-has-taken", refuse_what_it_has_taken},
    {"pass-as-a-borrower", pass_as_a_borrower},
};
const size_t bad_memory_behaviour_count =
    sizeof bad_memory_behaviours / sizeof *bad_memory_behaviours;
