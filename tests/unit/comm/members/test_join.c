/* What is said while a run comes together, and what a process is started with: there and back, and
 * hostile bytes. */
#include "tests/unit/expect.h"

#include "comm/members/member.h"
#include "tests/unit/key_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_join_a_place_and_a_welcome_come_back_as_they_were(void **state)
{
    (void)state;
    char *json = NULL;
    const psr_join join = {.version = "1.2",
                           .host = "b\"\\host",
                           .endpoint = "tcp://10.0.0.1:4",
                           .pid = 77,
                           .memory = {"5f-0", "/run/psring-x/worker-0-1.fd"}};
    psr_join join_again;
    expect_ok(psr_join_to_json(&join, &json));
    expect_ok(psr_join_from_json((psr_bytes){json, strlen(json)}, &join_again));
    assert_memory_equal(&join, &join_again, sizeof join);
    free(json);

    void *payload = NULL;
    size_t size = 0;
    psr_bytes users;
    const psr_place place = {.rank = 12, .ranks = 1024, .deadline_ms = 1000000000};
    psr_place place_again;
    expect_ok(psr_place_write(&place, (psr_bytes){"\0{\0", 3}, &payload, &size));
    expect_ok(psr_place_read((psr_bytes){payload, size}, &place_again, &users));
    assert_memory_equal(&place_again, &place, sizeof place);
    assert_int_equal(users.size, 3);
    assert_memory_equal(users.data, "\0{\0", 3);
    free(payload);

    psr_view_member members[] = {{{PSR_ROLE_SHARD, 0}, "a", "tcp://a:1", {"", ""}},
                                 {{PSR_ROLE_WORKER, 5}, "b", "tcp://b:2", {"m", "/run/x/y.fd"}}};
    psr_plan_bucket buckets[] = {
        {.span = {32, 16}, .route = PSR_ROUTE_SHARD, .compression.encoding = PSR_ENCODING_FLOAT32}};
    const psr_view view = {.epoch = 3,
                           .members = members,
                           .member_count = 2,
                           .plan = {.buckets = buckets,
                                    .bucket_count = 1,
                                    .ranks = 1,
                                    .shards = 1,
                                    .slice_floats = 16,
                                    .window = 1,
                                    .pulled = PSR_COMPRESSION_NONE}};
    psr_view view_again;
    expect_ok(psr_welcome_write(&view, (psr_bytes){NULL, 0}, &payload, &size));
    expect_ok(psr_welcome_read((psr_bytes){payload, size}, &view_again, &users));
    assert_int_equal(users.size, 0);
    assert_int_equal(view_again.epoch, 3);
    assert_int_equal(view_again.member_count, 2);
    assert_memory_equal(view_again.members, members, sizeof members);
    assert_int_equal(view_again.plan.slice_count, 1);
    psr_view_done(&view_again);
    free(payload);
}

static void each_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    const struct {
        const char *json, *detail;
    } joins[] = {
        {"", "not a JSON object"},
        {"[1, 2]", "not a JSON object"},
        {"{\"version\": 3}", "field \"version\" is missing or no text"},
        {"{\"version\": \"0123456789012345678901234567890123456789\"}",
         "field \"version\" is longer than 31 bytes"},
        {"{\"version\": \"1\", \"host\": \"a\"}", "field \"endpoint\" is missing or no text"},
        {"{\"version\": \"1\", \"host\": \"a\", \"endpoint\": \"e\", \"pid\": -1}",
         "field \"pid\" is no count of at most 2147483647"},
        {"{\"version\": \"1\", \"host\": \"a\", \"endpoint\": \"e\", \"pid\": 1.5}",
         "field \"pid\" is no count of at most 2147483647"},
        {"{\"version\": \"1\", \"host\": \"a\", \"endpoint\": \"e\", \"pid\": 1e300}",
         "field \"pid\" is no count of at most 2147483647"},
        {"{\"version\": \"1\", \"host\": \"\\u001b[2Jb\"}",
         "field \"host\" holds control characters: \"?[2Jb\""},
        {"{\"version\": \"1\", \"host\": \"\xc2\x9b\x32Jb\"}",
         "field \"host\" holds control characters: \"??2Jb\""},
        {"{\"version\": \"1\", \"host\": \"a\\nb\"}",
         "field \"host\" holds control characters: \"a b\""},
    };
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        psr_join join;
        expect_failure(psr_join_from_json((psr_bytes){joins[i].json, strlen(joins[i].json)}, &join),
                       PSR_ERR_FORMAT, joins[i].detail);
    }
}

static void what_two_parts_hold_is_checked_before_any_of_it_is_used(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t size;
        const char *detail;
    } places[] = {
        {"", 0, "no zero byte ends its JSON"},
        {"{\"rank\": 1}", 11, "no zero byte ends its JSON"},
        {"\0{\"rank\": 1}", 12, "not a JSON object"},
        {"{}", 3, "field \"rank\" is missing or no number"},
        {"{\"rank\": 1}", 12, "field \"ranks\" is missing or no number"},
        {"{\"rank\": 1, \"ranks\": 2}", 24, "field \"deadline_ms\" is missing or no number"},
        {"{\"rank\": 1, \"ranks\": 0, \"deadline_ms\": 1}", 44, "field \"ranks\" is 0"},
        {"{\"rank\": 1, \"ranks\": 2, \"deadline_ms\": 2147483648}", 53,
         "field \"deadline_ms\" is no count of at most 2147483647"},
    };
    psr_bytes users;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        psr_place place;
        expect_failure(psr_place_read((psr_bytes){places[i].bytes, places[i].size}, &place, &users),
                       PSR_ERR_FORMAT, places[i].detail);
    }
    psr_view view;
    expect_failure(psr_welcome_read((psr_bytes){"{}", 2}, &view, &users), PSR_ERR_FORMAT,
                   "no zero byte ends its JSON");
    expect_failure(psr_welcome_read((psr_bytes){"{}", 3}, &view, &users), PSR_ERR_FORMAT,
                   "field \"view\" is missing");
}

/* ---- provisions ---- */

static void keys_of_two_workers(bool curve, psr_keys **keys, size_t *count)
{
    expect_ok(psr_keys_generate(2, 1, curve, keys, count));
}

static void free_keys(psr_keys *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&keys[i]);
    free(keys);
}

static void a_provision_comes_back_as_it_was_and_nothing_after_its_line_is_read(void **state)
{
    (void)state;
    psr_keys *keys;
    size_t count;
    char *json = NULL;
    int ends[2];
    keys_of_two_workers(true, &keys, &count);
    psr_provision provision = {.self = {PSR_ROLE_WORKER, 1},
                               .host = "b",
                               .scheduler = "tcp://a:1",
                               .sharing = "/run/psring-x",
                               .interface = "10.0.0.2",
                               .port = 65535,
                               .keys = keys[3]},
                  again;
    expect_ok(psr_provision_to_json(&provision, &json));
    assert_null(strchr(json, '\n'));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], json, strlen(json)), strlen(json));
    assert_int_equal(write(ends[1], "\nrest", 5), 5);
    expect_ok(psr_provision_from_fd(ends[0], &again));
    assert_true(psr_peer_equal(again.self, provision.self));
    assert_string_equal(again.host, "b");
    assert_string_equal(again.scheduler, "tcp://a:1");
    assert_string_equal(again.sharing, "/run/psring-x");
    assert_string_equal(again.interface, "10.0.0.2");
    assert_int_equal(again.port, 65535);
    assert_string_equal(again.keys.secret_key, keys[3].secret_key);
    char rest[8] = "";
    assert_int_equal(read(ends[0], rest, sizeof rest), 4);
    assert_string_equal(rest, "rest");
    psr_provision_done(&again);
    close(ends[1]);
    expect_failure(psr_provision_from_fd(ends[0], &again), PSR_ERR_FORMAT,
                   "provision: standard input ended before a line of JSON had come");
    close(ends[0]);
    free(json);
    free_keys(keys, count);
}

static void a_provision_with_a_wrong_field_is_refused_by_its_name(void **state)
{
    (void)state;
    const struct {
        const char *json, *detail;
    } cases[] = {
        {"", "provision: not a JSON object"},
        {"{}", "provision: field \"role\" is \"\", not scheduler, shard or worker"},
        {"{\"role\": \"worker\", \"rank\": -1}",
         "provision: field \"rank\" is no number from 0 to 4294967294"},
        {"{\"role\": \"worker\", \"port\": 65536}",
         "provision: field \"port\" is no number from 0 to 65535"},
        {"{\"role\": \"worker\", \"host\": 1}",
         "provision: field \"host\" is no text of at most 63 bytes"},
        {"{\"role\": \"worker\"}", "provision: field \"keys\" is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_provision provision;
        expect_failure(psr_provision_from_json(cases[i].json, strlen(cases[i].json), &provision),
                       PSR_ERR_FORMAT, cases[i].detail);
    }
}

static void by_hand_a_key_file_says_which_rank_one_is(void **state)
{
    (void)state;
    psr_keys *keys;
    size_t count;
    char path[] = "/tmp/psr-join-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    keys_of_two_workers(true, &keys, &count);
    expect_ok(save_key_file(&keys[3], path));
    psr_provision provision;
    psr_peer any = {PSR_ROLE_WORKER, PSR_RANK_ANY};
    expect_ok(psr_provision_by_hand(any, "head:5555", path, "lo", &provision));
    assert_int_equal(provision.self.rank, 1);
    assert_string_equal(provision.scheduler, "tcp://head:5555");
    assert_string_equal(provision.interface, "lo");
    psr_provision_done(&provision);
    expect_failure(psr_provision_by_hand(any, "head", path, NULL, &provision), PSR_ERR_USAGE,
                   "--scheduler: \"head\" is not HOST:PORT nor a socket's path");
    expect_ok(
        psr_provision_by_hand(any, "/tmp/psring-x/scheduler-0-01234567", path, NULL, &provision));
    assert_string_equal(provision.scheduler, "ipc:///tmp/psring-x/scheduler-0-01234567");
    assert_string_equal(provision.directory, "/tmp/psring-x");
    psr_provision_done(&provision);
    expect_failure(psr_provision_by_hand(any, "ipc:///scheduler", path, NULL, &provision),
                   PSR_ERR_USAGE,
                   "--scheduler: endpoint ipc:///scheduler: it should be ipc:///DIRECTORY/SOCKET");
    expect_failure(psr_provision_by_hand(any, "/tmp/psring-x/s", path, "lo", &provision),
                   PSR_ERR_USAGE, "--interface: this run is on ipc sockets; leave it out");
    assert_int_equal(unlink(path), 0);
    free_keys(keys, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_a_place_and_a_welcome_come_back_as_they_were),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
        cmocka_unit_test(what_two_parts_hold_is_checked_before_any_of_it_is_used),
        cmocka_unit_test(a_provision_comes_back_as_it_was_and_nothing_after_its_line_is_read),
        cmocka_unit_test(a_provision_with_a_wrong_field_is_refused_by_its_name),
        cmocka_unit_test(by_hand_a_key_file_says_which_rank_one_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
