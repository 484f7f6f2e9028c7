/* What libzmq asks in a connection's handshake, and how it is answered: ZAP
 * (https://rfc.zeromq.org/spec/27/), as frames. net/trust/admission_credentials.c decides. One
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
    /* CURVE: the key's 32 bytes; PLAIN: a name, and in the next frame a password */
    PSR_ZAP_CREDENTIALS,
    PSR_ZAP_FRAMES = PSR_ZAP_CREDENTIALS + 2
};

typedef struct psr_zap_frame {
    uint8_t bytes[256];
    size_t size; /* its size as received; if larger than bytes, it was cut */
} psr_zap_frame;

typedef struct psr_zap_request {
    psr_zap_frame frames[PSR_ZAP_FRAMES];
    size_t count; /* frames that came; the others are empty, and further ones are dropped */
} psr_zap_request;

/* Takes a request that waits at a REP socket. false: none waits. */
bool psr_zap_receive(void *socket, psr_zap_request *ret_request);

/* Whether the frame is this text. */
bool psr_zap_is(const psr_zap_frame *frame, const char *text);

/* The frame as a text; "" when it does not fit. */
void psr_zap_text(const psr_zap_frame *frame, char *text, size_t size);

typedef enum psr_zap_verdict {
    PSR_ZAP_LET_IN,
    /* the client is told */
    PSR_ZAP_REFUSED,
    /* the client is told nothing, and disconnected when the time for its handshake is over; it may
     * come again */
    PSR_ZAP_LATER
} psr_zap_verdict;

/* Answers the last request. why_not: for a refused one. The messages of an admitted connection
 * carry user as their User-Id. */
void psr_zap_answer(void *socket, const psr_zap_request *request, psr_zap_verdict verdict,
                    const char *why_not, const char *user);

#endif
