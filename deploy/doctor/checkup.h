/* All that psring doctor knows of its hosts: what each said of itself, and of its way to each of
 * the others. The launcher fills it (deploy/doctor/visit/visit.h); findings, screen and JSON are
 * functions of it. Plain data; one thread. */
#ifndef PSR_DEPLOY_DOCTOR_CHECKUP_H
#define PSR_DEPLOY_DOCTOR_CHECKUP_H

#include "deploy/doctor/facts/host_facts.h"
#include "deploy/launch/hosts/hostfile.h"
#include "deploy/launch/hosts/reached.h"

#include <stdbool.h>

/* More than can be gone through in seconds, or read. */
#define PSR_CHECKUP_HOSTS_MAX 256

/* What a bandwidth and a round trip are measured with. */
#define PSR_PROBE_MESSAGE_BYTES (1u << 20)
#define PSR_PROBE_WINDOW 4 /* messages on the way at once */

typedef enum psr_doctor_stage {
    PSR_DOCTOR_NO_AGENT, /* failure says why */
    PSR_DOCTOR_NO_PROBE, /* there is an agent, but its probe said nothing of use: failure */
    PSR_DOCTOR_PROBED,   /* facts are there */
} psr_doctor_stage;

typedef struct psr_checkup_host {
    psr_host host; /* its name and slots */
    psr_reached reached;
    char machine[64]; /* psr_machine_id there; "": not known */
    psr_doctor_stage stage;
    bool silent;          /* it said nothing until its time was over */
    char failure[512];    /* why the stage is not the next one; once it was
                             probed, why it was given up; "": it was not */
    psr_host_facts facts; /* PROBED */
    bool clock_known;
    double clock_s, clock_within_s; /* its wall clock less ours, give or take */
} psr_checkup_host;

/* From one host to another, or to itself, which is connected alone; each field is what the former's
 * probe said. */
typedef struct psr_checkup_pair {
    bool looked_up;
    char looked_up_as[64]; /* the other's name there; "": nothing */
    bool tried;            /* a TCP connection to the other's inbox */
    bool connected;
    char source[64];          /* the address on the way */
    char connect_failure[96]; /* in words */
    bool measured;
    uint64_t round_trip_ns;    /* of a message without payload: the median */
    uint64_t bytes_per_s;      /* of messages of PSR_PROBE_MESSAGE_BYTES,
                                  PSR_PROBE_WINDOW at once */
    char measure_failure[192]; /* in words; "": it was measured, or not tried */
} psr_checkup_pair;

typedef struct psr_checkup {
    psr_checkup_host *hosts;
    size_t count;
    psr_checkup_pair *pairs; /* [from][to] */
    /* What was asked for; borrowed. */
    const char *interface;           /* NULL: as a run would choose */
    const char *data;                /* NULL: none */
    const char *model;               /* NULL: memory is not held against one */
    uint32_t image_size, batch_size; /* of the model's */
    const char *out;                 /* NULL: none */
    char out_failure[512];           /* why it cannot be written; "": it can */
    uint64_t out_free_bytes;
} psr_checkup;

/* Takes names and slots from hosts. ret owns: psr_checkup_done. USAGE: too many. NOMEM. */
PSR_MUST_CHECK psr_err psr_checkup_init(const psr_hosts *hosts, psr_checkup *ret_checkup);
void psr_checkup_done(psr_checkup *checkup);

psr_checkup_pair *psr_checkup_pair_of(const psr_checkup *checkup, size_t from, size_t to);
uint32_t psr_checkup_slots(const psr_checkup *checkup); /* of all hosts */

/* Memory of one worker there, about; 0: not known. */
uint64_t psr_checkup_worker_bytes(const psr_checkup *checkup, const psr_checkup_host *host);

/* The directory that run directories are written to: sets out_failure and out_free_bytes by looking
 * at it. */
void psr_checkup_look_at_out(psr_checkup *checkup);

#endif
