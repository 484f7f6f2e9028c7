/* What is said while a run comes together, as JSON: one codec for both sides, the scheduler and its members.
 * The bytes may be hostile; every read gives FORMAT, naming the field. No state; any thread. */
#ifndef PSR_COMM_JOIN_H
#define PSR_COMM_JOIN_H

#include "base/config.h"
#include "comm/view.h"
#include "net/message.h"

#define PSR_IDENTITY_MAX 256
#define PSR_VERSION_MAX 32

/* ---- JOIN ---- */

typedef struct psr_join {
    char version[PSR_VERSION_MAX];
    char host[PSR_HOST_MAX];
    char endpoint[PSR_ENDPOINT_MAX];
    int64_t pid;
} psr_join;

PSR_MUST_CHECK psr_err psr_join_to_json(const psr_join *join,
                                        char **ret_json); /* ret owns: free(), as all here */
PSR_MUST_CHECK psr_err psr_join_from_json(const void *json, size_t size, psr_join *ret_join);

/* ---- CONFIG ---- */

PSR_MUST_CHECK psr_err psr_welcome_config_to_json(uint32_t rank, const psr_config *config, char **ret_json);
PSR_MUST_CHECK psr_err psr_welcome_config_from_json(const void *json, size_t size, uint32_t *ret_rank,
                                                    psr_config *ret_config);

/* ---- FACTS: what the workers must agree on ---- */

/* Filled by a worker from its own host; a shard sends none, and gets the agreed ones in WELCOME. */
typedef struct psr_facts {
    char identity[PSR_IDENTITY_MAX]; /* what decides bits: back end, library's version, instruction set,
                                        threads */
    char data_name[64];
    uint32_t train_count, test_count, channels, height, width, classes;
    uint64_t steps_per_epoch, total_steps; /* by the sampler: ps links no data sets */
    uint64_t parameter_count;              /* of the model, padding left out */
} psr_facts;

PSR_MUST_CHECK psr_err psr_facts_to_json(const psr_facts *facts, char **ret_json);
PSR_MUST_CHECK psr_err psr_facts_from_json(const void *json, size_t size, psr_facts *ret_facts);

/* OK, or USAGE in words: "worker 1 on b: oneDNN 3.7, worker 0 on a: oneDNN 2.6: ...". */
PSR_MUST_CHECK psr_err psr_facts_agree(const psr_facts *a, const char *who_a, const psr_facts *b,
                                       const char *who_b);

/* ---- WELCOME ---- */

typedef struct psr_welcome {
    psr_facts facts;
    uint64_t first_step;
    psr_view view; /* owned: psr_view_done */
} psr_welcome;

PSR_MUST_CHECK psr_err psr_welcome_to_json(const psr_welcome *welcome, char **ret_json);
PSR_MUST_CHECK psr_err psr_welcome_from_json(const void *json, size_t size, psr_welcome *ret_welcome);

/* ---- DONE of a shard ---- */

/* What it exchanged with all workers since its start: payloads of PUSH received and of WEIGHTS sent. In SSP and async a
 * shard is done with its last push, and the last pulls, still to be answered, are not counted. */
typedef struct psr_traffic {
    uint64_t gradient_bytes, weight_bytes;
} psr_traffic;
/* The two as a line of a log. */
#define PSR_TRAFFIC_LINE "carried gradient_bytes=%" PRIu64 " weight_bytes=%" PRIu64

PSR_MUST_CHECK psr_err psr_traffic_to_json(const psr_traffic *traffic, char **ret_json);
PSR_MUST_CHECK psr_err psr_traffic_from_json(const void *json, size_t size, psr_traffic *ret_traffic);

#endif
