#include "comm/members/provision.h"

#include "base/log.h"
#include "base/text/secret.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some hundred bytes for each key; a roster has at most some thousand. */
#define LINE_BYTES_MAX (1u << 20)

/* ---- writing ---- */

static cJSON *provision_object(const psr_provision *provision, const char *keys)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *key_object = cJSON_Parse(keys);
    if (object != NULL && key_object != NULL &&
        cJSON_AddStringToObject(object, "role", psr_role_name(provision->self.role)) != NULL &&
        (provision->self.rank == PSR_RANK_ANY ||
         cJSON_AddNumberToObject(object, "rank", provision->self.rank) != NULL) &&
        cJSON_AddStringToObject(object, "host", provision->host) != NULL &&
        cJSON_AddStringToObject(object, "scheduler", provision->scheduler) != NULL &&
        cJSON_AddStringToObject(object, "directory", provision->directory) != NULL &&
        cJSON_AddStringToObject(object, "sharing", provision->sharing) != NULL &&
        cJSON_AddStringToObject(object, "interface", provision->interface) != NULL &&
        cJSON_AddNumberToObject(object, "port", provision->port) != NULL &&
        cJSON_AddNumberToObject(object, "patience_ms", provision->patience_ms) != NULL &&
        cJSON_AddItemToObject(object, "keys", key_object))
        return object;
    psr_secret_delete(object);
    psr_secret_delete(key_object);
    return NULL;
}

psr_err psr_provision_to_json(const psr_provision *provision, char **ret_json)
{
    char *keys = NULL;
    PSR_TRY(psr_keys_to_json(&provision->keys, &keys));
    cJSON *object = provision_object(provision, keys);
    psr_secret_free(keys);
    char *json = object != NULL ? psr_secret_print(object) : NULL;
    psr_secret_delete(object);
    if (json == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    *ret_json = json;
    return PSR_OK;
}

/* ---- reading ---- */

/* A key, or a token of a pair of ranks, belongs to one rank: then somebody who starts a member by
 * hand need not give the rank. */
static void rank_by_key(psr_provision *provision)
{
    const psr_keys *keys = &provision->keys;
    if (provision->self.rank != PSR_RANK_ANY)
        return;
    for (size_t i = 0; i < keys->member_count; i++)
        if (keys->members[i].peer.role == provision->self.role &&
            strcmp(keys->members[i].public_key, keys->public_key) == 0)
            provision->self.rank = keys->members[i].peer.rank;
}

static psr_err read_text(const cJSON *object, const char *name, char *to, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (item == NULL)
        return PSR_OK;
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= size)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no text of at most %zu bytes", name,
                        size - 1);
    strcpy(to, item->valuestring);
    return PSR_OK;
}

static psr_err read_count(const cJSON *object, const char *name, uint32_t max, uint32_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (item == NULL)
        return PSR_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= max))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no number from 0 to %u", name, max);
    *value = (uint32_t)item->valuedouble;
    return PSR_OK;
}

static psr_err read_object(const cJSON *object, psr_provision *provision)
{
    char role[16] = "";
    uint32_t port = 0;
    provision->self.rank = PSR_RANK_ANY;
    PSR_TRY(read_text(object, "role", role, sizeof role));
    if (!psr_role_parse(role, &provision->self.role))
        return psr_fail(PSR_ERR_FORMAT, "field \"role\" is \"%s\", not scheduler, shard or worker",
                        role);
    PSR_TRY(read_count(object, "rank", PSR_RANK_ANY - 1, &provision->self.rank));
    PSR_TRY(read_text(object, "host", provision->host, sizeof provision->host));
    PSR_TRY(read_text(object, "scheduler", provision->scheduler, sizeof provision->scheduler));
    PSR_TRY(read_text(object, "directory", provision->directory, sizeof provision->directory));
    PSR_TRY(read_text(object, "sharing", provision->sharing, sizeof provision->sharing));
    PSR_TRY(read_text(object, "interface", provision->interface, sizeof provision->interface));
    PSR_TRY(read_count(object, "port", UINT16_MAX, &port));
    provision->port = (uint16_t)port;
    PSR_TRY(read_count(object, "patience_ms", INT32_MAX, &provision->patience_ms));

    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(object, "keys");
    char *text = keys != NULL ? psr_secret_print(keys) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_FORMAT, "field \"keys\" is missing");
    psr_err err = psr_keys_from_json(text, strlen(text), provision->self, &provision->keys);
    psr_secret_free(text);
    return err;
}

psr_err psr_provision_from_json(const char *json, size_t size, psr_provision *ret_provision)
{
    psr_provision provision = {0};
    cJSON *object = cJSON_ParseWithLength(json, size);
    psr_err err = cJSON_IsObject(object) ? read_object(object, &provision)
                                         : psr_fail(PSR_ERR_FORMAT, "not a JSON object");
    psr_secret_delete(object);
    if (err != PSR_OK)
        return psr_fail_context(err, "provision");
    rank_by_key(&provision);
    *ret_provision = provision;
    return PSR_OK;
}

psr_err psr_provision_from_fd(int fd, psr_provision *ret_provision)
{
    psr_err err = PSR_OK;
    size_t used = 0, room = 0;
    char *line = NULL;
    for (;;) {
        if (used == room) {
            room = room ? 2 * room : 4096;
            char *grown = room <= LINE_BYTES_MAX ? psr_secret_grow(line, used, room) : NULL;
            if (grown == NULL) {
                err = psr_fail(PSR_ERR_FORMAT, "provision: a line longer than %u bytes",
                               LINE_BYTES_MAX);
                goto out;
            }
            line = grown;
        }
        /* One byte at a time, because the bytes after the line are for whoever reads next. It
         * happens once. */
        ssize_t got = read(fd, line + used, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            err = psr_fail(PSR_ERR_FORMAT,
                           "provision: standard input ended before a line of JSON had come");
            goto out;
        }
        if (line[used] == '\n')
            break;
        used++;
    }
    err = psr_provision_from_json(line, used, ret_provision);
out:
    if (line != NULL)
        explicit_bzero(line, used);
    free(line);
    return err;
}

/* "HOST:PORT", "tcp://HOST:PORT", "/DIRECTORY/SOCKET" or "ipc:///DIRECTORY/SOCKET". */
psr_err psr_provision_set_scheduler(psr_provision *provision, const char *scheduler)
{
    bool has_scheme = strstr(scheduler, "://") != NULL;
    bool is_ipc = scheduler[0] == '/' || strncmp(scheduler, "ipc://", 6) == 0;
    const char *colon = strrchr(scheduler, ':');
    if (!is_ipc && (colon == NULL || colon[1] < '0' || colon[1] > '9'))
        return psr_fail(PSR_ERR_USAGE, "\"%s\" is not HOST:PORT nor a socket's path", scheduler);
    int length = snprintf(provision->scheduler, sizeof provision->scheduler, "%s%s",
                          has_scheme ? ""
                          : is_ipc   ? "ipc://"
                                     : "tcp://",
                          scheduler);
    if (length < 0 || (size_t)length >= sizeof provision->scheduler)
        return psr_fail(PSR_ERR_USAGE, "longer than %zu bytes", sizeof provision->scheduler - 1);
    if (!is_ipc)
        return PSR_OK;
    return psr_socket_directory_of(provision->scheduler, provision->directory);
}

/* Without keys the handshake still needs a token. */
static void open_to_all(psr_keys *keys)
{
    memset(keys->token, '0', sizeof keys->token - 1);
}

psr_err psr_provision_load_keys(psr_provision *provision, const char *keys)
{
    if (keys != NULL) {
        PSR_TRY(psr_keys_load(keys, provision->self, &provision->keys));
        rank_by_key(provision);
        return PSR_OK;
    }
    if (provision->directory[0] == '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "over TCP a key_file is needed: psring keygen makes one for each rank, or "
                        "one that all share");
    open_to_all(&provision->keys);
    return PSR_OK;
}

void psr_provision_tell_old_keys(const psr_provision *provision, const char *keys)
{
    if (provision->keys.old_file)
        psr_log(PSR_LOG_WARN,
                "the keys in %s are no certificates, and the next version does not read them: "
                "psring keygen --convert FILE makes certificates of a file",
                keys);
}

psr_err psr_provision_by_hand(psr_peer self, const char *scheduler, const char *keys,
                              const char *interface, psr_provision *ret_provision)
{
    psr_provision provision = {.self = self};
    psr_err err = scheduler != NULL ? psr_provision_set_scheduler(&provision, scheduler) : PSR_OK;
    if (err != PSR_OK)
        return psr_fail_context(err, "--scheduler");
    if (interface != NULL && provision.directory[0] != '\0')
        return psr_fail(PSR_ERR_USAGE, "--interface: this run is on ipc sockets; leave it out");
    if (interface != NULL) {
        if (strlen(interface) >= sizeof provision.interface)
            return psr_fail(PSR_ERR_USAGE, "--interface: longer than %zu bytes",
                            sizeof provision.interface - 1);
        strcpy(provision.interface, interface);
    }
    PSR_TRY(psr_keys_load(keys, self, &provision.keys));
    psr_provision_tell_old_keys(&provision, keys);
    rank_by_key(&provision);
    *ret_provision = provision;
    return PSR_OK;
}

void psr_provision_done(psr_provision *provision)
{
    psr_keys_done(&provision->keys);
    explicit_bzero(provision, sizeof *provision);
}

/* The name of the scheduler's socket: one that others knew before, or a new one. */
static const char *name_of_socket(const psr_provision *provision)
{
    if (provision->self.role != PSR_ROLE_SCHEDULER || provision->directory[0] == '\0' ||
        provision->scheduler[0] == '\0')
        return NULL;
    return strrchr(provision->scheduler, '/') + 1;
}

psr_zmq_options psr_provision_zmq(const psr_provision *provision)
{
    return (psr_zmq_options){
        .self = provision->self,
        .socket = name_of_socket(provision),
        .directory = provision->directory,
        .sharing = provision->sharing,
        .interface = provision->interface,
        .port = provision->port,
        .keys = &provision->keys,
    };
}
