/* What the launcher tells an agent: to begin, what to run, to start processes, to end. */
#include "deploy/agent/agent_private.h"

#include "base/system/openmp.h"
#include "base/text/printable.h"
#include "base/text/secret.h"
#include "comm/members/provision.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_S_MAX 1e6
#define GRACE_MS_MAX 1e6
#define OWN_VARIABLES 1 /* beside those of -x: psr_openmp_set */

/* The process of a spawn command, not yet started. */
static psr_err read_spawn(const psr_agent *a, const cJSON *command, psr_agent_process *ret_process)
{
    const char *role = psr_json_text(command, "role");
    psr_agent_process p = {0};
    if (role == NULL || !psr_role_parse(role, &p.peer.role) || p.peer.role == PSR_ROLE_SCHEDULER ||
        ((psr_agent_runs_program(a) || a->probes) && p.peer.role != PSR_ROLE_WORKER) ||
        !psr_json_count(command, "rank", UINT32_MAX - 1, &p.peer.rank))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent a spawn command for neither a worker nor a shard");
    for (size_t i = 0; i < a->count; i++)
        if (psr_peer_equal(a->processes[i].peer, p.peer))
            return psr_fail(PSR_ERR_PROTOCOL,
                            "the launcher sent a second spawn command for %s %" PRIu32, role,
                            p.peer.rank);
    if (a->count == PSR_AGENT_CHILDREN_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent more than %d spawn commands",
                        PSR_AGENT_CHILDREN_MAX);
    *ret_process = p;
    return PSR_OK;
}

/* This host decides where memory is shared, and not the launcher. false: no memory. */
static bool tell_sharing(const psr_agent *a, cJSON *provision)
{
    cJSON_DeleteItemFromObjectCaseSensitive(provision, "sharing");
    return !a->shares || cJSON_AddStringToObject(provision, "sharing", a->sockets.path) != NULL;
}

/* The program of this run, which the launcher named on our standard input. */
static psr_err start_program(const psr_agent *a, psr_agent_process *p,
                             const psr_program_place *place, cJSON *provision, const psr_cpus *cpus)
{
    psr_provision of_rank;
    char *text = tell_sharing(a, provision) ? psr_secret_print(provision) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    psr_err err = psr_provision_from_json(text, strlen(text), &of_rank);
    psr_secret_free(text);
    PSR_TRY(err);
    if (!psr_peer_equal(of_rank.self, p->peer))
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a provision for another process");
    else
        err = psr_program_start(&a->program, &of_rank, place, cpus, &p->child);
    psr_provision_done(&of_rank);
    return err;
}

/* One of psring's own programs, from this program's directory: the launcher does not decide which
 * program is run, but for whether a worker is the one that knows GPUs. */
static psr_err start_own(psr_agent *a, psr_agent_process *p, bool gpu, cJSON *provision,
                         const psr_cpus *cpus)
{
    char path[4096], option[] = "--provision", from[] = "-", probe[] = "probe";
    const char *name = a->probes                        ? "psring"
                       : p->peer.role == PSR_ROLE_SHARD ? "psring-ps"
                       : gpu                            ? "psring-worker-cuda"
                                                        : "psring-worker";
    PSR_TRY(psr_program_path(name, path, sizeof path));
    char *argv[] = {path, a->probes ? probe : option, a->probes ? NULL : from, NULL};
    if (a->environment.items == NULL)
        PSR_TRY(psr_environment_begin(OWN_VARIABLES, &a->environment));
    (void)psr_openmp_set(&a->environment);
    char *text = tell_sharing(a, provision) ? psr_secret_print(provision) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    const psr_child_setting setting = {.environment = a->environment.items, .cpus = cpus};
    psr_err err = psr_child_start_with(argv, PSR_CHILD_LOSSY_OUTPUT, &setting, &p->child);
    if (err == PSR_OK)
        psr_line_writer_put(&p->child.in, text);
    psr_secret_free(text);
    return err;
}

static psr_err spawn(psr_agent *a, const cJSON *command)
{
    cJSON *provision = cJSON_GetObjectItemCaseSensitive(command, "provision");
    psr_agent_process *p = &a->processes[a->count];
    if (!cJSON_IsObject(provision))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a spawn command without a provision");
    PSR_TRY(read_spawn(a, command, p));
    if (a->ending)
        return PSR_OK; /* the run is ending, so that process is not started */
    const char *list = psr_json_text(command, "cpus");
    psr_cpus bound, *cpus = list != NULL ? &bound : NULL;
    if (list != NULL && psr_cpus_parse(list, &bound) != PSR_OK)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent a list of processors that cannot be read");
    const bool gpu = psr_json_true(command, "gpu");
    psr_program_place place = {0}; /* not given to a shard */
    (void)psr_json_count(command, "local_rank", UINT32_MAX, &place.local_rank);
    (void)psr_json_count(command, "local_ranks", UINT32_MAX, &place.local_ranks);
    if ((psr_agent_runs_program(a) ? start_program(a, p, &place, provision, cpus)
                                   : start_own(a, p, gpu, provision, cpus)) != PSR_OK)
        psr_agent_tell_exit(a, p->peer, false, false, psr_err_detail());
    else
        a->count++;
    return PSR_OK;
}

/* A number from the launcher, limited to a sensible range. */
static double between(double least, double value, double most)
{
    return value >= least ? value <= most ? value : most : least; /* NaN: least */
}

/* Without such a directory nothing is shared on this host, and values go as messages. */
static void share(psr_agent *a)
{
    a->shares = psr_socket_directory_make(getenv("XDG_RUNTIME_DIR"), &a->sockets) == PSR_OK;
    if (!a->shares)
        psr_print(stderr, "no memory is shared on this host: %s\n", psr_err_detail());
}

static psr_err begin(psr_agent *a, const cJSON *command)
{
    const char *sockets = psr_json_text(command, "sockets");
    if (a->begun)
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher began a second time");
    a->begun = true;
    psr_agent_watch_launcher(
        a, (int64_t)(between(0.001, psr_json_number(command, "deadline_s", 30), DEADLINE_S_MAX) *
                     1000));
    if (sockets != NULL)
        PSR_TRY(psr_socket_directory_make_named(sockets, &a->sockets));
    psr_agent_say_hello(a);
    if (sockets == NULL && psr_json_true(command, "share"))
        share(a);
    return PSR_OK;
}

/* Before the first spawn, once. */
static psr_err take_program(psr_agent *a, cJSON *command)
{
    cJSON *object = cJSON_DetachItemFromObjectCaseSensitive(command, "program");
    if (psr_agent_runs_program(a) || a->probes || a->count > 0) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher named a program after processes were started");
    }
    PSR_TRY(psr_program_from_object(object, &a->program));
    psr_program_adopt_strays();
    return PSR_OK;
}

/* Before the first spawn, once. */
static psr_err take_variables(psr_agent *a, cJSON *command)
{
    const cJSON *item;
    if (a->variables != NULL || a->count > 0)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent variables after processes were started");
    a->variables = cJSON_DetachItemFromObjectCaseSensitive(command, "variables");
    PSR_TRY(psr_environment_begin(OWN_VARIABLES + (size_t)cJSON_GetArraySize(a->variables),
                                  &a->environment));
    cJSON_ArrayForEach(item, a->variables)
    {
        if (!cJSON_IsString(item))
            return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a variable that is no text");
        psr_environment_set(&a->environment, item->valuestring);
    }
    return PSR_OK;
}

/* Likewise. */
static psr_err take_probe(psr_agent *a)
{
    if (psr_agent_runs_program(a) || a->count > 0)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher wanted a probe after processes were started");
    a->probes = true;
    return PSR_OK;
}

/* ---- the link ---- */

static psr_err take_listen(psr_agent *a, const cJSON *command)
{
    const char *interface = psr_json_text(command, "interface");
    if (interface == NULL || a->count > 0 || a->listener.fd >= 0)
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher wanted a link measured out of turn");
    const psr_err err = psr_link_listen(interface, &a->listener);
    psr_json_put(&a->events, "event", "listens", "address", a->listener.address, "#port",
                 (double)a->listener.port, "failure", err == PSR_OK ? "" : psr_err_detail(), NULL);
    return PSR_OK;
}

static psr_err take_link(psr_agent *a, const cJSON *command)
{
    uint32_t port = 0;
    uint64_t bits_per_s = 0;
    psr_link_way way = {.address = psr_json_text(command, "address"),
                        .token = psr_json_text(command, "token"),
                        .own_token = psr_json_text(command, "own_token")};
    if (a->listener.fd < 0 || way.address == NULL || way.token == NULL || way.own_token == NULL ||
        strlen(way.token) != PSR_LINK_TOKEN_BYTES ||
        strlen(way.own_token) != PSR_LINK_TOKEN_BYTES ||
        !psr_json_count(command, "port", UINT16_MAX, &port))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher wanted a link measured out of turn");
    way.port = (uint16_t)port;
    const psr_err err = psr_link_measure(&a->listener, &way, &bits_per_s);
    psr_link_listener_done(&a->listener);
    psr_json_put(&a->events, "event", "link", "#bits_per_s", (double)bits_per_s, "failure",
                 err == PSR_OK ? "" : psr_err_detail(), NULL);
    return PSR_OK;
}

/* A process that has ended gets nothing. */
static psr_err tell(psr_agent *a, const cJSON *command)
{
    const char *role = psr_json_text(command, "role"), *text = psr_json_text(command, "text");
    psr_peer peer;
    if (!a->probes || role == NULL || text == NULL || !psr_role_parse(role, &peer.role) ||
        !psr_json_count(command, "rank", UINT32_MAX - 1, &peer.rank))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is for no probe");
    for (size_t i = 0; i < a->count; i++)
        if (psr_peer_equal(a->processes[i].peer, peer))
            psr_line_writer_put(&a->processes[i].child.in, text);
    return PSR_OK;
}

psr_err psr_agent_command(void *context, char *line)
{
    psr_agent *a = context;
    a->heard_ms = psr_agent_look(a);
    cJSON *command = cJSON_Parse(line);
    const char *op = psr_json_text(command, "op");
    psr_err err = PSR_OK;
    if (op == NULL)
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is not a command");
    else if (strcmp(op, "begin") == 0)
        err = begin(a, command);
    else if (strcmp(op, "program") == 0)
        err = take_program(a, command);
    else if (strcmp(op, "variables") == 0)
        err = take_variables(a, command);
    else if (strcmp(op, "probe") == 0)
        err = take_probe(a);
    else if (strcmp(op, "listen") == 0)
        err = take_listen(a, command);
    else if (strcmp(op, "link") == 0)
        err = take_link(a, command);
    else if (strcmp(op, "tell") == 0)
        err = tell(a, command);
    else if (strcmp(op, "spawn") == 0)
        err = spawn(a, command);
    else if (strcmp(op, "end") == 0)
        psr_agent_end_all(
            a, (int64_t)between(0, psr_json_number(command, "grace_ms", 0), GRACE_MS_MAX));
    else if (strcmp(op, "pause") == 0)
        psr_agent_pause_all(a);
    else if (strcmp(op, "go_on") == 0)
        psr_agent_go_on(a);
    else if (strcmp(op, "alive") == 0)
        psr_json_put(&a->events, "event", "alive", NULL); /* and so does this psr_agent */
    else
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent the unknown command '%.64s'", op);
    psr_secret_delete(command);
    return err;
}
