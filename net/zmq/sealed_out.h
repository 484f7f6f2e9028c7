/* The sending end of a second connection: a PUSH on which messages go sealed. A message is sealed
 * as late as it can be, when few bytes are on their way to the kernel: what waits before that
 * costs no copy, and what was sealed is sent while it is in cache. So messages wait here, in
 * order, and whoever has the transport sends them on when there is room. One thread, but for what
 * libzmq calls when bytes have left. */
#ifndef PSR_NET_ZMQ_SEALED_OUT_H
#define PSR_NET_ZMQ_SEALED_OUT_H

#include "net/transport.h"
#include "net/trust/sealed_frame.h"
#include "net/zmq/unsent.h"

/* What the sealed channels of one transport share: buffers that are used again, and a descriptor
 * that can be read when a channel that waited has room. */
typedef struct psr_sealed_outs psr_sealed_outs;

/* UNSUPPORTED, NOMEM, IO. The caller owns *ret_outs. */
PSR_MUST_CHECK psr_err psr_sealed_outs_new(void *zmq_ctx, psr_sealed_outs **ret_outs);
/* When the context has ended, so that libzmq has let go of all buffers. NULL allowed. */
void psr_sealed_outs_free(psr_sealed_outs *outs);
psr_seal_library *psr_sealed_outs_library(const psr_sealed_outs *outs);
int psr_sealed_outs_fd(const psr_sealed_outs *outs);
/* Sends on what waits, as far as there is room. NOMEM: it goes on waiting. */
PSR_MUST_CHECK psr_err psr_sealed_outs_serve(psr_sealed_outs *outs);
bool psr_sealed_outs_wait(const psr_sealed_outs *outs); /* whether anything does */

typedef struct psr_sealed_out psr_sealed_out;

/* unsent: counts what has not left; borrowed for life. The caller owns *ret_out. */
PSR_MUST_CHECK psr_err psr_sealed_out_new(psr_sealed_outs *outs, const psr_key_answer *answer,
                                          const psr_seal_secret *secret, psr_unsent *unsent,
                                          psr_sealed_out **ret_out);
/* Connects, and sends SEALED, the first message. PROTOCOL: the endpoint is none. */
PSR_MUST_CHECK psr_err psr_sealed_out_connect(psr_sealed_out *out, const char *endpoint);
/* Drops what waits, and ends its loans; what libzmq has may take linger_ms. NULL allowed. */
void psr_sealed_out_free(psr_sealed_out *out, int linger_ms);

/* The peer has answered on its way back, so there is a connection: it gets its congestion
 * control. */
void psr_sealed_out_answered(psr_sealed_out *out);
/* SEALED once more, the same bytes: its connection may have ended before they were read. To be
 * called before anything else was sent. */
PSR_MUST_CHECK psr_err psr_sealed_out_greet(psr_sealed_out *out);

/* Takes over the payload, as psr_transport_send. NOMEM: the message was not taken, nor has it used
 * up a number of the channel; those that wait go on waiting. announced: its length as the head
 * says it; what is sent may be a reference of another length. payload: NULL: none. */
PSR_MUST_CHECK psr_err psr_sealed_out_send(psr_sealed_out *out, const psr_head *head,
                                           uint64_t announced, const psr_payload *payload);

#endif
