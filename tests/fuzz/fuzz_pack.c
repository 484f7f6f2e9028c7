/* Byte 0: bit 0: the rest is a pack as it is; else its head's magic, version and size and all
 * checksums are made right first, so that what they cover is looked at. */
#include "data/pack/form.h"
#include "data/pack/pack.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void repair_records(uint8_t *file, size_t size, const pack_head *head)
{
    for (int s = 0; s < 2; s++) {
        uint64_t at = head->split[s].entries_offset;
        for (uint32_t i = 0; i < head->split[s].count; i++, at += sizeof(pack_entry)) {
            pack_entry entry;
            if (at > size || sizeof entry > size - at)
                return;
            memcpy(&entry, file + at, sizeof entry);
            if (entry.offset > size || entry.size > size - entry.offset)
                continue;
            entry.checksum = XXH3_64bits(file + entry.offset, entry.size);
            memcpy(file + at, &entry, sizeof entry);
        }
    }
}

static void repair(uint8_t *file, size_t size)
{
    pack_head head;
    if (size < sizeof head)
        return;
    memcpy(&head, file, sizeof head);
    memcpy(head.magic, PSR_PACK_MAGIC, sizeof PSR_PACK_MAGIC);
    head.version = PSR_PACK_VERSION;
    head.head_bytes = PSR_PACK_HEAD_BYTES;
    head.file_bytes = size;
    repair_records(file, size, &head);
    if (head.index_offset <= size)
        head.index_checksum = XXH3_64bits(file + head.index_offset, size - head.index_offset);
    head.checksum = XXH3_64bits(&head, offsetof(pack_head, checksum));
    memcpy(file, &head, sizeof head);
}

/* Reads what it was given, and calls it one pixel. */
static psr_err decode(const uint8_t *bytes, size_t size, const char *name, uint32_t channels,
                      const psr_picture_part *part, psr_picture_scratch *scratch,
                      psr_picture *ret_picture)
{
    uint8_t *pixels = NULL, sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + bytes[i]);
    PSR_TRY(psr_scratch_bytes(scratch, channels, &pixels));
    memset(pixels, sum, channels);
    (void)name;
    *ret_picture = (psr_picture){.pixels = pixels,
                                 .channels = channels,
                                 .height = 1,
                                 .width = 1,
                                 .plane = 1,
                                 .row = 1,
                                 .step = 1};
    return psr_picture_cut(ret_picture, part);
}

/* Every byte that is given can be read, and every label and name is within its bounds. */
static void look_at(const psr_picture_source *source)
{
    psr_picture_scratch scratch = {0};
    unsigned sum = 0;
    for (uint32_t i = 0; i < source->count; i++) {
        psr_picture picture;
        uint32_t height, width;
        assert(source->labels[i] < source->classes);
        psr_picture_source_prefetch(source, i);
        if (psr_picture_source_size(source, i, &scratch, &height, &width) == PSR_OK)
            assert(height > 0 && width > 0);
        if (psr_picture_source_get(source, i, NULL, &scratch, &picture) != PSR_OK)
            continue;
        for (uint32_t c = 0; c < picture.channels; c++)
            for (uint32_t y = 0; y < picture.height; y++)
                for (uint32_t x = 0; x < picture.width; x++)
                    sum += picture.pixels[c * picture.plane + y * picture.row + x * picture.step];
    }
    for (uint32_t i = 0; source->class_names != NULL && i < source->classes; i++)
        sum += (unsigned)strlen(source->class_names[i]);
    assert(sum <= UINT32_MAX);
    psr_scratch_done(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    psr_pack_info info;
    psr_picture_source *sources[2];
    if (size < 1)
        return 0;
    uint8_t *file = malloc(size);
    assert(file != NULL);
    memcpy(file, bytes + 1, size - 1);
    if ((bytes[0] & 1) == 0)
        repair(file, size - 1);
    int fd = memfd_create("pack", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, file, size - 1) == (ssize_t)size - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (psr_pack_open(path, decode, &info, sources) == PSR_OK) {
        for (int s = 0; s < 2; s++) {
            look_at(sources[s]);
            psr_picture_source_free(sources[s]);
        }
    } else {
        assert(psr_err_detail()[0] != '\0');
    }
    close(fd);
    free(file);
    return 0;
}
