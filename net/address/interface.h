/* Addresses of this machine's network interfaces: from the name that a user gives to the address
 * that a socket binds. Any thread; no state. */
#ifndef PSR_NET_ADDRESS_INTERFACE_H
#define PSR_NET_ADDRESS_INTERFACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_ADDRESS_BYTES 64

/* name: an IPv4 or IPv6 address of this machine, or an interface ("eth0": its first IPv4 address,
 * else its first IPv6 address that is not link-local). USAGE, naming the interfaces that there are.
 * Wildcards are refused: others must be told where to connect. */
PSR_MUST_CHECK psr_err psr_interface_address(const char *name, char ret_address[PSR_ADDRESS_BYTES]);

/* The address at which other hosts are most likely to reach this one, for when no interface was
 * named. Tried in this order: the address that the host's own name resolves to; the source address
 * of the default route; the first address of an interface that is up. Never a loopback address.
 * NOT_FOUND: there is none. */
PSR_MUST_CHECK psr_err psr_interface_to_others(char ret_address[PSR_ADDRESS_BYTES]);

/* Reserves a port of that address: the kernel gives it to nobody else while ret_fd is open. This
 * process or another one may still bind a listener there (both set SO_REUSEADDR, as libzmq does,
 * and the reserving socket never listens). *port: the port wanted, or 0 to let the kernel choose;
 * then it is set. USAGE: the port wanted is taken. IO. The caller owns *ret_fd: close(). */
PSR_MUST_CHECK psr_err psr_interface_reserve(const char *address, uint16_t *port, int *ret_fd);

/* An address of 127.0.0.0/8, or ::1. */
bool psr_address_is_loopback(const char *address);

/* Whether an endpoint ("tcp://10.0.0.2:4242", "tcp://[::1]:4242") has an address of this host.
 * False for names, and for whatever is not TCP. */
bool psr_endpoint_is_own(const char *endpoint);

/* Whether text is a numeric address that can belong to one interface of a host. False for wildcards
 * (0.0.0.0, ::), for multicast and broadcast addresses, and for addresses of no network. A scope
 * ("%eth0") is allowed behind a link-local IPv6 address only, and must be an interface's name. */
bool psr_address_is_a_hosts(const char *text);

/* "tcp://127.0.0.1:4242", "tcp://[::1]:4242"; port 0 becomes "*", which libzmq reads as any. */
void psr_endpoint_format(const char *address, unsigned port, char *endpoint, size_t size);

#endif
