#include "data/images/picture_list.h"

#include "base/config/config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Links may lead back up, so that a walk would not end. */
#define MAX_DEPTH 16

static bool has_picture_extension(const char *name)
{
    static const char *const known[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                        ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(dot, known[i]) == 0)
            return true;
    return false;
}

/* The entries of a folder, sorted: names of its folders, and of its other entries. */
typedef struct entries {
    psr_names folders, files;
} entries;

static void entries_done(entries *e)
{
    psr_names_done(&e->folders);
    psr_names_done(&e->files);
}

static psr_err add_entry(const char *path, const struct dirent *entry, entries *e)
{
    char full[PSR_PATH_MAX];
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return PSR_OK;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
        int length = snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof full)
            return psr_fail(PSR_ERR_USAGE, "%s: a path below it is longer than %d bytes", path,
                            PSR_PATH_MAX);
        is_folder = stat(full, &status) == 0 && S_ISDIR(status.st_mode);
    }
    return psr_names_add(is_folder ? &e->folders : &e->files, entry->d_name, strlen(entry->d_name));
}

static psr_err read_entries(const char *path, entries *ret_entries)
{
    entries e = {0};
    DIR *directory = opendir(path);
    if (directory == NULL)
        return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "%s: %s", path,
                        strerror(errno));
    psr_err err = PSR_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL && errno != 0)
            err = psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
        if (entry == NULL || err != PSR_OK)
            break;
        err = add_entry(path, entry, &e);
        if (err != PSR_OK)
            break;
    }
    closedir(directory);
    if (err != PSR_OK) {
        entries_done(&e);
        return err;
    }
    psr_names_sort_unique(&e.folders);
    psr_names_sort_unique(&e.files);
    *ret_entries = e;
    return PSR_OK;
}

/* ---- the files of a class: by folder, then by name, as sorted(os.walk(..)) has them ---- */

/* Adds path, relative to the list's directory, and all folders below it. */
static psr_err add_folders(const char *directory, const char *path, int depth, psr_names *folders)
{
    char full[PSR_PATH_MAX];
    entries e;
    int length = snprintf(full, sizeof full, "%s/%s", directory, path);
    if (depth > MAX_DEPTH || length < 0 || (size_t)length >= sizeof full)
        return psr_fail(PSR_ERR_USAGE,
                        "%s: folders nested deeper than %d, or a path longer than %d bytes; does a "
                        "link lead back up?",
                        directory, MAX_DEPTH, PSR_PATH_MAX);
    PSR_TRY(psr_names_add(folders, path, strlen(path)));
    PSR_TRY(read_entries(full, &e));
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < e.folders.count && err == PSR_OK; i++) {
        char below[PSR_PATH_MAX];
        length = snprintf(below, sizeof below, "%s/%s", path, psr_names_get(&e.folders, i));
        if (length < 0 || (size_t)length >= sizeof below)
            err = psr_fail(PSR_ERR_USAGE, "%s: a path below it is longer than %d bytes", full,
                           PSR_PATH_MAX);
        else
            err = add_folders(directory, below, depth + 1, folders);
    }
    entries_done(&e);
    return err;
}

/* Adds the pictures in one folder, itself relative to the list's directory. */
static psr_err add_files(psr_picture_list *list, const char *folder, uint32_t label)
{
    char path[PSR_PATH_MAX];
    entries e;
    int length = snprintf(path, sizeof path, "%s/%s", list->directory, folder);
    if (length < 0 || (size_t)length >= sizeof path)
        return psr_fail(PSR_ERR_USAGE, "%s: a path longer than %d bytes", folder, PSR_PATH_MAX);
    PSR_TRY(read_entries(path, &e));
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < e.files.count && err == PSR_OK; i++) {
        const char *name = psr_names_get(&e.files, i);
        if (!has_picture_extension(name))
            continue;
        length = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (length < 0 || (size_t)length >= sizeof path)
            err = psr_fail(PSR_ERR_USAGE, "%s: a path below it is longer than %d bytes", folder,
                           PSR_PATH_MAX);
        else
            err = psr_picture_list_add(list, path, (size_t)length, label);
    }
    entries_done(&e);
    return err;
}

static psr_err add_class(psr_picture_list *list, const char *name, uint32_t label)
{
    psr_names folders = {0};
    uint32_t before = list->paths.count;
    psr_err err = add_folders(list->directory, name, 0, &folders);
    psr_names_sort_unique(&folders);
    for (uint32_t i = 0; i < folders.count && err == PSR_OK; i++)
        err = add_files(list, psr_names_get(&folders, i), label);
    psr_names_done(&folders);
    if (err == PSR_OK && list->paths.count == before) {
        char message[PSR_PATH_MAX + 64];
        int length = snprintf(message, sizeof message, "%s/%s: a class without a picture",
                              list->directory, name);
        size_t size = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;
        err = psr_names_add(&list->empty, message, size);
    }
    return err;
}

/* ---- the classes ---- */

static psr_err copy_names(const psr_names *from, psr_names *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const char *name = psr_names_get(from, i);
        PSR_TRY(psr_names_add(to, name, strlen(name)));
    }
    return PSR_OK;
}

static psr_err add_classes(psr_picture_list *list, const psr_names *folders, bool given)
{
    for (uint32_t i = 0; i < folders->count; i++) {
        const char *name = psr_names_get(folders, i);
        uint32_t label = psr_names_find(&list->classes, name);
        if (label == UINT32_MAX && given)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s/%s: a class that the training pictures do not have; the same "
                            "folders should be in both",
                            list->directory, name);
        PSR_TRY(add_class(list, name, label));
    }
    return PSR_OK;
}

psr_err psr_picture_list_read_folder(const char *path, const psr_picture_list *classes,
                                     psr_picture_list *ret_list)
{
    psr_picture_list list = {.directory = strdup(path)};
    entries e = {0};
    psr_err err = list.directory == NULL ? psr_fail(PSR_ERR_NOMEM, "%s: no memory", path)
                                         : read_entries(path, &e);
    if (err == PSR_OK)
        err = copy_names(classes != NULL ? &classes->classes : &e.folders, &list.classes);
    if (err == PSR_OK && e.folders.count > PSR_PICTURE_CLASSES_MAX)
        err = psr_fail(PSR_ERR_FORMAT, "%s: %" PRIu32 " classes, should be at most %u", path,
                       e.folders.count, PSR_PICTURE_CLASSES_MAX);
    if (err == PSR_OK)
        err = add_classes(&list, &e.folders, classes != NULL);
    if (err == PSR_OK && list.paths.count == 0)
        err = psr_fail(PSR_ERR_FORMAT,
                       "%s: no picture (.jpg, .jpeg, .png) in any of its %" PRIu32
                       " folders; should hold a folder for each class, with that class's pictures",
                       path, e.folders.count);
    entries_done(&e);
    if (err != PSR_OK) {
        psr_picture_list_done(&list);
        return err;
    }
    *ret_list = list;
    return PSR_OK;
}
