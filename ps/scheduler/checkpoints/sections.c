#include "ps/scheduler/checkpoints/sections.h"

#include "comm/wire/compression/compression.h"
#include "data/augment/plan.h"
#include "model/loss_scale.h"
#include "model/optimizers/optimizer.h"
#include "ps/roster.h"

#include <inttypes.h>
#include <stdio.h>

const char *psr_checkpoint_file_name(psr_checkpoint_file file)
{
    static const char *const names[PSR_CHECKPOINT_FILES] = {
        [PSR_CHECKPOINT_MODEL] = "model",
        [PSR_CHECKPOINT_STATE] = "state",
        [PSR_CHECKPOINT_EMA] = "model-ema",
    };
    return names[file];
}

static psr_err name_slots(const psr_config *config, psr_sections *sections)
{
    psr_optimizer *optimizer = NULL;
    PSR_TRY(psr_optimizer_new(config, &sections->net->params, &optimizer));
    sections->slot_count = psr_optimizer_slot_count(optimizer);
    for (uint32_t i = 0; i < sections->slot_count; i++)
        snprintf(sections->slot_names[i], sizeof sections->slot_names[i], "%s",
                 psr_optimizer_slot_name(optimizer, i));
    psr_optimizer_free(optimizer);
    return PSR_OK;
}

psr_err psr_sections_init(const psr_config *config, const psr_facts *facts,
                          psr_sections *ret_sections)
{
    const psr_roster roster = psr_roster_of(config);
    psr_compression compression, pulled;
    PSR_TRY(psr_compression_parse_option("compress", config->compress, &compression));
    PSR_TRY(psr_compression_parse_option("compress-weights", config->compress_weights, &pulled));
    psr_sections sections = {.ranks = roster.ranks,
                             .computes_all_ranks = roster.computes_all_ranks,
                             .owes = psr_compression_has_residual(compression),
                             .pulls_differences = psr_compression_has_residual(pulled),
                             .has_scale = psr_config_scales_loss(config)};
    const psr_picture_shape shape = {facts->height, facts->width};
    uint32_t side;
    PSR_TRY(psr_augment_side_of(config, facts->channels, shape, &side));
    PSR_TRY(psr_network_of(config, facts->classes, facts->channels, side, side, &sections.net));
    sections.averages = psr_optimizer_ema_slot(config, &sections.ema_slot);
    psr_err err = PSR_OK;
    if (sections.net->params.count != facts->parameter_count)
        err = psr_fail(PSR_ERR_FORMAT,
                       "model %s has %zu parameters here and %" PRIu64 " at the workers",
                       config->model, sections.net->params.count, facts->parameter_count);
    if (err == PSR_OK)
        err = psr_layout_of_trained(&sections.net->params, &sections.trained);
    if (err == PSR_OK)
        err = name_slots(config, &sections);
    if (err == PSR_OK)
        err = psr_layout_add(&sections.scale, PSR_LOSS_SCALE_TENSOR, 1,
                             (uint32_t[]){PSR_LOSS_SCALE_NUMBERS});
    if (err != PSR_OK) {
        psr_sections_done(&sections);
        return err;
    }
    *ret_sections = sections;
    return PSR_OK;
}

void psr_sections_done(psr_sections *sections)
{
    psr_network_free(sections->net);
    psr_layout_done(&sections->trained);
    psr_layout_done(&sections->scale);
    *sections = (psr_sections){0};
}

/* Whether a section is one of each rank's, from first on. */
static bool is_of_rank(const psr_sections *sections, uint32_t section, uint32_t first,
                       uint32_t *ret_rank)
{
    if (section < first || section - first >= sections->ranks)
        return false;
    *ret_rank = section - first;
    return true;
}

static bool place_ema(const psr_sections *sections, uint32_t section, psr_section_place *place)
{
    if (!sections->averages)
        return false;
    place->of_ema = true;
    if (section == PSR_SECTION_EMA_BUFFERS) {
        place->file = PSR_CHECKPOINT_EMA;
        place->layout = &sections->net->buffers;
    } else if (section == PSR_SECTION_SLOT(sections->ema_slot)) {
        place->file = PSR_CHECKPOINT_EMA;
        place->layout = &sections->trained;
    } else if (is_of_rank(sections, section, PSR_SECTION_EMA_RANK(0), &place->rank)) {
        place->file = PSR_CHECKPOINT_STATE;
        place->of_statistics = true;
        place->layout = &sections->net->buffers;
        snprintf(place->prefix, sizeof place->prefix, "ema%" PRIu32 "/", place->rank);
    } else {
        place->of_ema = false;
    }
    return place->of_ema;
}

bool psr_sections_place(const psr_sections *sections, uint32_t section,
                        psr_section_place *ret_place)
{
    psr_section_place place = {.layout = &sections->net->params};
    if (place_ema(sections, section, &place)) {
        *ret_place = place;
        return true;
    }
    if (section == PSR_SECTION_BUFFERS) {
        place.layout = &sections->net->buffers;
    } else if (section == PSR_SECTION_LOSS_SCALE && sections->has_scale) {
        place.file = PSR_CHECKPOINT_STATE;
        place.of_loss_scale = true;
        place.layout = &sections->scale;
    } else if (section == PSR_SECTION_WEIGHTS && sections->pulls_differences) {
        place.file = PSR_CHECKPOINT_STATE;
        place.of_updated = true;
        snprintf(place.prefix, sizeof place.prefix, "updated/");
    } else if (sections->owes &&
               is_of_rank(sections, section, PSR_SECTION_RESIDUAL(0), &place.rank)) {
        place.file = PSR_CHECKPOINT_STATE;
        place.of_compression = true;
        place.layout = &sections->trained;
        place.worker = sections->computes_all_ranks ? 0 : place.rank;
        snprintf(place.prefix, sizeof place.prefix, "residual%" PRIu32 "/", place.rank);
    } else if (is_of_rank(sections, section, PSR_SECTION_RANK(0), &place.rank)) {
        place.file = PSR_CHECKPOINT_STATE;
        place.of_statistics = true;
        place.layout = &sections->net->buffers;
        snprintf(place.prefix, sizeof place.prefix, "rank%" PRIu32 "/", place.rank);
    } else if (section >= PSR_SECTION_SLOT(0) &&
               section - PSR_SECTION_SLOT(0) < sections->slot_count) {
        place.file = PSR_CHECKPOINT_STATE;
        place.layout = &sections->trained;
        snprintf(place.prefix, sizeof place.prefix, "%s/",
                 sections->slot_names[section - PSR_SECTION_SLOT(0)]);
    } else if (section !=
               (sections->pulls_differences ? PSR_SECTION_PULLED : PSR_SECTION_WEIGHTS)) {
        return false;
    }
    *ret_place = place;
    return true;
}

bool psr_sections_at(const psr_sections *sections, uint32_t i, uint32_t *ret_section)
{
    const struct {
        uint32_t first, count;
    } runs[] = {
        {sections->pulls_differences ? PSR_SECTION_PULLED : PSR_SECTION_WEIGHTS, 1},
        {PSR_SECTION_BUFFERS, 1},
        {PSR_SECTION_WEIGHTS, sections->pulls_differences},
        {PSR_SECTION_SLOT(0), sections->slot_count},
        {PSR_SECTION_RANK(0), sections->ranks},
        {PSR_SECTION_RESIDUAL(0), sections->owes ? sections->ranks : 0},
        {PSR_SECTION_LOSS_SCALE, sections->has_scale},
        {PSR_SECTION_EMA_BUFFERS, sections->averages},
        {PSR_SECTION_EMA_RANK(0), sections->averages ? sections->ranks : 0},
    };
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; i -= runs[r++].count)
        if (i < runs[r].count) {
            *ret_section = runs[r].first + i;
            return true;
        }
    return false;
}
