/* Tables on a shard: updates, and the orders of other ranks until they leave. */
#include "comm/psring/service.h"

#include "comm/psring/applied.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATES_MAX = PSR_UPDATE_STATES_MAX, OPENING_WORDS_MAX = 2 * PSR_OPENING_PARTS_MAX };

int psring_shards(const psring_comm *comm)
{
    return comm != NULL ? (int)comm->shards : 0;
}

bool psring_is_shard(const psring_comm *comm)
{
    return comm != NULL && comm->rank >= comm->workers;
}

static psr_err check_shard(const psring_comm *comm, const char *what)
{
    return psring_is_shard(comm) ? PSR_OK
                                 : psr_fail(PSR_ERR_USAGE, "%s: this rank is no shard", what);
}

/* ---- updates ---- */

static psr_err define(psring_comm *comm, const char *name, const psring_update *given)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    psr_defined_update *u, known = {0};
    PSR_TRY(check_shard(comm, "psring_update_define"));
    if (given == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_update_define: update is NULL");
    PSR_TRY(psr_options_read("psring_update", given, offsetof(psring_update, float64),
                             &known.update, sizeof known.update));
    size_t length = name != NULL ? strlen(name) : 0;
    if (length == 0 || length >= sizeof known.name || strspn(name, letters) != length)
        return psr_fail(PSR_ERR_USAGE,
                        "psring_update_define: a name has 1 to %zu letters, digits, - and _",
                        sizeof known.name - 1);
    if (psr_applied_is_own(name, length) || psr_applied_defined(comm, name, length) != NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_update_define: there is an update \"%s\" already",
                        name);
    if (known.update.apply == NULL || known.update.states > STATES_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "psring_update_define: apply is needed, and at most %d states", STATES_MAX);
    u = malloc(sizeof *u);
    if (u == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an update");
    memcpy(known.name, name, length);
    known.next = comm->updates;
    *u = known;
    comm->updates = u;
    return PSR_OK;
}

psring_err psring_update_define(psring_comm *comm, const char *name, const psring_update *update)
{
    psr_err err = psr_comm_need(comm, "psring_update_define: comm");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, define(comm, name, update)) : (psring_err)err;
}

/* ---- tables ---- */

static psr_err make_group(psring_comm *comm, const psr_opening *opening, psr_node_group **ret_group,
                          psr_applied **ret_applied)
{
    psr_applied *a = NULL;
    psr_node_group *group = NULL;
    PSR_TRY(psr_applied_new(comm, opening, &a));
    psr_table_update update = psr_applied_update(a);
    update.name = opening->update;
    const psr_node_table_options options = {.update = opening->update,
                                            .registered = &update,
                                            .registered_count = 1,
                                            .owned = a,
                                            .release = psr_applied_free};
    psr_err err = psr_opening_fits(opening, comm->shards, 1 + psr_applied_states(a));
    if (err == PSR_OK)
        err = psr_service_make_group(comm, opening, &options, &group);
    if (err != PSR_OK) {
        psr_applied_free(a);
        return err;
    }
    err = psr_applied_begin(a, psr_node_group_table(group));
    if (err != PSR_OK) {
        psr_node_group_free(group);
        return err;
    }
    *ret_group = group;
    *ret_applied = a;
    return PSR_OK;
}

/* ---- orders of workers ---- */

typedef struct held {
    struct held *next;
    psr_node_group *group;
    psr_applied *applied; /* the group's */
} held;

typedef struct serving {
    psring_comm *comm;
    int64_t (*notices)[PSR_NOTICE_WORDS]; /* [worker] */
    psr_node_request **waiting; /* [worker] the request for its next notice; NULL: it has left */
    uint32_t left, ended;       /* ended: a worker whose notice has come */
    held *tables;
} serving;

static psr_err violated(psring_comm *comm, uint32_t worker, const char *what)
{
    psr_failure failure = {.err = PSR_ERR_PROTOCOL, .rank = worker, .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line,
             "rank %" PRIu32 " tells shard %" PRIu32 " of a table in words that cannot be: %s",
             worker, comm->rank, what);
    return psr_comm_find(comm, psr_service_group(comm, worker), &failure);
}

static psr_err check_opening(const psring_comm *comm, uint32_t worker, const psr_opening *o)
{
    if (!psr_opening_id_is(o->id, worker, comm->view->member_count))
        return psr_fail(PSR_ERR_FORMAT, "group %" PRIu32 " is not its to make", o->id);
    if (o->workers[0] != worker)
        return psr_fail(PSR_ERR_FORMAT, "it is not the first worker");
    for (uint32_t i = 0; i < o->worker_count; i++) {
        if (o->workers[i] >= comm->workers)
            return psr_fail(PSR_ERR_FORMAT, "rank %" PRIu32 " is no worker", o->workers[i]);
        for (uint32_t k = 0; k < i; k++)
            if (o->workers[k] == o->workers[i])
                return psr_fail(PSR_ERR_FORMAT, "rank %" PRIu32 " stands there twice",
                                o->workers[i]);
    }
    return PSR_OK;
}

static psr_err receive_opening(psring_comm *comm, uint32_t worker, int64_t count,
                               psr_opening *ret_opening)
{
    psr_opening opening = {0};
    if (count < 1 || count > OPENING_WORDS_MAX)
        return violated(comm, worker, "it is too long");
    int64_t *words = malloc((size_t)count * sizeof *words);
    if (words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what rank %" PRIu32 " tells of a table",
                        worker);
    psr_err err = psr_service_receive(comm, worker, PSR_SERVICE_OPENING, words, (size_t)count,
                                      &(psring_call){0});
    if (err == PSR_OK) {
        err = psr_opening_from_words(words, (size_t)count, &opening);
        if (err == PSR_OK)
            err = check_opening(comm, worker, &opening);
        if (err == PSR_ERR_FORMAT)
            err = violated(comm, worker, psr_err_detail());
    }
    free(words);
    if (err != PSR_OK)
        psr_opening_done(&opening);
    else
        *ret_opening = opening;
    return err;
}

static psr_err reply(psring_comm *comm, uint32_t worker, psr_err err, uint32_t states)
{
    psr_reply says = {.err = err, .states = states};
    if (err != PSR_OK)
        snprintf(says.line, sizeof says.line, "rank %" PRIu32 ", a shard: %s", comm->rank,
                 psr_err_detail());
    return psr_service_send(comm, worker, PSR_SERVICE_REPLY, &says, PSR_REPLY_WORDS,
                            &(psring_call){0});
}

/* A table that cannot be held is refused. A later failure is the table's. */
static psr_err begin_table(serving *s, uint32_t worker, const psr_opening *opening)
{
    psring_comm *comm = s->comm;
    psr_node_group *group = NULL;
    int64_t goes = 0;
    psr_applied *applied = NULL;
    held *h = malloc(sizeof *h);
    psr_err made = h != NULL ? make_group(comm, opening, &group, &applied)
                             : psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    psr_err err = reply(comm, worker, made, applied != NULL ? psr_applied_states(applied) : 0);
    if (err == PSR_OK)
        err = psr_service_receive(comm, worker, PSR_SERVICE_GO, &goes, 1, &(psring_call){0});
    if (err != PSR_OK || made != PSR_OK || goes != 1) {
        psr_node_group_free(group);
        free(h);
        return err;
    }
    err = psr_service_open_group(comm, group);
    if (err != PSR_OK) {
        free(h);
        return err;
    }
    *h = (held){s->tables, group, applied};
    s->tables = h;
    err = psr_service_begin_table(comm, group, opening->initial,
                                  &(psring_call){.name = "psring_serve"});
    if (err != PSR_OK)
        (void)psr_comm_give_up(comm, group, err, "begins a table");
    return PSR_OK;
}

static psr_err take_open(serving *s, uint32_t worker, int64_t words)
{
    psr_opening opening;
    PSR_TRY(receive_opening(s->comm, worker, words, &opening));
    psr_err err = PSR_OK;
    for (const held *h = s->tables; h != NULL && err == PSR_OK; h = h->next)
        if (psr_node_group_id(h->group) == opening.id)
            err = violated(s->comm, worker, "there is such a table already");
    if (err == PSR_OK)
        err = begin_table(s, worker, &opening);
    psr_opening_done(&opening);
    return err;
}

static const held *find_held(const serving *s, uint32_t worker, int64_t id)
{
    const held *h = s->tables;
    while (h != NULL &&
           (psr_node_group_id(h->group) != id || psr_node_group_ranks(h->group)[0] != worker))
        h = h->next;
    return h;
}

static psr_err take_set(serving *s, uint32_t worker, int64_t id)
{
    psr_setting setting;
    PSR_TRY(psr_service_receive(s->comm, worker, PSR_SERVICE_SETTING, &setting, PSR_SETTING_WORDS,
                                &(psring_call){0}));
    const held *h = find_held(s, worker, id);
    if (h == NULL)
        return violated(s->comm, worker, "it sets arguments of what it did not open");
    if (setting.from < 0 || setting.done < 0 ||
        memchr(setting.arguments, '\0', sizeof setting.arguments) == NULL)
        return violated(s->comm, worker, "its arguments have no end, or a number is below 0");
    psr_err err = psr_applied_set(h->applied, setting.arguments, (uint64_t)setting.from,
                                  (uint64_t)setting.done);
    return reply(s->comm, worker, err, psr_applied_states(h->applied));
}

static psr_err take_close(serving *s, uint32_t worker, int64_t id)
{
    for (held **at = &s->tables; *at != NULL; at = &(*at)->next) {
        held *h = *at;
        if (psr_node_group_id(h->group) != id || psr_node_group_ranks(h->group)[0] != worker)
            continue;
        *at = h->next;
        psr_err err = psr_driver_order(s->comm->driver, PSR_NODE_CLOSE_GROUP, h->group);
        free(h);
        return err;
    }
    return violated(s->comm, worker, "it closes what it did not open");
}

/* ---- serving ---- */

static psr_err await(serving *s, uint32_t worker)
{
    psr_node_request *request = NULL;
    const psr_request_options options = {.kind = PSR_KIND_RECEIVE,
                                         .type = PSR_TYPE_INT64,
                                         .receive = s->notices[worker],
                                         .count = PSR_NOTICE_WORDS,
                                         .peer = 0,
                                         .tag = PSR_SERVICE_NOTICE};
    psr_node_group *service = psr_service_group(s->comm, worker);
    PSR_TRY(psr_node_request_new(service, &options, INT64_MAX, "psring_serve", &request));
    psr_node_request_open_ended(request);
    psr_node_request_begins(request);
    psr_err err = psr_driver_order(s->comm->driver, PSR_NODE_START, request);
    if (err != PSR_OK)
        psr_node_request_free(request);
    else
        s->waiting[worker] = request;
    return err;
}

static psr_err take_notice(serving *s, uint32_t worker)
{
    const int64_t number = s->notices[worker][PSR_NOTICE_NUMBER];
    switch (s->notices[worker][PSR_NOTICE_WHAT]) {
    case PSR_NOTICE_OPEN:
        PSR_TRY(take_open(s, worker, number));
        return await(s, worker);
    case PSR_NOTICE_CLOSE:
        PSR_TRY(take_close(s, worker, number));
        return await(s, worker);
    case PSR_NOTICE_SET:
        PSR_TRY(take_set(s, worker, number));
        return await(s, worker);
    case PSR_NOTICE_LEAVE:
        s->left++;
        return PSR_OK;
    default:
        return violated(s->comm, worker, "there is no such notice");
    }
}

static bool any_came(void *context)
{
    serving *s = context;
    for (s->ended = 0; s->ended < s->comm->workers; s->ended++)
        if (s->waiting[s->ended] != NULL && psr_node_request_ended(s->waiting[s->ended]))
            return true;
    return false;
}

/* The worker has failed, or could not be told something: the shards serve the others. If all shards
 * fail, so does this one. */
static psr_err lose(serving *s, uint32_t worker, psr_err err)
{
    psring_comm *comm = s->comm;
    psr_node_group *service = psr_service_group(comm, worker);
    PSR_TRY(psr_comm_check(comm, comm->world.group));
    (void)psr_comm_give_up(comm, service, err, "serves tables");
    *psr_node_group_told(service) = true; /* its worker and the other shards know */
    s->left++;
    return PSR_OK;
}

static psr_err serve(serving *s)
{
    psring_comm *comm = s->comm;
    for (uint32_t w = 0; w < comm->workers; w++)
        if (await(s, w) != PSR_OK)
            PSR_TRY(lose(s, w, PSR_ERR_NOMEM));
    while (s->left < comm->workers) {
        (void)psr_driver_wait(comm->driver, any_came, s, INT64_MAX);
        const uint32_t worker = s->ended;
        psr_node_request *came = s->waiting[worker];
        s->waiting[worker] = NULL;
        psr_err err = psr_comm_finish(comm, came);
        if (err == PSR_OK)
            err = take_notice(s, worker);
        if (err != PSR_OK)
            PSR_TRY(lose(s, worker, err));
    }
    return PSR_OK;
}

/* Tables that nobody closed are freed with comm. */
static psr_err serve_all(psring_comm *comm)
{
    PSR_TRY(check_shard(comm, "psring_serve"));
    PSR_TRY(psr_comm_check(comm, comm->world.group));
    if (comm->served) /* no rank is left that could say it again */
        return PSR_OK;
    serving s = {.comm = comm,
                 .notices = calloc(comm->workers, sizeof *s.notices),
                 .waiting = calloc(comm->workers, sizeof *s.waiting)};
    psr_err err = s.notices != NULL && s.waiting != NULL
                      ? serve(&s)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " workers", comm->workers);
    /* operations that are still waited for end with the failure, which is everybody's */
    if (err != PSR_OK) {
        err = psr_comm_give_up(comm, comm->world.group, err, "serves tables");
        for (uint32_t w = 0; w < comm->workers; w++)
            (void)psr_comm_give_up(comm, psr_service_group(comm, w), err, "serves tables");
        for (uint32_t w = 0; w < comm->workers && s.waiting != NULL; w++)
            if (s.waiting[w] != NULL)
                (void)psr_comm_finish(comm, s.waiting[w]);
    }
    comm->served = err == PSR_OK;
    while (s.tables != NULL) {
        held *next = s.tables->next;
        free(s.tables);
        s.tables = next;
    }
    free(s.notices);
    free(s.waiting);
    return err;
}

psring_err psring_serve(psring_comm *comm)
{
    psr_err err = psr_comm_need(comm, "psring_serve: comm");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, serve_all(comm)) : (psring_err)err;
}
