/* Packs: what is written is read again to the same bytes, and nothing that was cut, changed or made
 * up is taken for a pack. */
#include "tests/unit/folder.h"

#include "data/loader.h"
#include "data/opened.h"
#include "data/pack/form.h"
#include "data/pack/pack.h"
#include "data/pack/write.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define SPEC "synthetic:count=57,test=13,channels=3,size=9,classes=5"

static const psr_picture_source *const *sources_of(const psr_opened *opened)
{
    static const psr_picture_source *sources[2];
    sources[0] = opened->train->source;
    sources[1] = opened->test->source;
    return sources;
}

static void write_plain(const char *path)
{
    const psr_pack_options options = {.name = "made"};
    psr_opened opened;
    psr_pack_written written;
    expect_ok(psr_opened_init(SPEC, NULL, NULL, &opened));
    expect_ok(psr_pack_write(path, sources_of(&opened), &options, &written));
    assert_string_equal(written.content.train, opened.content.train);
    psr_opened_done(&opened);
}

/* ---- a source of stored files, which a decoder of the test's own decodes: the bytes are height,
 * width and then pixels (y, x, c) less one ---- */

enum { FILES = 12, LARGEST = 7 };

static psr_err files_stored(const psr_picture_source *source, uint32_t i,
                            psr_picture_scratch *scratch, psr_stored *ret_stored)
{
    uint32_t height = 1 + i % LARGEST, width = 1 + (i * 3 + *(int *)source->state) % LARGEST;
    size_t size = 2 + 3u * height * width;
    uint8_t *bytes = NULL;
    PSR_TRY(psr_scratch_stored(scratch, size, &bytes));
    bytes[0] = (uint8_t)height;
    bytes[1] = (uint8_t)width;
    for (size_t at = 2; at < size; at++)
        bytes[at] = (uint8_t)(i * 37 + at * 11);
    *ret_stored = (psr_stored){.bytes = bytes,
                               .size = size,
                               .form = i % 2 == 0 ? PSR_STORED_JPEG : PSR_STORED_PNG,
                               .channels = 3,
                               .height = height,
                               .width = width};
    return PSR_OK;
}

static psr_err decode(const uint8_t *bytes, size_t size, const char *name, uint32_t channels,
                      const psr_picture_part *part, psr_picture_scratch *scratch,
                      psr_picture *ret_picture)
{
    uint8_t *pixels = NULL;
    if (size < 2 || size != 2 + 3u * bytes[0] * bytes[1])
        return psr_fail(PSR_ERR_FORMAT, "%s: no picture", name);
    PSR_TRY(psr_scratch_bytes(scratch, size, &pixels));
    for (size_t i = 2; i < size; i++)
        pixels[i - 2] = (uint8_t)(bytes[i] + 1);
    psr_picture picture = {.pixels = pixels,
                           .channels = channels,
                           .height = bytes[0],
                           .width = bytes[1],
                           .plane = 1,
                           .row = 3u * bytes[1],
                           .step = 3};
    PSR_TRY(psr_picture_cut(&picture, part));
    *ret_picture = picture;
    return PSR_OK;
}

static psr_err files_picture(const psr_picture_source *source, uint32_t i,
                             const psr_picture_part *part, psr_picture_scratch *scratch,
                             psr_picture *ret_picture)
{
    psr_stored stored;
    PSR_TRY(files_stored(source, i, scratch, &stored));
    return decode(stored.bytes, stored.size, "file", 3, part, scratch, ret_picture);
}

static const psr_picture_source *const *files(void)
{
    static const psr_picture_source_kind kind = {
        .name = "files", .picture = files_picture, .stored = files_stored};
    static const char *const names[] = {"cat", "dog, wet", "\xc3\xa4"};
    static uint32_t labels[FILES];
    static int which[2] = {0, 1};
    static psr_picture_source source[2];
    static const psr_picture_source *list[2] = {&source[0], &source[1]};
    for (uint32_t i = 0; i < FILES; i++)
        labels[i] = i % 3;
    for (int s = 0; s < 2; s++)
        source[s] = (psr_picture_source){.kind = &kind,
                                         .count = FILES - (uint32_t)s,
                                         .classes = 3,
                                         .channels = 3,
                                         .labels = labels,
                                         .class_names = names,
                                         .mean = PSR_IMAGENET_MEAN,
                                         .deviation = PSR_IMAGENET_DEVIATION,
                                         .origin = PSR_CONSTANTS_IMAGENET,
                                         .state = &which[s]};
    return list;
}

static void assert_same_picture(const psr_picture *a, const psr_picture *b)
{
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->width, b->width);
    for (uint32_t c = 0; c < a->channels; c++)
        for (uint32_t y = 0; y < a->height; y++)
            for (uint32_t x = 0; x < a->width; x++)
                assert_int_equal(a->pixels[c * a->plane + y * a->row + x * a->step],
                                 b->pixels[c * b->plane + y * b->row + x * b->step]);
}

static void assert_same_pictures(const psr_picture_source *a, const psr_picture_source *b)
{
    psr_picture_scratch of_a = {0}, of_b = {0};
    psr_picture from_a, from_b;
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->labels, b->labels, a->count * sizeof *a->labels);
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t height, width;
        expect_ok(psr_picture_source_get(a, i, NULL, &of_a, &from_a));
        expect_ok(psr_picture_source_get(b, i, NULL, &of_b, &from_b));
        assert_same_picture(&from_a, &from_b);
        expect_ok(psr_picture_source_size(b, i, &of_b, &height, &width));
        assert_int_equal(height, from_a.height);
        assert_int_equal(width, from_a.width);
        const psr_picture_part part = {.top = height - 1, .left = 0, .height = 1, .width = width};
        expect_ok(psr_picture_source_get(a, i, &part, &of_a, &from_a));
        expect_ok(psr_picture_source_get(b, i, &part, &of_b, &from_b));
        assert_same_picture(&from_a, &from_b);
    }
    psr_scratch_done(&of_a);
    psr_scratch_done(&of_b);
}

/* ---- tests ---- */

static void a_pack_of_a_data_set_in_memory_is_that_data_set(void **state)
{
    (void)state;
    psr_opened plain, packed;
    psr_dataset_info info;
    const char *path = in_folder("made.pack");
    write_plain(path);
    expect_ok(psr_opened_init(SPEC, NULL, NULL, &plain));
    expect_ok(psr_opened_init(path, NULL, NULL, &packed));
    assert_string_equal(packed.content.train, plain.content.train);
    assert_string_equal(packed.content.test, plain.content.test);
    assert_string_equal(packed.train->name, "made");
    assert_false(psr_opened_is_passed(&packed));
    for (int s = 0; s < 2; s++) {
        const psr_dataset *a = s == 0 ? plain.train : plain.test;
        const psr_dataset *b = s == 0 ? packed.train : packed.test;
        assert_int_equal(a->classes, b->classes);
        assert_int_equal(a->height, b->height);
        assert_memory_equal(a->mean, b->mean, sizeof a->mean);
        assert_memory_equal(a->deviation, b->deviation, sizeof a->deviation);
        assert_same_pictures(a->source, b->source);
    }
    expect_ok(psr_dataset_info_read(path, &info));
    assert_int_equal(info.train_count, 57);
    assert_int_equal(info.test_count, 13);
    assert_int_equal(info.height, 9);
    psr_opened_done(&plain);
    psr_opened_done(&packed);
}

static void batches_from_a_pack_are_those_of_the_plain_data_with_any_number_of_threads(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    psr_opened plain, packed;
    psr_augment_plan plan;
    expect_ok(psr_augment_plan_parse("crop-flip", 0, &plan));
    write_plain(path);
    expect_ok(psr_opened_init(SPEC, NULL, NULL, &plain));
    expect_ok(psr_opened_init(path, NULL, NULL, &packed));
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        psr_loader_options options = {
            .sampler = {.seed = 3, .count = 57, .workers = 2, .batch_size = 8, .shuffle = true},
            .plan = &plan,
            .threads = 1,
            .depth = 2,
            .first_step = 2, /* in the middle of an epoch */
            .last_epoch = 3};
        psr_loader *a = NULL, *b = NULL;
        const psr_loader_batch *of_a, *of_b;
        expect_ok(psr_loader_new(plain.train, &options, &a));
        options.threads = threads;
        expect_ok(psr_loader_new(packed.train, &options, &b));
        while (psr_loader_next(a, &of_a) == PSR_OK) {
            expect_ok(psr_loader_next(b, &of_b));
            assert_int_equal(of_a->count, of_b->count);
            assert_memory_equal(of_a->labels, of_b->labels, of_a->count * sizeof *of_a->labels);
            assert_memory_equal(of_a->images, of_b->images,
                                of_a->count * 3u * 81 * sizeof *of_a->images);
            psr_loader_return(a, of_a);
            psr_loader_return(b, of_b);
        }
        assert_int_equal(psr_loader_next(b, &of_b), PSR_ERR_NOT_FOUND);
        psr_loader_free(a);
        psr_loader_free(b);
    }
    psr_opened_done(&plain);
    psr_opened_done(&packed);
}

static void stored_files_of_different_sizes_are_kept_as_they_are(void **state)
{
    (void)state;
    const psr_pack_options options = {.name = "files"};
    psr_pack_written written;
    psr_pack_info info;
    psr_picture_source *sources[2];
    psr_picture_scratch a = {0}, b = {0};
    const char *path = in_folder("files.pack");
    expect_ok(psr_pack_write(path, files(), &options, &written));
    expect_ok(psr_pack_open(path, decode, &info, sources));
    assert_int_equal(info.height, 0);
    for (int s = 0; s < 2; s++) {
        assert_same_pictures(files()[s], sources[s]);
        assert_int_equal(sources[s]->origin, PSR_CONSTANTS_IMAGENET);
        assert_string_equal(sources[s]->class_names[1], "dog, wet");
        assert_string_equal(sources[s]->class_names[2], "\xc3\xa4");
    }
    for (uint32_t i = 0; i < FILES; i++) {
        psr_stored of_a, of_b;
        expect_ok(psr_picture_source_stored(files()[0], i, &a, &of_a));
        expect_ok(psr_picture_source_stored(sources[0], i, &b, &of_b));
        assert_int_equal(of_a.form, of_b.form);
        assert_int_equal(of_a.size, of_b.size);
        assert_memory_equal(of_a.bytes, of_b.bytes, of_a.size);
    }
    psr_scratch_done(&a);
    psr_scratch_done(&b);
    for (int s = 1; s >= 0; s--)
        psr_picture_source_free(sources[s]);
}

static void without_a_decoder_only_pixels_are_given_and_files_are_refused_by_name(void **state)
{
    (void)state;
    psr_pack_options options = {.name = "files"};
    psr_pack_written as_files, as_pixels;
    psr_pack_info info;
    psr_picture_source *sources[2];
    psr_picture_scratch scratch = {0};
    psr_picture picture;
    const char *path = in_folder("files.pack");
    expect_ok(psr_pack_write(path, files(), &options, &as_files));
    expect_ok(psr_pack_open(path, NULL, &info, sources));
    assert_int_equal(psr_picture_source_get(sources[1], 3, NULL, &scratch, &picture),
                     PSR_ERR_UNSUPPORTED);
    assert_non_null(strstr(psr_err_detail(), "files.pack: test picture 3: "));
    for (int s = 0; s < 2; s++)
        psr_picture_source_free(sources[s]);
    options.decoded = true;
    expect_ok(psr_pack_write(path, files(), &options, &as_pixels));
    assert_string_not_equal(as_files.content.train, as_pixels.content.train);
    expect_ok(psr_pack_open(path, NULL, &info, sources));
    for (int s = 0; s < 2; s++) {
        assert_same_pictures(files()[s], sources[s]);
        psr_picture_source_free(sources[s]);
    }
    psr_scratch_done(&scratch);
}

static psr_err open_and_free(const char *path)
{
    psr_pack_info info;
    psr_picture_source *sources[2];
    PSR_TRY(psr_pack_open(path, decode, &info, sources));
    for (int s = 0; s < 2; s++)
        psr_picture_source_free(sources[s]);
    return PSR_OK;
}

static void change_byte(const char *path, off_t at, uint8_t by)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= by;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_pack_that_was_cut_is_refused_at_every_length(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    struct stat status;
    write_plain(path);
    assert_int_equal(stat(path, &status), 0);
    for (off_t size = status.st_size - 1; size >= 0; size -= size > 600 ? 397 : 1) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(open_and_free(path), PSR_ERR_FORMAT);
        assert_non_null(strstr(psr_err_detail(), "made.pack: truncated"));
    }
}

static void a_pack_with_a_changed_byte_is_refused_and_a_changed_record_is_named(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    struct stat status;
    pack_head head;
    psr_pack_info info;
    psr_picture_source *sources[2];
    psr_picture_scratch scratch = {0};
    psr_picture picture;
    write_plain(path);
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    assert_int_equal(fstat(fd, &status), 0);
    close(fd);
    for (off_t at = 0; at < status.st_size; at += at < 512 ? 1 : 13) {
        if (at >= 512 && at < (off_t)head.index_offset)
            continue;
        change_byte(path, at, 0x11);
        psr_err err = open_and_free(path);
        if (err != PSR_ERR_FORMAT && !(err == PSR_ERR_VERSION && at >= 16 && at < 20))
            fail_msg("byte %ld: %s", (long)at, psr_err_name(err));
        change_byte(path, at, 0x11);
    }
    change_byte(path, 512 + 4 * 243 + 5, 0x80); /* of the train split's picture 4 */
    expect_ok(psr_pack_open(path, decode, &info, sources));
    expect_ok(psr_picture_source_get(sources[0], 3, NULL, &scratch, &picture));
    assert_int_equal(psr_picture_source_get(sources[0], 4, NULL, &scratch, &picture),
                     PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "made.pack: train picture 4 is damaged"));
    for (int s = 0; s < 2; s++)
        psr_picture_source_free(sources[s]);
    psr_scratch_done(&scratch);
}

/* The checksums are right, and what they cover cannot be. */
static void what_a_pack_says_is_checked_though_its_checksums_are_right(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    struct stat status;
    pack_head head;
    write_plain(path);
    assert_int_equal(stat(path, &status), 0);
    uint8_t *whole = malloc((size_t)status.st_size), *spoilt = malloc((size_t)status.st_size);
    int fd = open(path, O_RDWR);
    assert_int_equal(read(fd, whole, (size_t)status.st_size), status.st_size);
    memcpy(&head, whole, sizeof head);
    for (int kind = 0; kind < 9; kind++) {
        memcpy(spoilt, whole, (size_t)status.st_size);
        pack_head *h = (pack_head *)(void *)spoilt;
        pack_entry *entry = (pack_entry *)(void *)(spoilt + head.split[1].entries_offset);
        uint32_t *label = (uint32_t *)(void *)(spoilt + head.split[0].labels_offset);
        switch (kind) {
        case 0:
            entry->offset = head.index_offset - 1;
            break;
        case 1:
            entry->offset = UINT64_MAX - 10;
            break;
        case 2:
            entry->size = 1 << 30;
            break;
        case 3:
            entry->height = 10;
            break;
        case 4:
            entry->form = PSR_STORED_FORMS;
            break;
        case 5:
            label[56] = 5;
            break;
        case 6:
            h->split[0].count = UINT32_MAX;
            break;
        case 7:
            h->split[1].entries_offset = UINT64_MAX - 63;
            break;
        case 8:
            h->names_count = 5; /* and there are no names */
            break;
        }
        h->index_checksum =
            XXH3_64bits(spoilt + head.index_offset, (size_t)status.st_size - head.index_offset);
        h->checksum = XXH3_64bits(h, offsetof(pack_head, checksum));
        assert_int_equal(pwrite(fd, spoilt, (size_t)status.st_size, 0), status.st_size);
        if (open_and_free(path) != PSR_ERR_FORMAT)
            fail_msg("kind %d", kind);
    }
    close(fd);
    free(whole);
    free(spoilt);
}

static void a_pack_that_is_cut_while_it_is_used_fails_by_name(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    psr_pack_info info;
    psr_picture_source *sources[2];
    psr_picture_scratch scratch = {0};
    psr_picture picture;
    write_plain(path);
    expect_ok(psr_pack_open(path, NULL, &info, sources));
    assert_int_equal(truncate(path, 600), 0);
    assert_int_equal(psr_picture_source_get(sources[0], 50, NULL, &scratch, &picture),
                     PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "made.pack: truncated while it was in use"));
    psr_picture_source_prefetch(sources[0], 50);
    for (int s = 0; s < 2; s++)
        psr_picture_source_free(sources[s]);
}

static uint32_t files_in_folder(void)
{
    uint32_t count = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

static void stop_at_30(void *context, uint64_t done, uint64_t total)
{
    assert_int_equal(total, 70);
    if (done == 30)
        atomic_store((atomic_bool *)context, true);
}

static void a_pack_that_is_not_finished_leaves_the_one_before_it_and_nothing_else(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    atomic_bool stop = false;
    const psr_data_progress progress = {.at = stop_at_30, .context = &stop, .stop = &stop};
    const psr_pack_options options = {.name = "made", .progress = &progress};
    psr_opened opened;
    psr_pack_written written;
    write_plain(path);
    expect_ok(psr_opened_init(SPEC, NULL, NULL, &opened));
    assert_int_equal(psr_pack_write(path, sources_of(&opened), &options, &written),
                     PSR_ERR_CANCELLED);
    assert_int_equal(files_in_folder(), 1);
    expect_ok(open_and_free(path));
    assert_int_equal(
        psr_pack_write(in_folder("none/made.pack"), sources_of(&opened), &options, &written),
        PSR_ERR_IO);
    psr_opened_done(&opened);
}

static void count_bad(void *context, uint32_t sample, const char *message)
{
    assert_int_equal(sample, 4);
    assert_non_null(strstr(message, "train picture 4"));
    ++*(int *)context;
}

static void a_survey_counts_classes_and_broken_pictures_and_finds_the_constants(void **state)
{
    (void)state;
    const char *path = in_folder("made.pack");
    psr_opened opened;
    psr_survey survey;
    int bad = 0;
    psr_survey_options options = {.bad = count_bad, .context = &bad};
    write_plain(path);
    expect_ok(psr_opened_init(path, NULL, NULL, &opened));
    for (options.threads = 1; options.threads <= 3; options.threads++) {
        uint32_t counted = 0;
        expect_ok(psr_survey_make(opened.train->source, &options, &survey));
        for (uint32_t i = 0; i < 5; i++)
            counted += survey.of_class[i];
        assert_int_equal(counted, 57);
        assert_int_equal(survey.bad, 0);
        assert_int_equal(survey.most_height, 9);
        assert_memory_equal(survey.mean, opened.train->mean, sizeof survey.mean);
        assert_memory_equal(survey.deviation, opened.train->deviation, sizeof survey.deviation);
        psr_survey_done(&survey);
    }
    change_byte(path, 512 + 4 * 243 + 5, 0x80);
    expect_ok(psr_survey_make(opened.train->source, &options, &survey));
    assert_int_equal(survey.given, 56);
    assert_int_equal(survey.bad, 1);
    assert_int_equal(bad, 1);
    psr_survey_done(&survey);
    psr_opened_done(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_pack_of_a_data_set_in_memory_is_that_data_set),
        IN_A_FOLDER(batches_from_a_pack_are_those_of_the_plain_data_with_any_number_of_threads),
        IN_A_FOLDER(stored_files_of_different_sizes_are_kept_as_they_are),
        IN_A_FOLDER(without_a_decoder_only_pixels_are_given_and_files_are_refused_by_name),
        IN_A_FOLDER(a_pack_that_was_cut_is_refused_at_every_length),
        IN_A_FOLDER(a_pack_with_a_changed_byte_is_refused_and_a_changed_record_is_named),
        IN_A_FOLDER(what_a_pack_says_is_checked_though_its_checksums_are_right),
        IN_A_FOLDER(a_pack_that_is_cut_while_it_is_used_fails_by_name),
        IN_A_FOLDER(a_pack_that_is_not_finished_leaves_the_one_before_it_and_nothing_else),
        IN_A_FOLDER(a_survey_counts_classes_and_broken_pictures_and_finds_the_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
