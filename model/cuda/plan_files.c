/* A file: the head, the key, the value. In the byte order of the processors that psring runs on. */
#include "model/cuda/plan_files.h"

#include "base/config/config.h"
#include "base/system/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define DIGITS 32 /* of a file's name */
#define NAME_BYTES sizeof "0123456789abcdef0123456789abcdef.plan"

static const char magic[16] = "psring plan 001";

typedef struct file_head {
    char magic[16];
    uint64_t sum[2]; /* the XXH3-128 of all behind it */
    uint64_t key_bytes, value_bytes;
} file_head;

static void sum_up(const char *file, size_t bytes, uint64_t ret_sum[2])
{
    const size_t behind = offsetof(file_head, key_bytes);
    const XXH128_hash_t hash = XXH3_128bits(file + behind, bytes - behind);
    ret_sum[0] = hash.high64;
    ret_sum[1] = hash.low64;
}

static bool print_path(const char *directory, const char *key, char path[PSR_PATH_MAX])
{
    const XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    const int length = snprintf(path, PSR_PATH_MAX, "%s/%016" PRIx64 "%016" PRIx64 ".plan",
                                directory, (uint64_t)hash.high64, (uint64_t)hash.low64);
    return length > 0 && length < PSR_PATH_MAX;
}

/* ---- reading ---- */

/* Whether the bytes are a whole file of this key. */
static bool is_whole(const char *file, size_t bytes, const char *key, file_head *ret_head)
{
    uint64_t sum[2];
    if (bytes < sizeof *ret_head)
        return false;
    memcpy(ret_head, file, sizeof *ret_head);
    const size_t rest = bytes - sizeof *ret_head, key_bytes = strlen(key);
    if (memcmp(ret_head->magic, magic, sizeof magic) != 0 || ret_head->key_bytes != key_bytes ||
        key_bytes > rest || ret_head->value_bytes != rest - key_bytes)
        return false;
    sum_up(file, bytes, sum);
    return memcmp(sum, ret_head->sum, sizeof sum) == 0 &&
           memcmp(file + sizeof *ret_head, key, key_bytes) == 0;
}

static bool read_whole(const char *path, const char *key, char **ret_value, size_t *ret_bytes)
{
    uint8_t *file = NULL;
    size_t bytes = 0;
    file_head head;
    if (psr_file_read(path, PSR_CUDA_PLAN_FILE_BYTES, &file, &bytes) != PSR_OK)
        return false;
    if (!is_whole((const char *)file, bytes, key, &head)) {
        free(file);
        return false;
    }
    const size_t value_bytes = (size_t)head.value_bytes;
    memmove(file, file + bytes - value_bytes, value_bytes + 1);
    *ret_value = (char *)file;
    *ret_bytes = value_bytes;
    return true;
}

bool psr_cuda_plan_files_get(const psr_cuda_plan_files *files, const char *key, char **ret_value,
                             size_t *ret_bytes)
{
    char path[PSR_PATH_MAX], detail[PSR_ERR_DETAIL_BYTES];
    psr_err_detail_keep(detail);
    const bool found = psr_dir_is_private(files->directory) &&
                       print_path(files->directory, key, path) &&
                       read_whole(path, key, ret_value, ret_bytes);
    if (found)
        (void)utimensat(AT_FDCWD, path, NULL, 0); /* used now; if not, it goes earlier */
    psr_err_detail_restore(detail);
    return found;
}

/* ---- making room ---- */

typedef struct kept_file {
    char name[NAME_BYTES + sizeof ".new-XXXXXX"];
    struct timespec used;
    size_t bytes;
} kept_file;

typedef struct kept_files {
    kept_file *items;
    size_t count, room, bytes;
} kept_files;

/* Ours, and what a writer that was killed has left beside them. */
static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == DIGITS && strncmp(name + DIGITS, ".plan", 5) == 0 &&
           strlen(name) < sizeof((kept_file *)NULL)->name;
}

static bool add_file(kept_files *all, int directory, const char *name)
{
    struct stat status;
    if (!is_ours(name) || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return true; /* another process has removed it */
    if (all->count == all->room) {
        const size_t room = 2 * all->room + 64;
        kept_file *items = realloc(all->items, room * sizeof *items);
        if (items == NULL)
            return false;
        all->items = items;
        all->room = room;
    }
    kept_file *file = &all->items[all->count++];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->used = status.st_mtim;
    file->bytes = (size_t)status.st_size;
    all->bytes += file->bytes;
    return true;
}

/* The longest unused first; of one time by name, so that processes remove the same ones. */
static int compare_use(const void *a, const void *b)
{
    const kept_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Removes files until one more of that size would be one of files_most, and all_bytes hold it. */
static bool make_room(const psr_cuda_plan_files *files, size_t bytes)
{
    kept_files all = {0};
    DIR *directory = opendir(files->directory);
    bool good = directory != NULL && bytes <= files->all_bytes && files->files_most > 0;
    if (good)
        for (const struct dirent *e; good && (e = readdir(directory)) != NULL;)
            good = add_file(&all, dirfd(directory), e->d_name);
    if (good && all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, compare_use);
    size_t left = all.count;
    for (size_t i = 0; good && (left >= files->files_most || all.bytes > files->all_bytes - bytes);
         i++, left--) {
        (void)unlinkat(dirfd(directory), all.items[i].name, 0); /* or another process has */
        all.bytes -= all.items[i].bytes;
    }
    free(all.items);
    if (directory != NULL)
        closedir(directory);
    return good;
}

/* ---- writing ---- */

static void write_whole(const psr_cuda_plan_files *files, const char *path, const char *key,
                        const char *value, size_t value_bytes)
{
    const size_t key_bytes = strlen(key), bytes = sizeof(file_head) + key_bytes + value_bytes;
    file_head head = {.key_bytes = key_bytes, .value_bytes = value_bytes};
    char *file = bytes <= PSR_CUDA_PLAN_FILE_BYTES ? malloc(bytes) : NULL;
    if (file == NULL)
        return;
    memcpy(head.magic, magic, sizeof magic);
    memcpy(file, &head, sizeof head);
    memcpy(file + sizeof head, key, key_bytes);
    memcpy(file + sizeof head + key_bytes, value, value_bytes);
    sum_up(file, bytes, head.sum);
    memcpy(file, &head, sizeof head);
    if (make_room(files, bytes)) {
        const psr_err err = psr_file_write_atomic(path, file, bytes);
        (void)err; /* without the file the next process finds it out by itself */
    }
    free(file);
}

void psr_cuda_plan_files_put(const psr_cuda_plan_files *files, const char *key, const char *value,
                             size_t bytes)
{
    char path[PSR_PATH_MAX], detail[PSR_ERR_DETAIL_BYTES];
    psr_err_detail_keep(detail);
    if (bytes < PSR_CUDA_PLAN_FILE_BYTES && psr_dir_make_private(files->directory) &&
        print_path(files->directory, key, path))
        write_whole(files, path, key, value, bytes);
    psr_err_detail_restore(detail);
}
