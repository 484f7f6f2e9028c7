/* Time, for durations and deadlines. Monotonic; any thread. The clock stands still while a run is
 * stopped by Ctrl-Z, so no deadline and no figure counts that time. */
#ifndef PSR_BASE_CLOCK_H
#define PSR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds from an arbitrary start. */
int64_t psr_clock_ns(void);

/* Milliseconds, for deadlines. */
int64_t psr_clock_ms(void);

/* The time of CLOCK_MONOTONIC that is so much later than now, for timed waits of threads. */
struct timespec psr_clock_after_ns(int64_t duration_ns);

/* Seconds as a double, for rates. */
double psr_clock_s(void);

/* How long it has stood still in all: two processes of one machine differ by this alone. */
int64_t psr_clock_skipped_ns(void);

/* The clock stands still until it goes on. A second call of either does nothing. */
void psr_clock_stop(void);
void psr_clock_go_on(void);

/* From now on SIGTSTP stops this process, as it does by default, and its clock too, until SIGCONT.
 * (SIGSTOP cannot be caught: the clock goes on, and others miss a process that is stopped by it.)
 * Called by main, before there are threads. */
void psr_clock_stops_with_process(void);

/* The clock of a watcher, which ends processes that are silent for longer than a deadline. It
 * stands still while the watcher itself is stopped or kept from running, because the others were
 * not silent then. The watcher looks at it at least every psr_presence_clock_every_ms; a much
 * longer time between two looks counts as its own absence. After an absence the watcher reads what
 * others have sent before it judges them. Plain data; one thread. */
typedef struct psr_presence_clock {
    int64_t longest_ms; /* a time between two looks that is not an absence */
    int64_t seen_ms;    /* time of the last look, from psr_clock_ms */
    int64_t back_ms;    /* the end of the last absence, likewise;
                           the beginning when there was none */
    int64_t absent_ms;  /* all absences */
} psr_presence_clock;

psr_presence_clock psr_presence_clock_for(int64_t now_ms, int64_t deadline_ms);
/* A look. now_ms: psr_clock_ms(). Returns that less all absences. */
int64_t psr_presence_clock_ms(psr_presence_clock *clock, int64_t now_ms);
int64_t psr_presence_clock_every_ms(const psr_presence_clock *clock);

#endif
