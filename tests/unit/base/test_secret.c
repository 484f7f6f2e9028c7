#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text/secret.h"

/* A roster of so many members. */
static cJSON *roster(int members)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < members; i++) {
        cJSON *member = cJSON_CreateObject();
        assert_non_null(
            cJSON_AddStringToObject(member, "key", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"));
        assert_non_null(cJSON_AddNumberToObject(member, "rank", i));
        cJSON_AddItemToArray(array, member);
    }
    return array;
}

static void what_is_printed_is_cjsons_text_whatever_its_length(void **state)
{
    (void)state;
    const int members[] = {0, 1, 70, 3000};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        cJSON *json = roster(members[i]);
        char *text = psr_secret_print(json), *right = cJSON_PrintUnformatted(json);
        assert_non_null(text);
        assert_string_equal(text, right);
        free(right);
        psr_secret_free(text);
        psr_secret_delete(json);
    }
    psr_secret_free(NULL);
    psr_secret_delete(NULL);
}

static void a_block_that_grows_keeps_what_is_in_use(void **state)
{
    (void)state;
    char *block = psr_secret_grow(NULL, 0, 4);
    assert_non_null(block);
    memcpy(block, "key", 4);
    block = psr_secret_grow(block, 4, 4096);
    assert_non_null(block);
    assert_string_equal(block, "key");
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_cjsons_text_whatever_its_length),
        cmocka_unit_test(a_block_that_grows_keeps_what_is_in_use),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
