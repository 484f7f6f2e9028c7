/* What libzmq asks in a connection's handshake, and how it is answered: ZAP
 * (https://rfc.zeromq.org/spec/27/), as frames. The decision is net/trust/admission.c's. One
 * thread. */
#ifndef PSR_NET_TRUST_ZAP_H
#define PSR_NET_TRUST_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSR_ZAP_VERSION,
    PSR_ZAP_ID,
    PSR_ZAP_DOMAIN,
    PSR_ZAP_ADDRESS,
    PSR_ZAP_ROUTING_ID,
    PSR_ZAP_MECHANISM,
    PSR_ZAP_CREDENTIALS, /* CURVE: the key's 32 bytes; PLAIN: a name, and behind it a password */
    PSR_ZAP_FRAMES = PSR_ZAP_CREDENTIALS + 2
};

typedef struct psr_zap_frame {
    uint8_t bytes[256];
    size_t size; /* as it came; larger than bytes: it was cut */
} psr_zap_frame;

typedef struct psr_zap_request {
    psr_zap_frame frames[PSR_ZAP_FRAMES];
    size_t count; /* of those that came; the others are empty, and more are dropped */
} psr_zap_request;

/* Takes the request that waits at a REP socket. false: none does. */
bool psr_zap_receive(void *socket, psr_zap_request *ret_request);

/* Is the frame this text? */
bool psr_zap_is(const psr_zap_frame *frame, const char *text);

/* The frame as a text; "" when it does not fit. */
void psr_zap_text(const psr_zap_frame *frame, char *text, size_t size);

typedef enum psr_zap_verdict {
    PSR_ZAP_LET_IN,
    /* it is told so */
    PSR_ZAP_REFUSED,
    PSR_ZAP_LATER /* it is told nothing and hung up on when its
                     handshake's time is over; then it may come again */
} psr_zap_verdict;

/* Answers the request that was received last. why_not: unless it is let in; then its messages bear
 * user as their User-Id. */
void psr_zap_answer(void *socket, const psr_zap_request *request, psr_zap_verdict verdict,
                    const char *why_not, const char *user);

#endif
