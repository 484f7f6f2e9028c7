#include "data/augment/colour.h"

#include <math.h>
#include <stddef.h>

/* Cut to 0..255, the fraction dropped. */
static uint8_t cut(float value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static size_t plane_of(psr_canvas canvas)
{
    return (size_t)canvas.height * canvas.width;
}

/* torchvision's _blend: x ratio + other (1 - ratio). */
static uint8_t blend(uint8_t x, float other, float ratio)
{
    return cut((float)x * ratio + other * (1.0f - ratio));
}

static float grey_of(uint8_t red, uint8_t green, uint8_t blue)
{
    return floorf((float)red * 0.2989f + (float)green * 0.587f + (float)blue * 0.114f);
}

static void apply_table(psr_canvas canvas, const uint8_t table[static 256])
{
    for (size_t i = 0, count = canvas.channels * plane_of(canvas); i < count; i++)
        canvas.pixels[i] = table[canvas.pixels[i]];
}

void psr_colour_brightness(psr_canvas canvas, float factor)
{
    uint8_t table[256];
    for (int u = 0; u < 256; u++)
        table[u] = cut((float)u * factor);
    apply_table(canvas, table);
}

static float mean_grey(psr_canvas canvas)
{
    const size_t plane = plane_of(canvas);
    const uint8_t *red = canvas.pixels, *green = red + plane, *blue = green + plane;
    uint64_t sum = 0;
    for (size_t i = 0; i < plane; i++)
        sum += canvas.channels == 3 ? (uint64_t)grey_of(red[i], green[i], blue[i]) : red[i];
    return (float)((double)sum / (double)plane);
}

void psr_colour_contrast(psr_canvas canvas, float factor)
{
    const float mean = mean_grey(canvas);
    uint8_t table[256];
    for (int u = 0; u < 256; u++)
        table[u] = blend((uint8_t)u, mean, factor);
    apply_table(canvas, table);
}

void psr_colour_saturation(psr_canvas canvas, float factor)
{
    if (canvas.channels != 3)
        return;
    const size_t plane = plane_of(canvas);
    uint8_t *red = canvas.pixels, *green = red + plane, *blue = green + plane;
    for (size_t i = 0; i < plane; i++) {
        const float grey = grey_of(red[i], green[i], blue[i]);
        red[i] = blend(red[i], grey, factor);
        green[i] = blend(green[i], grey, factor);
        blue[i] = blend(blue[i], grey, factor);
    }
}

/* ---- hue ---- */

typedef struct hsv {
    float hue, saturation, value; /* each 0..1 */
} hsv;

static hsv hsv_of(float r, float g, float b)
{
    const float most = fmaxf(r, fmaxf(g, b)), range = most - fminf(r, fminf(g, b));
    if (range == 0)
        return (hsv){0, 0, most};
    const float rc = (most - r) / range, gc = (most - g) / range, bc = (most - b) / range;
    float sixth = most == r ? bc - gc : most == g ? 2 + rc - bc : 4 + gc - rc;
    return (hsv){fmodf(sixth / 6 + 1, 1), range / most, most};
}

/* Bytes as torchvision's to_dtype: times 256 less a little, the fraction dropped. */
static uint8_t byte_of(float unit)
{
    return cut(unit * 255.999f);
}

static void write_rgb(hsv colour, uint8_t *red, uint8_t *green, uint8_t *blue)
{
    const float sixth = floorf(colour.hue * 6), part = colour.hue * 6 - sixth;
    const float v = colour.value, s = colour.saturation;
    const uint8_t bytes[4] = {byte_of(v), byte_of(v * (1 - s)), byte_of(v * (1 - s * part)),
                              byte_of(v * (1 - s * (1 - part)))};
    static const uint8_t select[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3},
                                         {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
    const uint8_t *chosen = select[(unsigned)sixth % 6];
    *red = bytes[chosen[0]];
    *green = bytes[chosen[1]];
    *blue = bytes[chosen[2]];
}

void psr_colour_hue(psr_canvas canvas, float turn)
{
    if (canvas.channels != 3)
        return;
    const size_t plane = plane_of(canvas);
    uint8_t *red = canvas.pixels, *green = red + plane, *blue = green + plane;
    for (size_t i = 0; i < plane; i++) {
        hsv colour = hsv_of((float)red[i] / 255, (float)green[i] / 255, (float)blue[i] / 255);
        colour.hue += turn;
        colour.hue -= floorf(colour.hue);
        write_rgb(colour, &red[i], &green[i], &blue[i]);
    }
}

/* ---- what steps draw ---- */

void psr_colour_add(psr_canvas canvas, const double amount[static 3])
{
    const size_t plane = plane_of(canvas);
    for (uint32_t c = 0; c < canvas.channels; c++) {
        uint8_t table[256];
        for (int u = 0; u < 256; u++)
            table[u] = (uint8_t)nearbyint(fmin(255, fmax(0, u + 255 * amount[c])));
        for (size_t i = c * plane; i < (c + 1) * plane; i++)
            canvas.pixels[i] = table[canvas.pixels[i]];
    }
}

psr_jitter psr_draw_jitter(const psr_augment_key *key, const psr_augment_step *step)
{
    psr_draws draws = psr_draws_of(key, step);
    psr_jitter jitter = {.order = {0, 1, 2, 3}};
    for (uint32_t i = 4; i > 1; i--) {
        uint32_t j = psr_draw_below(&draws, i);
        uint8_t swapped = jitter.order[i - 1];
        jitter.order[i - 1] = jitter.order[j];
        jitter.order[j] = swapped;
    }
    const double hue = step->as.jitter.hue;
    const psr_bounds spans[4] = {step->as.jitter.brightness,
                                 step->as.jitter.contrast,
                                 step->as.jitter.saturation,
                                 {-hue, hue}};
    for (int i = 0; i < 4; i++)
        jitter.factors[i] = (float)psr_draw_in(&draws, spans[i]);
    return jitter;
}

void psr_colour_jitter(psr_canvas canvas, const psr_jitter *jitter)
{
    static void (*const change[4])(psr_canvas, float) = {psr_colour_brightness, psr_colour_contrast,
                                                         psr_colour_saturation, psr_colour_hue};
    static const float same[4] = {1, 1, 1, 0};
    for (int i = 0; i < 4; i++) {
        const uint8_t which = jitter->order[i];
        if (jitter->factors[which] != same[which])
            change[which](canvas, jitter->factors[which]);
    }
}

void psr_draw_lighting(const psr_augment_key *key, const psr_augment_step *step,
                       double ret_amount[static 3])
{
    static const double values[3] = {0.2175, 0.0188, 0.0045};
    static const double vectors[3][3] = {
        {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
    psr_draws draws = psr_draws_of(key, step);
    double along[3];
    for (int k = 0; k < 3; k++)
        along[k] = step->as.deviation * psr_draw_normal(&draws) * values[k];
    for (int c = 0; c < 3; c++) {
        ret_amount[c] = 0;
        for (int k = 0; k < 3; k++)
            ret_amount[c] += vectors[c][k] * along[k];
    }
}
