/* What a data set's samples are: equal for equal samples, however they are packed and called, found
 * by a cache of the user's own, and the same once they have been packed for other processes. */
#include "tests/unit/data/data_files.h"
#include "tests/unit/expect.h"

#include "data/content_cache.h"
#include "data/opened.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

enum { TRAIN = 40, TEST = 9, SIDE = 6, PATH_BYTES = 200 };

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static bytes content_of(int file)
{
    switch (file) {
    case 0:
        return idx_images(TRAIN, SIDE, SIDE);
    case 1:
        return idx_labels(TRAIN);
    case 2:
        return idx_images(TEST, SIDE, SIDE);
    default:
        return idx_labels(TEST);
    }
}

/* A directory of four files, packed by one of three ways. */
static void write_set(const char *directory, const char *ending)
{
    char name[64];
    expect_ok(mkdir(directory, 0700) == 0 ? PSR_OK : PSR_ERR_IO);
    for (int i = 0; i < 4; i++) {
        bytes plain = content_of(i);
        bytes packed = strcmp(ending, ".gz") == 0   ? pack_gzip(plain)
                       : strcmp(ending, ".xz") == 0 ? pack_xz(plain)
                                                    : (bytes){0};
        snprintf(name, sizeof name, "%s%s", names[i], ending);
        write_file(directory, name, packed.at != NULL ? packed : plain);
        bytes_done(&plain);
        bytes_done(&packed);
    }
}

static void remove_set(const char *directory)
{
    DIR *list = opendir(directory);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        unlinkat(dirfd(list), entry->d_name, 0);
    if (list != NULL)
        closedir(list);
    rmdir(directory);
}

static char a[PATH_BYTES], b[PATH_BYTES], cache[PATH_BYTES];

static int set_up(void **state)
{
    if (directory_setup(state) != 0)
        return -1;
    snprintf(a, sizeof a, "%s/a", (char *)*state);
    snprintf(b, sizeof b, "%s/b", (char *)*state);
    snprintf(cache, sizeof cache, "%s/cache", (char *)*state);
    return 0;
}

static int tear_down(void **state)
{
    remove_set(a);
    remove_set(b);
    remove_set(cache);
    return directory_teardown(state);
}

static psr_content content(const char *spec, const char *with_cache)
{
    psr_content found;
    expect_ok(psr_content_find(spec, with_cache, NULL, &found));
    assert_true(psr_content_begins(found.train) && psr_content_begins(found.test));
    return found;
}

static void equal_samples_have_one_content_however_they_are_packed_and_called(void **state)
{
    static const char *const endings[] = {".gz", ".xz"};
    (void)state;
    write_set(a, "");
    psr_content plain = content(a, NULL);
    assert_string_not_equal(plain.train, plain.test);
    for (size_t i = 0; i < 2; i++) {
        write_set(b, endings[i]);
        psr_content packed = content(b, NULL);
        assert_memory_equal(&plain, &packed, sizeof plain);
        remove_set(b);
    }
}

static void one_byte_of_one_split_is_another_content_of_that_split(void **state)
{
    (void)state;
    write_set(a, "");
    psr_content before = content(a, NULL);
    write_at(a, names[2], 16 + 3, 0xee); /* a pixel of the test split */
    psr_content after = content(a, NULL);
    assert_string_equal(before.train, after.train);
    assert_string_not_equal(before.test, after.test);
    write_at(a, names[1], 8 + 5, 0); /* a label */
    psr_content labelled = content(a, NULL);
    assert_string_not_equal(after.train, labelled.train);
    assert_string_equal(after.test, labelled.test);
}

static void the_order_of_samples_counts(void **state)
{
    (void)state;
    write_set(a, "");
    psr_content before = content(a, NULL);
    bytes images = idx_images(TRAIN, SIDE, SIDE);
    uint8_t first[SIDE * SIDE];
    memcpy(first, images.at + 16, sizeof first);
    memmove(images.at + 16, images.at + 16 + sizeof first, sizeof first);
    memcpy(images.at + 16 + sizeof first, first, sizeof first);
    write_file(a, names[0], images);
    bytes_done(&images);
    assert_string_not_equal(before.train, content(a, NULL).train);
}

static void generated_data_are_what_their_spec_says(void **state)
{
    (void)state;
    psr_content one = content("synthetic:count=50,test=7,size=8", NULL);
    psr_content same = content("synthetic:size=8,test=7,count=50,classes=10", NULL);
    psr_content other = content("synthetic:count=50,test=8,size=8", NULL);
    assert_memory_equal(&one, &same, sizeof one);
    assert_string_equal(one.train, other.train);
    assert_string_not_equal(one.test, other.test);
    assert_string_not_equal(one.train, content("synthetic:count=50,test=7,size=9", NULL).train);
}

/* ---- the cache ---- */

/* As if its files had been there for a long time. */
static void settle(const char *directory)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char path[2 * PATH_BYTES];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
}

static void key_of(const char *spec, char key[PSR_CONTENT_BYTES])
{
    expect_ok(psr_content_key(spec, key));
}

static void what_is_remembered_is_of_the_files_state_alone(void **state)
{
    static const psr_content said = {"11111111111111111111111111111111",
                                     "22222222222222222222222222222222"};
    char key[PSR_CONTENT_BYTES], again[PSR_CONTENT_BYTES];
    (void)state;
    write_set(a, "");
    key_of(a, key);
    psr_content_cache_put(cache, key, &said);
    psr_content found = content(a, cache);
    assert_memory_equal(&found, &said, sizeof said); /* the files were not read */
    settle(a);                                       /* another time, and nothing
                                                        is known of them */
    key_of(a, again);
    assert_string_not_equal(key, again);
    found = content(a, cache);
    assert_string_not_equal(found.train, said.train);
    assert_string_equal(found.train, content(a, NULL).train);
}

/* The inode's time of change, which nobody can set, is now: one that was written a moment ago may
 * be written again within that moment. */
static void files_that_were_just_changed_are_not_remembered(void **state)
{
    struct stat status;
    (void)state;
    write_set(a, "");
    const time_t changed_s = time(NULL);
    settle(a);
    (void)content(a, cache);
    /* unless that moment is over */
    assert_true(stat(cache, &status) != 0 || time(NULL) > changed_s + 3);
}

static void a_cache_that_others_may_enter_is_left_alone(void **state)
{
    static const psr_content said = {"11111111111111111111111111111111",
                                     "22222222222222222222222222222222"};
    char key[PSR_CONTENT_BYTES];
    psr_content found;
    (void)state;
    write_set(a, "");
    key_of(a, key);
    psr_content_cache_put(cache, key, &said);
    assert_true(psr_content_cache_get(cache, key, &found));
    assert_int_equal(chmod(cache, 0750), 0);
    assert_false(psr_content_cache_get(cache, key, &found));
    assert_string_not_equal(content(a, cache).train, said.train);
    assert_int_equal(chmod(cache, 0700), 0);
}

static void what_stands_in_it_is_checked_and_is_of_one_key(void **state)
{
    static const psr_content said = {"11111111111111111111111111111111",
                                     "22222222222222222222222222222222"};
    static const char key[] = "abcdef00000000000000000000000000",
                      other[] = "abcdef00000000000000000000000001";
    psr_content found;
    (void)state;
    assert_false(psr_content_cache_get(cache, key, &found));
    psr_content_cache_put(cache, key, &said);
    assert_true(psr_content_cache_get(cache, key, &found));
    assert_memory_equal(&found, &said, sizeof said);
    assert_false(psr_content_cache_get(cache, other, &found)); /* in the same slot */
    psr_content_cache_put(cache, other, &said);
    assert_false(psr_content_cache_get(cache, key, &found));
    write_file(cache, "ab", (bytes){(uint8_t *)(uintptr_t) "abcdef", 6});
    assert_false(psr_content_cache_get(cache, other, &found));
}

/* ---- reading ---- */

static void a_truncated_file_is_found_though_its_head_is_whole(void **state)
{
    char path[2 * PATH_BYTES];
    psr_dataset_info info;
    psr_content found;
    (void)state;
    write_set(a, "");
    snprintf(path, sizeof path, "%s/%s", a, names[0]);
    assert_int_equal(truncate(path, 16 + TRAIN * SIDE * SIDE - 1), 0);
    expect_ok(psr_dataset_info_read(a, &info)); /* which looks at heads and labels */
    assert_int_equal(psr_content_find(a, cache, NULL, &found), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "truncated"));
}

static void reading_says_that_it_goes_on_and_can_be_ended(void **state)
{
    psr_reading reading = {0};
    psr_opened opened;
    (void)state;
    write_set(a, ".xz");
    expect_ok(psr_opened_init(a, NULL, &reading, &opened));
    assert_true(atomic_load(&reading.moves) >= 4); /* each file moves it */
    psr_opened_done(&opened);
    atomic_store(&reading.stop, true);
    assert_int_equal(psr_opened_init(a, NULL, &reading, &opened), PSR_ERR_CANCELLED);
    assert_int_equal(psr_opened_init("synthetic:count=10,test=2,size=8", NULL, &reading, &opened),
                     PSR_ERR_CANCELLED);
}

/* ---- for other processes ---- */

static void assert_same(const psr_dataset *x, const psr_dataset *y)
{
    assert_int_equal(x->count, y->count);
    assert_int_equal(x->classes, y->classes);
    assert_memory_equal(x->labels, y->labels, x->count * sizeof *x->labels);
    assert_memory_equal(x->pixels, y->pixels,
                        (size_t)x->count * x->channels * x->height * x->width);
    assert_memory_equal(x->mean, y->mean, sizeof x->mean);
    assert_memory_equal(x->deviation, y->deviation, sizeof x->deviation);
}

static void what_was_packed_is_the_same_data_set(void **state)
{
    psr_opened opened, again;
    (void)state;
    write_set(a, "");
    expect_ok(psr_opened_init(a, NULL, NULL, &opened));
    size_t size = psr_opened_packed_bytes(&opened);
    uint8_t *packed = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(packed);
    memset(packed, 0, size);
    expect_ok(psr_opened_pack(&opened, NULL, packed));
    psr_opened_done(&opened);
    expect_ok(psr_opened_unpack(packed, size, "here", &again));
    expect_ok(psr_opened_init(a, NULL, NULL, &opened));
    assert_same(opened.train, again.train);
    assert_same(opened.test, again.test);
    assert_string_equal(again.train->name, "here");
    assert_memory_equal(&opened.content, &again.content, sizeof opened.content);
    psr_opened_done(&again);
    /* Every length that is too short, and a label of no class. */
    for (size_t s = 0; s < size; s += 7)
        expect_failure(psr_opened_unpack(packed, s, "here", &again), PSR_ERR_FORMAT,
                       "--data here: what another process passed is not a data set");
    uint32_t *labels = (uint32_t *)(uintptr_t)opened.train->labels;
    labels[3] = opened.train->classes;
    expect_ok(psr_opened_pack(&opened, NULL, packed));
    expect_failure(psr_opened_unpack(packed, size, "here", &again), PSR_ERR_FORMAT,
                   "--data here: the data set that another process passed has labels of no class");
    psr_opened_done(&opened);
    free(packed);
}

/* Labels and constants are passed, for which all of the training pictures were drawn; pictures are
 * drawn where they are wanted. */
static void of_generated_data_no_pixels_are_passed(void **state)
{
    psr_opened opened, again;
    (void)state;
    expect_ok(psr_opened_init("synthetic:count=50,test=7,size=64,classes=3", NULL, NULL, &opened));
    psr_dataset_info info;
    expect_ok(psr_dataset_info_read("synthetic:count=50,test=7,size=64,classes=3", &info));
    assert_int_equal(info.memory_bytes, 57 * sizeof(uint32_t));
    assert_true(psr_opened_is_passed(&opened));
    size_t size = psr_opened_packed_bytes(&opened);
    assert_in_range(size, 1, 2048);
    uint8_t *packed = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(packed);
    memset(packed, 0, size);
    expect_ok(psr_opened_pack(&opened, NULL, packed));
    expect_ok(psr_opened_unpack(packed, size, "synthetic", &again));
    const psr_dataset *const one[2] = {opened.train, opened.test};
    const psr_dataset *const other[2] = {again.train, again.test};
    psr_picture_scratch scratch[2] = {0};
    for (int s = 0; s < 2; s++) {
        assert_memory_equal(one[s]->mean, other[s]->mean, sizeof one[s]->mean);
        assert_memory_equal(one[s]->source->deviation, other[s]->source->deviation,
                            sizeof one[s]->deviation);
        for (uint32_t i = 0; i < one[s]->count; i++) {
            psr_picture a_picture, b_picture;
            assert_int_equal(one[s]->labels[i], other[s]->labels[i]);
            expect_ok(psr_picture_source_get(one[s]->source, i, NULL, &scratch[0], &a_picture));
            expect_ok(psr_picture_source_get(other[s]->source, i, NULL, &scratch[1], &b_picture));
            assert_memory_equal(a_picture.pixels, b_picture.pixels, 3 * 64 * 64);
        }
    }
    psr_scratch_done(&scratch[0]);
    psr_scratch_done(&scratch[1]);
    psr_opened_done(&opened);
    psr_opened_done(&again);
    free(packed);
}

/* An IDX file of zeroes but for one picture, sparse, and so large that it is mapped. */
enum { LARGE_COUNT = 1030, LARGE_SIDE = 1024, LARGE_MARKED = 1007 };

static void write_large_set(void)
{
    const uint8_t head[16] = {0, 0, 8, 3, 0, 0, LARGE_COUNT >> 8, LARGE_COUNT & 0xff, 0, 0,
                              4, 0, 0, 0, 4, 0};
    const off_t picture = (off_t)LARGE_SIDE * LARGE_SIDE;
    uint8_t labels[8 + LARGE_COUNT] = {0, 0, 8, 1, 0, 0, LARGE_COUNT >> 8, LARGE_COUNT & 0xff};
    char path[300];
    labels[8 + LARGE_MARKED] = 1;
    assert_int_equal(mkdir(a, 0700), 0);
    static const char *const images[] = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
    static const char *const label_files[] = {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"};
    for (int s = 0; s < 2; s++) {
        snprintf(path, sizeof path, "%s/%s", a, images[s]);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
        assert_int_equal(pwrite(fd, "\x07\x09", 2, 16 + LARGE_MARKED * picture), 2);
        assert_int_equal(ftruncate(fd, 16 + LARGE_COUNT * picture), 0);
        close(fd);
        snprintf(path, sizeof path, "%s/%s", a, label_files[s]);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, labels, sizeof labels), sizeof labels);
        close(fd);
    }
}

static void expect_marked(const psr_dataset *dataset)
{
    psr_picture_scratch scratch = {0};
    psr_picture picture;
    assert_non_null(dataset->mapped);
    expect_ok(psr_picture_source_get(dataset->source, LARGE_MARKED, NULL, &scratch, &picture));
    assert_int_equal(picture.pixels[0], 7);
    assert_int_equal(picture.pixels[1], 9);
    assert_int_equal(picture.pixels[2], 0);
    assert_int_equal(dataset->labels[LARGE_MARKED], 1);
    psr_scratch_done(&scratch);
}

static void expect_words(psr_err err, psr_err code, const char *words)
{
    assert_int_equal(err, code);
    assert_non_null(strstr(psr_err_detail(), words));
}

static void large_plain_files_are_mapped_and_their_place_is_passed(void **state)
{
    psr_opened opened, again;
    psr_picture picture;
    psr_picture_scratch scratch = {0};
    char path[300];
    (void)state;
    psr_dataset_info info;
    write_large_set();
    expect_ok(psr_dataset_info_read(a, &info));
    assert_int_equal(info.memory_bytes, 2 * LARGE_COUNT * sizeof(uint32_t)); /* labels alone */
    expect_ok(psr_opened_init(a, NULL, NULL, &opened));
    expect_marked(opened.train);
    expect_marked(opened.test);
    const size_t size = psr_opened_packed_bytes(&opened);
    assert_in_range(size, 1, 64 * 1024); /* no pixels */
    uint8_t *packed = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(packed);
    memset(packed, 0, size);
    expect_ok(psr_opened_pack(&opened, NULL, packed));
    expect_ok(psr_opened_unpack(packed, size, "here", &again));
    expect_marked(again.train);
    assert_memory_equal(opened.train->mean, again.train->mean, sizeof again.train->mean);
    assert_memory_equal(&opened.content, &again.content, sizeof again.content);
    psr_opened_done(&opened);
    /* A file that is cut is not touched, and is named; nor is it taken by who opens it later. */
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", a);
    assert_int_equal(truncate(path, 4096), 0);
    expect_words(psr_picture_source_get(again.train->source, 0, NULL, &scratch, &picture),
                 PSR_ERR_FORMAT, "train-images-idx3-ubyte: truncated while it was in use");
    psr_opened_done(&again);
    expect_words(psr_opened_unpack(packed, size, "here", &again), PSR_ERR_FORMAT,
                 "train-images-idx3-ubyte: has changed since another process opened it");
    expect_words(psr_opened_init(a, NULL, NULL, &opened), PSR_ERR_FORMAT,
                 "train-images-idx3-ubyte: truncated: ends after 4096 bytes");
    psr_scratch_done(&scratch);
    free(packed);
}

#define SET_UP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SET_UP(equal_samples_have_one_content_however_they_are_packed_and_called),
        SET_UP(one_byte_of_one_split_is_another_content_of_that_split),
        SET_UP(the_order_of_samples_counts),
        SET_UP(generated_data_are_what_their_spec_says),
        SET_UP(what_is_remembered_is_of_the_files_state_alone),
        SET_UP(files_that_were_just_changed_are_not_remembered),
        SET_UP(a_cache_that_others_may_enter_is_left_alone),
        SET_UP(what_stands_in_it_is_checked_and_is_of_one_key),
        SET_UP(a_truncated_file_is_found_though_its_head_is_whole),
        SET_UP(reading_says_that_it_goes_on_and_can_be_ended),
        SET_UP(what_was_packed_is_the_same_data_set),
        SET_UP(of_generated_data_no_pixels_are_passed),
        SET_UP(large_plain_files_are_mapped_and_their_place_is_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
