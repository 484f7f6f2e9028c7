/* What training's processes tell one another while they join: each worker's facts, which must
 * agree, and the steps with which all of them begin. Both are JSON, in the bytes that joining
 * carries without reading them (comm/members/join.h). Those bytes may be hostile; every read gives
 * FORMAT and names the field. No state; any thread. */
#ifndef PSR_BASE_FACTS_H
#define PSR_BASE_FACTS_H

#include "base/bytes.h"
#include "base/config/pace.h"
#include "base/content.h"
#include "base/err.h"

#include <stdint.h>

#define PSR_IDENTITY_MAX 256
#define PSR_FACTS_CHANNELS_MAX 3
#define PSR_GROUP_TEXT_BYTES 257
#define PSR_CLASS_NAMES_MAX 4096

/* ---- FACTS of a worker ---- */

/* Filled by a worker from its own host; a shard has none. */
typedef struct psr_facts {
    char identity[PSR_IDENTITY_MAX]; /* what the bits depend on: back end, library's
                                        version, instruction set, threads */
    char data_name[64];  /* for a person: equal data may have other names on other hosts */
    psr_content content; /* of the data */
    uint32_t train_count, test_count, channels, height, width, classes;
    /* computed by the sampler, because ps does not link data sets */
    uint64_t steps_per_epoch, total_steps;
    uint64_t parameter_count; /* of the model, without padding */
    /* For whoever has only the run's files; nothing is computed from them. Missing ones are read as
     * zero or "". Pixels x on the scale of 0 to 1 become (x - mean) / deviation, by channel. */
    float mean[PSR_FACTS_CHANNELS_MAX], deviation[PSR_FACTS_CHANNELS_MAX];
    /* What a worker takes of its host's memory, how much each sample of a batch adds to that, what
     * all workers of its host have together (data that lie there once), and what its host had free
     * before: checked before the start, and not kept in run.json. The first one 0: not told. */
    uint64_t memory_fixed_bytes, memory_sample_bytes, memory_host_bytes, memory_free_bytes;
    /* --mode nccl, of worker 0: what its GPU and the others' find each other by, as hexadecimal
     * digits */
    char group[PSR_GROUP_TEXT_BYTES];
    char processor[96];                    /* of its host, as the kernel calls it */
    char class_names[PSR_CLASS_NAMES_MAX]; /* each ended by a newline; "": not known */
} psr_facts;

/* The caller owns *ret_json: free(), as all here */
PSR_MUST_CHECK psr_err psr_facts_to_json(const psr_facts *facts, char **ret_json);
PSR_MUST_CHECK psr_err psr_facts_from_json(psr_bytes json, psr_facts *ret_facts);

/* OK, or USAGE in words: "worker 1 on b: oneDNN 3.7, worker 0 on a: oneDNN 2.6: ...". mixed: what
 * computes may differ (--mixed-hosts). */
PSR_MUST_CHECK psr_err psr_facts_agree(const psr_facts *a, const char *who_a, const psr_facts *b,
                                       const char *who_b, bool mixed);

/* ---- the steps with which a worker begins ---- */

typedef struct psr_worker_start {
    /* completed steps: 0, or those of the resumed checkpoint; if above 0, RESTORE messages
     * follow */
    uint64_t first_step;
    uint64_t total_steps;
    psr_pace pace;                    /* of the run */
    char group[PSR_GROUP_TEXT_BYTES]; /* worker 0's (psr_facts); "": it has none */
    bool evaluates_first;             /* an evaluation after first_step is due and was cut */
    /* --precision fp16: as model/loss_scale.h has it; scale 0: there is none. skipped_steps: before
     * first_step, of a run that was in fp16 then, whatever it is now */
    uint32_t loss_scale, loss_scale_taken;
    uint64_t skipped_steps;
} psr_worker_start;

/* What WELCOME says of training. NOMEM; from_json: FORMAT: it is not what to_json makes. The caller
 * owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_worker_start_to_json(const psr_worker_start *start, char **ret_json);
PSR_MUST_CHECK psr_err psr_worker_start_from_json(psr_bytes json, psr_worker_start *ret_start);

#endif
