/* A view: who takes part in a run, where, and by which plan they exchange. Only the scheduler
 * issues views. A step belongs to one view: the one with the highest epoch whose first step is not
 * after it. Epochs count up by one from 0.
 *
 * A view does not change once it is built; any thread may read it. It is either a plain value
 * (psr_view_done), or shared and counted: made by psr_view_keep, and freed when its last holder
 * releases it. */
#ifndef PSR_COMM_VIEW_H
#define PSR_COMM_VIEW_H

#include "comm/members/memory/memory_place.h"
#include "comm/view/plan.h"

struct cJSON;

#define PSR_HOST_MAX 64
#define PSR_ENDPOINT_MAX 128

typedef struct psr_view_member {
    psr_peer peer;
    char host[PSR_HOST_MAX];
    char endpoint[PSR_ENDPOINT_MAX];
    psr_memory_place memory;
} psr_view_member;

typedef struct psr_view {
    uint32_t epoch;
    uint64_t first_step; /* the first step for which it is valid, from 0 */
    /* Nobody begins this step or a later one before a newer view has come. 0: no newer view is
     * planned */
    uint64_t next_step;
    psr_view_member *members; /* owned: free(). Each peer is listed once */
    uint32_t member_count;
    psr_plan plan; /* its buckets cover the arena, the first one at its end. Owned */
} psr_view;

void psr_view_done(psr_view *view);

/* Moves a view into a counted one, with one holder. Consumes *view, on failure too. NOMEM. The
 * caller owns *ret_view: psr_view_release. */
PSR_MUST_CHECK psr_err psr_view_keep(psr_view *view, const psr_view **ret_view);
/* Adds a holder to a view that psr_view_keep made, and returns the view. */
const psr_view *psr_view_hold(const psr_view *view);
/* Removes a holder; the last one frees the view. NULL allowed. */
void psr_view_release(const psr_view *view);

/* The number of ranks with a gradient of their own: that of workers, unless one process computes
 * all ranks. */
uint32_t psr_view_workers(const psr_view *view);
/* The number of processes of that role; 0: none. */
uint32_t psr_view_shards(const psr_view *view);
/* NULL: it is not in the view. */
const psr_view_member *psr_view_find(const psr_view *view, psr_peer peer);

/* A view as JSON, which is part of other messages. The bytes that are read may be hostile: FORMAT
 * names the field, and the plan's numbers are checked. UNSUPPORTED: see psr_plan_of. NOMEM. */
/* the caller owns it: cJSON_Delete; NULL: no memory */
struct cJSON *psr_view_to_object(const psr_view *view);
PSR_MUST_CHECK psr_err psr_view_from_object(const struct cJSON *object, psr_view *ret_view);

/* The payload of VIEW: the same JSON as text. The caller owns *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_view_to_json(const psr_view *view, char **ret_json);
/* Reads a VIEW message. PROTOCOL: its payload is no view, or has another epoch or step than its
 * head. UNSUPPORTED, NOMEM. The caller owns *ret_view: psr_view_release. */
PSR_MUST_CHECK psr_err psr_view_read(const psr_message *message, const psr_view **ret_view);

/* The members only, for run.json. The caller owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_view_members_to_json(const psr_view *view, char **ret_json);

/* Reads "worker", "shard" or "scheduler"; false: it is none of them. */
bool psr_role_parse(const char *name, psr_role *ret_role);

#endif
