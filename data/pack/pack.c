#include "data/pack/pack.h"

#include "base/system/file.h"
#include "data/pack/form.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct pack {
    char *path;
    int fd;
    const uint8_t *map;
    uint64_t bytes; /* of the file */
    pack_head head;
    const char **names; /* [head.names_count], into the map */
    psr_decode_function *decode;
    psr_picture_source source[2]; /* whose state is this */
    atomic_uint users;            /* sources that have not been freed */
} pack;

static const char *const split_name[2] = {"train", "test"};

/* ---- the head ---- */

static bool is_hexadecimal(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (strchr("0123456789abcdef", text[i]) == NULL || text[i] == '\0')
            return false;
    return true;
}

static bool split_is_possible(const pack_split *split)
{
    bool constants = true;
    for (int c = 0; c < 3; c++)
        constants = constants && isfinite(split->mean[c]) && isfinite(split->deviation[c]) &&
                    split->deviation[c] > 0;
    return constants && split->count > 0 && (split->channels == 1 || split->channels == 3) &&
           split->height <= PSR_PACK_MAX_SIDE && split->width <= PSR_PACK_MAX_SIDE &&
           (split->height == 0) == (split->width == 0) && split->classes > 0 &&
           split->classes <= PSR_PACK_MAX_CLASSES && split->origin <= PSR_CONSTANTS_PACK &&
           is_hexadecimal(split->content, sizeof split->content);
}

/* Whether [offset, offset + bytes) lies in the index. */
static bool is_in_index(const pack_head *head, uint64_t offset, uint64_t bytes)
{
    return offset >= head->index_offset && offset <= head->file_bytes &&
           bytes <= head->file_bytes - offset;
}

static bool places_are_possible(const pack_head *head)
{
    if (head->index_offset < PSR_PACK_HEAD_BYTES || head->index_offset > head->file_bytes ||
        head->index_offset % PSR_PACK_ALIGNMENT != 0 ||
        !is_in_index(head, head->names_offset, head->names_bytes))
        return false;
    for (int s = 0; s < 2; s++) {
        const pack_split *split = &head->split[s];
        if (split->labels_offset % PSR_PACK_ALIGNMENT != 0 ||
            split->entries_offset % PSR_PACK_ALIGNMENT != 0 ||
            !is_in_index(head, split->labels_offset, split->count * (uint64_t)sizeof(uint32_t)) ||
            !is_in_index(head, split->entries_offset, split->count * (uint64_t)sizeof(pack_entry)))
            return false;
    }
    return true;
}

static bool splits_are_possible(const pack_head *head)
{
    const pack_split *train = &head->split[0], *test = &head->split[1];
    uint32_t classes = train->classes > test->classes ? train->classes : test->classes;
    return split_is_possible(train) && split_is_possible(test) &&
           train->channels == test->channels && train->height == test->height &&
           train->width == test->width &&
           (head->names_count == 0 || head->names_count == classes) &&
           memchr(head->name, '\0', sizeof head->name) != NULL;
}

static psr_err check_head(const char *path, uint64_t bytes, const pack_head *head)
{
    if (head->version != PSR_PACK_VERSION)
        return psr_fail(PSR_ERR_VERSION,
                        "%s: a pack of version %" PRIu32
                        ", and this psring reads version %u; pack the data again",
                        path, head->version, PSR_PACK_VERSION);
    if (head->head_bytes != PSR_PACK_HEAD_BYTES ||
        head->checksum != XXH3_64bits(head, offsetof(pack_head, checksum)))
        return psr_fail(PSR_ERR_FORMAT, "%s: damaged: the checksum of its head is wrong", path);
    if (head->file_bytes != bytes)
        return psr_fail(PSR_ERR_FORMAT, "%s: %s: has %" PRIu64 " bytes, should have %" PRIu64, path,
                        bytes < head->file_bytes ? "truncated" : "over-long", bytes,
                        head->file_bytes);
    if (!splits_are_possible(head) || !places_are_possible(head))
        return psr_fail(PSR_ERR_FORMAT, "%s: its head says what cannot be", path);
    return PSR_OK;
}

static psr_err open_head(const char *path, int *ret_fd, pack_head *ret_head)
{
    int fd = -1;
    uint64_t bytes = 0;
    pack_head head;
    PSR_TRY(psr_file_open(path, &fd, &bytes));
    psr_err err = PSR_OK;
    if (bytes < sizeof head)
        err = psr_fail(PSR_ERR_FORMAT, "%s: truncated: has %" PRIu64 " bytes, a pack's head has %u",
                       path, bytes, PSR_PACK_HEAD_BYTES);
    if (err == PSR_OK)
        err = psr_file_read_at(fd, path, &head, sizeof head, 0);
    if (err == PSR_OK && memcmp(head.magic, PSR_PACK_MAGIC, sizeof PSR_PACK_MAGIC) != 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s: not a pack, which `psring data pack` writes", path);
    if (err == PSR_OK)
        err = check_head(path, bytes, &head);
    if (err != PSR_OK) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    *ret_head = head;
    return PSR_OK;
}

static psr_pack_info info_of(const pack_head *head)
{
    const pack_split *train = &head->split[0], *test = &head->split[1];
    psr_pack_info info = {
        .count = {train->count, test->count},
        .channels = train->channels,
        .classes = train->classes > test->classes ? train->classes : test->classes,
        .height = train->height,
        .width = train->width,
    };
    memcpy(info.name, head->name, sizeof info.name);
    memcpy(info.content.train, train->content, PSR_CONTENT_DIGITS);
    memcpy(info.content.test, test->content, PSR_CONTENT_DIGITS);
    return info;
}

bool psr_pack_is(const char *path)
{
    char magic[sizeof PSR_PACK_MAGIC];
    int fd = -1;
    uint64_t bytes = 0;
    if (psr_file_open(path, &fd, &bytes) != PSR_OK)
        return false;
    bool is = bytes >= sizeof magic &&
              psr_file_read_at(fd, path, magic, sizeof magic, 0) == PSR_OK &&
              memcmp(magic, PSR_PACK_MAGIC, sizeof magic) == 0;
    close(fd);
    return is;
}

psr_err psr_pack_read_info(const char *path, psr_pack_info *ret_info)
{
    int fd = -1;
    pack_head head;
    PSR_TRY(open_head(path, &fd, &head));
    close(fd);
    *ret_info = info_of(&head);
    return PSR_OK;
}

/* ---- the index ---- */

static const uint32_t *labels_of(const pack *p, int split)
{
    return (const uint32_t *)(const void *)(p->map + p->head.split[split].labels_offset);
}

static const pack_entry *entries_of(const pack *p, int split)
{
    return (const pack_entry *)(const void *)(p->map + p->head.split[split].entries_offset);
}

static bool entry_is_possible(const pack_head *head, const pack_split *split,
                              const pack_entry *entry)
{
    bool sides =
        entry->height > 0 && entry->height <= PSR_PACK_MAX_SIDE && entry->width > 0 &&
        entry->width <= PSR_PACK_MAX_SIDE &&
        (split->height == 0 || (entry->height == split->height && entry->width == split->width));
    bool place = entry->offset >= PSR_PACK_HEAD_BYTES && entry->offset <= head->index_offset &&
                 entry->size <= head->index_offset - entry->offset && entry->size > 0;
    uint64_t pixels = (uint64_t)split->channels * entry->height * entry->width;
    return sides && place && entry->form < PSR_STORED_FORMS &&
           (entry->form != PSR_STORED_PIXELS || entry->size == pixels);
}

static psr_err check_entries(const pack *p, int s)
{
    const pack_split *split = &p->head.split[s];
    for (uint32_t i = 0; i < split->count; i++) {
        if (labels_of(p, s)[i] >= split->classes)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s: %s picture %" PRIu32 " has label %" PRIu32
                            ", should be below %" PRIu32,
                            p->path, split_name[s], i, labels_of(p, s)[i], split->classes);
        if (!entry_is_possible(&p->head, split, &entries_of(p, s)[i]))
            return psr_fail(PSR_ERR_FORMAT, "%s: the entry of %s picture %" PRIu32 " cannot be",
                            p->path, split_name[s], i);
    }
    return PSR_OK;
}

static psr_err find_names(pack *p)
{
    const char *at = (const char *)p->map + p->head.names_offset;
    size_t left = p->head.names_bytes;
    if (p->head.names_count == 0)
        return PSR_OK;
    p->names = calloc(p->head.names_count, sizeof *p->names);
    if (p->names == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory for its class names", p->path);
    for (uint32_t i = 0; i < p->head.names_count; i++) {
        const char *end = left > 0 ? memchr(at, '\0', left) : NULL;
        if (end == NULL)
            return psr_fail(PSR_ERR_FORMAT, "%s: %" PRIu32 " class names, should be %" PRIu32,
                            p->path, i, p->head.names_count);
        p->names[i] = at;
        left -= (size_t)(end + 1 - at);
        at = end + 1;
    }
    return PSR_OK;
}

static psr_err map_pack(pack *p)
{
    p->bytes = p->head.file_bytes;
    void *map =
        p->bytes <= SIZE_MAX ? mmap(NULL, p->bytes, PROT_READ, MAP_SHARED, p->fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        return psr_fail(PSR_ERR_IO, "%s: cannot be mapped: %s", p->path, strerror(errno));
    p->map = map;
    if (XXH3_64bits(p->map + p->head.index_offset, p->bytes - p->head.index_offset) !=
        p->head.index_checksum)
        return psr_fail(PSR_ERR_FORMAT, "%s: damaged: the checksum of its index is wrong", p->path);
    for (int s = 0; s < 2; s++)
        PSR_TRY(check_entries(p, s));
    return find_names(p);
}

/* ---- a picture ---- */

static int split_of(const pack *p, const psr_picture_source *source)
{
    return source == &p->source[1];
}

/* A mapped file that was cut must not be touched. */
static psr_err check_length(const pack *p)
{
    struct stat status;
    if (fstat(p->fd, &status) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", p->path, strerror(errno));
    if ((uint64_t)status.st_size < p->bytes)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: truncated while it was in use: has %" PRIu64
                        " bytes, should have %" PRIu64,
                        p->path, (uint64_t)status.st_size, p->bytes);
    return PSR_OK;
}

static psr_err pack_stored(const psr_picture_source *source, uint32_t i,
                           psr_picture_scratch *scratch, psr_stored *ret_stored)
{
    const pack *p = source->state;
    (void)scratch;
    PSR_TRY(check_length(p));
    const pack_entry *entry = &entries_of(p, split_of(p, source))[i];
    const uint8_t *bytes = p->map + entry->offset;
    if (XXH3_64bits(bytes, entry->size) != entry->checksum)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: %s picture %" PRIu32 " is damaged: its checksum is wrong", p->path,
                        split_name[split_of(p, source)], i);
    *ret_stored = (psr_stored){.bytes = bytes,
                               .size = entry->size,
                               .form = (psr_stored_form)entry->form,
                               .channels = source->channels,
                               .height = entry->height,
                               .width = entry->width};
    return PSR_OK;
}

static psr_err decode_stored(const psr_picture_source *source, uint32_t i, const psr_stored *stored,
                             const psr_picture_part *part, psr_picture_scratch *scratch,
                             psr_picture *ret_picture)
{
    const pack *p = source->state;
    char name[PATH_MAX + 64];
    snprintf(name, sizeof name, "%s: %s picture %" PRIu32, p->path, split_name[split_of(p, source)],
             i);
    if (p->decode == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "%s: is a JPEG or PNG file, which this build does not decode; make the "
                        "pack with --decoded",
                        name);
    return p->decode(stored->bytes, stored->size, name, source->channels, part, scratch,
                     ret_picture);
}

static psr_err pack_picture(const psr_picture_source *source, uint32_t i,
                            const psr_picture_part *part, psr_picture_scratch *scratch,
                            psr_picture *ret_picture)
{
    psr_stored stored = {0};
    PSR_TRY(pack_stored(source, i, scratch, &stored));
    if (stored.form != PSR_STORED_PIXELS)
        return decode_stored(source, i, &stored, part, scratch, ret_picture);
    psr_picture picture = {
        .pixels = stored.bytes,
        .channels = stored.channels,
        .height = stored.height,
        .width = stored.width,
        .plane = (size_t)stored.height * stored.width,
        .row = stored.width,
        .step = 1,
    };
    PSR_TRY(psr_picture_cut(&picture, part));
    *ret_picture = picture;
    return PSR_OK;
}

static psr_err pack_size(const psr_picture_source *source, uint32_t i, psr_picture_scratch *scratch,
                         uint32_t *ret_height, uint32_t *ret_width)
{
    const pack *p = source->state;
    (void)scratch;
    PSR_TRY(check_length(p));
    const pack_entry *entry = &entries_of(p, split_of(p, source))[i];
    *ret_height = entry->height;
    *ret_width = entry->width;
    return PSR_OK;
}

/* The kernel reads a large record's pages meanwhile, the processor a small one's lines. (Its
 * prefetches never fault.) */
static void pack_prefetch(const psr_picture_source *source, uint32_t i)
{
    enum { LINE_BYTES = 64, SMALL_BYTES = 4096 };
    const pack *p = source->state;
    const pack_entry *entry = &entries_of(p, split_of(p, source))[i];
    if (check_length(p) != PSR_OK)
        return;
    for (uint32_t at = 0; at < entry->size && entry->size <= SMALL_BYTES; at += LINE_BYTES)
        __builtin_prefetch(p->map + entry->offset + at);
    if (entry->size <= SMALL_BYTES)
        return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = entry->offset / page * page;
    (void)posix_madvise((void *)(uintptr_t)(p->map + begin), entry->offset + entry->size - begin,
                        POSIX_MADV_WILLNEED);
}

/* ---- the object ---- */

static void pack_done(pack *p)
{
    if (p->map != NULL)
        munmap((void *)(uintptr_t)p->map, p->bytes);
    if (p->fd >= 0)
        close(p->fd);
    free(p->names);
    free(p->path);
    free(p);
}

static void pack_free(psr_picture_source *source)
{
    pack *p = source->state;
    if (atomic_fetch_sub(&p->users, 1) == 1)
        pack_done(p);
}

static const psr_picture_source_kind pack_kind = {.name = "pack",
                                                  .picture = pack_picture,
                                                  .size = pack_size,
                                                  .stored = pack_stored,
                                                  .prefetch = pack_prefetch,
                                                  .free = pack_free};

static psr_picture_source source_of(pack *p, int s)
{
    const pack_split *split = &p->head.split[s];
    psr_picture_source source = {
        .kind = &pack_kind,
        .count = split->count,
        .classes = split->classes,
        .channels = split->channels,
        .height = split->height,
        .width = split->width,
        .labels = labels_of(p, s),
        .class_names = p->names,
        .origin = (psr_constants_origin)split->origin,
        .state = p,
    };
    memcpy(source.mean, split->mean, sizeof source.mean);
    memcpy(source.deviation, split->deviation, sizeof source.deviation);
    memcpy(source.content, split->content, PSR_CONTENT_DIGITS);
    return source;
}

psr_err psr_pack_open(const char *path, psr_decode_function *decode, psr_pack_info *ret_info,
                      psr_picture_source *ret_sources[2])
{
    pack *p = calloc(1, sizeof *p);
    if (p == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to open it", path);
    p->fd = -1;
    p->decode = decode;
    p->path = strdup(path);
    psr_err err = p->path != NULL ? open_head(path, &p->fd, &p->head)
                                  : psr_fail(PSR_ERR_NOMEM, "%s: no memory to open it", path);
    if (err == PSR_OK)
        err = map_pack(p);
    if (err != PSR_OK) {
        pack_done(p);
        return err;
    }
    for (int s = 0; s < 2; s++) {
        p->source[s] = source_of(p, s);
        ret_sources[s] = &p->source[s];
    }
    atomic_init(&p->users, 2);
    *ret_info = info_of(&p->head);
    return PSR_OK;
}
