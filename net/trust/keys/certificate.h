/* Writes keys as ZeroMQ certificates (ZPL) by czmq: other ZeroMQ programs read them, and so does
 * psr_keys_load (net/trust/keys/keys.h). czmq does not wipe memory that it has used, so a process
 * that calls this should end soon after. One thread. */
#ifndef PSR_NET_TRUST_CERTIFICATE_H
#define PSR_NET_TRUST_CERTIFICATE_H

#include "net/trust/keys/keys.h"

/* The secret file of a process, which holds its secret and everybody's public key, or its tokens.
 * The caller owns *ret_text: psr_secret_free. */
PSR_MUST_CHECK psr_err psr_certificate_secret(const psr_keys *keys, char **ret_text);

/* The public file beside it. keys: with CURVE. The caller owns *ret_text: free. */
PSR_MUST_CHECK psr_err psr_certificate_public(const psr_keys *keys, char **ret_text);

/* The file that all share. sets: of all members, in the order of the roster, with CURVE; or one set
 * without a roster, whose token all share. The caller owns *ret_text: psr_secret_free. */
PSR_MUST_CHECK psr_err psr_certificate_shared(const psr_keys *sets, char **ret_text);

#endif
