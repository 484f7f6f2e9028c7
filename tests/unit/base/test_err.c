#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"

#include <pthread.h>
#include <string.h>

static void a_failure_keeps_its_code_and_its_detail(void **state)
{
    (void)state;
    assert_int_equal(psr_fail(PSR_ERR_FORMAT, "%s: byte %d", "file", 7), PSR_ERR_FORMAT);
    assert_string_equal(psr_err_detail(), "file: byte 7");
}

static void context_goes_before_the_detail(void **state)
{
    (void)state;
    (void)psr_fail(PSR_ERR_IO, "disk full");
    assert_int_equal(psr_fail_context(PSR_ERR_IO, "checkpoint %d", 3), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "checkpoint 3: disk full");
}

static void a_detail_may_be_made_of_the_one_before(void **state)
{
    (void)state;
    (void)psr_fail(PSR_ERR_IO, "inner");
    (void)psr_fail(PSR_ERR_IO, "outer (%s)", psr_err_detail());
    assert_string_equal(psr_err_detail(), "outer (inner)");
}

static void a_detail_is_one_line_without_control_characters(void **state)
{
    (void)state;
    (void)psr_fail(PSR_ERR_FORMAT, "name '%s'", "a\nb\x1b[2Jc");
    assert_string_equal(psr_err_detail(), "name 'a b?[2Jc'");
}

static void a_detail_that_is_too_long_is_cut_and_ended(void **state)
{
    (void)state;
    char longer[4096];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)psr_fail(PSR_ERR_FORMAT, "%s", longer);
    assert_int_equal(strlen(psr_err_detail()), 1023);
    (void)psr_fail_context(PSR_ERR_FORMAT, "%s", longer);
    assert_int_equal(strlen(psr_err_detail()), 1023);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    (void)psr_fail(PSR_ERR_IO, "elsewhere");
    return NULL;
}

static void each_thread_has_a_detail_of_its_own(void **state)
{
    (void)state;
    (void)psr_fail(PSR_ERR_IO, "here");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(psr_err_detail(), "here");
}

static void a_detail_that_was_kept_can_be_restored(void **state)
{
    (void)state;
    char kept[PSR_ERR_DETAIL_BYTES];
    (void)psr_fail(PSR_ERR_IO, "the disk is full");
    psr_err_detail_keep(kept);
    (void)psr_fail(PSR_ERR_TIMEOUT, "this one is longer, and it is nobody's concern");
    psr_err_detail_restore(kept);
    assert_string_equal(psr_err_detail(), "the disk is full");
}

static void exit_statuses_tell_bad_input_from_a_broken_protocol_from_the_rest(void **state)
{
    (void)state;
    static const struct {
        psr_err code;
        int status;
    } expected[] = {
        {PSR_OK, 0},
        {PSR_ERR_USAGE, 2},
        {PSR_ERR_FORMAT, 2},
        {PSR_ERR_IO, 2},
        {PSR_ERR_NOT_FOUND, 2},
        {PSR_ERR_UNSUPPORTED, 2},
        {PSR_ERR_MISMATCH, 2},
        {PSR_ERR_PROTOCOL, 3},
        {PSR_ERR_VERSION, 3},
        {PSR_ERR_CANCELLED, 130},
        {PSR_ERR_NOMEM, 1},
        {PSR_ERR_TIMEOUT, 1},
        {PSR_ERR_DENIED, 3},
        {PSR_ERR_PEER, 1},
        {PSR_ERR_NUMERIC, 1},
        {PSR_ERR_COMPUTE, 1},
        {PSR_ERR_BROKEN, 1},
        {PSR_ERR_BUSY, 1},
        {PSR_ERR_FULL, 1},
    };
    assert_int_equal(sizeof expected / sizeof expected[0], PSR_ERR_LAST + 1);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(psr_err_exit_status(expected[i].code), expected[i].status);
}

static void every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = PSR_OK; a <= PSR_ERR_LAST; a++) {
        assert_string_not_equal(psr_err_name((psr_err)a), "unknown");
        for (int b = PSR_OK; b < a; b++)
            assert_string_not_equal(psr_err_name((psr_err)a), psr_err_name((psr_err)b));
    }
}

static psr_err try_it(psr_err inner, int *went_on)
{
    PSR_TRY(inner);
    *went_on = 1;
    return PSR_OK;
}

static void try_returns_a_failure_and_goes_on_after_success(void **state)
{
    (void)state;
    int went_on = 0;
    assert_int_equal(try_it(PSR_ERR_PEER, &went_on), PSR_ERR_PEER);
    assert_int_equal(went_on, 0);
    assert_int_equal(try_it(PSR_OK, &went_on), PSR_OK);
    assert_int_equal(went_on, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_keeps_its_code_and_its_detail),
        cmocka_unit_test(context_goes_before_the_detail),
        cmocka_unit_test(a_detail_may_be_made_of_the_one_before),
        cmocka_unit_test(a_detail_is_one_line_without_control_characters),
        cmocka_unit_test(a_detail_that_is_too_long_is_cut_and_ended),
        cmocka_unit_test(each_thread_has_a_detail_of_its_own),
        cmocka_unit_test(a_detail_that_was_kept_can_be_restored),
        cmocka_unit_test(exit_statuses_tell_bad_input_from_a_broken_protocol_from_the_rest),
        cmocka_unit_test(every_code_has_a_name_of_its_own),
        cmocka_unit_test(try_returns_a_failure_and_goes_on_after_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
