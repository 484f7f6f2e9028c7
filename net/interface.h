/* From what a user calls an interface to the address that a socket binds. Any thread; no state. */
#ifndef PSR_NET_INTERFACE_H
#define PSR_NET_INTERFACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_ADDRESS_BYTES 64

/* name: an IPv4 or IPv6 address of this machine, or an interface ("eth0": its first IPv4 address, else its
 * first IPv6 address that is not link-local). USAGE, naming the interfaces that there are. Wildcards are
 * refused: others must be told where to connect. */
PSR_MUST_CHECK psr_err psr_interface_address(const char *name, char ret_address[PSR_ADDRESS_BYTES]);

/* The address at which other hosts are most likely to reach this one, where nobody names an interface: what its own name stands for, else that of the
 * way to other networks, else the first of an interface that is up; never a loopback one. NOT_FOUND: there is none. */
PSR_MUST_CHECK psr_err psr_interface_to_others(char ret_address[PSR_ADDRESS_BYTES]);

/* A port of that address which the kernel gives to nobody else while ret_fd is open. A listener may be bound there meanwhile, by another process too
 * (both set SO_REUSEADDR, as libzmq does, and this one never listens). *port: one that is wanted, or 0, and then what the kernel chose. USAGE: the one
 * that is wanted is taken. IO. ret_fd owns: close(). */
PSR_MUST_CHECK psr_err psr_interface_reserve(const char *address, uint16_t *port, int *ret_fd);

/* An address of 127.0.0.0/8, or ::1. */
bool psr_address_is_loopback(const char *address);

/* Whether text is the numeric address of one interface, as another host would tell it: none of all
 * interfaces (0.0.0.0, ::), of many hosts (multicast, broadcast) or of no network; a scope
 * ("%eth0") behind an IPv6 address of a link alone, and it is an interface's name. */
bool psr_address_is_a_hosts(const char *text);

/* "tcp://127.0.0.1:4242", "tcp://[::1]:4242"; port 0 becomes "*", which libzmq reads as any. */
void psr_endpoint_format(const char *address, unsigned port, char *endpoint, size_t size);

#endif
