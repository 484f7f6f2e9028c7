/* The program of `psring run`: what every rank runs, where, and what it finds there. Only the
 * launcher's command line names it, and the launcher sends it to the agents that it has started; no
 * member's message can change it. One thread. */
#ifndef PSR_DEPLOY_PROGRAM_H
#define PSR_DEPLOY_PROGRAM_H

#include "base/system/child.h"
#include "comm/members/provision.h"

#include <cjson/cJSON.h>

/* The most bytes of all its texts, since a line from launcher to agent must hold them. */
#define PSR_PROGRAM_BYTES_MAX (128u << 10)

typedef struct psr_program {
    const char *const *words; /* the program and its arguments, NULL */
    /* NAME=VALUE.., NULL: in addition to the environment of its host's agent */
    const char *const *variables;
    const char *directory; /* absolute: its working directory */
    /* absolute: its output goes to OUTPUT/1/rank.N/stdout and stderr; "": to the launcher */
    const char *output;
    uint32_t ranks;
    uint32_t shards; /* the last so many ranks: they are psring-ps, and serve tables */
    double deadline_s;
    const char *transport; /* --transport: the ranks' PSRING_TRANSPORT */
    /* owned if it was read: all of it is borrowed from this; the next two are owned too */
    cJSON *object;
    const char **words_read, **variables_read;
} psr_program;

/* USAGE: longer than PSR_PROGRAM_BYTES_MAX. */
PSR_MUST_CHECK psr_err psr_program_check(const psr_program *program);
/* The caller owns *ret_object: cJSON_Delete. NOMEM. */
PSR_MUST_CHECK psr_err psr_program_to_object(const psr_program *program, cJSON **ret_object);
/* Takes object, also on failure. FORMAT, naming the field. The caller owns *ret_program:
 * psr_program_done. */
PSR_MUST_CHECK psr_err psr_program_from_object(cJSON *object, psr_program *ret_program);
void psr_program_done(psr_program *program);

/* A rank's place among those of its host, as LOCAL_RANK and LOCAL_WORLD_SIZE of other launchers. */
typedef struct psr_program_place {
    uint32_t local_rank, local_ranks; /* local_ranks 0: not given, as for a shard */
} psr_program_place;

/* Starts one rank, with its place in the environment: PSRING_RANK, PSRING_RANKS, PSRING_LOCAL_RANK
 * and PSRING_LOCAL_SIZE (among ranks that are no shards), PSRING_SCHEDULER, PSRING_KEY_FILE (a
 * descriptor that it inherits), PSRING_HOST, PSRING_INTERFACE (over TCP), PSRING_DEADLINE_MS,
 * PSRING_TRANSPORT, PSRING_SHARING (over TCP, if memory is shared), PSRING_SHARDS (if there are
 * any), and PSRING_HOST_SCHEDULER=0. cpus: the processors that it is bound to, or NULL. NOT_FOUND:
 * the program does not exist. IO: its output cannot be written. The caller owns *ret_child:
 * psr_child_done. */
PSR_MUST_CHECK psr_err psr_program_start(const psr_program *program, const psr_provision *provision,
                                         const psr_program_place *place, const psr_cpus *cpus,
                                         psr_child *ret_child);

/* From now on processes that ranks leave behind become children of this process, so that they can
 * be ended. */
void psr_program_adopt_strays(void);
/* Kills all children of this process, and theirs; returns when all are gone. */
void psr_program_end_strays(void);

#endif
