/* A thread that waits for what a transport's recv does not see: lines on a file descriptor, and
 * signals to end. It keeps only a bounded number of lines that nobody has taken, and after each
 * event it wakes whoever waits for messages, so that nobody polls. */
#ifndef PSR_PS_INPUT_THREAD_H
#define PSR_PS_INPUT_THREAD_H

#include "base/err.h"

typedef struct psr_input_thread psr_input_thread;

typedef enum psr_input_thread_kind {
    PSR_INPUT_NOTHING,
    PSR_INPUT_LINE, /* a line, without its newline */
    /* the file descriptor has ended: the process at the other end is gone. Reported once */
    PSR_INPUT_END,
    /* SIGINT, or the first of SIGTERM, SIGUSR1 and SIGHUP, unless this process was started with it
     * ignored */
    PSR_INPUT_INTERRUPT,
} psr_input_thread_kind;

/* Blocks SIGINT, SIGTERM, SIGUSR1 and SIGHUP for this thread and those that it makes from now on,
 * so that only an input thread receives them. Called first in main. */
void psr_input_thread_block_signals(void);

/* fd: -1 for none; it stays the caller's. wake is called on the input thread after each event. The
 * caller owns *ret_input. */
PSR_MUST_CHECK psr_err psr_input_thread_new(int fd, void (*wake)(void *context), void *context,
                                            psr_input_thread **ret_input);
/* NULL allowed. */
void psr_input_thread_free(psr_input_thread *input);

/* The next event in order, without waiting. *ret_line (for LINE) is the caller's: free(). */
psr_input_thread_kind psr_input_thread_next(psr_input_thread *input, char **ret_line);

#endif
