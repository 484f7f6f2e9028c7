#include "comm/psring/place.h"

#include "comm/psring/internal.h"
#include "comm/start/meeting.h"
#include "comm/start/meeting_file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

psr_err psr_place_host_name(const psring_options *options, char ret_host[PSR_HOST_MAX])
{
    char host[PSR_HOST_MAX] = "";
    if (options->host != NULL && strlen(options->host) >= sizeof host)
        return psr_fail(PSR_ERR_USAGE, "host: longer than %zu bytes", sizeof host - 1);
    if (options->host != NULL)
        strcpy(host, options->host);
    if (host[0] == '\0' && gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "localhost");
    memcpy(ret_host, host, sizeof host);
    return PSR_OK;
}

/* ---- places ---- */

static psr_err set_interface(const char *interface, psr_provision *provision)
{
    if (interface == NULL)
        return PSR_OK;
    if (provision->directory[0] != '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "interface: the ranks meet at a socket's path; leave it out");
    if (strlen(interface) >= sizeof provision->interface)
        return psr_fail(PSR_ERR_USAGE, "interface: longer than %zu bytes",
                        sizeof provision->interface - 1);
    strcpy(provision->interface, interface);
    return PSR_OK;
}

/* The folder in which, over TCP, this host's ranks share memory. */
static psr_err set_sharing(const psring_options *options, psr_provision *provision)
{
    const char *transport = options->transport != NULL ? options->transport : "auto";
    const bool at_path = provision->directory[0] != '\0';
    const bool ipc = strcmp(transport, "ipc") == 0, tcp = strcmp(transport, "tcp") == 0;
    if (!ipc && !tcp && strcmp(transport, "auto") != 0 && strcmp(transport, "shm") != 0)
        return psr_fail(PSR_ERR_USAGE, "transport is \"%.40s\": it should be auto, shm, ipc or tcp",
                        transport);
    if (at_path ? tcp : ipc)
        return psr_fail(PSR_ERR_USAGE,
                        "transport is \"%s\", and the ranks meet at %s: leave it out", transport,
                        at_path ? "a socket's path" : "HOST:PORT");
    if (at_path || tcp || options->sharing == NULL)
        return PSR_OK;
    if (strlen(options->sharing) >= sizeof provision->sharing)
        return psr_fail(PSR_ERR_USAGE, "sharing: longer than %zu bytes",
                        sizeof provision->sharing - 1);
    strcpy(provision->sharing, options->sharing);
    return PSR_OK;
}

static psr_err provision_of(const psring_options *options, psr_peer self, psr_provision *provision)
{
    provision->self = self;
    psr_err err = psr_provision_set_scheduler(provision, options->scheduler);
    if (err != PSR_OK)
        return psr_fail_context(err, "scheduler");
    PSR_TRY(psr_place_host_name(options, provision->host));
    PSR_TRY(set_interface(options->interface, provision));
    PSR_TRY(set_sharing(options, provision));
    if (options->key == NULL)
        return psr_provision_load_keys(provision, options->key_file);
    if (options->key_file != NULL)
        return psr_fail(PSR_ERR_USAGE, "key and key_file are given: one of them is enough");
    err = psr_keys_from_json(options->key, strlen(options->key), provision->self, &provision->keys);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "key");
}

psr_err psr_place_provision(const psring_options *options, psr_provision *ret_provision)
{
    psr_provision provision = {0};
    const psr_peer self = {
        PSR_ROLE_WORKER, options->rank == PSRING_NO_RANK ? PSR_RANK_ANY : (uint32_t)options->rank};
    PSR_TRY(provision_of(options, self, &provision));
    *ret_provision = provision;
    return PSR_OK;
}

/* It listens at "tcp://HOST:PORT" of the provision. */
static psr_err listen_there(psr_provision *provision)
{
    const char *at = provision->scheduler + strlen("tcp://");
    const char *colon = strrchr(at, ':');
    unsigned long port = strtoul(colon + 1, NULL, 10);
    size_t length = (size_t)(colon - at);
    bool bracketed = length > 1 && at[0] == '[' && at[length - 1] == ']';
    if (port == 0 || port > UINT16_MAX)
        return psr_fail(PSR_ERR_USAGE, "scheduler: port %s", colon + 1);
    provision->port = (uint16_t)port;
    if (provision->interface[0] != '\0')
        return PSR_OK;
    if (bracketed) {
        at++;
        length -= 2;
    }
    if (length >= sizeof provision->interface)
        return psr_fail(PSR_ERR_USAGE, "scheduler: its host is longer than %zu bytes",
                        sizeof provision->interface - 1);
    memcpy(provision->interface, at, length);
    provision->interface[length] = '\0';
    return PSR_OK;
}

psr_err psr_place_host(const psring_options *options, psr_hosting **ret_hosting)
{
    psr_provision provision = {0};
    PSR_TRY(provision_of(options, (psr_peer){PSR_ROLE_SCHEDULER, 0}, &provision));
    psr_err err = provision.directory[0] == '\0' ? listen_there(&provision) : PSR_OK;
    if (err != PSR_OK) {
        psr_provision_done(&provision);
        return err;
    }
    const psr_hosting_options hosting = {
        .ranks = (uint32_t)options->ranks,
        .rank = options->rank == PSRING_NO_RANK ? PSR_RANK_ANY : (uint32_t)options->rank,
        .deadline_ms = options->deadline_ms,
        .join_deadline_ms = options->join_deadline_ms};
    return psr_hosting_new(&hosting, &provision, ret_hosting);
}

/* ---- from the environment ---- */

/* Where the ranks listen. A path needs no interface, and whoever gives PSRING_SCHEDULER gives the
 * interface as well. */
static psr_err choose_interface(psr_start *s)
{
    if (s->level == PSR_START_OWN || s->interface[0] != '\0' || s->scheduler[0] == '\0' ||
        s->scheduler[0] == '/')
        return PSR_OK;
    return psr_start_interface(s->scheduler, s->interface);
}

/* If the ranks meet by a file and this caller may not write or wait for one, the line says who
 * may. */
static psr_err meet(psr_start *s, int64_t deadline_ms, psr_meeting_file *ret_meeting)
{
    if (s->level == PSR_START_OWN)
        return PSR_OK;
    PSR_TRY(psr_start_meet(s));
    if (s->meeting[0] != '\0' && ret_meeting == NULL)
        return psr_fail(
            PSR_ERR_UNSUPPORTED,
            "the ranks may be on several hosts, and meet by the file %s, which psring_init makes "
            "or waits for: leave its ranks 0, or set PSRING_SCHEDULER and PSRING_KEY_FILE",
            s->meeting);
    return s->meeting[0] != '\0' ? psr_meeting_file_meet(s, s->ranks, 0, deadline_ms, ret_meeting)
                                 : PSR_OK;
}

/* Without a launcher, psring_init starts a single rank; psring_options_env returns NOT_FOUND. */
static psr_err read_start(bool joins, psr_start *ret_start)
{
    psr_err err = psr_start_read(ret_start);
    return err == PSR_ERR_NOT_FOUND && joins ? psr_start_alone(ret_start) : err;
}

static psr_err read_place(int64_t deadline_ms, psr_start *ret_start, psr_meeting_file *ret_meeting)
{
    psr_start s;
    PSR_TRY(read_start(ret_meeting != NULL, &s));
    bool told = s.role == PSR_ROLE_WORKER && s.rank != PSR_RANK_ANY;
    if (!told && s.level != PSR_START_OWN) /* PSRING_SCHEDULER's process gives the ranks */
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "%s gives no rank to a program on libpsring: start it by a launcher that "
                        "does (psring run, torchrun)",
                        s.way);
    PSR_TRY(meet(&s, deadline_ms, ret_meeting));
    psr_err err = choose_interface(&s);
    if (err != PSR_OK) {
        if (ret_meeting != NULL)
            psr_meeting_file_remove(ret_meeting);
        return err;
    }
    *ret_start = s;
    return PSR_OK;
}

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

psring_err psring_options_env(psring_options *ret_options)
{
    psr_err err = psr_comm_need(ret_options, "ret_options");
    return err == PSR_OK ? (psring_err)psr_place_from_environment(0, ret_options, NULL)
                         : (psring_err)err;
}

psr_err psr_place_from_environment(int64_t deadline_ms, psring_options *ret_options,
                                   psr_meeting_file *ret_meeting)
{
    static _Thread_local psr_start s; /* the text of the options is borrowed from it */
    PSR_TRY(read_place(deadline_ms, &s, ret_meeting));
    const psring_options options = {.ranks = (int)s.ranks,
                                    .rank = s.rank != PSR_RANK_ANY ? (int)s.rank : PSRING_NO_RANK,
                                    .scheduler = or_null(s.scheduler),
                                    .key_file = or_null(s.key_file),
                                    .host = or_null(s.host),
                                    .interface = or_null(s.interface),
                                    .host_scheduler = s.starts_scheduler && s.scheduler[0] != '\0',
                                    .deadline_ms = s.deadline_ms,
                                    .transport = or_null(s.transport),
                                    .sharing = or_null(s.sharing),
                                    .shards = s.shards != PSR_START_UNTOLD ? (int)s.shards : 0};
    return psr_options_write("psring_options", &options, sizeof options, ret_options,
                             offsetof(psring_options, transport));
}
