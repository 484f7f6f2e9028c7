/* The receiving end of second connections: a PULL to which members send sealed messages
 * (net/trust/sealed_frame.h), and a key for each channel. What does not open, or comes again, is
 * dropped, whoever sent it; a member is believed to have sent what opens. One thread. */
#ifndef PSR_NET_ZMQ_INBOX_SEALED_IN_H
#define PSR_NET_ZMQ_INBOX_SEALED_IN_H

#include "net/trust/bindings.h"
#include "net/trust/sealed_frame.h"

#include <zmq.h>

typedef struct psr_sealed_in psr_sealed_in;

/* Opened messages of a channel that have overtaken the last ones on its CURVE connection, or in its
 * pipe. */
typedef struct psr_sealed_held psr_sealed_held;

struct psr_sealed_channel {
    uint32_t number;
    uint8_t id[PSR_ROUTING_ID_BYTES]; /* of the binding that it belongs to */
    psr_peer admitted;
    /* What both ends have told each other, to answer once more. Wiped at its end. */
    uint8_t offered[PSR_SEAL_PART_BYTES], answered[PSR_SEAL_PART_BYTES];
    psr_cipher cipher;
    unsigned offers;
    psr_seal *opener;
    uint64_t next;                       /* number of the next message */
    char user[PSR_ADMISSION_USER_BYTES]; /* User-Id of its connection; "": it has none yet */
    psr_connection connection;
    psr_sealed_held *first, *last;
    size_t held, held_bytes;
    size_t
        held_after; /* the inbox's: messages of the pipe that were read since the last was held */
};

/* The socket is not bound yet; it is to be put under admission first. The caller owns *ret_in. */
PSR_MUST_CHECK psr_err psr_sealed_in_new(void *zmq_ctx, psr_sealed_in **ret_in);
void psr_sealed_in_free(psr_sealed_in *in); /* NULL allowed */
void *psr_sealed_in_socket(const psr_sealed_in *in);
/* Binds a port of that address which the kernel chooses. IO. admission: borrowed for life. */
PSR_MUST_CHECK psr_err psr_sealed_in_bind(psr_sealed_in *in, const char *address,
                                          psr_admission *admission);

/* Answers a KEY_OFFER of that member: makes its channel, and what goes back. The same offer gets
 * the same answer, since one may have been lost. PROTOCOL: it is no offer, another one than
 * before, or one of more than PSR_KEY_OFFERS_MAX. */
PSR_MUST_CHECK psr_err psr_sealed_in_answer(psr_sealed_in *in, psr_binding *binding,
                                            const psr_head *offer, const void *part,
                                            size_t part_bytes, psr_head *ret_answer,
                                            uint8_t ret_part[PSR_SEAL_PART_BYTES]);
/* The binding's channel ends, if it has one. */
void psr_sealed_in_forget(psr_sealed_in *in, psr_binding *binding);

typedef enum psr_sealed_what {
    PSR_SEALED_NOTHING, /* no message was there */
    PSR_SEALED_DROPPED, /* one was, and changes nothing: reason */
    PSR_SEALED_GREETED, /* the first one of its channel, perhaps again */
    PSR_SEALED_OPENED,
} psr_sealed_what;

typedef struct psr_sealed_taken {
    psr_sealed_what what;
    const char *reason;
    psr_sealed_channel *channel; /* NULL: the frame names none */
    zmq_msg_t frame;             /* the caller closes it, always */
} psr_sealed_taken;

/* Takes the next frame, without waiting. PEER: messages before it were lost. PROTOCOL: the first
 * message of a channel is another one than SEALED. The channel says whose; the caller closes the
 * frame then too. */
PSR_MUST_CHECK psr_err psr_sealed_in_take(psr_sealed_in *in, psr_sealed_taken *ret_taken);

/* Keeps an opened frame, which is emptied; sequence: its head's. PROTOCOL: there are too many;
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_sealed_in_hold(psr_sealed_channel *channel, uint64_t sequence,
                                          zmq_msg_t *frame);
/* The sequence of the oldest frame that is kept; one is. */
uint64_t psr_sealed_in_held(const psr_sealed_channel *channel);
/* Takes that frame out, into *frame, which is initialised and empty. */
void psr_sealed_in_take_held(psr_sealed_channel *channel, zmq_msg_t *frame);

#endif
