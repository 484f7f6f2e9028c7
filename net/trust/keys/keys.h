/* Who may speak: the CURVE key pair of this process and the public keys of the roster, or without
 * CURVE (ipc sockets) the tokens that this process shares with each member of the roster, one with
 * each. Provisioned by the launcher over standard input, or from files. Secrets never go to a
 * command line, an environment or a log. Plain data after reading; any thread may read.
 *
 * A token of a pair is known to its two members alone: who shows it to one of them is the other.
 * Nobody learns a token by being shown it with which he could be a third.
 *
 * Keys are written as text in two ways. Processes of psring tell each other keys as JSON: in a
 * provision, in memory that a rank inherits, in the file by which a job's hosts meet. People and
 * other programs have them in files, which psring keygen writes: ZeroMQ certificates, as zcert_load
 * and pyzmq read them (keys_certificate.c). There are two sorts of files (docs/security.md):
 * - Two files for each process. FOLDER/ROLE-RANK.key is public. FOLDER/ROLE-RANK.key_secret, of
 *   mode 0600, holds that process's secret and everybody's public key. Who is let in is bound to
 *   its rank. A process, or a host that has only its own files, cannot be another.
 * - One shared file for all, of mode 0600. It holds everybody's secret, for launchers that start
 *   identical commands. On the wire each process has a pair of its own, as above: strangers are
 *   kept out, what is said cannot be read, and who connects to a rank has reached that rank. But
 *   who can read the file can be any process.
 * Without CURVE nothing is public: there is no FOLDER/ROLE-RANK.key, and the shared file holds one
 * token. Who has that can be any process too. */
#ifndef PSR_NET_TRUST_KEYS_H
#define PSR_NET_TRUST_KEYS_H

#include "net/message.h"

#define PSR_KEY_Z85 41     /* 40 characters and the end */
#define PSR_TOKEN_BYTES 65 /* 64 hex digits and the end */
#define PSR_KEYS_TEXT_MAX (1u << 20)
#define PSR_KEYS_SECRET "_secret" /* what a secret file's name has behind the public one's */

typedef struct psr_keys {
    bool curve;
    /* without CURVE: TCP is allowed too, where anybody on the path can read and change everything.
     * Only the user who starts the run can set it (--no-encrypt) */
    bool bare;
    /* without CURVE and without a roster: the token that all present in the handshake */
    char token[PSR_TOKEN_BYTES];
    /* this process's own; without CURVE secret_key is "" */
    char public_key[PSR_KEY_Z85], secret_key[PSR_KEY_Z85];
    struct psr_member_key {
        psr_peer peer;
        char public_key[PSR_KEY_Z85]; /* without CURVE: the token of this process and that member */
    } * members; /* the roster's members, this process included with its public_key */
    size_t member_count;
    /* set by psr_keys_load: the file is JSON, which psring keygen wrote before it wrote
     * certificates */
    bool old_file;
} psr_keys;

/* A fresh set for a run: one psr_keys for each member; index 0 is the scheduler, then shards, then
 * workers. The caller owns *ret_keys[*ret_count]: psr_keys_done for each, then free(). */
PSR_MUST_CHECK psr_err psr_keys_generate(uint32_t workers, uint32_t shards, bool curve,
                                         psr_keys **ret_keys, size_t *ret_count);

/* A token that all share: keys without CURVE and without a roster. The caller owns *ret_keys:
 * psr_keys_done. */
PSR_MUST_CHECK psr_err psr_keys_generate_token(psr_keys *ret_keys);

/* JSON text of one process's keys. The caller owns *ret_json: psr_secret_free. */
PSR_MUST_CHECK psr_err psr_keys_to_json(const psr_keys *keys, char **ret_json);
/* JSON text of all that psr_keys_generate made; without CURVE one fresh token for all. The caller
 * owns *ret_json: psr_secret_free. */
PSR_MUST_CHECK psr_err psr_keys_to_shared_json(const psr_keys *sets, char **ret_json);
/* Reads the keys of self from such JSON, or from a certificate. If the text belongs to one process,
 * self may have any rank. The bytes may be hostile: FORMAT. USAGE: the keys are another process's,
 * self is not among those who share them, or its rank is missing. The caller owns *ret_keys:
 * psr_keys_done. */
PSR_MUST_CHECK psr_err psr_keys_from_json(const char *json, size_t size, psr_peer self,
                                          psr_keys *ret_keys);
PSR_MUST_CHECK psr_err psr_keys_from_certificate(const char *text, size_t size, psr_peer self,
                                                 psr_keys *ret_keys);

/* Reads the keys of self from the secret file of one process, from a shared file, or from a folder
 * that has self's files. Like zcert_load it looks for path_secret first and then for path, so both
 * names of a process's two files lead to its secret. NOT_FOUND: there is no such file (yet: a file
 * appears complete). USAGE: other users can read it, it is a link of another user, it is public;
 * and as above. FORMAT. Each names the file. The caller owns *ret_keys: psr_keys_done. */
PSR_MUST_CHECK psr_err psr_keys_load(const char *path, psr_peer self, psr_keys *ret_keys);
/* The name of self's public file in a folder. USAGE: its rank is not said, or size is too small. */
PSR_MUST_CHECK psr_err psr_keys_path(const char *folder, psr_peer self, char *path, size_t size);
/* The text of a file that is no link and that only this user (or root) can read, as psr_keys_load
 * requires. NOT_FOUND: there is none. USAGE, FORMAT (it is too long), IO. The caller owns
 * *ret_text: psr_secret_free. */
PSR_MUST_CHECK psr_err psr_keys_read_private(const char *path, char **ret_text);
/* Writes such a file: either it is complete, or the old file is still there. IO. */
PSR_MUST_CHECK psr_err psr_keys_write_private(const char *text, const char *path);
/* The same for a file that everybody may read, as far as this process's umask allows. IO. */
PSR_MUST_CHECK psr_err psr_keys_write_public(const char *text, const char *path);
/* Writes a new private file. USAGE: path exists already; it stays unchanged. */
PSR_MUST_CHECK psr_err psr_keys_save_private(const char *text, const char *path);

/* A member's public key, or the token that is shared with it; NULL: none is known. */
const char *psr_keys_of(const psr_keys *keys, psr_peer peer);
void psr_keys_done(psr_keys *keys); /* wipes */

#endif
