/* Who may speak: the CURVE key pair of this process and the public keys of the roster, or over ipc sockets the
 * token of the run. Provisioned by the launcher over standard input, or from --key-file. Secrets never go to a
 * command line or a log. Plain data after reading; any thread may read. */
#ifndef PSR_NET_KEYS_H
#define PSR_NET_KEYS_H

#include "net/message.h"

#define PSR_KEY_Z85 41     /* 40 characters and the end */
#define PSR_TOKEN_BYTES 65 /* 64 hex digits and the end */

typedef struct psr_keys {
    bool curve;
    bool bare; /* without CURVE: TCP too, where everybody on the way can read and change all of it.
                                     * Only who starts the run can say so (--no-encrypt) */
    char token[PSR_TOKEN_BYTES]; /* without CURVE: what the handshake must carry (net/admission.h) */
    char public_key[PSR_KEY_Z85], secret_key[PSR_KEY_Z85]; /* own */
    struct psr_member_key {
        psr_peer peer;
        char public_key[PSR_KEY_Z85];
    } * members; /* the roster's, own included */
    size_t member_count;
} psr_keys;

/* A fresh set for a run: one psr_keys per member, index 0 the scheduler, then shards, then workers.
 * ret owns: array of 1 + shards + workers; psr_keys_done each, then free. */
PSR_MUST_CHECK psr_err psr_keys_generate(uint32_t workers, uint32_t shards, bool curve, psr_keys **ret_keys,
                                         size_t *ret_count);

/* JSON text of one, for standard input or a key file (mode 0600, made by psr_keys_save). ret owns: free. */
PSR_MUST_CHECK psr_err psr_keys_to_json(const psr_keys *keys, char **ret_json);
/* Bytes may be hostile: FORMAT. ret owns: psr_keys_done. */
PSR_MUST_CHECK psr_err psr_keys_from_json(const char *json, size_t size, psr_keys *ret_keys);
PSR_MUST_CHECK psr_err psr_keys_load(const char *path,
                                     psr_keys *ret_keys); /* refuses a file that others can read */
/* USAGE: path is there already; what was there stays. */
PSR_MUST_CHECK psr_err psr_keys_save(const psr_keys *keys, const char *path);

/* Public key of a member, or NULL. */
const char *psr_keys_of(const psr_keys *keys, psr_peer peer);
void psr_keys_done(psr_keys *keys); /* wipes */

#endif
