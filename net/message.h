/* Messages between the processes of a run, and their codec. docs/wire.md is the same as a document.
 *
 * On the wire a message is one or two frames:
 *   frame 1: preamble (16 bytes: magic "PSRG", u16 version, u16 head length, u64 payload length,
 *            all big-endian), then the head: a msgpack array of unsigned integers in the order of
 *            psr_head, with as many fields as its type has;
 *   frame 2: the raw payload, present when payload length > 0: values in the head's encoding, or
 *            UTF-8 text.
 * The preamble is checked before msgpack sees a byte; the head is scanned, never unpacked into
 * allocations. Who a message is from is not on the wire: the transport knows it from the
 * connection.
 *
 * Users of a head look at its type only. comm/wire/messages.h makes and reads the heads of each
 * type by the names of their fields; comm/wire/encoding.h sets and checks the encoding. A head that
 * has nothing but a type is written (psr_head){.type = PSR_MSG_START}. */
#ifndef PSR_NET_MESSAGE_H
#define PSR_NET_MESSAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_WIRE_VERSION 2
#define PSR_HEAD_BYTES_MAX 160
#define PSR_HEAD_FIELDS_MAX 8
/* The largest payload; more is sent in pieces. The bound is needed because libzmq allocates what a
 * frame announces, whoever sent it. */
#define PSR_PAYLOAD_BYTES_MAX (1u << 20)

typedef enum psr_role { PSR_ROLE_SCHEDULER, PSR_ROLE_SHARD, PSR_ROLE_WORKER } psr_role;

/* How values are encoded in a payload. Compressed encodings have numbers here too, so that a
 * message that uses one where none is allowed is refused by the encoding's name. */
typedef enum psr_encoding {
    PSR_ENCODING_BYTES, /* text, or memory unchanged: a value is a byte */
    PSR_ENCODING_FLOAT32,
    PSR_ENCODING_FLOAT64,
    PSR_ENCODING_FP16,
    PSR_ENCODING_BF16,
    PSR_ENCODING_INT8,
    PSR_ENCODING_TOPK,
    PSR_ENCODING_1BIT,
} psr_encoding;

const char *psr_encoding_name(psr_encoding encoding); /* "bytes", "float32", .. */

#define PSR_RANK_ANY UINT32_MAX /* in HELLO and JOIN: the scheduler shall give a rank */

typedef struct psr_peer {
    psr_role role;
    uint32_t rank; /* 0 for the scheduler */
} psr_peer;

const char *psr_role_name(psr_role role); /* "scheduler", "shard", "worker" */
bool psr_peer_equal(psr_peer a, psr_peer b);

typedef enum psr_message_type {
    /* The transport's own: the first message of every connection says who the sender is. It is
     * never delivered. Whether the sender may claim that was settled before, in ZeroMQ's handshake
     * (net/trust/admission.h) */
    PSR_MSG_HELLO = 1,
    /* The transport's own too: two processes agree on a key, and the second connection is there
     * (net/zmq/transport_zmq_seal.c) */
    PSR_MSG_KEY_OFFER = 2,
    PSR_MSG_KEY_ANSWER,
    PSR_MSG_SEALED,

    /* member -> scheduler */
    PSR_MSG_JOIN = 10,  /* payload JSON: version, host, pid, endpoint */
    PSR_MSG_READY,      /* connected to everybody, weights in place. payload
                           JSON (rank 0: algorithms), may be empty */
    PSR_MSG_PROGRESS,   /* what it does, and whom it waits for */
    PSR_MSG_METRICS,    /* payload: one JSON object, a line of metrics.jsonl */
    PSR_MSG_HELD,       /* answer to HOLD; the last step that was begun */
    PSR_MSG_CHECKPOINT, /* a piece of a checkpoint; payload floats */
    PSR_MSG_FAILED,     /* with a psr_err; payload: one line of text; the sender is about to exit */
    PSR_MSG_DONE,       /* all its steps are taken; payload JSON: final figures */
    PSR_MSG_FACTS,      /* payload: what a member's user found on its host */
    /* a failure of a communicator, and the rank to blame; payload: one line of text */
    PSR_MSG_FINDING,
    /* the sender wants a group of the living ranks of a group; payload: that group's ranks */
    PSR_MSG_SHRINK,
    /* answer to VIEW when its first step has come: the sender now exchanges by that view */
    PSR_MSG_BOUND,
    /* messages to a peer go by CURVE: a second connection to it has not come about */
    PSR_MSG_UNSEALED,
    PSR_MSG_CLOCK, /* with --trace: asks for the scheduler's clock */
    PSR_MSG_TRACE, /* with --trace: a piece of what the sender has recorded */

    /* scheduler -> member */
    /* all have joined and agree; payload JSON: the view; after a zero byte the bytes of the
     * scheduler's user */
    PSR_MSG_WELCOME = 30,
    PSR_MSG_START,   /* all are ready: begin */
    PSR_MSG_ALIVE,   /* answer to PROGRESS and CHECKPOINT, or asks for a PROGRESS */
    PSR_MSG_HOLD,    /* begin no further step; answer HELD. STOP_AT or a VIEW ends it */
    PSR_MSG_STOP_AT, /* the last step to take; ends a HOLD */
    /* a piece of a checkpoint, tensor by tensor: weights and optimizer state to worker 0, each
     * rank's own buffers to that rank */
    PSR_MSG_RESTORE,
    PSR_MSG_ABORT, /* payload: one line of text: why the run ends */
    PSR_MSG_BYE,   /* everything is written: the receiver may leave */
    /* answer to JOIN; payload JSON: the receiver's place; after a zero byte the bytes of the
     * scheduler's user */
    PSR_MSG_CONFIG,
    PSR_MSG_SAVED, /* to workers: a checkpoint is in place;
                             pieces of the next one may come */
    /* of a communicator: a failure, sent to all, or that there is none; payload: one line of
     * text */
    PSR_MSG_VERDICT,
    /* answer to SHRINK; payload: the living ranks, or if it failed one line of text */
    PSR_MSG_SHRUNK,
    PSR_MSG_REFUSED, /* the joiner is refused, or comes too late; payload: one line of text */
    PSR_MSG_VIEW,    /* the next view; ends a HOLD. payload JSON: the view */
    PSR_MSG_CLOCKED, /* answer to CLOCK */
    /* of a communicator: the rank that the receiver waits for has left, and sends nothing more */
    PSR_MSG_LEFT,

    /* worker -> shard, of a slice of one bucket */
    /* state from worker 0; back from a shard: where the weights are in shared memory, or the answer
     * to ASK */
    PSR_MSG_INIT = 50,
    PSR_MSG_PUSH, /* gradient */
    PSR_MSG_PULL, /* weights wanted (SSP, async) */
    /* shard -> worker */
    PSR_MSG_WEIGHTS, /* new weights of a slice, and credit */
    PSR_MSG_ACK,     /* credit only */
    /* worker -> shard, of a program's table */
    PSR_MSG_ASK, /* asks for values, or an array of the update's state; answered by INIT */

    /* worker -> worker */
    PSR_MSG_RING = 70, /* a slice of a chunk of a bucket */

    /* to worker 0 and back, with --clip-norm and with --precision fp16 */
    PSR_MSG_NORM = 72, /* a bucket's sum of squares, or that of all */

    /* between members, when one view follows another */
    PSR_MSG_STATE = 75, /* a slice of what changes hands; empty: the sender has begun the view */

    /* between ranks of a group, in one of its operations */
    PSR_MSG_VALUES = 80, /* a slice of what one sends the other */
    PSR_MSG_CREDIT,      /* back: how many slices may come */
    PSR_MSG_AHEAD,       /* back: how many operations may come */
    PSR_MSG_LISTEN,      /* back: from now on messages must be offered */
    PSR_MSG_OFFER,       /* it has begun, and waits for a CREDIT */

    /* between the probes of psring doctor, which are in no run */
    PSR_MSG_PROBE = 90, /* asks how long these bytes take */
    PSR_MSG_PROBED,     /* back: they have come */
} psr_message_type;

/* Sections of a checkpoint, in CHECKPOINT and RESTORE messages. Each is an array laid out like the
 * parameter arena or like the buffers' arena, padding included. WEIGHTS is the parameter arena:
 * worker 0 sends it, or the shards do where the weights that they send to workers are rounded. */
#define PSR_SECTION_WEIGHTS 0u
#define PSR_SECTION_BUFFERS 1u /* averaged batch-norm statistics, of worker 0 */
/* The weights that all workers have, of worker 0, where they come as differences from these
 * (comm/tables/differences.h). Laid out like the parameter arena */
#define PSR_SECTION_PULLED 2u
/* With --ema the averages over the ranks of what PSR_SECTION_EMA_RANK has, of worker 0 */
#define PSR_SECTION_EMA_BUFFERS 3u
/* With --precision fp16 the scale of the loss and its counts, of worker 0, in an array of their
 * own. No RESTORE: they come with WELCOME */
#define PSR_SECTION_LOSS_SCALE 4u
/* State array i of the optimizer. In mode ps the shards send it; in ring and local worker 0, or
 * each worker for the buckets that it holds */
#define PSR_SECTION_SLOT(i) (16u + (i))
#define PSR_SECTION_RANK(r) (256u + (r)) /* rank r's own batch-norm statistics */
/* The residual of rank r: what compression has left out of its gradients so far. Laid out like the
 * parameter arena */
#define PSR_SECTION_RESIDUAL(r) (65536u + (r))
/* With --ema the averages of rank r's own batch-norm statistics over the updates */
#define PSR_SECTION_EMA_RANK(r) (131072u + (r))

/* What a compute thread is doing. Liveness reports it, and the line that is printed when a deadline
 * passes names it. */
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
    PSR_PHASE_DEVICE,    /* waiting for its own device to write a gradient */
    PSR_PHASE_HAND_OVER, /* waiting for what a new view gives to this member */
} psr_phase;

const char *psr_phase_name(psr_phase phase); /* "start", "data", "forward",
                                                ... as in --fault-point */

/* What a message belongs to. */
typedef struct psr_tag {
    uint32_t epoch; /* for a group: how many shrinks had happened when it was made; otherwise 0 */
    uint32_t group; /* 0: all members */
    uint32_t slot;  /* 0: the group's order of collectives; 1 + b:
                       bucket b. See comm/collectives/group.h */
    uint64_t round; /* within the slot: the number of a collective, or a bucket's step */
} psr_tag;

typedef struct psr_head {
    psr_message_type type;
    psr_encoding encoding; /* of the payload */
    psr_tag tag;           /* zero for types without a tag */
    /* used by the transport: how many messages were sent on this channel before; set by send,
     * checked by recv */
    uint64_t sequence;
    uint64_t fields[PSR_HEAD_FIELDS_MAX]; /* those of the type, in its order; the rest is zero */
} psr_head;

const char *psr_message_name(psr_message_type type); /* "PUSH", "WEIGHTS", ..; "unknown" */
/* The name of a field of the type: "offset", ..; NULL: it has no such field. */
const char *psr_head_field_name(psr_message_type type, size_t index);
/* What a head says, for a line: "PUSH (wire step 7, bucket 3, offset 128, count 64, answer 1)". */
void psr_head_describe(const psr_head *head, char *text, size_t size);

/* A received message. Its holder owns it and frees it by psr_message_free; the payload is valid
 * until then. A payload is aligned for double, a float32 payload for float. A float32 payload may
 * be in shared memory that its sender can still write: whoever checks a value before using it
 * copies it first. */
typedef struct psr_message {
    psr_peer from;
    psr_head head;
    const void *payload;
    size_t payload_bytes;
    void (*release)(struct psr_message *message); /* set by the transport */
    /* for its owner, to keep a list of waiting messages (comm/operations/early.h) */
    struct psr_message *next;
} psr_message;

void psr_message_free(psr_message **message); /* NULL allowed; nulls it */

/* Writes preamble and head. ret_bytes <= PSR_HEAD_BYTES_MAX. */
void psr_head_encode(const psr_head *head, uint64_t payload_bytes,
                     uint8_t buffer[PSR_HEAD_BYTES_MAX], size_t *ret_bytes);

/* Checks and reads frame 1. FORMAT: it is no frame of psring, or malformed. VERSION: it is of
 * another version of psring (the detail names both). */
PSR_MUST_CHECK psr_err psr_head_decode(const void *bytes, size_t size, psr_head *ret_head,
                                       uint64_t *ret_payload_bytes);

/* The size of frame 1 that begins with these bytes. FORMAT: they are fewer than that, or no
 * preamble's. */
PSR_MUST_CHECK psr_err psr_head_bytes(const void *bytes, size_t size, size_t *ret_head_bytes);

/* HELLO, which only transports send and read. PROTOCOL: it names a role or rank that cannot
 * exist. */
psr_head psr_msg_hello_head(psr_peer self);
PSR_MUST_CHECK psr_err psr_msg_hello_read(const psr_head *head, psr_peer *ret_peer);

/* REFUSED: the status with which the refused process ends. A number that is no status is read as
 * PEER, since the line that comes with it is what counts. */
psr_head psr_msg_refused_head(psr_err status);
psr_err psr_msg_refused_status(const psr_head *head);

#endif
