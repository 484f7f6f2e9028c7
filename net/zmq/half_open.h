/* Connections that libzmq has accepted and whose first message has not come: nobody knows yet whose
 * they are. Of those that have not been let in at most PSR_HALF_OPEN_MAX are held: of more the
 * oldest are ended. libzmq itself knows no such bound, and would hold a descriptor and a frame for
 * each. Those that were let in and say nothing are ended when their time is over
 * (psr_half_open_end_silent).
 *
 * libzmq's monitor tells a descriptor when it accepts, and later not whose handshake succeeded. So
 * a connection is known by the kernel's number for its socket (SO_COOKIE), which no other socket
 * ever has. That it was let in is known over TCP by how much was sent to it: READY, which ends a
 * handshake, goes to members alone, and with it more has been sent than any stranger gets. Over a
 * Unix socket it is known by the process at the other end: so many of a process's connections were
 * let in as admission has said. One thread at a time. */
#ifndef PSR_NET_ZMQ_HALF_OPEN_H
#define PSR_NET_ZMQ_HALF_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PSR_HALF_OPEN_MAX 64
#define PSR_HALF_OPEN_EARLY 64
#define PSR_HALF_OPEN_FOREIGN (-1) /* a process of another namespace, which has no number here */

typedef struct psr_half_open_entry {
    int fd;
    pid_t process; /* at the other end of a Unix socket; 0: it is TCP */
    uint64_t cookie;
    int64_t since_ms;
    bool stranger; /* of psr_half_open_trim: it was not let in */
} psr_half_open_entry;

/* Of a process so many connections were let in that are in the list. */
typedef struct psr_half_open_process {
    pid_t process;
    uint32_t let_in;
} psr_half_open_process;

typedef struct psr_half_open {
    psr_half_open_entry *entries; /* in the order in which they came;
                                     some are members or gone by now */
    size_t count, capacity;
    psr_half_open_process *processes;
    size_t process_count, process_capacity;
    uint64_t early[PSR_HALF_OPEN_EARLY]; /* cookies of those that are known
                                            before they were added */
    size_t early_at;
    int spare; /* descriptors kept for looking at a connection: there may be no other */
    int nothing;
    uint64_t stranger_bytes; /* the most that is sent over TCP to one that is not let in */
} psr_half_open;

void psr_half_open_init(psr_half_open *half_open, bool curve);
void psr_half_open_done(psr_half_open *half_open);

/* libzmq has accepted fd. What is no connection any more is left out. */
void psr_half_open_add(psr_half_open *half_open, int fd, int64_t now_ms);

/* One of that process's connections over a Unix socket is let in. */
void psr_half_open_let_in(psr_half_open *half_open, pid_t process);

/* The connection fd is known from now on: it is held as long as it likes. It may be one that is not
 * added yet. Gives its cookie; 0: it is gone. */
uint64_t psr_half_open_known(psr_half_open *half_open, int fd);

/* It is a member's no more; the same is then true of it as of one that has just been accepted. One
 * that is gone is left out. */
void psr_half_open_unknown(psr_half_open *half_open, int fd, uint64_t cookie, int64_t now_ms);

/* Ends the oldest that were not let in and are more than `most`. settled: none is just being let
 * in; else only those of Unix sockets are ended. */
void psr_half_open_trim(psr_half_open *half_open, size_t most, bool settled);

/* Ends those that came until then. Returns how many. */
size_t psr_half_open_end_silent(psr_half_open *half_open, int64_t until_ms);

/* Ends one that has just been added. */
void psr_half_open_end(psr_half_open *half_open, int fd);

/* When the oldest came; INT64_MAX: there is none. */
int64_t psr_half_open_oldest_ms(const psr_half_open *half_open);

#endif
