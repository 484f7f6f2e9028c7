/* A thread that waits for what a transport's recv cannot see: lines on a file descriptor and
 * signals to end. It reads no more than somebody takes, hands them over and wakes whoever waits for
 * messages, so that nobody polls. */
#ifndef PSR_PS_INPUT_THREAD_H
#define PSR_PS_INPUT_THREAD_H

#include "base/err.h"

typedef struct psr_input_thread psr_input_thread;

typedef enum psr_input_thread_kind {
    PSR_INPUT_NOTHING,
    PSR_INPUT_LINE,      /* a line, without its newline */
    PSR_INPUT_END,       /* the file descriptor has ended: whoever
                            held the other end is gone. Told once */
    PSR_INPUT_INTERRUPT, /* SIGINT, or the first of SIGTERM, SIGUSR1 and SIGHUP,
                            unless this process was started to ignore it */
} psr_input_thread_kind;

/* Blocks SIGINT, SIGTERM, SIGUSR1 and SIGHUP for this thread and those that it makes from now on,
 * so that an input thread alone takes them. Called first in main. */
void psr_input_thread_block_signals(void);

/* fd: -1 for none; stays the caller's. wake is called on that thread after each event. ret owns. */
PSR_MUST_CHECK psr_err psr_input_thread_new(int fd, void (*wake)(void *context), void *context,
                                            psr_input_thread **ret_input);
/* NULL allowed. */
void psr_input_thread_free(psr_input_thread *input);

/* The next event in order, without waiting. *ret_line (LINE): owned, free(). */
psr_input_thread_kind psr_input_thread_next(psr_input_thread *input, char **ret_line);

#endif
