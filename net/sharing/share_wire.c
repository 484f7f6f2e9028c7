#include "net/sharing/share_wire.h"

#include "net/big_endian.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- the reference ---- */

static const uint8_t magic[4] = {'P', 'S', 'R', 'L'};

bool psr_reference_may(const psr_head *head)
{
    return head->encoding == PSR_ENCODING_FLOAT32 ||
           (head->type == PSR_MSG_VALUES && head->encoding == PSR_ENCODING_BYTES);
}

/* Values that are bytes here may be doubles at the receiver (net/message.h). */
size_t psr_reference_alignment(const psr_head *head)
{
    return head->encoding == PSR_ENCODING_FLOAT32 ? _Alignof(float) : _Alignof(double);
}

void psr_reference_encode(const psr_reference *reference, uint8_t bytes[PSR_REFERENCE_BYTES])
{
    memcpy(bytes, magic, sizeof magic);
    psr_put_be(bytes + 4, reference->arena, 4);
    psr_put_be(bytes + 8, reference->offset, 8);
    psr_put_be(bytes + 16, reference->token, 8);
}

bool psr_reference_decode(const void *bytes, size_t size, psr_reference *ret_reference)
{
    const uint8_t *from = bytes;
    if (size != PSR_REFERENCE_BYTES || memcmp(from, magic, sizeof magic) != 0)
        return false;
    *ret_reference = (psr_reference){(uint32_t)psr_get_be(from + 4, 4), psr_get_be(from + 8, 8),
                                     psr_get_be(from + 16, 8)};
    return true;
}

/* ---- records ---- */

psr_record_stream psr_record_stream_of(int fd)
{
    return (psr_record_stream){.fd = fd, .passed = -1};
}

/* The descriptor of a message that was received. false: more than one came. A control buffer for
 * one is too short for a second, which the kernel then closes and says. */
static bool take_passed(psr_record_stream *stream, struct msghdr *message)
{
    bool one = true;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (const uint8_t *)c + at, sizeof fd);
            if (stream->passed < 0) {
                stream->passed = fd;
            } else {
                close(fd);
                one = false;
            }
        }
    }
    return one && (stream->passed < 0 || (message->msg_flags & MSG_CTRUNC) == 0);
}

psr_record_read_result psr_record_read(psr_record_stream *stream, psr_record *ret_record,
                                       int *ret_passed)
{
    while (stream->have < sizeof stream->bytes) {
        union {
            struct cmsghdr align;
            uint8_t bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec into = {stream->bytes + stream->have, sizeof stream->bytes - stream->have};
        struct msghdr message = {.msg_iov = &into,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = CMSG_LEN(sizeof(int))};
        ssize_t got = recvmsg(stream->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return PSR_RECORD_NONE_YET;
        if (got <= 0)
            return PSR_RECORD_CLOSED;
        stream->have += (size_t)got;
        if (!take_passed(stream, &message))
            return PSR_RECORD_BROKEN;
    }
    memcpy(ret_record, stream->bytes, sizeof *ret_record);
    stream->have = 0;
    *ret_passed = stream->passed;
    stream->passed = -1;
    return PSR_RECORD_COMPLETE;
}

void psr_record_stream_close(psr_record_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->passed >= 0)
        close(stream->passed);
    *stream = psr_record_stream_of(-1);
}

/* So few bytes are one buffer of the kernel's, which a stream takes whole or not at all. */
psr_record_write_result psr_record_write(int fd, const psr_record *records, size_t count, int pass)
{
    assert(count > 0 && count <= PSR_RECORDS_AT_ONCE);
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec from = {(void *)(uintptr_t)records, count * sizeof *records};
    struct msghdr message = {.msg_iov = &from, .msg_iovlen = 1};
    if (pass >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(c), &pass, sizeof pass);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)from.iov_len)
        return PSR_RECORD_WRITTEN;
    return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? PSR_RECORD_FULL
                                                                 : PSR_RECORD_GONE;
}

/* ---- sockets ---- */

bool psr_share_path(const char *endpoint, char ret_path[PSR_SHARE_PATH_BYTES])
{
    if (strncmp(endpoint, "ipc://", 6) != 0)
        return false;
    int length = snprintf(ret_path, PSR_SHARE_PATH_BYTES, "%s.fd", endpoint + 6);
    return length > 0 && length < PSR_SHARE_PATH_BYTES;
}

bool psr_share_path_is_beside(const char *path, const char *other)
{
    const char *slash = strrchr(path, '/'), *of_other = strrchr(other, '/');
    return slash != NULL && of_other != NULL && slash - path == of_other - other &&
           memcmp(path, other, (size_t)(slash - path)) == 0 && of_other[1] != '\0' &&
           strlen(other) < PSR_SHARE_PATH_BYTES;
}

bool psr_share_user(int fd, unsigned *ret_user)
{
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || size != sizeof who)
        return false;
    *ret_user = who.uid;
    return true;
}
