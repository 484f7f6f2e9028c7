/* A view: who takes part in a run, where, and by which plan they exchange. A value that the
 * scheduler alone issues. A step belongs to one view: the newest one (of the highest epoch) whose
 * first step is not behind it. Epochs count up by one from 0. Immutable after building; any thread.
 *
 * A view of its own is a plain value (psr_view_done). One that several hold is counted: made by
 * psr_view_keep, freed when the last holder releases it. */
#ifndef PSR_COMM_VIEW_H
#define PSR_COMM_VIEW_H

#include "comm/members/memory_place.h"
#include "comm/plan.h"

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
    uint64_t first_step; /* the first step that it is in force for, from 0 */
    /* Nobody begins this step or a later one before a newer view has come. 0: none is planned */
    uint64_t next_step;
    psr_view_member *members; /* owned: free(). Each peer once */
    uint32_t member_count;
    psr_plan plan; /* its buckets cover the arena, the first one its end. owned */
} psr_view;

void psr_view_done(psr_view *view);

/* Moves a view to where it is counted, with one holder. Consumes it (nulls its parts), on failure
 * too. NOMEM. ret owns: psr_view_release. */
PSR_MUST_CHECK psr_err psr_view_keep(psr_view *view, const psr_view **ret_view);
/* One holder more, of a view that psr_view_keep made; returns it. */
const psr_view *psr_view_hold(const psr_view *view);
/* One holder less; frees it with the last one. NULL allowed. */
void psr_view_release(const psr_view *view);

/* Ranks, each with a gradient of its own: as many as workers, but where one process plays them
 * all. */
uint32_t psr_view_workers(const psr_view *view);
/* Processes of that role; 0: none. */
uint32_t psr_view_shards(const psr_view *view);
/* NULL: not in the view. */
const psr_view_member *psr_view_find(const psr_view *view, psr_peer peer);

/* As JSON, part of other messages. The bytes that are read may be hostile: FORMAT names the field;
 * what the plan says is in its ranges. UNSUPPORTED: psr_plan_of's. NOMEM. */
struct cJSON *psr_view_to_object(const psr_view *view); /* ret owns: cJSON_Delete;
                                                           NULL: no memory */
PSR_MUST_CHECK psr_err psr_view_from_object(const struct cJSON *object, psr_view *ret_view);

/* The payload of VIEW: the same JSON as text. ret owns: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_view_to_json(const psr_view *view, char **ret_json);
/* A VIEW message. PROTOCOL: its payload is no view, or not of the epoch and step that its head
 * says. UNSUPPORTED, NOMEM. ret owns: psr_view_release. */
PSR_MUST_CHECK psr_err psr_view_read(const psr_message *message, const psr_view **ret_view);

/* The members alone, for run.json. ret owns: free(). */
PSR_MUST_CHECK psr_err psr_view_members_to_json(const psr_view *view, char **ret_json);

/* "worker", "shard", "scheduler"; false: none of them. */
bool psr_role_parse(const char *name, psr_role *ret_role);

#endif
