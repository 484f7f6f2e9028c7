/* Lines over pipes that never block: what launcher, agents and scheduler say to each other, one
 * JSON object a line, and what the programs print. One thread. */
#ifndef PSR_BASE_TEXT_LINES_H
#define PSR_BASE_TEXT_LINES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_LINE_BYTES_MAX (1u << 20)    /* a longer line is cut in pieces */
#define PSR_LINE_VISIT_BYTES (16u << 10) /* read in one visit */

typedef struct psr_line_reader {
    int fd; /* owned; -1 when closed or at its end */
    char *buffer;
    size_t fill, room;
    uint64_t taken; /* bytes read so far */
} psr_line_reader;

typedef struct psr_line_writer {
    int fd; /* owned; -1 when closed */
    char *buffer;
    size_t sent, fill, room; /* what waits is from sent to fill */
    uint64_t taken;          /* bytes that the pipe took so far */
    size_t dropped;          /* lines dropped because the reader does not read */
} psr_line_writer;

/* Takes fd and makes it non-blocking. */
void psr_line_reader_init(psr_line_reader *reader, int fd);
void psr_line_writer_init(psr_line_writer *writer, int fd);

/* Reads what is there, at most PSR_LINE_VISIT_BYTES of it, so that a writer without end cannot take
 * all of the caller's time: poll says that there is more. Calls on_line for each whole line
 * (terminated, without newline; may be changed). At the end of the stream the rest without a
 * newline is a line too, and fd becomes -1. Errors: NOMEM, on_line's. */
PSR_MUST_CHECK psr_err psr_line_reader_visit(psr_line_reader *reader,
                                             psr_err (*on_line)(void *context, char *line),
                                             void *context);

/* How many bytes were written to the pipe until now, read or not. When `taken` has reached that
 * number, all of them were read. */
uint64_t psr_line_reader_written(const psr_line_reader *reader);

/* Queues a line (a newline is added) and writes what the pipe takes. Lines beyond 16 MiB of queue
 * are dropped and counted. When the reader is gone the writer closes without an error: the reader's
 * end is noticed elsewhere. */
void psr_line_writer_put(psr_line_writer *writer, const char *line);
/* Writes what the pipe takes now; for POLLOUT. */
void psr_line_writer_flush(psr_line_writer *writer);
bool psr_line_writer_pending(const psr_line_writer *writer);
/* Bytes that the pipe has not taken; 0 when nobody reads it any more. */
size_t psr_line_writer_waiting(const psr_line_writer *writer);

void psr_line_reader_done(psr_line_reader *reader);
void psr_line_writer_done(psr_line_writer *writer);

#endif
