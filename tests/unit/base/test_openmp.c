/* This program begins as those that compute do: with "say" it says with what. */
#include "tests/unit/expect.h"

#include "base/system/openmp.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As a shell would begin it, with that in its environment: its output must be so. */
static void expect_said(const char *variables, const char *said)
{
    char own[PATH_MAX] = "", command[PATH_MAX + 200], got[200] = "";
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    snprintf(command, sizeof command, "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY %s '%s' say 'a b'",
             variables, own);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_true(fread(got, 1, sizeof got - 1, output) > 0);
    assert_int_equal(pclose(output), 0);
    assert_string_equal(got, said);
}

static void say(char *const *words)
{
    const char *spins = getenv("GOMP_SPINCOUNT"), *policy = getenv("OMP_WAIT_POLICY");
    char name[32] = "";
    FILE *own = fopen("/proc/self/comm", "r");
    if (own == NULL || fgets(name, sizeof name, own) == NULL)
        exit(1);
    fclose(own);
    printf("%s, %s, %s in %s", spins != NULL ? spins : "-", policy != NULL ? policy : "-", words[2],
           name);
}

static void a_program_begins_with_few_spins(void **state)
{
    (void)state;
    expect_said("", "1000, -, a b in test_openmp\n");
}

static void who_has_chosen_is_left_alone(void **state)
{
    (void)state;
    expect_said("GOMP_SPINCOUNT=7", "7, -, a b in test_openmp\n");
    expect_said("OMP_WAIT_POLICY=ACTIVE", "-, ACTIVE, a b in test_openmp\n");
}

static void expect_set(const char *chosen, const char *text, size_t more)
{
    psr_environment e;
    expect_ok(psr_environment_begin(3, &e));
    psr_environment_unset(&e, "GOMP_SPINCOUNT");
    psr_environment_unset(&e, "OMP_WAIT_POLICY");
    if (chosen != NULL)
        psr_environment_set(&e, chosen);
    const size_t count = e.count;
    assert_int_equal(psr_openmp_set(&e), more > 0);
    assert_false(psr_openmp_set(&e));
    assert_int_equal(e.count, count + more);
    assert_string_equal(e.items[e.count - 1], text);
    psr_environment_done(&e);
}

static void a_program_is_started_with_them(void **state)
{
    (void)state;
    expect_set(NULL, "GOMP_SPINCOUNT=1000", 1);
    expect_set("GOMP_SPINCOUNT=300000", "GOMP_SPINCOUNT=300000", 0);
    expect_set("OMP_WAIT_POLICY=PASSIVE", "OMP_WAIT_POLICY=PASSIVE", 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "say") == 0) {
        psr_openmp_begin(argv);
        say(argv);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_begins_with_few_spins),
        cmocka_unit_test(who_has_chosen_is_left_alone),
        cmocka_unit_test(a_program_is_started_with_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
