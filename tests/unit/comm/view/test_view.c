#include "tests/unit/expect.h"

#include "comm/view/view.h"
#include "comm/wire/messages.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char members_text[] =
    "[{\"role\":\"shard\",\"rank\":0,\"host\":\"a\",\"endpoint\":\"tcp://a:1\"},"
    "{\"role\":\"worker\",\"rank\":5,\"host\":\"b\",\"endpoint\":\"tcp://b:2\"}]";
static const char plan_text[] =
    "{\"ranks\":3,\"shards\":2,\"slice_floats\":64,\"window\":4,\"pulled\":\"bf16\",\"routes\":"
    "\"srs-\",\"lengths\":[100,64,7,900],\"homes\":[1,0,0,0],\"compressions\":[\"none\",\"none\","
    "\"none\",\"none\"]}";

/* A view with these members and this plan, in JSON. */
static psr_err read_view(const char *members, const char *plan, psr_view *ret_view)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"epoch\": 7, \"first_step\": 5, \"members\": %s, \"plan\": %s}",
             members, plan);
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    psr_err err = psr_view_from_object(object, ret_view);
    cJSON_Delete(object);
    return err;
}

static void a_view_goes_there_and_back(void **state)
{
    (void)state;
    psr_view view, again;
    expect_ok(read_view(members_text, plan_text, &view));
    cJSON *object = psr_view_to_object(&view);
    expect_ok(psr_view_from_object(object, &again));
    cJSON_Delete(object);
    assert_int_equal(again.epoch, 7);
    assert_int_equal(psr_view_workers(&again), 3);
    assert_int_equal(psr_view_shards(&again), 2);
    assert_int_equal(again.member_count, 2);
    assert_int_equal(again.plan.bucket_count, 4);
    assert_int_equal(again.plan.slice_floats, 64);
    assert_int_equal(again.plan.window, 4);
    assert_int_equal(again.plan.pulled.encoding, PSR_ENCODING_BF16);
    for (uint32_t b = 0; b < 4; b++)
        assert_memory_equal(&again.plan.buckets[b], &view.plan.buckets[b],
                            sizeof view.plan.buckets[b]);
    psr_view_done(&view);
    psr_view_done(&again);
}

static void a_view_says_from_which_step_on_and_until_when(void **state)
{
    (void)state;
    psr_view view, again;
    expect_ok(read_view(members_text, plan_text, &view));
    assert_int_equal(view.first_step, 5);
    assert_int_equal(view.next_step, 0); /* nothing is planned */
    view.next_step = 9;
    cJSON *object = psr_view_to_object(&view);
    expect_ok(psr_view_from_object(object, &again));
    assert_int_equal(again.first_step, 5);
    assert_int_equal(again.next_step, 9);
    psr_view_done(&again);
    cJSON_Delete(object);
    view.next_step = 5;
    object = psr_view_to_object(&view);
    expect_failure(psr_view_from_object(object, &again), PSR_ERR_FORMAT,
                   "field \"next_step\" is not behind \"first_step\"");
    cJSON_Delete(object);
    psr_view_done(&view);
}

static psr_message as_message(const psr_msg_view *says, const char *json)
{
    return (psr_message){.from = {PSR_ROLE_SCHEDULER, 0},
                         .head = psr_msg_view_head(says),
                         .payload = json,
                         .payload_bytes = strlen(json)};
}

static void a_view_of_a_message_is_kept_until_its_last_holder_lets_go(void **state)
{
    (void)state;
    psr_view view;
    const psr_view *kept = NULL, *held = NULL;
    char *json = NULL;
    expect_ok(read_view(members_text, plan_text, &view));
    expect_ok(psr_view_to_json(&view, &json));
    psr_message message = as_message(&(psr_msg_view){7, 5}, json);
    expect_ok(psr_view_read(&message, &kept));
    held = psr_view_hold(kept);
    psr_view_release(kept);
    assert_int_equal(held->plan.bucket_count, 4);
    assert_int_equal(held->first_step, 5);
    psr_view_release(held); /* the last: a sanitizer sees what stays */
    psr_view_release(NULL);

    message = as_message(&(psr_msg_view){7, 6}, json);
    expect_failure(
        psr_view_read(&message, &kept), PSR_ERR_PROTOCOL,
        "scheduler 0 sent VIEW (epoch 7, first_step 6): its payload is a view of another epoch or "
        "step");
    message = as_message(&(psr_msg_view){6, 5}, json);
    expect_failure(
        psr_view_read(&message, &kept), PSR_ERR_PROTOCOL,
        "scheduler 0 sent VIEW (epoch 6, first_step 5): its payload is a view of another epoch or "
        "step");
    message = as_message(&(psr_msg_view){7, 5}, "{\"epoch\": 7}");
    expect_failure(psr_view_read(&message, &kept), PSR_ERR_PROTOCOL,
                   "scheduler 0 sent VIEW (epoch 7, first_step 5): field \"first_step\" is missing "
                   "or no number");
    free(json);
    psr_view_done(&view);
}

static void members_are_found_by_role_and_rank(void **state)
{
    (void)state;
    psr_view view;
    expect_ok(read_view(members_text, plan_text, &view));
    assert_string_equal(psr_view_find(&view, (psr_peer){PSR_ROLE_WORKER, 5})->endpoint,
                        "tcp://b:2");
    assert_string_equal(psr_view_find(&view, (psr_peer){PSR_ROLE_SHARD, 0})->host, "a");
    assert_null(psr_view_find(&view, (psr_peer){PSR_ROLE_WORKER, 0}));
    char *json = NULL;
    expect_ok(psr_view_members_to_json(&view, &json));
    assert_string_equal(json, members_text);
    free(json);
    psr_view_done(&view);
}

static void buckets_lie_one_before_the_other_from_the_arenas_end(void **state)
{
    (void)state;
    psr_view view;
    expect_ok(read_view(members_text, plan_text, &view));
    const psr_plan_bucket *b = view.plan.buckets;
    assert_int_equal(b[0].span.offset, 7 + 64 + 900);
    assert_int_equal(b[0].span.count, 100);
    assert_int_equal(b[1].span.offset, 7 + 900);
    assert_int_equal(b[2].span.offset, 900);
    assert_int_equal(b[3].span.offset, 0);
    assert_int_equal(b[0].route, PSR_ROUTE_SHARD);
    assert_int_equal(b[0].home, 1);
    assert_int_equal(b[1].route, PSR_ROUTE_RING);
    assert_int_equal(b[3].route, PSR_ROUTE_NONE);
    assert_int_equal(b[0].slice_count, 2);
    assert_int_equal(b[1].slice_count, 3);
    assert_int_equal(b[3].slice_count, 0);
    psr_view_done(&view);
}

static void workers_may_hold_the_buckets_between_them(void **state)
{
    (void)state;
    static const char plan[] = "{\"ranks\":2,\"shards\":0,\"hosts\":[0],\"slice_floats\":64,"
                               "\"window\":4,\"pulled\":\"none\",\"routes\":\"hh\",\"lengths\":["
                               "100,64],\"homes\":[1,0],\"compressions\":[\"none\",\"none\"]}";
    psr_view view, again;
    expect_ok(read_view("[]", plan, &view));
    cJSON *object = psr_view_to_object(&view);
    expect_ok(psr_view_from_object(object, &again));
    cJSON_Delete(object);
    assert_int_equal(again.plan.homes, 2);
    assert_int_equal(psr_view_workers(&again), 2);
    assert_int_equal(psr_view_shards(&again), 0);
    assert_true(psr_peer_equal(psr_plan_home(&again.plan, 0), (psr_peer){PSR_ROLE_WORKER, 1}));
    assert_int_equal(again.plan.hosts.count, 1);
    assert_int_equal(again.plan.chunks, 1);
    psr_view_done(&view);
    psr_view_done(&again);
}

static void a_plan_says_whether_sums_count_ranks_from_the_last_one(void **state)
{
    (void)state;
    static const char plan[] =
        "{\"ranks\":3,\"shards\":0,\"slice_floats\":64,\"window\":4,\"pulled\":\"none\","
        "\"reversed\":true,\"routes\":\"r\",\"lengths\":[64],\"homes\":[0],"
        "\"compressions\":[\"none\"]}";
    psr_view view, again;
    expect_ok(read_view("[]", plan, &view));
    cJSON *object = psr_view_to_object(&view);
    expect_ok(psr_view_from_object(object, &again));
    cJSON_Delete(object);
    assert_true(again.plan.reversed);
    assert_true(psr_plan_sends(&again.plan, 1, 0) && psr_plan_sends(&again.plan, 0, 2));
    assert_false(psr_plan_sends(&again.plan, 0, 1));
    psr_view_done(&view);
    psr_view_done(&again);
    expect_ok(read_view("[]", plan_text, &view));
    assert_false(view.plan.reversed);
    psr_view_done(&view);
}

static void a_plan_says_which_ranks_are_on_which_host(void **state)
{
    (void)state;
    static const char plan[] =
        "{\"ranks\":5,\"shards\":0,\"hosts\":[0,3],\"slice_floats\":64,\"window\":4,"
        "\"pulled\":\"none\",\"routes\":\"hh\",\"lengths\":[100,64],\"homes\":[5,4],"
        "\"compressions\":[\"none\",\"none\"]}";
    psr_view view, again;
    expect_ok(read_view("[]", plan, &view));
    cJSON *object = psr_view_to_object(&view);
    expect_ok(psr_view_from_object(object, &again));
    cJSON_Delete(object);
    assert_int_equal(again.plan.hosts.count, 2);
    assert_int_equal(again.plan.hosts.first[1], 3);
    assert_int_equal(again.plan.hosts.first[2], 5);
    assert_int_equal(again.plan.homes, 6);
    assert_int_equal(again.plan.slice_count, 10); /* a chunk for each rank */
    assert_true(psr_peer_equal(psr_plan_home(&again.plan, 0), (psr_peer){PSR_ROLE_WORKER, 2}));
    assert_int_equal(psr_plan_holder(&again.plan, 0, 1), 4);
    psr_view_done(&view);
    psr_view_done(&again);
}

static void each_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    static const char unlike[] = "fields \"routes\", \"lengths\", \"homes\" and \"compressions\" "
                                 "are not of the same buckets";
    const struct {
        const char *members, *plan, *detail;
    } wrong[] = {
        {"{}", plan_text, "field \"members\" is missing"},
        {"[{\"role\": \"king\"}]", plan_text, "field \"role\" is \"king\""},
        {"[{\"role\": \"worker\", \"rank\": 4294967296}]", plan_text,
         "field \"rank\" is no count of at most 4294967295"},
        {"[{\"role\": \"worker\", \"rank\": 0, \"host\": \"a\\nb\"}]", plan_text,
         "field \"host\" holds control characters: \"a b\""},
        {"[{\"role\": \"worker\", \"rank\": 1, \"host\": \"a\", \"endpoint\": \"\"}, "
         "{\"role\": \"worker\", \"rank\": 1, \"host\": \"b\", \"endpoint\": \"\"}]",
         plan_text, "field \"members\" has worker 1 twice"},
        {"[]", "7", "field \"plan\" is missing"},
        {"[]", "{\"ranks\": 5000}", "field \"ranks\" is no count of at most 4096"},
        {"[]", "{\"ranks\": 0, \"shards\": 0, \"slice_floats\": 1, \"window\": 1}",
         "field \"ranks\" is 0"},
        {"[]", "{\"ranks\": 1, \"shards\": 0, \"slice_floats\": 0, \"window\": 1}",
         "field \"slice_floats\" is 0"},
        {"[]", "{\"ranks\": 1, \"shards\": 0, \"slice_floats\": 1, \"window\": 0}",
         "field \"window\" is 0"},
        {"[]", "{\"ranks\": 1, \"shards\": 0, \"slice_floats\": 1, \"window\": 1}",
         "field \"pulled\" is no compression"},
        {"[]",
         "{\"ranks\": 1, \"shards\": 0, \"slice_floats\": 1, \"window\": 1, "
         "\"pulled\": \"fp8\"}",
         "field \"pulled\" is no compression"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 16, \"window\": 1, \"pulled\": \"none\", "
         "\"reversed\": 1}",
         "field \"reversed\" is neither true nor false"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 0, \"slice_floats\": 16, \"window\": 1, \"pulled\": \"none\", "
         "\"reversed\": true, \"hosts\": [0, 1], \"routes\": \"\", \"lengths\": [], \"homes\": [], "
         "\"compressions\": []}",
         "field \"reversed\" is true over several hosts"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 16, \"window\": 1, \"pulled\": \"none\", "
         "\"routes\": \"h\", \"lengths\": [1], \"homes\": [0], \"compressions\": [\"none\"]}",
         "field \"routes\" has a letter that names no way"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 1, \"window\": 1, "
         "\"pulled\": \"none\", \"hosts\": [0, 1, 1]}",
         "field \"hosts\" is missing or not of 2 workers"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 1, \"window\": 1, "
         "\"pulled\": \"none\", \"hosts\": [1]}",
         "field \"hosts\" does not ascend from 0 to a rank"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 1, \"window\": 1, "
         "\"pulled\": \"none\", \"hosts\": [0, 2]}",
         "field \"hosts\" does not ascend from 0 to a rank"},
#define PLAN(rest)                                                                                 \
    "{\"ranks\": 2, \"shards\": 1, \"slice_floats\": 16, \"window\": 1, "                          \
    "\"pulled\": \"none\", " rest "}"
        {"[]",
         PLAN("\"routes\": \"r\", \"lengths\": [], \"homes\": [0], \"compressions\": [\"none\"]"),
         unlike},
        {"[]", PLAN("\"routes\": \"r\", \"lengths\": [1], \"homes\": [0], \"compressions\": []"),
         unlike},
        {"[]", PLAN("\"routes\": \"r\", \"lengths\": [1], \"homes\": [0]"), unlike},
        {"[]",
         PLAN(
             "\"routes\": \"r\", \"lengths\": [1], \"homes\": [0], \"compressions\": [\"topk:2\"]"),
         "field \"compressions\" has an entry that is not a compression"},
        {"[]", PLAN("\"routes\": \"r\", \"lengths\": [1], \"homes\": [0], \"compressions\": [1]"),
         "field \"compressions\" has an entry that is not a compression"},
        {"[]",
         PLAN("\"routes\": \"x\", \"lengths\": [1], \"homes\": [0], \"compressions\": [\"none\"]"),
         "field \"routes\" has a letter that names no way"},
        {"[]",
         PLAN("\"routes\": \"s\", \"lengths\": [0], \"homes\": [0], \"compressions\": [\"none\"]"),
         "field \"lengths\" has an entry that is not a length"},
        {"[]",
         PLAN(
             "\"routes\": \"s\", \"lengths\": [1.5], \"homes\": [0], \"compressions\": [\"none\"]"),
         "field \"lengths\" has an entry that is not a length"},
        {"[]",
         PLAN("\"routes\": \"s\", \"lengths\": [\"1\"], \"homes\": [0], \"compressions\": "
              "[\"none\"]"),
         "field \"lengths\" has an entry that is not a length"},
        {"[]",
         PLAN("\"routes\": \"ss\", \"lengths\": [1099511627776, 1], \"homes\": [0, 0], "
              "\"compressions\": [\"none\", \"none\"]"),
         "field \"lengths\" comes to more than an arena"},
        {"[]",
         PLAN("\"routes\": \"s\", \"lengths\": [1], \"homes\": [1], \"compressions\": [\"none\"]"),
         "field \"homes\" has a home that does not exist"},
        {"[]",
         PLAN("\"routes\": \"s\", \"lengths\": [1], \"homes\": [-1], \"compressions\": [\"none\"]"),
         "field \"homes\" has a home that does not exist"},
        {"[]",
         "{\"ranks\": 2, \"shards\": 0, \"slice_floats\": 16, \"window\": 1, "
         "\"pulled\": \"none\", "
         "\"routes\": \"s\", "
         "\"lengths\": [1], \"homes\": [0], \"compressions\": [\"none\"]}",
         "field \"routes\" has a letter that names no way"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_view view;
        expect_failure(read_view(wrong[i].members, wrong[i].plan, &view), PSR_ERR_FORMAT,
                       wrong[i].detail);
    }
    psr_view view;
    expect_failure(read_view("[]",
                             PLAN("\"routes\": \"s\", \"lengths\": [1099511627776], \"homes\": "
                                  "[0], \"compressions\": [\"none\"]"),
                             &view),
                   PSR_ERR_UNSUPPORTED,
                   "68719476736 slices are too many: larger slices or buckets are needed");
    expect_failure(read_view("[]",
                             PLAN("\"routes\": \"rr\", \"lengths\": [1, 4294967296], \"homes\": "
                                  "[0, 0], \"compressions\": [\"none\", \"topk:0.5\"]"),
                             &view),
                   PSR_ERR_UNSUPPORTED,
                   "bucket 1 of 4294967296 values is too long to be compressed as one");
#undef PLAN
    expect_failure(psr_view_from_object(NULL, &view), PSR_ERR_FORMAT, "field \"view\" is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_goes_there_and_back),
        cmocka_unit_test(a_view_says_from_which_step_on_and_until_when),
        cmocka_unit_test(a_view_of_a_message_is_kept_until_its_last_holder_lets_go),
        cmocka_unit_test(members_are_found_by_role_and_rank),
        cmocka_unit_test(buckets_lie_one_before_the_other_from_the_arenas_end),
        cmocka_unit_test(workers_may_hold_the_buckets_between_them),
        cmocka_unit_test(a_plan_says_whether_sums_count_ranks_from_the_last_one),
        cmocka_unit_test(a_plan_says_which_ranks_are_on_which_host),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
