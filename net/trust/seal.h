/* Sealing: authenticated encryption of what goes from one process to another on one connection, by
 * libcrypto. Only seal.c includes that library.
 *
 * Both ends contribute PSR_SEAL_PART_BYTES random bytes, which they tell each other inside CURVE's
 * channel (net/zmq/transport_zmq_seal.c). HKDF (RFC 5869) with SHA-256 makes a key of them, and a
 * token with which the sender asks for admission on the second connection. Each direction of each
 * pair has parts, and so a key, of its own, and a process that starts, resumes or rejoins makes new
 * ones.
 *
 * The nonce is the number of the message, which the sending end counts itself, from 0. So under one
 * key no nonce comes twice. The cipher is AES-256-GCM where both processors have instructions for
 * it, else ChaCha20-Poly1305 (RFC 8439). Keys are wiped when they are freed, and no text has them.
 *
 * Nothing of libcrypto's global state is used: neither its configuration file nor its random
 * numbers. A psr_seal belongs to one thread at a time. */
#ifndef PSR_NET_TRUST_SEAL_H
#define PSR_NET_TRUST_SEAL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_SEAL_PART_BYTES 32
#define PSR_SEAL_KEY_BYTES 32
#define PSR_SEAL_TAG_BYTES 16
#define PSR_SEAL_TOKEN_BYTES 65 /* 64 hex digits and the end */

/* As they stand on the wire: bits, so that a set of them is a sum. */
typedef enum psr_cipher {
    PSR_CIPHER_AES_256_GCM = 1,
    PSR_CIPHER_CHACHA20_POLY1305 = 2,
} psr_cipher;

/* The ciphers that this processor is fast at. */
unsigned psr_seal_ciphers(void);
/* The best one of two sets. false: they have none in common. */
bool psr_seal_choose(unsigned ours, unsigned theirs, psr_cipher *ret_cipher);

/* What both ends make of their parts. A secret. */
typedef struct psr_seal_secret {
    uint8_t key[PSR_SEAL_KEY_BYTES];
    char token[PSR_SEAL_TOKEN_BYTES];
} psr_seal_secret;

/* Random bytes of this end. IO. */
PSR_MUST_CHECK psr_err psr_seal_part(uint8_t ret_part[PSR_SEAL_PART_BYTES]);
void psr_seal_wipe(void *secret, size_t bytes);

/* libcrypto's algorithms, found once. */
typedef struct psr_seal_library psr_seal_library;

/* UNSUPPORTED: this libcrypto lacks an algorithm. NOMEM. The caller owns *ret_library. */
PSR_MUST_CHECK psr_err psr_seal_library_new(psr_seal_library **ret_library);
/* Seals that were made with it are freed before. NULL allowed. */
void psr_seal_library_free(psr_seal_library *library);

/* The same at both ends, for the same parts, cipher and channel (any bytes that both know). The
 * caller wipes *ret_secret. */
PSR_MUST_CHECK psr_err psr_seal_agree(psr_seal_library *library,
                                      const uint8_t offered[PSR_SEAL_PART_BYTES],
                                      const uint8_t answered[PSR_SEAL_PART_BYTES],
                                      psr_cipher cipher, const void *channel, size_t channel_bytes,
                                      psr_seal_secret *ret_secret);

/* One end of one connection. It seals, or it opens. */
typedef struct psr_seal psr_seal;

/* library is borrowed for life. The caller owns *ret_seal. */
PSR_MUST_CHECK psr_err psr_seal_new(psr_seal_library *library, psr_cipher cipher,
                                    const uint8_t key[PSR_SEAL_KEY_BYTES], bool seals,
                                    psr_seal **ret_seal);
void psr_seal_free(psr_seal *seal); /* wipes; NULL allowed */

/* The number that the next message gets. */
uint64_t psr_seal_next(const psr_seal *seal);

typedef struct psr_seal_run {
    const void *bytes;
    size_t count;
} psr_seal_run;

/* Writes runs one after the other, encrypted, to out, and the tag behind them. context is bound in
 * and not written. The message gets the number psr_seal_next. */
PSR_MUST_CHECK psr_err psr_seal_seal(psr_seal *seal, const void *context, size_t context_bytes,
                                     const psr_seal_run *runs, size_t run_count, uint8_t *out);

/* Decrypts in place what was sealed as that number under that context; the tag is the last of
 * count bytes. false: it was not sealed so, by the other end of this key. What is there is of no
 * use then. */
bool psr_seal_open(psr_seal *seal, uint64_t number, const void *context, size_t context_bytes,
                   uint8_t *bytes, size_t count);

#endif
