/* What both texts of keys have in common: JSON (keys_json.c) and certificates (keys_certificate.c).
 * The names that are passed are those of the text's fields, for errors. */
#ifndef PSR_NET_TRUST_KEYS_PRIVATE_H
#define PSR_NET_TRUST_KEYS_PRIVATE_H

#include "net/trust/keys/keys.h"

#define PSR_KEYS_MEMBERS_MAX 8192

/* Reads a key or a pair's token of 40 Z85 characters. text is NULL if the field is missing.
 * FORMAT. */
PSR_MUST_CHECK psr_err psr_keys_read_z85(const char *name, const char *text, size_t length,
                                         char ret_key[PSR_KEY_Z85]);
/* Reads the token that all share: 64 hexadecimal digits. FORMAT. */
PSR_MUST_CHECK psr_err psr_keys_read_token(const char *text, size_t length,
                                           char ret_token[PSR_TOKEN_BYTES]);

/* Makes an empty roster with room for count members. FORMAT: count is 0 or too large; NOMEM. */
PSR_MUST_CHECK psr_err psr_keys_make_roster(psr_keys *keys, size_t count);

/* Checks that the two keys of this process's own pair belong together. FORMAT. */
PSR_MUST_CHECK psr_err psr_keys_check_pair(const psr_keys *keys, const char *public_name,
                                           const char *secret_name);

/* In keys that all share: the place of self in the roster. USAGE: its rank is missing, or it is not
 * there. */
PSR_MUST_CHECK psr_err psr_keys_find_self(const psr_keys *keys, psr_peer self, size_t *ret_index);

/* Checks that each member is there once, with a key of its own, and that the own key (the field
 * own_name) is self's. Sorts the roster by role and rank. FORMAT; USAGE: the own key is another
 * member's. */
PSR_MUST_CHECK psr_err psr_keys_check_roster(psr_keys *keys, const char *own_name, psr_peer self);

#endif
