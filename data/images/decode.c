#include "data/images/decode.h"

#include "data/images/jpeg.h"
#include "data/images/png_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct psr_image_decoder {
    psr_pixel_memory decoded; /* as stored */
    psr_pixel_memory upright; /* of a picture that is turned or mirrored */
};

psr_err psr_pixel_memory_reserve(psr_pixel_memory *memory, const char *name, size_t size)
{
    if (size <= memory->size)
        return PSR_OK;
    free(memory->bytes);
    *memory = (psr_pixel_memory){.bytes = malloc(size)};
    if (memory->bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory for %zu bytes of pixels", name, size);
    memory->size = size;
    return PSR_OK;
}

psr_err psr_image_header_check(const psr_image_header *header, const char *name)
{
    if (header->height - 1 >= PSR_IMAGE_MAX_SIDE || header->width - 1 >= PSR_IMAGE_MAX_SIDE)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: a picture of %" PRIu32 "x%" PRIu32 " pixels, sides should be 1..%u",
                        name, header->width, header->height, PSR_IMAGE_MAX_SIDE);
    if ((uint64_t)header->height * header->width > PSR_IMAGE_MAX_PIXELS)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: a picture of %" PRIu32 "x%" PRIu32
                        " pixels, should have at most %u in all",
                        name, header->width, header->height, PSR_IMAGE_MAX_PIXELS);
    return PSR_OK;
}

psr_err psr_image_decoder_new(psr_image_decoder **ret_decoder)
{
    psr_image_decoder *decoder = calloc(1, sizeof *decoder);
    if (decoder == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a decoder of pictures");
    *ret_decoder = decoder;
    return PSR_OK;
}

void psr_image_decoder_free(psr_image_decoder *decoder)
{
    if (decoder == NULL)
        return;
    free(decoder->decoded.bytes);
    free(decoder->upright.bytes);
    free(decoder);
}

/* ---- formats: by their first bytes, since names lie (ImageNet has a PNG named .JPEG) ---- */

static bool is_jpeg(const uint8_t *bytes, size_t size)
{
    return size >= 3 && memcmp(bytes, "\xFF\xD8\xFF", 3) == 0;
}

static bool is_png(const uint8_t *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1A\n", 8) == 0;
}

static psr_err read_any_header(const char *name, const uint8_t *bytes, size_t size,
                               psr_image_header *ret_header)
{
    if (is_jpeg(bytes, size))
        return psr_jpeg_measure(name, bytes, size, ret_header);
    if (is_png(bytes, size))
        return psr_png_measure(name, bytes, size, ret_header);
    return psr_fail(PSR_ERR_FORMAT, "%s: %s, should be a JPEG or PNG picture", name,
                    size == 0 ? "an empty file" : "not a picture that psring knows");
}

/* ---- orientation ----
 * With the stored picture S of H rows and W columns, pixel (y, x) of the upright one is S(r, c):
 * (r, c) = (x, y) when transposed, else (y, x); then r = H - 1 - r when rows are turned over, and
 * c = W - 1 - c when columns are. (Exif 2.3, section 4.6.4, Orientation; PIL's exif_transpose.) */

typedef struct turn {
    bool transposed, rows, columns;
} turn;

static turn turn_of(uint32_t orientation)
{
    static const turn turns[9] = {
        [2] = {false, false, true}, [3] = {false, true, true}, [4] = {false, true, false},
        [5] = {true, false, false}, [6] = {true, true, false}, [7] = {true, true, true},
        [8] = {true, false, true},
    };
    return turns[orientation];
}

static psr_image_size upright_size(const psr_image_header *header)
{
    bool transposed = turn_of(header->orientation).transposed;
    return (psr_image_size){
        .height = transposed ? header->width : header->height,
        .width = transposed ? header->height : header->width,
    };
}

/* A part, in pixels of the stored picture. */
static psr_image_box stored_box(const psr_picture_part *part, const psr_image_header *header)
{
    turn t = turn_of(header->orientation);
    psr_image_box box = {part->top, part->top + part->height, part->left, part->left + part->width};
    if (t.transposed)
        box = (psr_image_box){box.left, box.right, box.top, box.bottom};
    if (t.rows) {
        uint32_t top = box.top;
        box.top = header->height - box.bottom;
        box.bottom = header->height - top;
    }
    if (t.columns) {
        uint32_t left = box.left;
        box.left = header->width - box.right;
        box.right = header->width - left;
    }
    return box;
}

static psr_err make_upright(psr_pixel_memory *memory, const char *name, uint32_t orientation,
                            psr_picture *picture)
{
    if (orientation == 1)
        return PSR_OK;
    turn t = turn_of(orientation);
    uint32_t height = t.transposed ? picture->width : picture->height;
    uint32_t width = t.transposed ? picture->height : picture->width;
    PSR_TRY(psr_pixel_memory_reserve(memory, name, (size_t)height * width * 3));
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *to = memory->bytes + (size_t)y * width * 3;
        for (uint32_t x = 0; x < width; x++, to += 3) {
            uint32_t r = t.transposed ? x : y, c = t.transposed ? y : x;
            r = t.rows ? picture->height - 1 - r : r;
            c = t.columns ? picture->width - 1 - c : c;
            memcpy(to, picture->pixels + r * picture->row + (size_t)c * 3, 3);
        }
    }
    *picture = (psr_picture){
        .pixels = memory->bytes,
        .channels = 3,
        .height = height,
        .width = width,
        .plane = 1,
        .row = (size_t)width * 3,
        .step = 3,
    };
    return PSR_OK;
}

/* ---- scale ---- */

/* side * eighths / 8, to the nearest. */
static uint32_t scaled(uint32_t side, uint32_t eighths)
{
    return (side * eighths + 4) / 8;
}

/* A box of at least one pixel inside the picture at eighths/8, which has ceil(side * eighths / 8)
 * rows and columns. */
static psr_image_box scaled_box(const psr_image_box *box, uint32_t eighths)
{
    psr_image_box s = {scaled(box->top, eighths), scaled(box->bottom, eighths),
                       scaled(box->left, eighths), scaled(box->right, eighths)};
    if (s.bottom == s.top)
        s.top = box->top * eighths / 8, s.bottom = s.top + 1;
    if (s.right == s.left)
        s.left = box->left * eighths / 8, s.right = s.left + 1;
    return s;
}

/* The smallest scale at which the part still covers the wanted size: an eighth, a quarter, a half
 * or the whole. libjpeg-turbo has vector code for these alone; at 5/8 it takes longer than for the
 * whole picture. */
static uint32_t choose_eighths(const psr_image_box *box, const psr_picture_part *part,
                               bool transposed)
{
    if (part->to_height == 0 || part->to_width == 0)
        return 8;
    uint32_t height = transposed ? part->to_width : part->to_height;
    uint32_t width = transposed ? part->to_height : part->to_width;
    for (uint32_t eighths = 1; eighths < 8; eighths *= 2) {
        psr_image_box s = scaled_box(box, eighths);
        if (s.bottom - s.top >= height && s.right - s.left >= width)
            return eighths;
    }
    return 8;
}

/* ---- the three calls ---- */

psr_err psr_image_measure(const char *name, const uint8_t *bytes, size_t size,
                          psr_image_size *ret_size)
{
    psr_image_header header;
    PSR_TRY(read_any_header(name, bytes, size, &header));
    *ret_size = upright_size(&header);
    return PSR_OK;
}

psr_err psr_image_decode(psr_image_decoder *decoder, const char *name, const uint8_t *bytes,
                         size_t size, const psr_picture_part *part, psr_picture *ret_picture)
{
    psr_image_header header;
    psr_picture picture;
    PSR_TRY(read_any_header(name, bytes, size, &header));
    psr_image_size all = upright_size(&header);
    psr_picture_part whole = {.height = all.height, .width = all.width};
    if (part == NULL)
        part = &whole;
    if (part->height - 1 >= all.height || part->top > all.height - part->height ||
        part->width - 1 >= all.width || part->left > all.width - part->width)
        return psr_fail(PSR_ERR_USAGE,
                        "%s: rows %" PRIu32 " +%" PRIu32 " and columns %" PRIu32 " +%" PRIu32
                        " of a picture of %" PRIu32 "x%" PRIu32,
                        name, part->top, part->height, part->left, part->width, all.width,
                        all.height);
    psr_image_box box = stored_box(part, &header);
    if (is_jpeg(bytes, size)) {
        uint32_t eighths = choose_eighths(&box, part, turn_of(header.orientation).transposed);
        box = scaled_box(&box, eighths);
        PSR_TRY(psr_jpeg_decode(name, bytes, size, eighths, &box, &decoder->decoded, &picture));
    } else {
        PSR_TRY(psr_png_decode(name, bytes, size, &box, false, &decoder->decoded, &picture));
    }
    PSR_TRY(make_upright(&decoder->upright, name, header.orientation, &picture));
    *ret_picture = picture;
    return PSR_OK;
}

psr_err psr_image_check(psr_image_decoder *decoder, const char *name, const uint8_t *bytes,
                        size_t size, psr_image_size *ret_size)
{
    psr_image_header header;
    psr_picture picture;
    PSR_TRY(read_any_header(name, bytes, size, &header));
    psr_image_box box = {0, header.height, 0, header.width};
    if (is_jpeg(bytes, size)) {
        box = (psr_image_box){0, (header.height + 7) / 8, 0, (header.width + 7) / 8};
        PSR_TRY(psr_jpeg_decode(name, bytes, size, 1, &box, &decoder->decoded, &picture));
    } else {
        PSR_TRY(psr_png_decode(name, bytes, size, &box, true, &decoder->decoded, &picture));
    }
    *ret_size = upright_size(&header);
    return PSR_OK;
}
