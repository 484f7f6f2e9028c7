/* What psring doctor knows of its hosts: what each said of itself, and of its connection to each of
 * the others. The launcher fills it in (deploy/doctor/visit/visit.h); findings, screen and JSON are
 * made from it. Plain data; one thread. */
#ifndef PSR_DEPLOY_DOCTOR_CHECKUP_H
#define PSR_DEPLOY_DOCTOR_CHECKUP_H

#include "deploy/doctor/facts/host_facts.h"
#include "deploy/launch/hosts/hostfile.h"
#include "deploy/launch/hosts/reached.h"

#include <stdbool.h>

/* The most hosts; more would take too long to examine and to read. */
#define PSR_CHECKUP_HOSTS_MAX 256

/* How bandwidth and round trip are measured. */
#define PSR_PROBE_MESSAGE_BYTES (1u << 20)
#define PSR_PROBE_WINDOW 4 /* messages on the way at once */

typedef enum psr_doctor_stage {
    PSR_DOCTOR_NO_AGENT, /* failure says why */
    PSR_DOCTOR_NO_PROBE, /* there is an agent, but its probe said nothing useful: see failure */
    PSR_DOCTOR_PROBED,   /* the facts are known */
} psr_doctor_stage;

typedef struct psr_checkup_host {
    psr_host host; /* its name and slots */
    psr_reached reached;
    char machine[64]; /* psr_machine_id there; "": not known */
    psr_doctor_stage stage;
    bool silent; /* it said nothing before its time was over */
    /* why the next stage was not reached; after probing, why the host was given up; "": it was
     * not */
    char failure[512];
    psr_host_facts facts; /* valid if PROBED */
    bool clock_known;
    double clock_s, clock_within_s; /* its wall clock less ours, and the uncertainty */
} psr_checkup_host;

/* From one host to another, or to itself, which is only connected; each field is what the first
 * host's probe said. */
typedef struct psr_checkup_pair {
    bool looked_up;
    char looked_up_as[64]; /* the address of the other's name there; "": none */
    bool tried;            /* whether a TCP connection to the other's inbox was tried */
    bool connected;
    char source[64];          /* the own address on the path */
    char connect_failure[96]; /* in words */
    bool measured;
    uint64_t round_trip_ns; /* median over messages without payload */
    uint64_t bytes_per_s;   /* with messages of PSR_PROBE_MESSAGE_BYTES, PSR_PROBE_WINDOW at once */
    /* How long no second connection has come about, on which messages go sealed; 0: it has, or none
     * is wanted. unsealed_port: the port of the other's where it is tried; 0: not known */
    uint64_t unsealed_ms, unsealed_port;
    char measure_failure[192]; /* in words; "": it was measured, or not tried */
} psr_checkup_pair;

typedef struct psr_checkup {
    psr_checkup_host *hosts;
    size_t count;
    psr_checkup_pair *pairs; /* [from][to] */
    /* The options; borrowed. */
    const char *interface; /* NULL: as a run would choose */
    const char *data;      /* NULL: none */
    const char *model;     /* NULL: memory is not compared with a model's */
    const char *options;   /* of a run of the model, as psr_planned's */
    uint32_t batch_size;   /* for the model */
    const char *out;       /* NULL: none */
    char out_failure[512]; /* why it cannot be written; "": it can be */
    uint64_t out_free_bytes;
} psr_checkup;

/* Takes names and slots from hosts. The caller owns *ret_checkup: psr_checkup_done. USAGE: too
 * many. NOMEM. */
PSR_MUST_CHECK psr_err psr_checkup_init(const psr_hosts *hosts, psr_checkup *ret_checkup);
void psr_checkup_done(psr_checkup *checkup);

psr_checkup_pair *psr_checkup_pair_of(const psr_checkup *checkup, size_t from, size_t to);
uint32_t psr_checkup_slots(const psr_checkup *checkup); /* of all hosts */

/* The approximate memory of one worker there; 0: not known. */
uint64_t psr_checkup_worker_bytes(const psr_checkup *checkup, const psr_checkup_host *host);

/* Looks at the directory for run directories, and sets out_failure and out_free_bytes. */
void psr_checkup_look_at_out(psr_checkup *checkup);

#endif
