/* What is left of a killed scheduler's unfinished files: nothing, and of all else everything. */
#include "deploy/leftovers.h"

#include "expect.h"

#include "base/file.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/psr-leftovers-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat status;
    return lstat(in_folder(name), &status) == 0;
}

static void write_file(const char *name)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs("bytes", file);
    fclose(file);
}

static void unfinished_checkpoints_and_files_go_and_all_else_stays(void **state)
{
    (void)state;
    expect_ok(psr_mkdirs(in_folder("checkpoints/step-2")));
    expect_ok(psr_mkdirs(in_folder("checkpoints/.step-4.part")));
    expect_ok(psr_mkdirs(in_folder("checkpoints/.step-.part.kept")));
    write_file("checkpoints/step-2/model.safetensors");
    write_file("checkpoints/.step-4.part/model.safetensors.part");
    write_file("checkpoints/.step-4.part/state.safetensors");
    write_file("run.json");
    write_file("run.json.new-a1B2c3");
    psr_leftovers_remove(folder);
    assert_false(exists("checkpoints/.step-4.part"));
    assert_false(exists("run.json.new-a1B2c3"));
    assert_true(exists("checkpoints/step-2/model.safetensors"));
    assert_true(exists("checkpoints/.step-.part.kept"));
    assert_true(exists("run.json"));
}

static void what_a_link_points_to_is_left_alone(void **state)
{
    (void)state;
    expect_ok(psr_mkdirs(in_folder("run/checkpoints")));
    expect_ok(psr_mkdirs(in_folder("elsewhere")));
    write_file("elsewhere/kept");
    assert_int_equal(symlink(in_folder("elsewhere"), in_folder("run/checkpoints/.step-4.part")), 0);
    psr_leftovers_remove(in_folder("run"));
    assert_true(exists("elsewhere/kept"));
}

static void a_run_that_has_no_directory_is_no_matter(void **state)
{
    (void)state;
    psr_leftovers_remove(in_folder("never"));
    write_file("file");
    psr_leftovers_remove(in_folder("file"));
    assert_true(exists("file"));
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(unfinished_checkpoints_and_files_go_and_all_else_stays),
        IN_A_FOLDER(what_a_link_points_to_is_left_alone),
        IN_A_FOLDER(a_run_that_has_no_directory_is_no_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
