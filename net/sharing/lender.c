#include "net/sharing/lender.h"

#include "net/sharing/lends.h"
#include "net/sharing/pipe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef enum offer_state {
    OFFER_NONE,
    OFFER_ASKED,    /* the peer has not answered */
    OFFER_TAKEN,    /* the peer has mapped the arena */
    OFFER_REFUSED,  /* it could not */
    OFFER_GIVEN_UP, /* the arena was withdrawn before the peer's answer, which is still to come */
    OFFER_UNTOLD,   /* the peer has mapped it, and has no room to hear that it was withdrawn */
} offer_state;

/* The number of an arena is the place of its offer. */
typedef struct offer {
    offer_state state;
    const psr_shared_arena *arena; /* where it is asked, taken or refused */
} offer;

struct psr_lender {
    psr_peer peer;
    psr_record_stream stream;
    offer offers[PSR_SHARED_ARENAS_MAX];
    psr_lends lends;
    psr_shared_arena pipe;  /* the ring's memory; without a descriptor, once it is passed */
    bool pipe_asked;        /* the peer has not answered */
    psr_pipe_writer writer; /* board NULL: the peer reads no pipe, or not yet */
    size_t board_bytes;     /* of the mapping */
};

/* ---- beginning and end ---- */

static psr_err connect_to(psr_lender *lender, const char *path, unsigned user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned other;
    if (strlen(path) >= sizeof address.sun_path)
        return psr_fail(PSR_ERR_IO, "the path %s is too long for a socket", path);
    strcpy(address.sun_path, path);
    lender->stream =
        psr_record_stream_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (lender->stream.fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    if (connect(lender->stream.fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return psr_fail(PSR_ERR_IO, "it takes no memory at %s: %s", path, strerror(errno));
    if (!psr_share_user(lender->stream.fd, &other) || other != user)
        return psr_fail(PSR_ERR_DENIED, "another user listens at %s", path);
    return PSR_OK;
}

psr_err psr_lender_new(psr_peer peer, const char *path, unsigned user,
                       const uint8_t id[PSR_ROUTING_ID_BYTES], psr_lender **ret_lender)
{
    psr_lender *lender = calloc(1, sizeof *lender);
    if (lender == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    lender->peer = peer;
    lender->pipe = PSR_SHARED_ARENA_NONE;
    psr_err err = connect_to(lender, path, user);
    if (err == PSR_OK) {
        psr_record hello = {.kind = PSR_RECORD_HELLO};
        memcpy(hello.id, id, sizeof hello.id);
        if (psr_record_write(lender->stream.fd, &hello, 1, -1) != PSR_RECORD_WRITTEN)
            err = psr_fail(PSR_ERR_IO, "it hung up at %s", path);
    }
    if (err != PSR_OK) {
        psr_lender_free(lender);
        return err;
    }
    *ret_lender = lender;
    return PSR_OK;
}

static void hang_up(psr_lender *lender)
{
    psr_record_stream_close(&lender->stream);
    psr_lends_end_all(&lender->lends);
}

void psr_lender_free(psr_lender *lender)
{
    if (lender == NULL)
        return;
    hang_up(lender);
    psr_lends_done(&lender->lends);
    psr_shared_arena_done(&lender->pipe);
    if (lender->writer.board != NULL)
        munmap((void *)(uintptr_t)lender->writer.board, lender->board_bytes);
    free(lender);
}

/* ---- offers ---- */

/* The offer of that arena; NULL: the first one that is of none. PSR_SHARED_ARENAS_MAX: there is no
 * such offer. */
static uint32_t find_offer(const psr_lender *lender, const psr_shared_arena *arena)
{
    uint32_t a = 0;
    while (a < PSR_SHARED_ARENAS_MAX && (arena != NULL ? lender->offers[a].arena != arena
                                                       : lender->offers[a].state != OFFER_NONE))
        a++;
    return a;
}

psr_err psr_lender_offer(psr_lender *lender, const psr_shared_arena *arena)
{
    const uint32_t free_offer = find_offer(lender, NULL);
    if (lender->stream.fd < 0 || free_offer == PSR_SHARED_ARENAS_MAX ||
        find_offer(lender, arena) < PSR_SHARED_ARENAS_MAX)
        return PSR_OK; /* it has hung up, or has too many, or has this one */
    psr_record record = {.kind = PSR_RECORD_ARENA, .arena = free_offer, .value = arena->bytes};
    if (psr_record_write(lender->stream.fd, &record, 1, arena->fd) != PSR_RECORD_WRITTEN)
        return psr_fail(PSR_ERR_IO, "it takes no memory: %s", strerror(errno));
    lender->offers[free_offer] = (offer){OFFER_ASKED, arena};
    return PSR_OK;
}

/* The peer unmaps it. */
static void tell_withdrawn(psr_lender *lender, uint32_t a)
{
    const psr_record record = {.kind = PSR_RECORD_WITHDRAWN, .arena = a};
    const bool told = psr_record_write(lender->stream.fd, &record, 1, -1) != PSR_RECORD_FULL;
    lender->offers[a] = (offer){.state = told ? OFFER_NONE : OFFER_UNTOLD};
}

void psr_lender_withdraw(psr_lender *lender, const psr_shared_arena *arena)
{
    const uint32_t a = find_offer(lender, arena);
    if (a == PSR_SHARED_ARENAS_MAX)
        return;
    if (lender->offers[a].state == OFFER_TAKEN && lender->stream.fd >= 0)
        tell_withdrawn(lender, a);
    else if (lender->offers[a].state == OFFER_ASKED)
        lender->offers[a] = (offer){.state = OFFER_GIVEN_UP};
    else
        lender->offers[a] = (offer){.state = OFFER_NONE};
}

/* ---- the pipe ---- */

void psr_lender_pass_pipe(psr_lender *lender)
{
    if (lender->stream.fd < 0 ||
        psr_shared_arena_new(PSR_PIPE_BYTES / sizeof(float), &lender->pipe) != PSR_OK)
        return;
    const psr_record record = {.kind = PSR_RECORD_PIPE, .value = lender->pipe.bytes};
    lender->pipe_asked =
        psr_record_write(lender->stream.fd, &record, 1, lender->pipe.fd) == PSR_RECORD_WRITTEN;
    close(lender->pipe.fd); /* the mappings suffice */
    lender->pipe.fd = -1;
}

/* passed: the descriptor that came with it, borrowed; -1: none. */
static psr_err take_board(psr_lender *lender, const psr_record *record, int passed)
{
    const void *board;
    if (!lender->pipe_asked)
        return psr_fail(PSR_ERR_PROTOCOL, "shows a board, and was passed no pipe");
    lender->pipe_asked = false;
    if (passed < 0)
        return PSR_OK; /* it reads none, or this process has too many descriptors */
    if (record->value < sizeof(psr_board) || record->value > SIZE_MAX ||
        record->arena >= PSR_PIPES_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "shows a board of %" PRIu64 " bytes, with place %" PRIu32,
                        record->value, record->arena);
    const psr_err err = psr_shared_arena_map(passed, (size_t)record->value, &board);
    if (err == PSR_ERR_NOMEM)
        return PSR_OK;
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_PROTOCOL, "its board");
    lender->board_bytes = (size_t)record->value;
    lender->writer = (psr_pipe_writer){
        .ring = (uint8_t *)lender->pipe.values, .board = board, .place = record->arena};
    return PSR_OK;
}

bool psr_lender_has_pipe(const psr_lender *lender)
{
    return lender->writer.board != NULL && lender->stream.fd >= 0;
}

psr_err psr_lender_put(psr_lender *lender, const void *first, size_t first_bytes,
                       const void *second, size_t second_bytes, bool *ret_put)
{
    *ret_put = false;
    if (!psr_lender_has_pipe(lender))
        return PSR_OK;
    switch (psr_pipe_put(&lender->writer, first, first_bytes, second, second_bytes)) {
    case PSR_PIPE_FULL:
        return PSR_OK;
    case PSR_PIPE_READER_LIES:
        return psr_fail(PSR_ERR_PROTOCOL,
                        "%s %" PRIu32 " says that it has read what was not written",
                        psr_role_name(lender->peer.role), lender->peer.rank);
    case PSR_PIPE_PUT:
        break;
    }
    *ret_put = true;
    /* If the stream is full, there is something in it, for which the peer awakes. */
    if (psr_pipe_must_wake(&lender->writer))
        (void)psr_record_write(lender->stream.fd, &(psr_record){.kind = PSR_RECORD_WAKE}, 1, -1);
    return PSR_OK;
}

/* ---- what the peer says ---- */

static psr_err take_answer(psr_lender *lender, const psr_record *record)
{
    const bool taken = record->kind == PSR_RECORD_TAKEN;
    offer *o = record->arena < PSR_SHARED_ARENAS_MAX ? &lender->offers[record->arena] : NULL;
    if (o == NULL || (o->state != OFFER_ASKED && o->state != OFFER_GIVEN_UP))
        return psr_fail(PSR_ERR_PROTOCOL, "answers to an arena %" PRIu32 " that it was not offered",
                        record->arena);
    if (o->state == OFFER_GIVEN_UP) {
        o->state = OFFER_NONE;
        if (taken)
            tell_withdrawn(lender, record->arena);
        return PSR_OK;
    }
    o->state = taken ? OFFER_TAKEN : OFFER_REFUSED;
    return taken ? PSR_OK
                 : psr_fail(PSR_ERR_IO, "it cannot map the memory: %s",
                            strerror(record->value <= INT32_MAX ? (int)record->value : EINVAL));
}

/* passed: the descriptor that came with it, borrowed; -1: none. */
static psr_err take_record(psr_lender *lender, const psr_record *record, int passed)
{
    if (passed >= 0 && record->kind != PSR_RECORD_BOARD)
        return psr_fail(PSR_ERR_PROTOCOL, "passes a descriptor");
    switch (record->kind) {
    case PSR_RECORD_BOARD:
        return take_board(lender, record, passed);
    case PSR_RECORD_TAKEN:
    case PSR_RECORD_REFUSED:
        return take_answer(lender, record);
    case PSR_RECORD_RETURNED:
        if (!psr_lends_end(&lender->lends, record->value))
            return psr_fail(PSR_ERR_PROTOCOL,
                            "gives back what it was not lent (token %016" PRIx64 ")",
                            record->value);
        return PSR_OK;
    default:
        return psr_fail(PSR_ERR_PROTOCOL,
                        "sent a record that no process that borrows memory sends (record %" PRIu32
                        ")",
                        record->kind);
    }
}

psr_err psr_lender_serve(psr_lender *lender)
{
    for (uint32_t a = 0; a < PSR_SHARED_ARENAS_MAX && lender->stream.fd >= 0; a++)
        if (lender->offers[a].state == OFFER_UNTOLD)
            tell_withdrawn(lender, a);
    /* At most what one turn can bring; the caller watches the descriptor and comes back for the
     * rest. */
    for (int i = 0; i < 2 * PSR_RECORDS_AT_ONCE && lender->stream.fd >= 0; i++) {
        psr_record record;
        int passed = -1;
        switch (psr_record_read(&lender->stream, &record, &passed)) {
        case PSR_RECORD_NONE_YET:
            return PSR_OK;
        case PSR_RECORD_CLOSED:
            hang_up(lender);
            return PSR_OK;
        case PSR_RECORD_BROKEN:
            return psr_fail(PSR_ERR_PROTOCOL, "passes descriptors");
        case PSR_RECORD_COMPLETE:
            break;
        }
        const psr_err err = take_record(lender, &record, passed);
        if (passed >= 0)
            close(passed);
        PSR_TRY(err);
    }
    return PSR_OK;
}

bool psr_lender_has_taker(const psr_lender *lender)
{
    for (uint32_t a = 0; a < PSR_SHARED_ARENAS_MAX && lender->stream.fd >= 0; a++)
        if (lender->offers[a].state == OFFER_TAKEN)
            return true;
    return false;
}

bool psr_lender_has_taken(const psr_lender *lender, const psr_shared_arena *arena)
{
    const uint32_t a = find_offer(lender, arena);
    return a < PSR_SHARED_ARENAS_MAX && lender->stream.fd >= 0 &&
           lender->offers[a].state == OFFER_TAKEN;
}

int psr_lender_fd(const psr_lender *lender)
{
    return lender->stream.fd;
}

/* ---- lending ---- */

/* The arena that the peer has and in which all of the payload lies; PSR_SHARED_ARENAS_MAX: none. */
static uint32_t arena_of(const psr_lender *lender, const psr_payload *payload)
{
    uintptr_t begin = (uintptr_t)payload->data;
    for (uint32_t a = 0; a < PSR_SHARED_ARENAS_MAX; a++) {
        if (lender->offers[a].state != OFFER_TAKEN)
            continue;
        uintptr_t arena = (uintptr_t)lender->offers[a].arena->values;
        size_t bytes = lender->offers[a].arena->bytes;
        if (begin >= arena && begin - arena <= bytes && payload->bytes <= bytes - (begin - arena))
            return a;
    }
    return PSR_SHARED_ARENAS_MAX;
}

bool psr_lender_refer(psr_lender *lender, const psr_head *head, const psr_payload *payload,
                      psr_reference *ret_reference)
{
    if (!psr_reference_may(head) || lender->stream.fd < 0 || payload->release == NULL ||
        payload->bytes < PSR_REFERENCE_LEAST)
        return false;
    uint32_t arena = arena_of(lender, payload);
    if (arena == PSR_SHARED_ARENAS_MAX)
        return false;
    uint64_t offset = (uintptr_t)payload->data - (uintptr_t)lender->offers[arena].arena->values,
             token;
    if (offset % psr_reference_alignment(head) != 0 ||
        !psr_lends_put(&lender->lends, payload, &token))
        return false;
    *ret_reference = (psr_reference){arena, offset, token};
    return true;
}

void psr_lender_recall(psr_lender *lender, const psr_reference *reference)
{
    (void)psr_lends_end(&lender->lends, reference->token);
}
