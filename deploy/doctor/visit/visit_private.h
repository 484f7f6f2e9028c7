/* What the files of deploy/doctor/visit/visit.h share: visit.c asks the questions in their order,
 * visit_hosts.c talks to agents and probes. */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_VISIT_PRIVATE_H
#define PSR_DEPLOY_DOCTOR_VISIT_VISIT_PRIVATE_H

#include "deploy/agent/host.h"
#include "deploy/doctor/visit/visit.h"
#include "deploy/launch/hosts/placement.h"
#include "net/trust/keys/keys.h"

#include <poll.h>

/* What a host was asked and has not answered. */
typedef enum psr_question {
    PSR_ASKED_NOTHING,
    PSR_ASKED_HELLO, /* the agent */
    PSR_ASKED_FACTS,
    PSR_ASKED_DATA,
    PSR_ASKED_CLOCK,
    PSR_ASKED_REACH,
    PSR_ASKED_MEET,
    PSR_ASKED_MEASURE,
    PSR_ASKED_END, /* the agent */
} psr_question;

typedef struct psr_visited {
    psr_host_link link;
    bool started, greeted, spawned;
    bool closed; /* its agent has ended, and all its output was read */
    psr_question asked;
    int64_t asked_ns; /* CLOCK, by the monotonic clock */
    double asked_s;   /* CLOCK, by the wall clock */
    double number;    /* CLOCK */
    size_t partner;   /* MEET, MEASURE */
    bool met;
    char last_words[512]; /* last line of its agent, ssh or probe */
} psr_visited;

typedef struct psr_visitor {
    const psr_visit_options *options;
    psr_checkup *checkup;
    psr_visited *visited;    /* one for each host */
    psr_placement placement; /* worker i on host i; its names are the checkup's */
    psr_keys *keys;
    size_t key_count;
    int signals;
    struct pollfd *fds; /* 1 + 4 for each host */
} psr_visitor;

/* Sends the probe of a host, or its agent, a question. Consumes text's JSON. */
void psr_visit_ask(psr_visitor *visitor, size_t host, psr_question question, cJSON *command);

/* Waits until all have answered, at most for the deadline; what: for psr_visit_options.progress.
 * Hosts that have not answered then are given up (psr_visit_give_up). CANCELLED. */
PSR_MUST_CHECK psr_err psr_visit_await(psr_visitor *visitor, const char *what, int64_t within_ms);

/* Takes one line of a host's agent, which may contain anything. */
void psr_visit_take_line(psr_visitor *visitor, size_t host, const char *line);

/* This host is asked nothing more. Only its first failure is kept. */
void psr_visit_give_up(psr_visitor *visitor, size_t host, const char *format, ...) PSR_PRINTF(3, 4);

/* Whether it can be asked. */
bool psr_visit_answers(const psr_visitor *visitor, size_t host);

#endif
