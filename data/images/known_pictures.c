/* The file: magic, the digits of the set's path, the number of pictures, these, and the XXH3-64 of
 * all before it. In the byte order of the processors that psring runs on. */
#include "data/images/known_pictures.h"

#include "base/config/config.h"
#include "base/system/file.h"
#include "data/digest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* As in data/opened.c. */
#define SETTLED_S 3
#define MAX_BYTES ((size_t)1 << 30)

static const char magic[16] = "psring pictures";

typedef struct file_head {
    char magic[16];
    char set[PSR_DIGEST_BYTES];
    char unused[7];
    uint64_t count;
} file_head;

bool psr_picture_state(const char *path, uint64_t *ret_state, bool *ret_settled)
{
    struct stat status;
    XXH3_state_t hash;
    if (stat(path, &status) != 0)
        return false;
    const uint64_t numbers[] = {(uint64_t)status.st_dev,          (uint64_t)status.st_ino,
                                (uint64_t)status.st_size,         (uint64_t)status.st_mtim.tv_sec,
                                (uint64_t)status.st_mtim.tv_nsec, (uint64_t)status.st_ctim.tv_sec,
                                (uint64_t)status.st_ctim.tv_nsec};
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    XXH3_64bits_update(&hash, path, strlen(path) + 1);
    XXH3_64bits_update(&hash, numbers, sizeof numbers);
    const uint64_t state = XXH3_64bits_digest(&hash);
    const time_t now = time(NULL);
    *ret_state = state != 0 ? state : 1;
    *ret_settled =
        status.st_mtim.tv_sec + SETTLED_S < now && status.st_ctim.tv_sec + SETTLED_S < now;
    return true;
}

static int compare(const void *a, const void *b)
{
    const psr_known_picture *x = a, *y = b;
    return x->state < y->state ? -1 : x->state > y->state;
}

const psr_known_picture *psr_known_pictures_find(const psr_known_pictures *known, uint64_t state)
{
    const psr_known_picture key = {.state = state};
    return known->count == 0
               ? NULL
               : bsearch(&key, known->items, known->count, sizeof *known->items, compare);
}

/* The digits of the set, by its real path, and the path of its file in the cache. */
static bool find_file(const char *directory, const char *path, char set[PSR_DIGEST_BYTES],
                      char file[PSR_PATH_MAX])
{
    XXH3_state_t hash;
    char *real = realpath(path, NULL);
    if (real == NULL)
        return false;
    XXH3_INITSTATE(&hash);
    XXH3_128bits_reset(&hash);
    XXH3_128bits_update(&hash, real, strlen(real));
    psr_digest_print(&hash, set);
    free(real);
    const int length = snprintf(file, PSR_PATH_MAX, "%s/pictures-%.2s", directory, set);
    return length > 0 && length < PSR_PATH_MAX;
}

static bool is_whole(const uint8_t *bytes, size_t size, const char *set, file_head *head)
{
    uint64_t checksum;
    if (size < sizeof *head + sizeof checksum)
        return false;
    memcpy(head, bytes, sizeof *head);
    memcpy(&checksum, bytes + size - sizeof checksum, sizeof checksum);
    return memcmp(head->magic, magic, sizeof magic) == 0 &&
           memcmp(head->set, set, PSR_DIGEST_BYTES) == 0 && head->count > 0 &&
           head->count == (size - sizeof *head - sizeof checksum) / sizeof(psr_known_picture) &&
           size == sizeof *head + head->count * sizeof(psr_known_picture) + sizeof checksum &&
           XXH3_64bits(bytes, size - sizeof checksum) == checksum;
}

psr_known_pictures psr_known_pictures_get(const char *directory, const char *path)
{
    char set[PSR_DIGEST_BYTES], file[PSR_PATH_MAX];
    psr_known_pictures known = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    file_head head;
    if (!psr_dir_is_private(directory) || !find_file(directory, path, set, file) ||
        psr_file_read(file, MAX_BYTES, &bytes, &size) != PSR_OK)
        return known;
    if (is_whole(bytes, size, set, &head))
        known.items = malloc(head.count * sizeof *known.items);
    if (known.items != NULL) {
        memcpy(known.items, bytes + sizeof head, head.count * sizeof *known.items);
        known.count = head.count;
    }
    free(bytes);
    return known;
}

bool psr_known_pictures_add(psr_known_pictures *known, const psr_known_picture *items, size_t count)
{
    psr_known_picture *more =
        realloc(known->items, (known->count + count + 1) * sizeof *known->items);
    if (more == NULL)
        return false;
    known->items = more;
    for (size_t i = 0; i < count; i++)
        if (items[i].state != 0)
            known->items[known->count++] = items[i];
    return true;
}

void psr_known_pictures_put(const char *directory, const char *path, psr_known_pictures *known)
{
    char file[PSR_PATH_MAX];
    file_head head = {.count = known->count};
    const size_t items_bytes = known->count * sizeof *known->items;
    const size_t size = sizeof head + items_bytes + sizeof(uint64_t);
    if (known->count == 0 || size > MAX_BYTES || !psr_dir_make_private(directory) ||
        !find_file(directory, path, head.set, file))
        return;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL)
        return;
    memcpy(head.magic, magic, sizeof magic);
    qsort(known->items, known->count, sizeof *known->items, compare);
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, known->items, items_bytes);
    const uint64_t checksum = XXH3_64bits(bytes, sizeof head + items_bytes);
    memcpy(bytes + sizeof head + items_bytes, &checksum, sizeof checksum);
    psr_err err = psr_file_write_atomic(file, bytes, size);
    (void)err; /* without it the next process reads the files once more */
    free(bytes);
}

void psr_known_pictures_done(psr_known_pictures *known)
{
    free(known->items);
    *known = (psr_known_pictures){0};
}
