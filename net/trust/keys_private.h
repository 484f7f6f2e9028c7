/* What both texts of keys are made of and checked by: JSON (keys_json.c) and certificates
 * (keys_certificate.c). The names that they are given are those of the text's fields, for
 * errors. */
#ifndef PSR_NET_TRUST_KEYS_PRIVATE_H
#define PSR_NET_TRUST_KEYS_PRIVATE_H

#include "net/trust/keys.h"

#define PSR_KEYS_MEMBERS_MAX 8192

/* A key or a pair's token of 40 Z85 characters. text is NULL where the field is missing. FORMAT. */
PSR_MUST_CHECK psr_err psr_keys_read_z85(const char *name, const char *text, size_t length,
                                         char ret_key[PSR_KEY_Z85]);
/* The token that all share: 64 hexadecimal digits. Likewise. */
PSR_MUST_CHECK psr_err psr_keys_read_token(const char *text, size_t length,
                                           char ret_token[PSR_TOKEN_BYTES]);

/* An empty roster with room for count members. FORMAT: count is 0 or more than can be; NOMEM. */
PSR_MUST_CHECK psr_err psr_keys_make_roster(psr_keys *keys, size_t count);

/* The own pair belongs together. FORMAT. */
PSR_MUST_CHECK psr_err psr_keys_check_pair(const psr_keys *keys, const char *public_name,
                                           const char *secret_name);

/* Of keys that all share: where self is in the roster. USAGE: its rank is not said, or it is not
 * there. */
PSR_MUST_CHECK psr_err psr_keys_find_self(const psr_keys *keys, psr_peer self, size_t *ret_index);

/* Each member is there once, with a key of its own, and the own key (the field own_name) is self's.
 * Leaves the roster in the order of role and rank. FORMAT; USAGE: the own key is another's. */
PSR_MUST_CHECK psr_err psr_keys_check_roster(psr_keys *keys, const char *own_name, psr_peer self);

#endif
