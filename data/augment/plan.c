#include "data/augment/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 4, SIDE_MAX = 4096, STEP_TEXT_MAX = 96 };

typedef enum step_stage { STAGE_BYTES, STAGE_ERASING, STAGE_MIXING, STAGE_SAMPLING } step_stage;

/* What may stand at one place of a step's values. A SPAN is LEAST-MOST, both within the bounds. */
typedef struct value_rule {
    enum { NO_VALUE, WHOLE, NUMBER, SPAN } form;
    bool required;
    double least, most;
    psr_bounds initial; /* a number's is its least */
} value_rule;

typedef struct step_rule {
    const char *name;
    step_stage stage;
    bool resamples; /* a last value may be plain, antialias or exact */
    const char *usage;
    value_rule values[VALUES_MAX];
    const char *word; /* that a last value may be; NULL: none */
} step_rule;

#define SIDE                                                                                       \
    {                                                                                              \
        WHOLE, true, 1, SIDE_MAX,                                                                  \
        {                                                                                          \
            0, 0                                                                                   \
        }                                                                                          \
    }

static const step_rule rules[PSR_STEP_KINDS] = {
    [PSR_STEP_CROP] = {"crop",
                       STAGE_BYTES,
                       false,
                       "crop:SIDE[:PADDING][:reflect], like crop:32:4",
                       {{WHOLE, false, 1, SIDE_MAX, {0, 0}}, {WHOLE, false, 0, SIDE_MAX, {0, 0}}},
                       "reflect"},
    [PSR_STEP_FLIP] = {"flip",
                       STAGE_BYTES,
                       false,
                       "flip[:PROBABILITY][:alternate], like flip or flip:0.5",
                       {{NUMBER, false, 0, 1, {0.5, 0.5}}},
                       "alternate"},
    [PSR_STEP_RESIZE] =
        {"resize", STAGE_BYTES, true, "resize:SIDE[:antialias|plain], like resize:224", {SIDE}},
    [PSR_STEP_RESIZE_SHORT] = {"resize-short",
                               STAGE_BYTES,
                               true,
                               "resize-short:SIDE[:antialias|plain], like resize-short:256",
                               {SIDE}},
    [PSR_STEP_CENTRE_CROP] =
        {"centre-crop", STAGE_BYTES, false, "centre-crop:SIDE, like centre-crop:224", {SIDE}},
    [PSR_STEP_RANDOM_RESIZED_CROP] = {"random-resized-crop",
                                      STAGE_BYTES,
                                      true,
                                      "random-resized-crop:SIDE[:SCALE[:RATIO]][:antialias|plain], "
                                      "like random-resized-crop:224:0.08-1:0.75-1.3333",
                                      {SIDE,
                                       {SPAN, false, 1e-6, 1, {0.08, 1}},
                                       {SPAN, false, 0.01, 100, {3.0 / 4, 4.0 / 3}}}},
    [PSR_STEP_COLOUR_JITTER] = {"colour-jitter",
                                STAGE_BYTES,
                                false,
                                "colour-jitter:BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]], like "
                                "colour-jitter:0.4:0.4:0.4:0.1",
                                {{NUMBER, true, 0, 10, {0, 0}},
                                 {NUMBER, false, 0, 10, {0, 0}},
                                 {NUMBER, false, 0, 10, {0, 0}},
                                 {NUMBER, false, 0, 0.5, {0, 0}}}},
    [PSR_STEP_LIGHTING] = {"lighting",
                           STAGE_BYTES,
                           false,
                           "lighting[:DEVIATION], like lighting:0.1",
                           {{NUMBER, false, 0, 10, {0.1, 0.1}}}},
    [PSR_STEP_RAND_AUGMENT] = {"rand-augment",
                               STAGE_BYTES,
                               false,
                               "rand-augment[:OPERATIONS[:MAGNITUDE]], like rand-augment:2:9 "
                               "(magnitudes from 0 to 30)",
                               {{WHOLE, false, 1, 14, {2, 2}},
                                {WHOLE, false, 0, PSR_AUGMENT_MAGNITUDES - 1, {9, 9}}}},
    [PSR_STEP_TRIVIAL_AUGMENT] = {"trivial-augment",
                                  STAGE_BYTES,
                                  false,
                                  "trivial-augment, without values",
                                  {{NO_VALUE, false, 0, 0, {0, 0}}}},
    [PSR_STEP_RANDOM_ERASING] = {"random-erasing",
                                 STAGE_ERASING,
                                 false,
                                 "random-erasing[:PROBABILITY[:SCALE[:RATIO]]], like "
                                 "random-erasing:0.5:0.02-0.33:0.3-3.3",
                                 {{NUMBER, false, 0, 1, {0.5, 0.5}},
                                  {SPAN, false, 1e-6, 1, {0.02, 0.33}},
                                  {SPAN, false, 0.01, 100, {0.3, 3.3}}}},
    [PSR_STEP_CUTOUT] = {"cutout", STAGE_ERASING, false, "cutout:SIDE, like cutout:16", {SIDE}},
    [PSR_STEP_MIXUP] = {"mixup",
                        STAGE_MIXING,
                        false,
                        "mixup:ALPHA, like mixup:0.2",
                        {{NUMBER, true, 0.01, 100, {0, 0}}}},
    [PSR_STEP_CUTMIX] = {"cutmix",
                         STAGE_MIXING,
                         false,
                         "cutmix:ALPHA, like cutmix:1",
                         {{NUMBER, true, 0.01, 100, {0, 0}}}},
    [PSR_STEP_REPEAT] = {"repeat",
                         STAGE_SAMPLING,
                         false,
                         "repeat:COPIES, like repeat:3",
                         {{WHOLE, true, 2, 16, {0, 0}}}},
};

const char *psr_step_name(psr_step_kind kind)
{
    return rules[kind].name;
}

/* ---- one step ---- */

/* "--augment crop:x: 'x' is not a whole number from 1 to 4096; give crop:SIDE.." */
static psr_err refuse(const char *step, const step_rule *rule, const char *value, const char *why)
{
    return psr_fail(PSR_ERR_USAGE, "--augment %.80s: '%.40s' %s; give %s", step, value, why,
                    rule->usage);
}

static bool read_number(const char *text, const char *end, double *ret_value)
{
    char *stopped;
    if (text == end || !((*text >= '0' && *text <= '9') || *text == '.'))
        return false;
    *ret_value = strtod(text, &stopped);
    return stopped == end && isfinite(*ret_value);
}

/* LEAST-MOST; what strtod reads has no '-' but behind an e. */
static bool read_span(const char *text, psr_bounds *ret_span)
{
    const char *between = strchr(text, '-');
    while (between != NULL && between > text && (between[-1] == 'e' || between[-1] == 'E'))
        between = strchr(between + 1, '-');
    return between != NULL && read_number(text, between, &ret_span->least) &&
           read_number(between + 1, text + strlen(text), &ret_span->most) &&
           ret_span->least <= ret_span->most;
}

static psr_err read_value(const char *step, const step_rule *rule, const value_rule *value,
                          const char *text, psr_bounds *ret_span)
{
    static const char *const forms[] = {"", "a whole number", "a number",
                                        "a span LEAST-MOST of numbers"};
    psr_bounds span = {0, 0};
    bool reads;
    if (value->form == SPAN) {
        reads = read_span(text, &span);
    } else {
        reads = read_number(text, text + strlen(text), &span.least);
        span.most = span.least;
        if (value->form == WHOLE)
            reads = reads && span.least == floor(span.least);
    }
    if (reads && span.least >= value->least && span.most <= value->most) {
        *ret_span = span;
        return PSR_OK;
    }
    char why[96];
    snprintf(why, sizeof why, "is not %s from %g to %g", forms[value->form], value->least,
             value->most);
    return refuse(step, rule, text, why);
}

static bool read_resampling(const char *text, psr_resampling *ret_resampling)
{
    static const char *const words[] = {"antialias", "plain", "exact"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_resampling = (psr_resampling)i;
            return true;
        }
    }
    return false;
}

static psr_bounds factors(psr_bounds strength)
{
    return (psr_bounds){fmax(0, 1 - strength.least), 1 + strength.least};
}

static psr_augment_step step_of(psr_step_kind kind, const psr_bounds values[static VALUES_MAX],
                                psr_resampling resampling, bool has_word)
{
    psr_augment_step step = {.kind = kind};
    const uint32_t whole[2] = {(uint32_t)values[0].least, (uint32_t)values[1].least};
    switch (kind) {
    case PSR_STEP_CROP:
        step.as.crop.side = whole[0];
        step.as.crop.padding = whole[1];
        step.as.crop.reflect = has_word;
        break;
    case PSR_STEP_FLIP:
        step.as.flip.probability = values[0].least;
        step.as.flip.alternate = has_word;
        break;
    case PSR_STEP_RESIZE:
    case PSR_STEP_RESIZE_SHORT:
    case PSR_STEP_CENTRE_CROP:
        step.as.resize.side = whole[0];
        step.as.resize.resampling = resampling;
        break;
    case PSR_STEP_RANDOM_RESIZED_CROP:
        step.as.resized_crop.side = whole[0];
        step.as.resized_crop.resampling = resampling;
        step.as.resized_crop.scale = values[1];
        step.as.resized_crop.ratio = values[2];
        break;
    case PSR_STEP_COLOUR_JITTER:
        step.as.jitter.brightness = factors(values[0]);
        step.as.jitter.contrast = factors(values[1]);
        step.as.jitter.saturation = factors(values[2]);
        step.as.jitter.hue = values[3].least;
        break;
    case PSR_STEP_LIGHTING:
        step.as.deviation = values[0].least;
        break;
    case PSR_STEP_RAND_AUGMENT:
        step.as.policy.operations = whole[0];
        step.as.policy.magnitude = whole[1];
        break;
    case PSR_STEP_TRIVIAL_AUGMENT:
        step.as.policy.operations = 1;
        break;
    case PSR_STEP_RANDOM_ERASING:
        step.as.erasing.probability = values[0].least;
        step.as.erasing.scale = values[1];
        step.as.erasing.ratio = values[2];
        break;
    case PSR_STEP_CUTOUT:
        step.as.hole = whole[0];
        break;
    case PSR_STEP_MIXUP:
    case PSR_STEP_CUTMIX:
        step.as.alpha = values[0].least;
        break;
    case PSR_STEP_REPEAT:
        step.as.copies = whole[0];
        break;
    case PSR_STEP_KINDS:
        break;
    }
    return step;
}

static psr_err find_rule(const char *name, psr_step_kind *ret_kind)
{
    char known[320] = "";
    for (int k = 0; k < PSR_STEP_KINDS; k++) {
        if (strcmp(name, rules[k].name) == 0) {
            *ret_kind = (psr_step_kind)k;
            return PSR_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", k > 0 ? ", " : "", rules[k].name);
    }
    return psr_fail(PSR_ERR_USAGE,
                    "--augment: '%.80s' is not a step; give none, crop-flip, imagenet, or a list "
                    "of these: %s",
                    name, known);
}

/* text: one step, which is cut into its values. */
static psr_err parse_step(const char *text, psr_augment_step *ret_step)
{
    char parts[STEP_TEXT_MAX], *rest = parts;
    snprintf(parts, sizeof parts, "%s", text);
    const char *name = strsep(&rest, ":");
    psr_step_kind kind = PSR_STEP_KINDS;
    PSR_TRY(find_rule(name, &kind));
    const step_rule *rule = &rules[kind];
    psr_resampling resampling = PSR_RESAMPLE_ANTIALIAS;
    psr_bounds values[VALUES_MAX];
    int count = 0;
    bool has_word = false;
    while (rest != NULL) {
        const char *value = strsep(&rest, ":");
        has_word = rest == NULL && rule->word != NULL && strcmp(value, rule->word) == 0;
        if (has_word)
            break;
        if (rest == NULL && rule->resamples && read_resampling(value, &resampling))
            break;
        if (count == VALUES_MAX || rule->values[count].form == NO_VALUE)
            return refuse(text, rule, value, "is a value too many");
        PSR_TRY(read_value(text, rule, &rule->values[count], value, &values[count]));
        count++;
    }
    if (count < VALUES_MAX && rule->values[count].required)
        return psr_fail(PSR_ERR_USAGE, "--augment %.80s: a value is missing; give %s", text,
                        rule->usage);
    for (; count < VALUES_MAX; count++)
        values[count] = rule->values[count].initial;
    *ret_step = step_of(kind, values, resampling, has_word);
    return PSR_OK;
}

/* ---- the list ---- */

static bool sets_size(psr_step_kind kind)
{
    return kind == PSR_STEP_RESIZE || kind == PSR_STEP_RESIZE_SHORT ||
           kind == PSR_STEP_RANDOM_RESIZED_CROP;
}

static psr_err append(psr_augment_plan *plan, psr_augment_step step)
{
    const step_rule *rule = &rules[step.kind];
    const psr_augment_step *last = plan->count > 0 ? &plan->steps[plan->count - 1] : NULL;
    if (plan->count == PSR_AUGMENT_STEPS_MAX)
        return psr_fail(PSR_ERR_USAGE, "--augment: more than %d steps", PSR_AUGMENT_STEPS_MAX);
    if (last != NULL && rules[last->kind].stage > rule->stage)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment: %s cannot follow %s, which works on what all such steps have "
                        "made; put %s before it",
                        rule->name, rules[last->kind].name, rule->name);
    const bool exact = plan->count > 0 && plan->steps[0].kind == PSR_STEP_RESIZE &&
                       plan->steps[0].as.resize.resampling == PSR_RESAMPLE_EXACT;
    if (exact && rule->stage == STAGE_BYTES && step.kind != PSR_STEP_CROP &&
        step.kind != PSR_STEP_FLIP && step.kind != PSR_STEP_CENTRE_CROP)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment: %s cannot follow an exact resize, which makes no bytes; give "
                        "resize without exact",
                        rule->name);
    if (exact && step.kind == PSR_STEP_CROP && step.as.crop.reflect)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment: a crop with reflect cannot follow an exact resize, which makes "
                        "no bytes; give resize without exact");
    for (uint32_t i = 0; i < plan->count; i++)
        step.occurrence += plan->steps[i].kind == step.kind;
    if (step.occurrence > 0 && rule->stage > STAGE_ERASING)
        return psr_fail(PSR_ERR_USAGE, "--augment: %s twice; give it once", rule->name);
    plan->steps[plan->count++] = step;
    plan->bytes += rule->stage == STAGE_BYTES;
    plan->erasing += rule->stage == STAGE_ERASING;
    plan->mixing += rule->stage == STAGE_MIXING;
    if (step.kind == PSR_STEP_REPEAT)
        plan->copies = step.as.copies;
    return PSR_OK;
}

/* Not every resampling goes with every place. */
static psr_err check_resampling(const psr_augment_plan *plan, const psr_augment_step *step)
{
    if (step->kind == PSR_STEP_RESIZE && step->as.resize.resampling == PSR_RESAMPLE_EXACT &&
        plan->count > 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment: an exact resize must be the first step; give resize without "
                        "exact");
    if ((step->kind == PSR_STEP_RESIZE_SHORT && step->as.resize.resampling == PSR_RESAMPLE_EXACT) ||
        (step->kind == PSR_STEP_RANDOM_RESIZED_CROP &&
         step->as.resized_crop.resampling == PSR_RESAMPLE_EXACT))
        return psr_fail(PSR_ERR_USAGE, "--augment: %s has no exact resampling; give %s",
                        rules[step->kind].name, rules[step->kind].usage);
    return PSR_OK;
}

static psr_err parse_list(const char *list, uint32_t image_size, psr_augment_plan *plan)
{
    for (const char *at = list;;) {
        size_t length = strcspn(at, ",");
        char text[STEP_TEXT_MAX];
        if (length == 0)
            return psr_fail(PSR_ERR_USAGE,
                            "--augment: '%.80s' has an empty step; give steps joined by commas, "
                            "like crop:32:4,flip, or none",
                            list);
        if (length >= sizeof text)
            return psr_fail(PSR_ERR_USAGE, "--augment: '%.80s' is no step", at);
        memcpy(text, at, length);
        text[length] = '\0';
        psr_augment_step step;
        PSR_TRY(parse_step(text, &step));
        if (image_size > 0 && sets_size(step.kind))
            return psr_fail(PSR_ERR_USAGE,
                            "--image-size %" PRIu32 " does not go with --augment %.200s: %s says "
                            "the size; leave --image-size out",
                            image_size, list, rules[step.kind].name);
        PSR_TRY(check_resampling(plan, &step));
        PSR_TRY(append(plan, step));
        if (at[length] == '\0')
            return PSR_OK;
        at += length + 1;
    }
}

static const struct {
    const char *name, *list;
    bool exact; /* --image-size resizes exactly, as before there were lists */
} names[] = {{"none", "", true},
             {"crop-flip", "crop,flip", true},
             {"imagenet", "random-resized-crop:224,flip", false}};

psr_err psr_augment_plan_parse(const char *text, uint32_t image_size, psr_augment_plan *ret_plan)
{
    psr_augment_plan plan = {.copies = 1};
    const char *list = text;
    bool exact = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) == 0) {
            list = names[i].list;
            exact = names[i].exact;
        }
    }
    if (image_size > 0) {
        psr_augment_step resize = {.kind = PSR_STEP_RESIZE};
        resize.as.resize.side = image_size;
        resize.as.resize.resampling = exact ? PSR_RESAMPLE_EXACT : PSR_RESAMPLE_ANTIALIAS;
        PSR_TRY(append(&plan, resize));
    }
    if (list[0] != '\0' || strcmp(text, "none") != 0)
        PSR_TRY(parse_list(list, image_size, &plan));
    *ret_plan = plan;
    return PSR_OK;
}

psr_err psr_augment_plan_of(const psr_config *config, psr_augment_plan *ret_plan)
{
    return psr_augment_plan_parse(config->augment, config->image_size, ret_plan);
}

psr_err psr_augment_check(const psr_config *config)
{
    psr_augment_plan plan;
    return psr_augment_plan_of(config, &plan);
}

/* ---- what follows from a plan ---- */

uint32_t psr_augment_evaluation_short(uint32_t side)
{
    return (uint32_t)(((uint64_t)side * 8 + 3) / 7);
}

static psr_augment_step sized(psr_step_kind kind, uint32_t side, psr_resampling resampling)
{
    psr_augment_step step = {.kind = kind};
    step.as.resize.side = side;
    step.as.resize.resampling = resampling;
    return step;
}

psr_augment_plan psr_augment_plan_evaluation(const psr_augment_plan *plan)
{
    psr_augment_step kept[2 * PSR_AUGMENT_STEPS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->bytes; i++) {
        const psr_augment_step *step = &plan->steps[i];
        switch (step->kind) {
        case PSR_STEP_RESIZE:
        case PSR_STEP_RESIZE_SHORT:
        case PSR_STEP_CENTRE_CROP:
            kept[count++] = *step;
            break;
        case PSR_STEP_CROP:
            if (step->as.crop.side > 0)
                kept[count++] =
                    sized(PSR_STEP_CENTRE_CROP, step->as.crop.side, PSR_RESAMPLE_ANTIALIAS);
            break;
        case PSR_STEP_RANDOM_RESIZED_CROP:
            kept[count++] = sized(PSR_STEP_RESIZE_SHORT,
                                  psr_augment_evaluation_short(step->as.resized_crop.side),
                                  step->as.resized_crop.resampling);
            kept[count++] =
                sized(PSR_STEP_CENTRE_CROP, step->as.resized_crop.side, PSR_RESAMPLE_ANTIALIAS);
            break;
        default:
            break;
        }
    }
    /* Of steps beyond the room only the last count, since each of them makes its own size. */
    const uint32_t skipped = count > PSR_AUGMENT_STEPS_MAX ? count - PSR_AUGMENT_STEPS_MAX : 0;
    psr_augment_plan evaluation = {.copies = 1, .count = count - skipped, .bytes = count - skipped};
    memcpy(evaluation.steps, kept + skipped, evaluation.count * sizeof kept[0]);
    return evaluation;
}

static psr_err refuse_crop(const psr_augment_step *step, psr_picture_shape shape, uint32_t least)
{
    if (shape.height == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment crop:%" PRIu32 ":%" PRIu32 ": pictures may be smaller (%" PRIu32
                        " pixels at least); put resize-short:%" PRIu32 " before it",
                        step->as.crop.side, step->as.crop.padding, least, step->as.crop.side);
    return psr_fail(PSR_ERR_USAGE,
                    "--augment crop:%" PRIu32 ":%" PRIu32 ": pictures of %" PRIu32 "x%" PRIu32
                    " with %" PRIu32 " pixels of padding are smaller; give a smaller crop",
                    step->as.crop.side, step->as.crop.padding, shape.height, shape.width,
                    step->as.crop.padding);
}

/* A picture is mirrored once at each edge. */
static psr_err check_reflection(const psr_augment_step *step, psr_picture_shape shape,
                                uint32_t least)
{
    uint32_t side = shape.height < shape.width ? shape.height : shape.width;
    if (shape.height == 0)
        side = least;
    const bool is_own = step->as.crop.side == 0;
    if ((is_own ? side / 8 : step->as.crop.padding) < side)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "--augment crop:%" PRIu32 ":%" PRIu32 ":reflect: a padding of %" PRIu32
                    " pixels cannot be the mirror image of pictures with a side of %" PRIu32
                    "; give less padding",
                    step->as.crop.side, step->as.crop.padding, step->as.crop.padding, side);
}

static psr_err refuse_shape(psr_picture_shape shape)
{
    if (shape.height == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--augment: pictures differ in size, and no step makes them equal; give "
                        "imagenet, or a list with resize:SIDE or random-resized-crop:SIDE");
    return psr_fail(PSR_ERR_USAGE,
                    "--image-size: images of %" PRIu32 "x%" PRIu32
                    " are not square, a size must be given",
                    shape.height, shape.width);
}

psr_err psr_augment_plan_side(const psr_augment_plan *plan, uint32_t channels,
                              psr_picture_shape shape, uint32_t *ret_side)
{
    uint32_t least = 1; /* of a side, where sizes vary */
    for (uint32_t i = 0; i < plan->bytes; i++) {
        const psr_augment_step *step = &plan->steps[i];
        uint32_t side = 0;
        switch (step->kind) {
        case PSR_STEP_CROP: {
            side = step->as.crop.side;
            const uint32_t room = 2 * step->as.crop.padding;
            const bool known = shape.height > 0;
            if (side == 0 && (!known || shape.height != shape.width))
                return refuse_shape(shape);
            if (side > (known ? shape.height : least) + room ||
                side > (known ? shape.width : least) + room)
                return refuse_crop(step, shape, least);
            if (step->as.crop.reflect)
                PSR_TRY(check_reflection(step, shape, least));
            break;
        }
        case PSR_STEP_RESIZE:
        case PSR_STEP_CENTRE_CROP:
            side = step->as.resize.side;
            break;
        case PSR_STEP_RANDOM_RESIZED_CROP:
            side = step->as.resized_crop.side;
            break;
        case PSR_STEP_RESIZE_SHORT:
            least = step->as.resize.side;
            if (shape.height > 0)
                shape = psr_resized_short(shape, least);
            break;
        case PSR_STEP_LIGHTING:
            if (channels != 3)
                return psr_fail(PSR_ERR_USAGE,
                                "--augment lighting: it is for pictures of three channels, and "
                                "these have %" PRIu32 "; leave it out",
                                channels);
            break;
        default:
            break;
        }
        if (side > 0)
            shape = (psr_picture_shape){side, side};
    }
    if (shape.height == 0 || shape.height != shape.width)
        return refuse_shape(shape);
    *ret_side = shape.height;
    return PSR_OK;
}

psr_picture_shape psr_resized_short(psr_picture_shape shape, uint32_t side)
{
    if (shape.height <= shape.width)
        return (psr_picture_shape){side, (uint32_t)((uint64_t)side * shape.width / shape.height)};
    return (psr_picture_shape){(uint32_t)((uint64_t)side * shape.height / shape.width), side};
}

psr_err psr_augment_side_of(const psr_config *config, uint32_t channels, psr_picture_shape shape,
                            uint32_t *ret_side)
{
    psr_augment_plan plan;
    PSR_TRY(psr_augment_plan_of(config, &plan));
    return psr_augment_plan_side(&plan, channels, shape, ret_side);
}

bool psr_augment_plan_mixes(const psr_augment_plan *plan)
{
    return plan->mixing > 0;
}
