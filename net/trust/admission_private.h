/* What the files of admission share; only they include it. */
#ifndef PSR_NET_TRUST_ADMISSION_PRIVATE_H
#define PSR_NET_TRUST_ADMISSION_PRIVATE_H

#include "net/reserve.h"
#include "net/trust/admission.h"
#include "net/trust/zap.h"
#include "net/zmq/inbox/unknowns.h"

#include <pthread.h>
#include <stdatomic.h>

#define PSR_ADMISSION_SEALED_DOMAIN "psring.sealed"
#define PSR_ADMISSION_END_MARK "e" /* among the lines: a connection has ended */

/* Who may open a second connection; its channel is the place in the list. */
typedef struct psr_expected {
    psr_peer peer;
    char token[PSR_TOKEN_BYTES]; /* "": nobody */
} psr_expected;

struct psr_admission {
    const psr_keys *keys;
    void *router, *sealed;
    pthread_mutex_t expected_lock;
    psr_expected *expected;
    size_t expected_count;
    pthread_t thread;
    _Atomic uint64_t refused;
    atomic_bool members_look;
    atomic_bool tells_ends, any_ended; /* connections */
    void *refusals;                    /* PAIR: the owner's end of the lines */
    void *orders;                      /* PAIR: the owner's end */
    psr_unknowns unknowns;             /* used by both threads */
    /* The thread's: */
    void *zap, *lines, *monitor, *sealed_monitor, *ordered;
    psr_reserve reserve;
    bool pressed; /* a connection was ended for lack of descriptors */
    uint64_t numbers;
    int64_t asked_ms;      /* when the owner was asked to look at its inbox; 0: it was not */
    int64_t ask_again_ms;  /* the owner is not asked again before this */
    size_t half_open_max;  /* PSR_HALF_OPEN_MAX, or fewer where there are few descriptors */
    int64_t in_handshake;  /* connections accepted and neither admitted nor refused */
    uint64_t refused_open; /* refused connections whose DISCONNECTED has not come yet */
    int64_t *accepted_ms;  /* [descriptor] */
    size_t accepted_count;
    uint64_t in_between; /* connections that were admitted and have not ended their handshake */
    int64_t told_ms;     /* when the last of them was admitted */
};

/* ---- admission_names.c; any thread ---- */

/* Reads what psr_admission_name writes. false: it is no such name. */
bool psr_admission_read_name(const char *name, psr_peer *ret_peer);
/* What psr_admission_user_read reads. */
void psr_admission_user_write(psr_peer admitted, uint64_t number,
                              char user[PSR_ADMISSION_USER_BYTES]);

/* ---- admission_credentials.c; the handler's thread ---- */

/* NULL: it is let in as *ret_peer. Otherwise why not: a constant text, for the log and the peer. */
const char *psr_admission_admit(psr_admission *admission, const psr_zap_request *request,
                                psr_peer *ret_peer);

/* ---- admission_handler.c; the handler's thread ---- */

/* The thread. context: the psr_admission. */
void *psr_admission_main(void *context);
/* One line for the owner. address: the peer's as libzmq gives it; "": not known. */
void psr_admission_tell(psr_admission *admission, const char *address, const char *reason);
/* Counts a connection that is refused in its handshake. */
void psr_admission_count_handshake(psr_admission *admission);
/* The same, with a line. */
void psr_admission_refuse(psr_admission *admission, const char *address, const char *reason);

/* ---- admission_monitor.c; the handler's thread ---- */

/* Takes the events of libzmq's monitors that are there. */
void psr_admission_take_events(psr_admission *admission);

#endif
