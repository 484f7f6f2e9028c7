/* Limits of control groups, in a folder that is laid out as the kernel's. */
#include "tests/unit/folder.h"

#include "base/system/memory_limit.h"

#include <string.h>

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_folders(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s", name);
    for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(in_folder(path), 0700);
        *slash = '/';
    }
    assert_int_equal(mkdir(in_folder(path), 0700), 0);
}

static void expect_limit(const char *groups, uint64_t bytes)
{
    write_file("groups", groups);
    assert_true(psr_memory_limit(in_folder("groups"), folder) == bytes);
}

static void the_least_limit_of_a_group_and_those_above_counts(void **state)
{
    (void)state;
    make_folders("jobs/one/step");
    expect_limit("0::/jobs/one/step\n", UINT64_MAX);
    write_file("jobs/one/memory.max", "4096000\n");
    write_file("jobs/one/step/memory.max", "max\n");
    expect_limit("0::/jobs/one/step\n", 4096000);
    expect_limit("0::/jobs/one\n", 4096000);
    expect_limit("0::/jobs\n", UINT64_MAX);
    write_file("jobs/memory.max", "8192\n");
    expect_limit("0::/jobs/one/step\n", 8192);
    expect_limit("0::/jobs/other\n", 8192);
}

/* There the path is often the host's. */
static void in_a_container_its_own_group_is_the_root(void **state)
{
    (void)state;
    write_file("memory.max", "12345678\n");
    expect_limit("0::/\n", 12345678);
    expect_limit("0::/system.slice/docker-1234.scope\n", 12345678);
}

static void version_1_says_it_in_a_folder_of_its_own(void **state)
{
    (void)state;
    make_folders("memory/job");
    write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("memory/job/memory.limit_in_bytes", "65536\n");
    write_file("memory.max", "1\n"); /* of no group that this process is in */
    expect_limit("5:devices:/\n4:cpu,memory:/job\n", 65536);
    expect_limit("4:memory:/\n", 9223372036854771712u);
    expect_limit("3:cpuset:/job\n2:memoryless:/job\n", UINT64_MAX);
    expect_limit("4:memory:/job\n0::/\n", 1);
}

static void expect_available(const char *groups, uint64_t bytes)
{
    write_file("groups", groups);
    assert_true(psr_memory_available(in_folder("meminfo"), in_folder("groups"), folder) == bytes);
}

static void what_is_available_is_what_the_fullest_group_leaves(void **state)
{
    (void)state;
    make_folders("job/step");
    expect_available("0::/job/step\n", UINT64_MAX); /* there is no meminfo */
    write_file("meminfo", "MemTotal: 900 kB\nMemAvailable: 500 kB\n");
    expect_available("0::/job/step\n", 500 * 1024);
    write_file("job/memory.max", "400000\n");
    write_file("job/memory.current", "150000\n");
    expect_available("0::/job/step\n", 250000);
    write_file("job/memory.stat", "anon 1\nfile 70000\ninactive_file 40000\nactive_file 20000\n");
    expect_available("0::/job/step\n", 310000);
    write_file("job/step/memory.max", "5000\n");
    write_file("job/step/memory.current", "6000\n");
    expect_available("0::/job/step\n", 0);
    make_folders("memory/old");
    write_file("memory/old/memory.limit_in_bytes", "90000\n");
    write_file("memory/old/memory.usage_in_bytes", "80000\n");
    write_file("memory/old/memory.stat", "cache 9\ntotal_inactive_file 30000\n");
    expect_available("3:memory:/old\n", 40000);
}

static void what_does_not_say_limits_nothing(void **state)
{
    (void)state;
    assert_true(psr_memory_limit(in_folder("none"), folder) == UINT64_MAX);
    write_file("memory.max", "many\n");
    expect_limit("0::/\n", UINT64_MAX);
    expect_limit("", UINT64_MAX);
    expect_limit("memory\n:\n::\n0:\n", UINT64_MAX);
    char longest[6000];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "0::/", 4);
    longest[sizeof longest - 1] = '\0';
    expect_limit(longest, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(the_least_limit_of_a_group_and_those_above_counts),
        IN_A_FOLDER(in_a_container_its_own_group_is_the_root),
        IN_A_FOLDER(version_1_says_it_in_a_folder_of_its_own),
        IN_A_FOLDER(what_is_available_is_what_the_fullest_group_leaves),
        IN_A_FOLDER(what_does_not_say_limits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
