#include "comm/collectives/schedule.h"

#include <stdlib.h>

void psr_schedule_done(psr_schedule *schedule)
{
    free(schedule->actions);
    *schedule = (psr_schedule){0};
}

psr_err psr_schedule_check(const psr_schedule *schedule)
{
    if (schedule->no_memory)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the schedule of an operation");
    return PSR_OK;
}

static psr_after add(psr_schedule *schedule, psr_action action)
{
    if (schedule->count == schedule->capacity) {
        uint32_t larger = schedule->capacity > 0 ? 2 * schedule->capacity : 4;
        psr_action *moved = realloc(schedule->actions, larger * sizeof *moved);
        if (moved == NULL) {
            schedule->no_memory = true;
            return PSR_AT_ONCE;
        }
        schedule->actions = moved;
        schedule->capacity = larger;
    }
    schedule->actions[schedule->count++] = action;
    return schedule->count;
}

static psr_after add_unless_empty(psr_schedule *schedule, psr_action action)
{
    return action.count > 0 ? add(schedule, action) : action.after;
}

psr_after psr_schedule_send(psr_schedule *schedule, uint32_t peer, psr_area_place from,
                            size_t count, psr_after after)
{
    return add_unless_empty(schedule, (psr_action){.kind = PSR_ACTION_SEND,
                                                   .peer = peer,
                                                   .a = from,
                                                   .count = count,
                                                   .after = after,
                                                   .lent = true});
}

psr_after psr_schedule_send_copy(psr_schedule *schedule, uint32_t peer, psr_area_place from,
                                 size_t count, psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){
            .kind = PSR_ACTION_SEND, .peer = peer, .a = from, .count = count, .after = after});
}

psr_after psr_schedule_receive(psr_schedule *schedule, uint32_t peer, psr_area_place to,
                               size_t count, psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){
            .kind = PSR_ACTION_RECEIVE, .peer = peer, .to = to, .count = count, .after = after});
}

psr_after psr_schedule_receive_fold(psr_schedule *schedule, uint32_t peer, psr_area_place own,
                                    psr_area_place to, size_t count, psr_after after)
{
    return add_unless_empty(schedule, (psr_action){.kind = PSR_ACTION_RECEIVE_FOLD,
                                                   .peer = peer,
                                                   .a = own,
                                                   .to = to,
                                                   .count = count,
                                                   .after = after});
}

psr_after psr_schedule_copy(psr_schedule *schedule, psr_area_place from, psr_area_place to,
                            size_t count, psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){.kind = PSR_ACTION_COPY, .a = from, .to = to, .count = count, .after = after});
}

psr_after psr_schedule_fold(psr_schedule *schedule, psr_area_place a, psr_area_place b,
                            psr_area_place to, size_t count, psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){
            .kind = PSR_ACTION_FOLD, .a = a, .b = b, .to = to, .count = count, .after = after});
}

psr_after psr_schedule_finish(psr_schedule *schedule, psr_area_place values, size_t count,
                              psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){.kind = PSR_ACTION_FINISH, .to = values, .count = count, .after = after});
}

psr_after psr_schedule_round(psr_schedule *schedule, psr_area_place values, size_t count,
                             psr_after after)
{
    return add_unless_empty(
        schedule,
        (psr_action){.kind = PSR_ACTION_ROUND, .to = values, .count = count, .after = after});
}

psr_after psr_schedule_hold(psr_schedule *schedule, uint32_t peer, size_t count)
{
    return add_unless_empty(schedule,
                            (psr_action){.kind = PSR_ACTION_HOLD, .peer = peer, .count = count});
}

psr_after psr_schedule_fold_held(psr_schedule *schedule, psr_area_place own, psr_area_place to,
                                 size_t count)
{
    return add_unless_empty(
        schedule, (psr_action){.kind = PSR_ACTION_FOLD_HELD, .a = own, .to = to, .count = count});
}

psr_after psr_schedule_signal(psr_schedule *schedule, uint32_t peer, psr_after after)
{
    return add(schedule, (psr_action){.kind = PSR_ACTION_SEND, .peer = peer, .after = after});
}

psr_after psr_schedule_await(psr_schedule *schedule, uint32_t peer, psr_after after)
{
    return add(schedule, (psr_action){.kind = PSR_ACTION_RECEIVE, .peer = peer, .after = after});
}
