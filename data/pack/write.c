#include "data/pack/write.h"

#include "base/system/file.h"
#include "data/digest.h"
#include "data/pack/form.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct writer {
    const psr_pack_options *options;
    const psr_picture_source *const *sources;
    const char *path;
    char beside[PATH_MAX];
    FILE *file;
    uint64_t at; /* where the next byte goes */
    pack_head head;
    pack_entry *entries[2]; /* [count], owned */
    XXH3_state_t index;
    psr_picture_scratch scratch;
    uint64_t done;
} writer;

static psr_err fail_write(const writer *w)
{
    return psr_fail(PSR_ERR_IO, "%s: cannot be written: %s", w->path, strerror(errno));
}

static psr_err put(writer *w, const void *bytes, size_t size)
{
    if (size > 0 && fwrite(bytes, 1, size, w->file) != size)
        return fail_write(w);
    w->at += size;
    return PSR_OK;
}

/* ---- records ---- */

/* A picture as it will be stored. */
static psr_err get_stored(writer *w, const psr_picture_source *source, uint32_t i,
                          psr_stored *ret_stored)
{
    return w->options->decoded ? psr_picture_source_pixels(source, i, &w->scratch, ret_stored)
                               : psr_picture_source_stored(source, i, &w->scratch, ret_stored);
}

static psr_err put_record(writer *w, int s, uint32_t i)
{
    const psr_picture_source *source = w->sources[s];
    psr_stored stored;
    PSR_TRY(get_stored(w, source, i, &stored));
    if (stored.channels != source->channels || stored.height > PSR_PACK_MAX_SIDE ||
        stored.width > PSR_PACK_MAX_SIDE || stored.size > UINT32_MAX || stored.size == 0) {
        char name[256];
        psr_picture_source_name(source, i, name, sizeof name);
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: %" PRIu32 "x%" PRIu32 "x%" PRIu32
                        ", which a pack does not hold: sides are at most %u, channels %" PRIu32,
                        name, stored.channels, stored.height, stored.width, PSR_PACK_MAX_SIDE,
                        source->channels);
    }
    w->entries[s][i] = (pack_entry){
        .offset = w->at,
        .size = (uint32_t)stored.size,
        .form = stored.form,
        .height = stored.height,
        .width = stored.width,
        .checksum = XXH3_64bits(stored.bytes, stored.size),
    };
    return put(w, stored.bytes, stored.size);
}

static psr_err put_records(writer *w, int s)
{
    const psr_picture_source *source = w->sources[s];
    uint64_t total = (uint64_t)w->sources[0]->count + w->sources[1]->count;
    for (uint32_t i = 0; i < source->count; i++) {
        PSR_TRY(psr_data_progress_at(w->options->progress, w->done, total));
        psr_picture_source_prefetch(source, i + 1 < source->count ? i + 1 : i);
        PSR_TRY(put_record(w, s, i));
        w->done++;
    }
    return psr_data_progress_at(w->options->progress, w->done, total);
}

/* ---- the index ---- */

static psr_err put_indexed(writer *w, const void *bytes, size_t size)
{
    XXH3_64bits_update(&w->index, bytes, size);
    return put(w, bytes, size);
}

static psr_err align(writer *w)
{
    static const uint8_t zeroes[PSR_PACK_ALIGNMENT];
    return put_indexed(w, zeroes, pack_aligned(w->at) - w->at);
}

/* Zero if pictures differ. */
static void common_size(const writer *w, int s, uint32_t *ret_height, uint32_t *ret_width)
{
    const pack_entry *first = &w->entries[0][0];
    for (uint32_t i = 0; i < w->sources[s]->count; i++) {
        if (w->entries[s][i].height != first->height || w->entries[s][i].width != first->width) {
            *ret_height = *ret_width = 0;
            return;
        }
    }
}

/* Pixels that were in memory keep the content that the plain files have, so that workers with
 * either can train together. All others have the hash of what is stored. */
static void set_content(const writer *w, int s, char content[PSR_CONTENT_DIGITS])
{
    const psr_picture_source *source = w->sources[s];
    char text[PSR_DIGEST_BYTES];
    bool same = !w->options->decoded || source->kind->stored == NULL;
    if (same && psr_content_begins(source->content)) {
        memcpy(content, source->content, PSR_CONTENT_DIGITS);
        return;
    }
    XXH3_state_t hash;
    const uint32_t shape[] = {source->count, source->channels};
    XXH3_INITSTATE(&hash);
    XXH3_128bits_reset(&hash);
    XXH3_128bits_update(&hash, "pack 1", sizeof "pack 1");
    XXH3_128bits_update(&hash, shape, sizeof shape);
    XXH3_128bits_update(&hash, source->labels, source->count * sizeof *source->labels);
    for (uint32_t i = 0; i < source->count; i++) {
        pack_entry entry = w->entries[s][i];
        entry.offset = 0;
        XXH3_128bits_update(&hash, &entry, sizeof entry);
    }
    psr_digest_print(&hash, text);
    memcpy(content, text, PSR_CONTENT_DIGITS);
}

static psr_err put_split(writer *w, int s)
{
    const psr_picture_source *source = w->sources[s];
    pack_split *split = &w->head.split[s];
    *split = (pack_split){
        .count = source->count,
        .channels = source->channels,
        .classes = source->classes,
        .origin = w->options->mean != NULL ? PSR_CONSTANTS_COMPUTED : source->origin,
    };
    const float *mean = w->options->mean != NULL ? w->options->mean : w->sources[0]->mean;
    const float *deviation =
        w->options->deviation != NULL ? w->options->deviation : w->sources[0]->deviation;
    memcpy(split->mean, mean, sizeof split->mean);
    memcpy(split->deviation, deviation, sizeof split->deviation);
    set_content(w, s, split->content);
    split->labels_offset = w->at;
    PSR_TRY(put_indexed(w, source->labels, source->count * sizeof *source->labels));
    PSR_TRY(align(w));
    split->entries_offset = w->at;
    PSR_TRY(put_indexed(w, w->entries[s], source->count * sizeof *w->entries[s]));
    return align(w);
}

static psr_err put_names(writer *w)
{
    const psr_picture_source *train = w->sources[0], *test = w->sources[1];
    const psr_picture_source *most = test->classes > train->classes ? test : train;
    w->head.names_offset = w->at;
    if (most->class_names == NULL)
        return PSR_OK;
    w->head.names_count = most->classes;
    for (uint32_t i = 0; i < most->classes; i++)
        PSR_TRY(put_indexed(w, most->class_names[i], strlen(most->class_names[i]) + 1));
    w->head.names_bytes = (uint32_t)(w->at - w->head.names_offset);
    return PSR_OK;
}

static psr_err put_index(writer *w)
{
    static const uint8_t zeroes[PSR_PACK_ALIGNMENT];
    PSR_TRY(put(w, zeroes, pack_aligned(w->at) - w->at));
    w->head.index_offset = w->at;
    XXH3_INITSTATE(&w->index);
    XXH3_64bits_reset(&w->index);
    for (int s = 0; s < 2; s++)
        PSR_TRY(put_split(w, s));
    uint32_t height = w->entries[0][0].height, width = w->entries[0][0].width;
    for (int s = 0; s < 2 && height != 0; s++)
        common_size(w, s, &height, &width);
    for (int s = 0; s < 2; s++) {
        w->head.split[s].height = height;
        w->head.split[s].width = width;
    }
    PSR_TRY(put_names(w));
    w->head.index_checksum = XXH3_64bits_digest(&w->index);
    return PSR_OK;
}

static psr_err put_head(writer *w)
{
    pack_head *head = &w->head;
    memcpy(head->magic, PSR_PACK_MAGIC, sizeof PSR_PACK_MAGIC);
    head->version = PSR_PACK_VERSION;
    head->head_bytes = PSR_PACK_HEAD_BYTES;
    head->file_bytes = w->at;
    snprintf(head->name, sizeof head->name, "%s", w->options->name);
    head->checksum = XXH3_64bits(head, offsetof(pack_head, checksum));
    if (fseeko(w->file, 0, SEEK_SET) != 0 || fwrite(head, sizeof *head, 1, w->file) != 1)
        return fail_write(w);
    return PSR_OK;
}

/* ---- the file ---- */

static psr_err write_file(writer *w)
{
    static const uint8_t no_head[PSR_PACK_HEAD_BYTES];
    PSR_TRY(put(w, no_head, sizeof no_head));
    for (int s = 0; s < 2; s++)
        PSR_TRY(put_records(w, s));
    PSR_TRY(put_index(w));
    PSR_TRY(put_head(w));
    if (fflush(w->file) != 0 || fsync(fileno(w->file)) != 0)
        return fail_write(w);
    return PSR_OK;
}

static psr_err open_beside(writer *w)
{
    int length = snprintf(w->beside, sizeof w->beside, "%s.part-%ld", w->path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof w->beside)
        return psr_fail(PSR_ERR_USAGE, "%s: too long a path", w->path);
    int fd = open(w->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", w->beside, strerror(errno));
    w->file = fdopen(fd, "wb");
    if (w->file == NULL) {
        close(fd);
        (void)unlink(w->beside);
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to write it", w->path);
    }
    return PSR_OK;
}

/* The folder of path, to be flushed. */
static psr_err sync_folder(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    return psr_dir_sync(slash != NULL ? folder : ".");
}

static psr_err close_beside(writer *w, psr_err err)
{
    if (fclose(w->file) != 0 && err == PSR_OK)
        err = fail_write(w);
    if (err == PSR_OK && rename(w->beside, w->path) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be renamed: %s", w->path, strerror(errno));
    if (err != PSR_OK) {
        (void)unlink(w->beside);
        return err;
    }
    return sync_folder(w->path);
}

static psr_err check_sources(const psr_picture_source *const sources[2])
{
    if (sources[0]->channels != sources[1]->channels)
        return psr_fail(PSR_ERR_USAGE,
                        "the train split has %" PRIu32 " channels and the test split %" PRIu32
                        ", should have the same",
                        sources[0]->channels, sources[1]->channels);
    if (sources[0]->count == 0 || sources[1]->count == 0)
        return psr_fail(PSR_ERR_USAGE, "a split without pictures");
    return PSR_OK;
}

psr_err psr_pack_write(const char *path, const psr_picture_source *const sources[2],
                       const psr_pack_options *options, psr_pack_written *ret_written)
{
    PSR_TRY(check_sources(sources));
    writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to write it", path);
    w->options = options;
    w->sources = sources;
    w->path = path;
    psr_err err = PSR_OK;
    for (int s = 0; s < 2; s++) {
        w->entries[s] = calloc(sources[s]->count, sizeof *w->entries[s]);
        if (w->entries[s] == NULL)
            err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for its index", path);
    }
    if (err == PSR_OK)
        err = open_beside(w);
    if (err == PSR_OK)
        err = close_beside(w, write_file(w));
    if (err == PSR_OK) {
        psr_pack_written written = {.bytes = w->at};
        memcpy(written.content.train, w->head.split[0].content, PSR_CONTENT_DIGITS);
        memcpy(written.content.test, w->head.split[1].content, PSR_CONTENT_DIGITS);
        *ret_written = written;
    }
    for (int s = 0; s < 2; s++)
        free(w->entries[s]);
    psr_scratch_done(&w->scratch);
    free(w);
    return err;
}
