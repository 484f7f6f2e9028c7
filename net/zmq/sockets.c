#include "net/zmq/sockets.h"

#include "net/address/interface.h"

#include <errno.h>
#include <string.h>

psr_err psr_zmq_failed(const char *what)
{
    return psr_fail(PSR_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

psr_err psr_zmq_set(void *socket, int option, int value, const char *what)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0 ? PSR_OK
                                                                     : psr_zmq_failed(what);
}

psr_err psr_zmq_set_text(void *socket, int option, const char *text, const char *what)
{
    return zmq_setsockopt(socket, option, text, strlen(text)) == 0 ? PSR_OK : psr_zmq_failed(what);
}

psr_err psr_zmq_set_largest(void *socket, int64_t bytes)
{
    return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) == 0
               ? PSR_OK
               : psr_zmq_failed("ZMQ_MAXMSGSIZE");
}

psr_err psr_zmq_set_tcp(void *socket, bool ipv6)
{
    /* A half-open connection is noticed within half a minute; one to a stopped process is not
     * half-open. */
    PSR_TRY(psr_zmq_set(socket, ZMQ_TCP_KEEPALIVE, 1, "ZMQ_TCP_KEEPALIVE"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_TCP_KEEPALIVE_IDLE, 10, "ZMQ_TCP_KEEPALIVE_IDLE"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5, "ZMQ_TCP_KEEPALIVE_INTVL"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_TCP_KEEPALIVE_CNT, 4, "ZMQ_TCP_KEEPALIVE_CNT"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_IPV6, ipv6, "ZMQ_IPV6"));
    /* Nothing is ever dropped at a mark: the protocols' credits bound the queues. */
    return psr_zmq_set(socket, ZMQ_SNDHWM, 0, "ZMQ_SNDHWM");
}

/* Between processes of one host the kernel lets a connection hold 4 MB and more, so values wait
 * there, and are read when they have long left the processor's cache. With so few bytes the
 * receiver reads what has just been written (docs/measurements.md). Between hosts the kernel knows
 * best: it sizes the buffer by the link. */
#define LOCAL_SEND_BYTES (384 << 10)

psr_err psr_zmq_keep_in_cache(void *socket, const char *endpoint)
{
    return psr_endpoint_is_own(endpoint)
               ? psr_zmq_set(socket, ZMQ_SNDBUF, LOCAL_SEND_BYTES, "ZMQ_SNDBUF")
               : PSR_OK;
}

/* ---- without waiting ---- */

int psr_zmq_receive(void *socket, void *buffer, size_t size)
{
    int bytes;
    do
        bytes = zmq_recv(socket, buffer, size, ZMQ_DONTWAIT);
    while (bytes < 0 && zmq_errno() == EINTR);
    return bytes;
}

bool psr_zmq_receive_frame(void *socket, zmq_msg_t *frame)
{
    int bytes;
    do
        bytes = zmq_msg_recv(frame, socket, ZMQ_DONTWAIT);
    while (bytes < 0 && zmq_errno() == EINTR);
    return bytes >= 0;
}

bool psr_zmq_send(void *socket, const void *bytes, size_t size, bool more)
{
    int sent;
    do
        sent = zmq_send(socket, bytes, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    while (sent < 0 && zmq_errno() == EINTR);
    return sent >= 0;
}

bool psr_zmq_send_frame(void *socket, zmq_msg_t *frame, bool more)
{
    int sent;
    do
        sent = zmq_msg_send(frame, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    while (sent < 0 && zmq_errno() == EINTR);
    return sent >= 0;
}
