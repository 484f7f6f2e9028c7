/* What a member can ask for without end, and read nothing of. It never receives, so what comes
 * fills what its sockets take. */
#include "bad_member.h"

#include "comm/members/member.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/table.h"
#include "comm/wire/messages.h"

#include <stdlib.h>

enum {
    PULLS = 3000,
    REPORTS = 500000,
};

static const psr_peer shard = {PSR_ROLE_SHARD, 0}, scheduler = {PSR_ROLE_SCHEDULER, 0};

static psr_err send_copy(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    return psr_transport_send(context, to, head, payload);
}

/* It is the only worker: gives the shard its first values, and is told START. */
static psr_err begin(bad *b)
{
    PSR_TRY(bad_join(b));
    PSR_TRY(psr_member_connect(b->member, shard));
    const psr_plan *plan = &psr_member_view(b->member)->plan;
    const psr_outbox outbox = {.context = b->transport, .send = send_copy};
    float *zeros = calloc(psr_plan_length(plan) + 1, sizeof *zeros);
    if (zeros == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for weights");
    psr_err err = psr_table_write(plan, &outbox, 0, 0, zeros);
    free(zeros);
    return err == PSR_OK ? bad_start(b) : err;
}

/* The first slice that shard 0 holds, as if so many of its answers had been taken before each
 * pull. */
static psr_err pull_again(bad *b, bool as_if_taken)
{
    PSR_TRY(begin(b));
    const psr_plan *plan = &psr_member_view(b->member)->plan;
    const psr_slice *slice = &plan->slices[0];
    for (uint64_t i = 0; i < PULLS; i++) {
        psr_head head = psr_msg_pull_head(&(psr_msg_pull){
            .bucket = slice->bucket, .span = slice->span, .taken = as_if_taken ? i : 0});
        PSR_TRY(psr_transport_send(b->transport, shard, &head, NULL));
    }
    return PSR_OK;
}

static psr_err pull_a_slice_again(bad *b)
{
    return pull_again(b, false);
}

static psr_err pull_as_if_it_had_read(bad *b)
{
    return pull_again(b, true);
}

/* Each would be answered. What it sends at last ends the run, when all before it has been read. */
static psr_err report_without_end(bad *b)
{
    PSR_TRY(begin(b));
    psr_transport_bound(b->transport, PSR_ROLE_SCHEDULER, SIZE_MAX);
    for (uint64_t i = 0; i < REPORTS; i++) {
        psr_head head =
            psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_DATA, .counter = i});
        PSR_TRY(psr_transport_send(b->transport, scheduler, &head, NULL));
    }
    psr_head head = psr_msg_progress_head(&(psr_msg_progress){.phase = (psr_phase)99});
    return psr_transport_send(b->transport, scheduler, &head, NULL);
}

const behaviour bad_flood_behaviours[] = {
    {"pull-a-slice-again", pull_a_slice_again},
    {"pull-as-if-it-had-read", pull_as_if_it_had_read},
    {"report-without-end", report_without_end},
};
const size_t bad_flood_behaviour_count = sizeof bad_flood_behaviours / sizeof *bad_flood_behaviours;
