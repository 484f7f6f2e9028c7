#include "net/message.h"

#include <inttypes.h>
#include <msgpack.h>
#include <string.h>

#define PREAMBLE_BYTES 16
#define HEAD_FIELDS 8

static const uint8_t magic[4] = {'P', 'S', 'R', 'G'};

const char *psr_role_name(psr_role role)
{
    static const char *const names[] = {"scheduler", "shard", "worker"};
    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : "?";
}

const char *psr_encoding_name(psr_encoding encoding)
{
    static const char *const names[] = {"bytes", "float32", "float64"};
    return (size_t)encoding < sizeof names / sizeof names[0] ? names[encoding] : "?";
}

bool psr_peer_equal(psr_peer a, psr_peer b)
{
    return a.role == b.role && a.rank == b.rank;
}

const char *psr_phase_name(psr_phase phase)
{
    static const char *const names[] = {"start", "data",    "forward",    "backward",   "pull",    "push",
                                        "ring",  "barrier", "evaluation", "checkpoint", "shutdown"};
    return (size_t)phase < sizeof names / sizeof names[0] ? names[phase] : "?";
}

void psr_message_free(psr_message **message)
{
    if (message == NULL || *message == NULL)
        return;
    psr_message *gone = *message;
    *message = NULL;
    gone->release(gone);
}

/* ---- encoding ---- */

static void put_be(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static uint64_t get_be(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* msgpack's writer into a buffer that is large enough by PSR_HEAD_BYTES_MAX: 16 + 1 + 8 * 9 bytes at most. */
typedef struct writer {
    uint8_t *buffer;
    size_t used;
} writer;

static int write_bytes(void *data, const char *bytes, size_t size)
{
    writer *w = data;
    memcpy(w->buffer + w->used, bytes, size);
    w->used += size;
    return 0;
}

_Static_assert(PREAMBLE_BYTES + 1 + HEAD_FIELDS * 9 <= PSR_HEAD_BYTES_MAX,
               "a head of the largest numbers fits");

void psr_head_encode(const psr_head *head, uint64_t payload_bytes, uint8_t buffer[PSR_HEAD_BYTES_MAX],
                     size_t *ret_bytes)
{
    const uint64_t fields[HEAD_FIELDS] = {(uint64_t)head->type, head->step,  head->bucket, head->flags,
                                          head->offset,         head->count, head->aux,    head->sequence};
    writer w = {buffer, PREAMBLE_BYTES};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &w, write_bytes);
    msgpack_pack_array(&packer, HEAD_FIELDS);
    for (size_t i = 0; i < HEAD_FIELDS; i++)
        msgpack_pack_uint64(&packer, fields[i]);

    memcpy(buffer, magic, sizeof magic);
    put_be(buffer + 4, PSR_WIRE_VERSION, 2);
    put_be(buffer + 6, w.used - PREAMBLE_BYTES, 2);
    put_be(buffer + 8, payload_bytes, 8);
    *ret_bytes = w.used;
}

/* ---- decoding: bytes of anybody ---- */

/* One msgpack unsigned integer at *at. Scanned by hand: msgpack-c's unpacker allocates what five bytes ask
 * for. */
static bool scan_unsigned(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    if (*at == end)
        return false;
    uint8_t tag = *(*at)++;
    if (tag <= 0x7f) { /* positive fixint */
        *ret_value = tag;
        return true;
    }
    if (tag < 0xcc || tag > 0xcf) /* uint 8, 16, 32, 64 */
        return false;
    unsigned bytes = 1u << (tag - 0xcc);
    if ((size_t)(end - *at) < bytes)
        return false;
    *ret_value = get_be(*at, bytes);
    *at += bytes;
    return true;
}

static bool known_type(uint64_t type)
{
    return type == PSR_MSG_HELLO || (type >= PSR_MSG_JOIN && type <= PSR_MSG_FACTS) ||
           (type >= PSR_MSG_WELCOME && type <= PSR_MSG_SAVED) ||
           (type >= PSR_MSG_INIT && type <= PSR_MSG_ACK) || (type >= PSR_MSG_RING && type <= PSR_MSG_SPREAD);
}

static psr_err check_preamble(const uint8_t *bytes, size_t size, uint64_t *ret_payload_bytes)
{
    if (size < PREAMBLE_BYTES)
        return psr_fail(PSR_ERR_FORMAT, "a message of %zu bytes: its preamble alone has %d", size,
                        PREAMBLE_BYTES);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return psr_fail(PSR_ERR_FORMAT, "a message does not begin with PSRG");
    unsigned version = (unsigned)get_be(bytes + 4, 2);
    if (version != PSR_WIRE_VERSION)
        return psr_fail(
            PSR_ERR_VERSION,
            "speaks version %u of psring's protocol, this program (psring %s) version %d: install the "
            "same psring on every host",
            version, PSR_VERSION, PSR_WIRE_VERSION);
    size_t head_bytes = (size_t)get_be(bytes + 6, 2);
    if (head_bytes != size - PREAMBLE_BYTES)
        return psr_fail(PSR_ERR_FORMAT, "a message announces a head of %zu bytes and has %zu", head_bytes,
                        size - PREAMBLE_BYTES);
    uint64_t payload_bytes = get_be(bytes + 8, 8);
    if (payload_bytes > PSR_PAYLOAD_BYTES_MAX)
        return psr_fail(PSR_ERR_FORMAT, "a message announces a payload of %" PRIu64 " bytes: %u is the most",
                        payload_bytes, PSR_PAYLOAD_BYTES_MAX);
    *ret_payload_bytes = payload_bytes;
    return PSR_OK;
}

psr_err psr_head_decode(const void *bytes, size_t size, psr_head *ret_head, uint64_t *ret_payload_bytes)
{
    uint64_t payload_bytes = 0;
    PSR_TRY(check_preamble(bytes, size, &payload_bytes));

    const uint8_t *at = (const uint8_t *)bytes + PREAMBLE_BYTES, *end = (const uint8_t *)bytes + size;
    if (at == end || *at++ != (0x90 | HEAD_FIELDS))
        return psr_fail(PSR_ERR_FORMAT, "a message's head is not an array of %d numbers", HEAD_FIELDS);
    uint64_t fields[HEAD_FIELDS];
    for (size_t i = 0; i < HEAD_FIELDS; i++)
        if (!scan_unsigned(&at, end, &fields[i]))
            return psr_fail(PSR_ERR_FORMAT, "field %zu of a message's head is not an unsigned integer", i);
    if (at != end)
        return psr_fail(PSR_ERR_FORMAT, "a message's head has %zu bytes too many", (size_t)(end - at));
    if (!known_type(fields[0]))
        return psr_fail(PSR_ERR_FORMAT, "a message of unknown type %" PRIu64, fields[0]);
    if (fields[2] > UINT32_MAX || fields[3] > UINT32_MAX)
        return psr_fail(PSR_ERR_FORMAT, "a message's bucket or flags exceed 32 bits");

    *ret_head = (psr_head){
        .type = (psr_message_type)fields[0],
        .step = fields[1],
        .bucket = (uint32_t)fields[2],
        .flags = (uint32_t)fields[3],
        .offset = fields[4],
        .count = fields[5],
        .aux = fields[6],
        .sequence = fields[7],
    };
    *ret_payload_bytes = payload_bytes;
    return PSR_OK;
}
