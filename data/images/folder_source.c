#include "data/images/folder_source.h"

#include "base/config/config.h"
#include "base/system/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct folder_source {
    psr_picture_source base;
    psr_picture_set *set; /* a user of it */
    const psr_picture_split *split;
    const char **class_names; /* owned [classes]; the texts are the set's */
} folder_source;

static const folder_source *folder_of(const psr_picture_source *source)
{
    return source->state;
}

/* ---- decoding into a scratch ---- */

static void free_decoder(void *decoder)
{
    psr_image_decoder_free(decoder);
}

psr_err psr_decode_file(const uint8_t *bytes, size_t size, const char *name, uint32_t channels,
                        const psr_picture_part *part, psr_picture_scratch *scratch,
                        psr_picture *ret_picture)
{
    if (channels != 3)
        return psr_fail(PSR_ERR_UNSUPPORTED, "%s: files are decoded to 3 channels, not to %u", name,
                        channels);
    if (scratch->decoder == NULL) {
        psr_image_decoder *decoder = NULL;
        PSR_TRY(psr_image_decoder_new(&decoder));
        scratch->decoder = decoder;
        scratch->decoder_free = free_decoder;
    }
    return psr_image_decode(scratch->decoder, name, bytes, size, part, ret_picture);
}

/* ---- what a source does ---- */

static psr_err read_file(const folder_source *f, uint32_t i, psr_picture_scratch *scratch,
                         char path[PSR_PATH_MAX], const uint8_t **ret_bytes, size_t *ret_size)
{
    int fd = -1;
    uint64_t size = 0;
    uint8_t *bytes = NULL;
    PSR_TRY(psr_picture_list_path(&f->split->list, i, path, PSR_PATH_MAX));
    PSR_TRY(psr_file_open(path, &fd, &size));
    psr_err err = PSR_OK;
    if (size > PSR_IMAGE_MAX_FILE_BYTES)
        err = psr_fail(PSR_ERR_FORMAT, "%s: a file of more than %zu bytes", path,
                       PSR_IMAGE_MAX_FILE_BYTES);
    if (err == PSR_OK)
        err = psr_scratch_stored(scratch, size > 0 ? size : 1, &bytes);
    if (err == PSR_OK)
        err = psr_file_read_at(fd, path, bytes, size, 0);
    close(fd);
    if (err != PSR_OK)
        return err;
    *ret_bytes = bytes;
    *ret_size = size;
    return PSR_OK;
}

static psr_err give_picture(const psr_picture_source *source, uint32_t i,
                            const psr_picture_part *part, psr_picture_scratch *scratch,
                            psr_picture *ret_picture)
{
    const folder_source *f = folder_of(source);
    char path[PSR_PATH_MAX];
    const uint8_t *bytes = NULL;
    size_t size = 0;
    PSR_TRY(read_file(f, i, scratch, path, &bytes, &size));
    return psr_decode_file(bytes, size, path, source->channels, part, scratch, ret_picture);
}

static psr_err give_size(const psr_picture_source *source, uint32_t i, psr_picture_scratch *scratch,
                         uint32_t *ret_height, uint32_t *ret_width)
{
    (void)scratch;
    const psr_image_size *size = &folder_of(source)->split->sizes[i];
    *ret_height = size->height;
    *ret_width = size->width;
    return PSR_OK;
}

static psr_err give_stored(const psr_picture_source *source, uint32_t i,
                           psr_picture_scratch *scratch, psr_stored *ret_stored)
{
    const folder_source *f = folder_of(source);
    char path[PSR_PATH_MAX];
    psr_stored stored = {
        .channels = 3,
        .height = f->split->sizes[i].height,
        .width = f->split->sizes[i].width,
    };
    PSR_TRY(read_file(f, i, scratch, path, &stored.bytes, &stored.size));
    stored.form = stored.size > 0 && stored.bytes[0] == 0xFF ? PSR_STORED_JPEG : PSR_STORED_PNG;
    *ret_stored = stored;
    return PSR_OK;
}

static void give_name(const psr_picture_source *source, uint32_t i, char *name, size_t size)
{
    snprintf(name, size, "%s", psr_names_get(&folder_of(source)->split->list.paths, i));
}

/* The system reads the file while the picture before it is decoded. */
static void prefetch(const psr_picture_source *source, uint32_t i)
{
    char path[PSR_PATH_MAX];
    if (psr_picture_list_path(&folder_of(source)->split->list, i, path, sizeof path) != PSR_OK)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    close(fd);
}

static void free_source(psr_picture_source *source)
{
    folder_source *f = source->state;
    psr_picture_set_free(f->set);
    free(f->class_names);
    free(f);
}

static const psr_picture_source_kind folder_kind = {
    .name = "folder",
    .picture = give_picture,
    .size = give_size,
    .stored = give_stored,
    .name_of = give_name,
    .prefetch = prefetch,
    .free = free_source,
};

psr_err psr_folder_source_new(psr_picture_set *set, bool test, psr_picture_source **ret_source)
{
    const psr_picture_split *split = psr_picture_set_split(set, test);
    uint32_t classes = split->list.classes.count;
    folder_source *f = calloc(1, sizeof *f);
    const char **class_names = calloc((size_t)classes + 1, sizeof *class_names);
    if (f == NULL || class_names == NULL) {
        free(f);
        free(class_names);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a source of pictures");
    }
    for (uint32_t c = 0; c < classes; c++)
        class_names[c] = psr_names_get(&split->list.classes, c);
    *f = (folder_source){
        .base = {.kind = &folder_kind,
                 .count = split->list.paths.count,
                 .classes = classes,
                 .channels = 3,
                 .labels = split->list.labels,
                 .class_names = class_names,
                 .mean = PSR_IMAGENET_MEAN,
                 .deviation = PSR_IMAGENET_DEVIATION,
                 .origin = PSR_CONSTANTS_IMAGENET,
                 .state = f},
        .set = psr_picture_set_hold(set),
        .split = split,
        .class_names = class_names,
    };
    memcpy(f->base.content, split->content, sizeof f->base.content);
    *ret_source = &f->base;
    return PSR_OK;
}

const psr_picture_set *psr_folder_source_set(const psr_picture_source *source)
{
    return source->kind == &folder_kind ? folder_of(source)->set : NULL;
}
