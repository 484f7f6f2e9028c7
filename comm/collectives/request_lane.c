#include "comm/collectives/request_lane.h"

#include "comm/collectives/group_private.h"

#include <assert.h>

static bool goes_before(const psr_request *a, const psr_request *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->turn < b->turn;
}

/* Searches from the end, where it mostly belongs. */
void psr_request_lane_add(psr_request_lane *lane, psr_request *request)
{
    assert(!request->waits_in_lane);
    psr_request *before = lane->last;
    while (before != NULL && goes_before(request, before))
        before = before->previous_in_lane;
    psr_request *behind = before != NULL ? before->next_in_lane : lane->first;
    request->previous_in_lane = before;
    request->next_in_lane = behind;
    *(before != NULL ? &before->next_in_lane : &lane->first) = request;
    *(behind != NULL ? &behind->previous_in_lane : &lane->last) = request;
    request->waits_in_lane = true;
}

void psr_request_lane_remove(psr_request_lane *lane, psr_request *request)
{
    if (!request->waits_in_lane)
        return;
    psr_request *before = request->previous_in_lane, *behind = request->next_in_lane;
    *(before != NULL ? &before->next_in_lane : &lane->first) = behind;
    *(behind != NULL ? &behind->previous_in_lane : &lane->last) = before;
    request->waits_in_lane = false;
}
