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

/* How values stand in a payload. The compressed ones have numbers here too, so that a message that
 * has one where none is allowed is refused by the encoding's name. */
typedef enum psr_encoding {
    PSR_ENCODING_BYTES, /* text, or memory as it is: a value is a byte */
    PSR_ENCODING_FLOAT32,
    PSR_ENCODING_FLOAT64,
    PSR_ENCODING_FP16,
    PSR_ENCODING_BF16,
    PSR_ENCODING_INT8,
    PSR_ENCODING_TOPK,
    PSR_ENCODING_1BIT,
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
    /* The transport's own: the first message of every connection says who the sender is. It is
     * never delivered. Whether the sender may claim that was settled before, in ZeroMQ's handshake
     * (net/trust/admission.h) */
    PSR_MSG_HELLO = 1,

    /* member -> scheduler */
    PSR_MSG_JOIN = 10,  /* payload JSON: version, host, pid, endpoint */
    PSR_MSG_READY,      /* connected to everybody, weights in place. payload
                           JSON (rank 0: algorithms), may be empty */
    PSR_MSG_PROGRESS,   /* what it does, and whom it waits for */
    PSR_MSG_METRICS,    /* payload: one JSON object, a line of metrics.jsonl */
    PSR_MSG_HELD,       /* answer to HOLD: the last step begun */
    PSR_MSG_CHECKPOINT, /* a piece of one; payload floats */
    PSR_MSG_FAILED,     /* a psr_err, payload: one line of text; the sender is about to exit */
    PSR_MSG_DONE,       /* its steps are taken; payload JSON: final figures */
    PSR_MSG_FACTS,      /* payload: what a member's user found on its host */
    PSR_MSG_FINDING,    /* of a communicator: a failure, and who is
                           to blame; payload: one line of text */
    PSR_MSG_SHRINK,     /* of a group: its sender wants one of those of
                           its ranks that live. payload: its ranks */
    PSR_MSG_BOUND,      /* answer to VIEW, once its first step has
                           come: the sender exchanges by it now */

    /* scheduler -> member */
    PSR_MSG_WELCOME = 30, /* all have joined and agree. payload JSON: view; and
                             behind a zero byte what the scheduler's user says */
    PSR_MSG_START,        /* all are ready: begin */
    PSR_MSG_ALIVE,        /* answer to PROGRESS and CHECKPOINT, or a wish for a PROGRESS */
    PSR_MSG_HOLD,         /* begin no further step; answer HELD. STOP_AT or a VIEW ends it */
    PSR_MSG_STOP_AT,      /* the last step to take; ends a HOLD */
    PSR_MSG_RESTORE,      /* a piece of a checkpoint, tensor by tensor. To worker
                             0 weights and slots, to each rank its own buffers */
    PSR_MSG_ABORT,        /* payload: one line of text: why the run ends */
    PSR_MSG_BYE,          /* all is written: leave */
    PSR_MSG_CONFIG,       /* answer to JOIN. payload JSON: your place; and behind
                             a zero byte what the scheduler's user gives */
    PSR_MSG_SAVED,        /* to workers: a checkpoint is in place;
                             pieces of the next one may come */
    PSR_MSG_VERDICT,      /* of a communicator: the failure that all are told,
                             or that there is none; payload: one line of text */
    PSR_MSG_SHRUNK,       /* to those who said SHRINK: the ranks that live are
                             the payload, or why it failed: one line of text */
    PSR_MSG_REFUSED,      /* who would join is turned away, or comes
                             too late. payload: one line of text */
    PSR_MSG_VIEW,         /* the next view; ends a HOLD. payload JSON: the view */

    /* worker -> shard, of a slice of one bucket */
    PSR_MSG_INIT = 50, /* initial state from worker 0; back: the weights of it, where they lie */
    PSR_MSG_PUSH,      /* gradient */
    PSR_MSG_PULL,      /* weights wanted (SSP, async) */
    /* shard -> worker */
    PSR_MSG_WEIGHTS, /* new weights of a slice, and credit */
    PSR_MSG_ACK,     /* credit alone */

    /* worker -> worker */
    PSR_MSG_RING = 70, /* a slice of a chunk of a bucket */

    /* between all of these, when one view follows another */
    PSR_MSG_STATE = 75, /* a slice of what changes hands; empty: its sender has begun the view */

    /* rank -> rank of a group, of one of its operations */
    PSR_MSG_VALUES = 80, /* a slice of what one sends the other */
    PSR_MSG_CREDIT,      /* back: so many slices may come */
    PSR_MSG_AHEAD,       /* back: so many operations may come */
    PSR_MSG_LISTEN,      /* back: from now on messages are to be offered */
    PSR_MSG_OFFER,       /* it has begun, and waits to be let in */

    /* between the probes of psring doctor, which are in no run */
    PSR_MSG_PROBE = 90, /* how long do these bytes take? */
    PSR_MSG_PROBED,     /* back: they have come */
} psr_message_type;

/* Sections of a checkpoint, in CHECKPOINT and RESTORE messages. Each is an array laid out like the
 * parameter arena or like the buffers' arena, padding included. WEIGHTS is the parameter arena:
 * worker 0 sends it, or the shards do where the weights that they send to workers are rounded. */
#define PSR_SECTION_WEIGHTS 0u
#define PSR_SECTION_BUFFERS 1u /* averaged batch-norm statistics, of worker 0 */
/* Optimizer slot i. Sent by the shards in mode ps; by worker 0, or by each worker for the buckets
 * that it holds, in ring and local */
#define PSR_SECTION_SLOT(i) (16u + (i))
#define PSR_SECTION_RANK(r) (256u + (r)) /* rank r's own batch-norm statistics */
/* The residual of rank r: what compression has left out of its gradients so far. Laid out like the
 * parameter arena */
#define PSR_SECTION_RESIDUAL(r) (65536u + (r))

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
    PSR_PHASE_DEVICE,    /* waiting for the own device to write a gradient */
    PSR_PHASE_HAND_OVER, /* waiting for what a new view gives to this member */
} psr_phase;

const char *psr_phase_name(psr_phase phase); /* "start", "data", "forward",
                                                ... as in --fault-point */

/* What a message belongs to. */
typedef struct psr_tag {
    uint32_t epoch; /* of a group: how many shrinks had happened when the group was made; else 0 */
    uint32_t group; /* 0: all members */
    uint32_t slot;  /* 0: the group's order of collectives; 1 + b:
                       bucket b. See comm/collectives/group.h */
    uint64_t round; /* of the slot: the number of a collective; a bucket's step */
} psr_tag;

typedef struct psr_head {
    psr_message_type type;
    psr_encoding encoding;                /* of the payload */
    psr_tag tag;                          /* zero where a type has none */
    uint64_t sequence;                    /* the transport's: messages on this channel before
                                             this one. send fills it, recv checks it */
    uint64_t fields[PSR_HEAD_FIELDS_MAX]; /* the type's own, in its order; the rest is zero */
} psr_head;

const char *psr_message_name(psr_message_type type); /* "PUSH", "WEIGHTS", ..; "unknown" */
/* The name of a field of the type: "offset", ..; NULL: it has no such field. */
const char *psr_head_field_name(psr_message_type type, size_t index);
/* What a head says, for a line: "PUSH (wire step 7, bucket 3, offset 128, count 64, answer 1)". */
void psr_head_describe(const psr_head *head, char *text, size_t size);

/* A received message. Its holder owns it; psr_message_free gives the transport's memory back, and
 * the payload stays valid until then. A payload is aligned for double, one in float32 for float. A
 * float32 payload may lie in shared memory that its sender can still write: whoever checks a value
 * and then uses it copies it first. */
typedef struct psr_message {
    psr_peer from;
    psr_head head;
    const void *payload;
    size_t payload_bytes;
    void (*release)(struct psr_message *message); /* the transport's */
    struct psr_message *next;                     /* free for its owner, to keep a list of messages
                                                     that wait (comm/operations/early.h) */
} psr_message;

void psr_message_free(psr_message **message); /* NULL allowed; nulls it */

/* Writes preamble and head. ret_bytes <= PSR_HEAD_BYTES_MAX. */
void psr_head_encode(const psr_head *head, uint64_t payload_bytes,
                     uint8_t buffer[PSR_HEAD_BYTES_MAX], size_t *ret_bytes);

/* Checks and reads frame 1. FORMAT: it is no frame of psring, or malformed. VERSION: psring's, of
 * another version (the detail names both). */
PSR_MUST_CHECK psr_err psr_head_decode(const void *bytes, size_t size, psr_head *ret_head,
                                       uint64_t *ret_payload_bytes);

/* HELLO, which only transports send and read. PROTOCOL: it names a role or rank that cannot
 * exist. */
psr_head psr_msg_hello_head(psr_peer self);
PSR_MUST_CHECK psr_err psr_msg_hello_read(const psr_head *head, psr_peer *ret_peer);

/* REFUSED: the status with which the refused process ends. A number that is no status is read as
 * PEER, since the line that comes with it is what counts. */
psr_head psr_msg_refused_head(psr_err status);
psr_err psr_msg_refused_status(const psr_head *head);

#endif
