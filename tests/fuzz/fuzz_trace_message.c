/* TRACE of a member, as the scheduler takes it: the head's fields, then the payload's events. What
 * is refused writes nothing; what is taken becomes a file of whole JSON, in which no time is before
 * the start and no span ends before it begins. The first bytes are the head's; the rest is the
 * payload. */
#include "base/system/file.h"
#include "ps/scheduler/trace/run_trace.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 2, SHARDS = 1, FIELD = 8, HEAD = 2 + 8 * FIELD };
#define HOST "h\"\\\x1b\xff"

static const psr_msg_limits limits = {
    .workers = WORKERS, .shards = SHARDS, .buckets = 4, .steps = 100};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/psring-fuzz-trace-XXXXXX";
static psr_config config;
static psr_network *net;

static void leave(void)
{
    (void)rmdir(directory);
    psr_network_free(net);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    psr_config_defaults(&config);
    if (mkdtemp(directory) == NULL || atexit(leave) != 0 ||
        psr_network_new("mlp", 10, 1, 28, 28, PSR_SHORTCUT_A, &net) != PSR_OK)
        abort();
    return 0;
}

static uint64_t number(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < FIELD; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void check_event(const cJSON *event)
{
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(event, "ts"),
                *lasts = cJSON_GetObjectItemCaseSensitive(event, "dur"),
                *phase = cJSON_GetObjectItemCaseSensitive(event, "ph");
    if (!cJSON_IsString(phase) || (at != NULL && !(at->valuedouble >= 0)) ||
        (lasts != NULL && !(lasts->valuedouble >= 0)) ||
        (at == NULL) != (phase->valuestring[0] == 'M'))
        abort();
}

/* The file that is in place. */
static void check_file(void)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/trace.json", directory);
    if (psr_file_read(path, (size_t)1 << 24, &text, &size) != PSR_OK)
        abort();
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    const cJSON *event;
    if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, "traceEvents")))
        abort();
    cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(json, "traceEvents"))
        check_event(event);
    cJSON_Delete(json);
    free(text);
    if (unlink(path) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_view_member members[] = {{.peer = {PSR_ROLE_WORKER, 0}, .host = HOST},
                                 {.peer = {PSR_ROLE_WORKER, 1}, .host = HOST},
                                 {.peer = {PSR_ROLE_SHARD, 0}, .host = HOST}};
    const psr_view view = {
        .members = members, .member_count = 3, .plan = {.ranks = WORKERS, .shards = SHARDS}};
    const psr_trace_file_options options = {.directory = directory,
                                            .config = &config,
                                            .net = net,
                                            .view = &view,
                                            .steps = {7, 2},
                                            .start_ns = 1000};
    psr_run_trace trace;
    char line[PSR_RUN_TRACE_LINE_MAX];
    if (size < HEAD)
        return 0;
    psr_message message = {.from = members[data[0] % 3].peer,
                           .head = {.type = PSR_MSG_TRACE},
                           .payload = (void *)(uintptr_t)(data + HEAD),
                           .payload_bytes = size - HEAD};
    for (int i = 0; i < 8; i++)
        message.head.fields[i] = number(data + 2 + i * FIELD);
    psr_msg_trace says;
    if (psr_msg_trace_read(&message, &says) != PSR_OK)
        return 0;
    psr_run_trace_begin(&trace, &options);
    psr_err err = psr_run_trace_take(&trace, &message, &says, true, &limits, line);
    if (err != PSR_OK && err != PSR_ERR_PROTOCOL)
        abort();
    const bool any = err == PSR_OK && trace.file != NULL &&
                     psr_trace_file_figures(trace.file).events > 0,
               well = data[1] % 2 == 0;
    const bool left = trace.file != NULL && (well || any);
    psr_run_trace_end(&trace, well, line);
    if (line[0] == '\0' || trace.file != NULL)
        abort();
    if (left)
        check_file();
    return 0;
}
