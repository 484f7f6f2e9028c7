#include "base/text/lines.h"

#include "base/text/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define QUEUE_BYTES_MAX (16u << 20)

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void psr_line_reader_init(psr_line_reader *reader, int fd)
{
    *reader = (psr_line_reader){.fd = fd};
    set_nonblocking(fd);
}

void psr_line_writer_init(psr_line_writer *writer, int fd)
{
    *writer = (psr_line_writer){.fd = fd};
    set_nonblocking(fd);
}

static psr_err grow(char **buffer, size_t *room, size_t need)
{
    if (need <= *room)
        return PSR_OK;
    size_t larger = *room ? *room : 4096;
    while (larger < need)
        larger *= 2;
    char *grown = psr_secret_grow(*buffer, *room, larger); /* keys pass through here */
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a line of %zu bytes", need);
    *buffer = grown;
    *room = larger;
    return PSR_OK;
}

/* Hands out the whole lines of the buffer and keeps the rest. */
static psr_err hand_out(psr_line_reader *reader, psr_err (*on_line)(void *context, char *line),
                        void *context)
{
    psr_err err = PSR_OK;
    char *at = reader->buffer, *end = reader->buffer + reader->fill;
    while (at < end && !err) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            break;
        *stop = '\0';
        if (stop > at && stop[-1] == '\r') /* ssh ends its own lines so */
            stop[-1] = '\0';
        err = on_line(context, at);
        at = stop + 1;
    }
    reader->fill = (size_t)(end - at);
    memmove(reader->buffer, at, reader->fill);
    if (at > reader->buffer)
        /* keys pass through here */
        explicit_bzero(reader->buffer + reader->fill, (size_t)(at - reader->buffer));
    if (!err && reader->fill >= PSR_LINE_BYTES_MAX) {
        reader->buffer[reader->fill] = '\0';
        err = on_line(context, reader->buffer);
        reader->fill = 0;
    }
    return err;
}

static void close_at_end(psr_line_reader *reader)
{
    close(reader->fd);
    reader->fd = -1;
}

psr_err psr_line_reader_visit(psr_line_reader *reader,
                              psr_err (*on_line)(void *context, char *line), void *context)
{
    for (size_t left = PSR_LINE_VISIT_BYTES; reader->fd >= 0 && left > 0;) {
        PSR_TRY(grow(&reader->buffer, &reader->room, reader->fill + 4096 + 1));
        size_t room = reader->room - reader->fill - 1;
        ssize_t got = read(reader->fd, reader->buffer + reader->fill, room < left ? room : left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return PSR_OK;
        if (got <= 0) {
            /* The end. An error on a pipe (EIO) is an end too: whoever wrote is gone. */
            close_at_end(reader);
            if (reader->fill > 0) {
                reader->buffer[reader->fill] = '\0';
                reader->fill = 0;
                PSR_TRY(on_line(context, reader->buffer));
            }
            return PSR_OK;
        }
        reader->fill += (size_t)got;
        reader->taken += (size_t)got;
        left -= (size_t)got;
        PSR_TRY(hand_out(reader, on_line, context));
    }
    return PSR_OK;
}

uint64_t psr_line_reader_written(const psr_line_reader *reader)
{
    int unread = 0;
    if (reader->fd >= 0 && ioctl(reader->fd, FIONREAD, &unread) != 0)
        unread = 0;
    return reader->taken + (unsigned)unread;
}

/* Moves what waits to the buffer's beginning when there is more room before it than it takes. */
static void compact(psr_line_writer *writer)
{
    if (writer->sent < writer->fill - writer->sent)
        return;
    memmove(writer->buffer, writer->buffer + writer->sent, writer->fill - writer->sent);
    writer->fill -= writer->sent;
    explicit_bzero(writer->buffer + writer->fill, writer->sent); /* keys pass through here */
    writer->sent = 0;
}

void psr_line_writer_put(psr_line_writer *writer, const char *line)
{
    size_t size = strlen(line);
    if (writer->fd < 0)
        return;
    if (writer->fill - writer->sent + size > QUEUE_BYTES_MAX ||
        grow(&writer->buffer, &writer->room, writer->fill + size + 1) != PSR_OK) {
        writer->dropped++;
        return;
    }
    memcpy(writer->buffer + writer->fill, line, size);
    writer->buffer[writer->fill + size] = '\n';
    writer->fill += size + 1;
    psr_line_writer_flush(writer);
}

void psr_line_writer_flush(psr_line_writer *writer)
{
    size_t before = writer->sent;
    while (writer->fd >= 0 && writer->sent < writer->fill) {
        ssize_t put = write(writer->fd, writer->buffer + writer->sent, writer->fill - writer->sent);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (put < 0) { /* EPIPE: the reader is gone */
            close(writer->fd);
            writer->fd = -1;
            writer->sent = writer->fill;
            break;
        }
        writer->sent += (size_t)put;
        writer->taken += (size_t)put;
    }
    if (writer->sent > before) /* an empty queue has no buffer yet */
        compact(writer);
}

size_t psr_line_writer_waiting(const psr_line_writer *writer)
{
    return writer->fd >= 0 ? writer->fill - writer->sent : 0;
}

bool psr_line_writer_pending(const psr_line_writer *writer)
{
    return psr_line_writer_waiting(writer) > 0;
}

void psr_line_reader_done(psr_line_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    *reader = (psr_line_reader){.fd = -1};
}

void psr_line_writer_done(psr_line_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    free(writer->buffer);
    *writer = (psr_line_writer){.fd = -1};
}
