/* Files that are written in pieces, past the page cache and through it. */
#include "tests/unit/expect.h"

#include "model/checkpoint/placed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The linker sends the file's writes and reads here (--wrap): a file system may refuse O_DIRECT
 * only when it is used. What refuses it when a file is opened is a real one (on_ramfs). */
static bool refuses;
static unsigned refused;

static bool refuse(int fd)
{
    if (!refuses || (fcntl(fd, F_GETFL) & O_DIRECT) == 0)
        return false;
    refused++;
    errno = EINVAL;
    return true;
}

ssize_t __real_pwrite64(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t size, off_t offset)
{
    return refuse(fd) ? -1 : __real_pwrite64(fd, from, size, offset);
}

ssize_t __real_pread64(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset)
{
    return refuse(fd) ? -1 : __real_pread64(fd, to, size, offset);
}

enum { ODD_BYTES = (3 << 20) + 777, PIECES_MAX = 1000, LONGEST = 9001 };

static char folder[256], path[300];

static int make_folder(void **state)
{
    (void)state;
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/psr-placed-file-XXXXXX", above != NULL ? above : "/tmp");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/f", folder);
    return 0;
}

/* Fails when a test left anything there. */
static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static psr_placed_file create(size_t bytes, bool direct)
{
    psr_placed_file file = {.path = path};
    expect_ok(psr_placed_file_create(&file, bytes, direct));
    return file;
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

/* Puts [begin, end), and looks at the copies. */
static void put(psr_placed_file *file, const uint8_t *bytes, size_t begin, size_t end)
{
    while (begin < end) {
        const void *copy = NULL;
        size_t copied = 0;
        expect_ok(psr_placed_file_put(file, begin, bytes + begin, end - begin, &copy, &copied));
        assert_in_range(copied, 1, end - begin);
        assert_memory_equal(copy, bytes + begin, copied);
        begin += copied;
    }
}

static void expect_file(const uint8_t *bytes, size_t count)
{
    uint8_t *found = malloc(count + 1);
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    assert_int_equal(fread(found, 1, count + 1, from), count);
    assert_memory_equal(found, bytes, count);
    fclose(from);
    free(found);
}

/* Cuts the file into pieces of odd lengths; returns how many. begins: one more, its end. */
static size_t cut(size_t begins[PIECES_MAX + 1])
{
    size_t count = 0, at = 0;
    for (uint32_t seed = 7; at < ODD_BYTES; count++) {
        assert_true(count < PIECES_MAX);
        begins[count] = at;
        seed = seed * 1664525 + 1013904223;
        at += 1 + (seed >> 8) % LONGEST;
    }
    begins[count] = ODD_BYTES;
    return count;
}

static uint8_t *make_bytes(void)
{
    uint8_t *bytes = malloc(ODD_BYTES);
    for (size_t i = 0; i < ODD_BYTES; i++)
        bytes[i] = byte_at(i);
    return bytes;
}

/* Whether a file was opened, and whether it was written, past the page cache. */
typedef struct directness {
    bool opened, written;
} directness;

static directness pieces_of_odd_sizes_come_in_any_order(bool direct)
{
    size_t begins[PIECES_MAX + 1];
    const size_t count = cut(begins), stride = 2 * (count / 5) + 1; /* has no factor of count */
    uint8_t *bytes = make_bytes();
    psr_placed_file file = create(ODD_BYTES, direct);
    directness found = {.opened = file.direct};
    bool *came = calloc(count, sizeof *came);
    for (size_t i = 0, piece = 0; i < count; i++) {
        for (piece = (piece + stride) % count; came[piece];)
            piece = (piece + 1) % count;
        came[piece] = true;
        put(&file, bytes, begins[piece], begins[piece + 1]);
    }
    expect_ok(psr_placed_file_finish(&file));
    found.written = file.direct;
    psr_placed_file_done(&file, false);
    expect_file(bytes, ODD_BYTES);
    assert_int_equal(unlink(path), 0);
    free(came);
    free(bytes);
    return found;
}

static void pieces_of_odd_sizes_go_past_the_page_cache_in_any_order(void **state)
{
    (void)state;
    const directness found = pieces_of_odd_sizes_come_in_any_order(true);
    assert_int_equal(found.written, found.opened);
}

static void and_through_it(void **state)
{
    (void)state;
    const directness found = pieces_of_odd_sizes_come_in_any_order(false);
    assert_false(found.opened || found.written);
}

static void or_if_a_file_system_refuses_when_the_file_is_written(void **state)
{
    (void)state;
    refuses = true;
    refused = 0;
    const directness found = pieces_of_odd_sizes_come_in_any_order(true);
    refuses = false;
    assert_int_equal(refused, found.opened); /* once, if it was open past the page cache */
    assert_false(found.written);
}

/* A block of which the rest is read first. */
static void or_read(void **state)
{
    (void)state;
    uint8_t *bytes = make_bytes();
    psr_placed_file file = create(ODD_BYTES, true);
    const bool direct = file.direct;
    put(&file, bytes, 0, 5000);
    put(&file, bytes, 9000, ODD_BYTES); /* which writes the first piece */
    assert_int_equal(file.direct, direct);
    refuses = true;
    refused = 0;
    put(&file, bytes, 5000, 9000);
    expect_ok(psr_placed_file_finish(&file));
    refuses = false;
    assert_int_equal(refused, direct);
    assert_false(file.direct);
    psr_placed_file_done(&file, false);
    expect_file(bytes, ODD_BYTES);
    assert_int_equal(unlink(path), 0);
    free(bytes);
}

static void what_was_put_is_read_back_at_any_place(void **state)
{
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        uint8_t *bytes = make_bytes();
        psr_placed_file file = create(ODD_BYTES, direct);
        put(&file, bytes, 0, ODD_BYTES);
        const size_t places[] = {0, 1, 4095, 4096, 1048575, ODD_BYTES - 1};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            for (size_t at = places[i]; at < ODD_BYTES;) {
                const void *data = NULL;
                size_t got = 0;
                expect_ok(psr_placed_file_read(&file, at, ODD_BYTES - at, &data, &got));
                assert_in_range(got, 1, ODD_BYTES - at);
                assert_memory_equal(data, bytes + at, got);
                at += got;
            }
        psr_placed_file_done(&file, true);
        assert_int_equal(access(path, F_OK), -1);
        free(bytes);
    }
}

static void a_piece_that_its_owner_changes_is_written_as_it_was_copied(void **state)
{
    (void)state;
    psr_placed_file file = create(5, true);
    uint8_t bytes[5] = {1, 2, 3, 4, 5};
    put(&file, bytes, 0, 5);
    bytes[2] = 9;
    expect_ok(psr_placed_file_finish(&file));
    psr_placed_file_done(&file, false);
    expect_file((const uint8_t[]){1, 2, 3, 4, 5}, 5);
    assert_int_equal(unlink(path), 0);
}

static psr_err count_moved(void *context)
{
    ++*(unsigned *)context;
    return PSR_OK;
}

static void through_the_page_cache_it_is_flushed_on_the_way(void **state)
{
    (void)state;
    enum { BYTES = 33 << 20 };
    unsigned moves = 0;
    uint8_t *bytes = calloc(BYTES, 1);
    psr_placed_file file = {.path = path, .moved = count_moved, .context = &moves};
    expect_ok(psr_placed_file_create(&file, BYTES, false));
    put(&file, bytes, 0, 32 << 20);
    const unsigned stages = (32 << 20) / PSR_PLACED_FILE_STAGE_BYTES;
    assert_int_equal(moves, stages - 1); /* the last one waits for more */
    put(&file, bytes, 32 << 20, (32 << 20) + 1);
    assert_int_equal(moves, stages + 1); /* and a flush after 32 MiB */
    psr_placed_file_done(&file, true);
    free(bytes);
}

static void a_file_that_another_program_cuts_is_told(void **state)
{
    (void)state;
    const void *data;
    size_t got;
    char expected[400];
    psr_placed_file file = create(8192, true);
    assert_int_equal(truncate(path, 100), 0);
    snprintf(expected, sizeof expected, "%s: another program has made it shorter", path);
    expect_failure(psr_placed_file_read(&file, 4096, 10, &data, &got), PSR_ERR_IO, expected);
    psr_placed_file_done(&file, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_odd_sizes_go_past_the_page_cache_in_any_order),
        cmocka_unit_test(and_through_it),
        cmocka_unit_test(or_if_a_file_system_refuses_when_the_file_is_written),
        cmocka_unit_test(or_read),
        cmocka_unit_test(what_was_put_is_read_back_at_any_place),
        cmocka_unit_test(a_piece_that_its_owner_changes_is_written_as_it_was_copied),
        cmocka_unit_test(through_the_page_cache_it_is_flushed_on_the_way),
        cmocka_unit_test(a_file_that_another_program_cuts_is_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
