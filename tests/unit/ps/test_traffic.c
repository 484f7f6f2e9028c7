/* What a shard says that it carried: there and back, and hostile bytes. */
#include "tests/unit/expect.h"

#include "ps/traffic.h"

#include <stdlib.h>
#include <string.h>

static void traffic_comes_back_as_it_was(void **state)
{
    (void)state;
    char *json = NULL;
    const psr_traffic traffic = {20000000000, 243};
    psr_traffic again;
    expect_ok(psr_traffic_to_json(&traffic, &json));
    expect_ok(psr_traffic_from_json((psr_bytes){json, strlen(json)}, &again));
    assert_memory_equal(&traffic, &again, sizeof traffic);
    free(json);
}

static void a_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    static const char json[] = "{\"gradient_bytes\": 1, \"weight_bytes\": \"2\"}";
    psr_traffic traffic;
    expect_failure(psr_traffic_from_json((psr_bytes){json, sizeof json - 1}, &traffic),
                   PSR_ERR_FORMAT, "field \"weight_bytes\" is missing or no number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_comes_back_as_it_was),
        cmocka_unit_test(a_field_that_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
