/* Measures the way from one probe to another, as a machine free of I/O: what happens, and when,
 * gives messages to send. First the channel has to carry one message and its answer, then
 * ROUND_TRIPS messages without payload go one after the other, then messages of
 * PSR_PROBE_MESSAGE_BYTES, at first one and then PSR_PROBE_WINDOW on the way at once, until their
 * time is over: a slow link has carried one. The bandwidth counts from the first answer on, where a
 * second one came: what opens a connection is not in it. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_MEASURE_H
#define PSR_DEPLOY_DOCTOR_VISIT_MEASURE_H

#include "deploy/doctor/checkup.h"

#define PSR_MEASURE_ROUND_TRIPS 40

typedef enum psr_measure_phase {
    PSR_MEASURE_CONNECTING,
    PSR_MEASURE_ROUNDS,
    PSR_MEASURE_BYTES,
    PSR_MEASURE_DONE,
    PSR_MEASURE_FAILED,
} psr_measure_phase;

typedef struct psr_measure {
    psr_measure_phase phase;
    int64_t end_ns;   /* when it is given up */
    int64_t bytes_ns; /* for how long messages with a payload are sent */
    uint64_t sent, answered;
    int64_t sent_ns; /* when the last message without payload was sent */
    int64_t rounds_ns[PSR_MEASURE_ROUND_TRIPS];
    uint64_t rounds;
    uint64_t large; /* number of answered messages with a payload */
    /* times of these: the first was sent, the first and the last answer came */
    int64_t begun_ns, first_ns, last_ns;
} psr_measure;

/* Begins it; psr_measure_next has the first message. */
psr_measure psr_measure_begin(int64_t now_ns, int64_t bytes_ns, int64_t within_ns);

/* Whether to send a message now, with which number and how many bytes. Call it until it returns
 * false, after each of the other three functions. */
bool psr_measure_next(psr_measure *measure, int64_t now_ns, uint64_t *ret_number,
                      size_t *ret_bytes);
/* The answer with that number has come. false: it answers no message, and nothing changes. */
bool psr_measure_answered(psr_measure *measure, uint64_t number, int64_t now_ns);
/* Time has passed. */
void psr_measure_tick(psr_measure *measure, int64_t now_ns);

/* If DONE: the two figures of the pair; if FAILED: why. */
void psr_measure_result(const psr_measure *measure, psr_checkup_pair *ret_pair);

#endif
