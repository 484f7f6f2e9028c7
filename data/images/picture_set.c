#include "data/images/picture_set.h"

#include "base/config/config.h"
#include "base/system/cpus.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which form ---- */

typedef enum form { FORM_NONE, FORM_SPLIT_FOLDERS, FORM_SPLIT_TSV, FORM_FOLDER, FORM_TSV } form;

static bool is_kind(const char *path, const char *below, mode_t kind)
{
    char full[PSR_PATH_MAX];
    struct stat status;
    int length = snprintf(full, sizeof full, "%s%s", path, below);
    return length > 0 && (size_t)length < sizeof full && stat(full, &status) == 0 &&
           (status.st_mode & S_IFMT) == kind;
}

static bool has_folder(const char *path)
{
    DIR *directory = opendir(path);
    bool found = false;
    for (const struct dirent *entry;
         directory != NULL && !found && (entry = readdir(directory)) != NULL;) {
        char below[300];
        snprintf(below, sizeof below, "/%s", entry->d_name);
        found =
            strcmp(below, "/.") != 0 && strcmp(below, "/..") != 0 && is_kind(path, below, S_IFDIR);
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

static form form_of(const char *path)
{
    size_t length = strlen(path);
    if (is_kind(path, "", S_IFREG))
        return length > 4 && strcmp(path + length - 4, ".tsv") == 0 ? FORM_TSV : FORM_NONE;
    if (is_kind(path, "/train", S_IFDIR))
        return FORM_SPLIT_FOLDERS;
    if (is_kind(path, "/train.tsv", S_IFREG))
        return FORM_SPLIT_TSV;
    return has_folder(path) ? FORM_FOLDER : FORM_NONE;
}

bool psr_picture_set_is(const char *path)
{
    return form_of(path) != FORM_NONE;
}

/* ---- listing ---- */

typedef psr_err reader(const char *path, const psr_picture_list *classes,
                       psr_picture_list *ret_list);

static psr_err list_splits(const char *path, const char *suffix, mode_t kind, reader *read,
                           psr_picture_set *set)
{
    char train[PSR_PATH_MAX + 16], test[PSR_PATH_MAX + 16], below[16];
    snprintf(below, sizeof below, "/val%s", suffix);
    if (!is_kind(path, below, kind))
        snprintf(below, sizeof below, "/test%s", suffix);
    if (!is_kind(path, below, kind))
        return psr_fail(PSR_ERR_NOT_FOUND, "--data %s: should hold val%s or test%s beside train%s",
                        path, suffix, suffix, suffix);
    snprintf(train, sizeof train, "%s/train%s", path, suffix);
    snprintf(test, sizeof test, "%s%s", path, below);
    PSR_TRY(read(train, NULL, &set->split[0].list));
    return read(test, &set->split[0].list, &set->split[1].list);
}

static psr_err list_set(const char *path, psr_picture_set *set)
{
    switch (form_of(path)) {
    case FORM_SPLIT_FOLDERS:
        return list_splits(path, "", S_IFDIR, psr_picture_list_read_folder, set);
    case FORM_SPLIT_TSV:
        return list_splits(path, ".tsv", S_IFREG, psr_picture_list_read_tsv, set);
    case FORM_FOLDER:
        set->same = true;
        return psr_picture_list_read_folder(path, NULL, &set->split[0].list);
    case FORM_TSV:
        set->same = true;
        return psr_picture_list_read_tsv(path, NULL, &set->split[0].list);
    case FORM_NONE:
        break;
    }
    return psr_fail(
        PSR_ERR_NOT_FOUND,
        "--data %s: no pictures here, should hold a folder for each class, or train and "
        "val, or train.tsv and val.tsv",
        path);
}

psr_err psr_picture_set_list(const char *path, psr_picture_set **ret_set)
{
    psr_picture_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--data %s: no memory", path);
    set->users = 1;
    psr_err err = list_set(path, set);
    if (err != PSR_OK) {
        psr_picture_set_free(set);
        return err;
    }
    *ret_set = set;
    return PSR_OK;
}

/* ---- checking ---- */

/* Leaves broken files out. Without memory, less is remembered. */
static void remember(psr_known_picture *items, uint32_t count, psr_known_pictures *now)
{
    for (uint32_t i = 0; i < count; i++)
        if (items[i].height == 0)
            items[i].state = 0;
    (void)psr_known_pictures_add(now, items, count);
}

/* How a set is read. */
typedef struct set_reading {
    psr_known_pictures known; /* from the cache */
    psr_known_pictures now;   /* what is known after it */
    bool remembers;           /* false: now is not wanted */
    uint32_t threads;
    psr_reading *reading;
} set_reading;

static psr_err check_split(psr_picture_set *set, psr_picture_split *split, set_reading *r)
{
    psr_known_picture *now = NULL;
    for (uint32_t i = 0; i < split->list.empty.count; i++) {
        const char *message = psr_names_get(&split->list.empty, i);
        PSR_TRY(psr_names_add(&set->broken, message, strlen(message)));
    }
    PSR_TRY(psr_picture_list_check(&split->list, &r->known, r->threads, r->reading, &set->broken,
                                   &split->sizes, r->remembers ? &now : NULL, split->content));
    if (r->remembers) {
        remember(now, split->list.paths.count, &r->now);
        free(now);
    }
    return PSR_OK;
}

psr_err psr_picture_set_judge(const psr_picture_set *set, uint32_t max_bad)
{
    uint32_t count = set->broken.count;
    if (count <= max_bad)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "--max-bad %" PRIu32 ": %" PRIu32
                    " broken picture%s or empty class%s; the first: "
                    "%s",
                    max_bad, count, count == 1 ? "" : "s", count == 1 ? "" : "es",
                    psr_names_get(&set->broken, 0));
}

/* Whether the cache lacks something, or has something of files that are no more. */
static bool is_news(const psr_known_pictures *known, const psr_known_pictures *now)
{
    for (size_t i = 0; i < now->count; i++)
        if (psr_known_pictures_find(known, now->items[i].state) == NULL)
            return true;
    return known->count != now->count;
}

psr_err psr_picture_set_read(const char *path, const char *cache, psr_reading *reading,
                             psr_picture_set **ret_set)
{
    psr_picture_set *set = NULL;
    psr_cpus cpus = psr_cpus_allowed();
    set_reading r = {
        .remembers = cache != NULL, .threads = psr_cpus_count(&cpus), .reading = reading};
    PSR_TRY(psr_picture_set_list(path, &set));
    if (cache != NULL)
        r.known = psr_known_pictures_get(cache, path);
    psr_err err = check_split(set, &set->split[0], &r);
    if (err == PSR_OK && !set->same)
        err = check_split(set, &set->split[1], &r);
    if (err == PSR_OK && cache != NULL && is_news(&r.known, &r.now))
        psr_known_pictures_put(cache, path, &r.now);
    psr_known_pictures_done(&r.known);
    psr_known_pictures_done(&r.now);
    if (err != PSR_OK) {
        psr_picture_set_free(set);
        return err;
    }
    *ret_set = set;
    return PSR_OK;
}

psr_picture_set *psr_picture_set_hold(psr_picture_set *set)
{
    atomic_fetch_add(&set->users, 1);
    return set;
}

void psr_picture_set_free(psr_picture_set *set)
{
    if (set == NULL || atomic_fetch_sub(&set->users, 1) > 1)
        return;
    for (int s = 0; s < 2; s++) {
        psr_picture_list_done(&set->split[s].list);
        free(set->split[s].sizes);
    }
    psr_names_done(&set->broken);
    free(set);
}
