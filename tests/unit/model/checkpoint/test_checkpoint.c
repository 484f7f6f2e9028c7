#include "tests/unit/expect.h"

#include "model/checkpoint/checkpoint.h"
#include "model/networks/network.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder of its own for every test ---- */

static char folder[256];

static int make_folder(void **state)
{
    (void)state;
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/psr-checkpoint-XXXXXX", above != NULL ? above : "/tmp");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

/* Fails when a test left anything there that it did not take away. */
static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char paths[4][320];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat status;
    return stat(in_folder(name), &status) == 0;
}

static void take_away(const char *name)
{
    assert_int_equal(unlink(in_folder(name)), 0);
}

/* The path of name and then what is said of it. */
static const char *detail_of(const char *name, const char *rest)
{
    static char text[512];
    snprintf(text, sizeof text, "%s%s", in_folder(name), rest);
    return text;
}

typedef struct image {
    uint8_t *bytes;
    size_t size;
} image;

static image read_file(const char *name)
{
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    image read = {malloc(1 << 20), 0};
    assert_non_null(read.bytes);
    read.size = fread(read.bytes, 1, 1 << 20, file);
    assert_true(read.size > 0 && read.size < 1 << 20);
    fclose(file);
    return read;
}

/* ---- a small checkpoint ---- */

static psr_layout small_layout(void)
{
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "conv.weight", 4, (uint32_t[]){2, 3, 1, 1}));
    expect_ok(psr_layout_add(&layout, "bn.running_mean", 1, (uint32_t[]){20}));
    expect_ok(psr_layout_add(&layout, "fc.weight", 2, (uint32_t[]){3, 2}));
    return layout;
}

static const char *const small_metadata[] = {"step", "12", "note",
                                             "a \"quoted\" \\ line\nand \xc3\xa9", NULL};

static float value_of(size_t tensor, size_t i)
{
    return (float)tensor * 100 + (float)i + 0.25f;
}

static psr_err put(psr_checkpoint_writer *writer, const psr_layout *layout, size_t tensor,
                   size_t first, size_t count)
{
    float values[64];
    for (size_t i = 0; i < count; i++)
        values[i] = value_of(tensor, first + i);
    return psr_checkpoint_put(writer, layout->tensors[tensor].name, first, count, values);
}

static psr_checkpoint_writer *start(const psr_layout *layout)
{
    psr_checkpoint_writer *writer = NULL;
    expect_ok(psr_checkpoint_create_model(in_folder("c"), layout->tensors, layout->tensor_count,
                                          small_metadata, 12, &writer));
    return writer;
}

static void put_all(psr_checkpoint_writer *writer, const psr_layout *layout)
{
    for (size_t t = 0; t < layout->tensor_count; t++)
        expect_ok(put(writer, layout, t, 0, layout->tensors[t].count));
}

static void write_small(void)
{
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    put_all(writer, &layout);
    expect_ok(psr_checkpoint_commit(&writer));
    assert_null(writer);
    psr_layout_done(&layout);
}

static psr_checkpoint *open_small(void)
{
    psr_checkpoint *checkpoint = NULL;
    expect_ok(psr_checkpoint_open(in_folder("c"), &checkpoint));
    return checkpoint;
}

static void check_small(const psr_layout *layout)
{
    psr_checkpoint *checkpoint = open_small();
    float *arena = calloc(layout->length, sizeof *arena);
    assert_non_null(arena);
    expect_ok(psr_checkpoint_load(checkpoint, "", layout, arena));
    for (size_t t = 0; t < layout->tensor_count; t++)
        for (size_t i = 0; i < layout->tensors[t].count; i++)
            assert_true(arena[layout->tensors[t].offset + i] == value_of(t, i));
    free(arena);
    psr_checkpoint_close(checkpoint);
}

/* ---- writing ---- */

static void what_was_put_is_read_back_with_its_metadata(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    write_small();
    check_small(&layout);
    psr_checkpoint *checkpoint = open_small();
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "step"), small_metadata[1]);
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "note"), small_metadata[3]);
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "format"), "pt");
    assert_null(psr_checkpoint_metadata(checkpoint, "steps"));
    static const char *const names[] = {"bn.num_batches_tracked", "bn.running_mean", "conv.weight",
                                        "fc.weight", NULL};
    for (size_t i = 0; names[i] != NULL; i++)
        assert_string_equal(psr_checkpoint_name(checkpoint, i), names[i]);
    assert_null(psr_checkpoint_name(checkpoint, 4));
    psr_checkpoint_close(checkpoint);
    psr_layout_done(&layout);
    take_away("c");
}

static void pieces_may_come_in_any_order(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    static const struct {
        size_t tensor, first, count;
    } pieces[] = {{1, 15, 5}, {2, 3, 3}, {1, 0, 5}, {0, 0, 6},
                  {1, 10, 5}, {2, 0, 3}, {1, 5, 0}, {1, 5, 5}};
    const size_t count = sizeof pieces / sizeof pieces[0];
    for (size_t i = 0; i < count; i++)
        expect_ok(put(writer, &layout, pieces[i].tensor, pieces[i].first, pieces[i].count));
    expect_ok(psr_checkpoint_commit(&writer));
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

static void the_file_appears_when_it_is_whole_and_not_before(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    put_all(writer, &layout);
    assert_false(exists("c"));
    assert_true(exists("c.part"));
    expect_ok(psr_checkpoint_commit(&writer));
    assert_true(exists("c"));
    assert_false(exists("c.part"));
    psr_layout_done(&layout);
    take_away("c");
}

static void data_begins_at_a_multiple_of_64_and_the_file_has_no_holes(void **state)
{
    (void)state;
    write_small();
    image file = read_file("c");
    uint64_t length;
    memcpy(&length, file.bytes, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(file.size, 8 + length + 8 + (6 + 20 + 6) * 4);
    free(file.bytes);
    take_away("c");
}

static void an_element_is_put_once_and_within_its_tensor(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    expect_ok(put(writer, &layout, 1, 5, 5));
    expect_failure(put(writer, &layout, 1, 5, 5), PSR_ERR_PROTOCOL,
                   detail_of("c", ": tensor bn.running_mean: elements 5 to 10 were stored before"));
    expect_failure(put(writer, &layout, 1, 0, 6), PSR_ERR_PROTOCOL,
                   detail_of("c", ": tensor bn.running_mean: elements 0 to 6 were stored before"));
    expect_failure(put(writer, &layout, 1, 9, 2), PSR_ERR_PROTOCOL,
                   detail_of("c", ": tensor bn.running_mean: elements 9 to 11 were stored before"));
    expect_failure(put(writer, &layout, 1, 0, 20), PSR_ERR_PROTOCOL,
                   detail_of("c", ": tensor bn.running_mean: elements 0 to 20 were stored before"));
    expect_failure(
        put(writer, &layout, 1, 10, 11), PSR_ERR_PROTOCOL,
        detail_of("c", ": tensor bn.running_mean has 20 elements, 11 from 10 on were put"));
    expect_failure(
        psr_checkpoint_put(writer, "bn.running_mean", SIZE_MAX, 2, NULL), PSR_ERR_PROTOCOL,
        detail_of(
            "c",
            ": tensor bn.running_mean has 20 elements, 2 from 18446744073709551615 on were put"));
    expect_ok(put(writer, &layout, 1, 0, 5));
    expect_ok(put(writer, &layout, 1, 10, 10));
    expect_ok(put(writer, &layout, 0, 0, 6));
    expect_ok(put(writer, &layout, 2, 0, 6));
    expect_ok(psr_checkpoint_commit(&writer));
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

static void a_tensor_that_was_not_announced_is_refused(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    float value = 0;
    expect_failure(psr_checkpoint_put(writer, "fc.bias", 0, 1, &value), PSR_ERR_NOT_FOUND,
                   detail_of("c", ": tensor fc.bias was not announced"));
    expect_failure(psr_checkpoint_put(writer, "bn.num_batches_tracked", 0, 1, &value),
                   PSR_ERR_NOT_FOUND,
                   detail_of("c", ": tensor bn.num_batches_tracked was not announced"));
    psr_checkpoint_abandon(&writer);
    psr_layout_done(&layout);
}

static void what_is_not_complete_is_not_committed_and_leaves_the_old_file(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    write_small();
    psr_checkpoint_writer *writer = start(&layout);
    expect_ok(put(writer, &layout, 0, 0, 6));
    expect_ok(put(writer, &layout, 1, 0, 19));
    expect_ok(put(writer, &layout, 2, 0, 6));
    expect_failure(psr_checkpoint_commit(&writer), PSR_ERR_PROTOCOL,
                   detail_of("c", ": tensor bn.running_mean: element 19 of 20 was never put"));
    assert_null(writer);
    assert_false(exists("c.part"));
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

static void abandoning_leaves_nothing(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    assert_true(exists("c.part"));
    psr_checkpoint_abandon(&writer);
    assert_null(writer);
    assert_false(exists("c.part"));
    psr_checkpoint_abandon(&writer); /* NULL is allowed */
    psr_layout_done(&layout);
}

/* Counts, and gives up at the last. */
typedef struct moves {
    unsigned count, last;
} moves;

static bool count_moves(void *context)
{
    moves *m = context;
    return ++m->count != m->last;
}

static void who_watches_hears_of_every_write(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    moves seen = {0};
    psr_checkpoint_watch(writer, count_moves, &seen);
    put_all(writer, &layout);
    expect_ok(psr_checkpoint_commit(&writer));
    assert_int_equal(seen.count, 1 + 1 + 1); /* all tensors, the header, the flush */
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

/* In three writes, of which the last waits for what follows. */
static psr_err put_out_of_order(psr_checkpoint_writer *writer, const psr_layout *layout)
{
    PSR_TRY(put(writer, layout, 2, 3, 3));
    PSR_TRY(put(writer, layout, 2, 0, 3));
    PSR_TRY(put(writer, layout, 0, 0, 6));
    return put(writer, layout, 1, 0, 20);
}

static void what_came_out_of_order_is_read_back_for_its_checksum(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    moves seen = {0};
    psr_checkpoint_watch(writer, count_moves, &seen);
    expect_ok(put_out_of_order(writer, &layout));
    assert_int_equal(seen.count, 3); /* of the scalar, and of both halves */
    expect_ok(psr_checkpoint_commit(&writer));
    assert_int_equal(seen.count, 3 + 1 + 1 + 1 + 1); /* a write, a read, the header, the flush */
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

static void who_watches_may_give_up_at_any_time_and_leaves_nothing(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    for (unsigned last = 1; last <= 7; last++) {
        psr_checkpoint_writer *writer = start(&layout);
        moves seen = {.last = last};
        psr_checkpoint_watch(writer, count_moves, &seen);
        psr_err err = put_out_of_order(writer, &layout);
        assert_int_equal(err, last <= 3 ? PSR_ERR_CANCELLED : PSR_OK);
        if (err == PSR_OK)
            expect_failure(psr_checkpoint_commit(&writer), PSR_ERR_CANCELLED,
                           detail_of("c", ": given up"));
        psr_checkpoint_abandon(&writer);
        assert_int_equal(seen.count, last);
        assert_false(exists("c"));
        assert_false(exists("c.part"));
    }
    psr_layout_done(&layout);
}

static void what_an_earlier_run_left_half_written_is_replaced(void **state)
{
    (void)state;
    FILE *left = fopen(in_folder("c.part"), "w");
    assert_non_null(left);
    for (int i = 0; i < 100000; i++)
        fputc('x', left);
    fclose(left);
    psr_layout layout = small_layout();
    write_small();
    check_small(&layout);
    psr_layout_done(&layout);
    take_away("c");
}

/* ---- writing that cannot be ---- */

static psr_err create_at(const char *path)
{
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = NULL;
    psr_err err = psr_checkpoint_create(path, layout.tensors, layout.tensor_count, NULL, &writer);
    psr_checkpoint_abandon(&writer);
    psr_layout_done(&layout);
    return err;
}

static void a_folder_that_is_not_there_or_not_a_folder_is_named(void **state)
{
    (void)state;
    expect_failure(create_at(in_folder("none/c")), PSR_ERR_IO,
                   detail_of("none/c", ".part: No such file or directory"));
    write_small();
    expect_failure(create_at(in_folder("c/c")), PSR_ERR_IO,
                   detail_of("c/c", ".part: Not a directory"));
    take_away("c");
}

static void a_folder_in_the_place_of_the_file_stays(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("c"), 0777), 0);
    psr_layout layout = small_layout();
    psr_checkpoint_writer *writer = start(&layout);
    put_all(writer, &layout);
    expect_failure(psr_checkpoint_commit(&writer), PSR_ERR_IO, detail_of("c", ": Is a directory"));
    assert_false(exists("c.part"));
    assert_int_equal(rmdir(in_folder("c")), 0);
    psr_layout_done(&layout);
}

/* A full disk, in the form that needs no disk: a limit on the size of files. */
static void a_file_that_does_not_fit_is_told_at_once_and_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 256;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    psr_err err = create_at(in_folder("c"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    expect_failure(err, PSR_ERR_FULL, detail_of("c", ".part: File too large"));
    assert_false(exists("c.part"));
}

static psr_err create_with(const psr_layout *layout, const char *key, const char *value)
{
    const char *const metadata[] = {key, value, NULL};
    psr_checkpoint_writer *writer = NULL;
    psr_err err = psr_checkpoint_create_model(in_folder("c"), layout->tensors, layout->tensor_count,
                                              metadata, 0, &writer);
    psr_checkpoint_abandon(&writer);
    return err;
}

static void names_and_metadata_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    expect_failure(create_with(&layout, "path", "a\xff"), PSR_ERR_USAGE,
                   detail_of("c", ": \"a?\" is not UTF-8: it cannot go into a checkpoint"));
    expect_failure(create_with(&layout, "xxh3/w", ""), PSR_ERR_USAGE,
                   detail_of("c", ": metadata xxh3/w: the checkpoint writes this itself"));
    expect_failure(create_with(&layout, "format", "np"), PSR_ERR_USAGE,
                   detail_of("c", ": metadata format: the checkpoint writes this itself"));
    expect_ok(psr_layout_add(&layout, "conv.weight", 1, (uint32_t[]){1}));
    expect_failure(create_with(&layout, "step", "1"), PSR_ERR_USAGE,
                   detail_of("c", ": tensor conv.weight: comes twice"));
    psr_layout_done(&layout);
    static const char tail[] = ".running_mean";
    char name[64];
    memset(name, 'n', 63);
    memcpy(name + 63 - (sizeof tail - 1), tail, sizeof tail);
    expect_ok(psr_layout_add(&layout, name, 1, (uint32_t[]){1}));
    char wanted[256];
    snprintf(wanted, sizeof wanted,
             "%s: tensor %s: its name leaves no room for num_batches_tracked", in_folder("c"),
             name);
    expect_failure(create_with(&layout, "step", "1"), PSR_ERR_USAGE, wanted);
    psr_layout_done(&layout);
    assert_false(exists("c.part"));
}

/* ---- damage ---- */

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    write_small();
    image file = read_file("c");
    for (size_t i = 0; i < file.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            file.bytes[i] ^= (uint8_t)(1 << bit);
            psr_checkpoint *checkpoint = NULL;
            psr_err err = psr_checkpoint_parse("c", file.bytes, file.size, &checkpoint);
            if (err != PSR_ERR_FORMAT || checkpoint != NULL)
                fail_msg("bit %d of byte %zu of %zu: %s", bit, i, file.size, psr_err_name(err));
            file.bytes[i] ^= (uint8_t)(1 << bit);
        }
    free(file.bytes);
    take_away("c");
}

static void every_cut_is_found(void **state)
{
    (void)state;
    write_small();
    image file = read_file("c");
    for (size_t size = 0; size < file.size; size++) {
        uint8_t *cut = malloc(size + 1); /* so that the sanitizer sees what is read past its end */
        assert_non_null(cut);
        memcpy(cut, file.bytes, size);
        psr_checkpoint *checkpoint = NULL;
        assert_int_equal(psr_checkpoint_parse("c", cut, size, &checkpoint), PSR_ERR_FORMAT);
        free(cut);
    }
    free(file.bytes);
    take_away("c");
}

static void a_flipped_byte_of_a_tensor_names_file_and_tensor(void **state)
{
    (void)state;
    write_small();
    int fd = open(in_folder("c"), O_RDWR);
    assert_true(fd >= 0);
    off_t last = lseek(fd, 0, SEEK_END) - 1;
    char byte;
    assert_int_equal(pread(fd, &byte, 1, last), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, last), 1);
    close(fd);
    psr_checkpoint *checkpoint = NULL;
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_FORMAT,
                   detail_of("c", ": tensor fc.weight: its bytes do not match their checksum"));
    assert_null(checkpoint);
    take_away("c");
}

static void a_torn_file_is_refused(void **state)
{
    (void)state;
    write_small();
    struct stat status;
    assert_int_equal(stat(in_folder("c"), &status), 0);
    assert_int_equal(truncate(in_folder("c"), status.st_size - 4), 0);
    psr_checkpoint *checkpoint = NULL;
    expect_failure(
        psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_FORMAT,
        detail_of("c",
                  ": tensor fc.weight: bytes 112 to 136 do not lie within the 132 bytes of data"));
    assert_int_equal(truncate(in_folder("c"), 0), 0);
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_FORMAT,
                   detail_of("c", ": is empty"));
    take_away("c");
}

static void a_file_that_is_not_there_and_a_folder_are_told_apart(void **state)
{
    (void)state;
    psr_checkpoint *checkpoint = NULL;
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_NOT_FOUND,
                   detail_of("c", ": cannot be opened: No such file or directory"));
    assert_int_equal(mkdir(in_folder("c"), 0777), 0);
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_IO,
                   detail_of("c", ": is a directory, not a file"));
    assert_int_equal(rmdir(in_folder("c")), 0);
}

static void a_fifo_and_a_device_keep_nobody(void **state)
{
    (void)state;
    psr_checkpoint *checkpoint = NULL;
    assert_int_equal(mkfifo(in_folder("c"), 0600), 0);
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_IO,
                   detail_of("c", ": is something special, not a file"));
    take_away("c");
    assert_int_equal(symlink("/dev/zero", in_folder("c")), 0);
    expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_IO,
                   detail_of("c", ": is something special, not a file"));
    take_away("c");
}

/* ---- somebody else changes the file while it is read ---- */

/* The file that is cut to nothing right before the read of this number, from 0; -1: none. */
static long cut_before = -1;

psr_err __real_psr_file_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset);
psr_err __wrap_psr_file_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset);

psr_err __wrap_psr_file_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset)
{
    if (cut_before == 0)
        assert_int_equal(truncate(path, 0), 0);
    if (cut_before >= 0)
        cut_before--;
    return __real_psr_file_read_at(fd, path, to, size, offset);
}

static void a_file_that_is_cut_while_it_is_opened_is_told_at_whichever_read(void **state)
{
    (void)state;
    /* The length, the header, and three tensors that hold something and the scalar, each at
     * once. */
    for (long read = 0; read < 6; read++) {
        write_small();
        psr_checkpoint *checkpoint = NULL;
        cut_before = read;
        expect_failure(psr_checkpoint_open(in_folder("c"), &checkpoint), PSR_ERR_IO,
                       detail_of("c", ": became shorter while it was read"));
        assert_null(checkpoint);
    }
    write_small();
    cut_before = 6;
    psr_checkpoint_close(open_small());
    assert_int_equal(cut_before, 0); /* so those were all */
    cut_before = -1;
    take_away("c");
}

static void
a_file_that_is_cut_or_changed_after_it_was_opened_is_told_when_a_tensor_is_read(void **state)
{
    (void)state;
    psr_layout layout = small_layout();
    float arena[256];
    write_small();
    psr_checkpoint *checkpoint = open_small();
    int fd = open(in_folder("c"), O_RDWR);
    assert_true(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    assert_int_equal(pwrite(fd, "x", 1, size - 1), 1); /* of fc.weight, the last */
    expect_failure(psr_checkpoint_load(checkpoint, "", &layout, arena), PSR_ERR_FORMAT,
                   detail_of("c", ": tensor fc.weight: its bytes do not match their checksum"));
    assert_int_equal(ftruncate(fd, size - 4), 0);
    expect_failure(psr_checkpoint_load(checkpoint, "", &layout, arena), PSR_ERR_IO,
                   detail_of("c", ": became shorter while it was read"));
    /* what was read stays */
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "step"), small_metadata[1]);
    close(fd);
    psr_checkpoint_close(checkpoint);
    psr_layout_done(&layout);
    take_away("c");
}

/* ---- reading what does not fit ---- */

/* Loads the layout from the small checkpoint; what fails must leave the arena as it was. */
static psr_err load(const psr_layout *layout, const char *prefix)
{
    psr_checkpoint *checkpoint = open_small();
    float arena[256];
    for (int i = 0; i < 256; i++)
        arena[i] = -1;
    psr_err err = psr_checkpoint_load(checkpoint, prefix, layout, arena);
    for (int i = 0; err != PSR_OK && i < 256; i++)
        assert_true(arena[i] == -1);
    psr_checkpoint_close(checkpoint);
    return err;
}

static void a_missing_tensor_is_named_and_nothing_is_loaded(void **state)
{
    (void)state;
    write_small();
    psr_layout layout = small_layout();
    expect_ok(load(&layout, ""));
    expect_failure(load(&layout, "momentum/"), PSR_ERR_NOT_FOUND,
                   detail_of("c", ": tensor momentum/conv.weight is missing"));
    expect_ok(psr_layout_add(&layout, "fc.bias", 1, (uint32_t[]){3}));
    expect_failure(load(&layout, ""), PSR_ERR_NOT_FOUND,
                   detail_of("c", ": tensor fc.bias is missing"));
    psr_layout_done(&layout);
    take_away("c");
}

static void a_wrong_shape_is_told_beside_the_right_one(void **state)
{
    (void)state;
    write_small();
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "conv.weight", 4, (uint32_t[]){2, 3, 1, 1}));
    expect_ok(psr_layout_add(&layout, "fc.weight", 2, (uint32_t[]){2, 3}));
    expect_failure(load(&layout, ""), PSR_ERR_FORMAT,
                   detail_of("c", ": tensor fc.weight has shape 3x2, 2x3 is needed"));
    psr_layout_done(&layout);
    expect_ok(psr_layout_add(&layout, "conv.weight", 1, (uint32_t[]){6}));
    expect_failure(load(&layout, ""), PSR_ERR_FORMAT,
                   detail_of("c", ": tensor conv.weight has shape 2x3x1x1, 6 is needed"));
    psr_layout_done(&layout);
    take_away("c");
}

static void a_wrong_type_is_told(void **state)
{
    (void)state;
    write_small();
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "bn.num_batches_tracked", 1, (uint32_t[]){1}));
    expect_failure(load(&layout, ""), PSR_ERR_FORMAT,
                   detail_of("c", ": tensor bn.num_batches_tracked is of type I64, F32 is needed"));
    psr_layout_done(&layout);
    take_away("c");
}

static void prefixes_keep_several_arenas_apart_and_padding_is_not_written(void **state)
{
    (void)state;
    psr_layout layout = small_layout(), stored = {0};
    static const char *const prefixes[] = {"momentum/", "rank0/"};
    for (int p = 0; p < 2; p++)
        for (size_t t = 0; t < layout.tensor_count; t++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s", prefixes[p], layout.tensors[t].name);
            expect_ok(
                psr_layout_add(&stored, name, layout.tensors[t].rank, layout.tensors[t].shape));
        }
    psr_checkpoint_writer *writer = NULL;
    expect_ok(
        psr_checkpoint_create(in_folder("c"), stored.tensors, stored.tensor_count, NULL, &writer));
    put_all(writer, &stored);
    expect_ok(psr_checkpoint_commit(&writer));

    psr_checkpoint *checkpoint = open_small();
    /* no scalars in a state file */
    assert_null(psr_checkpoint_name(checkpoint, stored.tensor_count));
    float arena[64];
    for (size_t p = 0; p < 2; p++) {
        for (int i = 0; i < 64; i++)
            arena[i] = -1;
        expect_ok(psr_checkpoint_load(checkpoint, prefixes[p], &layout, arena));
        size_t loaded = 0;
        for (int i = 0; i < 64; i++)
            loaded += arena[i] != -1;
        assert_int_equal(loaded, layout.count);
        for (size_t t = 0; t < layout.tensor_count; t++)
            assert_true(arena[layout.tensors[t].offset] ==
                        value_of(p * layout.tensor_count + t, 0));
    }
    psr_checkpoint_close(checkpoint);
    psr_layout_done(&layout);
    psr_layout_done(&stored);
    take_away("c");
}

static void resnet18_goes_through_a_file_with_the_same_hash(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_ok(psr_network_new("resnet18", 10, 3, 32, 32, PSR_SHORTCUT_A, &net));
    float *arena = calloc(net->params.length, sizeof *arena),
          *again = calloc(net->params.length, sizeof *again);
    float *buffers = calloc(net->buffers.length, sizeof *buffers);
    assert_true(arena != NULL && again != NULL && buffers != NULL);
    psr_network_init(net, 1, arena, buffers);
    psr_checkpoint_writer *writer = NULL;
    expect_ok(psr_checkpoint_create(in_folder("c"), net->params.tensors, net->params.tensor_count,
                                    NULL, &writer));
    for (size_t t = 0; t < net->params.tensor_count; t++)
        expect_ok(psr_checkpoint_put(writer, net->params.tensors[t].name, 0,
                                     net->params.tensors[t].count,
                                     arena + net->params.tensors[t].offset));
    expect_ok(psr_checkpoint_commit(&writer));
    psr_checkpoint *checkpoint = open_small();
    expect_ok(psr_checkpoint_load(checkpoint, "", &net->params, again));
    assert_true(psr_layout_hash(&net->params, again) == psr_layout_hash(&net->params, arena));
    psr_checkpoint_close(checkpoint);
    free(arena);
    free(again);
    free(buffers);
    psr_network_free(net);
    take_away("c");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_put_is_read_back_with_its_metadata),
        IN_FOLDER(pieces_may_come_in_any_order),
        IN_FOLDER(the_file_appears_when_it_is_whole_and_not_before),
        IN_FOLDER(data_begins_at_a_multiple_of_64_and_the_file_has_no_holes),
        IN_FOLDER(an_element_is_put_once_and_within_its_tensor),
        IN_FOLDER(a_tensor_that_was_not_announced_is_refused),
        IN_FOLDER(what_is_not_complete_is_not_committed_and_leaves_the_old_file),
        IN_FOLDER(abandoning_leaves_nothing),
        IN_FOLDER(who_watches_hears_of_every_write),
        IN_FOLDER(what_came_out_of_order_is_read_back_for_its_checksum),
        IN_FOLDER(who_watches_may_give_up_at_any_time_and_leaves_nothing),
        IN_FOLDER(what_an_earlier_run_left_half_written_is_replaced),
        IN_FOLDER(a_folder_that_is_not_there_or_not_a_folder_is_named),
        IN_FOLDER(a_folder_in_the_place_of_the_file_stays),
        IN_FOLDER(a_file_that_does_not_fit_is_told_at_once_and_leaves_nothing),
        IN_FOLDER(names_and_metadata_that_cannot_be_written_are_refused),
        IN_FOLDER(every_flipped_bit_is_found),
        IN_FOLDER(every_cut_is_found),
        IN_FOLDER(a_flipped_byte_of_a_tensor_names_file_and_tensor),
        IN_FOLDER(a_torn_file_is_refused),
        IN_FOLDER(a_file_that_is_not_there_and_a_folder_are_told_apart),
        IN_FOLDER(a_fifo_and_a_device_keep_nobody),
        IN_FOLDER(a_file_that_is_cut_while_it_is_opened_is_told_at_whichever_read),
        IN_FOLDER(a_file_that_is_cut_or_changed_after_it_was_opened_is_told_when_a_tensor_is_read),
        IN_FOLDER(a_missing_tensor_is_named_and_nothing_is_loaded),
        IN_FOLDER(a_wrong_shape_is_told_beside_the_right_one),
        IN_FOLDER(a_wrong_type_is_told),
        IN_FOLDER(prefixes_keep_several_arenas_apart_and_padding_is_not_written),
        IN_FOLDER(resnet18_goes_through_a_file_with_the_same_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
