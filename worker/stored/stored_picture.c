#include "worker/stored/stored_picture.h"

#include "base/system/file.h"
#include "data/augment/augmenter.h"
#include "data/images/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MAX = 3 };

struct psr_stored_pictures {
    psr_dataset like; /* shape and constants of the run's data; no samples */
    psr_augmenter *augmenter;
    psr_augment_scratch scratch;
    psr_image_decoder *decoder;
    psr_resampler resampler;
    uint8_t *bytes[2]; /* owned: a grey picture, and one of the data's shape */
    size_t sizes[2];
};

static psr_err read_constants(psr_stored_pictures *p, const psr_stored_model *model)
{
    const uint32_t channels = model->net->channels;
    p->like.channels = channels;
    if (channels > CHANNELS_MAX ||
        psr_stored_numbers(model->checkpoint, "mean", p->like.mean, CHANNELS_MAX) != channels ||
        psr_stored_numbers(model->checkpoint, "std", p->like.deviation, CHANNELS_MAX) != channels ||
        !psr_stored_count(model->checkpoint, "height", &p->like.height) ||
        !psr_stored_count(model->checkpoint, "width", &p->like.width))
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: its metadata do not say what pictures become (mean and std for each "
                        "channel, height, width); give a checkpoint of psring train",
                        model->file);
    return PSR_OK;
}

static psr_err open_parts(psr_stored_pictures *p, const psr_stored_model *model)
{
    psr_augment_plan trained;
    PSR_TRY(read_constants(p, model));
    PSR_TRY(psr_augment_plan_of(&model->config, &trained));
    const psr_augment_plan plan = psr_augment_plan_evaluation(&trained);
    PSR_TRY(psr_augmenter_new(&p->like, &plan, &p->augmenter));
    if (psr_augmenter_size(p->augmenter) != model->net->height)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: its metadata make pictures of %" PRIu32 " pixels a side for a network "
                        "of %" PRIu32,
                        model->file, psr_augmenter_size(p->augmenter), model->net->height);
    return psr_image_decoder_new(&p->decoder);
}

psr_err psr_stored_pictures_new(const psr_stored_model *model, psr_stored_pictures **ret_pictures)
{
    psr_stored_pictures *p = calloc(1, sizeof *p);
    if (p == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for pictures");
    psr_err err = open_parts(p, model);
    if (err != PSR_OK) {
        psr_stored_pictures_free(p);
        return err;
    }
    *ret_pictures = p;
    return PSR_OK;
}

void psr_stored_pictures_free(psr_stored_pictures *p)
{
    if (p == NULL)
        return;
    psr_augmenter_free(p->augmenter);
    psr_augment_scratch_done(&p->scratch);
    psr_image_decoder_free(p->decoder);
    psr_resampler_done(&p->resampler);
    free(p->bytes[0]);
    free(p->bytes[1]);
    free(p);
}

/* ---- a picture ---- */

static psr_err need_bytes(psr_stored_pictures *p, int which, size_t size, uint8_t **ret_bytes)
{
    if (size > p->sizes[which]) {
        uint8_t *larger = realloc(p->bytes[which], size);
        if (larger == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a picture of %zu bytes", size);
        p->bytes[which] = larger;
        p->sizes[which] = size;
    }
    *ret_bytes = p->bytes[which];
    return PSR_OK;
}

static psr_picture planes_of(const uint8_t *bytes, uint32_t channels, psr_picture_shape shape)
{
    return (psr_picture){.pixels = bytes,
                         .channels = channels,
                         .height = shape.height,
                         .width = shape.width,
                         .plane = (size_t)shape.height * shape.width,
                         .row = shape.width,
                         .step = 1};
}

static psr_err make_grey(psr_stored_pictures *p, psr_picture *picture)
{
    const psr_picture from = *picture;
    const psr_picture_shape shape = {from.height, from.width};
    uint8_t *bytes = NULL;
    PSR_TRY(need_bytes(p, 0, (size_t)from.height * from.width, &bytes));
    for (size_t y = 0; y < from.height; y++)
        for (size_t x = 0; x < from.width; x++) {
            const uint8_t *pixel = from.pixels + y * from.row + x * from.step;
            const uint32_t red = pixel[0], green = pixel[from.plane], blue = pixel[2 * from.plane];
            bytes[y * from.width + x] =
                (uint8_t)((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
        }
    *picture = planes_of(bytes, 1, shape);
    return PSR_OK;
}

/* The middle of the picture, as large as possible in the proportions of `to`, resized to that. */
static psr_err fit(psr_stored_pictures *p, psr_picture_shape to, psr_picture *picture)
{
    const double down = (double)to.height / picture->height,
                 across = (double)to.width / picture->width, factor = down > across ? down : across;
    psr_picture_shape whole = {(uint32_t)(picture->height * factor + 1e-6),
                               (uint32_t)(picture->width * factor + 1e-6)};
    whole.height = whole.height < to.height ? to.height : whole.height;
    whole.width = whole.width < to.width ? to.width : whole.width;
    const psr_pixels from = {.pixels = picture->pixels,
                             .channels = picture->channels,
                             .height = picture->height,
                             .width = picture->width,
                             .plane = (ptrdiff_t)picture->plane,
                             .row = (ptrdiff_t)picture->row,
                             .step = (ptrdiff_t)picture->step};
    const psr_box middle = {(whole.height - to.height) / 2, (whole.width - to.width) / 2, to.height,
                            to.width};
    uint8_t *bytes = NULL;
    PSR_TRY(need_bytes(p, 1, (size_t)picture->channels * to.height * to.width, &bytes));
    PSR_TRY(psr_resample(&p->resampler, &from, whole, middle, PSR_RESAMPLE_ANTIALIAS, bytes));
    *picture = planes_of(bytes, picture->channels, to);
    return PSR_OK;
}

static psr_err bring_in(psr_stored_pictures *p, const char *file, const uint8_t *bytes, size_t size,
                        float *image)
{
    psr_picture picture;
    const psr_picture_shape data = {p->like.height, p->like.width};
    static const psr_augment_key none = {.seed = 0};
    PSR_TRY(psr_image_decode(p->decoder, file, bytes, size, NULL, &picture));
    if (p->like.channels == 1)
        PSR_TRY(make_grey(p, &picture));
    if (data.height > 0 && (picture.height != data.height || picture.width != data.width))
        PSR_TRY(fit(p, data, &picture));
    return psr_augmenter_image(p->augmenter, &none, &picture, false, &p->scratch, image);
}

psr_err psr_stored_picture_read(psr_stored_pictures *p, const char *file, float *image)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(file, PSR_IMAGE_MAX_FILE_BYTES, &bytes, &size));
    psr_err err = bring_in(p, file, bytes, size, image);
    free(bytes);
    return err;
}
