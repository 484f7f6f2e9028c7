/* Files of pictures that tests make with libjpeg and libpng themselves. */
#ifndef PSR_TESTS_MADE_PICTURES_H
#define PSR_TESTS_MADE_PICTURES_H

#include "tests/unit/expect.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

typedef struct made {
    uint8_t *bytes; /* owned: free() */
    size_t size;
} made;

/* A picture with much detail: channel c of pixel (y, x). */
static inline uint8_t detail(uint32_t y, uint32_t x, uint32_t c)
{
    uint32_t wave = 40 * (1 + c) + 3 * y + 5 * x * (c + 1);
    return (uint8_t)((y / 3 + x / 5) % 2 == 0 ? wave % 256 : 255 - wave % 200);
}

/* An EXIF block with one entry, the orientation. */
static inline void put_exif(uint8_t block[26], uint8_t orientation)
{
    static const uint8_t start[26] = {'M', 'M',  0, '*', 0, 0, 0, 8, 0, 1, /* one entry: */
                                      1,   0x12, 0, 3,   0, 0, 0, 1, 0, 0};
    memcpy(block, start, sizeof start);
    block[19] = orientation;
}

typedef struct jpeg_kind {
    uint32_t height, width;
    int channels;           /* 1, 3; 4: CMYK as Adobe stores it */
    int luma;               /* sampling of the first channel: 1 or 2 */
    int quality;            /* 1..100 */
    uint8_t orientation;    /* 0: no EXIF */
    bool progressive, flat; /* flat: every pixel is (10, 60, 200, 128) */
} jpeg_kind;

static inline made make_jpeg(jpeg_kind kind)
{
    struct jpeg_compress_struct info = {0};
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    static const uint8_t flat[4] = {10, 60, 200, 128};
    uint8_t *row = malloc((size_t)kind.width * 4);
    assert_non_null(row);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &bytes, &size);
    info.image_height = kind.height;
    info.image_width = kind.width;
    info.input_components = kind.channels;
    info.in_color_space = kind.channels == 1   ? JCS_GRAYSCALE
                          : kind.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, kind.quality, TRUE);
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = kind.luma;
    if (kind.progressive)
        jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    if (kind.orientation != 0) {
        uint8_t marker[32] = "Exif\0";
        put_exif(marker + 6, kind.orientation);
        jpeg_write_marker(&info, JPEG_APP0 + 1, marker, sizeof marker);
    }
    for (uint32_t y = 0; y < kind.height; y++) {
        for (uint32_t x = 0; x < kind.width; x++)
            for (uint32_t c = 0; c < (uint32_t)kind.channels; c++)
                row[x * (uint32_t)kind.channels + c] = kind.flat ? flat[c] : detail(y, x, c);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    return (made){bytes, size};
}

static inline void append_png(png_structp png, png_bytep from, size_t size)
{
    made *to = png_get_io_ptr(png);
    to->bytes = realloc(to->bytes, to->size + size);
    assert_non_null(to->bytes);
    memcpy(to->bytes + to->size, from, size);
    to->size += size;
}

typedef struct png_kind {
    uint32_t height, width;
    int color, bits; /* PNG_COLOR_TYPE_.. */
    uint8_t orientation;
    bool interlaced;
} png_kind;

/* rows [height, row_bytes], as libpng writes them. */
static inline made make_png(png_kind kind, const uint8_t *rows, size_t row_bytes)
{
    made file = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_set_write_fn(png, &file, append_png, NULL);
    png_set_IHDR(png, info, kind.width, kind.height, kind.bits, kind.color,
                 kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (kind.color == PNG_COLOR_TYPE_PALETTE) {
        const png_color palette[4] = {{1, 2, 3}, {40, 50, 60}, {70, 80, 90}, {255, 0, 128}};
        const png_byte alpha[4] = {0, 128, 255, 7};
        png_set_PLTE(png, info, palette, 4);
        png_set_tRNS(png, info, alpha, 4, NULL);
    }
    if (kind.orientation != 0) {
        uint8_t exif[26];
        put_exif(exif, kind.orientation);
        png_set_eXIf_1(png, info, sizeof exif, exif);
    }
    png_write_info(png, info);
    for (int pass = 0, passes = png_set_interlace_handling(png); pass < passes; pass++)
        for (uint32_t y = 0; y < kind.height; y++)
            png_write_row(png, rows + y * row_bytes);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return file;
}

/* An RGB file of the picture above. */
static inline made make_detailed_png(uint32_t height, uint32_t width, uint8_t orientation,
                                     bool interlaced)
{
    uint8_t *rows = malloc((size_t)height * width * 3);
    assert_non_null(rows);
    for (uint32_t i = 0; i < height * width * 3; i++)
        rows[i] = detail(i / 3 / width, i / 3 % width, i % 3);
    made file = make_png((png_kind){.height = height,
                                    .width = width,
                                    .color = PNG_COLOR_TYPE_RGB,
                                    .bits = 8,
                                    .orientation = orientation,
                                    .interlaced = interlaced},
                         rows, (size_t)width * 3);
    free(rows);
    return file;
}

#endif
