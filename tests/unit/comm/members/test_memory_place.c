/* Where members share memory: who tries with whom, by what others say of themselves. */
#include "tests/unit/expect.h"

#include "comm/members/memory/memory_place.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static psr_memory_place place_at(const char *machine, const char *socket)
{
    psr_memory_place place = {.machine = ""};
    strcpy(place.machine, machine);
    strcpy(place.socket, socket);
    return place;
}

static void a_place_is_of_this_machine_and_comes_back_as_it_was(void **state)
{
    (void)state;
    psr_memory_place place, again;
    char machine[PSR_MACHINE_BYTES], long_path[110], line[200];
    expect_ok(psr_memory_place_of("/run/psring-x/worker-1-0123.fd", &place));
    psr_machine_id(machine);
    assert_string_equal(place.machine, machine);
    cJSON *object = psr_memory_place_to_object(&place);
    expect_ok(psr_memory_place_from_object(object, &again));
    assert_memory_equal(&place, &again, sizeof place);
    cJSON_Delete(object);

    expect_ok(psr_memory_place_of("", &place));
    assert_true(place.socket[0] == '\0' && place.machine[0] == '\0');
    /* who shares none does not speak of it */
    expect_ok(psr_memory_place_from_object(NULL, &again));
    assert_true(again.socket[0] == '\0' && again.machine[0] == '\0');
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    snprintf(line, sizeof line, "the path %s is too long for a socket", long_path);
    expect_failure(psr_memory_place_of(long_path, &place), PSR_ERR_UNSUPPORTED, line);
}

static void memory_is_shared_in_one_directory_of_one_machine(void **state)
{
    (void)state;
    const psr_memory_place own = place_at("m", "/run/psring-x/a.fd");
    const struct {
        psr_memory_place other;
        bool shared;
    } cases[] = {
        {place_at("m", "/run/psring-x/b.fd"), true},
        {place_at("m", "/run/psring-y/b.fd"), false}, /* another agent's: a host
                                                         that is emulated here */
        {place_at("n", "/run/psring-x/b.fd"), false}, /* by chance of that name there */
        {place_at("", "/run/psring-x/b.fd"), false},
        {place_at("m", "/run/psring-x/deeper/b.fd"), false},
        {place_at("m", "/run/psring-xx/b.fd"), false},
        {place_at("m", "/run/b.fd"), false},
        {place_at("m", "b.fd"), false},
        {place_at("m", "/b.fd"), false},
        {place_at("m", ""), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(psr_memory_place_is_shared(&own, &cases[i].other), cases[i].shared);
        assert_int_equal(psr_memory_place_is_shared(&cases[i].other, &own), cases[i].shared);
    }
    const psr_memory_place none = place_at("", "");
    assert_false(psr_memory_place_is_shared(&none, &none));
}

static void what_is_no_place_is_refused_by_its_field(void **state)
{
    (void)state;
    char long_text[300];
    snprintf(long_text, sizeof long_text, "{\"machine\": \"m\", \"socket\": \"/%0200d\"}", 0);
    const struct {
        const char *json, *words;
    } cases[] = {
        {"7", "field \"memory\": field \"machine\" is missing or no text"},
        {"[]", "field \"memory\": field \"machine\" is missing or no text"},
        {"{\"socket\": \"/a/b\"}", "field \"memory\": field \"machine\" is missing or no text"},
        {"{\"machine\": \"m\"}", "field \"memory\": field \"socket\" is missing or no text"},
        {"{\"machine\": \"m\", \"socket\": 1}",
         "field \"memory\": field \"socket\" is missing or no text"},
        {"{\"machine\": \"m\", \"socket\": \"/a/\\u001b[2J\"}",
         "field \"memory\": field \"socket\" holds control characters: \"/a/?[2J\""},
        {long_text, "field \"memory\": field \"socket\" is longer than 107 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_memory_place place = place_at("as", "before");
        cJSON *object = cJSON_Parse(cases[i].json);
        assert_non_null(object);
        expect_failure(psr_memory_place_from_object(object, &place), PSR_ERR_FORMAT,
                       cases[i].words);
        assert_string_equal(place.socket, "before");
        cJSON_Delete(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_of_this_machine_and_comes_back_as_it_was),
        cmocka_unit_test(memory_is_shared_in_one_directory_of_one_machine),
        cmocka_unit_test(what_is_no_place_is_refused_by_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
