#include "data/augment/policy.h"

#include <math.h>
#include <string.h>

/* ---- draws ---- */

/* Magnitude number bin of an operation, 0..PSR_AUGMENT_MAGNITUDES-1, without its sign. */
static double magnitude_of(psr_operation_kind kind, bool wide, uint32_t bin,
                           psr_picture_shape shape)
{
    const double part = (double)bin / (PSR_AUGMENT_MAGNITUDES - 1);
    switch (kind) {
    case PSR_OPERATION_SHEAR_X:
    case PSR_OPERATION_SHEAR_Y:
        return part * (wide ? 0.99 : 0.3);
    case PSR_OPERATION_TRANSLATE_X:
        return part * (wide ? 32 : 150.0 / 331 * shape.width);
    case PSR_OPERATION_TRANSLATE_Y:
        return part * (wide ? 32 : 150.0 / 331 * shape.height);
    case PSR_OPERATION_ROTATE:
        return part * (wide ? 135 : 30);
    case PSR_OPERATION_BRIGHTNESS:
    case PSR_OPERATION_COLOUR:
    case PSR_OPERATION_CONTRAST:
    case PSR_OPERATION_SHARPNESS:
        return part * (wide ? 0.99 : 0.9);
    case PSR_OPERATION_POSTERIZE:
        return nearbyint(8 - part * (wide ? 6 : 4));
    case PSR_OPERATION_SOLARIZE:
        return 1 - part;
    default:
        return 0;
    }
}

psr_operation psr_draw_operation(const psr_augment_key *key, const psr_augment_step *step,
                                 uint32_t i, psr_picture_shape shape)
{
    enum { ELEMENTS = 4 }; /* an operation's own block */
    const bool wide = step->kind == PSR_STEP_TRIVIAL_AUGMENT;
    psr_draws draws = psr_draws_of(key, step);
    draws.element = (uint64_t)i * ELEMENTS;
    psr_operation operation = {.kind = psr_draw_below(&draws, PSR_OPERATION_KINDS)};
    uint32_t bin = psr_draw_below(&draws, PSR_AUGMENT_MAGNITUDES);
    if (!wide)
        bin = step->as.policy.magnitude;
    double magnitude = magnitude_of(operation.kind, wide, bin, shape);
    const bool is_signed =
        operation.kind >= PSR_OPERATION_SHEAR_X && operation.kind <= PSR_OPERATION_SHARPNESS;
    if (psr_draw_word(&draws) >> 31 != 0 && is_signed)
        magnitude = -magnitude;
    operation.magnitude = (float)magnitude;
    return operation;
}

/* ---- moves ---- */

/* The picture's pixel at (x, y) relative to its middle comes from
 * (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]) of the old one. */
static void move(psr_canvas canvas, const double m[static 6], uint8_t *spare)
{
    const size_t plane = (size_t)canvas.height * canvas.width;
    const double middle_x = (canvas.width - 1) * 0.5, middle_y = (canvas.height - 1) * 0.5;
    memcpy(spare, canvas.pixels, canvas.channels * plane);
    for (uint32_t y = 0; y < canvas.height; y++) {
        for (uint32_t x = 0; x < canvas.width; x++) {
            const double from_middle_x = x - middle_x, from_middle_y = y - middle_y;
            const double old_x =
                nearbyint(m[0] * from_middle_x + m[1] * from_middle_y + m[2] + middle_x);
            const double old_y =
                nearbyint(m[3] * from_middle_x + m[4] * from_middle_y + m[5] + middle_y);
            const bool inside =
                old_x >= 0 && old_x < canvas.width && old_y >= 0 && old_y < canvas.height;
            const size_t old = inside ? (size_t)old_y * canvas.width + (size_t)old_x : 0;
            for (uint32_t c = 0; c < canvas.channels; c++)
                canvas.pixels[c * plane + (size_t)y * canvas.width + x] =
                    inside ? spare[c * plane + old] : 0;
        }
    }
}

/* Shears keep the upper left corner, as torchvision's, whose centre is [0, 0] there. */
static void shear(psr_canvas canvas, psr_operation_kind kind, double by, uint8_t *spare)
{
    if (kind == PSR_OPERATION_SHEAR_X)
        move(canvas, (double[6]){1, by, by * canvas.height * 0.5, 0, 1, 0}, spare);
    else
        move(canvas, (double[6]){1, 0, 0, by, 1, by * canvas.width * 0.5}, spare);
}

static void rotate(psr_canvas canvas, double degrees, uint8_t *spare)
{
    const double angle = degrees * (3.14159265358979323846 / 180);
    const double c = cos(angle), s = sin(angle);
    move(canvas, (double[6]){c, -s, 0, s, c, 0}, spare);
}

/* ---- tables ---- */

static void apply_table(uint8_t *pixels, size_t count, const uint8_t table[static 256])
{
    for (size_t i = 0; i < count; i++)
        pixels[i] = table[pixels[i]];
}

static void posterize(psr_canvas canvas, uint32_t bits)
{
    const uint8_t mask = (uint8_t)(0xff00u >> bits);
    const size_t count = (size_t)canvas.channels * canvas.height * canvas.width;
    for (size_t i = 0; i < count; i++)
        canvas.pixels[i] &= mask;
}

static void solarize(psr_canvas canvas, float from)
{
    const size_t count = (size_t)canvas.channels * canvas.height * canvas.width;
    for (size_t i = 0; i < count; i++)
        if ((float)canvas.pixels[i] >= from)
            canvas.pixels[i] = (uint8_t)(255 - canvas.pixels[i]);
}

/* Each channel's least becomes 0 and its most 255. */
static void auto_contrast(psr_canvas canvas)
{
    const size_t plane = (size_t)canvas.height * canvas.width;
    for (uint32_t c = 0; c < canvas.channels; c++) {
        uint8_t *pixels = canvas.pixels + c * plane, table[256], least = 255, most = 0;
        for (size_t i = 0; i < plane; i++) {
            least = pixels[i] < least ? pixels[i] : least;
            most = pixels[i] > most ? pixels[i] : most;
        }
        if (least >= most)
            continue;
        const float scale = (float)(most - least) * (1.0f / 255.0f);
        for (int u = least; u <= most; u++) {
            const float value = (float)(u - least) / scale;
            table[u] = (uint8_t)(value > 255 ? 255 : value);
        }
        apply_table(pixels, plane, table);
    }
}

/* Each channel's histogram becomes even: with h the counts and step = (pixels - last count that is
 * not 0) / 255, byte u becomes (step / 2 + h[0] + .. + h[u-1]) / step, in whole numbers. */
static void equalize(psr_canvas canvas)
{
    const size_t plane = (size_t)canvas.height * canvas.width;
    for (uint32_t c = 0; c < canvas.channels; c++) {
        uint8_t *pixels = canvas.pixels + c * plane, table[256];
        uint64_t counts[256] = {0}, below = 0;
        for (size_t i = 0; i < plane; i++)
            counts[pixels[i]]++;
        int last = 255;
        while (counts[last] == 0)
            last--;
        const uint64_t step = (plane - counts[last]) / 255;
        if (step == 0)
            continue;
        for (int u = 0; u < 256; u++) {
            const uint64_t value = (step / 2 + below) / step;
            table[u] = (uint8_t)(value > 255 ? 255 : value);
            below += counts[u];
        }
        apply_table(pixels, plane, table);
    }
}

/* Blends with a blurred picture, whose kernel has 5/13 in the middle and 1/13 around; the border
 * stays. */
static void sharpen(psr_canvas canvas, float factor, uint8_t *spare)
{
    const uint32_t width = canvas.width;
    const size_t plane = (size_t)canvas.height * width;
    if (canvas.height <= 2 || width <= 2)
        return;
    memcpy(spare, canvas.pixels, canvas.channels * plane);
    for (uint32_t c = 0; c < canvas.channels; c++) {
        for (uint32_t y = 1; y + 1 < canvas.height; y++) {
            const uint8_t *row = spare + c * plane + (size_t)y * width;
            const uint8_t *above = row - width, *below = row + width;
            uint8_t *out = canvas.pixels + c * plane + (size_t)y * width;
            for (uint32_t x = 1; x + 1 < width; x++) {
                int sum = 4 * row[x];
                for (uint32_t k = x - 1; k <= x + 1; k++)
                    sum += above[k] + row[k] + below[k];
                const float blurred = nearbyintf((float)sum / 13.0f), own = (float)row[x];
                const float value = own + (blurred - own) * (1.0f - factor);
                out[x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
    }
}

void psr_operation_apply(psr_canvas canvas, const psr_operation *operation, uint8_t *spare)
{
    const float magnitude = operation->magnitude;
    switch (operation->kind) {
    case PSR_OPERATION_SHEAR_X:
    case PSR_OPERATION_SHEAR_Y:
        shear(canvas, operation->kind, magnitude, spare);
        break;
    case PSR_OPERATION_TRANSLATE_X:
        move(canvas, (double[6]){1, 0, -trunc(magnitude), 0, 1, 0}, spare);
        break;
    case PSR_OPERATION_TRANSLATE_Y:
        move(canvas, (double[6]){1, 0, 0, 0, 1, -trunc(magnitude)}, spare);
        break;
    case PSR_OPERATION_ROTATE:
        rotate(canvas, magnitude, spare);
        break;
    case PSR_OPERATION_BRIGHTNESS:
        psr_colour_brightness(canvas, 1 + magnitude);
        break;
    case PSR_OPERATION_COLOUR:
        psr_colour_saturation(canvas, 1 + magnitude);
        break;
    case PSR_OPERATION_CONTRAST:
        psr_colour_contrast(canvas, 1 + magnitude);
        break;
    case PSR_OPERATION_SHARPNESS:
        sharpen(canvas, 1 + magnitude, spare);
        break;
    case PSR_OPERATION_POSTERIZE:
        posterize(canvas, (uint32_t)magnitude);
        break;
    case PSR_OPERATION_SOLARIZE:
        solarize(canvas, 255 * magnitude);
        break;
    case PSR_OPERATION_AUTO_CONTRAST:
        auto_contrast(canvas);
        break;
    case PSR_OPERATION_EQUALIZE:
        equalize(canvas);
        break;
    case PSR_OPERATION_IDENTITY:
    case PSR_OPERATION_KINDS:
        break;
    }
}
