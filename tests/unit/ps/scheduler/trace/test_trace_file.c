/* trace.json: what is in it, that it is whole or absent, and what a full disk does. */
#include "tests/unit/folder.h"

#include "ps/scheduler/trace/run_trace.h"

#include <cjson/cJSON.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static const psr_msg_limits limits = {.workers = 2, .shards = 1, .buckets = 4, .steps = 100};

typedef struct played {
    psr_config config;
    psr_network *net;
    psr_view_member members[2];
    psr_view view;
    psr_trace_file_options options;
    psr_run_trace trace;
    uint8_t bytes[PSR_TRACE_EVENTS_PER_MESSAGE * PSR_TRACE_EVENT_BYTES];
    size_t count;
    char line[PSR_RUN_TRACE_LINE_MAX];
} played;

static void begin(played *p)
{
    memset(p, 0, sizeof *p);
    psr_config_defaults(&p->config);
    expect_ok(psr_config_set(&p->config, "trace", "8-9"));
    expect_ok(psr_network_new("mlp", 10, 1, 28, 28, PSR_SHORTCUT_A, &p->net));
    p->members[0] = (psr_view_member){.peer = {PSR_ROLE_WORKER, 0}, .host = "a\"b\\"};
    p->members[1] = (psr_view_member){.peer = {PSR_ROLE_SHARD, 0}, .host = "other"};
    p->view =
        (psr_view){.members = p->members, .member_count = 2, .plan = {.ranks = 1, .shards = 1}};
    p->options = (psr_trace_file_options){.directory = folder,
                                          .config = &p->config,
                                          .net = p->net,
                                          .view = &p->view,
                                          .steps = {7, 2},
                                          .start_ns = 1000000};
    psr_run_trace_begin(&p->trace, &p->options);
}

static void end(played *p)
{
    psr_trace_file_free(p->trace.file);
    psr_network_free(p->net);
}

static void add(played *p, psr_trace_event event)
{
    psr_trace_event_write(&event, p->bytes + p->count++ * PSR_TRACE_EVENT_BYTES);
}

static psr_err give(played *p, psr_peer from, psr_msg_trace says, bool first)
{
    const psr_message message = {.from = from,
                                 .head = psr_msg_trace_head(&says),
                                 .payload = p->bytes,
                                 .payload_bytes = p->count * PSR_TRACE_EVENT_BYTES};
    p->count = 0;
    return psr_run_trace_take(&p->trace, &message, &says, first, &limits, p->line);
}

static void add_push(played *p, psr_trace_kind kind, psr_peer peer, int64_t begin_ns)
{
    add(p, (psr_trace_event){.kind = kind,
                             .index = 3,
                             .step = 7,
                             .begin_ns = begin_ns,
                             .duration_ns = 1500,
                             .type = PSR_MSG_PUSH,
                             .peer = peer,
                             .bytes = 32,
                             .part = 64});
}

/* A worker whose clock is 250 us behind the shard's. */
static void give_both(played *p)
{
    add(p, (psr_trace_event){.kind = PSR_TRACE_LAYER,
                             .index = 2,
                             .count = 1,
                             .step = 7,
                             .begin_ns = 1760000,
                             .duration_ns = 1});
    add_push(p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 1750000);
    const psr_clock_reading behind = {1700000, 250000, 40};
    expect_ok(give(p, (psr_peer){PSR_ROLE_WORKER, 0},
                   (psr_msg_trace){.dropped = 4, .begin = behind, .end = behind}, true));
    assert_string_equal(p->line, "");
    assert_false(exists("trace.json"));
    add_push(p, PSR_TRACE_IN, (psr_peer){PSR_ROLE_WORKER, 0}, 2000123);
    expect_ok(give(p, (psr_peer){PSR_ROLE_SHARD, 0}, (psr_msg_trace){.left = 0}, true));
}

static cJSON *read_back(void)
{
    char text[16384];
    FILE *file = fopen(in_folder("trace.json"), "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    return json;
}

static const cJSON *find(const cJSON *json, const char *phase, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "traceEvents"))
    {
        if (strcmp(cJSON_GetObjectItem(event, "ph")->valuestring, phase) == 0 &&
            strcmp(cJSON_GetObjectItem(event, "name")->valuestring, name) == 0)
            return event;
    }
    fail_msg("no event %s %s", phase, name);
    return NULL;
}

static double number(const cJSON *event, const char *name)
{
    return cJSON_GetObjectItem(event, name)->valuedouble;
}

static void it_has_what_all_have_sent_by_one_clock(void **state)
{
    (void)state;
    played p;
    begin(&p);
    give_both(&p);
    assert_non_null(
        strstr(p.line, "trace.json, 3 events; clocks agree within 0.0 us; no room for 4 more"));
    assert_false(exists("trace.json.new"));
    cJSON *json = read_back();
    const cJSON *out = find(json, "X", "push 3"), *in = find(json, "X", "take push 3"),
                *leaves = find(json, "s", "PUSH"), *arrives = find(json, "f", "PUSH");
    assert_true(number(out, "ts") == 1000 && number(out, "dur") == 1.5);
    assert_true(number(in, "ts") > 1000.122 && number(in, "ts") < 1000.124);
    assert_true(number(leaves, "ts") == number(out, "ts"));
    assert_string_equal(cJSON_GetObjectItem(leaves, "id")->valuestring,
                        cJSON_GetObjectItem(arrives, "id")->valuestring);
    assert_true(number(cJSON_GetObjectItem(in, "args"), "step") == 8);
    assert_string_equal(
        cJSON_GetObjectItem(find(json, "X", p.net->nodes[2].name), "cat")->valuestring, "forward");
    const cJSON *name = find(json, "M", "process_name");
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(name, "args"), "name")->valuestring,
                        "worker 0 on a\"b\\");
    const cJSON *other = cJSON_GetObjectItem(json, "otherData");
    const cJSON *clock = cJSON_GetArrayItem(cJSON_GetObjectItem(other, "clocks"), 0);
    assert_true(number(clock, "offset_us") == 250 && number(clock, "error_us") > 0.039);
    assert_true(number(other, "dropped") == 4 && number(other, "first_step") == 8);
    cJSON_Delete(json);
    psr_run_trace_end(&p.trace, true, p.line);
    assert_string_equal(p.line, "");
    end(&p);
}

static void a_run_that_fails_leaves_what_has_come_and_says_what_has_not(void **state)
{
    (void)state;
    played p;
    begin(&p);
    add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 1750000);
    expect_ok(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 0}, true));
    psr_run_trace_end(&p.trace, false, p.line);
    assert_non_null(strstr(p.line, "trace.json, 1 events; without 1 of 2 processes: the run ended "
                                   "before they had sent theirs"));
    assert_false(exists("trace.json.new"));
    cJSON *json = read_back();
    const cJSON *other = cJSON_GetObjectItem(json, "otherData"),
                *missing = cJSON_GetObjectItem(other, "missing");
    assert_int_equal(cJSON_GetArraySize(missing), 1);
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(missing, 0), "process")->valuestring,
                        "shard 0 on other");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(other, "clocks")), 1);
    find(json, "X", "push 3");
    cJSON_Delete(json);
    end(&p);
}

static void a_run_that_fails_before_any_event_leaves_nothing(void **state)
{
    (void)state;
    played p;
    begin(&p);
    psr_run_trace_end(&p.trace, false, p.line);
    assert_string_equal(p.line, "no trace: the run ended before any process had sent its events");
    assert_false(exists("trace.json"));
    end(&p);

    begin(&p);
    expect_ok(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 7}, true));
    psr_run_trace_end(&p.trace, false, p.line);
    assert_string_equal(p.line, "no trace: the run ended before any process had sent its events");
    assert_false(exists("trace.json"));
    assert_false(exists("trace.json.new"));
    end(&p);
}

/* Clocks agree within an error; no time in the file is before START. */
static void what_seems_to_be_before_the_start_is_at_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 999500);
    expect_ok(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 0}, true));
    psr_run_trace_end(&p.trace, true, p.line);
    cJSON *json = read_back();
    const cJSON *out = find(json, "X", "push 3");
    assert_true(number(out, "ts") == 0 && number(out, "dur") == 1);
    cJSON_Delete(json);
    end(&p);
}

static void no_two_processes_share_the_number_of_a_thread(void **state)
{
    (void)state;
    played p;
    double tids[8];
    size_t count = 0;
    begin(&p);
    give_both(&p);
    cJSON *json = read_back();
    const cJSON *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "traceEvents"))
    {
        if (strcmp(cJSON_GetObjectItem(event, "name")->valuestring, "thread_name") != 0)
            continue;
        assert_true(count < 8);
        for (size_t i = 0; i < count; i++)
            assert_true(tids[i] != number(event, "tid"));
        tids[count++] = number(event, "tid");
    }
    assert_int_equal(count, 3); /* a worker's two threads and the shard's */
    cJSON_Delete(json);
    end(&p);
}

static void passes_of_a_gpu_have_a_row_of_their_own(void **state)
{
    (void)state;
    played p;
    begin(&p);
    expect_ok(psr_config_set(&p.config, "device", "cuda"));
    add(&p, (psr_trace_event){.kind = PSR_TRACE_WAIT_BUCKET, .step = 7, .begin_ns = 1760000});
    add(&p, (psr_trace_event){
                .kind = PSR_TRACE_BACKWARD, .index = PSR_TRACE_NO_INDEX, .step = 7, .begin_ns = 1});
    give_both(&p);
    cJSON *json = read_back();
    const cJSON *event, *gpu = NULL;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "traceEvents"))
    {
        const cJSON *name = cJSON_GetObjectItem(cJSON_GetObjectItem(event, "args"), "name");
        if (strcmp(cJSON_GetObjectItem(event, "name")->valuestring, "thread_name") == 0 &&
            strcmp(name->valuestring, "GPU") == 0) {
            assert_null(gpu); /* the shard has none */
            gpu = event;
        }
    }
    assert_non_null(gpu);
    const double tid = number(gpu, "tid");
    assert_true(number(find(json, "X", p.net->nodes[2].name), "tid") == tid);
    assert_true(number(find(json, "X", "backward"), "tid") == tid);
    assert_true(number(find(json, "X", "wait for bucket 0"), "tid") != tid);
    assert_true(number(find(json, "X", "push 3"), "tid") != tid);
    cJSON_Delete(json);
    end(&p);
}

/* A member may have had nothing to record. */
static void what_came_until_a_good_end_is_whole(void **state)
{
    (void)state;
    played p;
    begin(&p);
    expect_ok(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 0}, true));
    psr_run_trace_end(&p.trace, true, p.line);
    assert_non_null(strstr(p.line, "0 events"));
    cJSON_Delete(read_back());
    end(&p);

    begin(&p);
    psr_run_trace_end(&p.trace, true, p.line);
    assert_string_equal(p.line, "no trace: the run ended before the steps of --trace");
    end(&p);
}

static void an_impossible_event_is_refused_before_anything_is_written(void **state)
{
    (void)state;
    played p;
    begin(&p);
    add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 1);
    add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 9}, 1);
    assert_int_equal(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 0}, true),
                     PSR_ERR_PROTOCOL);
    give_both(&p);
    assert_non_null(strstr(p.line, "3 events"));
    end(&p);
}

/* The limit on a file's size stands for a disk that is full. */
static void a_full_disk_costs_a_line_and_no_more(void **state)
{
    (void)state;
    played p;
    struct rlimit before, small;
    begin(&p);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 100; i++)
        add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 1750000);
    psr_err err = give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 1}, true);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    expect_ok(err);
    assert_non_null(strstr(p.line, "trace.json cannot be written: File too large"));
    assert_false(exists("trace.json.new"));
    add_push(&p, PSR_TRACE_OUT, (psr_peer){PSR_ROLE_SHARD, 0}, 1750000);
    expect_ok(give(&p, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_msg_trace){.left = 0}, false));
    assert_string_equal(p.line, "");
    psr_run_trace_end(&p.trace, true, p.line);
    assert_string_equal(p.line, "");
    assert_false(exists("trace.json"));
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(it_has_what_all_have_sent_by_one_clock),
        IN_A_FOLDER(a_run_that_fails_leaves_what_has_come_and_says_what_has_not),
        IN_A_FOLDER(a_run_that_fails_before_any_event_leaves_nothing),
        IN_A_FOLDER(what_seems_to_be_before_the_start_is_at_the_start),
        IN_A_FOLDER(no_two_processes_share_the_number_of_a_thread),
        IN_A_FOLDER(passes_of_a_gpu_have_a_row_of_their_own),
        IN_A_FOLDER(what_came_until_a_good_end_is_whole),
        IN_A_FOLDER(an_impossible_event_is_refused_before_anything_is_written),
        IN_A_FOLDER(a_full_disk_costs_a_line_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
