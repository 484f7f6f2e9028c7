/* What a program prints for the person, written by a thread of its own: a terminal that is stopped
 * (Ctrl-S), a pager that nobody scrolls or a pipe that nobody reads holds up that thread and
 * nothing else. What goes to stdout and stderr stays in order. (Pipes of our own do without a
 * thread: base/text/lines.h. O_NONBLOCK on a terminal would be that of all who use it.) */
#ifndef PSR_BASE_SCREEN_H
#define PSR_BASE_SCREEN_H

#include "base/err.h"

#include <stdbool.h>

typedef struct psr_screen psr_screen;

/* The caller owns *ret_screen. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_screen_new(psr_screen **ret_screen);

/* Queue text for stdout or stderr; never wait. It passes base/text/printable.h, newlines and tabs
 * stay. Beyond a MiB that is not out yet it is left out, and how often is told when the rest is.
 * One thread. */
void psr_screen_out(psr_screen *screen, const char *format, ...) PSR_PRINTF(2, 3);
void psr_screen_err(psr_screen *screen, const char *format, ...) PSR_PRINTF(2, 3);
/* As psr_screen_out, but unfiltered: for the control sequences of a progress bar. Nothing that came
 * from elsewhere may be in it but numbers. */
void psr_screen_draw(psr_screen *screen, const char *format, ...) PSR_PRINTF(2, 3);

/* Whether there is room for the output of other processes: half of it is kept for the program's
 * own, which is little. false: it is counted as left out. */
bool psr_screen_has_room(psr_screen *screen);

/* More waits than a screen shows: what will be repeated soon can be left out. */
bool psr_screen_is_behind(psr_screen *screen);

/* Waits until everything is out, or something can be read from give_up_fd, or nothing got out for
 * timeout_ms (-1: no limit). NULL allowed. */
void psr_screen_drain(psr_screen *screen, int give_up_fd, int timeout_ms);

/* What is not out is lost. A thread that hangs in a write stays until the process ends. NULL
 * allowed. */
void psr_screen_free(psr_screen *screen);

#endif
