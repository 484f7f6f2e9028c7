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
#ifndef PSR_NET_ZMQ_INBOX_HALF_OPEN_H
#define PSR_NET_ZMQ_INBOX_HALF_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PSR_HALF_OPEN_MAX 64
#define PSR_HALF_OPEN_EARLY 64
#define PSR_HALF_OPEN_FOREIGN (-1) /* a process of another namespace, which has no number here */

typedef struct psr_half_open_entry {
    int fd;
    pid_t process; /* the process at the other end of a Unix socket; 0: it is TCP */
    uint64_t cookie;
    int64_t since_ms;
    uint64_t bytes_max; /* that it may send while nobody knows whose it is; 0: any number */
    bool stranger;      /* for psr_half_open_trim: it was not admitted */
    bool greedy;        /* for psr_half_open_end_greedy: it has sent more than it may */
} psr_half_open_entry;

/* How many connections of a process in the list were admitted. */
typedef struct psr_half_open_process {
    pid_t process;
    uint32_t let_in;
} psr_half_open_process;

typedef struct psr_half_open {
    /* in the order in which they came; some have become known or have ended */
    psr_half_open_entry *entries;
    size_t count, capacity;
    psr_half_open_process *processes;
    size_t process_count, process_capacity;
    /* cookies of connections that became known before they were added */
    uint64_t early[PSR_HALF_OPEN_EARLY];
    size_t early_at;
    int spare; /* descriptors reserved for looking at a connection, since there may be no other */
    int nothing;
    /* the most bytes that are sent over TCP to a connection that is not admitted */
    uint64_t stranger_bytes;
} psr_half_open;

void psr_half_open_init(psr_half_open *half_open, bool curve);
void psr_half_open_done(psr_half_open *half_open);

/* What a connection for sealed messages may send before it is known, and any one that is known no
 * longer. More than libzmq and the kernel take of one that sends messages; one frame after the
 * other of a single message is read without end. */
#define PSR_HALF_OPEN_BYTES_MAX (UINT64_C(128) << 20)
/* How often who may send so much is looked at. */
#define PSR_HALF_OPEN_LOOK_MS 100

/* libzmq has accepted fd. Does nothing if it is no longer a connection. bytes_max: 0, or of a
 * connection over TCP PSR_HALF_OPEN_BYTES_MAX. Whether it was known before that. */
bool psr_half_open_add(psr_half_open *half_open, int fd, uint64_t bytes_max, int64_t now_ms);

/* Of a connection that libzmq had as fd, over TCP. */
typedef enum psr_half_open_state {
    PSR_HALF_OPEN_CONNECTED,
    PSR_HALF_OPEN_ENDING, /* the other end has closed it, or it is broken; libzmq reads on */
    PSR_HALF_OPEN_ENDED   /* libzmq has read it to its end, and has closed it */
} psr_half_open_state;
psr_half_open_state psr_half_open_state_of(int fd, uint64_t cookie);

/* One of that process's connections over a Unix socket was admitted. */
void psr_half_open_let_in(psr_half_open *half_open, pid_t process);

/* The connection fd is known from now on: it may stay for any time. It need not have been added
 * yet. Returns its cookie; 0: it has ended. */
uint64_t psr_half_open_known(psr_half_open *half_open, int fd);

/* The connection no longer belongs to a member, and is treated as one that has just been accepted.
 * false: it has ended, and nothing is done. */
bool psr_half_open_unknown(psr_half_open *half_open, int fd, uint64_t cookie, int64_t now_ms);

/* If more than `most` were not admitted, ends the oldest of these. settled: no connection is just
 * being admitted; otherwise only those over Unix sockets are ended. */
void psr_half_open_trim(psr_half_open *half_open, size_t most, bool settled);

/* Ends the connections that came until then. Returns how many. */
size_t psr_half_open_end_silent(psr_half_open *half_open, int64_t until_ms);

/* Whether the bytes of any connection are counted; ends those that have sent more than they may,
 * and returns how many. */
bool psr_half_open_counts(const psr_half_open *half_open);
size_t psr_half_open_end_greedy(psr_half_open *half_open);

/* Ends a connection that has just been added. */
void psr_half_open_end(psr_half_open *half_open, int fd);

/* When the oldest came; INT64_MAX: there is none. */
int64_t psr_half_open_oldest_ms(const psr_half_open *half_open);

#endif
