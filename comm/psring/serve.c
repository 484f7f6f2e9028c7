/* Tables on a shard: updates, and the orders of other ranks until they leave. */
#include "comm/psring/service.h"

#include "base/arrays/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATES_MAX = 8, OPENING_WORDS_MAX = 2 * PSR_OPENING_PARTS_MAX };

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

static psr_defined_update *find_update(const psring_comm *comm, const char *name, size_t length)
{
    for (psr_defined_update *u = comm->updates; u != NULL; u = u->next)
        if (strlen(u->name) == length && strncmp(u->name, name, length) == 0)
            return u;
    return NULL;
}

static bool is_own(const char *name, size_t length)
{
    return (length == strlen("sum") && strncmp(name, "sum", length) == 0) ||
           (length == strlen("assign") && strncmp(name, "assign", length) == 0);
}

static psr_err define(psring_comm *comm, const char *name, const psring_update *given)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    psr_defined_update *u, known = {0};
    PSR_TRY(check_shard(comm, "psring_update_define"));
    if (given == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_update_define: update is NULL");
    PSR_TRY(psr_options_read("psring_update", given, sizeof *given, &known.update,
                             sizeof known.update));
    size_t length = name != NULL ? strlen(name) : 0;
    if (length == 0 || length >= sizeof known.name || strspn(name, letters) != length)
        return psr_fail(PSR_ERR_USAGE,
                        "psring_update_define: a name has 1 to %zu letters, digits, - and _",
                        sizeof known.name - 1);
    if (is_own(name, length) || find_update(comm, name, length) != NULL)
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

/* ---- an update in a table ---- */

/* Owned by the table, and freed with it. */
typedef struct applied {
    psring_update update;
    const char *arguments; /* points into text */
    uint64_t before;       /* updates that an earlier run has made */
    char text[PSR_OPENING_UPDATE_BYTES];
    psr_node_table *table;
    uint32_t rank; /* the shard's */
    uint32_t part_count;
    size_t length; /* of one state */
    float *states[STATES_MAX];
} applied;

static void free_applied(void *owned)
{
    applied *a = owned;
    for (uint32_t s = 0; s < a->update.states; s++)
        if (a->states[s] != NULL)
            psr_arena_free(a->states[s], a->length);
    free(a);
}

static psr_err apply(void *context, const psr_table_run *run)
{
    const applied *a = context;
    const uint32_t part = a->part_count - 1 - run->part;
    float *states[STATES_MAX];
    for (uint32_t s = 0; s < a->update.states; s++)
        states[s] = a->states[s] + run->span.offset;
    const psring_update_run given = {.size = sizeof given,
                                     .arguments = a->arguments,
                                     .number = a->before + run->number,
                                     .part = part,
                                     .offset = run->span.offset -
                                               psr_node_table_part(a->table, part).offset,
                                     .count = run->span.count,
                                     .values = run->values,
                                     .pushed = run->pushed,
                                     .states = states};
    psring_err err = a->update.apply(a->update.context, &given);
    if (err == PSRING_OK)
        return PSR_OK;
    if (err != PSRING_ERR_NUMERIC && err != PSRING_ERR_USAGE && err != PSRING_ERR_NOMEM &&
        err != PSRING_ERR_IO)
        err = PSRING_ERR_COMPUTE; /* other errors would speak of ranks and messages */
    return psr_fail((psr_err)err,
                    "rank %" PRIu32 ", a shard: update %" PRIu64 " of part %" PRIu32
                    " by \"%s\" failed: %s",
                    a->rank, given.number, part, a->text, psr_err_name((psr_err)err));
}

static float *state_of(void *context, uint32_t state)
{
    return ((const applied *)context)->states[state];
}

static psr_err refuse_update(const psring_comm *comm, const char *text, size_t length)
{
    char names[256] = "sum, assign";
    size_t used = strlen(names);
    for (const psr_defined_update *u = comm->updates; u != NULL && used < sizeof names; u = u->next)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", u->name);
    return psr_fail(PSR_ERR_USAGE, "there is no update \"%.*s\", but %s", (int)length, text, names);
}

static psr_err check_arguments(const psring_update *update, const char *text, const char *arguments)
{
    char line[256] = "its arguments are not what it takes";
    if (update->check == NULL && arguments[0] == '\0')
        return PSR_OK;
    if (update->check == NULL)
        return psr_fail(PSR_ERR_USAGE, "update \"%s\": it takes no arguments", text);
    psring_err err = update->check(update->context, arguments, line, sizeof line);
    line[sizeof line - 1] = '\0';
    if (err == PSRING_OK)
        return PSR_OK;
    return psr_fail(err == PSRING_ERR_NOMEM ? PSR_ERR_NOMEM : PSR_ERR_USAGE, "update \"%s\": %s",
                    text, line);
}

/* NULL for the communicator's own updates. The caller owns *ret_applied: free_applied. */
static psr_err resolve(const psring_comm *comm, const char *text, applied **ret_applied)
{
    const size_t length = strcspn(text, " ");
    const char *arguments = text + length + strspn(text + length, " ");
    const psr_defined_update *u = find_update(comm, text, length);
    if (u == NULL && !is_own(text, length))
        return refuse_update(comm, text, length);
    if (u == NULL) {
        *ret_applied = NULL;
        return check_arguments(&(psring_update){0}, text, arguments);
    }
    PSR_TRY(check_arguments(&u->update, text, arguments));
    applied *a = calloc(1, sizeof *a);
    if (a == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an update");
    a->rank = comm->rank;
    a->update = u->update;
    strcpy(a->text, text);
    a->arguments = a->text + (arguments - text);
    *ret_applied = a;
    return PSR_OK;
}

static psr_err make_states(applied *a, psr_node_table *table)
{
    a->table = table;
    a->length = psr_node_table_length(table);
    for (uint32_t s = 0; s < a->update.states; s++)
        PSR_TRY(psr_arena_new(a->length, &a->states[s]));
    return PSR_OK;
}

static psr_err make_group(psring_comm *comm, const psr_opening *opening, psr_node_group **ret_group,
                          uint32_t *ret_states)
{
    applied *a = NULL;
    psr_node_group *group = NULL;
    PSR_TRY(resolve(comm, opening->update, &a));
    const psr_table_update update = {.name = opening->update,
                                     .context = a,
                                     .state_count = a != NULL ? a->update.states : 0,
                                     .state = state_of,
                                     .apply = apply};
    const psr_node_table_options options = {.update = opening->update,
                                            .registered = &update,
                                            .registered_count = a != NULL ? 1 : 0,
                                            .owned = a,
                                            .release = a != NULL ? free_applied : NULL};
    if (a != NULL) {
        a->part_count = opening->part_count;
        a->before = opening->updates;
    }
    psr_err err = psr_opening_fits(opening, comm->shards, 1 + update.state_count);
    if (err == PSR_OK)
        err = psr_service_make_group(comm, opening, &options, &group);
    if (err != PSR_OK) {
        if (a != NULL)
            free_applied(a);
        return err;
    }
    if (a != NULL)
        err = make_states(a, psr_node_group_table(group));
    if (err != PSR_OK) {
        psr_node_group_free(group);
        return err;
    }
    *ret_group = group;
    *ret_states = update.state_count;
    return PSR_OK;
}

/* ---- orders of workers ---- */

typedef struct held {
    struct held *next;
    psr_node_group *group;
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
    uint32_t states = 0;
    held *h = malloc(sizeof *h);
    psr_err made = h != NULL ? make_group(comm, opening, &group, &states)
                             : psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    psr_err err = reply(comm, worker, made, states);
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
    *h = (held){s->tables, group};
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
