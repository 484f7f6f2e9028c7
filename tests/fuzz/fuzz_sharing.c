/* Both ends of shared memory over hostile bytes: records on the sockets, with a descriptor or
 * without, and references in messages. What is taken is read to its last float and given back. */
#include "net/sharing/sharing.h"
#include "net/address/socket_directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FLOATS = 4096 };

static const psr_peer lends = {PSR_ROLE_WORKER, 1};
static const uint8_t id[PSR_ROUTING_ID_BYTES] = "the channel";
static psr_socket_directory directory = {.hold = -1};
static psr_shared_arena arena = {.fd = -1};
static char path[PSR_SHARE_PATH_BYTES];
static volatile float seen;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void clean_up(void)
{
    psr_shared_arena_done(&arena);
    psr_socket_directory_remove(&directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (psr_socket_directory_make(NULL, &directory) != PSR_OK ||
        psr_shared_arena_new(FLOATS, &arena) != PSR_OK ||
        (size_t)snprintf(path, sizeof path, "%s/x.fd", directory.path) >= sizeof path)
        abort();
    atexit(clean_up);
    return 0;
}

static bool known(void *context, const uint8_t of[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer)
{
    (void)context;
    *ret_peer = lends;
    return memcmp(of, id, sizeof id) == 0;
}

static void stranger(void *context, const char *line)
{
    (void)context;
    if (strlen(line) > 512)
        abort();
}

static void expect(psr_err err)
{
    if (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_IO)
        abort();
}

/* In the first byte, beside the number of records. */
enum {
    HOLDS = 8,            /* a message of arena 0 is held over all records */
    WITHDRAWS_ASKED = 16, /* the lender withdraws what is not taken yet */
    WITHDRAWS_TAKEN = 32, /* the lender withdraws what was taken */
    FLOAT_BYTES = sizeof(float)
};

static void read_all(const psr_message *message)
{
    for (size_t i = 0; i < message->payload_bytes / FLOAT_BYTES; i++)
        seen = ((const float *)message->payload)[i];
}

/* It lies in arena 0, which may be withdrawn while it is read. */
static psr_message *held_message(psr_borrower *borrower)
{
    const psr_reference reference = {.token = 1};
    const psr_head head = {.type = PSR_MSG_PUSH, .encoding = PSR_ENCODING_FLOAT32};
    psr_message *message = NULL;
    expect(
        psr_borrower_take(borrower, id, lends, &head, FLOATS * FLOAT_BYTES, &reference, &message));
    return message;
}

/* The bytes are: how many records of the socket; those, each behind a byte of which the lowest bit
 * passes a descriptor; then references, each with length and encoding. */
static void take_records(psr_borrower *borrower, int fd, const uint8_t *data, size_t size,
                         psr_message **ret_held)
{
    size_t records = data[0] % 8, at = 1;
    psr_record record = {.kind = PSR_RECORD_HELLO};
    memcpy(record.id, id, sizeof id);
    (void)psr_record_write(fd, &record, 1, -1);
    record = (psr_record){.kind = PSR_RECORD_ARENA, .value = arena.bytes};
    (void)psr_record_write(fd, &record, 1, arena.fd);
    expect(psr_borrower_serve(borrower));
    *ret_held = data[0] & HOLDS ? held_message(borrower) : NULL;
    for (; records > 0 && size - at > sizeof record; records--, at += 1 + sizeof record) {
        memcpy(&record, data + at + 1, sizeof record);
        (void)psr_record_write(fd, &record, 1, data[at] & 1 ? arena.fd : -1);
        psr_err err = psr_borrower_serve(borrower);
        expect(err);
        if (err != PSR_OK)
            return; /* the run has ended */
    }
    for (; size - at >= PSR_REFERENCE_BYTES + 5; at += PSR_REFERENCE_BYTES + 5) {
        psr_reference reference;
        uint32_t bytes;
        memcpy(&bytes, data + at + PSR_REFERENCE_BYTES, sizeof bytes);
        const psr_head head = {.type = PSR_MSG_PUSH,
                               .encoding = (psr_encoding)(data[at + PSR_REFERENCE_BYTES + 4] % 8)};
        psr_message *message = NULL;
        if (!psr_reference_decode(data + at, PSR_REFERENCE_BYTES, &reference))
            continue;
        psr_err err = psr_borrower_take(borrower, id, lends, &head, bytes, &reference, &message);
        expect(err);
        if (err == PSR_OK)
            read_all(message);
        psr_message_free(&message);
    }
}

static void take_all(psr_borrower *borrower, int fd, const uint8_t *data, size_t size)
{
    psr_message *held = NULL;
    take_records(borrower, fd, data, size, &held);
    if (held != NULL)
        read_all(held);
    psr_message_free(&held);
    psr_borrower_settle(borrower);
}

static void count_down(void *context)
{
    if (--*(int *)context < 0)
        abort(); /* given back twice */
}

/* The same bytes, as what a borrower says. */
static void give_back_all(const uint8_t *data, size_t size)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), lent = 4;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, sizeof address.sun_path);
    psr_lender *lender;
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1) != 0 || psr_lender_new(lends, path, geteuid(), id, &lender) != PSR_OK ||
        psr_lender_offer(lender, &arena) != PSR_OK)
        abort();
    psr_lender_pass_pipe(lender);
    int fd = accept(listener, NULL, NULL);
    if (data[0] & WITHDRAWS_ASKED)
        psr_lender_withdraw(lender, &arena);
    const psr_record taken = {.kind = PSR_RECORD_TAKEN};
    (void)psr_record_write(fd, &taken, 1, -1);
    expect(psr_lender_serve(lender));
    if (data[0] & WITHDRAWS_TAKEN)
        psr_lender_withdraw(lender, &arena);
    const bool lent_from = (data[0] & (WITHDRAWS_ASKED | WITHDRAWS_TAKEN)) == 0;
    const psr_payload payload = {arena.values, PSR_REFERENCE_LEAST, count_down, &lent};
    const psr_head head = {.type = PSR_MSG_PUSH, .encoding = PSR_ENCODING_FLOAT32};
    psr_reference reference;
    for (int i = 0; i < 4; i++)
        if (psr_lender_refer(lender, &head, &payload, &reference) != lent_from)
            abort();
    (void)!send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    expect(psr_lender_serve(lender));
    psr_lender_free(lender);
    if (lent != (lent_from ? 0 : 4))
        abort();
    close(fd);
    close(listener);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    psr_borrower *borrower;
    int epoll = epoll_create1(EPOLL_CLOEXEC), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    psr_pipes_in *pipes;
    if (psr_pipes_in_new(&pipes) != PSR_OK)
        abort();
    const psr_borrower_options options = {.path = path,
                                          .user = geteuid(),
                                          .epoll = epoll,
                                          .pipes = pipes,
                                          .known = known,
                                          .stranger = stranger};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, sizeof address.sun_path);
    if (psr_borrower_new(&options, &borrower) != PSR_OK ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        abort();
    take_all(borrower, fd, data, size);
    psr_borrower_free(borrower);
    psr_pipes_in_free(pipes);
    close(fd);
    close(epoll);
    give_back_all(data, size);
    return 0;
}
