/* Messages between the processes of a run, and their codec. docs/wire.md is the same as a document.
 *
 * On the wire a message is one or two frames:
 *   frame 1: preamble (16 bytes: magic "PSRG", u16 version, u16 head length, u64 payload length, all
 *            big-endian), then the head: a msgpack array of eight unsigned integers in the order of psr_head;
 *   frame 2: the raw payload, present when payload length > 0: float32 little-endian for tensors, UTF-8 JSON
 *            for control messages.
 * The preamble is checked before msgpack sees a byte; the head is scanned, never unpacked into allocations.
 * Who a message is from is not on the wire: the transport knows it from the connection. */
#ifndef PSR_NET_MESSAGE_H
#define PSR_NET_MESSAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_WIRE_VERSION 1
#define PSR_HEAD_BYTES_MAX 128
/* Of any message: what is larger is sent in pieces. libzmq allocates what a frame announces, also a stranger's. */
#define PSR_PAYLOAD_BYTES_MAX (1u << 20)

typedef enum psr_role { PSR_ROLE_SCHEDULER, PSR_ROLE_SHARD, PSR_ROLE_WORKER } psr_role;

/* How values stand in a payload. */
typedef enum psr_encoding {
    PSR_ENCODING_BYTES, /* text, or memory as it is: a value is a byte */
    PSR_ENCODING_FLOAT32,
    PSR_ENCODING_FLOAT64,
} psr_encoding;

const char *psr_encoding_name(psr_encoding encoding); /* "bytes", "float32", .. */

#define PSR_RANK_ANY UINT32_MAX /* in HELLO and JOIN: the scheduler gives one */

typedef struct psr_peer {
    psr_role role;
    uint32_t rank; /* 0 for the scheduler */
} psr_peer;

const char *psr_role_name(psr_role role); /* "scheduler", "shard", "worker" */
bool psr_peer_equal(psr_peer a, psr_peer b);

typedef enum psr_message_type {
    /* transport: first message of every connection, never delivered. aux = role << 32 | rank. That the sender may say so was
     * settled before, in ZeroMQ's handshake (net/admission.h) */
    PSR_MSG_HELLO = 1,

    /* member -> scheduler */
    PSR_MSG_JOIN = 10, /* payload JSON: version, host, pid, endpoint */
    PSR_MSG_READY, /* connected to everybody, weights in place. payload JSON (rank 0: algorithms), may be empty */
    /* step, bucket, flags = psr_phase, aux = progress counter of the compute thread, offset = peer waited for
     * (role << 32 | rank) or UINT64_MAX, count = 1 + samples counted in the evaluation that goes on, or 0 */
    PSR_MSG_PROGRESS,
    PSR_MSG_METRICS, /* payload: one JSON object, a line of metrics.jsonl */
    PSR_MSG_HELD,    /* answer to HOLD: step = the last step begun */
    PSR_MSG_CHECKPOINT, /* a piece: step, bucket = section, offset/count in floats of the section, payload floats */
    PSR_MSG_FAILED, /* flags = psr_err, payload: one line of text; the sender is about to exit */
    PSR_MSG_DONE, /* step = steps taken; flags = 1: told to stop, it left out the evaluation after them; payload JSON: final figures */
    PSR_MSG_FACTS, /* payload JSON: what a worker found on its host (comm/member.h psr_facts); a shard's: none */

    /* scheduler -> member */
    PSR_MSG_WELCOME = 30, /* all have joined and agree. payload JSON: roster, facts, first step */
    PSR_MSG_START,        /* all are ready: begin */
    PSR_MSG_ALIVE,        /* answer to PROGRESS and CHECKPOINT; flags = 1: a PROGRESS is wanted at once */
    PSR_MSG_HOLD,         /* begin no further step; answer HELD */
    PSR_MSG_STOP_AT,      /* step = the last step to take; ends a HOLD */
    /* a piece of a checkpoint, tensor by tensor: fields as CHECKPOINT. To worker 0 weights and slots, to each rank its own
     * buffers */
    PSR_MSG_RESTORE,
    PSR_MSG_ABORT,  /* payload: one line of text: why the run ends */
    PSR_MSG_BYE,    /* all is written: leave */
    PSR_MSG_CONFIG, /* answer to JOIN. payload JSON: your rank, config */
    PSR_MSG_SAVED, /* to workers: the checkpoint after `step` steps is in place; pieces of the next one may come */

    /* worker -> shard. All: step = this worker's step (0-based), bucket, offset and count in floats of the arena */
    PSR_MSG_INIT = 50, /* initial state from worker 0: flags = 0 weights, 1 + i optimizer slot i */
    PSR_MSG_PUSH,      /* gradient slice. flags bit 0: answer with the new weights (BSP) */
    PSR_MSG_PULL,      /* weights slice wanted for step (SSP, async) */
    /* shard -> worker */
    PSR_MSG_WEIGHTS, /* new weights of a slice, for step; aux = cumulative pushes received from you; flags = staleness (SSP, async) */
    PSR_MSG_ACK,     /* aux = cumulative pushes received from you: credit */

    /* worker -> worker */
    PSR_MSG_RING =
        70, /* flags bit 0: 0 reduce-scatter, 1 all-gather; bucket, offset, count, step; aux = chunk << 32 | hop */
    PSR_MSG_GATHER, /* to worker 0: doubles to be folded. aux = collective number, offset/count in doubles */
    PSR_MSG_SPREAD, /* from worker 0: bytes of a broadcast or a folded result. aux = collective number, offset/count in bytes */
} psr_message_type;

/* Sections of a checkpoint, in CHECKPOINT and RESTORE messages (head.bucket). Each is an array like the parameter arena or
 * like the buffers', padding included. */
#define PSR_SECTION_WEIGHTS 0u /* params arena, of worker 0 */
#define PSR_SECTION_BUFFERS 1u /* averaged batch-norm statistics, of worker 0 */
#define PSR_SECTION_SLOT(i)                                                                                  \
    (16u + (i)) /* optimizer slot i; of the shards, or of worker 0 in ring and local */
#define PSR_SECTION_RANK(r) (256u + (r)) /* rank r's own batch-norm statistics */

/* What a compute thread is doing, for liveness and for the line that is printed when a deadline passes. */
typedef enum psr_phase {
    PSR_PHASE_START, /* compiling, opening data */
    PSR_PHASE_DATA,  /* waiting for the loader */
    PSR_PHASE_FORWARD,
    PSR_PHASE_BACKWARD,
    PSR_PHASE_PULL,    /* waiting for weights (from a shard, or a ring neighbour) */
    PSR_PHASE_PUSH,    /* shard: waiting for pushes */
    PSR_PHASE_RING,    /* waiting for a ring hop */
    PSR_PHASE_BARRIER, /* waiting for all */
    PSR_PHASE_EVALUATION,
    PSR_PHASE_CHECKPOINT,
    PSR_PHASE_SHUTDOWN,
} psr_phase;

const char *psr_phase_name(psr_phase phase); /* "start", "data", "forward", ... as in --fault-point */

typedef struct psr_head {
    psr_message_type type;
    uint64_t step;
    uint32_t bucket;
    uint32_t flags;
    uint64_t offset;
    uint64_t count;
    uint64_t aux;
    uint64_t
        sequence; /* the transport's: messages on this channel before this one. send fills it, recv checks it */
} psr_head;

/* A received message. Owned by whoever holds it; psr_message_free releases the transport's memory. The payload
 * is aligned for double and stays valid until then. */
typedef struct psr_message {
    psr_peer from;
    psr_head head;
    const void *payload;
    size_t payload_bytes;
    void (*release)(struct psr_message *message); /* the transport's */
    struct psr_message *next; /* of those that wait: whoever holds it may link it so (comm/early.h) */
} psr_message;

void psr_message_free(psr_message **message); /* NULL allowed; nulls it */

/* Writes preamble and head. ret_bytes <= PSR_HEAD_BYTES_MAX. */
void psr_head_encode(const psr_head *head, uint64_t payload_bytes, uint8_t buffer[PSR_HEAD_BYTES_MAX],
                     size_t *ret_bytes);

/* Checks and reads frame 1. FORMAT: not ours or malformed. VERSION: ours, another version (detail names both). */
PSR_MUST_CHECK psr_err psr_head_decode(const void *bytes, size_t size, psr_head *ret_head,
                                       uint64_t *ret_payload_bytes);

#endif
