#include "net/sharing/pipe.h"

#include <string.h>

/* A record begins here, so the first word of every line of 64 bytes may be a stamp. */
enum { LINE_BYTES = 64, FRAMES_AT = 16 };

/* Lengths of both frames in one word: it is read once. SKIP: the next record begins at the ring's
 * beginning. */
#define SKIP UINT64_MAX

typedef struct record_begin {
    _Atomic uint64_t stamp, lengths;
} record_begin;

_Static_assert(sizeof(record_begin) == FRAMES_AT && PSR_PIPE_BYTES % LINE_BYTES == 0 &&
                   PSR_PIPE_RECORD_MAX % LINE_BYTES == 0 &&
                   2 * PSR_PIPE_RECORD_MAX + LINE_BYTES <= PSR_PIPE_BYTES,
               "the largest record fits an empty ring, whatever is skipped");

/* The second frame may hold doubles, and is aligned as the first one is. */
static size_t second_at(size_t first_bytes)
{
    return FRAMES_AT + (first_bytes + 7) / 8 * 8;
}

static size_t record_bytes(size_t first_bytes, size_t second_bytes)
{
    return (second_at(first_bytes) + second_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static record_begin *begin_at(uint8_t *ring, uint64_t position)
{
    return (record_begin *)(void *)(ring + position % PSR_PIPE_BYTES);
}

/* Bytes from there to the ring's end. */
static size_t before_end(uint64_t position)
{
    return PSR_PIPE_BYTES - (size_t)(position % PSR_PIPE_BYTES);
}

/* ---- the writer ---- */

static void publish(uint8_t *ring, uint64_t position, uint64_t lengths)
{
    record_begin *begin = begin_at(ring, position);
    atomic_store_explicit(&begin->lengths, lengths, memory_order_relaxed);
    atomic_store_explicit(&begin->stamp, position + 1, memory_order_release);
}

/* The reader is asked only if there is no room by what it said last. */
static psr_pipe_put_result make_room(psr_pipe_writer *w, size_t bytes)
{
    if (bytes <= PSR_PIPE_BYTES - (w->written - w->read))
        return PSR_PIPE_PUT;
    const uint64_t read =
        atomic_load_explicit(&w->board->places[w->place].read, memory_order_acquire);
    if (read < w->read || read > w->written)
        return PSR_PIPE_READER_LIES;
    w->read = read;
    return bytes <= PSR_PIPE_BYTES - (w->written - read) ? PSR_PIPE_PUT : PSR_PIPE_FULL;
}

psr_pipe_put_result psr_pipe_put(psr_pipe_writer *writer, const void *first, size_t first_bytes,
                                 const void *second, size_t second_bytes)
{
    psr_pipe_writer *w = writer;
    if (first_bytes > PSR_PIPE_RECORD_MAX || second_bytes > PSR_PIPE_RECORD_MAX ||
        record_bytes(first_bytes, second_bytes) > PSR_PIPE_RECORD_MAX)
        return PSR_PIPE_FULL;
    const size_t bytes = record_bytes(first_bytes, second_bytes), left = before_end(w->written);
    const size_t skipped = left < bytes ? left : 0;
    const uint64_t at = w->written + skipped, end = at + bytes;
    const psr_pipe_put_result room = make_room(w, skipped + bytes + LINE_BYTES);
    if (room != PSR_PIPE_PUT)
        return room;
    uint8_t *record = (uint8_t *)begin_at(w->ring, at);
    memcpy(record + FRAMES_AT, first, first_bytes);
    if (second_bytes > 0)
        memcpy(record + second_at(first_bytes), second, second_bytes);
    atomic_store_explicit(&begin_at(w->ring, end)->stamp, 0, memory_order_relaxed);
    publish(w->ring, at, (uint64_t)first_bytes << 32 | second_bytes);
    if (skipped > 0)
        publish(w->ring, w->written, SKIP);
    w->written = end;
    return PSR_PIPE_PUT;
}

/* The fence pairs with that of a reader that goes to sleep (net/sharing/pipes_in.c): either this
 * sees that it sleeps, or the reader sees the record. */
bool psr_pipe_must_wake(psr_pipe_writer *writer)
{
    atomic_thread_fence(memory_order_seq_cst);
    const uint64_t asleep = atomic_load_explicit(&writer->board->asleep, memory_order_relaxed);
    if (asleep == 0 || asleep == writer->woken)
        return false;
    writer->woken = asleep;
    return true;
}

/* ---- the reader ---- */

/* What the ring has there: it is only read. */
static const record_begin *read_begin_at(const uint8_t *ring, uint64_t position)
{
    return (const record_begin *)(const void *)(ring + position % PSR_PIPE_BYTES);
}

static bool is_there(const uint8_t *ring, uint64_t position)
{
    return atomic_load_explicit(&read_begin_at(ring, position)->stamp, memory_order_acquire) ==
           position + 1;
}

bool psr_pipe_any(const psr_pipe_reader *reader)
{
    return is_there(reader->ring, atomic_load_explicit(&reader->place->read, memory_order_relaxed));
}

/* At the ring's beginning nothing is skipped: a writer could keep the reader going round. */
static psr_pipe_look_result skip(const psr_pipe_reader *reader, uint64_t *at, uint64_t *lengths)
{
    if (*at % PSR_PIPE_BYTES == 0)
        return PSR_PIPE_BROKEN;
    *at += before_end(*at);
    if (!is_there(reader->ring, *at))
        return PSR_PIPE_BROKEN; /* a record is written before what skips to it */
    *lengths =
        atomic_load_explicit(&read_begin_at(reader->ring, *at)->lengths, memory_order_relaxed);
    return *lengths == SKIP ? PSR_PIPE_BROKEN : PSR_PIPE_RECORD;
}

psr_pipe_look_result psr_pipe_look(const psr_pipe_reader *reader, psr_pipe_record *ret_record)
{
    uint64_t at = atomic_load_explicit(&reader->place->read, memory_order_relaxed);
    if (!is_there(reader->ring, at))
        return PSR_PIPE_EMPTY;
    uint64_t lengths =
        atomic_load_explicit(&read_begin_at(reader->ring, at)->lengths, memory_order_relaxed);
    if (lengths == SKIP && skip(reader, &at, &lengths) != PSR_PIPE_RECORD)
        return PSR_PIPE_BROKEN;
    const size_t first_bytes = (size_t)(lengths >> 32), second_bytes = lengths & UINT32_MAX;
    if (first_bytes > PSR_PIPE_RECORD_MAX || second_bytes > PSR_PIPE_RECORD_MAX)
        return PSR_PIPE_BROKEN;
    const size_t bytes = record_bytes(first_bytes, second_bytes);
    if (bytes > PSR_PIPE_RECORD_MAX || bytes > before_end(at))
        return PSR_PIPE_BROKEN;
    const uint8_t *record = (const uint8_t *)read_begin_at(reader->ring, at);
    *ret_record = (psr_pipe_record){.first = record + FRAMES_AT,
                                    .second = record + second_at(first_bytes),
                                    .first_bytes = first_bytes,
                                    .second_bytes = second_bytes,
                                    .end = at + bytes};
    return PSR_PIPE_RECORD;
}

void psr_pipe_next(psr_pipe_reader *reader, const psr_pipe_record *record)
{
    atomic_store_explicit(&reader->place->read, record->end, memory_order_release);
}
