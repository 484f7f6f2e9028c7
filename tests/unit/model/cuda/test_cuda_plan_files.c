/* Files of plans (model/cuda/plan_files.h), and the texts of graphs that are in their keys. */
#include "model/cuda/plan_files.h"

#include "base/err.h"
#include "base/system/file.h"
#include "model/cuda/graph.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/psr-test-plan-files-XXXXXX";
static char directory[sizeof root + sizeof "/a/plans"];

static psr_cuda_plan_files files_of(size_t files_most, size_t all_bytes)
{
    return (psr_cuda_plan_files){directory, files_most, all_bytes};
}

static const psr_cuda_plan_files many = {directory, 100, 1 << 20};

/* ---- the directory ---- */

static uint32_t list(char (*names)[256])
{
    DIR *opened = opendir(directory);
    uint32_t count = 0;
    assert_non_null(opened);
    for (const struct dirent *e; (e = readdir(opened)) != NULL;)
        if (e->d_name[0] != '.')
            snprintf(names[count++], sizeof names[0], "%s", e->d_name);
    closedir(opened);
    return count;
}

static uint32_t count_files(void)
{
    char names[256][256];
    return list(names);
}

/* Of the only file. */
static void find_file(char path[512])
{
    char names[256][256];
    assert_int_equal(list(names), 1);
    snprintf(path, 512, "%s/%s", directory, names[0]);
}

static int make_root(void **state)
{
    (void)state;
    if (mkdtemp(root) == NULL)
        return 1;
    snprintf(directory, sizeof directory, "%s/a/plans", root);
    return 0;
}

static int remove_files(void **state)
{
    char path[600], names[256][256];
    (void)state;
    if (access(directory, F_OK) != 0)
        return 0;
    for (uint32_t i = list(names); i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    return rmdir(directory);
}

static int remove_root(void **state)
{
    char above[sizeof directory];
    (void)state;
    snprintf(above, sizeof above, "%s/a", root);
    return rmdir(above) != 0 || rmdir(root) != 0;
}

/* ---- helpers ---- */

static void put(const psr_cuda_plan_files *files, const char *key, const char *value)
{
    psr_cuda_plan_files_put(files, key, value, strlen(value));
}

static bool has(const psr_cuda_plan_files *files, const char *key, const char *value)
{
    char *found = NULL;
    size_t bytes = 0;
    if (!psr_cuda_plan_files_get(files, key, &found, &bytes))
        return false;
    const bool same = bytes == strlen(value) && strcmp(found, value) == 0;
    free(found);
    return same;
}

static bool lacks(const psr_cuda_plan_files *files, const char *key)
{
    char *found = NULL;
    size_t bytes = 0;
    return !psr_cuda_plan_files_get(files, key, &found, &bytes);
}

static void write_plainly(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- the tests ---- */

static void what_is_put_is_there_under_its_key_alone(void **state)
{
    static const char binary[] = "a\0b\n";
    char *found = NULL;
    size_t bytes = 0;
    (void)state;
    assert_true(lacks(&many, "key"));
    put(&many, "key", "value");
    assert_true(has(&many, "key", "value"));
    assert_true(lacks(&many, "key 2"));
    assert_true(lacks(&many, "ke"));
    put(&many, "key 2", "");
    assert_true(has(&many, "key 2", ""));
    put(&many, "key", "another and longer value");
    assert_true(has(&many, "key", "another and longer value"));
    psr_cuda_plan_files_put(&many, "key", binary, sizeof binary);
    assert_true(psr_cuda_plan_files_get(&many, "key", &found, &bytes));
    assert_int_equal(bytes, sizeof binary);
    assert_memory_equal(found, binary, sizeof binary);
    assert_int_equal(found[bytes], 0);
    free(found);
    assert_int_equal(count_files(), 2);
}

static void a_torn_or_damaged_file_is_not_there_and_is_replaced(void **state)
{
    char path[512];
    uint8_t *whole = NULL;
    size_t size = 0;
    (void)state;
    put(&many, "a key", "a value");
    find_file(path);
    assert_int_equal(psr_file_read(path, 4096, &whole, &size), PSR_OK);
    for (size_t bytes = 0; bytes < size; bytes++) {
        write_plainly(path, whole, bytes);
        assert_true(lacks(&many, "a key"));
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        whole[bit / 8] ^= (uint8_t)(1 << bit % 8);
        write_plainly(path, whole, size);
        whole[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(lacks(&many, "a key"));
    }
    put(&many, "a key", "a value");
    assert_true(has(&many, "a key", "a value"));
    assert_int_equal(count_files(), 1);
    free(whole);
}

/* As if two keys had one hash. */
static void a_file_of_another_key_is_not_there(void **state)
{
    char first[512], second[512];
    uint8_t *whole = NULL;
    size_t size = 0;
    (void)state;
    put(&many, "key 1", "value");
    find_file(first);
    assert_int_equal(psr_file_read(first, 4096, &whole, &size), PSR_OK);
    assert_int_equal(unlink(first), 0);
    put(&many, "key 2", "value");
    find_file(second);
    write_plainly(second, whole, size);
    assert_true(lacks(&many, "key 2"));
    write_plainly(first, whole, size);
    assert_true(has(&many, "key 1", "value"));
    free(whole);
}

static void a_directory_that_others_may_enter_is_not_used(void **state)
{
    struct stat status;
    (void)state;
    put(&many, "key", "value");
    assert_int_equal(stat(directory, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(chmod(directory, 0750), 0);
    assert_true(lacks(&many, "key"));
    put(&many, "key 2", "value");
    assert_int_equal(chmod(directory, 0700), 0);
    assert_true(lacks(&many, "key 2"));
    assert_true(has(&many, "key", "value"));
}

static void nothing_is_told_of_what_fails(void **state)
{
    const psr_cuda_plan_files nowhere = {"/proc/none/plans", 100, 1 << 20};
    char before[PSR_ERR_DETAIL_BYTES];
    (void)state;
    const psr_err err = psr_fail(PSR_ERR_USAGE, "what was told before");
    (void)err;
    psr_err_detail_keep(before);
    put(&nowhere, "key", "value");
    assert_true(lacks(&nowhere, "key"));
    assert_true(lacks(&many, "key"));
    assert_string_equal(psr_err_detail(), before);
}

/* Of a file that holds key's value: when it was used last, from old days on. */
static void set_use(const char *key, time_t second)
{
    const psr_cuda_plan_files files = files_of(1, 1 << 20);
    char path[512];
    put(&files, key, key);
    find_file(path);
    const struct timespec times[2] = {{second, 0}, {second, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    char aside[600];
    snprintf(aside, sizeof aside, "%s/.%s", directory, strrchr(path, '/') + 1);
    assert_int_equal(rename(path, aside), 0);
}

static void put_back(void)
{
    DIR *opened = opendir(directory);
    char from[600], to[600];
    assert_non_null(opened);
    for (const struct dirent *e; (e = readdir(opened)) != NULL;) {
        if (e->d_name[0] != '.' || strlen(e->d_name) < 3)
            continue;
        snprintf(from, sizeof from, "%s/%s", directory, e->d_name);
        snprintf(to, sizeof to, "%s/%s", directory, e->d_name + 1);
        assert_int_equal(rename(from, to), 0);
    }
    closedir(opened);
}

static void those_go_that_were_not_used_for_the_longest_time(void **state)
{
    const psr_cuda_plan_files four = files_of(4, 1 << 20);
    (void)state;
    set_use("second", 2000);
    set_use("first", 1000);
    set_use("fourth", 4000);
    set_use("third", 3000);
    put_back();
    assert_true(has(&four, "first", "first")); /* it is the last one now */
    put(&four, "fifth", "fifth");
    assert_int_equal(count_files(), 4);
    assert_true(lacks(&four, "second"));
    put(&four, "sixth", "sixth");
    assert_true(lacks(&four, "third"));
    assert_true(has(&four, "fourth", "fourth") && has(&four, "first", "first") &&
                has(&four, "fifth", "fifth") && has(&four, "sixth", "sixth"));
}

static void their_bytes_are_bounded_and_other_files_stay(void **state)
{
    static char large[1000];
    char path[600];
    const psr_cuda_plan_files small = files_of(100, 2500);
    (void)state;
    memset(large, 'x', sizeof large - 1);
    put(&small, "one", large);
    snprintf(path, sizeof path, "%s/not-ours.plan", directory);
    write_plainly(path, (const uint8_t *)large, sizeof large);
    /* what a writer that was killed has left, from old days */
    snprintf(path, sizeof path, "%s/%s", directory,
             "00000000000000000000000000000000.plan.new-abcdef");
    write_plainly(path, (const uint8_t *)large, sizeof large);
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    put(&small, "two", large);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(has(&small, "one", large) && has(&small, "two", large));
    put(&small, "three", large);
    assert_true(has(&small, "three", large));
    assert_true(lacks(&small, "one") || lacks(&small, "two"));
    assert_int_equal(count_files(), 3); /* with the one that is not ours */
    const psr_cuda_plan_files none = files_of(100, 100);
    put(&none, "two", large); /* it alone is too much */
    assert_true(has(&small, "three", large));
}

/* Whoever reads finds a whole value of one of the writers, or nothing. */
static int be_one_of_several(uint32_t writer)
{
    const psr_cuda_plan_files two = files_of(2, 1 << 20);
    static char value[3000];
    for (uint32_t i = 0; i < 20; i++) {
        char key[16], *found = NULL;
        size_t bytes = 0;
        snprintf(key, sizeof key, "key %u", (unsigned)((i + writer) % 3));
        memset(value, 'a' + (int)writer, sizeof value);
        psr_cuda_plan_files_put(&two, key, value, sizeof value - 100 * writer);
        if (!psr_cuda_plan_files_get(&two, key, &found, &bytes))
            continue;
        const uint32_t of = (uint32_t)(found[0] - 'a');
        bool whole = of < 4 && bytes == sizeof value - 100 * of;
        for (size_t k = 0; whole && k < bytes; k++)
            whole = found[k] == found[0];
        free(found);
        if (!whole)
            return 1;
    }
    return 0;
}

static void several_processes_use_them_at_once(void **state)
{
    pid_t children[4];
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(be_one_of_several(i));
    }
    for (uint32_t i = 0; i < 4; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    char names[256][256];
    const uint32_t count = list(names);
    assert_in_range(count, 1, 3);
    for (uint32_t i = 0; i < count; i++)
        assert_null(strstr(names[i], ".new-")); /* all were put in place, or removed */
}

/* ---- texts of graphs ---- */

static psr_cuda_graph small_graph(void)
{
    const psr_cuda_window window = {3, 3, 2, 1};
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = psr_cuda_image(&g, PSR_CUDA_BF16, 4, 8, 6, 6);
    const uint32_t w = psr_cuda_image(&g, PSR_CUDA_BF16, 16, 8, 3, 3);
    const uint32_t y = psr_cuda_image(&g, PSR_CUDA_BF16, 4, 16, 3, 3);
    psr_cuda_operate(&g, PSR_CUDA_CONV, &window, (uint32_t[]){x, w, psr_cuda_inner(&g, y)}, 3);
    psr_cuda_point(&g, PSR_CUDA_MULTIPLY, 3, psr_cuda_number(&g), y);
    return g;
}

static void assert_told_apart(const psr_cuda_graph *changed, const char *from)
{
    char text[PSR_CUDA_GRAPH_SPELLED_MAX];
    psr_cuda_graph_spell(changed, text, sizeof text);
    assert_string_not_equal(text, from);
}

#define TOLD_APART(change)                                                                         \
    do {                                                                                           \
        psr_cuda_graph g = small_graph();                                                          \
        change;                                                                                    \
        assert_told_apart(&g, text);                                                               \
    } while (0)

static void each_part_of_a_graph_is_in_its_text(void **state)
{
    char text[PSR_CUDA_GRAPH_SPELLED_MAX], again[PSR_CUDA_GRAPH_SPELLED_MAX];
    psr_cuda_graph graph = small_graph();
    (void)state;
    psr_cuda_graph_spell(&graph, text, sizeof text);
    graph = small_graph();
    psr_cuda_graph_spell(&graph, again, sizeof again);
    assert_string_equal(again, text);
    for (uint32_t i = 0; i < graph.tensor_count; i++) {
        TOLD_APART(g.tensors[i].type = PSR_CUDA_FP16);
        TOLD_APART(g.tensors[i].rank = 3);
        TOLD_APART(g.tensors[i].inner = !g.tensors[i].inner);
        TOLD_APART(g.tensors[i].by_value = !g.tensors[i].by_value);
        for (uint32_t k = 0; k < 4; k++) {
            TOLD_APART(g.tensors[i].dims[k]++);
            TOLD_APART(g.tensors[i].strides[k]++);
        }
    }
    for (uint32_t i = 0; i < graph.operation_count; i++) {
        TOLD_APART(g.operations[i].kind = PSR_CUDA_CONV_DATA);
        TOLD_APART(g.operations[i].window.height++);
        TOLD_APART(g.operations[i].window.width++);
        TOLD_APART(g.operations[i].window.stride++);
        TOLD_APART(g.operations[i].window.pad++);
        TOLD_APART(g.operations[i].tensor_count--);
        for (uint32_t k = 0; k < graph.operations[i].tensor_count; k++)
            TOLD_APART(g.operations[i].tensors[k]++);
    }
    TOLD_APART(g.operations[1].pointwise = PSR_CUDA_ADD);
    TOLD_APART(g.tensor_count--);
    TOLD_APART(g.operation_count--);
}

static void the_largest_graph_has_room_for_its_text(void **state)
{
    char text[PSR_CUDA_GRAPH_SPELLED_MAX];
    psr_cuda_graph g;
    (void)state;
    psr_cuda_graph_begin(&g);
    g.tensor_count = PSR_CUDA_GRAPH_TENSORS;
    g.operation_count = PSR_CUDA_GRAPH_OPERATIONS;
    for (uint32_t i = 0; i < g.tensor_count; i++) {
        g.tensors[i] = (psr_cuda_tensor){.rank = 4, .inner = true, .by_value = true};
        for (uint32_t k = 0; k < 4; k++)
            g.tensors[i].dims[k] = g.tensors[i].strides[k] = INT64_MAX;
    }
    for (uint32_t i = 0; i < g.operation_count; i++)
        g.operations[i] =
            (psr_cuda_operation){.kind = PSR_CUDA_MEAN_POOL_BACKWARD,
                                 .window = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
                                 .tensor_count = PSR_CUDA_OPERATION_TENSORS};
    psr_cuda_graph_spell(&g, text, sizeof text);
    assert_true(strlen(text) + 1 < sizeof text);
}

#define TEST(name) cmocka_unit_test_teardown(name, remove_files)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_is_there_under_its_key_alone),
        TEST(a_torn_or_damaged_file_is_not_there_and_is_replaced),
        TEST(a_file_of_another_key_is_not_there),
        TEST(a_directory_that_others_may_enter_is_not_used),
        TEST(nothing_is_told_of_what_fails),
        TEST(those_go_that_were_not_used_for_the_longest_time),
        TEST(their_bytes_are_bounded_and_other_files_stay),
        TEST(several_processes_use_them_at_once),
        cmocka_unit_test(each_part_of_a_graph_is_in_its_text),
        cmocka_unit_test(the_largest_graph_has_room_for_its_text),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
