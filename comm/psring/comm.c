/* A communicator's life: from options to a view, and the end. */
#include "comm/psring/internal.h"

#include "base/clock.h"
#include "comm/node/judge.h"
#include "comm/psring/place.h"
#include "comm/psring/rendezvous.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEADLINE_MS = 30000,
    /* What was lent has left before its operation ends. What is left is small, and may be for a
     * rank that has closed already. */
    LINGER_MS = 2000,
    ABORT_LINGER_MS = 300, /* for the last message: a rank that is gone does not take it */
    ABORT_HEARD_MS = 5000, /* for the scheduler to receive it, if it lives */
    AGREE_MAX = 64 << 10, /* bytes; the facts of a communicator also contain the number of shards */
};

/* ---- calls ---- */

psr_err psr_comm_need(const void *given, const char *what)
{
    return given != NULL ? PSR_OK : psr_fail(PSR_ERR_USAGE, "%s is NULL", what);
}

/* The failure that broke everything is returned once, whichever group is asked. */
static bool was_told(const psring_comm *comm, psr_node_group *group)
{
    return *psr_node_group_told(group) || (psr_node_failure(comm->node) != NULL && comm->told);
}

/* A table and the group that opened it fail together. */
static void is_told(psring_comm *comm, psr_node_group *group)
{
    *psr_node_group_told(group) = true;
    for (const psring_table *t = comm->tables; t != NULL; t = t->next)
        if (t->group != NULL && (t->node_group == group || t->group->group == group))
            *psr_node_group_told(t->node_group) = *psr_node_group_told(t->group->group) = true;
    comm->told = comm->told || psr_node_failure(comm->node) != NULL;
}

psr_err psr_comm_check(psring_comm *comm, psr_node_group *group)
{
    const psr_failure *failure = psr_node_group_failure(group);
    if (failure == NULL)
        return PSR_OK;
    if (was_told(comm, group))
        return psr_fail(PSR_ERR_BROKEN, "the group failed before: %s", failure->line);
    is_told(comm, group);
    return psr_fail(failure->err, "%s", failure->line);
}

psr_err psr_comm_status(psring_comm *comm, const psr_node_request *request)
{
    psr_err err = psr_node_request_status(request);
    psr_node_group *group = psr_node_request_group(request);
    if (err != PSR_OK && psr_node_group_failure(group) != NULL)
        is_told(comm, group);
    return err;
}

static bool is_broken(void *context)
{
    return psr_node_group_failure(context) != NULL;
}

psr_err psr_comm_find(psring_comm *comm, psr_node_group *group, const psr_failure *failure)
{
    psr_failure *found = malloc(sizeof *found);
    if (found == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a failure: %s", failure->line);
    *found = *failure;
    found->epoch = psr_node_group_epoch(group);
    found->group = psr_node_group_id(group);
    psr_err err = psr_driver_order(comm->driver, PSR_NODE_FIND, found);
    if (err != PSR_OK) {
        free(found);
        return err;
    }
    (void)psr_driver_wait(comm->driver, is_broken, group, comm->deadline_ms);
    return psr_comm_check(comm, group);
}

psr_err psr_comm_give_up(psring_comm *comm, psr_node_group *group, psr_err err, const char *doing)
{
    psr_failure failure = {.err = err, .rank = comm->rank, .other = PSR_RANK_ANY};
    if (psr_node_group_failure(group) != NULL)
        return err;
    snprintf(failure.line, sizeof failure.line, "rank %" PRIu32 " %s: %.400s", comm->rank, doing,
             psr_err_detail());
    return psr_comm_find(comm, group, &failure);
}

void psring_report(psring_comm *comm, uint64_t step)
{
    if (comm != NULL)
        psr_node_progress(comm->node, step);
}

static psr_err get_counts(const psring_comm *comm, psring_counts *ret_counts)
{
    psr_transport_counts counts = {0};
    if (comm->transport != NULL)
        psr_transport_counts_get(comm->transport, &counts);
    const psring_counts found = {.bytes_sent = counts.bytes_sent,
                                 .bytes_received = counts.bytes_received,
                                 .messages_sent = counts.messages_sent,
                                 .messages_received = counts.messages_received,
                                 .strangers = counts.strangers,
                                 .bytes_lent = counts.bytes_lent,
                                 .bytes_sealed = counts.bytes_sealed,
                                 .waited_s = 1e-9 * (double)psr_driver_waited_ns(comm->driver)};
    return psr_options_write("psring_counts", &found, sizeof found, ret_counts,
                             offsetof(psring_counts, bytes_lent));
}

psring_err psring_counts_get(psring_comm *comm, psring_counts *ret_counts)
{
    psr_err err = psr_comm_need(comm, "comm");
    if (err == PSR_OK)
        err = psr_comm_need(ret_counts, "ret_counts");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, get_counts(comm, ret_counts)) : (psring_err)err;
}

/* ---- joining ---- */

static psr_err check_options(const psring_options *o)
{
    if (o->ranks < 1)
        return psr_fail(PSR_ERR_USAGE, "ranks is %d", o->ranks);
    if (o->rank < PSRING_NO_RANK || o->rank >= o->ranks)
        return psr_fail(PSR_ERR_USAGE, "rank is %d, of %d ranks", o->rank, o->ranks);
    if (o->deadline_ms < 0 || o->join_deadline_ms < 0 || o->deadline_ms > INT32_MAX ||
        o->join_deadline_ms > INT32_MAX)
        return psr_fail(
            PSR_ERR_USAGE, "a deadline of %" PRId64 " ms: it should be from 0 to %" PRId32,
            o->deadline_ms < 0 || o->deadline_ms > INT32_MAX ? o->deadline_ms : o->join_deadline_ms,
            INT32_MAX);
    if (o->agree_bytes > AGREE_MAX || (o->agree_bytes > 0 && o->agree == NULL))
        return psr_fail(PSR_ERR_USAGE, "agree has %zu bytes: %u is the most", o->agree_bytes,
                        AGREE_MAX);
    if (o->shards < 0 || o->shards >= o->ranks)
        return psr_fail(PSR_ERR_USAGE,
                        "shards is %d, of %d ranks: at least one other rank is needed", o->shards,
                        o->ranks);
    if (o->ranks > 1 && o->scheduler == NULL)
        return psr_fail(PSR_ERR_USAGE, "%d ranks without a scheduler to find each other at",
                        o->ranks);
    return PSR_OK;
}

/* The place comes from the environment; the other options stay as given. */
static psr_err take_environment(psring_options *o, psr_meeting_file *ret_meeting)
{
    psring_options place = {.size = sizeof place};
    if (o->rank != 0 || o->scheduler != NULL || o->key_file != NULL || o->host != NULL ||
        o->interface != NULL || o->host_scheduler || o->key != NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "ranks is 0: rank, scheduler, key_file, key, host, interface and "
                        "host_scheduler come from the environment, and are not given");
    PSR_TRY(psr_place_from_environment(o->join_deadline_ms != 0 ? o->join_deadline_ms
                                       : o->deadline_ms != 0    ? o->deadline_ms
                                                                : DEADLINE_MS,
                                       &place, ret_meeting));
    if (o->deadline_ms != 0)
        place.deadline_ms = o->deadline_ms;
    place.join_deadline_ms = o->join_deadline_ms;
    if (o->shards != 0)
        place.shards = o->shards;
    if (o->transport != NULL)
        place.transport = o->transport;
    if (o->sharing != NULL)
        place.sharing = o->sharing;
    place.agree = o->agree;
    place.agree_bytes = o->agree_bytes;
    *o = place;
    return PSR_OK;
}

static psr_err resolve(const psring_options *given, psring_options *ret_options,
                       psr_meeting_file *ret_meeting, psr_rendezvous *ret_rendezvous)
{
    psring_options o;
    PSR_TRY(psr_options_read("psring_options", given, offsetof(psring_options, transport), &o,
                             sizeof o));
    o.size = sizeof o;
    if (o.ranks == 0 && o.store == NULL)
        PSR_TRY(take_environment(&o, ret_meeting));
    if (o.deadline_ms == 0)
        o.deadline_ms = DEADLINE_MS;
    if (o.join_deadline_ms == 0)
        o.join_deadline_ms = o.deadline_ms;
    if (o.store != NULL)
        PSR_TRY(psr_rendezvous_meet(&o, o.join_deadline_ms, ret_rendezvous));
    PSR_TRY(check_options(&o));
    *ret_options = o;
    return PSR_OK;
}

/* Gives the facts that must be the same on all ranks. */
static psr_err take_place(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    const psring_options *o = ((psr_joining *)context)->options;
    psring_comm *comm = ((psr_joining *)context)->comm;
    (void)given;
    if (place->ranks != (uint32_t)o->ranks)
        return psr_fail(PSR_ERR_USAGE, "ranks is %d here, and the scheduler's is %" PRIu32,
                        o->ranks, place->ranks);
    comm->rank = place->rank;
    const size_t bytes = sizeof comm->shards + o->agree_bytes;
    if (o->agree_bytes == 0 && comm->shards == 0)
        return PSR_OK;
    uint8_t *facts = malloc(bytes);
    if (facts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes to agree on", bytes);
    memcpy(facts, &comm->shards, sizeof comm->shards);
    if (o->agree_bytes > 0)
        memcpy(facts + sizeof comm->shards, o->agree, o->agree_bytes);
    *ret_facts = facts;
    *ret_facts_size = bytes;
    return PSR_OK;
}

static void report(void *context, psr_msg_progress *progress)
{
    psr_node *node = ((psr_joining *)context)->comm->node;
    if (node != NULL)
        psr_node_report(node, progress);
}

static psr_err check_view(const psring_comm *comm, const psring_options *o)
{
    bool whole = comm->view->member_count == (uint32_t)o->ranks;
    for (uint32_t r = 0; whole && r < comm->view->member_count; r++)
        whole = psr_view_find(comm->view, (psr_peer){PSR_ROLE_WORKER, r}) != NULL;
    return whole ? PSR_OK
                 : psr_fail(PSR_ERR_FORMAT, "the scheduler's view is not of %d ranks", o->ranks);
}

/* Called before others connect. Large values between ranks of one host go through shared memory. If
 * that is impossible they go as messages, unless shared memory was asked for by name. */
static psr_err share_memory(psring_comm *comm, const psring_options *o)
{
    const char *transport = o->transport != NULL ? o->transport : "auto";
    if (strcmp(transport, "ipc") == 0 || strcmp(transport, "tcp") == 0)
        return PSR_OK;
    psr_err err = psr_transport_share(comm->transport, NULL, NULL);
    comm->shares_memory = err == PSR_OK; /* without memory of its own it can still read others' */
    if (err == PSR_OK)
        err = psr_transport_lend_copies(comm->transport);
    if (err == PSR_OK || strcmp(transport, "shm") != 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_UNSUPPORTED, "transport is \"shm\": %s", psr_err_detail());
}

static psr_err join(psring_comm *comm, const psring_options *o)
{
    psr_zmq_options zmq = psr_provision_zmq(&comm->provision);
    zmq.misses_scheduler = true;
    comm->joining.comm = comm;
    comm->joining.options = o;
    PSR_TRY(psr_transport_zmq_new(&zmq, &comm->transport));
    PSR_TRY(share_memory(comm, o));
    const psr_member_options member = {.transport = comm->transport,
                                       .provision = &comm->provision,
                                       .first_deadline_ms = o->join_deadline_ms,
                                       .shares_memory = comm->shares_memory,
                                       .context = &comm->joining,
                                       .configured = take_place,
                                       .report = report};
    PSR_TRY(psr_member_join(&member, &comm->member));
    comm->view = psr_member_view(comm->member);
    return check_view(comm, o);
}

static psr_err find_others(psring_comm *comm, const psring_options *o)
{
    PSR_TRY(psr_place_provision(o, &comm->provision));
    PSR_TRY(psr_job_folder_enter(comm->provision.directory, &comm->folder));
    PSR_TRY(psr_job_folder_take(&comm->folder, &comm->provision.self, (uint32_t)o->ranks));
    if (o->host_scheduler)
        PSR_TRY(psr_place_host(o, &comm->hosting));
    return join(comm, o);
}

static psr_err be_alone(psring_comm *comm, const psring_options *o)
{
    comm->alone.members = calloc(1, sizeof *comm->alone.members);
    if (comm->alone.members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    comm->alone.member_count = 1;
    comm->alone.members[0].peer = (psr_peer){PSR_ROLE_WORKER, 0};
    PSR_TRY(psr_place_host_name(o, comm->alone.members[0].host));
    comm->view = &comm->alone;
    return PSR_OK;
}

/* Opens a group of rank `one`, or of none (PSR_RANK_ANY), and ranks [first, first + count). */
static psr_err open_range(psring_comm *comm, uint32_t id, uint32_t one, uint32_t first,
                          uint32_t count, psr_node_group **ret_group)
{
    psr_node_group *group = NULL;
    uint32_t *ranks = calloc((size_t)count + 1, sizeof *ranks);
    if (ranks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", count);
    const uint32_t before = one != PSR_RANK_ANY;
    ranks[0] = one;
    for (uint32_t r = 0; r < count; r++)
        ranks[before + r] = first + r;
    count += before;
    psr_err err = psr_node_group_new(comm->node, 0, id, ranks, count, &group);
    free(ranks);
    if (err != PSR_OK)
        return err;
    err = psr_driver_order(comm->driver, PSR_NODE_OPEN_GROUP, group);
    if (err != PSR_OK)
        psr_node_group_free(group);
    else
        *ret_group = group;
    return err;
}

/* Each worker has a group of its own: if it fails, only that breaks, and the shards serve the
 * others. */
static psr_err open_services(psring_comm *comm)
{
    const uint32_t all = comm->view->member_count;
    comm->services = calloc(comm->workers, sizeof *comm->services);
    if (comm->services == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " groups", comm->workers);
    for (uint32_t w = 0; w < comm->workers; w++)
        if (comm->rank == w || comm->rank >= comm->workers)
            PSR_TRY(open_range(comm, all + w, w, comm->workers, comm->shards, &comm->services[w]));
    return PSR_OK;
}

/* No later group has these ids: its number is 2 or more (psr_comm_next_group). */
static psr_err open_world(psring_comm *comm)
{
    bool shard = comm->rank >= comm->workers;
    comm->world.comm = comm;
    PSR_TRY(open_range(comm, shard ? comm->workers : 0, PSR_RANK_ANY, shard ? comm->workers : 0,
                       shard ? comm->shards : comm->workers, &comm->world.group));
    return comm->shards > 0 ? open_services(comm) : PSR_OK;
}

static bool has_begun(void *context)
{
    const psring_comm *comm = context;
    return psr_node_begun(comm->node) || psr_node_failure(comm->node) != NULL;
}

static psr_err open_comm(psring_comm *comm, const psring_options *o)
{
    comm->deadline_ms = o->deadline_ms;
    comm->next_group = 2;
    comm->shards = (uint32_t)o->shards;
    comm->workers = (uint32_t)(o->ranks - o->shards);
    PSR_TRY(o->scheduler == NULL ? be_alone(comm, o) : find_others(comm, o));
    const psr_driver_options driver = {.transport = comm->transport,
                                       .member = comm->member,
                                       .view = comm->view,
                                       .rank = comm->rank,
                                       .deadline_ms = o->deadline_ms,
                                       .calls = &comm->calls};
    PSR_TRY(psr_driver_new(&driver, &comm->driver));
    comm->node = psr_driver_node(comm->driver);
    PSR_TRY(open_world(comm));
    PSR_TRY(psr_driver_start(comm->driver));
    /* This wait ends at the latest with the deadline for a silent scheduler. */
    (void)psr_driver_wait(comm->driver, has_begun, comm, INT64_MAX);
    /* a failure since then is returned by the next call */
    return psr_node_begun(comm->node) ? PSR_OK : psr_comm_check(comm, comm->world.group);
}

/* ---- the end ---- */

static void free_requests(psring_group *group)
{
    for (psring_request *r = group->requests, *next; r != NULL; r = next) {
        next = r->next;
        psr_making_free(r->making);
        free(r);
    }
}

/* why: told to the ranks whose scheduler it hosts; NULL: the scheduler goes on until they have
 * left. */
static void free_comm(psring_comm *comm, int linger_ms, const psr_failure *why)
{
    psr_driver_stop(comm->driver);
    if (comm->transport != NULL)
        psr_transport_free(&comm->transport, linger_ms); /* now nothing is lent */
    comm->node = NULL;
    psr_driver_free(comm->driver);
    psr_comm_free_memories(comm);
    psr_member_free(comm->member);
    psr_hosting_free(comm->hosting, why);
    psr_job_folder_leave(&comm->folder);
    psr_provision_done(&comm->provision);
    psr_view_done(&comm->alone);
    free_requests(&comm->world);
    for (psring_group *g = comm->groups; g != NULL; g = g->next)
        free_requests(g);
    for (psring_group *g = comm->groups, *next; g != NULL; g = next) {
        next = g->next;
        free(g);
    }
    for (psring_table *t = comm->tables, *next; t != NULL; t = next) {
        next = t->next;
        free(t);
    }
    for (psr_defined_update *u = comm->updates, *next; u != NULL; u = next) {
        next = u->next;
        free(u);
    }
    free(comm->services);
    pthread_mutex_unlock(&comm->calls);
    pthread_mutex_destroy(&comm->calls);
    free(comm);
}

psring_err psring_init(const psring_options *options, psring_comm **ret_comm)
{
    psring_options o;
    psr_meeting_file meeting = PSR_MEETING_FILE_NONE;
    psr_rendezvous rendezvous = PSR_RENDEZVOUS_NONE;
    psr_err err = psr_comm_need(ret_comm, "ret_comm");
    if (err == PSR_OK)
        err = resolve(options, &o, &meeting, &rendezvous);
    if (err != PSR_OK) {
        psr_meeting_file_remove(&meeting);
        psr_rendezvous_done(&rendezvous);
        return (psring_err)psr_fail_context(err, "psring_init");
    }
    psring_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) {
        psr_meeting_file_remove(&meeting);
        psr_rendezvous_done(&rendezvous);
        return (psring_err)psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    }
    pthread_mutex_init(&comm->calls, NULL);
    pthread_mutex_lock(&comm->calls); /* for this call, as all that wait */
    comm->folder = PSR_JOB_FOLDER_NONE;
    comm->rank = o.rank == PSRING_NO_RANK ? 0 : (uint32_t)o.rank;
    err = open_comm(comm, &o);
    psr_rendezvous_done(&rendezvous);
    psr_meeting_file_remove(&meeting); /* all have joined, or nobody will */
    if (err != PSR_OK) {
        err = psr_fail_context(err, "psring_init");
        psr_failure failure = {.err = err, .rank = comm->rank, .other = PSR_RANK_ANY};
        snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
        free_comm(comm, ABORT_LINGER_MS, &failure);
        return (psring_err)psr_fail(err, "%s", failure.line);
    }
    pthread_mutex_unlock(&comm->calls);
    *ret_comm = comm;
    return PSRING_OK;
}

/* Waits for operations that the caller has not freed. */
static void await_all(psring_comm *comm)
{
    for (psring_group *g = &comm->world; g != NULL; g = g == &comm->world ? comm->groups : g->next)
        for (psring_request *r = g->requests; r != NULL; r = r->next)
            if (r->request != NULL)
                psr_comm_await(comm, r->request);
    psr_comm_await_buffered(comm, NULL);
}

/* A failure of a group that no call has returned. */
static psr_err what_was_not_told(psring_comm *comm)
{
    psr_err err = PSR_OK;
    for (psring_group *g = &comm->world; g != NULL; g = g == &comm->world ? comm->groups : g->next)
        if (err == PSR_OK && !was_told(comm, g->group))
            err = psr_comm_check(comm, g->group);
    return err;
}

static bool has(const psring_group *group, uint32_t rank)
{
    const uint32_t *ranks = psr_node_group_ranks(group->group);
    for (uint32_t i = 0; i < psr_node_group_size(group->group); i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* Whether it broke a group of this rank, and no call has returned that yet. */
static bool concerns(psring_comm *comm, const psr_failure *failure)
{
    for (const psring_group *g = &comm->world; g != NULL;
         g = g == &comm->world ? comm->groups : g->next)
        if (!was_told(comm, g->group) && (failure->scope == PSR_SCOPE_ALL || has(g, failure->rank)))
            return true;
    return false;
}

/* The process that hosts the scheduler stays until the others have left, and learns of failures
 * that broke its groups meanwhile. */
static psr_err outlast_others(psring_comm *comm)
{
    psr_driver_stop(comm->driver);
    psr_hosting_await(comm->hosting);
    const psr_failure *failure = NULL;
    for (size_t i = 0; (failure = psr_hosting_verdict(comm->hosting, i)) != NULL; i++)
        if (concerns(comm, failure))
            return psr_fail(failure->err, "%s", failure->line);
    return PSR_OK;
}

psring_err psring_close(psring_comm **comm)
{
    if (comm == NULL || *comm == NULL)
        return PSRING_OK;
    psring_comm *gone = *comm;
    psr_err err = psr_comm_enter_last(gone);
    if (err != PSR_OK)
        return (psring_err)err;
    *comm = NULL;
    await_all(gone);
    if (psr_node_failure(gone->node) == NULL)
        (void)psr_comm_leave_shards(gone); /* its failure is that of the communicator */
    err = what_was_not_told(gone);
    bool goes_on = psr_node_failure(gone->node) == NULL; /* others may need what was sent last */
    if (err == PSR_OK && !goes_on)
        err = what_was_not_told(gone); /* of what came between the two */
    int linger_ms = goes_on ? LINGER_MS : ABORT_LINGER_MS;
    char line[PSR_ERR_DETAIL_BYTES];
    if (err == PSR_OK)
        psr_comm_entered_with(line);
    else
        psr_err_detail_keep(line);
    psr_comm_withdraw_memories(gone);
    psr_driver_leave(gone->driver, goes_on ? gone->deadline_ms : 0);
    if (err == PSR_OK && goes_on && gone->hosting != NULL) {
        linger_ms = ABORT_LINGER_MS; /* no rank is left that could take a message */
        err = outlast_others(gone);
        if (err != PSR_OK)
            psr_err_detail_keep(line);
    }
    free_comm(gone, linger_ms, NULL);
    psr_err_detail_restore(line);
    return (psring_err)err;
}

void psring_abort(psring_comm **comm, const char *line)
{
    if (comm == NULL || *comm == NULL || psr_comm_enter_last(*comm) != PSR_OK)
        return;
    psring_comm *gone = *comm;
    *comm = NULL;
    psr_failure failure = {
        .err = PSR_ERR_PEER, .scope = PSR_SCOPE_LOST, .rank = gone->rank, .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "rank %" PRIu32 " on %s aborted: %.400s",
             gone->rank, psr_view_find(gone->view, (psr_peer){PSR_ROLE_WORKER, gone->rank})->host,
             line != NULL ? line : "");
    psr_err err = psr_comm_find(gone, gone->world.group, &failure);
    (void)err; /* it is the line that was given */
    /* This process may exit now. Its launcher sees that in another way, and without this wait would
     * take it for an exit without a reason. */
    psr_driver_wait_verdict(gone->driver, gone->deadline_ms < ABORT_HEARD_MS ? gone->deadline_ms
                                                                             : ABORT_HEARD_MS);
    psr_driver_leave(gone->driver, 0);
    await_all(gone);
    free_comm(gone, ABORT_LINGER_MS, &failure);
}

/* ---- what is the library's ---- */

const char *psring_err_name(psring_err err)
{
    return psr_err_name((psr_err)err);
}

const char *psring_err_detail(void)
{
    return psr_err_detail();
}

uint32_t psring_version(void)
{
    unsigned major = 0, minor = 0, patch = 0;
    (void)sscanf(PSR_VERSION, "%u.%u.%u", &major, &minor, &patch);
    return major << 16 | minor << 8 | patch;
}
