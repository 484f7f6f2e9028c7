/* One line of an agent (deploy/agent/agent.h), read and checked. An agent is believed about its own
 * host and the members that are placed there, and about nothing else. Pure. */
#ifndef PSR_DEPLOY_AGENT_EVENT_H
#define PSR_DEPLOY_AGENT_EVENT_H

#include "base/log.h"
#include "deploy/agent/topology.h"
#include "base/text/json.h"
#include "deploy/launch/hosts/placement.h"

typedef enum psr_agent_event_kind {
    PSR_AGENT_GREETING, /* what a login shell prints before the agent's hello; text is all of it */
    PSR_AGENT_HELLO,
    PSR_AGENT_ALIVE, /* its answer to our sign of life */
    PSR_AGENT_PAUSED,
    PSR_AGENT_LINE,   /* a process printed text */
    PSR_AGENT_EXITED, /* text: how */
} psr_agent_event_kind;

typedef struct psr_agent_event {
    psr_agent_event_kind kind;
    uint32_t cores;                         /* HELLO: processors that it may use */
    psr_topology topology;                  /* HELLO: the same, and how they lie;
                                               owned. Empty: it does not tell */
    const char *address, *launcher_address; /* HELLO: numeric, at most 63 bytes; ""
                                               when it was not reached over ssh */
    const char *machine;                    /* HELLO: psr_machine_id there;
                                               "" when it is not known */
    size_t item;                            /* LINE, EXITED: of the placement */
    bool to_stderr;                         /* LINE */
    bool is_log;                            /* LINE: to_stderr, and as base/log.h
                                               prints it: as log says */
    psr_log_line log;
    bool ok, by_itself; /* EXITED: with status 0; exited, and was not killed */
    const char *text;
    cJSON *json; /* owned: the texts are borrowed from it, and from the line */
} psr_agent_event;

/* Who said it, and what is known of it. */
typedef struct psr_agent_context {
    const psr_placement *placement;
    uint32_t host;    /* whose agent it is: of the placement */
    bool greeted;     /* it has said hello */
    bool all_started; /* the placement's processes were asked for */
} psr_agent_context;

/* ret owns: psr_agent_event_done. PROTOCOL, naming the host: an event that is none, a second hello,
 * a process that is not placed there. VERSION: another psring. */
PSR_MUST_CHECK psr_err psr_agent_event_read(const psr_agent_context *by, const char *line,
                                            psr_agent_event *ret_event);
void psr_agent_event_done(psr_agent_event *event);

#endif
