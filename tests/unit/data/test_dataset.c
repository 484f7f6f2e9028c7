#include "tests/unit/data/data_files.h"

#include "base/rng.h"
#include "data/dataset.h"
#include "data/samples.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The whole text; @ stands for the test's directory. */
static void assert_detail(const char *directory, const char *expected)
{
    bytes text = {0};
    for (; *expected != '\0'; expected++) {
        if (*expected == '@')
            bytes_append(&text, directory, strlen(directory));
        else
            bytes_append(&text, expected, 1);
    }
    bytes_append(&text, "", 1);
    assert_string_equal(psr_err_detail(), (const char *)text.at);
    bytes_done(&text);
}

#define assert_fails(expression, code, detail)                                                     \
    do {                                                                                           \
        assert_int_equal((expression), (code));                                                    \
        assert_detail(directory, detail);                                                          \
    } while (0)

enum { TRAIN = 7, TEST = 4, HEIGHT = 5, WIDTH = 6 };

static void write_and_free(const char *directory, const char *name, bytes content)
{
    write_file(directory, name, content);
    bytes_done(&content);
}

/* Four good IDX files of mixed packing. */
static void write_idx_set(const char *directory)
{
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH);
    bytes labels = idx_labels(TEST);
    write_and_free(directory, "train-images-idx3-ubyte.gz", pack_gzip(images));
    write_and_free(directory, "train-labels-idx1-ubyte", idx_labels(TRAIN));
    write_and_free(directory, "t10k-images-idx3-ubyte", idx_images(TEST, HEIGHT, WIDTH));
    write_and_free(directory, "t10k-labels-idx1-ubyte.xz", pack_xz(labels));
    bytes_done(&images);
    bytes_done(&labels);
}

/* The same set, all plain, so that one file can be spoilt. */
static void write_plain_idx_set(const char *directory)
{
    write_and_free(directory, "train-images-idx3-ubyte", idx_images(TRAIN, HEIGHT, WIDTH));
    write_and_free(directory, "train-labels-idx1-ubyte", idx_labels(TRAIN));
    write_and_free(directory, "t10k-images-idx3-ubyte", idx_images(TEST, HEIGHT, WIDTH));
    write_and_free(directory, "t10k-labels-idx1-ubyte", idx_labels(TEST));
}

static psr_err open_train(const char *directory)
{
    psr_dataset *dataset = NULL;
    psr_err err = psr_dataset_open(directory, PSR_SPLIT_TRAIN, &dataset);
    if (err != PSR_OK)
        assert_null(dataset);
    psr_dataset_free(dataset);
    return err;
}

static psr_err open_test(const char *directory)
{
    psr_dataset *dataset = NULL;
    psr_err err = psr_dataset_open(directory, PSR_SPLIT_TEST, &dataset);
    if (err != PSR_OK)
        assert_null(dataset);
    psr_dataset_free(dataset);
    return err;
}

static psr_err read_info(const char *spec)
{
    psr_dataset_info info;
    return psr_dataset_info_read(spec, &info);
}

static void assert_idx_content(const psr_dataset *dataset, uint32_t count)
{
    assert_int_equal(dataset->count, count);
    assert_int_equal(dataset->channels, 1);
    assert_int_equal(dataset->height, HEIGHT);
    assert_int_equal(dataset->width, WIDTH);
    assert_int_equal(dataset->classes, TRAIN); /* labels 0 to 6 */
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(dataset->labels[i], i % 10);
        for (uint32_t k = 0; k < HEIGHT * WIDTH; k++)
            assert_int_equal(dataset->pixels[i * HEIGHT * WIDTH + k],
                             (uint8_t)(31 * i + 7 * k + 3));
    }
}

static void idx_files_are_read_plain_and_packed(void **state)
{
    const char *directory = *state;
    psr_dataset *train = NULL, *test = NULL;
    write_idx_set(directory);
    assert_int_equal(psr_dataset_open_both(directory, &train, &test), PSR_OK);
    assert_idx_content(train, TRAIN);
    assert_idx_content(test, TEST);
    assert_string_equal(train->name, strrchr(directory, '/') + 1);
    psr_dataset_free(train);
    psr_dataset_free(test);
}

static void a_gzip_file_of_several_members_is_one_file(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH), packed = {0};
    for (size_t at = 0; at < images.size; at += 50) {
        bytes member =
            pack_gzip((bytes){images.at + at, images.size - at < 50 ? images.size - at : 50});
        bytes_append(&packed, member.at, member.size);
        bytes_done(&member);
    }
    write_plain_idx_set(directory);
    remove_file(directory, "train-images-idx3-ubyte");
    write_and_free(directory, "train-images-idx3-ubyte.gz", packed);
    psr_dataset *train = NULL;
    assert_int_equal(psr_dataset_open(directory, PSR_SPLIT_TRAIN, &train), PSR_OK);
    assert_idx_content(train, TRAIN);
    psr_dataset_free(train);
    bytes_done(&images);
}

static void constants_are_those_of_the_train_split_in_both_splits(void **state)
{
    const char *directory = *state;
    psr_dataset *test = NULL;
    write_idx_set(directory);
    assert_int_equal(psr_dataset_open(directory, PSR_SPLIT_TEST, &test), PSR_OK);
    double sum = 0, squares = 0, n = TRAIN * HEIGHT * WIDTH;
    for (uint32_t i = 0; i < TRAIN; i++)
        for (uint32_t k = 0; k < HEIGHT * WIDTH; k++)
            sum += (uint8_t)(31 * i + 7 * k + 3);
    for (uint32_t i = 0; i < TRAIN; i++)
        for (uint32_t k = 0; k < HEIGHT * WIDTH; k++)
            squares += pow((uint8_t)(31 * i + 7 * k + 3) - sum / n, 2);
    assert_float_equal(test->mean[0], sum / n / 255, 1e-7);
    assert_float_equal(test->deviation[0], sqrt(squares / n) / 255, 1e-7);
    psr_dataset_free(test);
}

static void a_channel_that_never_varies_has_deviation_one(void **state)
{
    const char *directory = *state;
    psr_dataset *train = NULL;
    write_plain_idx_set(directory);
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH);
    memset(images.at + 16, 51, images.size - 16);
    write_and_free(directory, "train-images-idx3-ubyte", images);
    assert_int_equal(psr_dataset_open(directory, PSR_SPLIT_TRAIN, &train), PSR_OK);
    assert_true(train->mean[0] == 0.2f);
    assert_true(train->deviation[0] == 1.0f);
    psr_dataset_free(train);
}

static void info_tells_the_shape_without_reading_pixels(void **state)
{
    const char *directory = *state;
    psr_dataset_info info;
    write_idx_set(directory);
    bytes header = idx_images(TRAIN, HEIGHT, WIDTH);
    header.size = 16; /* no pixels at all */
    remove_file(directory, "train-images-idx3-ubyte.gz");
    write_and_free(directory, "train-images-idx3-ubyte", header);
    assert_int_equal(psr_dataset_info_read(directory, &info), PSR_OK);
    assert_int_equal(info.train_count, TRAIN);
    assert_int_equal(info.test_count, TEST);
    assert_int_equal(info.channels, 1);
    assert_int_equal(info.height, HEIGHT);
    assert_int_equal(info.width, WIDTH);
    assert_int_equal(info.classes, TRAIN);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
    const char *directory = *state;
    char path[4096];
    snprintf(path, sizeof path, "%s/none", directory);
    assert_fails(read_info(path), PSR_ERR_NOT_FOUND,
                 "--data @/none: no such directory, should be one that holds IDX or CIFAR files, a "
                 "pack (psring data pack), or mnist, fashion-mnist, cifar10, cifar100 or "
                 "synthetic[:SPEC]");
}

static void an_empty_directory_says_what_it_should_hold(void **state)
{
    const char *directory = *state;
    assert_fails(
        open_train(directory), PSR_ERR_NOT_FOUND,
        "--data @: no data set here, should hold train-images-idx3-ubyte and the like (MNIST "
        "family), emnist-balanced-train-images-idx3-ubyte and the like (EMNIST), data_batch_1.bin "
        "and the like (CIFAR-10) or train.bin and test.bin (CIFAR-100), plain, .gz or .xz; or a "
        "folder with pictures for each class");
}

/* Root sees everything: as another user, in a process of its own. */
static void a_directory_without_rights_is_not_called_empty(void **state)
{
    const char *directory = *state;
    char expected[4096];
    snprintf(expected, sizeof expected,
             "--data %s: its contents cannot be listed: Permission denied", directory);
    write_plain_idx_set(directory);
    assert_int_equal(chmod(directory, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        _exit(open_train(directory) != PSR_ERR_IO || strcmp(psr_err_detail(), expected) != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(directory, 0700), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_missing_file_is_named_by_open_and_by_info(void **state)
{
    const char *directory = *state;
    write_plain_idx_set(directory);
    remove_file(directory, "train-labels-idx1-ubyte");
    assert_fails(open_train(directory), PSR_ERR_NOT_FOUND,
                 "@/train-labels-idx1-ubyte: missing (nor is it there as .gz or .xz)");
    assert_fails(read_info(directory), PSR_ERR_NOT_FOUND,
                 "@/train-labels-idx1-ubyte: missing (nor is it there as .gz or .xz)");
}

static void wrong_magic_says_what_was_found_and_what_should_be(void **state)
{
    const char *directory = *state;
    write_plain_idx_set(directory);
    write_and_free(directory, "train-images-idx3-ubyte", idx_labels(TRAIN + 8));
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte: magic 0x00000801 at byte 0, should be 0x00000803 (IDX "
                 "images of unsigned bytes)");
    write_plain_idx_set(directory);
    write_at(directory, "train-labels-idx1-ubyte", 2, 0x0d);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-labels-idx1-ubyte: magic 0x00000d01 at byte 0, should be 0x00000801 (IDX "
                 "labels of unsigned bytes)");
}

static void a_truncated_file_says_where_it_ends(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH), labels = idx_labels(TEST);
    write_plain_idx_set(directory);
    write_file(directory, "train-images-idx3-ubyte", (bytes){images.at, 100});
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte: truncated: ends after 100 bytes, should have 226");
    write_file(directory, "train-images-idx3-ubyte", (bytes){images.at, 15});
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte: truncated: ends after 15 bytes, should have 16");
    write_file(directory, "train-images-idx3-ubyte", images);
    write_file(directory, "t10k-labels-idx1-ubyte", (bytes){labels.at, labels.size - 1});
    assert_fails(open_test(directory), PSR_ERR_FORMAT,
                 "@/t10k-labels-idx1-ubyte: truncated: ends after 11 bytes, should have 12");
    bytes_done(&images);
    bytes_done(&labels);
}

static void an_over_long_file_is_refused(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH), labels = idx_labels(TRAIN);
    bytes_append(&images, "", 1);
    bytes_append(&labels, "", 1);
    write_plain_idx_set(directory);
    write_and_free(directory, "train-images-idx3-ubyte", images);
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte: over-long: more bytes follow the 226 that it should have");
    write_and_free(directory, "train-labels-idx1-ubyte", labels);
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-labels-idx1-ubyte: over-long: more bytes follow the 15 that it should have");
}

static void classes_are_counted_from_the_labels_of_both_splits(void **state)
{
    const char *directory = *state;
    static const struct {
        const char *file;
        uint8_t label;
        uint32_t classes;
    } cases[] = {{"train-labels-idx1-ubyte", 46, 47},
                 {"t10k-labels-idx1-ubyte", 61, 62},
                 {"train-labels-idx1-ubyte", 255, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_dataset_info info;
        psr_dataset *train = NULL, *test = NULL;
        write_plain_idx_set(directory);
        write_at(directory, cases[i].file, 8 + 3, cases[i].label);
        assert_int_equal(psr_dataset_info_read(directory, &info), PSR_OK);
        assert_int_equal(info.classes, cases[i].classes);
        assert_int_equal(psr_dataset_open_both(directory, &train, &test), PSR_OK);
        assert_int_equal(train->classes, cases[i].classes);
        assert_int_equal(test->classes, cases[i].classes);
        psr_dataset_free(train);
        psr_dataset_free(test);
    }
}

static void truncated_labels_are_told_before_pixels_are_read(void **state)
{
    const char *directory = *state;
    write_plain_idx_set(directory);
    bytes labels = idx_labels(TRAIN);
    labels.size -= 2;
    write_and_free(directory, "train-labels-idx1-ubyte", labels);
    assert_fails(read_info(directory), PSR_ERR_FORMAT,
                 "@/train-labels-idx1-ubyte: truncated: ends after 13 bytes, should have 15");
}

static void write_emnist(const char *directory, const char *kind)
{
    static const char *const splits[] = {"train", "test"};
    for (int s = 0; s < 2; s++) {
        char name[128];
        snprintf(name, sizeof name, "emnist-%s-%s-images-idx3-ubyte", kind, splits[s]);
        write_and_free(directory, name, idx_images(TRAIN, HEIGHT, WIDTH));
        snprintf(name, sizeof name, "emnist-%s-%s-labels-idx1-ubyte", kind, splits[s]);
        write_and_free(directory, name, idx_labels(TRAIN));
    }
}

static void emnist_is_found_by_its_authors_names_and_several_splits_are_refused(void **state)
{
    const char *directory = *state;
    psr_dataset_info info;
    write_emnist(directory, "balanced");
    assert_int_equal(psr_dataset_info_read(directory, &info), PSR_OK);
    assert_int_equal(info.train_count, TRAIN);
    assert_int_equal(info.classes, TRAIN);
    write_emnist(directory, "letters");
    assert_fails(
        read_info(directory), PSR_ERR_USAGE,
        "--data @: holds files of several data sets (emnist-balanced-train-images-idx3-ubyte and "
        "emnist-letters-train-images-idx3-ubyte); put those of one into a directory of their own "
        "(links will do)");
}

static void given_constants_take_the_place_of_the_training_set_s(void **state)
{
    const char *directory = *state;
    psr_dataset colour = {.channels = 3, .mean = {1, 2, 3}, .deviation = {4, 5, 6}},
                grey = {.channels = 1};
    assert_int_equal(psr_dataset_normalise_by(&colour, "", ""), PSR_OK);
    assert_true(colour.mean[2] == 3 && colour.deviation[2] == 6);
    assert_int_equal(psr_dataset_normalise_by(&colour, "0.49,0.48,0.45", ""), PSR_OK);
    assert_true(colour.mean[0] == 0.49f && colour.mean[1] == 0.48f && colour.mean[2] == 0.45f &&
                colour.deviation[0] == 4);
    assert_int_equal(psr_dataset_normalise_by(&colour, "", "0.5"), PSR_OK);
    assert_true(colour.mean[0] == 0.49f && colour.deviation[0] == 0.5f &&
                colour.deviation[2] == 0.5f);
    assert_fails(psr_dataset_normalise_by(&grey, "0.4,0.4,0.4", "0.5"), PSR_ERR_USAGE,
                 "--mean: '0.4,0.4,0.4' has 3 numbers, and the data have 1 channel; give one");
    assert_fails(psr_dataset_normalise_by(&colour, "0.4,0.4", ""), PSR_ERR_USAGE,
                 "--mean: '0.4,0.4' has 2 numbers, and the data have 3 channels; give one, or one "
                 "for each channel");
    assert_fails(psr_dataset_normalise_by(&colour, "0.1", "0.5,0,0.5"), PSR_ERR_USAGE,
                 "--std: '0.5,0,0.5': every number must be above 0");
    static const char *const wrong[] = {"x",   "1,", ",1", "1,2,3,4", "1e99",
                                        "nan", " 1", "1 ", "1;2",     "inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (psr_dataset_normalise_by(&colour, wrong[i], "") != PSR_ERR_USAGE)
            fail_msg("%s", wrong[i]);
    }
    /* what is refused changes nothing */
    assert_true(colour.mean[0] == 0.49f && colour.deviation[0] == 0.5f);
}

static void generated_data_get_the_classes_that_their_spec_does_not_say(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t classes;
        const char *found;
    } cases[] = {
        {"synthetic", 0, "synthetic"},
        {"synthetic", 47, "synthetic:classes=47"},
        {"synthetic:", 47, "synthetic:classes=47"},
        {"synthetic:size=16", 47, "synthetic:size=16,classes=47"},
        {"synthetic:classes=5", 47, "synthetic:classes=5"},
        {"synthetic:size=16,classes=5", 47, "synthetic:size=16,classes=5"},
        {"./synthetic", 47, "./synthetic"},
    };
    char found[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            psr_dataset_find(cases[i].spec, NULL, cases[i].classes, found, sizeof found), PSR_OK);
        assert_string_equal(found, cases[i].found);
    }
}

static void labels_that_are_not_as_many_as_images_are_refused(void **state)
{
    const char *directory = *state;
    write_plain_idx_set(directory);
    write_and_free(directory, "train-labels-idx1-ubyte", idx_labels(TRAIN - 1));
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-labels-idx1-ubyte: says that it holds 6 labels, should be 7 as "
                 "@/train-images-idx3-ubyte");
}

static void test_images_of_another_size_are_refused(void **state)
{
    const char *directory = *state;
    write_plain_idx_set(directory);
    write_and_free(directory, "t10k-images-idx3-ubyte", idx_images(TEST, HEIGHT, WIDTH + 1));
    assert_fails(open_test(directory), PSR_ERR_FORMAT,
                 "@: test images of 5x7, should be 5x6 as in training");
    assert_fails(read_info(directory), PSR_ERR_FORMAT,
                 "@: test images of 5x7, should be 5x6 as in training");
}

static void a_header_that_claims_too_much_is_refused_before_memory_is_taken(void **state)
{
    const char *directory = *state;
    bytes header = {0};
    write_plain_idx_set(directory);
    bytes_append_u32(&header, 0x803);
    bytes_append_u32(&header, UINT32_MAX);
    bytes_append_u32(&header, 1024);
    bytes_append_u32(&header, 1024);
    write_and_free(directory, "train-images-idx3-ubyte", header);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-labels-idx1-ubyte: says that it holds 7 labels, should be 4294967295 as "
                 "@/train-images-idx3-ubyte");
    write_and_free(directory, "train-images-idx3-ubyte", idx_images(0, HEIGHT, WIDTH));
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte: says at byte 4 that it holds 0 images, should be at least 1");
    write_and_free(directory, "train-images-idx3-ubyte", idx_images(TRAIN, 0, WIDTH));
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte: images of 0x6 at byte 8, sides should be 1..1024");
    write_and_free(directory, "train-images-idx3-ubyte", idx_images(1, 1, 1025));
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte: images of 1x1025 at byte 8, sides should be 1..1024");
}

static void gzip_that_breaks_off_is_refused(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH);
    bytes packed = pack_gzip(images);
    write_plain_idx_set(directory);
    remove_file(directory, "train-images-idx3-ubyte");
    /* in the trailer */
    write_file(directory, "train-images-idx3-ubyte.gz", (bytes){packed.at, packed.size - 4});
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte.gz: truncated: the gzip data break off after 226 "
                 "unpacked bytes");
    write_file(directory, "train-images-idx3-ubyte.gz", (bytes){packed.at, 0});
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte.gz: truncated: the gzip data break off after 0 unpacked bytes");
    bytes_done(&packed);
    bytes_done(&images);
}

static void damaged_gzip_is_refused(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH);
    bytes packed = pack_gzip(images);
    write_plain_idx_set(directory);
    remove_file(directory, "train-images-idx3-ubyte");
    write_file(directory, "train-images-idx3-ubyte.gz", images);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte.gz: damaged gzip data after 0 unpacked bytes: "
                 "incorrect header check");
    packed.at[packed.size - 8] ^= 1;
    write_file(directory, "train-images-idx3-ubyte.gz", packed);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train-images-idx3-ubyte.gz: damaged gzip data after 226 unpacked bytes: "
                 "incorrect data check");
    bytes_done(&packed);
    bytes_done(&images);
}

static void damaged_xz_is_refused(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH);
    bytes packed = pack_xz(images);
    write_plain_idx_set(directory);
    remove_file(directory, "train-images-idx3-ubyte");
    write_file(directory, "train-images-idx3-ubyte.xz", images);
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte.xz: damaged xz data after 0 unpacked bytes: no xz header");
    write_file(directory, "train-images-idx3-ubyte.xz", (bytes){packed.at, packed.size - 1});
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte.xz: truncated: the xz data break off after 226 unpacked bytes");
    packed.at[packed.size / 2] ^= 1;
    write_file(directory, "train-images-idx3-ubyte.xz", packed);
    assert_int_equal(open_train(directory), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), ": damaged xz data after "));
    bytes_done(&packed);
    bytes_done(&images);
}

static void xz_that_asks_for_too_much_memory_is_refused(void **state)
{
    const char *directory = *state;
    bytes images = idx_images(TRAIN, HEIGHT, WIDTH), packed = {.size = 4096};
    packed.at = malloc(packed.size);
    lzma_options_lzma options;
    assert_false(lzma_lzma_preset(&options, 0));
    options.dict_size = 256u << 20; /* what a reader must set aside, however short the data are */
    lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    size_t size = 0;
    assert_int_equal(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, images.at,
                                               images.size, packed.at, &size, packed.size),
                     LZMA_OK);
    packed.size = size;
    write_plain_idx_set(directory);
    remove_file(directory, "train-images-idx3-ubyte");
    write_and_free(directory, "train-images-idx3-ubyte.xz", packed);
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/train-images-idx3-ubyte.xz: asks for more than 96 MiB to unpack, more than xz -9 would");
    bytes_done(&images);
}

enum {
    CIFAR_10_BYTES = 10000 * 3073,
    CIFAR_100_TRAIN_BYTES = 50000 * 3074,
    CIFAR_100_TEST_BYTES = 10000 * 3074
};

static void write_cifar_10_set(const char *directory)
{
    write_sparse(directory, "data_batch_1.bin", CIFAR_10_BYTES);
    write_sparse(directory, "data_batch_2.bin", CIFAR_10_BYTES);
    write_sparse(directory, "data_batch_3.bin", CIFAR_10_BYTES);
    write_sparse(directory, "data_batch_4.bin", CIFAR_10_BYTES);
    write_sparse(directory, "data_batch_5.bin", CIFAR_10_BYTES);
    write_sparse(directory, "test_batch.bin", CIFAR_10_BYTES);
}

static void cifar_10_files_are_read_in_their_order(void **state)
{
    const char *directory = *state;
    psr_dataset *train = NULL;
    psr_dataset_info info;
    write_cifar_10_set(directory);
    write_at(directory, "data_batch_1.bin", 3073, 9);                /* label of sample 1 */
    write_at(directory, "data_batch_2.bin", 0, 7);                   /* label of sample 10000 */
    write_at(directory, "data_batch_5.bin", CIFAR_10_BYTES - 1, 77); /* last pixel, blue */
    assert_int_equal(psr_dataset_info_read(directory, &info), PSR_OK);
    assert_string_equal(info.name, "cifar10");
    assert_int_equal(info.train_count, 50000);
    assert_int_equal(info.test_count, 10000);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.memory_bytes, 60000 * (3072 + 4)); /* pixels and labels */
    assert_int_equal(psr_dataset_open(directory, PSR_SPLIT_TRAIN, &train), PSR_OK);
    assert_int_equal(train->count, 50000);
    assert_int_equal(train->labels[0], 0);
    assert_int_equal(train->labels[1], 9);
    assert_int_equal(train->labels[10000], 7);
    assert_int_equal(train->pixels[(size_t)50000 * 3072 - 1], 77);
    assert_true(train->mean[0] == 0.0f && train->deviation[0] == 1.0f);
    assert_true(train->mean[2] > 0.0f && train->deviation[2] < 1.0f);
    psr_dataset_free(train);
}

static void cifar_10_files_that_are_not_whole_are_refused(void **state)
{
    const char *directory = *state;
    write_cifar_10_set(directory);
    write_sparse(directory, "data_batch_1.bin", CIFAR_10_BYTES - 1);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/data_batch_1.bin: truncated: ends after 30729999 bytes, should have 30730000");
    write_sparse(directory, "data_batch_1.bin", CIFAR_10_BYTES + 1);
    assert_fails(
        open_train(directory), PSR_ERR_FORMAT,
        "@/data_batch_1.bin: over-long: more bytes follow the 30730000 that it should have");
    write_sparse(directory, "data_batch_1.bin", CIFAR_10_BYTES);
    write_at(directory, "data_batch_1.bin", 2 * 3073, 10);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/data_batch_1.bin: label 10 of sample 2 at byte 6146, should be 0..9");
    remove_file(directory, "data_batch_4.bin");
    assert_fails(read_info(directory), PSR_ERR_NOT_FOUND,
                 "@/data_batch_4.bin: missing (nor is it there as .gz or .xz)");
}

static void cifar_100_labels_are_the_fine_ones(void **state)
{
    const char *directory = *state;
    psr_dataset *train = NULL, *test = NULL;
    write_sparse(directory, "train.bin", CIFAR_100_TRAIN_BYTES);
    write_sparse(directory, "test.bin", CIFAR_100_TEST_BYTES);
    write_at(directory, "train.bin", 3074, 19);
    write_at(directory, "train.bin", 3074 + 1, 99);
    write_at(directory, "train.bin", 3074 + 2, 5); /* first pixel, red */
    assert_int_equal(psr_dataset_open_both(directory, &train, &test), PSR_OK);
    assert_string_equal(train->name, "cifar100");
    assert_int_equal(train->count, 50000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(train->classes, 100);
    assert_int_equal(train->labels[1], 99);
    assert_int_equal(train->pixels[3072], 5);
    psr_dataset_free(train);
    psr_dataset_free(test);
    write_at(directory, "train.bin", 3074, 20);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train.bin: coarse label 20 of sample 1 at byte 3074, should be 0..19");
    write_at(directory, "train.bin", 3074, 19);
    write_at(directory, "train.bin", 3074 + 1, 100);
    assert_fails(open_train(directory), PSR_ERR_FORMAT,
                 "@/train.bin: label 100 of sample 1 at byte 3075, should be 0..99");
}

static void a_known_name_is_looked_for_in_both_places(void **state)
{
    const char *directory = *state;
    char path[4096], found[PSR_PATH_MAX];
    snprintf(path, sizeof path, "%s/cifar100", directory);
    assert_fails(psr_dataset_find("cifar100", directory, 0, found, sizeof found), PSR_ERR_NOT_FOUND,
                 "--data cifar100: no directory /usr/share/datasets/cifar100 nor @/cifar100; "
                 "psring data get cifar100 brings it, or put the authors' files there, or --data "
                 "DIR names another place");
    assert_fails(psr_dataset_find("cifar100", NULL, 0, found, sizeof found), PSR_ERR_NOT_FOUND,
                 "--data cifar100: no directory /usr/share/datasets/cifar100; psring data get "
                 "cifar100 brings it, or put the authors' files there, or --data DIR names another "
                 "place");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(psr_dataset_find("cifar100", directory, 0, found, sizeof found), PSR_OK);
    assert_string_equal(found, path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(psr_dataset_find("./cifar100", directory, 0, found, sizeof found), PSR_OK);
    assert_string_equal(found, "./cifar100");
    assert_fails(psr_dataset_find("./cifar100", directory, 0, found, 5), PSR_ERR_USAGE,
                 "--data: a path of 10 bytes, should be below 5");
}

/* Picture i of a data set, [channels, height, width], in the scratch. */
static const uint8_t *picture_of(const psr_dataset *dataset, uint32_t i,
                                 psr_picture_scratch *scratch)
{
    psr_picture picture;
    assert_int_equal(psr_picture_source_get(dataset->source, i, NULL, scratch, &picture), PSR_OK);
    assert_int_equal(picture.step, 1);
    assert_int_equal(picture.row, dataset->width);
    assert_int_equal(picture.plane, dataset->width * dataset->height);
    return picture.pixels;
}

/* By definition (data/synthetic.h): half the pattern's block and half the noise. */
static uint8_t generated_pixel(const psr_dataset *dataset, uint32_t split, uint32_t i, uint32_t c,
                               uint32_t y, uint32_t x)
{
    enum { LABEL, NOISE, PATTERN };
    const uint32_t side = dataset->width;
    uint32_t row = 3, column = 3;
    while (y < row * side / 4)
        row--;
    while (x < column * side / 4)
        column--;
    psr_rng_at at = {.purpose = PSR_RNG_SYNTHETIC, .sample = dataset->labels[i], .layer = PATTERN};
    const uint32_t pattern = psr_rng_word(at, c * 16 + row * 4 + column) & 0xff;
    at = (psr_rng_at){.purpose = PSR_RNG_SYNTHETIC, .epoch = split, .sample = i, .layer = NOISE};
    const uint32_t byte = (c * side + y) * side + x;
    return (uint8_t)((pattern + (psr_rng_word(at, byte / 4) >> byte % 4 * 8 & 0xff)) / 2);
}

static void generated_pictures_are_drawn_by_their_definition_in_any_order(void **state)
{
    (void)state;
    psr_dataset *split[2];
    psr_picture_scratch scratch = {0};
    for (uint32_t side = 1; side < 40; side = 2 * side + 3) {
        char spec[80];
        uint64_t element = 0;
        double sum = 0;
        snprintf(spec, sizeof spec, "synthetic:count=9,test=5,size=%u,classes=7", side);
        assert_int_equal(psr_dataset_open_both(spec, &split[0], &split[1]), PSR_OK);
        for (uint32_t s = 0; s < 2; s++)
            for (uint32_t n = 0; n < split[s]->count; n++) {
                const uint32_t i = (n * 2 + 1) % split[s]->count;
                const uint8_t *pixels = picture_of(split[s], i, &scratch);
                const psr_rng_at label = {.purpose = PSR_RNG_SYNTHETIC, .epoch = s, .sample = i};
                element = 0;
                assert_int_equal(split[s]->labels[i], psr_rng_below(label, &element, 7));
                for (uint32_t k = 0; k < 3 * side * side; k++) {
                    assert_int_equal(pixels[k], generated_pixel(split[s], s, i, k / (side * side),
                                                                k / side % side, k % side));
                    sum += s == 0 && k < side * side ? pixels[k] : 0;
                }
            }
        assert_float_equal(split[0]->mean[0], sum / 9 / (side * side) / 255, 1e-6);
        assert_null(split[0]->pixels); /* nothing of them lies in memory */
        psr_dataset_free(split[0]);
        psr_dataset_free(split[1]);
    }
    psr_scratch_done(&scratch);
}

static void generated_data_are_the_same_every_time_and_differ_by_split(void **state)
{
    (void)state;
    const char *spec = "synthetic:count=200,test=100,channels=1,size=9,classes=3";
    psr_dataset *first = NULL, *again = NULL, *test = NULL;
    assert_int_equal(psr_dataset_open(spec, PSR_SPLIT_TRAIN, &first), PSR_OK);
    assert_int_equal(psr_dataset_open_both(spec, &again, &test), PSR_OK);
    assert_string_equal(first->name, "synthetic");
    assert_int_equal(first->count, 200);
    assert_int_equal(test->count, 100);
    assert_int_equal(first->height, 9);
    assert_int_equal(first->width, 9);
    psr_picture_scratch scratch[2] = {0};
    for (uint32_t i = 0; i < 200; i++)
        assert_memory_equal(picture_of(first, i, &scratch[0]), picture_of(again, i, &scratch[1]),
                            81);
    assert_memory_equal(first->labels, again->labels, 200 * sizeof(uint32_t));
    for (uint32_t i = 0; i < 100; i++)
        assert_memory_not_equal(picture_of(first, i, &scratch[0]), picture_of(test, i, &scratch[1]),
                                81);
    psr_scratch_done(&scratch[0]);
    psr_scratch_done(&scratch[1]);
    assert_true(first->mean[0] == test->mean[0]);
    assert_float_equal(first->mean[0], 0.5, 0.15);
    uint32_t seen[3] = {0};
    for (uint32_t i = 0; i < first->count; i++) {
        assert_true(first->labels[i] < 3);
        seen[first->labels[i]]++;
    }
    for (int c = 0; c < 3; c++)
        assert_true(seen[c] > 40);
    psr_dataset_free(first);
    psr_dataset_free(again);
    psr_dataset_free(test);
}

/* The mean image of each class in train tells the class of a test sample by the nearest one. */
static void generated_data_can_be_learnt(void **state)
{
    (void)state;
    enum { CLASSES = 10, BYTES = 3 * 8 * 8, TRAIN_COUNT = 1000, TEST_COUNT = 200 };
    psr_dataset *train = NULL, *test = NULL;
    assert_int_equal(psr_dataset_open_both("synthetic:count=1000,test=200,size=8", &train, &test),
                     PSR_OK);
    double mean[CLASSES][BYTES] = {0};
    uint32_t count[CLASSES] = {0}, right = 0;
    psr_picture_scratch scratch = {0};
    for (uint32_t i = 0; i < TRAIN_COUNT; i++) {
        const uint8_t *pixels = picture_of(train, i, &scratch);
        count[train->labels[i]]++;
        for (uint32_t k = 0; k < BYTES; k++)
            mean[train->labels[i]][k] += pixels[k];
    }
    for (uint32_t i = 0; i < TEST_COUNT; i++) {
        const uint8_t *pixels = picture_of(test, i, &scratch);
        double nearest = INFINITY;
        uint32_t guess = 0;
        for (uint32_t c = 0; c < CLASSES; c++) {
            double distance = 0;
            for (uint32_t k = 0; k < BYTES; k++)
                distance += pow(mean[c][k] / count[c] - pixels[k], 2);
            if (distance < nearest) {
                nearest = distance;
                guess = c;
            }
        }
        right += guess == test->labels[i];
    }
    assert_true(right > TEST_COUNT * 9 / 10);
    psr_scratch_done(&scratch);
    psr_dataset_free(train);
    psr_dataset_free(test);
}

static void a_wrong_synthetic_spec_says_what_would_be_right(void **state)
{
    const char *directory = *state;
    assert_fails(read_info("synthetic:count=0"), PSR_ERR_USAGE,
                 "--data synthetic: \"count=0\": count should be a whole number in 1..4294967295");
    assert_fails(read_info("synthetic:size=-1"), PSR_ERR_USAGE,
                 "--data synthetic: \"size=-1\": size should be a whole number in 1..1024");
    assert_fails(read_info("synthetic:size=8x"), PSR_ERR_USAGE,
                 "--data synthetic: \"size=8x\": size should be a whole number in 1..1024");
    assert_fails(read_info("synthetic:size"), PSR_ERR_USAGE,
                 "--data synthetic: \"size\": size should be a whole number in 1..1024");
    assert_fails(read_info("synthetic:test=99999999999999999999"), PSR_ERR_USAGE,
                 "--data synthetic: \"test=99999999999999999999\": test should be a whole number "
                 "in 1..4294967295");
    assert_fails(read_info("synthetic:channels=2"), PSR_ERR_USAGE,
                 "--data synthetic: \"channels=2\": channels should be 1 or 3");
    assert_fails(read_info("synthetic:size=8,colour=3"), PSR_ERR_USAGE,
                 "--data synthetic: \"colour=3\" is not known, should be "
                 "synthetic[:count=60000,test=10000,channels=3,size=32,classes=10]");
    assert_fails(read_info("synthetic:size=8,"), PSR_ERR_USAGE,
                 "--data synthetic: ends in a comma, should be "
                 "synthetic[:count=60000,test=10000,channels=3,size=32,classes=10]");
    assert_int_equal(read_info("synthetic:"), PSR_OK);
    assert_int_equal(read_info("synthetic-images"), PSR_ERR_NOT_FOUND);
}

static void what_does_not_fit_into_memory_is_refused_with_what_is_free(void **state)
{
    (void)state;
    assert_int_equal(psr_samples_fit("x.gz", "pixels", (uint64_t)1 << 26, "unpack it"), PSR_OK);
    assert_int_equal(psr_samples_fit("x.gz", "pixels", (uint64_t)1 << 50, "unpack it"),
                     PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(), "x.gz: its pixels take 1048576.0 GiB of memory, for a "
                                             "moment half as much again, and "));
    assert_non_null(strstr(psr_err_detail(), " GiB are free; unpack it"));
}

/* Whatever lies where a data file should be: opening a FIFO would wait for a writer, reading a
 * device would never end. */
static void a_fifo_a_device_and_a_directory_in_the_place_of_a_file_are_refused_by_name(void **state)
{
    const char *directory = *state;
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int n = 0; n < 4; n++) {
        char path[4096], special[256], folder[256];
        psr_dataset_info info;
        snprintf(path, sizeof path, "%s/%s", directory, names[n]);
        snprintf(special, sizeof special, "@/%s: is something special, not a file", names[n]);
        snprintf(folder, sizeof folder, "@/%s: is a directory, not a file", names[n]);
        write_plain_idx_set(directory);

        remove_file(directory, names[n]);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_fails(psr_dataset_info_read(directory, &info), PSR_ERR_IO, special);
        remove_file(directory, names[n]);
        assert_int_equal(symlink("/dev/zero", path), 0);
        assert_fails(psr_dataset_info_read(directory, &info), PSR_ERR_IO, special);
        remove_file(directory, names[n]);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_fails(psr_dataset_info_read(directory, &info), PSR_ERR_IO, folder);
        assert_int_equal(rmdir(path), 0);
    }
}

static void a_fifo_in_the_place_of_a_cifar_file_is_refused_by_name(void **state)
{
    const char *directory = *state;
    char path[4096];
    psr_dataset_info info;
    snprintf(path, sizeof path, "%s/train.bin", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(psr_dataset_info_read(directory, &info), PSR_ERR_IO,
                 "@/train.bin: is something special, not a file");
}

#define in_directory(test)                                                                         \
    cmocka_unit_test_setup_teardown(test, directory_setup, directory_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_directory(idx_files_are_read_plain_and_packed),
        in_directory(a_gzip_file_of_several_members_is_one_file),
        in_directory(constants_are_those_of_the_train_split_in_both_splits),
        in_directory(a_channel_that_never_varies_has_deviation_one),
        in_directory(info_tells_the_shape_without_reading_pixels),
        in_directory(a_directory_that_is_not_there_is_named),
        in_directory(an_empty_directory_says_what_it_should_hold),
        in_directory(a_directory_without_rights_is_not_called_empty),
        in_directory(a_missing_file_is_named_by_open_and_by_info),
        in_directory(wrong_magic_says_what_was_found_and_what_should_be),
        in_directory(a_truncated_file_says_where_it_ends),
        in_directory(an_over_long_file_is_refused),
        in_directory(classes_are_counted_from_the_labels_of_both_splits),
        in_directory(truncated_labels_are_told_before_pixels_are_read),
        in_directory(emnist_is_found_by_its_authors_names_and_several_splits_are_refused),
        in_directory(given_constants_take_the_place_of_the_training_set_s),
        in_directory(generated_data_get_the_classes_that_their_spec_does_not_say),
        in_directory(labels_that_are_not_as_many_as_images_are_refused),
        in_directory(test_images_of_another_size_are_refused),
        in_directory(a_header_that_claims_too_much_is_refused_before_memory_is_taken),
        in_directory(gzip_that_breaks_off_is_refused),
        in_directory(damaged_gzip_is_refused),
        in_directory(damaged_xz_is_refused),
        in_directory(xz_that_asks_for_too_much_memory_is_refused),
        in_directory(cifar_10_files_are_read_in_their_order),
        in_directory(cifar_10_files_that_are_not_whole_are_refused),
        in_directory(cifar_100_labels_are_the_fine_ones),
        in_directory(a_known_name_is_looked_for_in_both_places),
        in_directory(generated_pictures_are_drawn_by_their_definition_in_any_order),
        in_directory(generated_data_are_the_same_every_time_and_differ_by_split),
        in_directory(generated_data_can_be_learnt),
        in_directory(what_does_not_fit_into_memory_is_refused_with_what_is_free),
        in_directory(a_wrong_synthetic_spec_says_what_would_be_right),
        in_directory(a_fifo_a_device_and_a_directory_in_the_place_of_a_file_are_refused_by_name),
        in_directory(a_fifo_in_the_place_of_a_cifar_file_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
