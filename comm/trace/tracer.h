/* The tracer of a process: keeps what its threads do in some steps, and sends it to the scheduler,
 * which writes trace.json. With --trace; without it there is none, and nothing is recorded.
 *
 *     observer of the loop  --what is exchanged-->  events of the exchanging thread
 *     psr_tracer_span       --what is computed--->  events of the computing thread
 *     psr_tracer_begin      -> CLOCK, <- CLOCKED, some times over: the scheduler's clock
 *     psr_tracer_end        -> CLOCK, <- CLOCKED again, then -> TRACE .. TRACE: all events
 *
 * All memory is taken when it is made; events for which there is no room are counted and dropped.
 * The stamps are those of the observer, also of CLOCK and CLOCKED. It does no I/O: messages go out
 * by the outbox.
 *
 * Two threads may record, each its own events: psr_tracer_span is called by the computing one, all
 * else by the exchanging one, psr_tracer_end after the computing thread's last call. */
#ifndef PSR_COMM_TRACER_H
#define PSR_COMM_TRACER_H

#include "comm/observer.h"
#include "comm/trace/trace_event.h"

typedef struct psr_tracer psr_tracer;

/* How often a clock is asked, at the beginning and at the end: the shortest round trip counts. */
#define PSR_TRACE_CLOCKS 8
/* The most events of a process. */
#define PSR_TRACE_EVENTS_MAX ((uint64_t)1 << 20)

typedef struct psr_tracer_options {
    uint64_t first, count; /* steps, from 0 */
    /* Room for so many events of either thread; PSR_TRACE_EVENTS_MAX of both is the most. */
    uint64_t computing_max, exchanging_max;
} psr_tracer_options;

/* Room for a worker or a shard: what it may record in so many steps by this plan. nodes: of the
 * network, 0 of a shard; turns: how many ranks it plays. */
psr_tracer_options psr_tracer_room(const psr_plan *plan, uint64_t first, uint64_t count,
                                   uint32_t nodes, uint32_t turns);

/* NOMEM. The caller owns *ret_tracer: psr_tracer_free. */
PSR_MUST_CHECK psr_err psr_tracer_new(const psr_tracer_options *options, psr_tracer **ret_tracer);
void psr_tracer_free(psr_tracer *tracer); /* NULL allowed */

/* Hears what is exchanged, and of work. Borrowed for the tracer's life. */
const psr_observer *psr_tracer_observer(const psr_tracer *tracer);

/* Whether what belongs to this step is recorded. Any thread. */
bool psr_tracer_has(const psr_tracer *tracer, uint64_t step);
/* The steps to record: from 0. */
uint64_t psr_tracer_first(const psr_tracer *tracer);
uint64_t psr_tracer_end_step(const psr_tracer *tracer); /* behind the last */

/* Records a span of the computing thread that ends now, if the tracer has its step. */
void psr_tracer_span(psr_tracer *tracer, psr_trace_kind kind, uint64_t step, uint32_t index,
                     uint32_t count, int64_t begin_ns, int64_t end_ns);

/* ---- to the scheduler; each once ---- */

/* Asks for the scheduler's clock, when the first step begins. Fails as the outbox does. */
PSR_MUST_CHECK psr_err psr_tracer_begin(psr_tracer *tracer, const psr_outbox *outbox);
/* All is recorded: asks for the clock once more and sends the events then. Before psr_tracer_begin
 * there is nothing to send. */
PSR_MUST_CHECK psr_err psr_tracer_end(psr_tracer *tracer, const psr_outbox *outbox);
/* The scheduler's answer. PROTOCOL: it was not asked. Fails as the outbox does. */
PSR_MUST_CHECK psr_err psr_tracer_clocked(psr_tracer *tracer, const psr_message *message,
                                          const psr_outbox *outbox);
bool psr_tracer_begun(const psr_tracer *tracer);
/* psr_tracer_end has been called, and nothing is left to be sent. */
bool psr_tracer_sent(const psr_tracer *tracer);

/* ---- the scheduler's side ---- */

/* A digest of this machine, the same in all of its processes until it reboots; 0: not known. */
uint64_t psr_trace_machine(void);
/* The answer to a CLOCK, by this process's clock. machine: psr_trace_machine's. */
psr_head psr_trace_answer_clock(const psr_msg_clock *asked, uint64_t machine);
/* How far the scheduler's clock is ahead of a member's at a time by the member's clock: between the
 * two readings in proportion, outside of them the nearer one's, whatever a member claims. */
int64_t psr_trace_offset_at(const psr_msg_trace *trace, int64_t at_ns);

#endif
