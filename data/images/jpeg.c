#include "data/images/jpeg.h"

#include "data/images/exif.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

/* A progressive file may send any number of scans, each of which costs a pass over all
 * coefficients. Encoders write about ten. */
#define MAX_SCANS 100

static const char exif_magic[6] = "Exif\0";

/* One file that is being read. libjpeg knows it by the structs that it holds. */
typedef struct job {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape; /* where errors go, with err set */
    psr_err err;
    const char *name;
    const uint8_t *bytes;
    size_t size;
    /* Of a decode. */
    uint32_t eighths;
    psr_image_box box;
    psr_pixel_memory *memory;
    psr_image_header header;
    psr_picture picture;
} job;

/* ---- what libjpeg calls ---- */

static void escape(job *j, psr_err err) __attribute__((noreturn));
static void escape(job *j, psr_err err)
{
    j->err = err;
    longjmp(j->escape, 1);
}

static void on_error(j_common_ptr info)
{
    job *j = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    escape(j, psr_fail(PSR_ERR_FORMAT, "%s: broken JPEG: %s", j->name, text));
}

/* Warnings tell of a file that breaks a rule and can be decoded all the same: Pillow and
 * torchvision decode it too. */
static void on_message(j_common_ptr info, int level)
{
    (void)info;
    (void)level;
}

static void on_scan(j_common_ptr info)
{
    job *j = info->client_data;
    if (j->info.input_scan_number > MAX_SCANS)
        escape(j, psr_fail(PSR_ERR_FORMAT, "%s: a JPEG of more than %d scans", j->name, MAX_SCANS));
}

static void nothing(j_decompress_ptr info)
{
    (void)info;
}

/* All bytes were there at the start. libjpeg's own source would go on with grey here. */
static boolean on_end(j_decompress_ptr info)
{
    job *j = info->client_data;
    escape(j, psr_fail(PSR_ERR_FORMAT, "%s: truncated JPEG: it ends after %zu bytes", j->name,
                       j->size));
    return FALSE;
}

static void skip(j_decompress_ptr info, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > info->src->bytes_in_buffer)
        on_end(info);
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= (size_t)count;
}

/* ---- steps; each may escape ---- */

static uint32_t orientation(const job *j)
{
    for (jpeg_saved_marker_ptr m = j->info.marker_list; m != NULL; m = m->next) {
        if (m->data_length > sizeof exif_magic &&
            memcmp(m->data, exif_magic, sizeof exif_magic) == 0)
            return psr_exif_orientation(m->data + sizeof exif_magic,
                                        m->data_length - sizeof exif_magic);
    }
    return 1;
}

static void read_header(job *j)
{
    jpeg_create_decompress(&j->info);
    j->info.client_data = j;
    j->source = (struct jpeg_source_mgr){
        .next_input_byte = j->bytes,
        .bytes_in_buffer = j->size,
        .init_source = nothing,
        .fill_input_buffer = on_end,
        .skip_input_data = skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = nothing,
    };
    j->info.src = &j->source;
    j->progress.progress_monitor = on_scan;
    j->info.progress = &j->progress;
    jpeg_save_markers(&j->info, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&j->info, TRUE);
    j->header = (psr_image_header){
        .height = j->info.image_height,
        .width = j->info.image_width,
        .orientation = orientation(j),
    };
    psr_err err = psr_image_header_check(&j->header, j->name);
    if (err != PSR_OK)
        escape(j, err);
    if (j->info.data_precision != 8)
        escape(j, psr_fail(PSR_ERR_UNSUPPORTED, "%s: a JPEG of %d bits, should be of 8", j->name,
                           j->info.data_precision));
    if (j->info.num_components != 1 && j->info.num_components != 3 && j->info.num_components != 4)
        escape(j, psr_fail(PSR_ERR_UNSUPPORTED, "%s: a JPEG of %d channels, should be 1, 3 or 4",
                           j->name, j->info.num_components));
}

/* a b / 255, rounded, as Pillow has it. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* row: width pixels of inverted c, m, y, k; becomes r, g, b in place. */
static void cmyk_to_rgb(uint8_t *row, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *from = row + (size_t)4 * x;
        uint32_t k = from[3];
        for (uint32_t c = 0; c < 3; c++)
            row[(size_t)3 * x + c] = (uint8_t)(k - times(255u - from[c], k));
    }
}

/* Limits the columns that are decoded to those of the box, and one block more on each side: at an
 * edge libjpeg's smooth upsampling has other neighbours. Returns the first column. */
static uint32_t crop_columns(job *j)
{
    JDIMENSION block = (JDIMENSION)(j->info.max_h_samp_factor * 8) * j->eighths / 8;
    JDIMENSION left = j->box.left > block ? j->box.left - block : 0;
    JDIMENSION right = j->box.right + block;
    if (right > j->info.output_width)
        right = j->info.output_width;
    JDIMENSION width = right - left;
    if (width >= j->info.output_width)
        return 0;
    jpeg_crop_scanline(&j->info, &left, &width);
    return left;
}

/* Rows above the box that are decoded and not used, for the same reason: two of the largest
 * blocks. */
static void skip_rows(job *j)
{
    JDIMENSION margin = (JDIMENSION)(2 * j->info.max_v_samp_factor) * j->eighths;
    if (j->box.top > margin)
        jpeg_skip_scanlines(&j->info, j->box.top - margin);
}

static void read_pixels(job *j)
{
    struct jpeg_decompress_struct *info = &j->info;
    read_header(j);
    info->scale_num = j->eighths;
    info->scale_denom = 8;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    info->out_color_space = info->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(info);
    uint32_t first_column = crop_columns(j);
    size_t row_bytes = (size_t)info->output_width * (size_t)info->output_components;
    uint32_t height = j->box.bottom - j->box.top;
    psr_err err = psr_pixel_memory_reserve(j->memory, j->name, row_bytes * height);
    if (err != PSR_OK)
        escape(j, err);
    skip_rows(j);
    while (info->output_scanline < j->box.bottom) {
        uint32_t y = info->output_scanline < j->box.top ? 0 : info->output_scanline - j->box.top;
        uint8_t *row = j->memory->bytes + y * row_bytes;
        jpeg_read_scanlines(info, &row, 1);
        if (info->num_components == 4 && info->output_scanline > j->box.top)
            cmyk_to_rgb(row, info->output_width);
    }
    j->picture = (psr_picture){
        .pixels = j->memory->bytes + (size_t)(j->box.left - first_column) * 3,
        .channels = 3,
        .height = height,
        .width = j->box.right - j->box.left,
        .plane = 1,
        .row = row_bytes,
        .step = 3,
    };
}

static psr_err run(job *j, void (*step)(job *))
{
    j->info.err = jpeg_std_error(&j->errors);
    j->info.client_data = j;
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    if (setjmp(j->escape) == 0)
        step(j);
    jpeg_destroy_decompress(&j->info);
    return j->err;
}

psr_err psr_jpeg_measure(const char *name, const uint8_t *bytes, size_t size,
                         psr_image_header *ret_header)
{
    job j = {.name = name, .bytes = bytes, .size = size};
    PSR_TRY(run(&j, read_header));
    *ret_header = j.header;
    return PSR_OK;
}

psr_err psr_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, uint32_t eighths,
                        const psr_image_box *box, psr_pixel_memory *memory,
                        psr_picture *ret_picture)
{
    job j = {
        .name = name,
        .bytes = bytes,
        .size = size,
        .eighths = eighths,
        .box = *box,
        .memory = memory,
    };
    PSR_TRY(run(&j, read_pixels));
    *ret_picture = j.picture;
    return PSR_OK;
}
