/* What is left of a killed scheduler's unfinished files: nothing, and of all else everything. */
#include "deploy/launch/leftovers.h"

#include "tests/unit/folder.h"

#include "base/system/file.h"

#include <unistd.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(unfinished_checkpoints_and_files_go_and_all_else_stays),
        IN_A_FOLDER(what_a_link_points_to_is_left_alone),
        IN_A_FOLDER(a_run_that_has_no_directory_is_no_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
