#include "net/trust/keys/keys_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

psr_err psr_keys_read_z85(const char *name, const char *text, size_t length,
                          char ret_key[PSR_KEY_Z85])
{
    uint8_t bytes[32];
    char key[PSR_KEY_Z85] = "", back[PSR_KEY_Z85] = "";
    bool ok = text != NULL && length == PSR_KEY_Z85 - 1;
    if (ok)
        memcpy(key, text, length);
    /* Text that does not encode back to the same is no Z85, even if libzmq has decoded it. */
    ok = ok && zmq_z85_decode(bytes, key) != NULL &&
         zmq_z85_encode(back, bytes, sizeof bytes) != NULL && strcmp(back, key) == 0;
    if (ok)
        memcpy(ret_key, key, PSR_KEY_Z85);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(key, sizeof key);
    explicit_bzero(back, sizeof back);
    return ok ? PSR_OK
              : psr_fail(PSR_ERR_FORMAT, "\"%s\" should be a key of %d Z85 characters", name,
                         PSR_KEY_Z85 - 1);
}

psr_err psr_keys_read_token(const char *text, size_t length, char ret_token[PSR_TOKEN_BYTES])
{
    bool ok = text != NULL && length == PSR_TOKEN_BYTES - 1;
    for (size_t i = 0; ok && i < length; i++)
        ok = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (!ok)
        return psr_fail(PSR_ERR_FORMAT, "\"token\" should be %d hexadecimal digits",
                        PSR_TOKEN_BYTES - 1);
    memcpy(ret_token, text, length);
    ret_token[length] = '\0';
    return PSR_OK;
}

psr_err psr_keys_make_roster(psr_keys *keys, size_t count)
{
    if (count < 1 || count > PSR_KEYS_MEMBERS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "\"members\" should be a list of 1 to %d members",
                        PSR_KEYS_MEMBERS_MAX);
    keys->members = calloc(count, sizeof *keys->members);
    return keys->members != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for the keys of %zu members", count);
}

psr_err psr_keys_check_pair(const psr_keys *keys, const char *public_name, const char *secret_name)
{
    char derived[PSR_KEY_Z85];
    if (zmq_curve_public(derived, keys->secret_key) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this libzmq was built without CURVE");
    if (strcmp(derived, keys->public_key) != 0)
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" is not the key that belongs to \"%s\"", public_name,
                        secret_name);
    return PSR_OK;
}

psr_err psr_keys_find_self(const psr_keys *keys, psr_peer self, size_t *ret_index)
{
    if (self.rank == PSR_RANK_ANY)
        return psr_fail(
            PSR_ERR_USAGE,
            "it holds the keys of all: which rank this %s is must be said: give --rank N",
            psr_role_name(self.role));
    for (size_t i = 0; i < keys->member_count; i++)
        if (psr_peer_equal(keys->members[i].peer, self)) {
            *ret_index = i;
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_USAGE,
                    "it has no key for %s %" PRIu32 ": make keys for more (psring keygen)",
                    psr_role_name(self.role), self.rank);
}

static int compare_members(const void *a, const void *b)
{
    const struct psr_member_key *x = a, *y = b;
    if (x->peer.role != y->peer.role)
        return x->peer.role < y->peer.role ? -1 : 1;
    return x->peer.rank < y->peer.rank ? -1 : x->peer.rank > y->peer.rank;
}

static int compare_keys(const void *a, const void *b)
{
    const struct psr_member_key *x = a, *y = b;
    return strcmp(x->public_key, y->public_key);
}

/* A key belongs to one member and a member has one key, since otherwise nobody could tell members
 * apart. */
static psr_err check_members(psr_keys *keys, const char *own_name)
{
    qsort(keys->members, keys->member_count, sizeof *keys->members, compare_keys);
    for (size_t i = 1; i < keys->member_count; i++)
        if (compare_keys(&keys->members[i - 1], &keys->members[i]) == 0)
            return psr_fail(PSR_ERR_FORMAT, "\"members\" has one key twice");
    bool own = false;
    for (size_t i = 0; i < keys->member_count; i++)
        own = own || strcmp(keys->members[i].public_key, keys->public_key) == 0;
    if (!own)
        return psr_fail(PSR_ERR_FORMAT, "\"members\" lacks the key under \"%s\"", own_name);
    qsort(keys->members, keys->member_count, sizeof *keys->members, compare_members);
    for (size_t i = 1; i < keys->member_count; i++)
        if (compare_members(&keys->members[i - 1], &keys->members[i]) == 0)
            return psr_fail(PSR_ERR_FORMAT, "\"members\" has %s %" PRIu32 " twice",
                            psr_role_name(keys->members[i].peer.role), keys->members[i].peer.rank);
    return PSR_OK;
}

/* Whose own key it is, by the roster: self's, or that of any rank of its role. */
static psr_err check_self(const psr_keys *keys, psr_peer self)
{
    psr_peer own = self;
    for (size_t i = 0; i < keys->member_count; i++)
        if (strcmp(keys->members[i].public_key, keys->public_key) == 0)
            own = keys->members[i].peer;
    if (own.role == self.role && (own.rank == self.rank || self.rank == PSR_RANK_ANY))
        return PSR_OK;
    char name[32] = "";
    if (self.rank != PSR_RANK_ANY)
        snprintf(name, sizeof name, " %" PRIu32, self.rank);
    return psr_fail(PSR_ERR_USAGE,
                    "it is of %s %" PRIu32
                    ", and this is %s%s: name its own, or the folder that psring "
                    "keygen wrote",
                    psr_role_name(own.role), own.rank, psr_role_name(self.role), name);
}

psr_err psr_keys_check_roster(psr_keys *keys, const char *own_name, psr_peer self)
{
    PSR_TRY(check_members(keys, own_name));
    return check_self(keys, self);
}
