/* base/system/cpus.h */
#include "tests/unit/expect.h"

#include "base/system/cpus.h"

#include <stdlib.h>
#include <string.h>

static void a_list_comes_back_as_it_was(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "0", "0-3,8", "1,3,5-6", "0-4095", "4095"};
    static const uint32_t counts[] = {0, 1, 5, 4, 4096, 1};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        psr_cpus cpus;
        char *list = NULL;
        expect_ok(psr_cpus_parse(lists[i], &cpus));
        assert_int_equal(psr_cpus_count(&cpus), counts[i]);
        expect_ok(psr_cpus_print(&cpus, &list));
        assert_string_equal(list, lists[i]);
        free(list);
    }
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "a", "-1", "1-", "3-1", "4096", "1,", ",1", "1 2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        psr_cpus cpus;
        assert_int_equal(psr_cpus_parse(lists[i], &cpus), PSR_ERR_FORMAT);
        assert_non_null(strstr(psr_err_detail(), "is no list of processors"));
    }
}

static void this_process_may_run_somewhere(void **state)
{
    (void)state;
    psr_cpus allowed = psr_cpus_allowed();
    assert_true(psr_cpus_count(&allowed) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_comes_back_as_it_was),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(this_process_may_run_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
