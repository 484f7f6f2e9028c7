/* One line of an agent (deploy/agent/agent.h), read and checked. An agent is believed only about
 * its own host and the members that are placed there. Does no I/O. */
#ifndef PSR_DEPLOY_AGENT_EVENT_H
#define PSR_DEPLOY_AGENT_EVENT_H

#include "base/log.h"
#include "deploy/agent/topology.h"
#include "base/text/json.h"
#include "deploy/launch/hosts/placement.h"

typedef enum psr_agent_event_kind {
    PSR_AGENT_GREETING, /* what a login shell prints before the agent's hello; text is all of it */
    PSR_AGENT_HELLO,
    PSR_AGENT_ALIVE, /* the answer to our sign of life */
    PSR_AGENT_PAUSED,
    PSR_AGENT_LISTENS, /* for the measurement of its link: address and port */
    PSR_AGENT_LINK,    /* bits_per_s; 0: text says why it is not known */
    PSR_AGENT_LINE,    /* a process printed text */
    PSR_AGENT_EXITED,  /* text says how */
} psr_agent_event_kind;

typedef struct psr_agent_event {
    psr_agent_event_kind kind;
    uint32_t cores; /* HELLO: number of processors that it may use */
    /* HELLO: these processors and their arrangement; owned. Empty: not known */
    psr_topology topology;
    /* HELLO: numeric, at most 63 bytes; "" if it was not reached over ssh */
    const char *address, *launcher_address;
    uint16_t port;       /* LISTENS, with address; 0: text says why it does not */
    uint64_t bits_per_s; /* LINK */
    const char *machine; /* HELLO: psr_machine_id there; "" if not known */
    size_t item;         /* LINE, EXITED: index in the placement */
    bool to_stderr;      /* LINE */
    bool is_log;         /* LINE: to_stderr and in the form of base/log.h; then log has it */
    psr_log_line log;
    bool ok, by_itself; /* EXITED: ok: with status 0; by_itself: exited, not killed */
    const char *text;
    cJSON *json; /* owned: the texts are borrowed from it and from the line */
} psr_agent_event;

/* Whose line it is, and what is known of that agent. */
typedef struct psr_agent_context {
    const psr_placement *placement;
    uint32_t host; /* the agent's host, in the placement */
    bool greeted;  /* it has said hello */
    /* what it was asked and has not answered */
    bool asked_to_listen, asked_for_link;
    bool all_started; /* all processes of the placement have been requested */
} psr_agent_context;

/* PROTOCOL, naming the host: it is no event, a second hello, or about a process that is not placed
 * there. VERSION: another version of psring. The caller owns *ret_event: psr_agent_event_done. */
PSR_MUST_CHECK psr_err psr_agent_event_read(const psr_agent_context *by, const char *line,
                                            psr_agent_event *ret_event);
void psr_agent_event_done(psr_agent_event *event);

#endif
