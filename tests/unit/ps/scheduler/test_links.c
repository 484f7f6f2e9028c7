/* Bytes from host to host, of what workers tell by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "ps/scheduler/metrics/links.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Workers 0 and 1 on a, 2 on b; shard 0 on b, shard 1 on c. */
static psr_view_member members[] = {
    {.peer = {PSR_ROLE_SHARD, 0}, .host = "b"},  {.peer = {PSR_ROLE_SHARD, 1}, .host = "c"},
    {.peer = {PSR_ROLE_WORKER, 0}, .host = "a"}, {.peer = {PSR_ROLE_WORKER, 1}, .host = "a"},
    {.peer = {PSR_ROLE_WORKER, 2}, .host = "b"},
};

static psr_links *open_links(uint32_t first, uint32_t count)
{
    const psr_view view = {.members = members + first, .member_count = count};
    psr_links *links = NULL;
    expect_ok(psr_links_new(&view, &links));
    return links;
}

static void done(psr_links *links, uint32_t from, const char *json)
{
    psr_links_take_done(links, from, json, strlen(json));
}

static cJSON *told(const psr_links *links)
{
    char *json = NULL;
    expect_ok(psr_links_add_to(links, "{\"steps\":1}", &json));
    cJSON *object = cJSON_Parse(json);
    free(json);
    assert_int_equal(cJSON_GetObjectItem(object, "steps")->valueint, 1);
    return object;
}

static double bytes(const cJSON *object, const char *from, const char *to)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(object, "links"))
    {
        if (strcmp(cJSON_GetObjectItem(row, "from")->valuestring, from) == 0 &&
            strcmp(cJSON_GetObjectItem(row, "to")->valuestring, to) == 0)
            return cJSON_GetObjectItem(row, "bytes")->valuedouble;
    }
    return 0;
}

static const char *shards_are(const cJSON *object)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(object, "placement"), "shards")->valuestring;
}

static void bytes_are_summed_from_host_to_host(void **state)
{
    (void)state;
    psr_links *links = open_links(0, 5);
    done(links, 0, "{\"links\": [[\"shard\", 0, 10, 20], [\"shard\", 1, 30, 40]]}");
    done(links, 1,
         "{\"links\": [[\"shard\", 0, 1, 2], [\"worker\", 0, 5, 6], [\"worker\", 2, 7, 8]]}");
    done(links, 2, "{\"links\": [[\"shard\", 0, 100, 200]]}");
    cJSON *object = told(links);
    assert_true(bytes(object, "a", "b") == 10 + 1 + 7);
    assert_true(bytes(object, "b", "a") == 20 + 2); /* what worker 2 sends it tells itself */
    assert_true(bytes(object, "a", "c") == 30 && bytes(object, "c", "a") == 40);
    assert_true(bytes(object, "a", "a") == 5);
    assert_true(bytes(object, "b", "b") == 300);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(object, "links")), 6);
    assert_string_equal(shards_are(object), "mixed");
    const cJSON *hosts = cJSON_GetObjectItem(cJSON_GetObjectItem(object, "placement"), "hosts");
    assert_int_equal(cJSON_GetArraySize(hosts), 3);
    const cJSON *b = cJSON_GetArrayItem(hosts, 0);
    assert_string_equal(cJSON_GetObjectItem(b, "host")->valuestring, "b");
    assert_int_equal(cJSON_GetObjectItem(b, "workers")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(b, "shards")->valueint, 1);
    cJSON_Delete(object);
    psr_links_free(links);
}

static void shards_are_beside_dedicated_or_not_there(void **state)
{
    (void)state;
    static const char *const are[] = {"dedicated", "none"};
    for (uint32_t i = 0; i < 2; i++) {
        psr_links *some = i == 0 ? open_links(0, 1) : open_links(2, 3);
        cJSON *told_of_some = told(some);
        assert_string_equal(shards_are(told_of_some), are[i]);
        cJSON_Delete(told_of_some);
        psr_links_free(some);
    }
    psr_view_member one[] = {{.peer = {PSR_ROLE_SHARD, 0}, .host = "a"},
                             {.peer = {PSR_ROLE_WORKER, 0}, .host = "a"}};
    const psr_view view = {.members = one, .member_count = 2};
    psr_links *links = NULL;
    expect_ok(psr_links_new(&view, &links));
    cJSON *object = told(links);
    assert_string_equal(shards_are(object), "beside");
    cJSON_Delete(object);
    psr_links_free(links);
}

static void rows_that_name_nobody_are_left_out(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{\"links\": 3}",
        "{\"links\": [3, [], [\"shard\"], [null, 0, 1, 1]]}",
        "{\"links\": [[\"shard\", 2, 1, 1], [\"worker\", 3, 1, 1]]}",
        "{\"links\": [[\"shard\", -1, 1, 1], [\"shard\", 1e300, 1, 1]]}",
        "{\"links\": [[\"scheduler\", 0, 1, 1], [\"shard\", 0, -4, \"x\"]]}"};
    psr_links *links = open_links(0, 5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        done(links, 0, bad[i]);
    done(links, 3, "{\"links\": [[\"shard\", 0, 1, 1]]}");
    cJSON *object = told(links);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(object, "links")), 0);
    cJSON_Delete(object);
    char *json = NULL;
    assert_int_equal(psr_links_add_to(links, "nothing", &json), PSR_ERR_FORMAT);
    psr_links_free(links);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_summed_from_host_to_host),
        cmocka_unit_test(shards_are_beside_dedicated_or_not_there),
        cmocka_unit_test(rows_that_name_nobody_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
