/* Small things that every file with a libzmq socket needs. For net's own files. */
#ifndef PSR_NET_SOCKETS_H
#define PSR_NET_SOCKETS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* IO, with libzmq's last error behind what. */
psr_err psr_zmq_failed(const char *what);

/* Options by number; what is the option's name for the detail. IO. */
PSR_MUST_CHECK psr_err psr_zmq_set(void *socket, int option, int value, const char *what);
PSR_MUST_CHECK psr_err psr_zmq_set_text(void *socket, int option, const char *text, const char *what);
/* Frames that are larger end the connection. */
PSR_MUST_CHECK psr_err psr_zmq_set_largest(void *socket, int64_t bytes);
/* What inbox and channels have in common: keepalive, address family, no high-water mark for sending. */
PSR_MUST_CHECK psr_err psr_zmq_set_tcp(void *socket, bool ipv6);

#endif
