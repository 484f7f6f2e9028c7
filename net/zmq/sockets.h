/* Small things that every file with a libzmq socket needs. For net's own files. */
#ifndef PSR_NET_ZMQ_SOCKETS_H
#define PSR_NET_ZMQ_SOCKETS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

/* IO, with libzmq's last error behind what. */
psr_err psr_zmq_failed(const char *what);

/* Options by number; what is the option's name for the detail. IO. */
PSR_MUST_CHECK psr_err psr_zmq_set(void *socket, int option, int value, const char *what);
PSR_MUST_CHECK psr_err psr_zmq_set_text(void *socket, int option, const char *text,
                                        const char *what);
/* Frames that are larger end the connection. */
PSR_MUST_CHECK psr_err psr_zmq_set_largest(void *socket, int64_t bytes);
/* What inbox and channels have in common: keepalive, address family, no high-water mark for
 * sending. */
PSR_MUST_CHECK psr_err psr_zmq_set_tcp(void *socket, bool ipv6);

/* What is there, without waiting. A signal's handler interrupts libzmq's look at what other threads
 * told a socket, before it does anything: then it is called again, since there may be a message all
 * the same, and nothing would tell of it later. Returns the number of bytes, of which size at most
 * are put there; -1: nothing is there. */
int psr_zmq_receive(void *socket, void *buffer, size_t size);
bool psr_zmq_receive_frame(void *socket, zmq_msg_t *frame);
/* Likewise. False: an error of libzmq's. */
bool psr_zmq_send(void *socket, const void *bytes, size_t size, bool more);
bool psr_zmq_send_frame(void *socket, zmq_msg_t *frame, bool more);

#endif
