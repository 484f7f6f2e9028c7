/* Vocabulary: a frame is a picture of bytes and the window on it (window.h) that the steps so far
 * have left of it. Steps that only move the window touch no pixel. Others first draw the frame:
 * they write the window's pixels into memory of the scratch, which is then a frame by itself. */
#include "data/augment/augmenter.h"

#include "data/augment/colour.h"
#include "data/augment/policy.h"
#include "data/augment/window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Two neighbours on one axis of the source and the second one's weight. */
typedef struct tap {
    uint32_t first, second;
    float weight;
} tap;

struct psr_augmenter {
    psr_augment_plan plan;
    uint32_t channels, size;
    tap *rows, *columns;             /* of an exact resize; NULL: there is none */
    float value[3][PSR_BYTE_VALUES]; /* of a byte, per channel */
};

typedef struct frame {
    psr_pixels pixels;
    psr_picture_window window;
    uint8_t *own; /* the scratch's memory that holds these pixels, [C, H, W]; NULL: the caller's */
} frame;

/* What one picture goes through. */
typedef struct passage {
    const psr_augmenter *augmenter;
    const psr_augment_key *key;
    psr_augment_scratch *scratch;
    frame frame;
} passage;

void psr_augment_scratch_done(psr_augment_scratch *scratch)
{
    psr_resampler_done(&scratch->resampler);
    free(scratch->bytes[0]);
    free(scratch->bytes[1]);
    *scratch = (psr_augment_scratch){0};
}

/* Source position of output i: (i + 1/2) from / to - 1/2, not below 0 (PyTorch's
 * area_pixel_compute_source_index); in double, which is exact enough to be the same everywhere. */
static tap *taps_new(uint32_t from, uint32_t to)
{
    tap *taps = malloc(to * sizeof *taps);
    if (taps == NULL)
        return NULL;
    for (uint32_t i = 0; i < to; i++) {
        double at = (i + 0.5) * ((double)from / to) - 0.5;
        if (at < 0)
            at = 0;
        uint32_t first = (uint32_t)at;
        taps[i] = (tap){
            .first = first,
            .second = first + 1 < from ? first + 1 : first,
            .weight = (float)(at - first),
        };
    }
    return taps;
}

static bool is_exact(const psr_augment_plan *plan)
{
    return plan->bytes > 0 && plan->steps[0].kind == PSR_STEP_RESIZE &&
           plan->steps[0].as.resize.resampling == PSR_RESAMPLE_EXACT;
}

static psr_err prepare_exact(psr_augmenter *augmenter, psr_picture_shape shape)
{
    const uint32_t side = augmenter->plan.steps[0].as.resize.side;
    if (shape.height == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--image-size: pictures differ in size; give --augment imagenet, or a "
                        "list with resize:%u",
                        side);
    augmenter->rows = taps_new(shape.height, side);
    augmenter->columns = taps_new(shape.width, side);
    if (augmenter->rows == NULL || augmenter->columns == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to resize images");
    return PSR_OK;
}

psr_err psr_augmenter_new(const psr_dataset *dataset, const psr_augment_plan *plan,
                          psr_augmenter **ret_augmenter)
{
    const psr_picture_shape shape = {dataset->height, dataset->width};
    uint32_t size;
    PSR_TRY(psr_augment_plan_side(plan, dataset->channels, shape, &size));
    psr_augmenter *augmenter = calloc(1, sizeof *augmenter);
    if (augmenter == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to augment images");
    augmenter->plan = *plan;
    augmenter->channels = dataset->channels;
    augmenter->size = size;
    for (uint32_t c = 0; c < dataset->channels; c++)
        for (int u = 0; u < PSR_BYTE_VALUES; u++)
            augmenter->value[c][u] = ((float)u / 255.0f - dataset->mean[c]) / dataset->deviation[c];
    psr_err err = is_exact(plan) ? prepare_exact(augmenter, shape) : PSR_OK;
    if (err != PSR_OK) {
        psr_augmenter_free(augmenter);
        return err;
    }
    *ret_augmenter = augmenter;
    return PSR_OK;
}

void psr_augmenter_free(psr_augmenter *augmenter)
{
    if (augmenter == NULL)
        return;
    free(augmenter->rows);
    free(augmenter->columns);
    free(augmenter);
}

uint32_t psr_augmenter_size(const psr_augmenter *augmenter)
{
    return augmenter->size;
}

const float *psr_augmenter_values(const psr_augmenter *augmenter)
{
    return augmenter->value[0];
}

/* ---- frames ---- */

/* Memory of the scratch that does not hold the frame's pixels. */
static psr_err other_bytes(passage *p, size_t size, uint8_t **ret_bytes)
{
    psr_augment_scratch *scratch = p->scratch;
    const int which = p->frame.own != NULL && p->frame.own == scratch->bytes[0];
    if (scratch->sizes[which] < size) {
        uint8_t *larger = realloc(scratch->bytes[which], size);
        if (larger == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory to augment images");
        scratch->bytes[which] = larger;
        scratch->sizes[which] = size;
    }
    *ret_bytes = scratch->bytes[which];
    return PSR_OK;
}

static void become(passage *p, uint8_t *bytes, psr_picture_shape shape)
{
    const uint32_t channels = p->augmenter->channels;
    p->frame = (frame){
        .pixels = {.pixels = bytes,
                   .channels = channels,
                   .height = shape.height,
                   .width = shape.width,
                   .plane = (ptrdiff_t)((size_t)shape.height * shape.width),
                   .row = (ptrdiff_t)shape.width,
                   .step = 1},
        .window = psr_picture_window_of(shape.height, shape.width),
        .own = bytes,
    };
}

static bool is_whole(const frame *f)
{
    return f->window.top == 0 && f->window.left == 0 && !f->window.flip &&
           psr_picture_window_is_full(&f->window) && f->window.height == f->pixels.height &&
           f->window.width == f->pixels.width;
}

static const uint8_t *window_row(const frame *f, uint32_t channel, uint32_t y)
{
    return f->pixels.pixels + (ptrdiff_t)channel * f->pixels.plane +
           ((ptrdiff_t)f->window.top + (ptrdiff_t)y) * f->pixels.row;
}

static void draw_row(const frame *f, const uint8_t *row, uint8_t *out)
{
    const psr_picture_window *w = &f->window;
    const ptrdiff_t step = w->flip ? -f->pixels.step : f->pixels.step;
    const uint8_t *from = row + psr_picture_window_column(w, w->first_column) * f->pixels.step;
    for (uint32_t x = w->first_column; x < w->end_column; x++, from += step)
        out[x] = *from;
}

/* Writes the window's pixels to memory of the scratch, unless they lie there already. */
static psr_err draw(passage *p)
{
    const frame *f = &p->frame;
    if (f->own != NULL && is_whole(f))
        return PSR_OK;
    const psr_picture_shape shape = {f->window.height, f->window.width};
    const size_t size = (size_t)f->pixels.channels * shape.height * shape.width;
    uint8_t *bytes = NULL;
    PSR_TRY(other_bytes(p, size, &bytes));
    memset(bytes, 0, size);
    uint8_t *out = bytes;
    for (uint32_t c = 0; c < f->pixels.channels; c++) {
        for (uint32_t y = 0; y < shape.height; y++, out += shape.width) {
            if (y >= f->window.first_row && y < f->window.end_row &&
                f->window.first_column < f->window.end_column)
                draw_row(f, window_row(f, c, y), out);
        }
    }
    become(p, bytes, shape);
    return PSR_OK;
}

/* The window of a frame without borders as pixels by themselves. */
static psr_pixels view_of(const frame *f)
{
    const psr_picture_window *w = &f->window;
    psr_pixels view = f->pixels;
    view.pixels = window_row(f, 0, 0) + psr_picture_window_column(w, 0) * f->pixels.step;
    view.height = w->height;
    view.width = w->width;
    view.step = w->flip ? -f->pixels.step : f->pixels.step;
    return view;
}

static void cut(passage *p, int32_t top, int32_t left, uint32_t height, uint32_t width)
{
    p->frame.window = psr_picture_window_cut(&p->frame.window, top, left, height, width);
}

static psr_picture_shape shape_of(const passage *p)
{
    return (psr_picture_shape){p->frame.window.height, p->frame.window.width};
}

/* ---- steps ---- */

static uint32_t reflected(int64_t index, uint32_t length)
{
    if (index < 0)
        return (uint32_t)-index;
    return (uint32_t)(index < length ? index : 2 * (int64_t)length - 2 - index);
}

/* As cut; what lies outside of the window is the window mirrored at its edge. */
static psr_err cut_reflected(passage *p, int32_t top, int32_t left, uint32_t side)
{
    if (!psr_picture_window_is_full(&p->frame.window))
        PSR_TRY(draw(p));
    const psr_pixels view = view_of(&p->frame);
    uint8_t *bytes = NULL;
    PSR_TRY(other_bytes(p, (size_t)view.channels * side * side, &bytes));
    uint8_t *out = bytes;
    for (uint32_t c = 0; c < view.channels; c++)
        for (uint32_t y = 0; y < side; y++) {
            const uint8_t *row = view.pixels + (ptrdiff_t)c * view.plane +
                                 (ptrdiff_t)reflected((int64_t)top + y, view.height) * view.row;
            for (uint32_t x = 0; x < side; x++)
                *out++ = row[(ptrdiff_t)reflected((int64_t)left + x, view.width) * view.step];
        }
    become(p, bytes, (psr_picture_shape){side, side});
    return PSR_OK;
}

static psr_err crop(passage *p, const psr_augment_step *step)
{
    const psr_picture_shape shape = shape_of(p);
    const bool is_own = step->as.crop.side == 0;
    const uint32_t side = is_own ? shape.height : step->as.crop.side;
    const uint32_t padding = is_own ? side / 8 : step->as.crop.padding;
    psr_crop at = psr_draw_crop(p->key, step, shape, side, padding);
    const int32_t top = (int32_t)at.top - (int32_t)padding,
                  left = (int32_t)at.left - (int32_t)padding;
    if (step->as.crop.reflect)
        return cut_reflected(p, top, left, side);
    cut(p, top, left, side, side);
    return PSR_OK;
}

/* Where a crop to the middle begins: (length - side) / 2 rounded to even, as torchvision's
 * center_crop; a picture that is smaller is padded, the odd pixel behind. */
static int32_t middle(uint32_t length, uint32_t side)
{
    if (length < side)
        return -(int32_t)((side - length) / 2);
    const uint32_t left_over = length - side, half = left_over / 2;
    return (int32_t)(left_over % 2 == 1 ? half + half % 2 : half);
}

static void centre_crop(passage *p, uint32_t side)
{
    const psr_picture_shape shape = shape_of(p);
    cut(p, middle(shape.height, side), middle(shape.width, side), side, side);
}

/* The window `window` of the frame resized to `to`. */
static psr_err resize(passage *p, psr_picture_shape to, psr_box window, psr_resampling resampling)
{
    if (!psr_picture_window_is_full(&p->frame.window))
        PSR_TRY(draw(p));
    const psr_pixels view = view_of(&p->frame);
    uint8_t *bytes = NULL;
    PSR_TRY(other_bytes(p, (size_t)view.channels * window.height * window.width, &bytes));
    PSR_TRY(psr_resample(&p->scratch->resampler, &view, to, window, resampling, bytes));
    become(p, bytes, (psr_picture_shape){window.height, window.width});
    return PSR_OK;
}

static psr_err resize_whole(passage *p, psr_picture_shape to, psr_resampling resampling)
{
    const psr_picture_shape shape = shape_of(p);
    if (shape.height == to.height && shape.width == to.width)
        return PSR_OK;
    return resize(p, to, (psr_box){0, 0, to.height, to.width}, resampling);
}

/* next: the step behind it, or NULL. A centre crop is what usually comes; what it leaves out is not
 * computed. *ret_done: whether next is done too. */
static psr_err resize_short(passage *p, const psr_augment_step *step, const psr_augment_step *next,
                            bool *ret_done)
{
    const psr_picture_shape to = psr_resized_short(shape_of(p), step->as.resize.side);
    *ret_done = next != NULL && next->kind == PSR_STEP_CENTRE_CROP &&
                next->as.resize.side <= step->as.resize.side;
    if (!*ret_done)
        return resize_whole(p, to, step->as.resize.resampling);
    const uint32_t side = next->as.resize.side;
    const psr_box window = {(uint32_t)middle(to.height, side), (uint32_t)middle(to.width, side),
                            side, side};
    return resize(p, to, window, step->as.resize.resampling);
}

static psr_err resized_crop(passage *p, const psr_augment_step *step, bool is_part)
{
    const uint32_t side = step->as.resized_crop.side;
    if (!is_part) {
        psr_box box = psr_draw_resized_crop(p->key, step, shape_of(p));
        cut(p, (int32_t)box.top, (int32_t)box.left, box.height, box.width);
    }
    return resize_whole(p, (psr_picture_shape){side, side}, step->as.resized_crop.resampling);
}

static psr_canvas canvas_of(const passage *p)
{
    return (psr_canvas){p->frame.own, p->augmenter->channels, p->frame.window.height,
                        p->frame.window.width};
}

static psr_err follow_policy(passage *p, const psr_augment_step *step)
{
    const psr_canvas canvas = canvas_of(p);
    uint8_t *spare = NULL;
    PSR_TRY(other_bytes(p, (size_t)canvas.channels * canvas.height * canvas.width, &spare));
    for (uint32_t i = 0; i < step->as.policy.operations; i++) {
        psr_operation operation = psr_draw_operation(p->key, step, i, shape_of(p));
        psr_operation_apply(canvas, &operation, spare);
    }
    return PSR_OK;
}

/* Steps that change colours in place. */
static psr_err recolour(passage *p, const psr_augment_step *step)
{
    PSR_TRY(draw(p));
    if (step->kind == PSR_STEP_COLOUR_JITTER) {
        psr_jitter jitter = psr_draw_jitter(p->key, step);
        psr_colour_jitter(canvas_of(p), &jitter);
        return PSR_OK;
    }
    if (step->kind == PSR_STEP_LIGHTING) {
        double amount[3];
        psr_draw_lighting(p->key, step, amount);
        psr_colour_add(canvas_of(p), amount);
        return PSR_OK;
    }
    return follow_policy(p, step);
}

/* *ret_count: how many steps of the list it did. */
static psr_err take_step(passage *p, uint32_t i, bool is_part, uint32_t *ret_count)
{
    const psr_augment_plan *plan = &p->augmenter->plan;
    const psr_augment_step *step = &plan->steps[i];
    *ret_count = 1;
    switch (step->kind) {
    case PSR_STEP_CROP:
        return crop(p, step);
    case PSR_STEP_FLIP:
        if (psr_draw_flip(p->key, step))
            p->frame.window = psr_picture_window_mirror(&p->frame.window);
        return PSR_OK;
    case PSR_STEP_CENTRE_CROP:
        centre_crop(p, step->as.resize.side);
        return PSR_OK;
    case PSR_STEP_RESIZE:
        return resize_whole(p, (psr_picture_shape){step->as.resize.side, step->as.resize.side},
                            step->as.resize.resampling);
    case PSR_STEP_RESIZE_SHORT: {
        bool does_next = false;
        const psr_augment_step *next = i + 1 < plan->bytes ? step + 1 : NULL;
        PSR_TRY(resize_short(p, step, next, &does_next));
        *ret_count += does_next;
        return PSR_OK;
    }
    case PSR_STEP_RANDOM_RESIZED_CROP:
        return resized_crop(p, step, is_part && i == 0);
    default:
        return recolour(p, step);
    }
}

/* ---- floats ---- */

/* out[i] = value[row[i * step]] for count pixels. */
static void convert_run(float *restrict out, const uint8_t *restrict row, ptrdiff_t step,
                        uint32_t count, const float *restrict value)
{
    if (step == 1) {
        for (uint32_t i = 0; i < count; i++)
            out[i] = value[row[i]];
    } else {
        for (uint32_t i = 0; i < count; i++)
            out[i] = value[row[(ptrdiff_t)i * step]];
    }
}

/* Row y of the exact resize, bilinear between two rows of the source, for count columns from
 * column on, or back from it. */
static void resize_run(const psr_augmenter *augmenter, float *restrict out,
                       const psr_pixels *pixels, uint32_t channel, uint32_t y, int32_t column,
                       uint32_t count, bool flip)
{
    const float *value = augmenter->value[channel];
    const uint8_t *plane = pixels->pixels + (ptrdiff_t)channel * pixels->plane;
    const tap vertical = augmenter->rows[y];
    const uint8_t *above = plane + (ptrdiff_t)vertical.first * pixels->row;
    const uint8_t *below = plane + (ptrdiff_t)vertical.second * pixels->row;
    for (uint32_t i = 0; i < count; i++) {
        const tap across = augmenter->columns[flip ? column - (int32_t)i : column + (int32_t)i];
        const ptrdiff_t first = (ptrdiff_t)across.first * pixels->step;
        const ptrdiff_t second = (ptrdiff_t)across.second * pixels->step;
        float keep = 1.0f - across.weight;
        float upper = keep * value[above[first]] + across.weight * value[above[second]];
        float lower = keep * value[below[first]] + across.weight * value[below[second]];
        out[i] = (1.0f - vertical.weight) * upper + vertical.weight * lower;
    }
}

static void fill(float *out, float value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

/* One channel of the frame's window as floats; zero bytes where nothing comes from the source. */
static void write_plane(const psr_augmenter *augmenter, const frame *f, uint32_t channel,
                        bool resizes, float *out)
{
    const psr_picture_window *w = &f->window;
    const float *value = augmenter->value[channel];
    const uint32_t count = w->end_column > w->first_column ? w->end_column - w->first_column : 0;
    const int32_t column = psr_picture_window_column(w, w->first_column);
    for (uint32_t y = 0; y < w->height; y++, out += w->width) {
        if (y < w->first_row || y >= w->end_row || count == 0) {
            fill(out, value[0], w->width);
            continue;
        }
        fill(out, value[0], w->first_column);
        if (resizes)
            resize_run(augmenter, out + w->first_column, &f->pixels, channel,
                       (uint32_t)(w->top + (int32_t)y), column, count, w->flip);
        else
            convert_run(out + w->first_column, window_row(f, channel, y) + column * f->pixels.step,
                        w->flip ? -f->pixels.step : f->pixels.step, count, value);
        fill(out + w->end_column, value[0], w->width - w->end_column);
    }
}

static void erase(const psr_augmenter *augmenter, const psr_augment_key *key,
                  const psr_augment_step *step, float *image)
{
    const uint32_t side = augmenter->size;
    psr_box hole;
    if (!psr_draw_hole(key, step, (psr_picture_shape){side, side}, &hole))
        return;
    for (uint32_t c = 0; c < augmenter->channels; c++)
        for (uint32_t y = hole.top; y < hole.top + hole.height; y++)
            fill(image + ((size_t)c * side + y) * side + hole.left, 0, hole.width);
}

bool psr_augmenter_part(const psr_augmenter *augmenter, const psr_augment_key *key,
                        psr_picture_shape shape, psr_box *ret_part)
{
    const psr_augment_plan *plan = &augmenter->plan;
    if (plan->bytes == 0 || plan->steps[0].kind != PSR_STEP_RANDOM_RESIZED_CROP)
        return false;
    *ret_part = psr_draw_resized_crop(key, &plan->steps[0], shape);
    return true;
}

uint32_t psr_augmenter_part_side(const psr_augmenter *augmenter)
{
    return augmenter->plan.steps[0].as.resized_crop.side;
}

static passage passage_of(const psr_augmenter *augmenter, const psr_augment_key *key,
                          const psr_picture *picture, psr_augment_scratch *scratch)
{
    assert(picture->channels == augmenter->channels);
    return (passage){.augmenter = augmenter,
                     .key = key,
                     .scratch = scratch,
                     .frame = {.pixels = {picture->pixels, picture->channels, picture->height,
                                          picture->width, (ptrdiff_t)picture->plane,
                                          (ptrdiff_t)picture->row, (ptrdiff_t)picture->step},
                               .window = psr_picture_window_of(picture->height, picture->width)}};
}

/* The steps on bytes from number `first` on. */
static psr_err take_steps(passage *p, uint32_t first, bool is_part)
{
    for (uint32_t i = first, done = 0; i < p->augmenter->plan.bytes; i += done)
        PSR_TRY(take_step(p, i, is_part, &done));
    return PSR_OK;
}

psr_err psr_augmenter_image(const psr_augmenter *augmenter, const psr_augment_key *key,
                            const psr_picture *picture, bool is_part, psr_augment_scratch *scratch,
                            float *image)
{
    const psr_augment_plan *plan = &augmenter->plan;
    passage p = passage_of(augmenter, key, picture, scratch);
    /* An exact resize is done while floats are written. */
    const bool exact = is_exact(plan);
    const uint32_t side = exact ? plan->steps[0].as.resize.side : 0;
    const bool resizes = exact && (side != picture->height || side != picture->width);
    if (exact)
        p.frame.window = psr_picture_window_of(side, side);
    PSR_TRY(take_steps(&p, exact, is_part));
    for (uint32_t c = 0; c < augmenter->channels; c++)
        write_plane(augmenter, &p.frame, c, resizes,
                    image + (size_t)c * augmenter->size * augmenter->size);
    for (uint32_t i = plan->bytes; i < plan->bytes + plan->erasing; i++)
        erase(augmenter, key, &plan->steps[i], image);
    return PSR_OK;
}

/* ---- bytes ---- */

bool psr_augmenter_gives_bytes(const psr_augmenter *augmenter)
{
    return !is_exact(&augmenter->plan) && augmenter->plan.erasing <= 1;
}

static void copy_run(uint8_t *restrict out, const uint8_t *restrict from, ptrdiff_t step,
                     uint32_t count)
{
    if (step == 1)
        memcpy(out, from, count);
    else
        for (uint32_t i = 0; i < count; i++)
            out[i] = from[(ptrdiff_t)i * step];
}

/* Rows of bytes that lie one after the other are one. */
static void copy_rows(uint8_t *out, const uint8_t *from, ptrdiff_t row, ptrdiff_t step,
                      uint32_t height, uint32_t width)
{
    if (step == 1 && row == (ptrdiff_t)width) {
        memcpy(out, from, (size_t)height * width);
        return;
    }
    for (uint32_t y = 0; y < height; y++)
        copy_run(out + (size_t)y * width, from + (ptrdiff_t)y * row, step, width);
}

/* What the window shows of the frame, as it lies there: turned around it is later. */
static psr_byte_image copy_window(const frame *f, uint8_t *bytes)
{
    const psr_picture_window *w = &f->window;
    const psr_pixels *pixels = &f->pixels;
    if (w->first_row >= w->end_row || w->first_column >= w->end_column)
        return (psr_byte_image){.mirrored = w->flip};
    const uint32_t height = w->end_row - w->first_row, width = w->end_column - w->first_column;
    const int32_t column =
        psr_picture_window_column(w, w->flip ? w->end_column - 1 : w->first_column);
    const uint8_t *first = window_row(f, 0, w->first_row) + column * pixels->step;
    const bool by_pixels = pixels->plane == 1 && pixels->step == (ptrdiff_t)pixels->channels;
    if (by_pixels)
        copy_rows(bytes, first, pixels->row, 1, height, width * pixels->channels);
    for (uint32_t c = 0; c < pixels->channels && !by_pixels; c++)
        copy_rows(bytes + (size_t)c * height * width, first + (ptrdiff_t)c * pixels->plane,
                  pixels->row, pixels->step, height, width);
    return (psr_byte_image){.place = {w->first_row, w->first_column, height, width},
                            .mirrored = w->flip,
                            .by_pixels = by_pixels};
}

psr_err psr_augmenter_bytes(const psr_augmenter *augmenter, const psr_augment_key *key,
                            const psr_picture *picture, bool is_part, psr_augment_scratch *scratch,
                            uint8_t *bytes, psr_byte_image *ret_image)
{
    const psr_augment_plan *plan = &augmenter->plan;
    const psr_picture_shape shape = {augmenter->size, augmenter->size};
    passage p = passage_of(augmenter, key, picture, scratch);
    psr_box hole;
    assert(psr_augmenter_gives_bytes(augmenter));
    PSR_TRY(take_steps(&p, 0, is_part));
    psr_byte_image image = copy_window(&p.frame, bytes);
    if (plan->erasing > 0 && psr_draw_hole(key, &plan->steps[plan->bytes], shape, &hole))
        image.hole = (psr_byte_box){hole.top, hole.left, hole.height, hole.width};
    *ret_image = image;
    return PSR_OK;
}
