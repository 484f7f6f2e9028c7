/* A thread that waits for what a transport's recv cannot see: lines on a file descriptor and signals to end.
 * It reads no more than somebody takes, hands them over and wakes whoever waits for messages, so that nobody polls. */
#ifndef PSR_PS_WATCH_H
#define PSR_PS_WATCH_H

#include "base/err.h"

typedef struct psr_watch psr_watch;

typedef enum psr_watch_kind {
    PSR_WATCH_NOTHING,
    PSR_WATCH_LINE,      /* a line, without its newline */
    PSR_WATCH_END,       /* the file descriptor has ended: whoever held the other end is gone. Told once */
    PSR_WATCH_INTERRUPT, /* SIGINT or SIGTERM */
} psr_watch_kind;

/* Blocks SIGINT and SIGTERM for this thread and those that it makes from now on, so that a watch alone takes
 * them. Called first in main. */
void psr_watch_block_signals(void);

/* fd: -1 for none; stays the caller's. wake is called on the watch's thread after each event. ret owns. */
PSR_MUST_CHECK psr_err psr_watch_new(int fd, void (*wake)(void *context), void *context,
                                     psr_watch **ret_watch);
/* NULL allowed. */
void psr_watch_free(psr_watch *watch);

/* The next event in order, without waiting. *ret_line (LINE): owned, free(). */
psr_watch_kind psr_watch_next(psr_watch *watch, char **ret_line);

#endif
