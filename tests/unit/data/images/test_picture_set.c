/* Folders and TSV files of pictures: their classes and order, what is broken in them and what takes
 * its place, and the source over them. */
#include "tests/unit/data/images/made_pictures.h"
#include "tests/unit/folder.h"

#include "data/images/folder_source.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

/* A picture of one grey value. */
static made make_grey(uint8_t value)
{
    return make_png((png_kind){.height = 2, .width = 3, .color = PNG_COLOR_TYPE_GRAY, .bits = 8},
                    (const uint8_t[]){value, value, value}, 0);
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder(name));
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_grey(const char *name, uint8_t value)
{
    made file = make_grey(value);
    write_bytes(name, file.bytes, file.size);
    free(file.bytes);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static psr_picture_set *read_set(const char *name)
{
    psr_picture_set *set = NULL;
    assert_true(psr_picture_set_is(in_folder(name)));
    expect_ok(psr_picture_set_read(in_folder(name), NULL, NULL, &set));
    return set;
}

static void assert_files(const psr_picture_split *split, const char *const *paths,
                         const uint32_t *labels, uint32_t count)
{
    assert_int_equal(split->list.paths.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(psr_names_get(&split->list.paths, i), paths[i]);
        assert_int_equal(split->list.labels[i], labels[i]);
    }
}

static void assert_classes(const psr_picture_list *list, const char *const *names, uint32_t count)
{
    assert_int_equal(list->classes.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(psr_names_get(&list->classes, i), names[i]);
}

/* ---- listing ---- */

static void classes_and_files_are_sorted_as_image_folder_sorts_them(void **state)
{
    (void)state;
    write_grey("d/b/2.png", 1);
    write_grey("d/b/10.PNG", 2);
    write_grey("d/B/x.png", 3);
    write_grey("d/a-b/x.jpeg", 4); /* a PNG by its bytes */
    write_grey("d/a/z.png", 5);
    write_grey("d/a/deep/er/a.png", 6);
    write_grey("d/a/deep/z.png", 7);
    write_text("d/a/notes.txt", "not a picture, and not meant to be one");
    write_text("d/notes.txt", "nor this");
    psr_picture_set *set = read_set("d");
    static const char *const paths[] = {"B/x.png",    "a/z.png",  "a/deep/z.png", "a/deep/er/a.png",
                                        "a-b/x.jpeg", "b/10.PNG", "b/2.png"};
    assert_files(&set->split[0], paths, (const uint32_t[]){0, 1, 1, 1, 2, 3, 3}, 7);
    assert_classes(&set->split[0].list, (const char *const[]){"B", "a", "a-b", "b"}, 4);
    assert_true(set->same);
    assert_ptr_equal(psr_picture_set_split(set, true), &set->split[0]);
    assert_int_equal(set->broken.count, 0);
    psr_picture_set_free(set);
}

static void train_and_val_have_the_train_folders_classes(void **state)
{
    (void)state;
    psr_picture_set *set = NULL;
    write_grey("d/train/cat/1.png", 1);
    write_grey("d/train/dog/1.png", 2);
    write_grey("d/train/eel/1.png", 3);
    assert_int_equal(psr_picture_set_list(in_folder("d"), &set), PSR_ERR_NOT_FOUND);
    assert_non_null(strstr(psr_err_detail(), "/d: should hold val or test beside train"));
    write_grey("d/test/cow/1.png", 4);
    write_grey("d/val/eel/1.png", 5);
    write_grey("d/val/dog/1.png", 6);
    set = read_set("d"); /* val goes before test */
    assert_false(set->same);
    assert_files(&set->split[1], (const char *const[]){"dog/1.png", "eel/1.png"},
                 (const uint32_t[]){1, 2}, 2);
    psr_picture_set_free(set);
    write_grey("d/val/fox/1.png", 7);
    assert_int_equal(psr_picture_set_list(in_folder("d"), &set), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "val/fox: a class that the training pictures do not"));
}

static void a_tsv_file_gives_paths_and_labels(void **state)
{
    (void)state;
    write_grey("d/x/1.png", 1);
    write_grey("d/2.png", 2);
    write_text("d/names.tsv", "# comment\nx/1.png\tpike perch\r\n\n2.png\tcarp\n");
    psr_picture_set *set = read_set("d/names.tsv");
    assert_files(&set->split[0], (const char *const[]){"x/1.png", "2.png"},
                 (const uint32_t[]){1, 0}, 2);
    assert_classes(&set->split[0].list, (const char *const[]){"carp", "pike perch"}, 2);
    psr_picture_set_free(set);

    write_text("d/train.tsv", "x/1.png\t10\n2.png\t2");
    write_text("d/val.tsv", "2.png\t10");
    set = read_set("d");
    assert_int_equal(set->split[0].list.classes.count, 11);
    assert_files(&set->split[0], (const char *const[]){"x/1.png", "2.png"},
                 (const uint32_t[]){10, 2}, 2);
    assert_files(&set->split[1], (const char *const[]){"2.png"}, (const uint32_t[]){10}, 1);
    psr_picture_set_free(set);
}

static void a_wrong_tsv_file_is_refused_with_its_line(void **state)
{
    (void)state;
    const struct {
        const char *text, *says;
    } cases[] = {
        {"a.png\t1\nb.png", "line 2 should be PATH<tab>LABEL"},
        {"a.png\t1\t2", "line 1 should be PATH<tab>LABEL"},
        {"\tcat", "line 1 should be PATH<tab>LABEL"},
        {"a.png\t", "line 1 should be PATH<tab>LABEL"},
        {"# nothing\n", "no line of PATH<tab>LABEL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_picture_set *set = NULL;
        write_text("l.tsv", cases[i].text);
        assert_int_equal(psr_picture_set_list(in_folder("l.tsv"), &set), PSR_ERR_FORMAT);
        assert_non_null(strstr(psr_err_detail(), cases[i].says));
    }
    psr_picture_set *set = NULL;
    write_bytes("l.tsv", "a\0b\t1", 5);
    assert_int_equal(psr_picture_set_list(in_folder("l.tsv"), &set), PSR_ERR_FORMAT);
    write_text("d/train.tsv", "a.png\tcat\n");
    write_text("d/val.tsv", "a.png\tcow\n");
    assert_int_equal(psr_picture_set_list(in_folder("d"), &set), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "label 'cow' of a.png is none of the training"));
}

static void what_holds_no_folder_is_no_set(void **state)
{
    (void)state;
    write_text("d/file", "x");
    assert_false(psr_picture_set_is(in_folder("d")));
    assert_false(psr_picture_set_is(in_folder("d/file")));
    assert_false(psr_picture_set_is(in_folder("nothing")));
}

static void links_that_lead_back_up_do_not_end_in_a_walk_without_end(void **state)
{
    (void)state;
    psr_picture_set *set = NULL;
    write_grey("d/a/1.png", 1);
    assert_int_equal(symlink("..", in_folder("d/a/up")), 0);
    assert_int_equal(psr_picture_set_list(in_folder("d"), &set), PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(), "does a link lead back up?"));
}

/* ---- broken files ---- */

static void a_broken_file_is_named_and_replaced_by_the_next(void **state)
{
    (void)state;
    made half = make_grey(9);
    write_grey("d/a/1.png", 1);
    write_bytes("d/a/2.png", half.bytes, half.size / 2);
    write_text("d/a/3.png", "no picture");
    write_grey("d/b/4.png", 4);
    write_bytes("d/b/5.png", "", 0);
    free(half.bytes);
    assert_int_equal(mkdir(in_folder("d/empty"), 0777), 0);
    psr_picture_set *set = read_set("d");
    /* 2 and 3 become 4, of the other class; 5 becomes 1. */
    assert_files(&set->split[0],
                 (const char *const[]){"a/1.png", "b/4.png", "b/4.png", "b/4.png", "a/1.png"},
                 (const uint32_t[]){0, 1, 1, 1, 0}, 5);
    assert_classes(&set->split[0].list, (const char *const[]){"a", "b", "empty"}, 3);
    assert_int_equal(set->broken.count, 4);
    static const char *const says[] = {"/d/empty: a class without a picture",
                                       "/d/a/2.png: truncated PNG: it ends after",
                                       "/d/a/3.png: not a picture", "/d/b/5.png: an empty file"};
    for (uint32_t i = 0; i < 4; i++)
        assert_non_null(strstr(psr_names_get(&set->broken, i), says[i]));
    expect_ok(psr_picture_set_judge(set, 4));
    assert_int_equal(psr_picture_set_judge(set, 3), PSR_ERR_FORMAT);
    assert_non_null(
        strstr(psr_err_detail(), "--max-bad 3: 4 broken pictures or empty classes; the first: "));
    psr_picture_set_free(set);
}

/* So a run on a folder with a broken file ends in the same bits as one on this folder. */
static void the_content_is_that_of_the_folder_with_the_next_file_copied(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/c%d/%02d.png", i / 7, i);
        write_grey(name, (uint8_t)i);
    }
    psr_picture_set *whole = read_set("d");
    write_text("d/c0/03.png", "broken");
    psr_picture_set *broken = read_set("d");
    write_grey("d/c0/03.png", 4);
    psr_picture_set *copied = read_set("d");
    assert_string_not_equal(whole->split[0].content, broken->split[0].content);
    assert_string_equal(copied->split[0].content, broken->split[0].content);
    psr_picture_set_free(whole);
    psr_picture_set_free(broken);
    psr_picture_set_free(copied);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    char content[2][PSR_CONTENT_BYTES];
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/c/%02d.png", i);
        if (i % 9 == 4)
            write_text(name, "broken");
        else
            write_grey(name, (uint8_t)i);
    }
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        psr_picture_list list;
        psr_names broken = {0};
        psr_image_size *sizes = NULL;
        expect_ok(psr_picture_list_read_folder(in_folder("d"), NULL, &list));
        expect_ok(psr_picture_list_check(&list, NULL, threads, NULL, &broken, &sizes, NULL,
                                         content[threads > 1]));
        assert_int_equal(broken.count, 4);
        assert_non_null(strstr(psr_names_get(&broken, 1), "c/13.png"));
        assert_int_equal(sizes[4].width, 3);
        free(sizes);
        psr_names_done(&broken);
        psr_picture_list_done(&list);
    }
    assert_string_equal(content[0], content[1]);
}

static void a_set_without_a_whole_picture_is_refused(void **state)
{
    (void)state;
    psr_picture_set *set = NULL;
    write_text("d/a/1.png", "broken");
    assert_int_equal(psr_picture_set_read(in_folder("d"), NULL, NULL, &set), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "none of its 1 pictures is whole; the first: "));
    assert_int_equal(mkdir(in_folder("e"), 0777), 0);
    assert_int_equal(mkdir(in_folder("e/empty"), 0777), 0);
    assert_int_equal(psr_picture_set_read(in_folder("e"), NULL, NULL, &set), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "no picture (.jpg, .jpeg, .png) in any of its 1"));
}

static void reading_can_be_stopped(void **state)
{
    (void)state;
    psr_picture_set *set = NULL;
    psr_reading reading = {0};
    write_grey("d/a/1.png", 1);
    write_grey("d/a/2.png", 1);
    expect_ok(psr_picture_set_read(in_folder("d"), NULL, &reading, &set));
    assert_int_equal(reading.moves, 2);
    psr_picture_set_free(set);
    reading.stop = true;
    assert_int_equal(psr_picture_set_read(in_folder("d"), NULL, &reading, &set), PSR_ERR_CANCELLED);
}

/* ---- what is known from before ---- */

/* What stands in `known` is believed of a file, so sides that no file has show which were read. */
static void files_that_are_known_are_not_read_until_they_change(void **state)
{
    (void)state;
    static const char *const files[] = {"d/a/1.png", "d/a/2.png", "d/a/3.png"};
    psr_known_picture items[3] = {{0}};
    psr_known_pictures known = {0};
    for (int i = 0; i < 3; i++) {
        bool settled = false;
        const time_t made_s = time(NULL);
        write_grey(files[i], (uint8_t)i);
        items[i] = (psr_known_picture){.height = 70, .width = 90, .hash = {1, 2}};
        assert_true(psr_picture_state(in_folder(files[i]), &items[i].state, &settled));
        assert_true(!settled || time(NULL) > made_s + 3); /* it was made just now */
    }
    assert_true(psr_known_pictures_add(&known, items, 3));
    psr_known_pictures_put(in_folder("cache"), in_folder("d"), &known); /* sorts */
    write_text(files[1], "not any more");
    for (int from_cache = 0; from_cache < 2; from_cache++) {
        psr_known_pictures again = {0};
        psr_picture_list list = {0};
        psr_names broken = {0};
        psr_image_size *sizes = NULL;
        psr_known_picture *now = NULL;
        char content[PSR_CONTENT_BYTES];
        if (from_cache)
            again = psr_known_pictures_get(in_folder("cache"), in_folder("d"));
        expect_ok(psr_picture_list_read_folder(in_folder("d"), NULL, &list));
        expect_ok(psr_picture_list_check(&list, from_cache ? &again : &known, 2, NULL, &broken,
                                         &sizes, &now, content));
        assert_int_equal(sizes[0].height, 70);
        assert_int_equal(sizes[2].width, 90);
        assert_int_equal(broken.count, 1);
        assert_non_null(strstr(psr_names_get(&broken, 0), "2.png"));
        assert_int_equal(now[1].height, 0);
        assert_int_equal(now[0].state, items[0].state);
        psr_picture_list_done(&list);
        psr_names_done(&broken);
        psr_known_pictures_done(&again);
        free(sizes);
        free(now);
    }
    psr_known_pictures_done(&known);
}

static void a_cache_of_another_set_or_a_damaged_one_is_not_believed(void **state)
{
    (void)state;
    const psr_known_picture item = {.state = 5, .height = 1, .width = 1};
    psr_known_pictures known = {0}, again;
    char path[300] = "";
    write_grey("d/a/1.png", 1);
    write_grey("e/a/1.png", 1);
    assert_true(psr_known_pictures_add(&known, &item, 1));
    psr_known_pictures_put(in_folder("cache"), in_folder("d"), &known);
    again = psr_known_pictures_get(in_folder("cache"), in_folder("d"));
    assert_int_equal(again.count, 1);
    psr_known_pictures_done(&again);
    assert_int_equal(psr_known_pictures_get(in_folder("cache"), in_folder("e")).count, 0);
    DIR *directory = opendir(in_folder("cache"));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] == 'p')
            snprintf(path, sizeof path, "cache/%s", entry->d_name);
    closedir(directory);
    FILE *file = fopen(in_folder(path), "r+b");
    assert_non_null(file);
    fseek(file, 70, SEEK_SET);
    fputc(0x5A, file);
    fclose(file);
    assert_int_equal(psr_known_pictures_get(in_folder("cache"), in_folder("d")).count, 0);
    psr_known_pictures_done(&known);
}

/* ---- the source ---- */

static void the_source_gives_the_pictures(void **state)
{
    (void)state;
    write_grey("d/train/a/1.png", 11);
    write_grey("d/train/b/2.png", 22);
    write_text("d/train/b/3.png", "broken");
    write_grey("d/val/b/4.png", 44);
    psr_picture_set *set = read_set("d");
    psr_picture_source *train = NULL, *test = NULL;
    psr_picture_scratch scratch = {0};
    psr_picture picture;
    psr_stored stored;
    uint32_t height, width;
    char name[32];
    expect_ok(psr_folder_source_new(set, false, &train));
    expect_ok(psr_folder_source_new(set, true, &test));
    psr_picture_set_free(set);
    assert_int_equal(train->count, 3);
    assert_int_equal(test->count, 1);
    assert_int_equal(test->labels[0], 1);
    assert_string_equal(test->class_names[1], "b");
    assert_int_equal(train->channels, 3);
    assert_int_equal(train->height, 0);
    const uint8_t values[] = {11, 22, 11};
    for (uint32_t i = 0; i < 3; i++) {
        psr_picture_source_prefetch(train, i);
        expect_ok(psr_picture_source_get(train, i, NULL, &scratch, &picture));
        assert_int_equal(picture.height, 2);
        assert_int_equal(picture.pixels[0], values[i]);
    }
    const psr_picture_part part = {.top = 1, .left = 1, .height = 1, .width = 2};
    expect_ok(psr_picture_source_get(test, 0, &part, &scratch, &picture));
    assert_int_equal(picture.width, 2);
    assert_int_equal(picture.pixels[0], 44);
    expect_ok(psr_picture_source_size(train, 2, &scratch, &height, &width));
    assert_int_equal(height, 2);
    assert_int_equal(width, 3);
    expect_ok(psr_picture_source_stored(train, 0, &scratch, &stored));
    assert_int_equal(stored.form, PSR_STORED_PNG);
    expect_ok(psr_decode_file(stored.bytes, stored.size, "file", 3, NULL, &scratch, &picture));
    assert_int_equal(picture.pixels[0], 11);
    psr_picture_source_name(train, 1, name, sizeof name);
    assert_string_equal(name, "b/2.png");
    /* A file that breaks later ends the run with its name. */
    write_text("d/val/b/4.png", "gone bad");
    assert_int_equal(psr_picture_source_get(test, 0, NULL, &scratch, &picture), PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "d/val/b/4.png: not a picture"));
    psr_scratch_done(&scratch);
    psr_picture_source_free(train);
    psr_picture_source_free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(classes_and_files_are_sorted_as_image_folder_sorts_them),
        IN_A_FOLDER(train_and_val_have_the_train_folders_classes),
        IN_A_FOLDER(a_tsv_file_gives_paths_and_labels),
        IN_A_FOLDER(a_wrong_tsv_file_is_refused_with_its_line),
        IN_A_FOLDER(what_holds_no_folder_is_no_set),
        IN_A_FOLDER(links_that_lead_back_up_do_not_end_in_a_walk_without_end),
        IN_A_FOLDER(a_broken_file_is_named_and_replaced_by_the_next),
        IN_A_FOLDER(the_content_is_that_of_the_folder_with_the_next_file_copied),
        IN_A_FOLDER(threads_change_nothing),
        IN_A_FOLDER(a_set_without_a_whole_picture_is_refused),
        IN_A_FOLDER(reading_can_be_stopped),
        IN_A_FOLDER(files_that_are_known_are_not_read_until_they_change),
        IN_A_FOLDER(a_cache_of_another_set_or_a_damaged_one_is_not_believed),
        IN_A_FOLDER(the_source_gives_the_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
