#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/system/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory of the test's own, which is the working directory while it runs. */
static char root[] = "/tmp/psr-test-file-XXXXXX";
static int before = -1;

static int enter(void **state)
{
    (void)state;
    before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return before < 0 || mkdtemp(root) == NULL || chdir(root) != 0;
}

/* After each test. */
static int clear(void **state)
{
    (void)state;
    const char *const files[] = {"a", "file", "fifo", "d/e/f", "d/e", "d"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        remove(files[i]);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    return fchdir(before) != 0 || close(before) != 0 || rmdir(root) != 0;
}

static int count_entries(void)
{
    DIR *dir = opendir(".");
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2;
}

static void what_is_written_is_read_back_and_ended_by_a_zero(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 1, 2, 255};
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(psr_file_write_atomic("file", bytes, sizeof bytes), PSR_OK);
    assert_int_equal(psr_file_read("file", sizeof bytes, &data, &size), PSR_OK);
    assert_int_equal(size, sizeof bytes);
    assert_memory_equal(data, bytes, size);
    assert_int_equal(data[size], 0);
    free(data);
    assert_int_equal(count_entries(), 1);
}

static void an_empty_file_is_written_and_read(void **state)
{
    (void)state;
    uint8_t *data = NULL;
    size_t size = 1;
    assert_int_equal(psr_file_write_atomic("file", NULL, 0), PSR_OK);
    assert_int_equal(psr_file_read("file", 0, &data, &size), PSR_OK);
    assert_int_equal(size, 0);
    free(data);
}

static void a_new_file_has_the_mode_that_the_umask_leaves(void **state)
{
    (void)state;
    struct stat status;
    mode_t old = umask(027);
    assert_int_equal(psr_file_write_atomic("file", "x", 1), PSR_OK);
    umask(old);
    assert_int_equal(stat("file", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(psr_file_read("missing", 10, &data, &size), PSR_ERR_NOT_FOUND);
    assert_string_equal(psr_err_detail(), "missing: cannot be opened: No such file or directory");
    assert_null(data);
}

static void a_file_longer_than_the_limit_is_refused(void **state)
{
    (void)state;
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(psr_file_write_atomic("file", "12345", 5), PSR_OK);
    assert_int_equal(psr_file_read("file", 4, &data, &size), PSR_ERR_FORMAT);
    assert_string_equal(psr_err_detail(), "file: 5 bytes are too many; 4 is the limit");
    assert_null(data);
}

static void a_directory_and_a_fifo_are_not_files(void **state)
{
    (void)state;
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(psr_file_read(".", 10, &data, &size), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), ".: is a directory, not a file");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(psr_file_read("fifo", 10, &data, &size), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "fifo: is something special, not a file");
}

static void a_device_is_not_a_file(void **state)
{
    (void)state;
    int fd = -1;
    uint64_t size = 7;
    assert_int_equal(psr_file_open("/dev/zero", &fd, &size), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "/dev/zero: is something special, not a file");
    assert_int_equal(fd, -1);
    assert_int_equal(size, 7);
}

static void a_part_is_read_and_a_file_that_was_cut_meanwhile_is_told(void **state)
{
    (void)state;
    int fd = -1;
    uint64_t size = 0;
    char part[4] = "";
    assert_int_equal(psr_file_write_atomic("file", "0123456789", 10), PSR_OK);
    assert_int_equal(psr_file_open("file", &fd, &size), PSR_OK);
    assert_int_equal(size, 10);
    assert_int_equal(psr_file_read_at(fd, "file", part, 4, 6), PSR_OK);
    assert_memory_equal(part, "6789", 4);
    assert_int_equal(truncate("file", 8), 0);
    assert_int_equal(psr_file_read_at(fd, "file", part, 4, 6), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "file: became shorter while it was read");
    close(fd);
}

static void writing_into_a_missing_directory_names_the_path(void **state)
{
    (void)state;
    assert_int_equal(psr_file_write_atomic("nowhere/file", "x", 1), PSR_ERR_NOT_FOUND);
    assert_string_equal(psr_err_detail(),
                        "nowhere/file: cannot be made: No such file or directory");
}

static void a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(void **state)
{
    (void)state;
    assert_int_equal(psr_file_write_atomic("file", "old", 3), PSR_OK);
    /* A limit on the size of files fails a write as a full disk does: in the middle. */
    struct rlimit old, small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static const char big[4096];
    psr_err err = psr_file_write_atomic("file", big, sizeof big);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);

    assert_int_equal(err, PSR_ERR_FULL);
    assert_string_equal(psr_err_detail(), "file: cannot be written: File too large");
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(psr_file_read("file", 10, &data, &size), PSR_OK);
    assert_string_equal((char *)data, "old");
    free(data);
    assert_int_equal(count_entries(), 1);
}

static void a_directory_in_the_way_of_the_rename_leaves_nothing_beside_it(void **state)
{
    (void)state;
    assert_int_equal(psr_mkdirs("d"), PSR_OK);
    assert_int_equal(psr_file_write_atomic("d", "x", 1), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "d: cannot be put in place: Is a directory");
    assert_int_equal(count_entries(), 1);
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char path[PATH_MAX + 10];
    memset(path, 'x', sizeof path - 1);
    assert_int_equal(psr_file_write_atomic(path, "x", 1), PSR_ERR_IO);
    assert_int_equal(psr_mkdirs(path), PSR_ERR_IO);
    assert_int_equal(psr_mkdirs(""), PSR_ERR_IO);
}

static void directories_are_made_with_those_above_them_and_may_be_there(void **state)
{
    (void)state;
    struct stat status;
    assert_int_equal(psr_mkdirs("d//e/f/"), PSR_OK);
    assert_int_equal(psr_mkdirs("d/e/f"), PSR_OK);
    assert_int_equal(stat("d/e/f", &status), 0);
    assert_true(S_ISDIR(status.st_mode));
}

static void a_file_in_the_way_of_a_directory_is_named(void **state)
{
    (void)state;
    assert_int_equal(psr_file_write_atomic("a", "x", 1), PSR_OK);
    assert_int_equal(psr_mkdirs("a/b"), PSR_ERR_IO);
    assert_string_equal(psr_err_detail(), "a: exists, and is not a directory");
}

static void a_directory_is_private_if_nobody_else_may_enter_it(void **state)
{
    struct stat status;
    (void)state;
    assert_false(psr_dir_is_private("d/e"));
    assert_true(psr_dir_make_private("d/e"));
    assert_int_equal(stat("d/e", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_true(psr_dir_make_private("d/e")); /* it is there already */
    assert_int_equal(chmod("d/e", 0710), 0);
    assert_false(psr_dir_make_private("d/e")); /* somebody's, who meant it so */
    assert_int_equal(stat("d/e", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0710);
    assert_int_equal(chmod("d/e", 0700), 0);
    assert_int_equal(symlink("d/e", "a"), 0); /* may lead elsewhere at any time */
    assert_false(psr_dir_is_private("a"));
    assert_int_equal(psr_file_write_atomic("file", "x", 1), PSR_OK);
    assert_false(psr_dir_make_private("file"));
}

static void flushing_a_missing_directory_names_it(void **state)
{
    (void)state;
    assert_int_equal(psr_dir_sync("."), PSR_OK);
    assert_int_equal(psr_dir_sync("nowhere"), PSR_ERR_NOT_FOUND);
    assert_string_equal(psr_err_detail(), "nowhere: cannot be opened: No such file or directory");
}

static void want_of_a_descriptor_is_waited_out_for_a_while_and_nothing_else_is(void **state)
{
    (void)state;
    const int waited_out[] = {EMFILE, ENFILE}, told[] = {ENOENT, EACCES, ENOSPC};
    for (size_t i = 0; i < sizeof waited_out / sizeof waited_out[0]; i++) {
        errno = waited_out[i];
        assert_true(psr_file_try_again(0));
        assert_int_equal(errno, waited_out[i]);
        assert_false(psr_file_try_again(1000));
        assert_int_equal(errno, waited_out[i]);
    }
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        errno = told[i];
        assert_false(psr_file_try_again(0));
    }
}

static void *give_one_back(void *fd)
{
    close(*(int *)fd);
    return NULL;
}

/* All descriptors are taken, and one comes back while a file is opened. */
static void a_file_is_written_when_a_descriptor_is_free_again(void **state)
{
    (void)state;
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    int last = dup(0); /* the lowest that was free: all below are taken */
    const struct rlimit few = {(rlim_t)last + 1, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(dup(0), -1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_one_back, &last), 0);
    psr_err err = psr_file_write_atomic("file", "x", 1);
    pthread_join(thread, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(err, PSR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read_back_and_ended_by_a_zero, clear),
        cmocka_unit_test_teardown(an_empty_file_is_written_and_read, clear),
        cmocka_unit_test_teardown(a_new_file_has_the_mode_that_the_umask_leaves, clear),
        cmocka_unit_test_teardown(a_missing_file_is_named, clear),
        cmocka_unit_test_teardown(a_file_longer_than_the_limit_is_refused, clear),
        cmocka_unit_test_teardown(a_directory_and_a_fifo_are_not_files, clear),
        cmocka_unit_test_teardown(a_device_is_not_a_file, clear),
        cmocka_unit_test_teardown(a_part_is_read_and_a_file_that_was_cut_meanwhile_is_told, clear),
        cmocka_unit_test_teardown(writing_into_a_missing_directory_names_the_path, clear),
        cmocka_unit_test_teardown(a_write_that_fails_leaves_the_old_file_and_nothing_beside_it,
                                  clear),
        cmocka_unit_test_teardown(a_directory_in_the_way_of_the_rename_leaves_nothing_beside_it,
                                  clear),
        cmocka_unit_test_teardown(a_path_that_is_too_long_is_refused, clear),
        cmocka_unit_test_teardown(directories_are_made_with_those_above_them_and_may_be_there,
                                  clear),
        cmocka_unit_test_teardown(a_file_in_the_way_of_a_directory_is_named, clear),
        cmocka_unit_test_teardown(a_directory_is_private_if_nobody_else_may_enter_it, clear),
        cmocka_unit_test_teardown(flushing_a_missing_directory_names_it, clear),
        cmocka_unit_test(want_of_a_descriptor_is_waited_out_for_a_while_and_nothing_else_is),
        cmocka_unit_test_teardown(a_file_is_written_when_a_descriptor_is_free_again, clear),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
