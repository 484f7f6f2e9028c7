/* Small things that every file with a libzmq socket needs. For net's own files. */
#ifndef PSR_NET_ZMQ_SOCKETS_H
#define PSR_NET_ZMQ_SOCKETS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

/* IO, with what and libzmq's last error. */
psr_err psr_zmq_failed(const char *what);

/* Sets options by number; what is the option's name, for the detail. IO. */
PSR_MUST_CHECK psr_err psr_zmq_set(void *socket, int option, int value, const char *what);
PSR_MUST_CHECK psr_err psr_zmq_set_text(void *socket, int option, const char *text,
                                        const char *what);
/* A larger frame ends the connection. */
PSR_MUST_CHECK psr_err psr_zmq_set_largest(void *socket, int64_t bytes);
/* Options that inbox and channels have in common: keepalive, address family, no high-water mark for
 * sending. */
PSR_MUST_CHECK psr_err psr_zmq_set_tcp(void *socket, bool ipv6);
/* Before a socket that sends values connects to endpoint. Does nothing unless that is TCP on this
 * host. IO. */
PSR_MUST_CHECK psr_err psr_zmq_keep_in_cache(void *socket, const char *endpoint);

/* Receives what is there, without waiting. A signal's handler can interrupt libzmq while it looks
 * at what other threads told a socket; then it is called again, since there may be a message, of
 * which nothing would tell later. Returns the number of bytes, of which at most size are stored;
 * -1: nothing is there. */
int psr_zmq_receive(void *socket, void *buffer, size_t size);
bool psr_zmq_receive_frame(void *socket, zmq_msg_t *frame);
/* Sends in the same way. false: libzmq failed. */
bool psr_zmq_send(void *socket, const void *bytes, size_t size, bool more);
bool psr_zmq_send_frame(void *socket, zmq_msg_t *frame, bool more);

#endif
