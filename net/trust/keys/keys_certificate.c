/* A key file is a ZeroMQ certificate in ZPL, which zcert_load and other programs' readers take:
 *
 *   metadata                          metadata
 *       role = "worker"                   shared = "yes"
 *       rank = "0"                        members = "3"
 *       members = "3"                 members
 *   curve                                 scheduler-0
 *       public-key = "(Z85)"                  public-key = "(Z85)"
 *       secret-key = "(Z85)"                  secret-key = "(Z85)"
 *   members                               ..
 *       scheduler-0 = "(public key)"
 *       ..
 *
 * On the left is the secret file of one process. On the right is one that all share: zconfig_load
 * reads it, and it is nobody's certificate. metadata comes first.
 *
 * Without CURVE there is no section curve. A section tokens has the place of members: each value is
 * the token of that member and the file's owner, and the owner's own stands beside its own name.
 * What all share is metadata's token. Other sections and other items of metadata are left alone. */
#include "net/trust/keys/keys_private.h"

#include "net/trust/keys/zpl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum section {
    SECTION_OTHER,
    SECTION_METADATA,
    SECTION_CURVE,
    SECTION_MEMBERS,
    SECTION_TOKENS,
    SECTION_COUNT
} section;

static const char *const section_names[SECTION_COUNT] = {"", "metadata", "curve", "members",
                                                         "tokens"};

/* What was read so far. psr_zpl_text.at is NULL for what has not come. */
typedef struct certificate {
    psr_keys keys;
    section section; /* the section of the next items */
    bool seen[SECTION_COUNT];
    psr_zpl_text role, rank, count, shared, token; /* of metadata */
    psr_zpl_text public_key, secret_key;           /* of curve */
    psr_zpl_text member_public_key,
        member_secret_key; /* of the last member, in a file that all share */
    psr_peer self;
    size_t capacity; /* size of the roster, according to metadata */
} certificate;

static psr_err set(psr_zpl_text *field, const psr_zpl_item *item)
{
    if (field->at != NULL)
        return psr_fail(PSR_ERR_FORMAT, "\"%.*s\" is there twice", (int)item->name.length,
                        item->name.at);
    *field = item->value;
    return PSR_OK;
}

static psr_err read_z85(const char *name, psr_zpl_text text, char ret_key[PSR_KEY_Z85])
{
    return psr_keys_read_z85(name, text.at, text.length, ret_key);
}

/* Digits as they are written: no sign, no zeros before them, below PSR_KEYS_MEMBERS_MAX + 1. */
static bool read_count(psr_zpl_text text, uint32_t *ret_count)
{
    uint32_t count = 0;
    if (text.at == NULL || text.length < 1 || text.length > 4 ||
        (text.length > 1 && text.at[0] == '0'))
        return false;
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        count = 10 * count + (uint32_t)(text.at[i] - '0');
    }
    *ret_count = count;
    return count <= PSR_KEYS_MEMBERS_MAX;
}

static bool read_peer(psr_zpl_text role, psr_zpl_text rank, psr_peer *ret_peer)
{
    for (psr_role r = PSR_ROLE_SCHEDULER; role.at != NULL && r <= PSR_ROLE_WORKER; r++)
        if (psr_zpl_is(role, psr_role_name(r)) && read_count(rank, &ret_peer->rank)) {
            ret_peer->role = r;
            return ret_peer->rank < PSR_KEYS_MEMBERS_MAX &&
                   (r != PSR_ROLE_SCHEDULER || ret_peer->rank == 0);
        }
    return false;
}

/* "worker-0". */
static bool read_name(psr_zpl_text name, psr_peer *ret_peer)
{
    const char *dash = memchr(name.at, '-', name.length);
    if (dash == NULL)
        return false;
    const size_t role = (size_t)(dash - name.at);
    return read_peer((psr_zpl_text){name.at, role},
                     (psr_zpl_text){dash + 1, name.length - role - 1}, ret_peer);
}

/* In a shared file: the last member is complete. */
static psr_err end_member(certificate *c)
{
    psr_keys *keys = &c->keys;
    if (c->shared.at == NULL || keys->member_count == 0 || c->section != SECTION_MEMBERS)
        return PSR_OK;
    struct psr_member_key *member = &keys->members[keys->member_count - 1];
    PSR_TRY(read_z85("public-key", c->member_public_key, member->public_key));
    char secret_key[PSR_KEY_Z85]; /* required of other members too: without one the file was cut */
    PSR_TRY(read_z85("secret-key", c->member_secret_key, secret_key));
    if (psr_peer_equal(member->peer, c->self)) {
        memcpy(keys->public_key, member->public_key, PSR_KEY_Z85);
        memcpy(keys->secret_key, secret_key, PSR_KEY_Z85);
    }
    explicit_bzero(secret_key, sizeof secret_key);
    c->member_public_key = c->member_secret_key = (psr_zpl_text){NULL, 0};
    return PSR_OK;
}

static psr_err begin_section(certificate *c, psr_zpl_text name)
{
    PSR_TRY(end_member(c));
    c->section = SECTION_OTHER;
    for (section s = SECTION_METADATA; s < SECTION_COUNT; s++)
        if (psr_zpl_is(name, section_names[s]))
            c->section = s;
    if (c->section != SECTION_OTHER && c->seen[c->section])
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" is there twice", section_names[c->section]);
    c->seen[c->section] = true;
    return PSR_OK;
}

static psr_err take_metadata(certificate *c, const psr_zpl_item *item)
{
    if (psr_zpl_is(item->name, "role"))
        return set(&c->role, item);
    if (psr_zpl_is(item->name, "rank"))
        return set(&c->rank, item);
    if (psr_zpl_is(item->name, "members"))
        return set(&c->count, item);
    if (psr_zpl_is(item->name, "shared"))
        return set(&c->shared, item);
    return psr_zpl_is(item->name, "token") ? set(&c->token, item) : PSR_OK;
}

static psr_err take_pair(const psr_zpl_item *item, psr_zpl_text *public_key,
                         psr_zpl_text *secret_key)
{
    if (psr_zpl_is(item->name, "public-key"))
        return set(public_key, item);
    return psr_zpl_is(item->name, "secret-key") ? set(secret_key, item) : PSR_OK;
}

static psr_err take_member(certificate *c, const psr_zpl_item *item)
{
    psr_keys *keys = &c->keys;
    PSR_TRY(end_member(c));
    if (keys->members == NULL) {
        uint32_t count = 0;
        if (!read_count(c->count, &count))
            return psr_fail(PSR_ERR_FORMAT, "metadata lacks \"members\", or it is no count");
        PSR_TRY(psr_keys_make_roster(keys, count));
        keys->member_count = 0;
        c->capacity = count;
    }
    if (keys->member_count == c->capacity)
        return psr_fail(PSR_ERR_FORMAT, "it has more members than the %zu that metadata tells",
                        c->capacity);
    struct psr_member_key *member = &keys->members[keys->member_count];
    if (!read_name(item->name, &member->peer))
        return psr_fail(PSR_ERR_FORMAT, "\"%.*s\" should be scheduler-0, shard-N or worker-N",
                        (int)item->name.length, item->name.at);
    if (c->shared.at == NULL)
        PSR_TRY(read_z85(section_names[c->section], item->value, member->public_key));
    keys->member_count++;
    return PSR_OK;
}

static psr_err take(certificate *c, const psr_zpl_item *item)
{
    if (item->level == 0)
        return begin_section(c, item->name);
    if (item->level == 2 && c->section == SECTION_MEMBERS && c->shared.at != NULL)
        return take_pair(item, &c->member_public_key, &c->member_secret_key);
    if (item->level != 1)
        return PSR_OK;
    switch (c->section) {
    case SECTION_METADATA:
        return take_metadata(c, item);
    case SECTION_CURVE:
        return take_pair(item, &c->public_key, &c->secret_key);
    case SECTION_MEMBERS:
    case SECTION_TOKENS:
        return take_member(c, item);
    default:
        return PSR_OK;
    }
}

/* Finds a file that was cut at the end of a line. */
static psr_err check_count(const certificate *c)
{
    if (c->keys.member_count == c->capacity)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "it has %zu of the %zu members that metadata tells: the rest is missing",
                    c->keys.member_count, c->capacity);
}

/* Tokens are of a run without CURVE. */
static psr_err check_sections(const certificate *c)
{
    if (c->seen[SECTION_TOKENS] &&
        (c->seen[SECTION_CURVE] || c->seen[SECTION_MEMBERS] || c->shared.at != NULL))
        return psr_fail(PSR_ERR_FORMAT, "it has \"tokens\" beside keys");
    return PSR_OK;
}

static psr_err finish_shared(certificate *c)
{
    psr_keys *keys = &c->keys;
    size_t own;
    if (c->token.at != NULL)
        return psr_keys_read_token(c->token.at, c->token.length, keys->token);
    keys->curve = true;
    PSR_TRY(end_member(c));
    PSR_TRY(check_count(c));
    PSR_TRY(psr_keys_find_self(keys, c->self, &own));
    PSR_TRY(psr_keys_check_pair(keys, "public-key", "secret-key"));
    return psr_keys_check_roster(keys, "public-key", c->self);
}

/* The file of one process: metadata tells whose it is, and so does the roster. */
static psr_err finish_own(certificate *c)
{
    psr_keys *keys = &c->keys;
    psr_peer own;
    keys->curve = c->seen[SECTION_CURVE];
    if (!keys->curve && !c->seen[SECTION_TOKENS])
        return psr_fail(PSR_ERR_FORMAT,
                        "it has neither \"curve\" nor \"tokens\": it should be a key file as "
                        "psring keygen writes it");
    if (keys->curve) {
        PSR_TRY(read_z85("public-key", c->public_key, keys->public_key));
        if (c->secret_key.at == NULL)
            return psr_fail(PSR_ERR_FORMAT,
                            "it is a public certificate: the secret one is needed, which psring "
                            "keygen wrote beside it as ROLE-N.key_secret");
        PSR_TRY(read_z85("secret-key", c->secret_key, keys->secret_key));
        PSR_TRY(psr_keys_check_pair(keys, "public-key", "secret-key"));
    }
    if (!read_peer(c->role, c->rank, &own))
        return psr_fail(PSR_ERR_FORMAT,
                        "metadata lacks the \"role\" and \"rank\" of a scheduler, shard or "
                        "worker");
    PSR_TRY(check_count(c));
    const char *key = psr_keys_of(keys, own);
    if (key == NULL || (keys->curve && strcmp(key, keys->public_key) != 0))
        return psr_fail(PSR_ERR_FORMAT,
                        "\"members\" lacks the key of %s %" PRIu32
                        ", to which this file belongs by its "
                        "metadata",
                        psr_role_name(own.role), own.rank);
    memcpy(keys->public_key, key, PSR_KEY_Z85);
    return psr_keys_check_roster(keys, keys->curve ? "public-key" : "tokens", c->self);
}

psr_err psr_keys_from_certificate(const char *text, size_t size, psr_peer self, psr_keys *ret_keys)
{
    if (size > PSR_KEYS_TEXT_MAX)
        return psr_fail(PSR_ERR_FORMAT, "keys of %zu bytes: %u is the most", size,
                        PSR_KEYS_TEXT_MAX);
    certificate c = {.self = self};
    psr_zpl zpl = psr_zpl_begin(text, size);
    psr_zpl_item item;
    psr_err err;
    bool end = false;
    while ((err = psr_zpl_next(&zpl, &item, &end)) == PSR_OK && !end) {
        err = take(&c, &item);
        if (err != PSR_OK) {
            err = psr_fail_context(err, "line %d", zpl.line);
            break;
        }
    }
    if (err == PSR_OK)
        err = check_sections(&c);
    if (err == PSR_OK)
        err = c.shared.at != NULL ? finish_shared(&c) : finish_own(&c);
    if (err == PSR_OK)
        *ret_keys = c.keys;
    else
        psr_keys_done(&c.keys);
    explicit_bzero(&c, sizeof c);
    return err;
}
