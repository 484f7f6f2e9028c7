/* Time, for durations and deadlines. Monotonic; any thread. It leaves out the time in which a run was stopped by Ctrl-Z: no deadline
 * and no figure counts that. */
#ifndef PSR_BASE_CLOCK_H
#define PSR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds, from some beginning. */
int64_t psr_clock_ns(void);

/* Milliseconds, for deadlines. */
int64_t psr_clock_ms(void);

/* A time of CLOCK_MONOTONIC so much later than now, for the timed waits of threads. */
struct timespec psr_clock_after_ns(int64_t duration_ns);

/* Seconds as a double, for rates. */
double psr_clock_s(void);

/* The clock stands still until it goes on. A second call of either does nothing. */
void psr_clock_stop(void);
void psr_clock_go_on(void);

/* SIGTSTP stops this process, as it does by default, and its clock stands until SIGCONT. (SIGSTOP, which nobody can take, leaves the
 * clock as it is: who is stopped by that is missed.) Called by main, before there are threads. */
void psr_clock_stops_with_process(void);

/* The clock of one who watches others and ends what is silent for longer than a deadline. It stands still while its keeper is
 * stopped or kept from running: that is nobody's silence. The keeper looks at it every psr_presence_clock_every_ms at least; a
 * time between two looks that is much longer was an absence. What others said meanwhile is to be read before they are
 * judged. Plain data; one thread. */
typedef struct psr_presence_clock {
    int64_t longest_ms; /* between two looks that is no absence */
    int64_t seen_ms;    /* the last look, as psr_clock_ms gave it */
    int64_t back_ms;    /* the end of the last absence, likewise; the beginning when there was none */
    int64_t absent_ms;  /* all absences */
} psr_presence_clock;

psr_presence_clock psr_presence_clock_for(int64_t now_ms, int64_t deadline_ms);
/* A look. now_ms: psr_clock_ms(). Returns that less all absences. */
int64_t psr_presence_clock_ms(psr_presence_clock *clock, int64_t now_ms);
int64_t psr_presence_clock_every_ms(const psr_presence_clock *clock);

#endif
