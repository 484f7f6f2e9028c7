#include "net/message.h"

#include "net/big_endian.h"

#include <assert.h>
#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#define PREAMBLE_BYTES 16
#define COMMON_FIELDS 7 /* of every head, before its type's own */

static const uint8_t magic[4] = {'P', 'S', 'R', 'G'};

const char *psr_role_name(psr_role role)
{
    static const char *const names[] = {"scheduler", "shard", "worker"};
    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : "?";
}

const char *psr_encoding_name(psr_encoding encoding)
{
    static const char *const names[] = {"bytes", "float32", "float64", "fp16",
                                        "bf16",  "int8",    "topk",    "1bit"};
    return (size_t)encoding < sizeof names / sizeof names[0] ? names[encoding] : "?";
}

bool psr_peer_equal(psr_peer a, psr_peer b)
{
    return a.role == b.role && a.rank == b.rank;
}

const char *psr_phase_name(psr_phase phase)
{
    static const char *const names[] = {
        "start",   "data",       "forward",    "backward", "pull",   "push",     "ring",
        "barrier", "evaluation", "checkpoint", "shutdown", "device", "hand over"};
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

/* ---- types ---- */

/* The fields of each type's head; docs/wire.md describes them. */
typedef struct kind {
    const char *name;
    enum { UNTAGGED, OF_RUN, OF_GROUP } tag;
    uint8_t field_count;
    const char *fields[PSR_HEAD_FIELDS_MAX + 1]; /* NULL behind the last */
} kind;

/* The names end with NULL. */
#define KIND(name, tag, ...)                                                                       \
    {                                                                                              \
        name, tag, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *) - 1,                     \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const kind kinds[] = {
    [PSR_MSG_HELLO] = KIND("HELLO", UNTAGGED, "role", "rank", NULL),
    [PSR_MSG_KEY_OFFER] = KIND("KEY_OFFER", UNTAGGED, "ciphers", NULL),
    [PSR_MSG_KEY_ANSWER] = KIND("KEY_ANSWER", UNTAGGED, "cipher", "channel", "port", NULL),
    [PSR_MSG_SEALED] = KIND("SEALED", UNTAGGED, NULL),
    [PSR_MSG_JOIN] = KIND("JOIN", UNTAGGED, NULL),
    [PSR_MSG_READY] = KIND("READY", UNTAGGED, NULL),
    [PSR_MSG_PROGRESS] = KIND("PROGRESS", OF_RUN, "phase", "counter", "waits", "role", "rank",
                              "evaluates", "counted", NULL),
    [PSR_MSG_METRICS] = KIND("METRICS", UNTAGGED, NULL),
    [PSR_MSG_HELD] = KIND("HELD", UNTAGGED, "step", NULL),
    [PSR_MSG_CHECKPOINT] =
        KIND("CHECKPOINT", UNTAGGED, "offset", "count", "steps", "section", NULL),
    [PSR_MSG_FAILED] = KIND("FAILED", UNTAGGED, "status", NULL),
    [PSR_MSG_DONE] = KIND("DONE", UNTAGGED, "steps", "left_out", NULL),
    [PSR_MSG_FACTS] = KIND("FACTS", UNTAGGED, NULL),
    [PSR_MSG_WELCOME] = KIND("WELCOME", UNTAGGED, NULL),
    [PSR_MSG_START] = KIND("START", UNTAGGED, NULL),
    [PSR_MSG_ALIVE] = KIND("ALIVE", UNTAGGED, "report_wanted", NULL),
    [PSR_MSG_HOLD] = KIND("HOLD", UNTAGGED, "change", NULL),
    [PSR_MSG_STOP_AT] = KIND("STOP_AT", UNTAGGED, "step", NULL),
    [PSR_MSG_RESTORE] = KIND("RESTORE", UNTAGGED, "offset", "count", "steps", "section", NULL),
    [PSR_MSG_ABORT] = KIND("ABORT", UNTAGGED, NULL),
    [PSR_MSG_BYE] = KIND("BYE", UNTAGGED, NULL),
    [PSR_MSG_CONFIG] = KIND("CONFIG", UNTAGGED, NULL),
    [PSR_MSG_SAVED] = KIND("SAVED", UNTAGGED, "steps", NULL),
    [PSR_MSG_FINDING] =
        KIND("FINDING", OF_GROUP, "status", "rank", "other", "number", "within_ms", "scope", NULL),
    [PSR_MSG_VERDICT] =
        KIND("VERDICT", OF_GROUP, "status", "rank", "other", "number", "within_ms", "scope", NULL),
    [PSR_MSG_SHRINK] = KIND("SHRINK", OF_GROUP, "within_ms", NULL),
    [PSR_MSG_SHRUNK] = KIND("SHRUNK", OF_GROUP, "status", "rank", "epoch", NULL),
    [PSR_MSG_BOUND] = KIND("BOUND", UNTAGGED, "epoch", "pause_us", NULL),
    [PSR_MSG_UNSEALED] = KIND("UNSEALED", UNTAGGED, "role", "rank", "port", "waited_ms", NULL),
    [PSR_MSG_CLOCK] = KIND("CLOCK", UNTAGGED, "number", "machine", NULL),
    [PSR_MSG_TRACE] = KIND("TRACE", UNTAGGED, "left", "dropped", "at", "offset", "error", "at_end",
                           "offset_at_end", "error_at_end", NULL),
    [PSR_MSG_CLOCKED] =
        KIND("CLOCKED", UNTAGGED, "number", "stamp", "same_machine", "skipped", NULL),
    [PSR_MSG_LEFT] = KIND("LEFT", UNTAGGED, "rank", "messages", NULL),
    [PSR_MSG_VIEW] = KIND("VIEW", UNTAGGED, "epoch", "first_step", NULL),
    [PSR_MSG_REFUSED] = KIND("REFUSED", UNTAGGED, "status", NULL),
    [PSR_MSG_INIT] = KIND("INIT", OF_RUN, "offset", "count", "section", NULL),
    [PSR_MSG_PUSH] = KIND("PUSH", OF_RUN, "offset", "count", "answer", NULL),
    [PSR_MSG_PULL] = KIND("PULL", OF_RUN, "offset", "count", "taken", NULL),
    [PSR_MSG_WEIGHTS] = KIND("WEIGHTS", OF_RUN, "offset", "count", "staleness", "received", NULL),
    [PSR_MSG_ACK] = KIND("ACK", OF_RUN, "received", NULL),
    [PSR_MSG_ASK] = KIND("ASK", OF_RUN, "offset", "count", "taken", "section", NULL),
    [PSR_MSG_RING] = KIND("RING", OF_RUN, "offset", "count", "phase", "chunk", "hop", NULL),
    [PSR_MSG_NORM] = KIND("NORM", OF_RUN, "phase", "value", NULL),
    [PSR_MSG_STATE] = KIND("STATE", OF_RUN, "offset", "count", "array", NULL),
    [PSR_MSG_VALUES] = KIND("VALUES", OF_GROUP, "call", "root", "count", "total", "slice", "before",
                            "before_root", "before_count", NULL),
    [PSR_MSG_CREDIT] = KIND("CREDIT", OF_GROUP, "call", "root", "count", "slices", "offer", NULL),
    [PSR_MSG_AHEAD] = KIND("AHEAD", OF_GROUP, "operations", NULL),
    [PSR_MSG_LISTEN] = KIND("LISTEN", OF_GROUP, NULL),
    [PSR_MSG_OFFER] = KIND("OFFER", OF_GROUP, "call", "root", "count", NULL),
    [PSR_MSG_PROBE] = KIND("PROBE", UNTAGGED, "number", NULL),
    [PSR_MSG_PROBED] = KIND("PROBED", UNTAGGED, "number", NULL),
};

/* NULL: there is none of that number. */
static const kind *kind_of(uint64_t type)
{
    return type < sizeof kinds / sizeof kinds[0] && kinds[type].name != NULL ? &kinds[type] : NULL;
}

const char *psr_message_name(psr_message_type type)
{
    const kind *k = kind_of((uint64_t)type);
    return k != NULL ? k->name : "unknown";
}

const char *psr_head_field_name(psr_message_type type, size_t index)
{
    const kind *k = kind_of((uint64_t)type);
    return k != NULL && index < PSR_HEAD_FIELDS_MAX ? k->fields[index] : NULL;
}

void psr_head_describe(const psr_head *head, char *text, size_t size)
{
    const kind *k = kind_of((uint64_t)head->type);
    size_t used = (size_t)snprintf(text, size, "%s", psr_message_name(head->type));
    const char *before = " (";
    if (k != NULL && k->tag != UNTAGGED && used < size) {
        if (k->tag == OF_GROUP)
            used += (size_t)snprintf(text + used, size - used,
                                     "%sgroup %" PRIu32 ", slot %" PRIu32 ", round %" PRIu64,
                                     before, head->tag.group, head->tag.slot, head->tag.round);
        else if (head->tag.slot > 0)
            used += (size_t)snprintf(text + used, size - used,
                                     "%swire step %" PRIu64 ", bucket %" PRIu32, before,
                                     head->tag.round, head->tag.slot - 1);
        else
            used += (size_t)snprintf(text + used, size - used, "%sround %" PRIu64, before,
                                     head->tag.round);
        before = ", ";
    }
    for (size_t i = 0; k != NULL && i < k->field_count && used < size; i++, before = ", ")
        used += (size_t)snprintf(text + used, size - used, "%s%s %" PRIu64, before, k->fields[i],
                                 head->fields[i]);
    if (before[0] == ',' && used < size)
        snprintf(text + used, size - used, ")");
}

/* ---- HELLO ---- */

psr_head psr_msg_hello_head(psr_peer self)
{
    return (psr_head){.type = PSR_MSG_HELLO, .fields = {(uint64_t)self.role, self.rank}};
}

psr_err psr_msg_hello_read(const psr_head *head, psr_peer *ret_peer)
{
    if (head->fields[0] > PSR_ROLE_WORKER)
        return psr_fail(PSR_ERR_PROTOCOL, "says it is of role %" PRIu64 ", which nobody is",
                        head->fields[0]);
    if (head->fields[1] > UINT32_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "says it is of rank %" PRIu64 ", which nobody is",
                        head->fields[1]);
    *ret_peer = (psr_peer){(psr_role)head->fields[0], (uint32_t)head->fields[1]};
    return PSR_OK;
}

psr_head psr_msg_refused_head(psr_err status)
{
    return (psr_head){.type = PSR_MSG_REFUSED, .fields = {(uint64_t)status}};
}

psr_err psr_msg_refused_status(const psr_head *head)
{
    uint64_t status = head->fields[0];
    return status > 0 && status <= PSR_ERR_LAST ? (psr_err)status : PSR_ERR_PEER;
}

/* ---- encoding ---- */

/* msgpack's writer into a buffer that is large enough by PSR_HEAD_BYTES_MAX: 16 + 1 + 15 * 9 bytes
 * at most. */
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

/* Most numbers are below 128: a byte, which is the number itself. */
static void write_unsigned(msgpack_packer *packer, uint64_t number)
{
    writer *w = packer->data;
    if (number < 128)
        w->buffer[w->used++] = (uint8_t)number;
    else
        msgpack_pack_uint64(packer, number);
}

/* An array of at most 15 has its length in its first byte. */
_Static_assert(COMMON_FIELDS + PSR_HEAD_FIELDS_MAX <= 15 &&
                   PREAMBLE_BYTES + 1 + (COMMON_FIELDS + PSR_HEAD_FIELDS_MAX) * 9 <=
                       PSR_HEAD_BYTES_MAX,
               "a head of the largest numbers fits");

void psr_head_encode(const psr_head *head, uint64_t payload_bytes,
                     uint8_t buffer[PSR_HEAD_BYTES_MAX], size_t *ret_bytes)
{
    const psr_tag *tag = &head->tag;
    const uint64_t common[COMMON_FIELDS] = {
        (uint64_t)head->type, head->sequence,          tag->epoch, tag->group, tag->slot,
        tag->round,           (uint64_t)head->encoding};
    const kind *k = kind_of((uint64_t)head->type);
    assert(k != NULL);
    size_t count = k->field_count;
    writer w = {buffer, PREAMBLE_BYTES};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &w, write_bytes);
    msgpack_pack_array(&packer, COMMON_FIELDS + count);
    for (size_t i = 0; i < COMMON_FIELDS; i++)
        write_unsigned(&packer, common[i]);
    for (size_t i = 0; i < count; i++)
        write_unsigned(&packer, head->fields[i]);

    memcpy(buffer, magic, sizeof magic);
    psr_put_be(buffer + 4, PSR_WIRE_VERSION, 2);
    psr_put_be(buffer + 6, w.used - PREAMBLE_BYTES, 2);
    psr_put_be(buffer + 8, payload_bytes, 8);
    *ret_bytes = w.used;
}

/* ---- decoding: bytes of anybody ---- */

/* One msgpack unsigned integer at *at. Scanned by hand: msgpack-c's unpacker allocates what five
 * bytes ask for. */
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
    *ret_value = psr_get_be(*at, bytes);
    *at += bytes;
    return true;
}

static psr_err check_preamble(const uint8_t *bytes, size_t size, uint64_t *ret_payload_bytes)
{
    if (size < PREAMBLE_BYTES)
        return psr_fail(PSR_ERR_FORMAT, "a message of %zu bytes: its preamble alone has %d", size,
                        PREAMBLE_BYTES);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return psr_fail(PSR_ERR_FORMAT, "a message does not begin with PSRG");
    unsigned version = (unsigned)psr_get_be(bytes + 4, 2);
    if (version != PSR_WIRE_VERSION)
        return psr_fail(PSR_ERR_VERSION,
                        "speaks version %u of psring's protocol, this program (psring %s) version "
                        "%d: install the same psring on every host",
                        version, PSR_VERSION, PSR_WIRE_VERSION);
    size_t head_bytes = (size_t)psr_get_be(bytes + 6, 2);
    if (head_bytes != size - PREAMBLE_BYTES)
        return psr_fail(PSR_ERR_FORMAT, "a message announces a head of %zu bytes and has %zu",
                        head_bytes, size - PREAMBLE_BYTES);
    uint64_t payload_bytes = psr_get_be(bytes + 8, 8);
    if (payload_bytes > PSR_PAYLOAD_BYTES_MAX)
        return psr_fail(PSR_ERR_FORMAT,
                        "a message announces a payload of %" PRIu64 " bytes: %u is the most",
                        payload_bytes, PSR_PAYLOAD_BYTES_MAX);
    *ret_payload_bytes = payload_bytes;
    return PSR_OK;
}

/* Checks the fields that every head has, against what its type says of them. */
static psr_err check_common(const uint64_t common[COMMON_FIELDS], size_t fields)
{
    const kind *k = kind_of(common[0]);
    if (k == NULL)
        return psr_fail(PSR_ERR_FORMAT, "a message of unknown type %" PRIu64, common[0]);
    if (fields != k->field_count)
        return psr_fail(PSR_ERR_FORMAT, "a head of %s has %zu numbers, not %zu", k->name,
                        COMMON_FIELDS + fields, COMMON_FIELDS + (size_t)k->field_count);
    if (common[2] > UINT32_MAX || common[3] > UINT32_MAX || common[4] > UINT32_MAX)
        return psr_fail(PSR_ERR_FORMAT, "a message's epoch, group or slot exceeds 32 bits");
    if (k->tag == UNTAGGED && (common[2] | common[3] | common[4] | common[5]) != 0)
        return psr_fail(PSR_ERR_FORMAT, "a head of %s has a tag", k->name);
    if (common[6] > PSR_ENCODING_1BIT)
        return psr_fail(PSR_ERR_FORMAT, "a payload of unknown encoding %" PRIu64, common[6]);
    return PSR_OK;
}

psr_err psr_head_bytes(const void *bytes, size_t size, size_t *ret_head_bytes)
{
    size_t head_bytes = size < PREAMBLE_BYTES
                            ? 0
                            : PREAMBLE_BYTES + (size_t)psr_get_be((const uint8_t *)bytes + 6, 2);
    if (head_bytes == 0 || head_bytes > size)
        return psr_fail(PSR_ERR_FORMAT, "a message of %zu bytes is shorter than its head", size);
    *ret_head_bytes = head_bytes;
    return PSR_OK;
}

psr_err psr_head_decode(const void *bytes, size_t size, psr_head *ret_head,
                        uint64_t *ret_payload_bytes)
{
    uint64_t payload_bytes = 0;
    PSR_TRY(check_preamble(bytes, size, &payload_bytes));

    const uint8_t *at = (const uint8_t *)bytes + PREAMBLE_BYTES,
                  *end = (const uint8_t *)bytes + size;
    size_t count = at < end ? *at++ ^ (size_t)0x90 : 0; /* an array of up to 15 */
    if (count < COMMON_FIELDS || count > COMMON_FIELDS + PSR_HEAD_FIELDS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "a message's head is not an array of %d to %d numbers",
                        COMMON_FIELDS, COMMON_FIELDS + PSR_HEAD_FIELDS_MAX);
    uint64_t numbers[COMMON_FIELDS + PSR_HEAD_FIELDS_MAX] = {0};
    for (size_t i = 0; i < count; i++)
        if (!scan_unsigned(&at, end, &numbers[i]))
            return psr_fail(PSR_ERR_FORMAT,
                            "number %zu of a message's head is not an unsigned integer", i);
    if (at != end)
        return psr_fail(PSR_ERR_FORMAT, "a message's head has %zu bytes too many",
                        (size_t)(end - at));
    PSR_TRY(check_common(numbers, count - COMMON_FIELDS));

    *ret_head = (psr_head){
        .type = (psr_message_type)numbers[0],
        .sequence = numbers[1],
        .tag = {(uint32_t)numbers[2], (uint32_t)numbers[3], (uint32_t)numbers[4], numbers[5]},
        .encoding = (psr_encoding)numbers[6],
    };
    memcpy(ret_head->fields, numbers + COMMON_FIELDS, sizeof ret_head->fields);
    *ret_payload_bytes = payload_bytes;
    return PSR_OK;
}
