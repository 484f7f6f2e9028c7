#include "net/trust/keys/certificate.h"

#include <czmq.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 32

static void name_of(psr_peer peer, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s-%" PRIu32, psr_role_name(peer.role), peer.rank);
}

static void put(zconfig_t *section, const char *name, const char *value)
{
    zconfig_set_value(zconfig_new(name, section), "%s", value);
}

static void put_count(zconfig_t *section, const char *name, size_t count)
{
    zconfig_set_value(zconfig_new(name, section), "%zu", count);
}

/* The member whose keys these are: the one whose public key in the roster is the own key. */
static psr_peer owner_of(const psr_keys *keys)
{
    for (size_t i = 0; i < keys->member_count; i++)
        if (strcmp(keys->members[i].public_key, keys->public_key) == 0)
            return keys->members[i].peer;
    return (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY};
}

/* The caller owns *ret_metadata. It has the comments and what every file tells of its owner. */
static zconfig_t *begin(psr_peer owner, const char *first_line, const char *second_line,
                        zconfig_t **ret_metadata)
{
    zconfig_t *root = zconfig_new("root", NULL);
    zconfig_set_comment(root, "   %s", first_line);
    zconfig_set_comment(root, "   %s", second_line);
    *ret_metadata = zconfig_new("metadata", root);
    put(*ret_metadata, "role", psr_role_name(owner.role));
    put_count(*ret_metadata, "rank", owner.rank);
    return root;
}

static int wipe(zconfig_t *item, void *context, int level)
{
    (void)context;
    (void)level;
    if (zconfig_value(item) != NULL)
        explicit_bzero(zconfig_value(item), strlen(zconfig_value(item)));
    return 0;
}

/* Consumes root. */
static psr_err end(zconfig_t *root, char **ret_text)
{
    char *text = zconfig_str_save(root);
    zconfig_execute(root, wipe, NULL);
    zconfig_destroy(&root);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a certificate");
    *ret_text = text;
    return PSR_OK;
}

psr_err psr_certificate_secret(const psr_keys *keys, char **ret_text)
{
    zconfig_t *metadata;
    zconfig_t *root =
        begin(owner_of(keys),
              keys->curve ? "ZeroMQ CURVE **Secret** Certificate of a process of a psring run"
                          : "**Secret** tokens of a process of a psring run",
              "DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.", &metadata);
    put_count(metadata, "members", keys->member_count);
    if (keys->curve) {
        zconfig_t *curve = zconfig_new("curve", root);
        put(curve, "public-key", keys->public_key);
        put(curve, "secret-key", keys->secret_key);
    }
    zconfig_t *members = zconfig_new(keys->curve ? "members" : "tokens", root);
    for (size_t i = 0; i < keys->member_count; i++) {
        char name[NAME_BYTES];
        name_of(keys->members[i].peer, name);
        put(members, name, keys->members[i].public_key);
    }
    return end(root, ret_text);
}

psr_err psr_certificate_public(const psr_keys *keys, char **ret_text)
{
    zconfig_t *metadata;
    zconfig_t *root =
        begin(owner_of(keys), "ZeroMQ CURVE Public Certificate of a process of a psring run",
              "Who has it knows the process that has the secret one, and cannot be it.", &metadata);
    put(zconfig_new("curve", root), "public-key", keys->public_key);
    return end(root, ret_text);
}

psr_err psr_certificate_shared(const psr_keys *sets, char **ret_text)
{
    zconfig_t *root = zconfig_new("root", NULL), *metadata;
    zconfig_set_comment(root, "   **Secret** keys of all processes of a psring run: who can read "
                              "them can be any of them");
    zconfig_set_comment(root,
                        "   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.");
    metadata = zconfig_new("metadata", root);
    put(metadata, "shared", "yes");
    if (!sets[0].curve)
        put(metadata, "token", sets[0].token);
    else
        put_count(metadata, "members", sets[0].member_count);
    zconfig_t *members = sets[0].curve ? zconfig_new("members", root) : NULL;
    for (size_t i = 0; members != NULL && i < sets[0].member_count; i++) {
        char name[NAME_BYTES];
        name_of(sets[0].members[i].peer, name);
        zconfig_t *member = zconfig_new(name, members);
        put(member, "public-key", sets[i].public_key);
        put(member, "secret-key", sets[i].secret_key);
    }
    return end(root, ret_text);
}
