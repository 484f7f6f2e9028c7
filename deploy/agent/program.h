/* The program of `psring run`: what every rank runs, where, and what it finds there. The launcher's
 * command line alone names it, and it goes to the agents on the channel that the launcher started
 * them with; nothing that a member says comes here. One thread. */
#ifndef PSR_DEPLOY_PROGRAM_H
#define PSR_DEPLOY_PROGRAM_H

#include "comm/comm.h"
#include "base/system/child.h"

#include <cjson/cJSON.h>

/* Of all its texts: a line from launcher to agent has to hold them. */
#define PSR_PROGRAM_BYTES_MAX (128u << 10)

typedef struct psr_program {
    const char *const *words;     /* the program and its arguments, NULL */
    const char *const *variables; /* NAME=VALUE.., NULL: beside what its
                                     host's agent has in its environment */
    const char *directory;        /* absolute: where it runs */
    const char *output;           /* absolute: OUTPUT/1/rank.N/stdout and stderr
                                     take what it prints; "": the launcher does */
    uint32_t ranks;
    uint32_t shards; /* of the ranks the last: they are psring-ps, and serve tables */
    double deadline_s;
    const char *transport; /* --transport: what ranks are told, PSRING_TRANSPORT */
    cJSON *object;         /* owned, where it was read: what all of it is
                              borrowed from, as the next two are owned */
    const char **words_read, **variables_read;
} psr_program;

/* USAGE: longer than PSR_PROGRAM_BYTES_MAX. */
PSR_MUST_CHECK psr_err psr_program_check(const psr_program *program);
/* ret owns: cJSON_Delete. NOMEM. */
PSR_MUST_CHECK psr_err psr_program_to_object(const psr_program *program, cJSON **ret_object);
/* Takes object, also on failure. FORMAT, naming the field. ret owns: psr_program_done. */
PSR_MUST_CHECK psr_err psr_program_from_object(cJSON *object, psr_program *ret_program);
void psr_program_done(psr_program *program);

/* Of a rank, among those of its host: as other launchers' LOCAL_RANK and LOCAL_WORLD_SIZE. */
typedef struct psr_program_place {
    uint32_t local_rank, local_ranks; /* local_ranks 0: not told, as of a shard */
} psr_program_place;

/* Starts one rank of it, with its place in the environment: PSRING_RANK, PSRING_RANKS,
 * PSRING_LOCAL_RANK and PSRING_LOCAL_SIZE (of those that are no shards), PSRING_SCHEDULER,
 * PSRING_KEY_FILE (a descriptor that it inherits), PSRING_HOST, PSRING_INTERFACE (over TCP),
 * PSRING_DEADLINE_MS, PSRING_TRANSPORT, PSRING_SHARING (over TCP, where memory is shared),
 * PSRING_SHARDS (where there are some), and PSRING_HOST_SCHEDULER=0. cpus: what it is bound to, or
 * NULL. ret owns: psr_child_done. NOT_FOUND: it is not there. IO: its output cannot be written. */
PSR_MUST_CHECK psr_err psr_program_start(const psr_program *program, const psr_provision *provision,
                                         const psr_program_place *place, const psr_cpus *cpus,
                                         psr_child *ret_child);

/* What ranks leave behind becomes a child of this process from now on, to be ended at the end. */
void psr_program_adopt_strays(void);
/* Kills all children of this process, and theirs; returns when all are gone. */
void psr_program_end_strays(void);

#endif
