/* Lines over pipes that never block: what launcher, agents and scheduler say to each other, one JSON object a line, and
 * what the programs print. One thread. */
#ifndef PSR_DEPLOY_LINES_H
#define PSR_DEPLOY_LINES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define PSR_LINE_BYTES_MAX (1u << 20) /* a longer line is cut in pieces */

typedef struct psr_line_reader {
    int fd; /* owned; -1 when closed or at its end */
    char *buffer;
    size_t fill, room;
} psr_line_reader;

typedef struct psr_line_writer {
    int fd; /* owned; -1 when closed */
    char *buffer;
    size_t fill, room;
    size_t dropped; /* lines that a reader that does not read has cost */
} psr_line_writer;

/* Takes fd and makes it non-blocking. */
void psr_line_reader_init(psr_line_reader *reader, int fd);
void psr_line_writer_init(psr_line_writer *writer, int fd);

/* Reads what is there and calls on_line for each whole line (terminated, without newline; may be changed). At the end of the
 * stream the rest without a newline is a line too, and fd becomes -1. IO only for real errors. */
PSR_MUST_CHECK psr_err psr_line_reader_drain(psr_line_reader *reader, psr_err (*on_line)(void *context, char *line), void *context);

/* Queues a line (a newline is added) and writes what the pipe takes. Lines beyond 16 MiB of queue are dropped and counted.
 * A reader that is gone closes the writer quietly: its end is noticed elsewhere. */
void psr_line_writer_put(psr_line_writer *writer, const char *line);
/* Writes what the pipe takes now; for POLLOUT. */
void psr_line_writer_flush(psr_line_writer *writer);
bool psr_line_writer_pending(const psr_line_writer *writer);

void psr_line_reader_done(psr_line_reader *reader);
void psr_line_writer_done(psr_line_writer *writer);

#endif
