/* From what a user calls an interface to the address that a socket binds. Any thread; no state. */
#ifndef PSR_NET_INTERFACE_H
#define PSR_NET_INTERFACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define PSR_ADDRESS_BYTES 64

/* name: an IPv4 or IPv6 address of this machine, or an interface ("eth0": its first IPv4 address, else its
 * first IPv6 address that is not link-local). USAGE, naming the interfaces that there are. Wildcards are
 * refused: others must be told where to connect. */
PSR_MUST_CHECK psr_err psr_interface_address(const char *name, char ret_address[PSR_ADDRESS_BYTES]);

/* An address of 127.0.0.0/8, or ::1. */
bool psr_address_is_loopback(const char *address);

/* "tcp://127.0.0.1:4242", "tcp://[::1]:4242"; port 0 becomes "*", which libzmq reads as any. */
void psr_endpoint_format(const char *address, unsigned port, char *endpoint, size_t size);

#endif
