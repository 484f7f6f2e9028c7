/* Groups: which ranks, in which order, under which number. */
#include "comm/psring/internal.h"
#include "comm/psring/opening.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A group's id is made by one of its ranks from that rank and a count of its own, so no two ranks
 * can make the same id. The world's is 0. */
static uint32_t id_of(const psring_comm *comm, uint64_t number, uint32_t first)
{
    return (uint32_t)(number * comm->view->member_count + first);
}

static psr_err check_number(const psring_comm *comm)
{
    if (comm->next_group < UINT32_MAX / comm->view->member_count)
        return PSR_OK;
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "this rank has begun %" PRIu64 " groups: there are no more numbers",
                    comm->next_group);
}

psr_err psr_comm_next_group(psring_comm *comm, uint32_t *ret_id)
{
    PSR_TRY(check_number(comm));
    *ret_id = id_of(comm, comm->next_group++, comm->rank);
    return PSR_OK;
}

/* ---- what is known ---- */

psring_group *psring_world(psring_comm *comm)
{
    return comm != NULL ? &comm->world : NULL;
}

int psring_rank(const psring_group *group)
{
    return group != NULL ? (int)psr_node_group_rank(group->group) : PSRING_NO_RANK;
}

int psring_size(const psring_group *group)
{
    return group != NULL ? (int)psr_node_group_size(group->group) : 0;
}

uint64_t psring_epoch(const psring_group *group)
{
    return group != NULL ? psr_node_group_epoch(group->group) : 0;
}

static const char *host_of(const psring_comm *comm, uint32_t world_rank)
{
    return psr_view_find(comm->view, (psr_peer){PSR_ROLE_WORKER, world_rank})->host;
}

/* rank is a rank of the group. */
static uint32_t world_rank(const psring_group *group, int rank)
{
    return psr_node_group_ranks(group->group)[rank];
}

const char *psring_host(const psring_group *group, int rank)
{
    if (rank < 0 || rank >= psring_size(group))
        return NULL;
    return host_of(group->comm, world_rank(group, rank));
}

int psring_local_rank(const psring_group *group, int *ret_local_size)
{
    int place = group != NULL ? 0 : PSRING_NO_RANK, size = 0, self = psring_rank(group);
    for (int r = 0; r < psring_size(group); r++) {
        bool here = strcmp(psring_host(group, r), psring_host(group, self)) == 0;
        place += here && r < self;
        size += here;
    }
    if (ret_local_size != NULL)
        *ret_local_size = size;
    return place;
}

int psring_group_translate(const psring_group *from, int rank, const psring_group *to)
{
    if (from == NULL || to == NULL || from->comm != to->comm || rank < 0 ||
        rank >= psring_size(from))
        return PSRING_NO_RANK;
    for (int r = 0; r < psring_size(to); r++)
        if (world_rank(to, r) == world_rank(from, rank))
            return r;
    return PSRING_NO_RANK;
}

/* ---- making one ---- */

void psr_comm_add_group(psring_comm *comm, psr_node_group *open, psring_group *group)
{
    *group = (psring_group){.comm = comm, .next = comm->groups, .group = open};
    if (comm->groups != NULL)
        comm->groups->previous = group;
    comm->groups = group;
}

static const psr_request_options opening_barrier = {
    .kind = PSR_KIND_BARRIER, .type = PSR_TYPE_UINT8, .within = "making", .uncounted = true};

/* Some of its ranks may have the group and others not. So all get it, and its next call returns the
 * failure. */
static bool failed_alone(const psring_comm *comm, const psr_node_group *opened,
                         const psr_node_group *parent)
{
    const psr_failure *failure = psr_node_group_failure(opened);
    return failure != NULL && failure->scope == PSR_SCOPE_GROUP &&
           psr_node_group_failure(parent) == NULL && psr_node_failure(comm->node) == NULL;
}

/* A group is made with a deadline and a name only. */
static psr_err read_call(const psring_call *given, psring_call *ret_call)
{
    psring_call call;
    PSR_TRY(psr_options_read("psring_call", given, PSR_CALL_FIRST_BYTES, &call, sizeof call));
    if (call.algorithm != NULL || call.counts != NULL || call.persistent || call.message != NULL ||
        call.buffered || call.encoding != NULL || call.priority != 0)
        return psr_fail(PSR_ERR_USAGE, "a group is made with a deadline and a name alone");
    *ret_call = call;
    return PSR_OK;
}

/* ---- what is being made ---- */

typedef struct choice {
    int64_t colour, key, number; /* number: for a group whose first rank is this one */
} choice;

enum { CHOICE_VALUES = sizeof(choice) / sizeof(int64_t) };

/* What the lowest rank of a list sends to the others. The beginning of its list is for the line of
 * a rank whose list differs. */
enum { LISTED = 8 };
enum { TOLD_NUMBER, TOLD_DIGEST, TOLD_COUNT, TOLD_RANKS, TOLD = TOLD_RANKS + LISTED };

/* A group that is being made. When this rank knows its number and its ranks, the progress thread
 * opens it and begins its first barrier, so that no rank gets it before it is open on all. */
struct psr_making {
    psring_comm *comm;
    psr_node_group *parent; /* borrowed until the request has ended */
    int64_t deadline_ms;
    choice own, *all;   /* of a split; all: [ranks of parent]; owned, as ranks */
    int64_t ours[TOLD]; /* of a list: what the lowest rank sends; */
    int64_t told[TOLD]; /* what has come from it; and */
    int first, count;   /* the lowest rank, in parent, and how many ranks there are */
    uint32_t unsent;    /* on the lowest rank: messages that have not been received */
    int *ranks;         /* numbered in parent */
    bool differs;       /* the lists differ: the failure of parent */
    psr_failure failure;
    psring_group *group;    /* allocated for the caller's group; owned until the caller gets it */
    psr_node_group *opened; /* NULL: there is none */
    psring_group **ret_group;
};

void psr_making_free(psr_making *m)
{
    if (m == NULL)
        return;
    /* nobody asked for the result: the group ends with comm */
    if (m->opened != NULL && m->group != NULL) {
        psr_comm_add_group(m->comm, m->opened, m->group);
        m->group = NULL;
    }
    free(m->all);
    free(m->ranks);
    free(m->group);
    free(m);
}

/* Returns when all ranks of parent have the failure. */
static psr_err end_different(psr_making *m, psr_err err)
{
    if (psr_node_group_failure(m->parent) == NULL)
        return psr_comm_find(m->comm, m->parent, &m->failure);
    *psr_node_group_told(m->parent) = true;
    return err;
}

psr_err psr_making_end(psr_making *m, psr_err err)
{
    if (m->group == NULL) /* returned before */
        return err;
    if (m->differs)
        return end_different(m, err);
    if (m->opened == NULL) {
        if (err == PSR_OK)
            *m->ret_group = NULL;
        return err;
    }
    psr_comm_add_group(m->comm, m->opened, m->group);
    psring_group *group = m->group;
    m->group = NULL;
    if (err != PSR_OK && failed_alone(m->comm, m->opened, m->parent)) {
        *psr_node_group_told(m->opened) = false;
        *m->ret_group = group;
        return PSR_OK;
    }
    /* the group ends with comm; if its parent has failed, that is the reason */
    if (err != PSR_OK) {
        *psr_node_group_told(m->opened) = true;
        if (psr_node_group_failure(m->parent) != NULL)
            *psr_node_group_told(m->parent) = true;
        return err;
    }
    psr_node_group_begins(m->opened);
    *m->ret_group = group;
    return PSR_OK;
}

static psr_err making_new(psring_group *parent, const psring_call *call, psring_group **ret_group,
                          psr_making **ret_making)
{
    const size_t size = (size_t)psring_size(parent);
    psr_making *m = calloc(1, sizeof *m);
    if (m == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %zu ranks", size);
    *m = (psr_making){.comm = parent->comm,
                      .parent = parent->group,
                      .deadline_ms =
                          call->deadline_ms > 0 ? call->deadline_ms : parent->comm->deadline_ms,
                      .all = calloc(size, sizeof *m->all),
                      .ranks = calloc(size, sizeof *m->ranks),
                      .group = calloc(1, sizeof *m->group),
                      .ret_group = ret_group};
    if (m->all == NULL || m->ranks == NULL || m->group == NULL) {
        psr_making_free(m);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %zu ranks", size);
    }
    *ret_making = m;
    return PSR_OK;
}

/* Runs on the progress thread. first: the rank of all that gives the number; ranks: of all. */
static psr_err open_made(psr_making *m, psr_node *node, int64_t now_ms, uint64_t number,
                         uint32_t first, int count, psr_node_request **ret_next)
{
    const uint32_t *of_all = psr_node_group_ranks(m->parent);
    uint32_t *ranks = calloc((size_t)count, sizeof *ranks);
    if (ranks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %d ranks", count);
    for (int i = 0; i < count; i++)
        ranks[i] = of_all[m->ranks[i]];
    psr_node_group *opened = NULL;
    psr_err err =
        psr_node_group_new(node, psr_node_group_epoch(m->parent), id_of(m->comm, number, first),
                           ranks, (uint32_t)count, &opened);
    free(ranks);
    if (err != PSR_OK)
        return err;
    m->opened = opened;
    psr_node_group_made_of(opened, m->parent);
    psr_node_take(node, PSR_NODE_OPEN_GROUP, opened, now_ms);
    return psr_node_request_new(opened, &opening_barrier, m->deadline_ms, NULL, ret_next);
}

static bool can_be_number(const psring_comm *comm, int64_t number, uint32_t first)
{
    const uint32_t all = comm->view->member_count;
    return number > 0 && number <= UINT32_MAX &&
           psr_opening_id_is((uint64_t)number * all + first, first, all);
}

/* ---- from a list ---- */

static psr_err check_list(const psring_group *parent, const int *ranks, int count)
{
    bool own = false;
    if (ranks == NULL || count < 1)
        return psr_fail(PSR_ERR_USAGE, "a group of %d ranks", count);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= psring_size(parent))
            return psr_fail(PSR_ERR_USAGE, "a group with rank %d: there are %d", ranks[i],
                            psring_size(parent));
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return psr_fail(PSR_ERR_USAGE, "a group with rank %d twice", ranks[i]);
        own = own || ranks[i] == psring_rank(parent);
    }
    return own ? PSR_OK
               : psr_fail(PSR_ERR_USAGE, "this rank, %d, is not in the list", psring_rank(parent));
}

/* FNV-1a. */
static uint64_t digest_of(const int *ranks, int count)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    const unsigned char *bytes = (const unsigned char *)ranks;
    for (size_t i = 0; i < (size_t)count * sizeof *ranks; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static psr_request_options message_of(psr_kind kind, int64_t *told, int peer)
{
    return (psr_request_options){.kind = kind,
                                 .type = PSR_TYPE_INT64,
                                 .send = kind == PSR_KIND_SEND ? told : NULL,
                                 .receive = kind == PSR_KIND_RECEIVE ? told : NULL,
                                 .count = TOLD,
                                 .peer = (uint32_t)peer,
                                 .tag = PSR_MESSAGE_TAG_MAX, /* no caller can use this tag */
                                 .within = "group_from_ranks"};
}

/* The lowest rank of the list sends to the others, so lists of the same ranks in different orders
 * are found. */
static int lowest(const int *ranks, int count)
{
    int low = ranks[0];
    for (int i = 1; i < count; i++)
        low = ranks[i] < low ? ranks[i] : low;
    return low;
}

static void write_told(const psring_group *parent, const int *ranks, int count, int64_t told[TOLD])
{
    memset(told, 0, TOLD * sizeof told[0]);
    told[TOLD_NUMBER] = (int64_t)parent->comm->next_group;
    told[TOLD_DIGEST] = (int64_t)digest_of(ranks, count);
    told[TOLD_COUNT] = count;
    for (int i = 0; i < count && i < LISTED; i++)
        told[TOLD_RANKS + i] = world_rank(parent, ranks[i]);
}

/* "ranks 0, 2, 3, .." */
static void describe_list(const int64_t told[TOLD], char *text, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < told[TOLD_COUNT] && i < LISTED && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i > 0 ? ", " : "",
                                 told[TOLD_RANKS + i]);
    if (told[TOLD_COUNT] > LISTED && used < size)
        snprintf(text + used, size - used, ", .. (%" PRId64 ")", told[TOLD_COUNT]);
}

/* Runs on the progress thread, as the next ones. All ranks of parent get a MISMATCH now; they get
 * another failure when the owner asks for the result. */
static psr_err find(psr_making *m, psr_node *node, int64_t now_ms)
{
    psr_failure *found = m->failure.err == PSR_ERR_MISMATCH ? malloc(sizeof *found) : NULL;
    m->failure.epoch = (uint32_t)psr_node_group_epoch(m->parent);
    m->failure.group = psr_node_group_id(m->parent);
    m->differs = true;
    if (found != NULL) {
        *found = m->failure;
        psr_node_take(node, PSR_NODE_FIND, found, now_ms);
    }
    return psr_fail(m->failure.err, "%s", m->failure.line);
}

static psr_err other_ranks(psr_making *m, psr_node *node, int64_t now_ms)
{
    char they[192] = "", we[192] = "";
    const uint32_t first = psr_node_group_ranks(m->parent)[m->first];
    m->failure = (psr_failure){.err = PSR_ERR_MISMATCH, .rank = first, .other = m->comm->rank};
    describe_list(m->told, they, sizeof they);
    describe_list(m->ours, we, sizeof we);
    snprintf(m->failure.line, sizeof m->failure.line,
             "rank %" PRIu32 " makes a group of ranks %s; rank %" PRIu32 " makes one of ranks %s",
             first, they, m->comm->rank, we);
    return find(m, node, now_ms);
}

/* The list of the lowest rank has come. */
static psr_err open_told(void *context, psr_node *node, int64_t now_ms, psr_node_request **ret_next)
{
    psr_making *m = context;
    const uint32_t first = psr_node_group_ranks(m->parent)[m->first];
    if (m->told[TOLD_DIGEST] != m->ours[TOLD_DIGEST])
        return other_ranks(m, node, now_ms);
    if (can_be_number(m->comm, m->told[TOLD_NUMBER], first))
        return open_made(m, node, now_ms, (uint64_t)m->told[TOLD_NUMBER], first, m->count,
                         ret_next);
    m->failure = (psr_failure){.err = PSR_ERR_PROTOCOL, .rank = first, .other = PSR_RANK_ANY};
    snprintf(m->failure.line, sizeof m->failure.line,
             "rank %" PRIu32 " gives a group the number %" PRId64 ", which none can have", first,
             m->told[TOLD_NUMBER]);
    return find(m, node, now_ms);
}

/* One more rank has received the list. */
static psr_err open_sent(void *context, psr_node *node, int64_t now_ms, psr_node_request **ret_next)
{
    psr_making *m = context;
    if (--m->unsent > 0)
        return PSR_OK;
    return open_made(m, node, now_ms, (uint64_t)m->ours[TOLD_NUMBER], m->comm->rank, m->count,
                     ret_next);
}

/* The operations of a group that is made from a list; none is ordered yet. */
typedef struct operations {
    psr_node_request **items; /* owned, until they are ordered */
    size_t count;
} operations;

static void drop(operations *o, size_t first)
{
    for (size_t i = first; i < o->count; i++)
        psr_node_request_free(o->items[i]);
    o->count = first;
}

/* The lowest rank sends a message to each other one, which receives it. A rank that is alone in the
 * list sends itself one. */
static psr_err make_operations(psring_group *parent, psr_making *m, const psring_call *call,
                               operations *o)
{
    const bool sends = m->first == psring_rank(parent), alone = m->count == 1;
    o->items = calloc((size_t)m->count + 1, sizeof *o->items);
    if (o->items == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %d ranks", m->count);
    psr_err err = PSR_OK;
    for (int i = 0; i < m->count && err == PSR_OK && sends; i++) {
        if (m->ranks[i] == m->first && !alone)
            continue;
        const psr_request_options send = message_of(PSR_KIND_SEND, m->ours, m->ranks[i]);
        err = psr_node_request_new(parent->group, &send, m->deadline_ms, call->name,
                                   &o->items[o->count]);
        if (err == PSR_OK && !alone)
            psr_node_request_then(o->items[o->count], open_sent, m);
        o->count += err == PSR_OK;
        m->unsent += err == PSR_OK && !alone;
    }
    if (err != PSR_OK || (sends && !alone))
        return err;
    const psr_request_options receive = message_of(PSR_KIND_RECEIVE, m->told, m->first);
    err = psr_node_request_new(parent->group, &receive, m->deadline_ms, call->name,
                               &o->items[o->count]);
    if (err == PSR_OK)
        psr_node_request_then(o->items[o->count++], open_told, m);
    return err;
}

/* Begins to make a group from a list. ret owns: psr_request_end, which frees ret_making. */
static psr_err begin_listed(psring_group *parent, const int *ranks, int count,
                            const psring_call *call, psring_group **ret_group,
                            psring_request **ret_request)
{
    psring_comm *comm = parent->comm;
    psr_making *m = NULL;
    operations o = {0};
    PSR_TRY(check_list(parent, ranks, count));
    if (call->deadline_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "group_from_ranks: deadline_ms is %lld",
                        (long long)call->deadline_ms);
    PSR_TRY(check_number(comm));
    PSR_TRY(making_new(parent, call, ret_group, &m));
    m->first = lowest(ranks, count);
    m->count = count;
    memcpy(m->ranks, ranks, (size_t)count * sizeof *ranks);
    write_told(parent, ranks, count, m->ours);
    psr_err err = make_operations(parent, m, call, &o);
    if (err == PSR_OK)
        err = psr_request_keep_all(comm, parent, o.items, o.count, ret_request);
    else
        drop(&o, 0);
    free(o.items);
    if (err != PSR_OK) {
        psr_making_free(m);
        return err;
    }
    comm->next_group += m->first == psring_rank(parent);
    (*ret_request)->making = m;
    return PSR_OK;
}

static psr_err from_ranks(psring_group *parent, const int *ranks, int count,
                          const psring_call *call, psring_group **ret_group)
{
    psring_request *request = NULL;
    PSR_TRY(begin_listed(parent, ranks, count, call, ret_group, &request));
    psr_err err = psr_request_finish(request);
    psr_request_end(request);
    return err;
}

static psr_err on_host(psring_group *parent, const psring_call *call, psring_group **ret_group)
{
    int size = psring_size(parent), count = 0;
    int *ranks = calloc((size_t)size, sizeof *ranks);
    if (ranks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %d ranks", size);
    for (int r = 0; r < size; r++)
        if (strcmp(psring_host(parent, r), psring_host(parent, psring_rank(parent))) == 0)
            ranks[count++] = r;
    psr_err err = from_ranks(parent, ranks, count, call, ret_group);
    free(ranks);
    return err;
}

/* ---- by colour and key ---- */

/* The ranks of that colour in the order of key, then of rank. Returns how many. */
static int choose(const choice *all, int size, int64_t colour, int *ranks)
{
    int count = 0;
    for (int r = 0; r < size; r++) {
        if (all[r].colour != colour)
            continue;
        int at = count++;
        for (; at > 0 && all[ranks[at - 1]].key > all[r].key; at--)
            ranks[at] = ranks[at - 1];
        ranks[at] = r;
    }
    return count;
}

/* Runs on the progress thread. All ranks check the numbers in the same way. */
static psr_err open_chosen(void *context, psr_node *node, int64_t now_ms,
                           psr_node_request **ret_next)
{
    psr_making *m = context;
    const uint32_t *of_all = psr_node_group_ranks(m->parent);
    if (m->own.colour == PSRING_NO_COLOUR)
        return PSR_OK;
    int count = choose(m->all, (int)psr_node_group_size(m->parent), m->own.colour, m->ranks);
    const int64_t number = m->all[m->ranks[0]].number;
    const uint32_t first = of_all[m->ranks[0]];
    if (!can_be_number(m->comm, number, first))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "rank %" PRIu32 " gives a group the number %" PRId64
                        ", which none can have",
                        first, number);
    return open_made(m, node, now_ms, (uint64_t)number, first, count, ret_next);
}

/* The request is not ordered yet. Each rank sends a number that it uses for no other group; that of
 * the new group's first rank is used. */
static psr_err begin_split(psring_group *parent, int colour, int key, const psring_call *call,
                           psring_group **ret_group, psr_making **ret_making,
                           psr_node_request **ret_request)
{
    psring_comm *comm = parent->comm;
    psr_making *m = NULL;
    if (colour < PSRING_NO_COLOUR)
        return psr_fail(PSR_ERR_USAGE,
                        "colour %d is negative; PSRING_NO_COLOUR, for no group, is %d", colour,
                        PSRING_NO_COLOUR);
    if (call->deadline_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "group_split: deadline_ms is %lld",
                        (long long)call->deadline_ms);
    PSR_TRY(check_number(comm));
    PSR_TRY(making_new(parent, call, ret_group, &m));
    m->own = (choice){colour, key, (int64_t)comm->next_group};
    const psr_request_options options = {.kind = PSR_KIND_GROUP_SPLIT,
                                         .type = PSR_TYPE_INT64,
                                         .send = &m->own,
                                         .receive = m->all,
                                         .count = CHOICE_VALUES};
    psr_err err =
        psr_node_request_new(parent->group, &options, m->deadline_ms, call->name, ret_request);
    if (err != PSR_OK) {
        psr_making_free(m);
        return err;
    }
    comm->next_group++;
    psr_node_request_then(*ret_request, open_chosen, m);
    *ret_making = m;
    return PSR_OK;
}

static psr_err split(psring_group *parent, int colour, int key, const psring_call *call,
                     psring_group **ret_group)
{
    psr_making *m = NULL;
    psr_node_request *request = NULL;
    psr_err err = begin_split(parent, colour, key, call, ret_group, &m, &request);
    if (err != PSR_OK || m == NULL)
        return err;
    err = psr_making_end(m, psr_comm_run(parent->comm, request));
    psr_making_free(m);
    return err;
}

static psr_err split_start(psring_group *parent, int colour, int key, const psring_call *call,
                           psring_group **ret_group, psring_request **ret_request)
{
    psr_making *m = NULL;
    psr_node_request *request = NULL;
    psr_err err = begin_split(parent, colour, key, call, ret_group, &m, &request);
    if (err != PSR_OK || m == NULL)
        return err;
    err = psr_request_keep(parent->comm, parent, request, ret_request);
    if (err != PSR_OK)
        psr_making_free(m);
    else
        (*ret_request)->making = m;
    return err;
}

/* ---- public functions ---- */

/* Begins a call that makes a group. */
static psr_err enter(psring_group *parent, const psring_call *given, psring_group **ret_group,
                     psring_call *ret_call)
{
    PSR_TRY(psr_comm_need(parent, "parent"));
    PSR_TRY(psr_comm_need(ret_group, "ret_group"));
    PSR_TRY(psr_comm_enter(parent->comm));
    psr_err err = read_call(given, ret_call);
    if (err == PSR_OK)
        err = psr_comm_check(parent->comm, parent->group);
    if (err != PSR_OK)
        (void)psr_comm_leave(parent->comm, err);
    return err;
}

psring_err psring_group_from_ranks(psring_group *parent, const int *ranks, int count,
                                   const psring_call *call, psring_group **ret_group)
{
    psring_call known;
    psr_err err = enter(parent, call, ret_group, &known);
    return err == PSR_OK
               ? psr_comm_leave(parent->comm, from_ranks(parent, ranks, count, &known, ret_group))
               : (psring_err)err;
}

psring_err psring_group_from_ranks_start(psring_group *parent, const int *ranks, int count,
                                         const psring_call *call, psring_group **ret_group,
                                         psring_request **ret_request)
{
    psring_call known;
    psr_err err = psr_comm_need(ret_request, "ret_request");
    if (err == PSR_OK)
        err = enter(parent, call, ret_group, &known);
    return err == PSR_OK ? psr_comm_leave(parent->comm, begin_listed(parent, ranks, count, &known,
                                                                     ret_group, ret_request))
                         : (psring_err)err;
}

psring_err psring_group_split(psring_group *parent, int colour, int key, const psring_call *call,
                              psring_group **ret_group)
{
    psring_call known;
    psr_err err = enter(parent, call, ret_group, &known);
    return err == PSR_OK
               ? psr_comm_leave(parent->comm, split(parent, colour, key, &known, ret_group))
               : (psring_err)err;
}

psring_err psring_group_split_start(psring_group *parent, int colour, int key,
                                    const psring_call *call, psring_group **ret_group,
                                    psring_request **ret_request)
{
    psring_call known;
    psr_err err = psr_comm_need(ret_request, "ret_request");
    if (err == PSR_OK)
        err = enter(parent, call, ret_group, &known);
    return err == PSR_OK ? psr_comm_leave(parent->comm, split_start(parent, colour, key, &known,
                                                                    ret_group, ret_request))
                         : (psring_err)err;
}

psring_err psring_group_on_host(psring_group *parent, const psring_call *call,
                                psring_group **ret_group)
{
    psring_call known;
    psr_err err = enter(parent, call, ret_group, &known);
    return err == PSR_OK ? psr_comm_leave(parent->comm, on_host(parent, &known, ret_group))
                         : (psring_err)err;
}

void psring_group_free(psring_group **group)
{
    if (group == NULL || *group == NULL || *group == &(*group)->comm->world)
        return;
    psring_group *gone = *group;
    psring_comm *comm = gone->comm;
    if (psr_comm_enter(comm) != PSR_OK)
        return;
    while (gone->requests != NULL)
        psr_request_end(gone->requests);
    psr_comm_await_buffered(comm, gone->group);
    for (psring_table *t = comm->tables; t != NULL; t = t->next)
        if (t->group == gone)
            t->group = NULL;
    psr_err err = psr_driver_order(comm->driver, PSR_NODE_CLOSE_GROUP, gone->group);
    (void)err; /* without memory for the order it ends with comm */
    *(gone->previous != NULL ? &gone->previous->next : &comm->groups) = gone->next;
    if (gone->next != NULL)
        gone->next->previous = gone->previous;
    free(gone);
    *group = NULL;
    (void)psr_comm_leave(comm, PSR_OK);
}
