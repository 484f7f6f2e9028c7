/* TCP connections that libzmq has accepted and that have not been let in: at most PSR_HALF_OPEN_MAX, of more the oldest
 * are ended. libzmq itself knows no such bound, and would hold a descriptor and a frame for each.
 *
 * libzmq's monitor tells a descriptor when it accepts, and later not whose handshake succeeded. So a connection is known
 * by the kernel's number for its socket (SO_COOKIE), which no other socket ever has, and that it was let in by how much
 * was sent to it: READY, which ends a handshake, goes to members alone, and with it more has been sent than any
 * stranger gets. One thread. */
#ifndef PSR_NET_HALF_OPEN_H
#define PSR_NET_HALF_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_HALF_OPEN_MAX 64

typedef struct psr_half_open_entry {
    int fd;
    uint64_t cookie;
} psr_half_open_entry;

typedef struct psr_half_open {
    psr_half_open_entry *entries; /* in the order in which they came; some are members or gone by now */
    size_t count, capacity;
    int spare; /* descriptors kept for looking at a connection: there may be no other */
    int nothing;
    uint64_t stranger_bytes; /* the most that is sent to one that is not let in */
} psr_half_open;

void psr_half_open_init(psr_half_open *half_open, bool curve);
void psr_half_open_done(psr_half_open *half_open);

/* libzmq has accepted fd. What is no TCP connection any more, or never was, is left out. */
void psr_half_open_add(psr_half_open *half_open, int fd);

/* Ends the oldest that are too many. Only while none is being let in. */
void psr_half_open_trim(psr_half_open *half_open);

#endif
