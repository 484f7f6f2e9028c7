/* For tests of data/: a temporary directory, files in it (plain, gzip, xz), and a small data set in
 * them. */
#ifndef PSR_TESTS_DATA_FILES_H
#define PSR_TESTS_DATA_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct bytes {
    uint8_t *at;
    size_t size;
} bytes;

static inline void bytes_append(bytes *to, const void *from, size_t size)
{
    to->at = realloc(to->at, to->size + size + 1);
    assert_non_null(to->at);
    memcpy(to->at + to->size, from, size);
    to->size += size;
}

static inline void bytes_append_u32(bytes *to, uint32_t value)
{
    uint8_t big_endian[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                             (uint8_t)value};
    bytes_append(to, big_endian, 4);
}

static inline void bytes_done(bytes *b)
{
    free(b->at);
    *b = (bytes){0};
}

static inline bytes pack_gzip(bytes plain)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    bytes packed = {.size = deflateBound(&stream, plain.size)};
    packed.at = malloc(packed.size);
    assert_non_null(packed.at);
    stream.next_in = plain.at;
    stream.avail_in = (uInt)plain.size;
    stream.next_out = packed.at;
    stream.avail_out = (uInt)packed.size;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.size -= stream.avail_out;
    deflateEnd(&stream);
    return packed;
}

static inline bytes pack_xz(bytes plain)
{
    size_t size = 0;
    bytes packed = {.size = lzma_stream_buffer_bound(plain.size)};
    packed.at = malloc(packed.size);
    assert_non_null(packed.at);
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, plain.at, plain.size,
                                             packed.at, &size, packed.size),
                     LZMA_OK);
    packed.size = size;
    return packed;
}

/* A cmocka setup and teardown: *state is the path of an empty directory, removed with its files. */
static inline int directory_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *path = NULL;
    if (asprintf(&path, "%s/psring-test-XXXXXX", parent != NULL ? parent : "/tmp") < 0 ||
        mkdtemp(path) == NULL)
        return -1;
    *state = path;
    return 0;
}

static inline int directory_teardown(void **state)
{
    DIR *directory = opendir(*state);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    int code = rmdir(*state);
    free(*state);
    return code;
}

static inline void write_file(const char *directory, const char *name, bytes content)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (content.size > 0)
        assert_int_equal(fwrite(content.at, 1, content.size, file), content.size);
    assert_int_equal(fclose(file), 0);
}

/* A file of zero bytes that takes no room on the disk. */
static inline void write_sparse(const char *directory, const char *name, size_t size)
{
    write_file(directory, name, (bytes){0});
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(truncate(path, (off_t)size), 0);
}

static inline void write_at(const char *directory, const char *name, long at, uint8_t value)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(value, file), value);
    assert_int_equal(fclose(file), 0);
}

static inline void remove_file(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(unlink(path), 0);
}

/* Pixel k of image i is (31 i + 7 k + 3) mod 256, label i mod 10. */
static inline bytes idx_images(uint32_t count, uint32_t height, uint32_t width)
{
    bytes file = {0};
    bytes_append_u32(&file, 0x803);
    bytes_append_u32(&file, count);
    bytes_append_u32(&file, height);
    bytes_append_u32(&file, width);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < height * width; k++)
            bytes_append(&file, &(uint8_t){(uint8_t)(31 * i + 7 * k + 3)}, 1);
    return file;
}

static inline bytes idx_labels(uint32_t count)
{
    bytes file = {0};
    bytes_append_u32(&file, 0x801);
    bytes_append_u32(&file, count);
    for (uint32_t i = 0; i < count; i++)
        bytes_append(&file, &(uint8_t){(uint8_t)(i % 10)}, 1);
    return file;
}

#endif
