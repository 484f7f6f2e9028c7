/* What the files of a shard of a table share: table_shard.c (its life, pushes, updates),
 * table_shard_pulls.c (what workers ask for) and table_shard_waits.c (whom it waits for). For those
 * alone. */
#ifndef PSR_COMM_TABLE_SHARD_PRIVATE_H
#define PSR_COMM_TABLE_SHARD_PRIVATE_H

#include "comm/tables/credits.h"
#include "comm/tables/differences.h"
#include "comm/tables/table_shard.h"
#include "comm/tables/table_slices.h"
#include "comm/wire/messages.h"
#include "net/zmq/unsent.h"

#define PSR_NO_PULL UINT64_MAX

struct psr_table_shard {
    psr_table_shard_options options;
    const psr_plan *plan;   /* the options'; so is n, the number of workers */
    uint32_t n, first_rank; /* of those workers */
    psr_table_update update;
    size_t length; /* of the table */
    float *values;
    float *own_values; /* NULL: the values are the owner's */
    float *sums;       /* if folded by arrival: as long as values; else NULL */
    float *scratch;    /* [PSR_FOLD_BLOCK] */
    psr_table_slices slices;
    /* What is pulled: whole values that are encoded a slice at a time; or what workers lack of a
     * part. Both NULL: it is sent as it is */
    psr_encoder *encoder;
    psr_differences *differences;
    void *encoded; /* the encoder's payload of a slice */

    psr_message **held;   /* [slice * n + worker] BSP: the push of the step under way, in float32 */
    const float **inputs; /* [n] payloads of a slice's held pushes */
    /* [slice * n + worker] the steps that this worker has pushed, including those before the
     * first */
    uint64_t *pushes;
    uint64_t *pulls; /* [slice * n + worker] SSP: the step of its pull that waits, or PSR_NO_PULL */
    uint64_t *answer; /* [slice * n + worker] SSP, async: the number of the last answer; 0: none */

    psr_credits credits; /* of workers, for pushes */
    uint64_t *answers;   /* [worker] answers to its pulls so far */
    psr_unsent **unsent; /* [worker] copies of values that have not left yet; owned */

    uint32_t sections_wanted, slices_initialised;
    uint64_t clock;          /* the least version of a part that is held */
    uint32_t parts_at_clock; /* how many parts that are held have that version */
    uint64_t progress;
};

static inline bool psr_table_shard_is_bsp(const psr_table_shard *table)
{
    return table->options.consistency.kind == PSR_CONSISTENCY_BSP;
}

/* The sender's index among the workers, in the arrays of [rank]; n or more: it is none of them. */
static inline uint32_t psr_table_shard_pusher(const psr_table_shard *table,
                                              const psr_message *message)
{
    return message->from.rank - table->first_rank;
}

/* ---- table_shard.c ---- */

/* The slice's values as they are sent to pulls. form: its encoding is set. Encoded values use
 * memory that the next slice needs too, so the transport copies them. */
PSR_MUST_CHECK psr_err psr_table_shard_payload(psr_table_shard *table, psr_span span,
                                               psr_head *form, psr_payload *ret_payload);
PSR_MUST_CHECK psr_err psr_table_shard_send(psr_table_shard *table, const psr_table_slice *slice,
                                            uint32_t rank, uint64_t step, uint64_t staleness,
                                            const psr_head *form, const psr_payload *payload);
/* Tells the worker how many of its pushes have come. */
PSR_MUST_CHECK psr_err psr_table_shard_acknowledge(psr_table_shard *table, uint32_t rank);

/* ---- table_shard_pulls.c ---- */

/* The array of a section: the values, one of the update's states, or after them what all workers
 * have. NULL: there is none. */
float *psr_table_shard_section(const psr_table_shard *table, uint32_t section);
/* Answers the pulls of a slice that may be answered now: a pull for step c when every worker has
 * pushed c - K steps. */
PSR_MUST_CHECK psr_err psr_table_shard_answer_pulls(psr_table_shard *table, uint32_t s);
PSR_MUST_CHECK psr_err psr_table_shard_take_pull(psr_table_shard *table,
                                                 const psr_message *message);
/* Of a table that is open: a worker reads a section, or worker 0 writes one. */
PSR_MUST_CHECK psr_err psr_table_shard_take_ask(psr_table_shard *table, const psr_message *message);
PSR_MUST_CHECK psr_err psr_table_shard_take_put(psr_table_shard *table, const psr_message *message,
                                                uint32_t s, const psr_msg_init *says,
                                                const float *values);

#endif
