#include "data/location.h"

#include "data/dataset.h"
#include "data/digest.h"
#include "data/images/picture_set.h"
#include "data/pack/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SYSTEM_DIRECTORY "/usr/share/datasets"
#define SYNTHETIC_NAME "synthetic"

/* The files of EMNIST (Cohen et al. 2017), all of whose splits come in one archive. */
#define EMNIST(kind)                                                                               \
    {                                                                                              \
        .split = {                                                                                 \
            {.name = {"emnist-" kind "-train-images-idx3-ubyte",                                   \
                      "emnist-" kind "-train-labels-idx1-ubyte"},                                  \
             .file_count = 2},                                                                     \
            {.name = {"emnist-" kind "-test-images-idx3-ubyte",                                    \
                      "emnist-" kind "-test-labels-idx1-ubyte"},                                   \
             .file_count = 2}                                                                      \
        }                                                                                          \
    }

static const psr_file_set file_sets[] = {
    {.split = {{.name = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}, .file_count = 2},
               {.name = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}, .file_count = 2}}},
    EMNIST("balanced"),
    EMNIST("byclass"),
    EMNIST("bymerge"),
    EMNIST("letters"),
    EMNIST("digits"),
    EMNIST("mnist"),
    {.name = "cifar10",
     .cifar = &psr_cifar_10,
     .split = {{.name = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                         "data_batch_4.bin", "data_batch_5.bin"},
                .file_count = 5,
                .records = 10000},
               {.name = {"test_batch.bin"}, .file_count = 1, .records = 10000}}},
    {.name = "cifar100",
     .cifar = &psr_cifar_100,
     .split = {{.name = {"train.bin"}, .file_count = 1, .records = 50000},
               {.name = {"test.bin"}, .file_count = 1, .records = 10000}}},
};

enum { FILE_SETS = sizeof file_sets / sizeof file_sets[0] };

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool is_known_name(const char *spec)
{
    static const char *const known[] = {"mnist", "fashion-mnist", "cifar10", "cifar100"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(spec, known[i]) == 0)
            return true;
    return false;
}

/* The text after "synthetic" or "synthetic:", NULL when spec is something else. */
static const char *synthetic_spec(const char *spec)
{
    size_t length = strlen(SYNTHETIC_NAME);
    if (strncmp(spec, SYNTHETIC_NAME, length) != 0)
        return NULL;
    if (spec[length] == '\0')
        return spec + length;
    return spec[length] == ':' ? spec + length + 1 : NULL;
}

/* printf into a path of PSR_PATH_MAX bytes; USAGE when it does not fit. */
static psr_err path_print(char *path, const char *format, ...) PSR_PRINTF(2, 3);
static psr_err path_print(char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, PSR_PATH_MAX, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= PSR_PATH_MAX)
        return psr_fail(PSR_ERR_USAGE, "--data: a path of %d bytes, should be below %d", length,
                        PSR_PATH_MAX);
    return PSR_OK;
}

static psr_err fail_not_found(const char *name, const char *user_directory)
{
    const char *package = strcmp(name, "fashion-mnist") == 0
                              ? "as the package dataset-fashion-mnist does, or"
                              : "or put the authors' files there, or";
    char brings[128];
    snprintf(brings, sizeof brings, "psring data get %s brings it, %s", name, package);
    if (user_directory == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND,
                        "--data %s: no directory " SYSTEM_DIRECTORY
                        "/%s; %s --data DIR names another place",
                        name, name, brings);
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "--data %s: no directory " SYSTEM_DIRECTORY
                    "/%s nor %s/%s; %s --data DIR names another place",
                    name, name, user_directory, name, brings);
}

/* "synthetic[:SPEC]" with the classes that it does not say itself. */
static psr_err add_classes(const char *spec, uint32_t classes, char path[PSR_PATH_MAX])
{
    const char *generated = synthetic_spec(spec);
    if (generated == NULL || classes == 0 || strncmp(generated, "classes=", 8) == 0 ||
        strstr(generated, ",classes=") != NULL)
        return path_print(path, "%s", spec);
    const char *between = spec[strlen(SYNTHETIC_NAME)] == '\0' ? ":"
                          : generated[0] != '\0'               ? ","
                                                               : "";
    return path_print(path, "%s%sclasses=%" PRIu32, spec, between, classes);
}

psr_err psr_dataset_find(const char *spec, const char *user_directory, uint32_t classes,
                         char *ret_spec, size_t size)
{
    char path[PSR_PATH_MAX];
    if (!is_known_name(spec)) {
        PSR_TRY(add_classes(spec, classes, path));
    } else {
        PSR_TRY(path_print(path, SYSTEM_DIRECTORY "/%s", spec));
        if (!is_directory(path) && user_directory != NULL)
            PSR_TRY(path_print(path, "%s/%s", user_directory, spec));
        if (!is_directory(path))
            return fail_not_found(spec, user_directory);
    }
    if (strlen(path) >= size)
        return psr_fail(PSR_ERR_USAGE, "--data: a path of %zu bytes, should be below %zu",
                        strlen(path), size);
    strcpy(ret_spec, path);
    return PSR_OK;
}

/* The file as it is, or packed; "" when none is there. */
static psr_err find_file(const char *directory, const char *name, char path[PSR_PATH_MAX])
{
    static const char *const suffix[] = {"", ".gz", ".xz"};
    struct stat status;
    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
        PSR_TRY(path_print(path, "%s/%s%s", directory, name, suffix[i]));
        if (stat(path, &status) == 0)
            return PSR_OK;
        if (errno != ENOENT && errno != ENOTDIR)
            return psr_fail(PSR_ERR_IO, "--data %s: its contents cannot be listed: %s", directory,
                            strerror(errno));
    }
    path[0] = '\0';
    return PSR_OK;
}

psr_err psr_location_open(const psr_location *location, const char *name, psr_source **ret_source)
{
    char path[PSR_PATH_MAX];
    PSR_TRY(find_file(location->directory, name, path));
    if (path[0] == '\0')
        return psr_fail(PSR_ERR_NOT_FOUND, "%s/%s: missing (nor is it there as .gz or .xz)",
                        location->directory, name);
    PSR_TRY(psr_source_open(path, ret_source));
    psr_source_watch(*ret_source, location->reading);
    return PSR_OK;
}

/* Everything that a change of a file changes. */
static void add_status(const struct stat *of, const char *name, XXH3_state_t *hash,
                       int64_t *changed_s)
{
    const struct stat status = *of;
    const uint64_t numbers[] = {(uint64_t)status.st_dev,          (uint64_t)status.st_ino,
                                (uint64_t)status.st_size,         (uint64_t)status.st_mtim.tv_sec,
                                (uint64_t)status.st_mtim.tv_nsec, (uint64_t)status.st_ctim.tv_sec,
                                (uint64_t)status.st_ctim.tv_nsec};
    XXH3_128bits_update(hash, name, strlen(name) + 1);
    XXH3_128bits_update(hash, numbers, sizeof numbers);
    if (status.st_mtim.tv_sec > *changed_s)
        *changed_s = status.st_mtim.tv_sec;
    if (status.st_ctim.tv_sec > *changed_s)
        *changed_s = status.st_ctim.tv_sec;
}

static psr_err add_file(const psr_location *location, const char *name, XXH3_state_t *hash,
                        int64_t *changed_s)
{
    char path[PSR_PATH_MAX];
    struct stat status;
    PSR_TRY(find_file(location->directory, name, path));
    if (path[0] == '\0' || stat(path, &status) != 0)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s/%s: missing (nor is it there as .gz or .xz)",
                        location->directory, name);
    add_status(&status, name, hash, changed_s);
    return PSR_OK;
}

static psr_err add_pack(const psr_location *location, XXH3_state_t *hash, int64_t *changed_s)
{
    struct stat status;
    if (stat(location->directory, &status) != 0)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: %s", location->directory, strerror(errno));
    add_status(&status, "pack", hash, changed_s);
    return PSR_OK;
}

/* The files' names and states, labels and class names. A file that is not there, which a TSV file
 * may name, has no state. */
static psr_err add_pictures(const psr_location *location, XXH3_state_t *hash, int64_t *changed_s)
{
    psr_picture_set *set = NULL;
    PSR_TRY(psr_picture_set_list(location->directory, &set));
    psr_err err = PSR_OK;
    for (int s = 0; s < 2 && err == PSR_OK; s++) {
        const psr_picture_list *list = &set->split[s].list;
        for (uint32_t i = 0; i < list->paths.count && err == PSR_OK; i++) {
            char path[PSR_PATH_MAX];
            struct stat status;
            err = psr_picture_list_path(list, i, path, sizeof path);
            if (err == PSR_OK && stat(path, &status) == 0)
                add_status(&status, path, hash, changed_s);
        }
        XXH3_128bits_update(hash, list->labels, list->paths.count * sizeof *list->labels);
        XXH3_128bits_update(hash, list->classes.text, list->classes.text_size);
    }
    psr_picture_set_free(set);
    return err;
}

static psr_err add_files(const psr_location *location, XXH3_state_t *hash, int64_t *changed_s)
{
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < location->files->split[s].file_count; i++)
            PSR_TRY(add_file(location, location->files->split[s].name[i], hash, changed_s));
    return PSR_OK;
}

psr_err psr_location_state_of(const psr_location *location, psr_location_state *ret_state)
{
    psr_location_state state = {.changed_s = INT64_MIN};
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_128bits_reset(&hash);
    if (location->is_pack)
        PSR_TRY(add_pack(location, &hash, &state.changed_s));
    else if (location->is_pictures)
        PSR_TRY(add_pictures(location, &hash, &state.changed_s));
    else if (location->files != NULL)
        PSR_TRY(add_files(location, &hash, &state.changed_s));
    else
        XXH3_128bits_update(&hash, &location->synthetic, sizeof location->synthetic);
    psr_digest_print(&hash, state.text);
    *ret_state = state;
    return PSR_OK;
}

/* Whether any file of a set is there. */
static psr_err has_file(const char *directory, const psr_file_set *files, bool *ret_has)
{
    char path[PSR_PATH_MAX];
    *ret_has = false;
    for (int s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < files->split[s].file_count && !*ret_has; i++) {
            PSR_TRY(find_file(directory, files->split[s].name[i], path));
            *ret_has = path[0] != '\0';
        }
    }
    return PSR_OK;
}

/* Finds the set of which one file exists. Whether the other files exist is found when they are
 * opened. */
static psr_err find_file_set(const char *directory, const psr_file_set **ret_files)
{
    const psr_file_set *found = NULL;
    for (int set = 0; set < FILE_SETS; set++) {
        bool has = false;
        PSR_TRY(has_file(directory, &file_sets[set], &has));
        if (has && found != NULL)
            return psr_fail(PSR_ERR_USAGE,
                            "--data %s: holds files of several data sets (%s and %s); put those of "
                            "one into a directory of their own (links will do)",
                            directory, found->split[0].name[0], file_sets[set].split[0].name[0]);
        if (has)
            found = &file_sets[set];
    }
    if (found == NULL)
        return psr_fail(
            PSR_ERR_NOT_FOUND,
            "--data %s: no data set here, should hold train-images-idx3-ubyte and the "
            "like (MNIST family), emnist-balanced-train-images-idx3-ubyte and the like "
            "(EMNIST), data_batch_1.bin and the like (CIFAR-10) or train.bin and "
            "test.bin (CIFAR-100), plain, .gz or .xz; or a folder with pictures for each "
            "class",
            directory);
    *ret_files = found;
    return PSR_OK;
}

static void set_name(psr_location *location, const char *spec)
{
    const char *name = is_known_name(spec)       ? spec
                       : location->files != NULL ? location->files->name
                                                 : NULL;
    char *real = name == NULL ? realpath(location->directory, NULL) : NULL;
    if (real != NULL)
        name = strrchr(real, '/') + 1; /* an absolute path */
    snprintf(location->name, sizeof location->name, "%s",
             name != NULL && name[0] != '\0' ? name
             : location->is_pictures         ? "pictures"
                                             : "idx");
    free(real);
}

psr_err psr_location_resolve(const char *spec, psr_location *ret_location)
{
    psr_location location = {0};
    const char *generated = synthetic_spec(spec);
    if (generated != NULL) {
        PSR_TRY(psr_synthetic_parse(generated, &location.synthetic));
        strcpy(location.name, SYNTHETIC_NAME);
        *ret_location = location;
        return PSR_OK;
    }
    PSR_TRY(psr_dataset_find(spec, NULL, 0, location.directory, sizeof location.directory));
    struct stat status;
    if (stat(location.directory, &status) != 0 && errno != ENOENT)
        return psr_fail(PSR_ERR_IO, "--data %s: %s", spec, strerror(errno));
    if (is_file(location.directory) && psr_picture_set_is(location.directory)) {
        location.is_pictures = true;
        set_name(&location, spec);
        *ret_location = location;
        return PSR_OK;
    }
    if (is_file(location.directory)) {
        psr_pack_info info;
        PSR_TRY(psr_pack_read_info(location.directory, &info));
        memcpy(location.name, info.name, sizeof location.name);
        location.is_pack = true;
        *ret_location = location;
        return PSR_OK;
    }
    if (!is_directory(location.directory))
        return psr_fail(
            PSR_ERR_NOT_FOUND,
            "--data %s: no such directory, should be one that holds IDX or CIFAR files, a pack "
            "(psring data pack), or mnist, fashion-mnist, cifar10, cifar100 or synthetic[:SPEC]",
            spec);
    psr_err err = find_file_set(location.directory, &location.files);
    location.is_pictures = err == PSR_ERR_NOT_FOUND && psr_picture_set_is(location.directory);
    if (err != PSR_OK && !location.is_pictures)
        return err;
    set_name(&location, spec);
    *ret_location = location;
    return PSR_OK;
}
