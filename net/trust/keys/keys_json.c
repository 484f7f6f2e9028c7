#include "net/trust/keys/keys_private.h"

#include "base/text/secret.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* {"curve": true, "public": Z85, "secret": Z85, "members": [{"role", "rank", "key"},
 *           ..]} or {"curve": true, "shared": true, "members": [{"role", "rank", "key", "secret"},
 *           ..]} or {"curve": false, "bare": false, "own": Z85, "members": [{"role", "rank",
 *           "key"}, ..]} or {"curve": false, "bare": false, "token": 64 hex digits} */

/* sets: the members' secrets, which are written with the public keys, in the order of the roster;
 * NULL: none. */
static bool add_members(cJSON *json, const psr_keys *keys, const psr_keys *sets)
{
    cJSON *members = cJSON_AddArrayToObject(json, "members");
    for (size_t i = 0; members != NULL && i < keys->member_count; i++) {
        cJSON *member = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(members, member)) {
            cJSON_Delete(member);
            return false;
        }
        if (cJSON_AddStringToObject(member, "role", psr_role_name(keys->members[i].peer.role)) ==
                NULL ||
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
    return cJSON_AddStringToObject(json, "own", keys->public_key) != NULL &&
           add_members(json, keys, NULL);
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
    psr_keys one;
    PSR_TRY(psr_keys_generate_token(&one));
    one.bare = sets[0].bare;
    psr_err err = to_json(&one, NULL, ret_json);
    psr_keys_done(&one);
    return err;
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
            if (!cJSON_IsNumber(rank) ||
                !(rank->valuedouble >= 0 && rank->valuedouble < PSR_KEYS_MEMBERS_MAX) ||
                rank->valuedouble != floor(rank->valuedouble) ||
                (r == PSR_ROLE_SCHEDULER && rank->valuedouble != 0))
                return psr_fail(PSR_ERR_FORMAT, "\"rank\" of a %s is not one", role);
            *ret_peer = (psr_peer){r, (uint32_t)rank->valuedouble};
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_FORMAT, "\"role\" should be scheduler, shard or worker");
}

static psr_err read_z85(const cJSON *object, const char *name, char ret_key[PSR_KEY_Z85])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return psr_keys_read_z85(name, text, text != NULL ? strlen(text) : 0, ret_key);
}

/* The own pair, under public_name and "secret". */
static psr_err read_pair(const cJSON *object, const char *public_name, psr_keys *keys)
{
    PSR_TRY(read_z85(object, public_name, keys->public_key));
    PSR_TRY(read_z85(object, "secret", keys->secret_key));
    return psr_keys_check_pair(keys, public_name, "secret");
}

static psr_err read_members(const cJSON *json, psr_keys *keys)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "members"), *item;
    PSR_TRY(psr_keys_make_roster(keys, cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0));
    cJSON_ArrayForEach(item, list)
    {
        struct psr_member_key *member = &keys->members[keys->member_count];
        PSR_TRY(read_peer(item, &member->peer));
        PSR_TRY(read_z85(item, "key", member->public_key));
        keys->member_count++;
    }
    return PSR_OK;
}

static psr_err read_curve(const cJSON *json, psr_peer self, psr_keys *keys)
{
    bool shared = false;
    size_t own = 0;
    PSR_TRY(read_flag(json, "shared", &shared));
    if (!shared)
        PSR_TRY(read_pair(json, "public", keys));
    PSR_TRY(read_members(json, keys));
    if (shared) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "members");
        PSR_TRY(psr_keys_find_self(keys, self, &own));
        PSR_TRY(read_pair(cJSON_GetArrayItem(list, (int)own), "key", keys));
    }
    return psr_keys_check_roster(keys, "public", self);
}

static psr_err read_tokens(const cJSON *json, psr_peer self, psr_keys *keys)
{
    PSR_TRY(read_flag(json, "bare", &keys->bare));
    if (cJSON_GetObjectItemCaseSensitive(json, "own") == NULL) {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "token"));
        return psr_keys_read_token(text, text != NULL ? strlen(text) : 0, keys->token);
    }
    PSR_TRY(read_z85(json, "own", keys->public_key));
    PSR_TRY(read_members(json, keys));
    return psr_keys_check_roster(keys, "own", self);
}

psr_err psr_keys_from_json(const char *text, size_t size, psr_peer self, psr_keys *ret_keys)
{
    if (size > PSR_KEYS_TEXT_MAX)
        return psr_fail(PSR_ERR_FORMAT, "keys of %zu bytes: %u is the most", size,
                        PSR_KEYS_TEXT_MAX);
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
