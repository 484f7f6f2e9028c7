#include "net/trust/keys/keys_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

const char *psr_keys_of(const psr_keys *keys, psr_peer peer)
{
    for (size_t i = 0; i < keys->member_count; i++)
        if (psr_peer_equal(keys->members[i].peer, peer))
            return keys->members[i].public_key;
    return NULL;
}

void psr_keys_done(psr_keys *keys)
{
    if (keys->members != NULL)
        explicit_bzero(keys->members, keys->member_count * sizeof *keys->members);
    free(keys->members);
    explicit_bzero(keys, sizeof *keys);
}

/* ---- making them ---- */

static psr_err fresh_pair(psr_keys *keys)
{
    return zmq_curve_keypair(keys->public_key, keys->secret_key) == 0
               ? PSR_OK
               : psr_fail(PSR_ERR_UNSUPPORTED, "this libzmq was built without CURVE");
}

/* The i-th member: the scheduler, then shards, then workers. */
static psr_peer member_at(size_t i, uint32_t shards)
{
    if (i == 0)
        return (psr_peer){PSR_ROLE_SCHEDULER, 0};
    if (i <= shards)
        return (psr_peer){PSR_ROLE_SHARD, (uint32_t)i - 1};
    return (psr_peer){PSR_ROLE_WORKER, (uint32_t)(i - 1 - shards)};
}

/* 32 random bytes, written as a CURVE key is. */
static psr_err fresh_token(char token[PSR_KEY_Z85])
{
    uint8_t bytes[32];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    zmq_z85_encode(token, bytes, sizeof bytes);
    explicit_bzero(bytes, sizeof bytes);
    return PSR_OK;
}

/* A token for each pair of members, and one for each member with itself, by which a set says whose
 * it is. */
static psr_err hand_out_tokens(psr_keys *sets, size_t count)
{
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a; b < count; b++) {
            PSR_TRY(fresh_token(sets[a].members[b].public_key));
            memcpy(sets[b].members[a].public_key, sets[a].members[b].public_key, PSR_KEY_Z85);
        }
        memcpy(sets[a].public_key, sets[a].members[a].public_key, PSR_KEY_Z85);
    }
    return PSR_OK;
}

static void hand_out_public_keys(psr_keys *sets, size_t count)
{
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < count; i++)
            memcpy(sets[s].members[i].public_key, sets[i].public_key, PSR_KEY_Z85);
}

static psr_err make_rosters(psr_keys *sets, size_t count, uint32_t shards)
{
    for (size_t s = 0; s < count; s++) {
        sets[s].members = calloc(count, sizeof *sets[s].members);
        if (sets[s].members == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for the keys of %zu members", count);
        sets[s].member_count = count;
        for (size_t i = 0; i < count; i++)
            sets[s].members[i].peer = member_at(i, shards);
    }
    return PSR_OK;
}

psr_err psr_keys_generate(uint32_t workers, uint32_t shards, bool curve, psr_keys **ret_keys,
                          size_t *ret_count)
{
    size_t count = (size_t)1 + shards + workers;
    if (count > PSR_KEYS_MEMBERS_MAX)
        return psr_fail(PSR_ERR_USAGE, "keys for %zu members: %d is the most", count,
                        PSR_KEYS_MEMBERS_MAX);
    psr_keys *sets = calloc(count, sizeof *sets);
    if (sets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the keys of %zu members", count);
    psr_err err = PSR_OK;
    for (size_t i = 0; err == PSR_OK && i < count; i++) {
        sets[i].curve = curve;
        if (curve)
            err = fresh_pair(&sets[i]);
    }
    if (err == PSR_OK)
        err = make_rosters(sets, count, shards);
    if (err == PSR_OK && curve)
        hand_out_public_keys(sets, count);
    else if (err == PSR_OK)
        err = hand_out_tokens(sets, count);
    if (err != PSR_OK) {
        for (size_t i = 0; i < count; i++)
            psr_keys_done(&sets[i]);
        free(sets);
        return err;
    }
    *ret_keys = sets;
    *ret_count = count;
    return PSR_OK;
}

psr_err psr_keys_generate_token(psr_keys *ret_keys)
{
    uint8_t bytes[(PSR_TOKEN_BYTES - 1) / 2];
    psr_keys keys = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(keys.token + 2 * i, 3, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof bytes);
    *ret_keys = keys;
    psr_keys_done(&keys);
    return PSR_OK;
}
