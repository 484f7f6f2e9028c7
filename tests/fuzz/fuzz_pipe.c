/* What a hostile process writes: into its pipe, and on its board. The bytes are: where the reader
 * stands, what the reader of our own pipe says, then the ring from where the reader stands. What is
 * taken for a record is read to its last byte. */
#include "net/message.h"
#include "net/sharing/pipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t seen;

static void read_all(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        seen = bytes[i];
}

static void read_pipe(const uint8_t *ring, psr_board *board)
{
    psr_pipe_reader reader = {.ring = ring, .place = &board->places[0]};
    psr_pipe_record record;
    /* Every record is longer than nothing, so a ring has so many. */
    for (size_t i = 0; psr_pipe_look(&reader, &record) == PSR_PIPE_RECORD; i++) {
        uint8_t bytes[PSR_HEAD_BYTES_MAX];
        psr_head head;
        uint64_t payload_bytes;
        if (record.end <= reader.place->read || i > 2 * PSR_PIPE_BYTES / 64)
            abort();
        read_all(record.first, record.first_bytes);
        read_all(record.second, record.second_bytes);
        if (record.first_bytes <= sizeof bytes) {
            memcpy(bytes, record.first, record.first_bytes);
            if (psr_head_decode(bytes, record.first_bytes, &head, &payload_bytes) == PSR_OK)
                seen = (uint8_t)head.type;
        }
        psr_pipe_next(&reader, &record);
    }
}

static void write_pipe(uint8_t *ring, psr_board *board, uint64_t says)
{
    psr_pipe_writer writer = {.ring = ring, .board = board, .place = 1};
    static const uint8_t bytes[PSR_PIPE_FRAME_MAX];
    psr_pipe_put_result result = PSR_PIPE_PUT;
    for (int i = 0; i < 64 && result == PSR_PIPE_PUT; i++) {
        result = psr_pipe_put(&writer, bytes, 1 + (size_t)(says % 160), bytes, says % 7000);
        if (result == PSR_PIPE_PUT)
            (void)psr_pipe_must_wake(&writer);
        board->places[1].read = says;
        board->asleep = says;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t stands, says;
    if (size < sizeof stands + sizeof says)
        return 0;
    memcpy(&stands, data, sizeof stands);
    memcpy(&says, data + sizeof stands, sizeof says);
    data += sizeof stands + sizeof says;
    size -= sizeof stands + sizeof says;
    uint8_t *ring = aligned_alloc(64, PSR_PIPE_BYTES); /* just so large: sanitizers see the end */
    psr_board *board = aligned_alloc(64, sizeof *board);
    if (ring == NULL || board == NULL)
        abort();
    memset(ring, 0, PSR_PIPE_BYTES);
    memset(board, 0, sizeof *board);
    stands = stands / 64 * 64;
    board->places[0].read = stands;
    for (size_t i = 0; i < size && i < PSR_PIPE_BYTES; i++)
        ring[(stands + i) % PSR_PIPE_BYTES] = data[i];
    read_pipe(ring, board);
    memset(ring, 0, PSR_PIPE_BYTES);
    write_pipe(ring, board, says);
    free(ring);
    free(board);
    return 0;
}
