/* deploy/doctor/facts/host_facts.h, find_facts.h */
#include "tests/unit/deploy/checkup_of.h"

#include "deploy/doctor/facts/find_facts.h"

#include <string.h>
#include <unistd.h>

static void facts_come_back_as_they_were(void **state)
{
    (void)state;
    psr_host_facts facts = facts_of(3), again;
    cJSON *object = NULL;
    strcpy(facts.processor, "ein \"Prozessor\" \\ größer");
    facts.files_max = PSR_FACT_UNLIMITED;
    expect_ok(psr_host_facts_to_object(&facts, &object));
    expect_ok(psr_host_facts_from_object(object, &again));
    assert_memory_equal(&facts, &again, sizeof facts);
    cJSON_Delete(object);
}

/* What a host's facts are with one field replaced (NULL: taken away). Consumes value. */
static psr_err read_with(const char *name, cJSON *value, psr_host_facts *ret_facts)
{
    const psr_host_facts facts = facts_of(0);
    cJSON *object = NULL;
    expect_ok(psr_host_facts_to_object(&facts, &object));
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    if (value != NULL)
        cJSON_AddItemToObject(object, name, value);
    psr_err err = psr_host_facts_from_object(object, ret_facts);
    cJSON_Delete(object);
    return err;
}

static void a_field_that_is_none_is_refused_by_its_name(void **state)
{
    (void)state;
    psr_host_facts facts = {.cores = 77};
    char longest[512];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    expect_failure(read_with("cores", NULL, &facts), PSR_ERR_FORMAT,
                   "field \"cores\" is missing or no number");
    expect_failure(read_with("cores", cJSON_CreateNumber(-1), &facts), PSR_ERR_FORMAT,
                   "field \"cores\" is no count of at most 281474976710656");
    expect_failure(read_with("cores", cJSON_CreateNumber(1e18), &facts), PSR_ERR_FORMAT,
                   "field \"cores\" is no count of at most 281474976710656");
    expect_failure(read_with("hostname", cJSON_CreateNumber(1), &facts), PSR_ERR_FORMAT,
                   "field \"hostname\" is missing or no text");
    expect_failure(read_with("hostname", cJSON_CreateString(longest), &facts), PSR_ERR_FORMAT,
                   "field \"hostname\" is longer than 255 bytes");
    assert_int_equal(read_with("processor", cJSON_CreateString("\x1b[2J"), &facts), PSR_ERR_FORMAT);
    assert_int_equal(psr_host_facts_from_object(NULL, &facts), PSR_ERR_FORMAT);
    assert_int_equal(facts.cores, 77); /* untouched */
}

static void a_control_groups_limit_is_read(void **state)
{
    (void)state;
    assert_int_equal(psr_find_cpu_max("200000 100000"), 2000);
    assert_int_equal(psr_find_cpu_max("50000 100000"), 500);
    static const char *const none[] = {"max 100000", "",          "100000",
                                       "5 0",        "-1 100000", "99999999999999999999 1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_true(psr_find_cpu_max(none[i]) == PSR_FACT_UNLIMITED);
}

/* What every Linux has. */
static void this_host_is_found(void **state)
{
    (void)state;
    psr_host_facts facts, again;
    cJSON *object = NULL;
    char name[256] = "";
    psr_find_host_facts(&(psr_planned){0}, 60000, &facts);
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    assert_string_equal(facts.hostname, name);
    assert_true(facts.cores > 0 && facts.cores_allowed > 0 && facts.cpu_limit_milli > 0);
    assert_true(facts.memory_bytes > 0 && facts.memory_free_bytes <= facts.memory_bytes);
    assert_true(facts.files_max > 0);
    assert_true(facts.congestion[0] != '\0');
    expect_ok(psr_host_facts_to_object(&facts, &object));
    expect_ok(psr_host_facts_from_object(object, &again)); /* what it finds can be told */
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_back_as_they_were),
        cmocka_unit_test(a_field_that_is_none_is_refused_by_its_name),
        cmocka_unit_test(a_control_groups_limit_is_read),
        cmocka_unit_test(this_host_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
