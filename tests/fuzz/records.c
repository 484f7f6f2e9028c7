#include "tests/fuzz/records.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);

/* ---- numbers ---- */

enum { PLAIN = 208 };

uint64_t records_number(uint8_t byte, uint64_t n)
{
    const uint64_t ends[] = {n - 1,
                             n,
                             n + 1,
                             2 * n,
                             255,
                             256,
                             UINT16_MAX,
                             UINT16_MAX + 1,
                             INT32_MAX,
                             (uint64_t)INT32_MAX + 1,
                             UINT32_MAX - 15,
                             UINT32_MAX - 1,
                             UINT32_MAX,
                             (uint64_t)UINT32_MAX + 1,
                             INT64_MAX / 4,
                             INT64_MAX / 4 + 1,
                             INT64_MAX,
                             (uint64_t)INT64_MAX + 1,
                             UINT64_MAX - 15,
                             UINT64_MAX - 3,
                             UINT64_MAX - 1,
                             UINT64_MAX};
    return byte < PLAIN ? byte : ends[(byte - PLAIN) % (sizeof ends / sizeof ends[0])];
}

/* ---- heads ---- */

enum { TAG_NUMBERS = 4 };

static void set_number(psr_head *head, size_t where, uint64_t value)
{
    switch (where) {
    case 0:
        head->tag.epoch = (uint32_t)value;
        return;
    case 1:
        head->tag.group = (uint32_t)value;
        return;
    case 2:
        head->tag.slot = (uint32_t)value;
        return;
    case 3:
        head->tag.round = value;
        return;
    default:
        head->fields[where - TAG_NUMBERS] = value;
    }
}

/* Of its type's own: the codec takes no others. */
static size_t field_count(psr_message_type type)
{
    size_t count = 0;
    while (psr_head_field_name(type, count) != NULL)
        count++;
    return count;
}

void records_twist(psr_head *head, const uint8_t bytes[RECORDS_TWIST_BYTES], uint64_t n)
{
    size_t numbers = TAG_NUMBERS + field_count(head->type), where = bytes[0] % (numbers + 1);
    if (where > 0)
        set_number(head, where - 1, records_number(bytes[1], n));
}

psr_head records_head(psr_message_type type, const uint8_t bytes[RECORDS_HEAD_BYTES], uint64_t n)
{
    psr_head head = {.type = type, .encoding = (psr_encoding)(bytes[0] % (PSR_ENCODING_1BIT + 1))};
    for (size_t i = 0; i < TAG_NUMBERS + field_count(type); i++)
        set_number(&head, i, records_number(bytes[1 + i], n));
    return head;
}

static void release(psr_message *message)
{
    free(message);
}

psr_message *records_message(psr_peer from, psr_head head, size_t payload_bytes, const void *bytes,
                             size_t count)
{
    struct {
        psr_message base;
        double payload[];
    } *m = malloc(sizeof *m + payload_bytes);
    if (m == NULL)
        abort();
    for (size_t i = 0; i < payload_bytes; i++)
        ((uint8_t *)m->payload)[i] = ((const uint8_t *)bytes)[i % count];
    m->base = (psr_message){.from = from,
                            .head = head,
                            .payload = m->payload,
                            .payload_bytes = payload_bytes,
                            .release = release};
    return &m->base;
}

psr_err records_give_back(void *context, psr_peer to, const psr_head *head,
                          const psr_payload *payload)
{
    (void)context, (void)to, (void)head;
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

/* ---- mutations ---- */

static unsigned draw(unsigned *state, size_t below)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes' */
    return (unsigned)((*state >> 8) % below);
}

/* A record again, behind another: what is said twice, and in another order. */
static size_t repeat(uint8_t *records, size_t count, size_t record, unsigned *state)
{
    size_t from = draw(state, count), to = draw(state, count + 1);
    uint8_t *room = records + to * record;
    memmove(room + record, room, (count - to) * record);
    memmove(room, records + (from < to ? from : from + 1) * record, record);
    return count + 1;
}

static size_t leave_out(uint8_t *records, size_t count, size_t record, unsigned *state)
{
    size_t at = draw(state, count);
    memmove(records + at * record, records + (at + 1) * record, (count - at - 1) * record);
    return count - 1;
}

static void exchange(uint8_t *records, size_t count, size_t record, unsigned *state)
{
    uint8_t *a = records + draw(state, count) * record, *b = records + draw(state, count) * record;
    for (size_t i = 0; i < record; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* One of its numbers stands at an end of something. */
static void set_end(uint8_t *records, size_t count, size_t record, unsigned *state)
{
    records[draw(state, count) * record + draw(state, record)] =
        (uint8_t)(PLAIN + draw(state, 256 - PLAIN));
}

static void set_byte(uint8_t *records, size_t count, size_t record, unsigned *state)
{
    records[draw(state, count) * record + draw(state, record)] = (uint8_t)draw(state, 256);
}

size_t records_mutate(uint8_t *data, size_t size, size_t size_max, unsigned seed, size_t first,
                      size_t record)
{
    size_t count = size > first ? (size - first) / record : 0;
    uint8_t *records = data + first;
    unsigned state = seed;
    if (count == 0 || draw(&state, 3) == 0) /* libFuzzer's own, which know
                                               what was compared with what */
        return LLVMFuzzerMutate(data, size, size_max);
    switch (draw(&state, 6)) {
    case 0:
        if (first + (count + 1) * record <= size_max)
            count = repeat(records, count, record, &state);
        break;
    case 1:
        if (count > 1)
            count = leave_out(records, count, record, &state);
        break;
    case 2:
        exchange(records, count, record, &state);
        break;
    case 3:
    case 4:
        set_end(records, count, record, &state);
        break;
    default:
        set_byte(records, count, record, &state);
        break;
    }
    return first + count * record;
}
