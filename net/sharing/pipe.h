/* A pipe: small messages from one process to one other on its host, through memory and without a
 * system call. The writer has a ring of bytes in an arena of its own, which the reader can only
 * read (net/sharing/shared_arena.h). The reader has a board, which the writer can only read: there
 * it says how far it has read, and whether it sleeps.
 *
 *     ring of the writer                        board of the reader
 *     | record | record |  free  | record |     asleep: 0, or the number of this sleep
 *       ^ read            ^ written             read, for each pipe that it reads
 *
 * A record begins at a multiple of 64 bytes: a stamp, the lengths of both frames, the frames. The
 * stamp is the record's position plus one, counted over all laps of the ring, and is written last:
 * a record is there whole or not at all, whenever its writer dies. Where the next record will
 * begin, the writer first writes 0, so that no old bytes there can look like a stamp.
 *
 * Neither side trusts the other's memory: each number is read once, and checked before it is used.
 * This file knows memory alone, and neither descriptors nor messages. A pipe has one writing thread
 * at a time, and one reading thread at a time. */
#ifndef PSR_NET_SHARING_PIPE_H
#define PSR_NET_SHARING_PIPE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_PIPE_BYTES ((size_t)64 << 10)     /* of a ring */
#define PSR_PIPE_RECORD_MAX ((size_t)8 << 10) /* the largest record, with stamp and lengths */
#define PSR_PIPE_FRAME_MAX (PSR_PIPE_RECORD_MAX - 64) /* no larger frame fits one */
#define PSR_PIPES_MAX 1024                            /* that one process ever reads */

typedef struct psr_board_place {
    alignas(64) _Atomic uint64_t read; /* bytes of the pipe that were read, over all laps */
} psr_board_place;

typedef struct psr_board {
    alignas(64) _Atomic uint64_t asleep; /* 0: the reader looks by itself */
    psr_board_place places[PSR_PIPES_MAX];
} psr_board;

/* ---- the writer ---- */

typedef struct psr_pipe_writer {
    uint8_t *ring;          /* PSR_PIPE_BYTES, zero at first; borrowed */
    const psr_board *board; /* of the reader, and the place of this pipe there; borrowed */
    uint32_t place;
    uint64_t written, read; /* bytes over all laps; read: as the reader last said */
    uint64_t woken;         /* the sleep from which the reader was woken last */
} psr_pipe_writer;

typedef enum psr_pipe_put_result {
    PSR_PIPE_PUT,
    PSR_PIPE_FULL,        /* there is no room now, or never: the message is too large */
    PSR_PIPE_READER_LIES, /* the reader says that it has read what was not written */
} psr_pipe_put_result;

psr_pipe_put_result psr_pipe_put(psr_pipe_writer *writer, const void *first, size_t first_bytes,
                                 const void *second, size_t second_bytes);
/* To be called after a put: whether the reader sleeps and must be woken. true once for each
 * sleep. */
bool psr_pipe_must_wake(psr_pipe_writer *writer);

/* ---- the reader ---- */

typedef struct psr_pipe_reader {
    const uint8_t *ring;    /* PSR_PIPE_BYTES; borrowed */
    psr_board_place *place; /* on its own board; borrowed */
} psr_pipe_reader;

/* Its bytes lie in the ring, where the writer can change them: copy before checking. */
typedef struct psr_pipe_record {
    const uint8_t *first, *second;
    size_t first_bytes, second_bytes;
    uint64_t end; /* bytes over all laps */
} psr_pipe_record;

typedef enum psr_pipe_look_result {
    PSR_PIPE_RECORD,
    PSR_PIPE_EMPTY,
    PSR_PIPE_BROKEN, /* what is there is no record */
} psr_pipe_look_result;

/* The first record that was not read. */
psr_pipe_look_result psr_pipe_look(const psr_pipe_reader *reader, psr_pipe_record *ret_record);
/* The record was read, and its place may be written again. */
void psr_pipe_next(psr_pipe_reader *reader, const psr_pipe_record *record);
/* Whether there is something. Any thread, while the pipe is there. */
bool psr_pipe_any(const psr_pipe_reader *reader);

#endif
