/* The launcher's decisions, played: what agents, scheduler and person do in, what is to be done
 * out, as lines of text. */
#ifndef PSR_TESTS_PLAYED_LAUNCH_H
#define PSR_TESTS_PLAYED_LAUNCH_H

#include "tests/unit/expect.h"

#include "base/text/text.h"
#include "deploy/launch/machine/launch_machine.h"

enum { BEGAN_MS = 1000000, DEADLINE_MS = 8000 };
enum { A, B };     /* hosts: this one, and one that ssh reaches */
#define SIGNAL_9 9 /* as waitpid says it */
#define EXIT(status) ((status) << 8)

typedef struct played {
    psr_launch_machine *machine;
    psr_config config;
    psr_err failure; /* of the next action that can fail */
    char done[16384];
    psr_text_end end; /* of done */
} played;

/* The machine alone, on two hosts with a shard and two workers, and a worker. */
void open_machine(played *p, psr_bare bare, const char *interface);
/* And their agents, which have not said hello. */
void begin_with(played *p, psr_bare bare, const char *interface);
void begin(played *p);
/* Until processes are spawned. */
void begin_run(played *p);
/* As begin, with the processes bound. */
void begin_bound(played *p, psr_bind_to bind_to);
/* As begin, with the links measured. */
void begin_measuring(played *p, const char *interface);
/* The same of `psring run`, with the workers as ranks. */
void begin_program(played *p);

/* ---- what comes in ---- */

#define HELLO_A                                                                                    \
    "{\"event\":\"hello\",\"version\":\"" PSR_VERSION "\",\"machine\":\"m1\",\"cores\":8}"
#define HELLO_B                                                                                    \
    "{\"event\":\"hello\",\"version\":\"" PSR_VERSION                                              \
    "\",\"address\":\"10.0.0.2\",\"launcher_address\":\"10.0.0.1\",\"machine\":\"m2\",\"cores\":"  \
    "6}"
#define LISTENING "{\"event\":\"listening\",\"endpoint\":\"tcp://10.0.0.1:7\"}"
#define ENDED_WELL                                                                                 \
    "{\"event\":\"ended\",\"status\":0,\"line\":\"done\",\"outcome\":{\"hash\":\"12\"}}"

void agent_says(played *p, size_t host, const char *line, int64_t at_ms);
void scheduler_says(played *p, const char *line, int64_t at_ms);
void tick(played *p, int64_t at_ms);
/* All processes of the run end. */
void close_all(played *p, int64_t at_ms);

/* ---- what was done ---- */

void forget(played *p);
/* What was done since the last time is this. */
void expect_done(played *p, const char *text);
int64_t wait_ms(played *p, int64_t at_ms);
/* The run is over; how the person is told. */
void expect_end(played *p, int status, const char *told);

#endif
