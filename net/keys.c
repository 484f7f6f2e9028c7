#include "net/keys.h"

#include "base/secret.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define JSON_BYTES_MAX (1u << 20)
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

/* Everybody's public keys, once everybody has one. */
static psr_err hand_out_roster(psr_keys *sets, size_t count, uint32_t shards)
{
    for (size_t s = 0; s < count; s++) {
        sets[s].members = calloc(count, sizeof *sets[s].members);
        if (sets[s].members == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for the keys of %zu members", count);
        sets[s].member_count = count;
        for (size_t i = 0; i < count; i++) {
            sets[s].members[i].peer = member_at(i, shards);
            memcpy(sets[s].members[i].public_key, sets[i].public_key, PSR_KEY_Z85);
        }
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
    char token[PSR_TOKEN_BYTES] = "";
    if (!curve)
        err = random_token(token);
    for (size_t i = 0; err == PSR_OK && i < count; i++) {
        sets[i].curve = curve;
        memcpy(sets[i].token, token, sizeof token);
        if (curve)
            err = fresh_pair(&sets[i]);
    }
    if (err == PSR_OK && curve)
        err = hand_out_roster(sets, count, shards);
    explicit_bzero(token, sizeof token);
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
 *           or {"curve": false, "bare": false, "token": 64 hex digits} ---- */

static bool add_members(cJSON *json, const psr_keys *keys)
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
            cJSON_AddStringToObject(member, "key", keys->members[i].public_key) == NULL)
            return false;
    }
    return members != NULL;
}

psr_err psr_keys_to_json(const psr_keys *keys, char **ret_json)
{
    cJSON *json = cJSON_CreateObject();
    bool ok = cJSON_AddBoolToObject(json, "curve", keys->curve) != NULL;
    if (keys->curve)
        ok = ok && cJSON_AddStringToObject(json, "public", keys->public_key) != NULL &&
             cJSON_AddStringToObject(json, "secret", keys->secret_key) != NULL && add_members(json, keys);
    else
        ok = ok && cJSON_AddBoolToObject(json, "bare", keys->bare) != NULL &&
             cJSON_AddStringToObject(json, "token", keys->token) != NULL;
    char *text = ok ? psr_secret_print(json) : NULL;
    psr_secret_delete(json);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for keys as text");
    *ret_json = text;
    return PSR_OK;
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
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" should be a CURVE key of %d Z85 characters", name,
                        PSR_KEY_Z85 - 1);
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

/* Absent: TCP needs CURVE. */
static psr_err read_bare(const cJSON *json, bool *bare)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "bare");
    if (item != NULL && !cJSON_IsBool(item))
        return psr_fail(PSR_ERR_FORMAT, "\"bare\" should be true or false");
    *bare = cJSON_IsTrue(item);
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
        return psr_fail(PSR_ERR_FORMAT, "\"members\" lacks the key under \"public\"");
    qsort(keys->members, keys->member_count, sizeof *keys->members, compare_members);
    for (size_t i = 1; i < keys->member_count; i++)
        if (compare_members(&keys->members[i - 1], &keys->members[i]) == 0)
            return psr_fail(PSR_ERR_FORMAT, "\"members\" has %s %" PRIu32 " twice",
                            psr_role_name(keys->members[i].peer.role), keys->members[i].peer.rank);
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
    return check_roster(keys);
}

static psr_err read_curve(const cJSON *json, psr_keys *keys)
{
    PSR_TRY(read_z85(json, "public", keys->public_key));
    PSR_TRY(read_z85(json, "secret", keys->secret_key));
    char derived[PSR_KEY_Z85];
    if (zmq_curve_public(derived, keys->secret_key) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this libzmq was built without CURVE");
    if (strcmp(derived, keys->public_key) != 0)
        return psr_fail(PSR_ERR_FORMAT, "\"public\" is not the key that belongs to \"secret\"");
    return read_members(json, keys);
}

psr_err psr_keys_from_json(const char *text, size_t size, psr_keys *ret_keys)
{
    if (size > JSON_BYTES_MAX)
        return psr_fail(PSR_ERR_FORMAT, "keys of %zu bytes: %u is the most", size, JSON_BYTES_MAX);
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
        err = read_curve(json, &keys);
    else if ((err = read_bare(json, &keys.bare)) == PSR_OK)
        err = read_token(json, keys.token);
    psr_secret_delete(json);
    if (err == PSR_OK)
        *ret_keys = keys;
    else
        psr_keys_done(&keys);
    return err;
}

/* ---- as files ---- */

/* Refused as ssh refuses a private key: what others could have read is no secret. */
static psr_err check_private(const char *path, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return psr_fail(PSR_ERR_IO, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return psr_fail(PSR_ERR_USAGE, "key file %s is not a regular file", path);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "key file %s belongs to user %u: it should belong to the one who runs this", path,
                        (unsigned)info.st_uid);
    if ((info.st_mode & 077) != 0)
        return psr_fail(PSR_ERR_USAGE, "key file %s can be used by others (mode %04o): chmod 600 %s", path,
                        (unsigned)info.st_mode & 07777, path);
    if (info.st_size > JSON_BYTES_MAX)
        return psr_fail(PSR_ERR_FORMAT, "key file %s has %lld bytes: %u is the most", path,
                        (long long)info.st_size, JSON_BYTES_MAX);
    return PSR_OK;
}

static psr_err read_all(const char *path, int fd, char *text, size_t capacity, size_t *ret_size)
{
    size_t size = 0;
    while (size < capacity) {
        ssize_t bytes = read(fd, text + size, capacity - size);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return psr_fail(PSR_ERR_IO, "key file %s: %s", path, strerror(errno));
        if (bytes == 0)
            break;
        size += (size_t)bytes;
    }
    *ret_size = size;
    return PSR_OK;
}

psr_err psr_keys_load(const char *path, psr_keys *ret_keys)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not keep us */
    if (fd < 0)
        return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "key file %s: %s", path,
                        strerror(errno));
    char *text = NULL;
    size_t size = 0;
    psr_err err = check_private(path, fd);
    if (err == PSR_OK && (text = malloc(JSON_BYTES_MAX + 1)) == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a key file");
    if (err == PSR_OK)
        err = read_all(path, fd, text, JSON_BYTES_MAX + 1, &size);
    close(fd);
    if (err == PSR_OK) {
        err = psr_keys_from_json(text, size, ret_keys);
        if (err != PSR_OK)
            err = psr_fail_context(err, "key file %s", path);
    }
    if (text != NULL)
        explicit_bzero(text, size);
    free(text);
    return err;
}

static psr_err write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t bytes = write(fd, text, size);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return psr_fail(PSR_ERR_IO, "%s", strerror(errno));
        text += bytes;
        size -= (size_t)bytes;
    }
    return fsync(fd) == 0 ? PSR_OK : psr_fail(PSR_ERR_IO, "%s", strerror(errno));
}

psr_err psr_keys_save(const psr_keys *keys, const char *path)
{
    char *text, *part = NULL;
    PSR_TRY(psr_keys_to_json(keys, &text));
    psr_err err = PSR_OK;
    int fd = -1;
    if (asprintf(&part, "%s.XXXXXX", path) < 0) {
        part = NULL;
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a path");
        goto out;
    }
    fd = mkostemp(part, O_CLOEXEC); /* mode 0600 from the first byte on */
    if (fd < 0) {
        err = psr_fail(PSR_ERR_IO, "%s", strerror(errno));
        goto out;
    }
    err = write_all(fd, text, strlen(text));
    /* Not rename, which would replace the keys that are there. */
    if (err == PSR_OK && link(part, path) != 0)
        err = errno == EEXIST ? psr_fail(PSR_ERR_USAGE, "exists already, and keys are not replaced")
                              : psr_fail(PSR_ERR_IO, "%s", strerror(errno));
    unlink(part);
out:
    if (fd >= 0)
        close(fd);
    if (err != PSR_OK)
        err = psr_fail_context(err, "key file %s", path);
    psr_secret_free(text);
    free(part);
    return err;
}
