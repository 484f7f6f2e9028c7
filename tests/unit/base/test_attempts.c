#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/attempts.h"
#include "base/system/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A directory of the test's own, which is the working directory while it runs. */
static char root[] = "/tmp/psr-test-attempts-XXXXXX";
static int before = -1;

static int enter(void **state)
{
    (void)state;
    before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return before < 0 || mkdtemp(root) == NULL || chdir(root) != 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

static int leave(void **state)
{
    (void)state;
    int failed = fchdir(before) != 0;
    close(before);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0 || failed;
}

static psr_config asks(const char *out, const char *resume)
{
    psr_config config;
    psr_config_defaults(&config);
    assert_int_equal(psr_config_set(&config, "out", out), PSR_OK);
    assert_int_equal(psr_config_set(&config, "resume", resume), PSR_OK);
    return config;
}

static void resolves(const char *out, const char *into, const char *from)
{
    psr_config config = asks(out, "auto");
    assert_int_equal(psr_attempts_resolve(&config), PSR_OK);
    assert_string_equal(config.out, into);
    assert_string_equal(config.resume, from);
}

static void another_resume_stays_as_it_is(void **state)
{
    (void)state;
    psr_config config = asks("run", "auto/");
    assert_false(psr_attempts_are_asked_for(&config));
    assert_int_equal(psr_attempts_resolve(&config), PSR_OK);
    assert_string_equal(config.out, "run");
    assert_string_equal(config.resume, "auto/");
}

static void the_first_attempt_begins(void **state)
{
    (void)state;
    resolves("first", "first", "");
}

static void the_next_goes_on_with_the_last_that_wrote_a_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(psr_mkdirs("some/checkpoints/.step-7.part"), PSR_OK);
    resolves("some", "some-2", "");
    assert_int_equal(psr_mkdirs("some-2/checkpoints/step-7"), PSR_OK);
    resolves("some", "some-3", "some-2");
    assert_int_equal(psr_mkdirs("some-3/checkpoints/step-x"), PSR_OK);
    /* of another run: no attempt before it */
    assert_int_equal(psr_mkdirs("some-5/checkpoints/step-9"), PSR_OK);
    resolves("some", "some-4", "some-2");
    resolves("some//", "some-4", "some-2");
}

static void weights_to_begin_with_are_of_the_first_attempt_alone(void **state)
{
    (void)state;
    psr_config config = asks("given", "auto");
    assert_int_equal(psr_config_set(&config, "init", "weights"), PSR_OK);
    psr_config first = config, second = config;
    assert_int_equal(psr_attempts_resolve(&first), PSR_OK);
    assert_string_equal(first.init, "weights");
    assert_int_equal(psr_mkdirs("given/checkpoints/step-3"), PSR_OK);
    assert_int_equal(psr_attempts_resolve(&second), PSR_OK);
    assert_string_equal(second.init, "");
    assert_string_equal(second.resume, "given");
}

static void a_name_that_becomes_too_long_is_refused(void **state)
{
    (void)state;
    psr_config config = asks("long", "auto");
    for (size_t i = 0; i + 1 < sizeof config.out; i++) /* "./././.": a name of the
                                                          directory that is here */
        config.out[i] = i % 2 == 0 ? '.' : '/';
    assert_int_equal(psr_attempts_resolve(&config), PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(), "--resume auto: at most 1000 attempts are possible"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_resume_stays_as_it_is),
        cmocka_unit_test(the_first_attempt_begins),
        cmocka_unit_test(the_next_goes_on_with_the_last_that_wrote_a_checkpoint),
        cmocka_unit_test(weights_to_begin_with_are_of_the_first_attempt_alone),
        cmocka_unit_test(a_name_that_becomes_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
