#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/augment/augmenter.h"
#include "model/reference/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 16, SEED = 99 };

/* Samples of pixels that are all different enough, of any shape, in static memory. */
static const psr_dataset *dataset_of(uint32_t channels, uint32_t height, uint32_t width)
{
    static uint8_t pixels[SAMPLES * 3 * 40 * 40];
    static psr_dataset dataset;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    dataset = (psr_dataset){
        .pixels = pixels,
        .count = SAMPLES,
        .channels = channels,
        .height = height,
        .width = width,
        .classes = 10,
        .mean = {0.4914f, 0.4822f, 0.4465f},
        .deviation = {0.2470f, 0.2435f, 0.2616f},
    };
    return &dataset;
}

static void augment(const psr_augmenter *augmenter, const psr_dataset *dataset, uint32_t epoch,
                    uint32_t sample, float *image)
{
    const size_t plane = (size_t)dataset->height * dataset->width;
    const psr_picture picture = {.pixels = dataset->pixels + sample * dataset->channels * plane,
                                 .channels = dataset->channels,
                                 .height = dataset->height,
                                 .width = dataset->width,
                                 .plane = plane,
                                 .row = dataset->width,
                                 .step = 1};
    const psr_augment_key key = {.seed = SEED, .epoch = epoch, .sample = sample};
    psr_augment_scratch scratch = {0};
    assert_int_equal(psr_augmenter_image(augmenter, &key, &picture, false, &scratch, image),
                     PSR_OK);
    psr_augment_scratch_done(&scratch);
}

/* Where crop-flip has always cropped and mirrored: words 0, 1 and 2 of the sample's first block. */
typedef struct crop_flip {
    uint32_t top, left;
    bool flip;
} crop_flip;

static crop_flip crop_of(uint64_t seed, uint32_t epoch, uint32_t sample, uint32_t padding)
{
    uint32_t words[4];
    const uint64_t choices = 2 * (uint64_t)padding + 1;
    psr_rng_block(
        (psr_rng_at){.seed = seed, .purpose = PSR_RNG_AUGMENT, .epoch = epoch, .sample = sample}, 0,
        words);
    return (crop_flip){(uint32_t)(words[0] * choices >> 32), (uint32_t)(words[1] * choices >> 32),
                       words[2] >> 31 != 0};
}

/* Pixel (c, y, x) of a sample as torchvision's ToTensor and Normalize give it; outside: a zero
 * byte. */
static float pixel_of(const psr_dataset *dataset, uint32_t sample, uint32_t c, int y, int x)
{
    int height = (int)dataset->height, width = (int)dataset->width;
    uint8_t byte = 0;
    if (y >= 0 && y < height && x >= 0 && x < width)
        byte = dataset->pixels[((size_t)(sample * dataset->channels + c) * dataset->height +
                                (uint32_t)y) *
                                   dataset->width +
                               (uint32_t)x];
    float unit = (float)byte / 255.0f;
    return (unit - dataset->mean[c]) / dataset->deviation[c];
}

static psr_augmenter *augmenter_of(const psr_dataset *dataset, const char *list, uint32_t size)
{
    psr_augmenter *augmenter = NULL;
    psr_augment_plan plan;
    assert_int_equal(psr_augment_plan_parse(list, size, &plan), PSR_OK);
    assert_int_equal(psr_augmenter_new(dataset, &plan, &augmenter), PSR_OK);
    return augmenter;
}

/* Hashes (FNV-1a) of the floats of five epochs of 16 samples, which the version before lists of
 * steps made of the same options. */
static void none_and_crop_flip_give_the_pixels_that_they_always_gave(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t channels, height, width, size;
        uint64_t hash;
    } cases[] = {
        {"none", 3, 32, 32, 0, UINT64_C(0x7a8d89c8002df159)},
        {"none", 1, 28, 28, 0, UINT64_C(0x101f1ed9474fd948)},
        {"none", 3, 28, 36, 20, UINT64_C(0x2087a999e9a181b9)},
        {"none", 3, 32, 32, 64, UINT64_C(0x333144fda1962454)},
        {"none", 1, 28, 28, 32, UINT64_C(0x0dd5e361201579d2)},
        {"crop-flip", 3, 32, 32, 0, UINT64_C(0x2edbfcee75db8953)},
        {"crop-flip", 1, 28, 28, 0, UINT64_C(0xd59643c8dc95cac2)},
        {"crop-flip", 3, 7, 7, 0, UINT64_C(0xb4c36782c8d995c4)},
        {"crop-flip", 3, 28, 36, 20, UINT64_C(0xc2325f7e373f3e0d)},
        {"crop-flip", 3, 32, 32, 64, UINT64_C(0x50a4dc9643d75d1d)},
        {"crop-flip", 1, 28, 28, 32, UINT64_C(0xe8b2b931d5f66e09)},
        {"crop-flip", 3, 32, 32, 32, UINT64_C(0x2edbfcee75db8953)},
        {"crop-flip", 3, 32, 32, 7, UINT64_C(0x2c661f37eb549fa8)},
    };
    static float image[3 * 64 * 64];
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const psr_dataset *dataset = dataset_of(cases[k].channels, cases[k].height, cases[k].width);
        psr_augmenter *augmenter = augmenter_of(dataset, cases[k].list, cases[k].size);
        const size_t side = psr_augmenter_size(augmenter);
        const size_t bytes = cases[k].channels * side * side * sizeof(float);
        uint64_t hash = UINT64_C(14695981039346656037);
        for (uint32_t i = 0; i < 5 * SAMPLES; i++) {
            augment(augmenter, dataset, i / SAMPLES, i % SAMPLES, image);
            for (size_t b = 0; b < bytes; b++)
                hash = (hash ^ ((const uint8_t *)image)[b]) * UINT64_C(1099511628211);
        }
        assert_true(hash == cases[k].hash);
        psr_augmenter_free(augmenter);
    }
}

static void without_augmentation_pixels_are_only_normalised(void **state)
{
    (void)state;
    const psr_dataset *dataset = dataset_of(3, 32, 32);
    psr_augmenter *augmenter = augmenter_of(dataset, "none", 0);
    float image[3 * 32 * 32];
    assert_int_equal(psr_augmenter_size(augmenter), 32);
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        augment(augmenter, dataset, sample, sample, image);
        for (uint32_t i = 0; i < 3 * 32 * 32; i++)
            assert_true(image[i] ==
                        pixel_of(dataset, sample, i / 1024, (int)(i / 32 % 32), (int)(i % 32)));
    }
    psr_augmenter_free(augmenter);
}

/* What RandomCrop(size, padding) and then a flip give, written as a formula per output pixel. */
static void assert_cropped(uint32_t channels, uint32_t side, uint32_t padding)
{
    const psr_dataset *dataset = dataset_of(channels, side, side);
    psr_augmenter *augmenter = augmenter_of(dataset, "crop-flip", 0);
    float image[3 * 40 * 40];
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        for (uint32_t sample = 0; sample < SAMPLES; sample++) {
            crop_flip crop = crop_of(SEED, epoch, sample, padding);
            for (uint32_t i = 0; i < channels * side * side; i++)
                image[i] = NAN; /* every element must be written */
            augment(augmenter, dataset, epoch, sample, image);
            for (uint32_t i = 0; i < channels * side * side; i++) {
                int y = (int)(i / side % side), x = (int)(i % side);
                if (crop.flip)
                    x = (int)side - 1 - x;
                float expected =
                    pixel_of(dataset, sample, i / (side * side), y + (int)crop.top - (int)padding,
                             x + (int)crop.left - (int)padding);
                assert_true(image[i] == expected);
            }
        }
    }
    psr_augmenter_free(augmenter);
}

static void crop_and_flip_are_torchvisions_at_32_pixels(void **state)
{
    (void)state;
    assert_cropped(3, 32, 4);
}

static void crop_and_flip_are_torchvisions_at_28_pixels(void **state)
{
    (void)state;
    assert_cropped(1, 28, 3);
}

static void an_image_below_8_pixels_is_flipped_only(void **state)
{
    (void)state;
    assert_cropped(3, 7, 0);
}

static void every_crop_and_both_flips_are_as_likely(void **state)
{
    (void)state;
    /* 5.3 standard deviations of 14.1 */
    enum { DRAWS = 81 * 2 * 200, EXPECTED = 200, TOLERANCE = 75 };
    static uint32_t seen[9][9][2];
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < DRAWS; i++) {
        crop_flip crop = crop_of(SEED, i / 1000, i % 1000, 4);
        assert_true(crop.top <= 8 && crop.left <= 8);
        seen[crop.top][crop.left][crop.flip]++;
    }
    for (int top = 0; top < 9; top++)
        for (int left = 0; left < 9; left++)
            for (int flip = 0; flip < 2; flip++)
                assert_in_range(seen[top][left][flip], EXPECTED - TOLERANCE, EXPECTED + TOLERANCE);
}

static void a_crop_depends_on_seed_epoch_and_sample(void **state)
{
    (void)state;
    uint32_t same_seed = 0, same_epoch = 0, same_sample = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        crop_flip crop = crop_of(1, 1, i, 4), again = crop_of(1, 1, i, 4);
        crop_flip seed = crop_of(2, 1, i, 4), epoch = crop_of(1, 2, i, 4);
        crop_flip sample = crop_of(1, 1, i + 1000, 4);
        assert_true(crop.top == again.top && crop.left == again.left && crop.flip == again.flip);
        same_seed += crop.top == seed.top && crop.left == seed.left && crop.flip == seed.flip;
        same_epoch += crop.top == epoch.top && crop.left == epoch.left && crop.flip == epoch.flip;
        same_sample +=
            crop.top == sample.top && crop.left == sample.left && crop.flip == sample.flip;
    }
    /* One in 162 agrees by chance. */
    assert_true(same_seed < 30 && same_epoch < 30 && same_sample < 30);
}

/* torch.nn.functional.interpolate([[1, 2], [3, 4]], scale_factor=2, mode="bilinear",
 * align_corners=False), as PyTorch's own documentation of Upsample prints it. */
static void bilinear_upsampling_is_pytorchs(void **state)
{
    (void)state;
    static const float expected[16] = {1.0f, 1.25f, 1.75f, 2.0f, 1.5f, 1.75f, 2.25f, 2.5f,
                                       2.5f, 2.75f, 3.25f, 3.5f, 3.0f, 3.25f, 3.75f, 4.0f};
    static const uint8_t pixels[4] = {51, 102, 153, 204};
    psr_dataset dataset = {
        .pixels = pixels, .count = 1, .channels = 1, .height = 2, .width = 2, .classes = 10};
    dataset.deviation[0] = 0.2f; /* byte 51 k is k */
    psr_augmenter *augmenter = augmenter_of(&dataset, "none", 4);
    float image[16];
    augment(augmenter, &dataset, 0, 0, image);
    for (int i = 0; i < 16; i++)
        assert_float_equal(image[i], expected[i], 1e-6);
    psr_augmenter_free(augmenter);
}

/* PyTorch's formula in double: source = max((i + 1/2) from / to - 1/2, 0), clamped at the far
 * end. */
static double resized_of(const psr_dataset *dataset, uint32_t sample, uint32_t c, uint32_t size,
                         int y, int x)
{
    if (y < 0 || x < 0 || y >= (int)size || x >= (int)size)
        return pixel_of(dataset, sample, c, -1, -1);
    double at_y = fmax((y + 0.5) * dataset->height / size - 0.5, 0);
    double at_x = fmax((x + 0.5) * dataset->width / size - 0.5, 0);
    int top = (int)at_y, left = (int)at_x;
    int bottom = top + 1 < (int)dataset->height ? top + 1 : top;
    int right = left + 1 < (int)dataset->width ? left + 1 : left;
    double down = at_y - top, across = at_x - left;
    return (1 - down) * (1 - across) * pixel_of(dataset, sample, c, top, left) +
           (1 - down) * across * pixel_of(dataset, sample, c, top, right) +
           down * (1 - across) * pixel_of(dataset, sample, c, bottom, left) +
           down * across * pixel_of(dataset, sample, c, bottom, right);
}

static void resized_images_are_cropped_and_flipped_after(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {20, 32, 39, 7};
    const psr_dataset *dataset = dataset_of(3, 28, 36); /* not square on purpose */
    static float image[3 * 40 * 40];
    for (int s = 0; s < 4; s++) {
        uint32_t size = sizes[s];
        psr_augmenter *augmenter = augmenter_of(dataset, "crop-flip", size);
        int padding = (int)size / 8;
        for (uint32_t sample = 0; sample < SAMPLES; sample++) {
            crop_flip crop = crop_of(SEED, 2, sample, size / 8);
            augment(augmenter, dataset, 2, sample, image);
            for (uint32_t i = 0; i < 3 * size * size; i++) {
                int y = (int)(i / size % size), x = (int)(i % size);
                if (crop.flip)
                    x = (int)size - 1 - x;
                double expected =
                    resized_of(dataset, sample, i / (size * size), size,
                               y + (int)crop.top - padding, x + (int)crop.left - padding);
                assert_float_equal(image[i], expected, 2e-5);
            }
        }
        psr_augmenter_free(augmenter);
    }
}

static void images_that_are_not_square_need_a_size(void **state)
{
    (void)state;
    psr_augmenter *augmenter = NULL;
    psr_augment_plan plan;
    assert_int_equal(psr_augment_plan_parse("none", 0, &plan), PSR_OK);
    assert_int_equal(psr_augmenter_new(dataset_of(1, 28, 30), &plan, &augmenter), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--image-size: images of 28x30 are not square, a size must be given");
    assert_null(augmenter);
}

/* What a resize of a cropped picture reads, by formula: bilinear, rounded to bytes. */
static void steps_are_taken_in_the_order_of_the_list(void **state)
{
    (void)state;
    enum { SIDE = 32, LARGE = 56, PADDING = 4 };
    const psr_dataset *dataset = dataset_of(3, SIDE, SIDE);
    psr_augmenter *augmenter = augmenter_of(dataset, "crop:32:4,flip,resize:56", 0);
    static float image[3 * LARGE * LARGE];
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        crop_flip crop = crop_of(SEED, 3, sample, PADDING);
        augment(augmenter, dataset, 3, sample, image);
        for (uint32_t i = 0; i < 3 * LARGE * LARGE; i++) {
            const uint32_t c = i / (LARGE * LARGE);
            double at[2] = {fmax((i / LARGE % LARGE + 0.5) * SIDE / LARGE - 0.5, 0),
                            fmax((i % LARGE + 0.5) * SIDE / LARGE - 0.5, 0)};
            double value = 0;
            for (int corner = 0; corner < 4; corner++) {
                double down = corner / 2 ? at[0] - floor(at[0]) : 1 - at[0] + floor(at[0]);
                double across = corner % 2 ? at[1] - floor(at[1]) : 1 - at[1] + floor(at[1]);
                int y = (int)fmin(SIDE - 1, floor(at[0]) + corner / 2);
                int x = (int)fmin(SIDE - 1, floor(at[1]) + corner % 2);
                x = crop.flip ? SIDE - 1 - x : x;
                value += down * across *
                         pixel_of(dataset, sample, c, y + (int)crop.top - PADDING,
                                  x + (int)crop.left - PADDING);
            }
            /* two roundings to a byte */
            assert_float_equal(image[i], value, 1.001 / 255 / dataset->deviation[c]);
        }
    }
    psr_augmenter_free(augmenter);
}

/* The same picture as HWC, from the same numbers. */
static void the_order_of_a_pictures_bytes_changes_nothing(void **state)
{
    (void)state;
    enum { H = 30, W = 40 };
    static uint8_t turned[H * W * 3];
    static float planar[3 * 24 * 24], packed[3 * 24 * 24];
    const psr_dataset *dataset = dataset_of(3, H, W);
    const psr_augment_key key = {.seed = SEED, .epoch = 1, .sample = 2};
    psr_augmenter *augmenter = augmenter_of(
        dataset, "random-resized-crop:24,flip,colour-jitter:0.4:0.4:0.4:0.1,rand-augment", 0);
    psr_augment_scratch scratch = {0};
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < H * W; i++)
            turned[i * 3 + c] = dataset->pixels[(2 * 3 + c) * H * W + i];
    const psr_picture picture = {turned, 3, H, W, 1, 3 * W, 3};
    augment(augmenter, dataset, 1, 2, planar);
    assert_int_equal(psr_augmenter_image(augmenter, &key, &picture, false, &scratch, packed),
                     PSR_OK);
    assert_memory_equal(planar, packed, sizeof planar);
    /* and of the part that the first step reads */
    psr_box part;
    assert_true(psr_augmenter_part(augmenter, &key, (psr_picture_shape){H, W}, &part));
    const psr_picture cut = {
        turned + ((size_t)part.top * W + part.left) * 3, 3, part.height, part.width, 1, 3 * W, 3};
    assert_int_equal(psr_augmenter_image(augmenter, &key, &cut, true, &scratch, packed), PSR_OK);
    assert_memory_equal(planar, packed, sizeof planar);
    psr_augment_scratch_done(&scratch);
    psr_augmenter_free(augmenter);
}

static void another_step_changes_nothing_of_what_a_step_draws(void **state)
{
    (void)state;
    const psr_dataset *dataset = dataset_of(3, 32, 32);
    psr_augmenter *crops = augmenter_of(dataset, "crop:32:4,flip", 0);
    /* a jitter of nothing between them */
    psr_augmenter *more = augmenter_of(dataset, "crop:32:4,colour-jitter:0,flip,lighting:0", 0);
    static float image[3 * 32 * 32], other[3 * 32 * 32];
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        augment(crops, dataset, 4, sample, image);
        augment(more, dataset, 4, sample, other);
        assert_memory_equal(image, other, sizeof image);
    }
    psr_augmenter_free(crops);
    psr_augmenter_free(more);
}

static void what_is_erased_is_the_mean_colour(void **state)
{
    (void)state;
    const psr_dataset *dataset = dataset_of(3, 32, 32);
    psr_augmenter *plain = augmenter_of(dataset, "none", 0);
    psr_augmenter *holes = augmenter_of(dataset, "cutout:8,random-erasing:1:0.1-0.2", 0);
    static float image[3 * 32 * 32], with_holes[3 * 32 * 32];
    const psr_augment_step erasing = {.kind = PSR_STEP_RANDOM_ERASING,
                                      .as.erasing = {1, {0.1, 0.2}, {0.3, 3.3}}};
    const psr_augment_step cutout = {.kind = PSR_STEP_CUTOUT, .as.hole = 8};
    for (uint32_t sample = 0; sample < SAMPLES; sample++) {
        const psr_augment_key key = {.seed = SEED, .epoch = 1, .sample = sample};
        psr_box boxes[2];
        assert_true(psr_draw_hole(&key, &cutout, (psr_picture_shape){32, 32}, &boxes[0]));
        assert_true(psr_draw_hole(&key, &erasing, (psr_picture_shape){32, 32}, &boxes[1]));
        assert_in_range(boxes[1].height * boxes[1].width, 80, 230); /* of 1024, rounded sides */
        augment(plain, dataset, 1, sample, image);
        augment(holes, dataset, 1, sample, with_holes);
        for (uint32_t i = 0; i < 3 * 32 * 32; i++) {
            const uint32_t y = i / 32 % 32, x = i % 32;
            bool erased = false;
            for (int b = 0; b < 2; b++)
                erased |= y - boxes[b].top < boxes[b].height && x - boxes[b].left < boxes[b].width;
            assert_true(with_holes[i] == (erased ? 0 : image[i]));
        }
    }
    psr_augmenter_free(plain);
    psr_augmenter_free(holes);
}

/* ---- as bytes ---- */

enum { BYTES_SIDE_MAX = 40, BYTES_MAX = 3 * BYTES_SIDE_MAX * BYTES_SIDE_MAX, GUARD = 64 };

static psr_picture planar_picture(const psr_dataset *d, uint32_t sample)
{
    const size_t plane = (size_t)d->height * d->width;
    return (psr_picture){d->pixels + sample * d->channels * plane,
                         d->channels,
                         d->height,
                         d->width,
                         plane,
                         d->width,
                         1};
}

/* The same numbers in the order in which decoders give them, in static memory. */
static psr_picture packed_picture(const psr_picture *planar)
{
    static uint8_t turned[BYTES_MAX];
    const uint32_t C = planar->channels, pixels = planar->height * planar->width;
    for (uint32_t i = 0; i < C * pixels; i++)
        turned[i % pixels * C + i / pixels] = planar->pixels[i];
    return (psr_picture){turned, C, planar->height, planar->width, 1, (size_t)C * planar->width, C};
}

/* Both ways of a picture, and what is written beside. */
static void assert_same_by_bytes(const psr_augmenter *augmenter, const psr_augment_key *key,
                                 const psr_picture *picture)
{
    static float image[BYTES_MAX], by_bytes[BYTES_MAX];
    static uint8_t bytes[BYTES_MAX + GUARD];
    const uint32_t C = picture->channels, side = psr_augmenter_size(augmenter);
    const size_t size = (size_t)C * side * side;
    psr_augment_scratch scratch = {0};
    psr_byte_image placed;
    memset(bytes, 0xa5, sizeof bytes);
    assert_int_equal(psr_augmenter_image(augmenter, key, picture, false, &scratch, image), PSR_OK);
    assert_int_equal(psr_augmenter_bytes(augmenter, key, picture, false, &scratch, bytes, &placed),
                     PSR_OK);
    psr_augment_scratch_done(&scratch);
    assert_true(placed.place.top + placed.place.height <= side);
    assert_true(placed.place.left + placed.place.width <= side);
    for (size_t i = (size_t)C * placed.place.height * placed.place.width; i < size + GUARD; i++)
        assert_int_equal(bytes[i], 0xa5);
    const psr_byte_images all = {bytes, &placed, psr_augmenter_values(augmenter)};
    psr_ref_images_of_bytes(1, C, side, side, &all, by_bytes);
    assert_memory_equal(by_bytes, image, size * sizeof *image);
}

static void images_as_bytes_are_the_same_images(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t channels, height, width;
    } cases[] = {
        {"none", 3, 32, 32},
        {"none", 1, 28, 28},
        {"crop-flip", 3, 32, 32},
        {"crop-flip", 1, 28, 28},
        {"flip:1", 3, 9, 9},
        {"flip,crop:32:4,flip:0.3", 3, 32, 32},
        {"crop:20:0,flip", 3, 30, 37},
        {"crop:32:4:reflect,flip", 3, 32, 32},
        {"crop:8:40", 3, 7, 7}, /* now and then nothing of the picture is left */
        {"centre-crop:39,flip", 3, 30, 40},
        {"crop:32:4,flip,resize:24", 3, 32, 32},
        {"random-resized-crop:24,flip", 3, 30, 40},
        {"crop:32:4,colour-jitter:0.4:0.4:0.4:0.1,flip", 3, 32, 32},
        {"crop:32:4,flip,cutout:12", 3, 32, 32},
        {"flip,random-erasing:0.6:0.1-0.3", 3, 32, 32},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const psr_dataset *dataset = dataset_of(cases[k].channels, cases[k].height, cases[k].width);
        psr_augmenter *augmenter = augmenter_of(dataset, cases[k].list, 0);
        assert_true(psr_augmenter_gives_bytes(augmenter));
        for (uint32_t i = 0; i < 3 * SAMPLES; i++) {
            const psr_augment_key key = {.seed = SEED, .epoch = i / SAMPLES, .sample = i % SAMPLES};
            const psr_picture planar = planar_picture(dataset, key.sample),
                              packed = packed_picture(&planar);
            assert_same_by_bytes(augmenter, &key, &planar);
            assert_same_by_bytes(augmenter, &key, &packed);
        }
        psr_augmenter_free(augmenter);
    }
}

static void what_is_not_made_of_bytes_is_not_given_as_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t size;
    } cases[] = {{"none", 24}, {"crop-flip", 24}, {"cutout:8,random-erasing", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        psr_augmenter *augmenter =
            augmenter_of(dataset_of(3, 32, 32), cases[k].list, cases[k].size);
        assert_false(psr_augmenter_gives_bytes(augmenter));
        psr_augmenter_free(augmenter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_and_crop_flip_give_the_pixels_that_they_always_gave),
        cmocka_unit_test(without_augmentation_pixels_are_only_normalised),
        cmocka_unit_test(crop_and_flip_are_torchvisions_at_32_pixels),
        cmocka_unit_test(crop_and_flip_are_torchvisions_at_28_pixels),
        cmocka_unit_test(an_image_below_8_pixels_is_flipped_only),
        cmocka_unit_test(every_crop_and_both_flips_are_as_likely),
        cmocka_unit_test(a_crop_depends_on_seed_epoch_and_sample),
        cmocka_unit_test(bilinear_upsampling_is_pytorchs),
        cmocka_unit_test(resized_images_are_cropped_and_flipped_after),
        cmocka_unit_test(images_that_are_not_square_need_a_size),
        cmocka_unit_test(steps_are_taken_in_the_order_of_the_list),
        cmocka_unit_test(the_order_of_a_pictures_bytes_changes_nothing),
        cmocka_unit_test(another_step_changes_nothing_of_what_a_step_draws),
        cmocka_unit_test(what_is_erased_is_the_mean_colour),
        cmocka_unit_test(images_as_bytes_are_the_same_images),
        cmocka_unit_test(what_is_not_made_of_bytes_is_not_given_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
