/* Training's part of joining: it sends the configuration, compares the facts, and tells all members
 * the step from which they begin. */
#include "ps/scheduler/scheduler_private.h"

#include "base/text/printable.h"
#include "net/violation.h"
#include "ps/scheduler/memory_fit.h"
#include "ps/shard_start.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psr_err psr_scheduler_given(void *context, psr_role role, void **ret_bytes, size_t *ret_size)
{
    const psr_scheduler *scheduler = context;
    char *json = NULL;
    PSR_TRY(role == PSR_ROLE_SHARD ? psr_config_to_json_for_shards(&scheduler->config, &json)
                                   : psr_config_to_json(&scheduler->config, &json));
    *ret_bytes = json;
    *ret_size = strlen(json);
    return PSR_OK;
}

/* ---- facts ---- */

psr_err psr_scheduler_take_facts(void *context, const psr_message *message)
{
    psr_scheduler_member *member = psr_scheduler_find(context, message->from);
    if (message->from.role == PSR_ROLE_SHARD ||
        psr_facts_from_json(psr_scheduler_payload_of(message), &member->facts) == PSR_OK)
        return PSR_OK;
    char detail[PSR_SCHEDULER_LINE_MAX];
    snprintf(detail, sizeof detail, "%s", psr_err_detail());
    return psr_violation(message, "%s", detail);
}

psr_err psr_scheduler_agree(void *context, uint32_t rank, const char *name,
                            const char *name_of_first)
{
    const psr_scheduler *scheduler = context;
    return psr_facts_agree(&psr_scheduler_worker(scheduler, rank)->facts, name,
                           &psr_scheduler_worker(scheduler, 0)->facts, name_of_first,
                           scheduler->config.mixed_hosts);
}

/* ---- the beginning ---- */

static const psr_facts *facts_of_rank(const void *context, uint32_t rank)
{
    return &psr_scheduler_worker(context, rank)->facts;
}

/* What the memory of a host was is of no use after this. */
static psr_err check_memory(psr_scheduler *scheduler, const psr_view *members)
{
    PSR_TRY(psr_memory_fit(&scheduler->config, members, facts_of_rank, scheduler));
    psr_facts *first = &psr_scheduler_worker(scheduler, 0)->facts;
    first->memory_fixed_bytes = first->memory_sample_bytes = first->memory_host_bytes =
        first->memory_free_bytes = 0;
    return PSR_OK;
}

/* Reads where the run begins, and by which plan. */
psr_err psr_scheduler_begin(void *context, psr_view *view)
{
    psr_scheduler *scheduler = context;
    psr_beginning beginning = {0};
    PSR_TRY(check_memory(scheduler, view));
    PSR_TRY(scheduler->events.begin(scheduler->events.context, &scheduler->config,
                                    &psr_scheduler_worker(scheduler, 0)->facts, view, &beginning));
    scheduler->layout = beginning.layout;
    scheduler->first_step = beginning.first_step;
    scheduler->config.pace = beginning.pace;
    scheduler->evaluates_first = beginning.evaluates_first;
    scheduler->loss_scale = beginning.loss_scale;
    if (beginning.total_steps > 0)
        psr_scheduler_worker(scheduler, 0)->facts.total_steps = beginning.total_steps;
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        scheduler->members[i].saving = scheduler->members[i].saving_before = scheduler->first_step;
    for (uint32_t r = 0; r < scheduler->roster.ranks; r++)
        scheduler->metrics_told[r] = scheduler->first_step;
    view->first_step = scheduler->first_step;
    view->next_step = psr_config_next_stretch(&scheduler->config, scheduler->first_step);
    view->plan = beginning.plan;
    return PSR_OK;
}

psr_err psr_scheduler_agreed(void *context, psr_role role, void **ret_bytes, size_t *ret_size)
{
    const psr_scheduler *scheduler = context;
    uint64_t first_step = scheduler->first_step;
    uint64_t total_steps = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    char *json = NULL;
    if (role == PSR_ROLE_SHARD) {
        const psr_shard_start shard = {.first_step = first_step,
                                       .total_steps = total_steps,
                                       .skipped_steps = scheduler->loss_scale.skipped,
                                       .pace = scheduler->config.pace,
                                       .layout = *scheduler->layout};
        PSR_TRY(psr_shard_start_to_json(&shard, &json));
    } else {
        psr_worker_start worker = {.first_step = first_step,
                                   .total_steps = total_steps,
                                   .pace = scheduler->config.pace,
                                   .evaluates_first = scheduler->evaluates_first,
                                   .loss_scale = scheduler->loss_scale.scale,
                                   .loss_scale_taken = scheduler->loss_scale.taken,
                                   .skipped_steps = scheduler->loss_scale.skipped};
        memcpy(worker.group, psr_scheduler_worker(scheduler, 0)->facts.group, sizeof worker.group);
        PSR_TRY(psr_worker_start_to_json(&worker, &json));
    }
    *ret_bytes = json;
    *ret_size = strlen(json);
    return PSR_OK;
}

psr_err psr_scheduler_welcomed(void *context)
{
    const psr_scheduler *scheduler = context;
    return scheduler->first_step > 0 ? scheduler->events.restore(scheduler->events.context)
                                     : PSR_OK;
}

/* ---- READY and START ---- */

static psr_err read_algorithms(const cJSON *object, const psr_message *message,
                               psr_computing *computing)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "algorithms"));
    psr_config config;
    psr_config_defaults(&config);
    if (text == NULL || (text[0] != '\0' && psr_config_set(&config, "algorithms", text) != PSR_OK))
        return psr_violation(message, "its field algorithms is not a choice of algorithms");
    strcpy(computing->algorithms, text);
    return PSR_OK;
}

static psr_err read_engines(const cJSON *object, const psr_message *message,
                            psr_computing *computing)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "engines"));
    if (text == NULL)
        return PSR_OK;
    const size_t length = strlen(text);
    if (length >= sizeof computing->engines || strspn(text, "-0123456789,") != length)
        return psr_violation(message, "its field engines is not a list of numbers");
    strcpy(computing->engines, text);
    return PSR_OK;
}

static psr_err read_loops(const cJSON *object, const psr_message *message, psr_computing *computing)
{
    const char *loops = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "loops"));
    const size_t length = loops != NULL ? strlen(loops) : 0;
    if (length >= sizeof computing->loops || (length > 0 && !psr_is_printable(loops, length)))
        return psr_violation(message, "its field loops is not a line of text");
    if (length > 0)
        strcpy(computing->loops, loops);
    return PSR_OK;
}

static psr_err read_input(const cJSON *object, const psr_message *message, psr_computing *computing)
{
    const char *input = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "input"));
    if (input == NULL || input[0] == '\0')
        return PSR_OK;
    if (strcmp(input, "bytes") != 0 && strcmp(input, "floats") != 0)
        return psr_violation(message, "its field input is neither bytes nor floats");
    strcpy(computing->input, input);
    return PSR_OK;
}

/* Rank 0's READY: {"algorithms": "...", "engines": "...", "loops": "...", "input": "..."}. */
static psr_err read_computing(psr_computing *computing, const psr_message *message)
{
    if (message->payload_bytes == 0)
        return PSR_OK;
    cJSON *object = cJSON_ParseWithLength(message->payload, message->payload_bytes);
    psr_err err = read_algorithms(object, message, computing);
    if (err == PSR_OK)
        err = read_engines(object, message, computing);
    if (err == PSR_OK)
        err = read_loops(object, message, computing);
    if (err == PSR_OK)
        err = read_input(object, message, computing);
    cJSON_Delete(object);
    return err;
}

psr_err psr_scheduler_take_ready(void *context, const psr_message *message)
{
    psr_scheduler *scheduler = context;
    bool first_worker = message->from.role == PSR_ROLE_WORKER && message->from.rank == 0;
    return first_worker ? read_computing(&scheduler->computing, message) : PSR_OK;
}

psr_err psr_scheduler_started(void *context)
{
    psr_scheduler *scheduler = context;
    PSR_TRY(scheduler->events.started(scheduler->events.context, &scheduler->computing));
    return psr_scheduler_begin_views(scheduler);
}
