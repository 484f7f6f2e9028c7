#include "net/keys.h"

#include "base/secret.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#define MEMBERS_MAX 8192

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

static psr_err random_token(char token[PSR_TOKEN_BYTES])
{
    uint8_t bytes[(PSR_TOKEN_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof bytes);
    return PSR_OK;
}

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

/* A token for each pair of members, and one of each with itself, by which a set says whose it is. */
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
    if (count > MEMBERS_MAX)
        return psr_fail(PSR_ERR_USAGE, "keys for %zu members: %d is the most", count, MEMBERS_MAX);
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

/* ---- as JSON: {"curve": true, "public": Z85, "secret": Z85, "members": [{"role", "rank", "key"}, ..]}
 *           or {"curve": true, "shared": true, "members": [{"role", "rank", "key", "secret"}, ..]}
 *           or {"curve": false, "bare": false, "own": Z85, "members": [{"role", "rank", "key"}, ..]}
 *           or {"curve": false, "bare": false, "token": 64 hex digits} ---- */

/* sets: whose secrets stand beside the public keys, in the order of the roster; NULL: none do. */
static bool add_members(cJSON *json, const psr_keys *keys, const psr_keys *sets)
{
    cJSON *members = cJSON_AddArrayToObject(json, "members");
    for (size_t i = 0; members != NULL && i < keys->member_count; i++) {
        cJSON *member = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(members, member)) {
            cJSON_Delete(member);
            return false;
        }
        if (cJSON_AddStringToObject(member, "role", psr_role_name(keys->members[i].peer.role)) == NULL ||
            cJSON_AddNumberToObject(member, "rank", keys->members[i].peer.rank) == NULL ||
            cJSON_AddStringToObject(member, "key", keys->members[i].public_key) == NULL ||
            (sets != NULL && cJSON_AddStringToObject(member, "secret", sets[i].secret_key) == NULL))
            return false;
    }
    return members != NULL;
}

static bool add_tokens(cJSON *json, const psr_keys *keys)
{
    if (cJSON_AddBoolToObject(json, "bare", keys->bare) == NULL)
        return false;
    if (keys->member_count == 0)
        return cJSON_AddStringToObject(json, "token", keys->token) != NULL;
    return cJSON_AddStringToObject(json, "own", keys->public_key) != NULL && add_members(json, keys, NULL);
}

static psr_err to_json(const psr_keys *keys, const psr_keys *sets, char **ret_json)
{
    cJSON *json = cJSON_CreateObject();
    bool ok = cJSON_AddBoolToObject(json, "curve", keys->curve) != NULL;
    if (keys->curve && sets != NULL)
        ok = ok && cJSON_AddTrueToObject(json, "shared") != NULL && add_members(json, keys, sets);
    else if (keys->curve)
        ok = ok && cJSON_AddStringToObject(json, "public", keys->public_key) != NULL &&
             cJSON_AddStringToObject(json, "secret", keys->secret_key) != NULL &&
             add_members(json, keys, NULL);
    else
        ok = ok && add_tokens(json, keys);
    char *text = ok ? psr_secret_print(json) : NULL;
    psr_secret_delete(json);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for keys as text");
    *ret_json = text;
    return PSR_OK;
}

psr_err psr_keys_to_json(const psr_keys *keys, char **ret_json)
{
    return to_json(keys, NULL, ret_json);
}

psr_err psr_keys_to_shared_json(const psr_keys *sets, char **ret_json)
{
    if (sets[0].curve)
        return to_json(&sets[0], sets, ret_json);
    psr_keys one = {.bare = sets[0].bare};
    PSR_TRY(random_token(one.token));
    psr_err err = to_json(&one, NULL, ret_json);
    psr_keys_done(&one);
    return err;
}

static psr_err read_z85(const cJSON *object, const char *name, char key[PSR_KEY_Z85])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    uint8_t bytes[32];
    bool ok = text != NULL && strlen(text) == PSR_KEY_Z85 - 1 && zmq_z85_decode(bytes, text) != NULL;
    /* What does not come back the same is not Z85, though libzmq may have decoded it. */
    char back[PSR_KEY_Z85];
    ok = ok && zmq_z85_encode(back, bytes, sizeof bytes) != NULL && strcmp(back, text) == 0;
    explicit_bzero(bytes, sizeof bytes);
    if (!ok)
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" should be a key of %d Z85 characters", name, PSR_KEY_Z85 - 1);
    memcpy(key, text, PSR_KEY_Z85);
    return PSR_OK;
}

static psr_err read_token(const cJSON *json, char token[PSR_TOKEN_BYTES])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "token"));
    if (text == NULL || strlen(text) != PSR_TOKEN_BYTES - 1 || text[strspn(text, "0123456789abcdef")] != '\0')
        return psr_fail(PSR_ERR_FORMAT, "\"token\" should be %d hexadecimal digits", PSR_TOKEN_BYTES - 1);
    memcpy(token, text, PSR_TOKEN_BYTES);
    return PSR_OK;
}

/* Absent: false. */
static psr_err read_flag(const cJSON *json, const char *name, bool *ret_flag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    if (item != NULL && !cJSON_IsBool(item))
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" should be true or false", name);
    *ret_flag = cJSON_IsTrue(item);
    return PSR_OK;
}

static psr_err read_peer(const cJSON *object, psr_peer *ret_peer)
{
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "role"));
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(object, "rank");
    for (psr_role r = PSR_ROLE_SCHEDULER; role != NULL && r <= PSR_ROLE_WORKER; r++)
        if (strcmp(role, psr_role_name(r)) == 0) {
            if (!cJSON_IsNumber(rank) || !(rank->valuedouble >= 0 && rank->valuedouble < MEMBERS_MAX) ||
                rank->valuedouble != floor(rank->valuedouble) ||
                (r == PSR_ROLE_SCHEDULER && rank->valuedouble != 0))
                return psr_fail(PSR_ERR_FORMAT, "\"rank\" of a %s is not one", role);
            *ret_peer = (psr_peer){r, (uint32_t)rank->valuedouble};
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_FORMAT, "\"role\" should be scheduler, shard or worker");
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

/* A key lets in one member, and a member has one key: otherwise nobody could tell who is who. Leaves
 * the roster in the order of role and rank. */
static psr_err check_roster(psr_keys *keys)
{
    qsort(keys->members, keys->member_count, sizeof *keys->members, compare_keys);
    for (size_t i = 1; i < keys->member_count; i++)
        if (compare_keys(&keys->members[i - 1], &keys->members[i]) == 0)
            return psr_fail(PSR_ERR_FORMAT, "\"members\" has one key twice");
    bool own = false;
    for (size_t i = 0; i < keys->member_count; i++)
        own = own || strcmp(keys->members[i].public_key, keys->public_key) == 0;
    if (!own)
        return psr_fail(PSR_ERR_FORMAT, "\"members\" lacks the key under \"%s\"",
                        keys->curve ? "public" : "own");
    qsort(keys->members, keys->member_count, sizeof *keys->members, compare_members);
    for (size_t i = 1; i < keys->member_count; i++)
        if (compare_members(&keys->members[i - 1], &keys->members[i]) == 0)
            return psr_fail(PSR_ERR_FORMAT, "\"members\" has %s %" PRIu32 " twice",
                            psr_role_name(keys->members[i].peer.role), keys->members[i].peer.rank);
    return PSR_OK;
}

/* The own pair, under public_name and "secret". */
static psr_err read_pair(const cJSON *object, const char *public_name, psr_keys *keys)
{
    PSR_TRY(read_z85(object, public_name, keys->public_key));
    PSR_TRY(read_z85(object, "secret", keys->secret_key));
    char derived[PSR_KEY_Z85];
    if (zmq_curve_public(derived, keys->secret_key) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this libzmq was built without CURVE");
    if (strcmp(derived, keys->public_key) != 0)
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" is not the key that belongs to \"secret\"", public_name);
    return PSR_OK;
}

static psr_err read_members(const cJSON *json, psr_keys *keys)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "members"), *item;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || count > MEMBERS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "\"members\" should be a list of 1 to %d members", MEMBERS_MAX);
    keys->members = calloc((size_t)count, sizeof *keys->members);
    if (keys->members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the keys of %d members", count);
    cJSON_ArrayForEach(item, list)
    {
        struct psr_member_key *member = &keys->members[keys->member_count];
        PSR_TRY(read_peer(item, &member->peer));
        PSR_TRY(read_z85(item, "key", member->public_key));
        keys->member_count++;
    }
    return PSR_OK;
}

/* Of keys that all share: self's own are beside its name in the roster. */
static psr_err read_own_of_shared(const cJSON *json, psr_peer self, psr_keys *keys)
{
    if (self.rank == PSR_RANK_ANY)
        return psr_fail(PSR_ERR_USAGE,
                        "it holds the keys of all: which rank this %s is must be said: give --rank N",
                        psr_role_name(self.role));
    for (size_t i = 0; i < keys->member_count; i++)
        if (psr_peer_equal(keys->members[i].peer, self))
            return read_pair(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "members"), (int)i),
                             "key", keys);
    return psr_fail(PSR_ERR_USAGE, "it has no key for %s %" PRIu32 ": make keys for more (psring keygen)",
                    psr_role_name(self.role), self.rank);
}

/* Whose the own key is, the roster says: self's, or any of its role. */
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
                    "it is of %s %" PRIu32 ", and this is %s%s: name its own, or the folder that psring "
                    "keygen wrote",
                    psr_role_name(own.role), own.rank, psr_role_name(self.role), name);
}

static psr_err read_curve(const cJSON *json, psr_peer self, psr_keys *keys)
{
    bool shared = false;
    PSR_TRY(read_flag(json, "shared", &shared));
    if (!shared)
        PSR_TRY(read_pair(json, "public", keys));
    PSR_TRY(read_members(json, keys));
    if (shared)
        PSR_TRY(read_own_of_shared(json, self, keys)); /* before check_roster, which puts members in order */
    PSR_TRY(check_roster(keys));
    return check_self(keys, self);
}

static psr_err read_tokens(const cJSON *json, psr_peer self, psr_keys *keys)
{
    PSR_TRY(read_flag(json, "bare", &keys->bare));
    if (cJSON_GetObjectItemCaseSensitive(json, "own") == NULL)
        return read_token(json, keys->token);
    PSR_TRY(read_z85(json, "own", keys->public_key));
    PSR_TRY(read_members(json, keys));
    PSR_TRY(check_roster(keys));
    return check_self(keys, self);
}

psr_err psr_keys_from_json(const char *text, size_t size, psr_peer self, psr_keys *ret_keys)
{
    if (size > PSR_KEYS_JSON_MAX)
        return psr_fail(PSR_ERR_FORMAT, "keys of %zu bytes: %u is the most", size, PSR_KEYS_JSON_MAX);
    cJSON *json = cJSON_ParseWithLength(text, size);
    if (!cJSON_IsObject(json)) {
        cJSON_Delete(json);
        return psr_fail(PSR_ERR_FORMAT, "keys should be a JSON object, as psring keygen writes it");
    }
    psr_keys keys = {0};
    const cJSON *curve = cJSON_GetObjectItemCaseSensitive(json, "curve");
    psr_err err;
    if (!cJSON_IsBool(curve))
        err = psr_fail(PSR_ERR_FORMAT, "\"curve\" should be true or false");
    else if ((keys.curve = cJSON_IsTrue(curve)))
        err = read_curve(json, self, &keys);
    else
        err = read_tokens(json, self, &keys);
    psr_secret_delete(json);
    if (err == PSR_OK)
        *ret_keys = keys;
    else
        psr_keys_done(&keys);
    return err;
}
