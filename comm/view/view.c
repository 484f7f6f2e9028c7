#include "comm/view/view.h"

#include "base/text/json_fields.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX 4096
#define BUCKETS_MAX (1u << 24)
#define ARENA_MAX (UINT64_C(1) << 40) /* in floats */
#define STEPS_MAX (UINT64_C(1) << 53)
#define WINDOW_MAX (1u << 20)

static const char routes[] = {
    [PSR_ROUTE_NONE] = '-', [PSR_ROUTE_RING] = 'r',   [PSR_ROUTE_SHARD] = 's',
    [PSR_ROUTE_HOST] = 'h', [PSR_ROUTE_FROZEN] = 'f', '\0'};

void psr_view_done(psr_view *view)
{
    free(view->members);
    psr_plan_done(&view->plan);
    *view = (psr_view){0};
}

/* ---- holders ---- */

typedef struct counted_view {
    psr_view view; /* first, because a view that is held is one of these */
    _Atomic uint32_t holders;
} counted_view;

psr_err psr_view_keep(psr_view *view, const psr_view **ret_view)
{
    counted_view *counted = malloc(sizeof *counted);
    if (counted == NULL) {
        psr_view_done(view);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a view");
    }
    counted->view = *view;
    atomic_init(&counted->holders, 1);
    *view = (psr_view){0};
    *ret_view = &counted->view;
    return PSR_OK;
}

/* Only the count of holders is changed. */
static counted_view *counted_of(const psr_view *view)
{
    return (counted_view *)(uintptr_t)view;
}

const psr_view *psr_view_hold(const psr_view *view)
{
    atomic_fetch_add_explicit(&counted_of(view)->holders, 1, memory_order_relaxed);
    return view;
}

void psr_view_release(const psr_view *view)
{
    counted_view *counted = counted_of(view);
    if (counted == NULL ||
        atomic_fetch_sub_explicit(&counted->holders, 1, memory_order_acq_rel) > 1)
        return;
    psr_view_done(&counted->view);
    free(counted);
}

uint32_t psr_view_workers(const psr_view *view)
{
    return view->plan.ranks;
}

uint32_t psr_view_shards(const psr_view *view)
{
    return view->plan.shards;
}

const psr_view_member *psr_view_find(const psr_view *view, psr_peer peer)
{
    for (uint32_t i = 0; i < view->member_count; i++)
        if (psr_peer_equal(view->members[i].peer, peer))
            return &view->members[i];
    return NULL;
}

/* ---- members ---- */

bool psr_role_parse(const char *name, psr_role *ret_role)
{
    static const psr_role roles[] = {PSR_ROLE_SCHEDULER, PSR_ROLE_SHARD, PSR_ROLE_WORKER};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(name, psr_role_name(roles[i])) == 0) {
            *ret_role = roles[i];
            return true;
        }
    return false;
}

static cJSON *members_array(const psr_view *view)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t i = 0; array != NULL && i < view->member_count; i++) {
        psr_fields_writer w = psr_fields_begin();
        psr_fields_put_text(&w, "role", psr_role_name(view->members[i].peer.role));
        psr_fields_put_number(&w, "rank", view->members[i].peer.rank);
        psr_fields_put_text(&w, "host", view->members[i].host);
        psr_fields_put_text(&w, "endpoint", view->members[i].endpoint);
        if (view->members[i].memory.socket[0] != '\0')
            psr_fields_put_item(&w, "memory", psr_memory_place_to_object(&view->members[i].memory));
        if (w.failed || !cJSON_AddItemToArray(array, w.object)) {
            cJSON_Delete(w.object);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

psr_err psr_view_members_to_json(const psr_view *view, char **ret_json)
{
    psr_fields_writer w = {members_array(view), false};
    w.failed = w.object == NULL;
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_member(const cJSON *object, psr_view_member *member)
{
    char role[16];
    PSR_TRY(psr_fields_text(object, "role", role, sizeof role));
    if (!psr_role_parse(role, &member->peer.role))
        return psr_fail(PSR_ERR_FORMAT, "field \"role\" is \"%s\"", role);
    PSR_TRY(psr_fields_u32(object, "rank", &member->peer.rank));
    PSR_TRY(psr_fields_text(object, "host", member->host, sizeof member->host));
    PSR_TRY(psr_fields_text(object, "endpoint", member->endpoint, sizeof member->endpoint));
    return psr_memory_place_from_object(cJSON_GetObjectItemCaseSensitive(object, "memory"),
                                        &member->memory);
}

static psr_err read_members(const cJSON *object, psr_view *view)
{
    const cJSON *members = cJSON_GetObjectItemCaseSensitive(object, "members"), *item;
    if (!cJSON_IsArray(members))
        return psr_fail(PSR_ERR_FORMAT, "field \"members\" is missing");
    int count = cJSON_GetArraySize(members);
    if (count > MEMBERS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "field \"members\" has %d entries, more than %d", count,
                        MEMBERS_MAX);
    view->members = calloc((size_t)count + 1, sizeof *view->members);
    if (view->members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %d members", count);
    cJSON_ArrayForEach(item, members)
    {
        psr_view_member member = {0};
        PSR_TRY(read_member(item, &member));
        if (psr_view_find(view, member.peer) != NULL)
            return psr_fail(PSR_ERR_FORMAT, "field \"members\" has %s %" PRIu32 " twice",
                            psr_role_name(member.peer.role), member.peer.rank);
        view->members[view->member_count++] = member;
    }
    return PSR_OK;
}

/* ---- the plan: buckets by their lengths, from the arena's end ---- */

static cJSON *numbers_array(const psr_plan *plan, size_t (*number)(const psr_plan_bucket *bucket))
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t b = 0; array != NULL && b < plan->bucket_count; b++) {
        cJSON *item = cJSON_CreateNumber((double)number(&plan->buckets[b]));
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

static size_t length_of(const psr_plan_bucket *bucket)
{
    return bucket->span.count;
}

static size_t home_of(const psr_plan_bucket *bucket)
{
    return bucket->home;
}

static cJSON *routes_text(const psr_plan *plan)
{
    char *text = calloc((size_t)plan->bucket_count + 1, 1);
    if (text == NULL)
        return NULL;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        text[b] = routes[plan->buckets[b].route];
    cJSON *item = cJSON_CreateString(text);
    free(text);
    return item;
}

static void put_compression(psr_fields_writer *w, const char *name, psr_compression compression)
{
    char text[PSR_COMPRESSION_TEXT_BYTES];
    psr_compression_print(compression, text);
    psr_fields_put_text(w, name, text);
}

static cJSON *compressions_array(const psr_plan *plan)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t b = 0; array != NULL && b < plan->bucket_count; b++) {
        char text[PSR_COMPRESSION_TEXT_BYTES];
        psr_compression_print(plan->buckets[b].compression, text);
        cJSON *item = cJSON_CreateString(text);
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

/* The first rank of each host. */
static cJSON *hosts_array(const psr_host_ranks *hosts)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t h = 0; array != NULL && h < hosts->count; h++) {
        cJSON *item = cJSON_CreateNumber(hosts->first[h]);
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

static cJSON *plan_object(const psr_plan *plan)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "ranks", plan->ranks);
    psr_fields_put_number(&w, "shards", plan->shards);
    if (plan->hosts.count > 0)
        psr_fields_put_item(&w, "hosts", hosts_array(&plan->hosts));
    psr_fields_put_number(&w, "slice_floats", plan->slice_floats);
    psr_fields_put_number(&w, "window", plan->window);
    put_compression(&w, "pulled", plan->pulled);
    if (plan->reversed)
        psr_fields_put_item(&w, "reversed", cJSON_CreateTrue());
    psr_fields_put_item(&w, "routes", routes_text(plan));
    psr_fields_put_item(&w, "lengths", numbers_array(plan, length_of));
    psr_fields_put_item(&w, "homes", numbers_array(plan, home_of));
    psr_fields_put_item(&w, "compressions", compressions_array(plan));
    if (w.failed) {
        cJSON_Delete(w.object);
        return NULL;
    }
    return w.object;
}

static bool read_whole(const cJSON *item, uint64_t least, uint64_t most, uint64_t *ret_value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= (double)least) ||
        !(item->valuedouble <= (double)most) ||
        item->valuedouble != (double)(uint64_t)item->valuedouble)
        return false;
    *ret_value = (uint64_t)item->valuedouble;
    return true;
}

/* Which of the ranks are on one host. The caller owns ret_hosts->first. */
static psr_err read_hosts(const cJSON *object, uint64_t ranks, psr_host_ranks *ret_hosts)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "hosts"), *item;
    const int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || (uint64_t)count > ranks)
        return psr_fail(PSR_ERR_FORMAT, "field \"hosts\" is missing or not of %" PRIu64 " workers",
                        ranks);
    psr_host_ranks hosts = {0, calloc((size_t)count + 1, sizeof *hosts.first)};
    if (hosts.first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %d hosts", count);
    uint64_t least = 0, first = 0;
    cJSON_ArrayForEach(item, list)
    {
        if (!read_whole(item, least, hosts.count == 0 ? 0 : ranks - 1, &first)) {
            free(hosts.first);
            return psr_fail(PSR_ERR_FORMAT, "field \"hosts\" does not ascend from 0 to a rank");
        }
        hosts.first[hosts.count++] = (uint32_t)first;
        least = first + 1;
    }
    hosts.first[hosts.count] = (uint32_t)ranks;
    *ret_hosts = hosts;
    return PSR_OK;
}

/* limits will point to pulled and hosts; the caller frees hosts->first, also of a failure. */
static psr_err read_limits(const cJSON *object, psr_plan_options *limits, psr_compression *pulled,
                           psr_host_ranks *hosts)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(object, "pulled"),
                *reversed = cJSON_GetObjectItemCaseSensitive(object, "reversed");
    uint64_t ranks = 0, shards = 0, slice_floats = 0, window = 0;
    const bool has_hosts = cJSON_GetObjectItemCaseSensitive(object, "hosts") != NULL;
    PSR_TRY(psr_fields_number(object, "ranks", MEMBERS_MAX, &ranks));
    PSR_TRY(psr_fields_number(object, "shards", MEMBERS_MAX, &shards));
    PSR_TRY(psr_fields_number(object, "slice_floats", ARENA_MAX, &slice_floats));
    PSR_TRY(psr_fields_number(object, "window", WINDOW_MAX, &window));
    if (ranks == 0 || slice_floats == 0 || window == 0)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is 0",
                        ranks == 0    ? "ranks"
                        : window == 0 ? "window"
                                      : "slice_floats");
    if (!cJSON_IsString(text) || psr_compression_parse(text->valuestring, pulled) != PSR_OK)
        return psr_fail(PSR_ERR_FORMAT, "field \"pulled\" is no compression");
    if (reversed != NULL && !cJSON_IsBool(reversed))
        return psr_fail(PSR_ERR_FORMAT, "field \"reversed\" is neither true nor false");
    if (has_hosts)
        PSR_TRY(read_hosts(object, ranks, hosts));
    if (cJSON_IsTrue(reversed) && hosts->count > 1)
        return psr_fail(PSR_ERR_FORMAT, "field \"reversed\" is true over several hosts");
    *limits = (psr_plan_options){.ranks = (uint32_t)ranks,
                                 .shards = (uint32_t)shards,
                                 .hosts = has_hosts ? hosts : NULL,
                                 .slice_floats = (size_t)slice_floats,
                                 .window = (uint32_t)window,
                                 .pulled = pulled,
                                 .reversed = cJSON_IsTrue(reversed)};
    return PSR_OK;
}

/* The entry of the next bucket in each of the plan's lists. */
typedef struct bucket_fields {
    const char *way; /* a letter */
    const cJSON *length, *home, *compression;
} bucket_fields;

/* The number of homes by that route: 1 if nothing is held by it, which nobody reads. */
static uint64_t homes_by(const psr_plan_options *limits, psr_route route)
{
    switch (route) {
    case PSR_ROUTE_SHARD:
        return limits->shards;
    case PSR_ROUTE_HOST:
        return limits->hosts != NULL ? psr_host_ranks_homes(limits->hosts) : 0;
    case PSR_ROUTE_RING:
    case PSR_ROUTE_NONE:
    case PSR_ROUTE_FROZEN:
    case PSR_ROUTES:
        break;
    }
    return 1;
}

static psr_err read_bucket(const bucket_fields *at, const psr_plan_options *limits,
                           psr_plan_bucket *bucket)
{
    uint64_t count = 0, home = 0;
    psr_compression compression;
    const char *known = strchr(routes, *at->way);
    const uint64_t homes =
        known != NULL && *at->way != '\0' ? homes_by(limits, (psr_route)(known - routes)) : 0;
    if (homes == 0)
        return psr_fail(PSR_ERR_FORMAT, "field \"routes\" has a letter that names no way");
    if (!read_whole(at->length, 1, ARENA_MAX, &count))
        return psr_fail(PSR_ERR_FORMAT, "field \"lengths\" has an entry that is not a length");
    if (!read_whole(at->home, 0, homes - 1, &home))
        return psr_fail(PSR_ERR_FORMAT, "field \"homes\" has a home that does not exist");
    if (!cJSON_IsString(at->compression) ||
        psr_compression_parse(at->compression->valuestring, &compression) != PSR_OK)
        return psr_fail(PSR_ERR_FORMAT,
                        "field \"compressions\" has an entry that is not a compression");
    *bucket = (psr_plan_bucket){.span = {.count = (size_t)count},
                                .route = (psr_route)(known - routes),
                                .home = (uint32_t)home,
                                .compression = compression};
    return PSR_OK;
}

/* first: the entries of the first of count buckets. */
static psr_err read_buckets(const bucket_fields *first, uint32_t count,
                            const psr_plan_options *limits, psr_plan_bucket *buckets)
{
    bucket_fields at = *first;
    size_t end = 0;
    for (uint32_t b = 0; b < count; b++) {
        PSR_TRY(read_bucket(&at, limits, &buckets[b]));
        end += buckets[b].span.count;
        if (end > ARENA_MAX)
            return psr_fail(PSR_ERR_FORMAT, "field \"lengths\" comes to more than an arena");
        at = (bucket_fields){at.way + 1, at.length->next, at.home->next, at.compression->next};
    }
    for (uint32_t b = 0; b < count; b++)
        buckets[b].span.offset = end -= buckets[b].span.count;
    return PSR_OK;
}

/* The first entry of a list with a number for each bucket; NULL if there are no buckets. false: it
 * is no such list. */
static bool list_of(const cJSON *object, const char *name, size_t count, const cJSON **ret_first)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);
    *ret_first = list != NULL ? list->child : NULL;
    return cJSON_IsArray(list) && (size_t)cJSON_GetArraySize(list) == count;
}

static psr_err find_buckets(const cJSON *object, bucket_fields *ret_first, uint32_t *ret_count)
{
    bucket_fields first = {
        .way = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "routes"))};
    size_t count = first.way != NULL ? strlen(first.way) : 0;
    if (first.way == NULL || count > BUCKETS_MAX ||
        !list_of(object, "lengths", count, &first.length) ||
        !list_of(object, "homes", count, &first.home) ||
        !list_of(object, "compressions", count, &first.compression))
        return psr_fail(PSR_ERR_FORMAT, "fields \"routes\", \"lengths\", \"homes\" and "
                                        "\"compressions\" are not of the same buckets");
    *ret_first = first;
    *ret_count = (uint32_t)count;
    return PSR_OK;
}

static psr_err read_plan_buckets(const cJSON *object, const psr_plan_options *limits,
                                 psr_plan *ret_plan)
{
    bucket_fields first;
    uint32_t count = 0;
    PSR_TRY(find_buckets(object, &first, &count));
    psr_plan_bucket *buckets = calloc((size_t)count + 1, sizeof *buckets);
    if (buckets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " buckets", count);
    psr_err err = read_buckets(&first, count, limits, buckets);
    if (err == PSR_OK)
        err = psr_plan_of(limits, buckets, count, ret_plan);
    free(buckets);
    return err;
}

static psr_err read_plan(const cJSON *object, psr_plan *ret_plan)
{
    psr_plan_options limits;
    psr_compression pulled;
    psr_host_ranks hosts = {0};
    if (!cJSON_IsObject(object))
        return psr_fail(PSR_ERR_FORMAT, "field \"plan\" is missing");
    psr_err err = read_limits(object, &limits, &pulled, &hosts);
    if (err == PSR_OK)
        err = read_plan_buckets(object, &limits, ret_plan);
    free(hosts.first);
    return err;
}

/* ---- the view ---- */

cJSON *psr_view_to_object(const psr_view *view)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "epoch", view->epoch);
    psr_fields_put_number(&w, "first_step", view->first_step);
    if (view->next_step != 0)
        psr_fields_put_number(&w, "next_step", view->next_step);
    psr_fields_put_item(&w, "members", members_array(view));
    psr_fields_put_item(&w, "plan", plan_object(&view->plan));
    if (w.failed) {
        cJSON_Delete(w.object);
        return NULL;
    }
    return w.object;
}

static psr_err read_steps(const cJSON *object, psr_view *view)
{
    PSR_TRY(psr_fields_number(object, "first_step", STEPS_MAX, &view->first_step));
    if (cJSON_GetObjectItemCaseSensitive(object, "next_step") == NULL)
        return PSR_OK;
    PSR_TRY(psr_fields_number(object, "next_step", STEPS_MAX, &view->next_step));
    return view->next_step > view->first_step
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "field \"next_step\" is not behind \"first_step\"");
}

psr_err psr_view_from_object(const cJSON *object, psr_view *ret_view)
{
    psr_view view = {0};
    if (!cJSON_IsObject(object))
        return psr_fail(PSR_ERR_FORMAT, "field \"view\" is missing");
    psr_err err = psr_fields_u32(object, "epoch", &view.epoch);
    if (err == PSR_OK)
        err = read_steps(object, &view);
    if (err == PSR_OK)
        err = read_members(object, &view);
    if (err == PSR_OK)
        err = read_plan(cJSON_GetObjectItemCaseSensitive(object, "plan"), &view.plan);
    if (err != PSR_OK) {
        psr_view_done(&view);
        return err;
    }
    *ret_view = view;
    return PSR_OK;
}

psr_err psr_view_to_json(const psr_view *view, char **ret_json)
{
    psr_fields_writer w = {psr_view_to_object(view), false};
    w.failed = w.object == NULL;
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_object(const psr_message *message, psr_view *ret_view)
{
    cJSON *object = NULL;
    PSR_TRY(psr_fields_parse(message->payload, message->payload_bytes, &object));
    psr_err err = psr_view_from_object(object, ret_view);
    cJSON_Delete(object);
    return err;
}

psr_err psr_view_read(const psr_message *message, const psr_view **ret_view)
{
    psr_msg_view says;
    psr_view view;
    PSR_TRY(psr_msg_view_read(message, &says));
    psr_err err = read_object(message, &view);
    if (err == PSR_ERR_FORMAT) {
        char detail[256];
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
        return psr_violation(message, "%s", detail);
    }
    PSR_TRY(err);
    if (view.epoch != says.epoch || view.first_step != says.first_step) {
        psr_view_done(&view);
        return psr_violation(message, "its payload is a view of another epoch or step");
    }
    return psr_view_keep(&view, ret_view);
}
