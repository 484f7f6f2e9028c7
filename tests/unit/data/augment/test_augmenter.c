#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/augment.h"

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
    psr_augmenter_image(augmenter, epoch, sample, &picture, image);
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

static psr_augmenter *augmenter_of(const psr_dataset *dataset, psr_augment augment, uint32_t size)
{
    psr_augmenter *augmenter = NULL;
    assert_int_equal(psr_augmenter_new(dataset, augment, size, SEED, &augmenter), PSR_OK);
    return augmenter;
}

static void without_augmentation_pixels_are_only_normalised(void **state)
{
    (void)state;
    const psr_dataset *dataset = dataset_of(3, 32, 32);
    psr_augmenter *augmenter = augmenter_of(dataset, PSR_AUGMENT_NONE, 0);
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
    psr_augmenter *augmenter = augmenter_of(dataset, PSR_AUGMENT_CROP_FLIP, 0);
    float image[3 * 40 * 40];
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        for (uint32_t sample = 0; sample < SAMPLES; sample++) {
            psr_crop crop = psr_augment_crop(SEED, epoch, sample, padding);
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
        psr_crop crop = psr_augment_crop(SEED, i / 1000, i % 1000, 4);
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
        psr_crop crop = psr_augment_crop(1, 1, i, 4), again = psr_augment_crop(1, 1, i, 4);
        psr_crop seed = psr_augment_crop(2, 1, i, 4), epoch = psr_augment_crop(1, 2, i, 4);
        psr_crop sample = psr_augment_crop(1, 1, i + 1000, 4);
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
    psr_augmenter *augmenter = augmenter_of(&dataset, PSR_AUGMENT_NONE, 4);
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
        psr_augmenter *augmenter = augmenter_of(dataset, PSR_AUGMENT_CROP_FLIP, size);
        int padding = (int)size / 8;
        for (uint32_t sample = 0; sample < SAMPLES; sample++) {
            psr_crop crop = psr_augment_crop(SEED, 2, sample, size / 8);
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
    assert_int_equal(
        psr_augmenter_new(dataset_of(1, 28, 30), PSR_AUGMENT_NONE, 0, SEED, &augmenter),
        PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--image-size: images of 28x30 are not square, a size must be given");
    assert_null(augmenter);
}

static void imagenet_augmentation_is_refused_by_name(void **state)
{
    (void)state;
    psr_augmenter *augmenter = NULL;
    assert_int_equal(
        psr_augmenter_new(dataset_of(3, 32, 32), PSR_AUGMENT_IMAGENET, 0, SEED, &augmenter),
        PSR_ERR_UNSUPPORTED);
    assert_string_equal(psr_err_detail(),
                        "--augment imagenet: needs a folder of JPEG images, which this build does "
                        "not read; should be none or crop-flip");
    assert_null(augmenter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_augmentation_pixels_are_only_normalised),
        cmocka_unit_test(crop_and_flip_are_torchvisions_at_32_pixels),
        cmocka_unit_test(crop_and_flip_are_torchvisions_at_28_pixels),
        cmocka_unit_test(an_image_below_8_pixels_is_flipped_only),
        cmocka_unit_test(every_crop_and_both_flips_are_as_likely),
        cmocka_unit_test(a_crop_depends_on_seed_epoch_and_sample),
        cmocka_unit_test(bilinear_upsampling_is_pytorchs),
        cmocka_unit_test(resized_images_are_cropped_and_flipped_after),
        cmocka_unit_test(images_that_are_not_square_need_a_size),
        cmocka_unit_test(imagenet_augmentation_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
