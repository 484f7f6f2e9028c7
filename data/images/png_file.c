#include "data/images/png_file.h"

#include "data/images/exif.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

/* The largest text, profile or the like that libpng may unpack, and how many of them. */
#define MAX_CHUNK_BYTES (8u << 20)
#define MAX_CHUNKS 100u

/* One file that is being read. */
typedef struct job {
    png_structp png;
    png_infop info;
    jmp_buf escape; /* where errors go, with err set */
    psr_err err;
    const char *name;
    const uint8_t *bytes;
    size_t size, at;
    /* Of a decode. */
    psr_image_box box;
    bool whole;
    psr_pixel_memory *memory;
    psr_image_header header;
    psr_picture picture;
} job;

/* ---- what libpng calls ---- */

static void escape(job *j, psr_err err) __attribute__((noreturn));
static void escape(job *j, psr_err err)
{
    j->err = err;
    longjmp(j->escape, 1);
}

static void on_error(png_structp png, png_const_charp text)
{
    job *j = png_get_error_ptr(png);
    escape(j, psr_fail(PSR_ERR_FORMAT, "%s: broken PNG: %s", j->name, text));
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t size)
{
    job *j = png_get_io_ptr(png);
    if (size > j->size - j->at)
        escape(j, psr_fail(PSR_ERR_FORMAT, "%s: truncated PNG: it ends after %zu bytes", j->name,
                           j->size));
    memcpy(to, j->bytes + j->at, size);
    j->at += size;
}

/* ---- steps; each may escape ---- */

static uint32_t orientation(const job *j)
{
    png_uint_32 size = 0;
    png_bytep exif = NULL;
    bool has = png_get_eXIf_1(j->png, j->info, &size, &exif) != 0 && exif != NULL;
    return has ? psr_exif_orientation(exif, size) : 1;
}

static void read_header(job *j)
{
    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    j->info = j->png != NULL ? png_create_info_struct(j->png) : NULL;
    if (j->info == NULL)
        escape(j, psr_fail(PSR_ERR_NOMEM, "%s: no memory for libpng", j->name));
    png_set_user_limits(j->png, PSR_IMAGE_MAX_SIDE, PSR_IMAGE_MAX_SIDE);
    png_set_chunk_malloc_max(j->png, MAX_CHUNK_BYTES);
    png_set_chunk_cache_max(j->png, MAX_CHUNKS);
    png_set_read_fn(j->png, j, on_read);
    png_read_info(j->png, j->info);
    j->header = (psr_image_header){
        .height = png_get_image_height(j->png, j->info),
        .width = png_get_image_width(j->png, j->info),
        .orientation = orientation(j),
    };
    psr_err err = psr_image_header_check(&j->header, j->name);
    if (err != PSR_OK)
        escape(j, err);
}

/* Interlaced rows come in seven passes over the whole picture. */
static void read_rows(job *j, int passes, size_t row_bytes, uint32_t rows)
{
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < rows; y++)
            png_read_row(j->png, j->memory->bytes + y * row_bytes, NULL);
}

static void read_pixels(job *j)
{
    read_header(j);
    png_set_expand(j->png);
    png_set_strip_16(j->png);
    png_set_strip_alpha(j->png);
    png_set_gray_to_rgb(j->png);
    int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    size_t row_bytes = (size_t)j->header.width * 3;
    if (png_get_rowbytes(j->png, j->info) != row_bytes)
        escape(j, psr_fail(PSR_ERR_UNSUPPORTED, "%s: a PNG of an unknown kind", j->name));
    uint32_t rows = passes > 1 || j->whole ? j->header.height : j->box.bottom;
    psr_err err = psr_pixel_memory_reserve(j->memory, j->name, row_bytes * rows);
    if (err != PSR_OK)
        escape(j, err);
    read_rows(j, passes, row_bytes, rows);
    if (j->whole)
        png_read_end(j->png, NULL);
    j->picture = (psr_picture){
        .pixels = j->memory->bytes + j->box.top * row_bytes + (size_t)j->box.left * 3,
        .channels = 3,
        .height = j->box.bottom - j->box.top,
        .width = j->box.right - j->box.left,
        .plane = 1,
        .row = row_bytes,
        .step = 3,
    };
}

static psr_err run(job *j, void (*step)(job *))
{
    if (setjmp(j->escape) == 0)
        step(j);
    png_destroy_read_struct(&j->png, &j->info, NULL);
    return j->err;
}

psr_err psr_png_measure(const char *name, const uint8_t *bytes, size_t size,
                        psr_image_header *ret_header)
{
    job j = {.name = name, .bytes = bytes, .size = size};
    PSR_TRY(run(&j, read_header));
    *ret_header = j.header;
    return PSR_OK;
}

psr_err psr_png_decode(const char *name, const uint8_t *bytes, size_t size,
                       const psr_image_box *box, bool whole, psr_pixel_memory *memory,
                       psr_picture *ret_picture)
{
    job j = {
        .name = name,
        .bytes = bytes,
        .size = size,
        .box = *box,
        .whole = whole,
        .memory = memory,
    };
    PSR_TRY(run(&j, read_pixels));
    *ret_picture = j.picture;
    return PSR_OK;
}
