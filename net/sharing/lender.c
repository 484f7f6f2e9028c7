#include "net/sharing/lender.h"

#include "net/sharing/lends.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct offered {
    const psr_shared_arena *arena;
    bool answered, taken;
} offered;

struct psr_lender {
    psr_peer peer;
    psr_record_stream stream;
    offered arenas[PSR_SHARED_ARENAS_MAX];
    uint32_t arena_count;
    psr_lends lends;
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
    free(lender);
}

psr_err psr_lender_offer(psr_lender *lender, const psr_shared_arena *arena)
{
    if (lender->stream.fd < 0)
        return PSR_OK; /* it has hung up */
    psr_record record = {
        .kind = PSR_RECORD_ARENA, .arena = lender->arena_count, .value = arena->bytes};
    if (psr_record_write(lender->stream.fd, &record, 1, arena->fd) != PSR_RECORD_WRITTEN)
        return psr_fail(PSR_ERR_IO, "it takes no memory: %s", strerror(errno));
    lender->arenas[lender->arena_count++] = (offered){.arena = arena};
    return PSR_OK;
}

/* ---- what the peer says ---- */

static psr_err take_answer(psr_lender *lender, const psr_record *record)
{
    offered *o = record->arena < lender->arena_count ? &lender->arenas[record->arena] : NULL;
    if (o == NULL || o->answered)
        return psr_fail(PSR_ERR_PROTOCOL, "answers to an arena %" PRIu32 " that it was not offered",
                        record->arena);
    o->answered = true;
    o->taken = record->kind == PSR_RECORD_TAKEN;
    return o->taken ? PSR_OK
                    : psr_fail(PSR_ERR_IO, "it cannot map the memory: %s",
                               strerror(record->value <= INT32_MAX ? (int)record->value : EINVAL));
}

static psr_err take_record(psr_lender *lender, const psr_record *record)
{
    switch (record->kind) {
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
        if (passed >= 0) {
            close(passed);
            return psr_fail(PSR_ERR_PROTOCOL, "passes a descriptor");
        }
        PSR_TRY(take_record(lender, &record));
    }
    return PSR_OK;
}

bool psr_lender_has_taker(const psr_lender *lender)
{
    for (uint32_t a = 0; a < lender->arena_count && lender->stream.fd >= 0; a++)
        if (lender->arenas[a].taken)
            return true;
    return false;
}

bool psr_lender_has_taken(const psr_lender *lender, const psr_shared_arena *arena)
{
    for (uint32_t a = 0; a < lender->arena_count && lender->stream.fd >= 0; a++)
        if (lender->arenas[a].arena == arena)
            return lender->arenas[a].taken;
    return false;
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
    for (uint32_t a = 0; a < lender->arena_count; a++) {
        uintptr_t arena = (uintptr_t)lender->arenas[a].arena->values;
        size_t bytes = lender->arenas[a].arena->bytes;
        if (lender->arenas[a].taken && begin >= arena && begin - arena <= bytes &&
            payload->bytes <= bytes - (begin - arena))
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
    uint64_t offset = (uintptr_t)payload->data - (uintptr_t)lender->arenas[arena].arena->values,
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
