/* The other side of test_augment_torchvision.py: augment_peer LIST CHANNELS HEIGHT WIDTH SAMPLES
 * FOLDER. Makes generated pictures, takes them through LIST with mean 0 and deviation 1/255, so
 * that results are on the scale of bytes, and writes FOLDER/pictures (uint8 [SAMPLES, C, H, W]) and
 * FOLDER/images (float32 [SAMPLES, C, S, S]). stdout: a line of JSON for each sample, an array of
 * what each step drew. */
#include "data/augment/augmenter.h"
#include "data/augment/colour.h"
#include "data/augment/mix.h"
#include "data/augment/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 11, EPOCH = 2 };

/* Smooth colours with some noise: pictures on which an interpolation, an edge and a histogram all
 * matter. */
static void paint(uint8_t *pixels, uint32_t sample, uint32_t channels, psr_picture_shape shape)
{
    const psr_rng_at at = {.seed = SEED, .purpose = PSR_RNG_TEST, .sample = sample};
    for (uint32_t c = 0; c < channels; c++) {
        for (uint32_t y = 0; y < shape.height; y++) {
            for (uint32_t x = 0; x < shape.width; x++) {
                const uint32_t element = (c * shape.height + y) * shape.width + x;
                const uint32_t noise = psr_rng_word(at, element) >> 28;
                const uint32_t slope =
                    (x * (3 + sample % 5 + c) + y * (2 + (sample + c) % 7)) % 240;
                *pixels++ = (uint8_t)(slope + noise);
            }
        }
    }
}

static void print_box(psr_box box)
{
    printf("[%u, %u, %u, %u]", box.top, box.left, box.height, box.width);
}

static void print_operations(const psr_augment_key *key, const psr_augment_step *step,
                             psr_picture_shape shape)
{
    printf("[");
    for (uint32_t i = 0; i < step->as.policy.operations; i++) {
        psr_operation o = psr_draw_operation(key, step, i, shape);
        printf("%s[%d, %.9g]", i > 0 ? ", " : "", (int)o.kind, (double)o.magnitude);
    }
    printf("]");
}

/* What a step draws for a picture of that shape, which becomes its result's. */
static void print_draw(const psr_augment_key *key, const psr_augment_step *step,
                       psr_picture_shape *shape)
{
    psr_box box = {0};
    switch (step->kind) {
    case PSR_STEP_CROP: {
        psr_crop crop = psr_draw_crop(key, step, *shape, step->as.crop.side, step->as.crop.padding);
        printf("[%u, %u, %u, %u, \"%s\"]", crop.top, crop.left, step->as.crop.side,
               step->as.crop.padding, step->as.crop.reflect ? "reflect" : "constant");
        *shape = (psr_picture_shape){step->as.crop.side, step->as.crop.side};
        break;
    }
    case PSR_STEP_FLIP:
        printf("%s", psr_draw_flip(key, step) ? "true" : "false");
        break;
    case PSR_STEP_RANDOM_RESIZED_CROP:
        print_box(psr_draw_resized_crop(key, step, *shape));
        *shape = (psr_picture_shape){step->as.resized_crop.side, step->as.resized_crop.side};
        break;
    case PSR_STEP_RESIZE:
    case PSR_STEP_CENTRE_CROP:
        printf("%u", step->as.resize.side);
        *shape = (psr_picture_shape){step->as.resize.side, step->as.resize.side};
        break;
    case PSR_STEP_RESIZE_SHORT:
        printf("%u", step->as.resize.side);
        *shape = psr_resized_short(*shape, step->as.resize.side);
        break;
    case PSR_STEP_COLOUR_JITTER: {
        psr_jitter j = psr_draw_jitter(key, step);
        printf("[[%d, %d, %d, %d], [%.9g, %.9g, %.9g, %.9g]]", j.order[0], j.order[1], j.order[2],
               j.order[3], (double)j.factors[0], (double)j.factors[1], (double)j.factors[2],
               (double)j.factors[3]);
        break;
    }
    case PSR_STEP_LIGHTING: {
        double amount[3];
        psr_draw_lighting(key, step, amount);
        printf("[%.17g, %.17g, %.17g]", amount[0], amount[1], amount[2]);
        break;
    }
    case PSR_STEP_RAND_AUGMENT:
    case PSR_STEP_TRIVIAL_AUGMENT:
        print_operations(key, step, *shape);
        break;
    case PSR_STEP_RANDOM_ERASING:
    case PSR_STEP_CUTOUT:
        if (psr_draw_hole(key, step, *shape, &box))
            print_box(box);
        else
            printf("null");
        break;
    default:
        printf("null");
    }
}

static void print_draws(const psr_augment_plan *plan, const psr_augment_key *key,
                        psr_picture_shape shape)
{
    printf("[");
    for (uint32_t i = 0; i < plan->count; i++) {
        printf("%s[\"%s\", ", i > 0 ? ", " : "", psr_step_name(plan->steps[i].kind));
        print_draw(key, &plan->steps[i], &shape);
        printf("]");
    }
    printf("]\n");
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "wb");
}

static psr_err run(const psr_augment_plan *plan, psr_dataset *dataset, const char *folder)
{
    const psr_picture_shape shape = {dataset->height, dataset->width};
    const size_t plane = (size_t)shape.height * shape.width, bytes = dataset->channels * plane;
    psr_augmenter *augmenter = NULL;
    psr_augment_scratch scratch = {0};
    PSR_TRY(psr_augmenter_new(dataset, plan, &augmenter));
    const size_t side = psr_augmenter_size(augmenter), floats = dataset->channels * side * side;
    uint8_t *pixels = malloc(bytes);
    float *image = malloc(floats * sizeof *image);
    FILE *pictures = open_in(folder, "pictures"), *images = open_in(folder, "images");
    psr_err err = pixels != NULL && image != NULL && pictures != NULL && images != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_IO, "%s: cannot be written", folder);
    for (uint32_t sample = 0; sample < dataset->count && err == PSR_OK; sample++) {
        const psr_augment_key key = {.seed = SEED, .epoch = EPOCH, .sample = sample};
        const psr_picture picture = {
            pixels, dataset->channels, shape.height, shape.width, plane, shape.width, 1};
        paint(pixels, sample, dataset->channels, shape);
        err = psr_augmenter_image(augmenter, &key, &picture, false, &scratch, image);
        print_draws(plan, &key, shape);
        if (fwrite(pixels, 1, bytes, pictures) != bytes ||
            fwrite(image, sizeof *image, floats, images) != floats)
            err = psr_fail(PSR_ERR_IO, "%s: cannot be written", folder);
    }
    if (pictures != NULL && fclose(pictures) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be written", folder);
    if (images != NULL && fclose(images) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be written", folder);
    free(pixels);
    free(image);
    psr_augment_scratch_done(&scratch);
    psr_augmenter_free(augmenter);
    return err;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: augment_peer LIST CHANNELS HEIGHT WIDTH SAMPLES FOLDER\n");
        return 2;
    }
    psr_dataset dataset = {.channels = (uint32_t)strtoul(argv[2], NULL, 10),
                           .height = (uint32_t)strtoul(argv[3], NULL, 10),
                           .width = (uint32_t)strtoul(argv[4], NULL, 10),
                           .count = (uint32_t)strtoul(argv[5], NULL, 10)};
    for (int c = 0; c < 3; c++)
        dataset.deviation[c] = 1.0f / 255.0f;
    psr_augment_plan plan;
    psr_err err = psr_augment_plan_parse(argv[1], 0, &plan);
    if (err == PSR_OK)
        err = run(&plan, &dataset, argv[6]);
    if (err != PSR_OK)
        fprintf(stderr, "augment_peer: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
