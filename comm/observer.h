/* The observer: hears what an exchange does as it happens. Metrics and traces are made of what it
 * hears, and whatever chooses a way by what was measured may be.
 *
 * Four things are always told, for every way that values go (shards, ring, shared memory,
 * operations of all workers) in the same words:
 *     BEGIN    a bucket's gradient may be read: its exchange begins in this process
 *     OUT      a message is about to be handed to the transport
 *     IN       a message has come from the transport
 *     LANDED   the bucket's new weights are in this process's memory
 * Of one bucket and step BEGIN comes before every OUT of its gradient, and LANDED after every IN
 * that it needs. A neighbour that is ahead may send before BEGIN. Messages of members (JOIN,
 * PROGRESS, ..) are told too, so that the bytes sum up to those of the transport. Values between
 * two parts of one process are no messages. Whether a payload went by reference is the transport's
 * to know (psr_transport_counts).
 *
 * To an observer of work the ends of what the thread does are told too, so that it hears of spans
 * of time, which nest:
 *     SENT     the message of the last OUT has been handed over
 *     TAKEN    the message of the last IN has been dealt with
 *     FOLDS, FOLDED     gradients of a bucket are summed, and its weights updated on the way
 *     UPDATES, UPDATED  the optimizer works on a sum that is complete
 *
 * The loop tells of messages (psr_loop_observe), whoever owns the operations tells of their begin
 * and end (psr_loop_tell). Engines and operations know no observer: they tell of their work by
 * their outbox (psr_outbox_tell). */
#ifndef PSR_COMM_OBSERVER_H
#define PSR_COMM_OBSERVER_H

#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "net/message.h"

typedef enum psr_observed_kind {
    PSR_OBSERVED_BEGIN,
    PSR_OBSERVED_OUT,
    PSR_OBSERVED_IN,
    PSR_OBSERVED_LANDED,
    /* of work */
    PSR_OBSERVED_SENT,
    PSR_OBSERVED_TAKEN,
    PSR_OBSERVED_FOLDS,
    PSR_OBSERVED_FOLDED,
    PSR_OBSERVED_UPDATES,
    PSR_OBSERVED_UPDATED,
} psr_observed_kind;

#define PSR_OBSERVED_NO_BUCKET UINT32_MAX

typedef struct psr_observed {
    psr_observed_kind kind;
    int64_t stamp_ns; /* by the clock of who runs the loop: monotonic, or a simulation's */
    uint32_t bucket;  /* PSR_OBSERVED_NO_BUCKET: the message belongs to none */
    uint64_t step;    /* of the run, from 0; without a bucket: the number of an operation, or 0 */
    psr_route route;  /* BEGIN, LANDED: the way of the bucket */
    /* BEGIN of a bucket by ring: how many floats of it this process sends. Its VALUES do not say
     * it */
    size_t ring_floats;
    /* OUT, IN, SENT, TAKEN; of the last two nothing else is set */
    psr_message_type type;
    psr_peer peer; /* to whom, from whom */
    /* of the arena, whose values it carries or asks for; empty without a bucket, and for VALUES */
    psr_span span;
    size_t bytes; /* of its payload */
    /* what tells it from other messages of its type, bucket and step between the same two */
    uint64_t part;
} psr_observed;

typedef struct psr_observer {
    void *context;
    /* On the thread that runs the loop; BEGIN and LANDED of a process that plays all ranks on the
     * thread that computes. It must be quick, and call nothing of the loop. */
    void (*see)(void *context, const psr_observed *observed);
    bool work; /* it wants to hear of work too */
} psr_observer;

/* What a message says, without a stamp. kind: OUT or IN. */
psr_observed psr_observed_message(psr_observed_kind kind, psr_peer peer, const psr_head *head,
                                  size_t bytes);

/* An operation, or an engine, begins or has ended what kind says. Does nothing if nobody hears the
 * outbox. */
void psr_outbox_tell(const psr_outbox *outbox, psr_observed_kind kind, uint64_t step,
                     uint32_t bucket, psr_span span);

/* Whether its payload is a gradient's, or a sum of gradients on its way. */
bool psr_observed_is_gradient(const psr_observed *observed);

#endif
