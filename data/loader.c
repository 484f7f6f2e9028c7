/* Vocabulary: a ticket is the number of a batch since the loader began: 0, 1, .. A slot holds one
 * batch, and ticket t always goes to slot t mod slots. Threads draw tickets in order and fill their
 * slots in any order. The consumer takes slots in the order of tickets.
 *
 * There are two locks. plan_lock protects the drawing of tickets: epoch, step and the epoch's
 * share. Its holder may wait for the ticket's slot to be returned, since no other thread could draw
 * a ticket then either. lock protects the states of the slots. It is held for a few instructions
 * only, so the consumer never waits behind a shuffle. */
#include "data/loader.h"

#include "base/arrays/arena.h"
#include "base/clock.h"
#include "data/augment/augmenter.h"
#include "data/augment/mix.h"
#include "base/system/thread.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_LENT } slot_state;

enum { LENT_MAX = 2 };

typedef struct batch_slot {
    psr_loader_batch batch; /* what the consumer gets; its pointers are those below */
    float *images;          /* or, in that memory, bytes */
    psr_byte_image *placed; /* bytes alone, as the next */
    psr_byte_images bytes;
    uint32_t *labels, *samples, *second_labels; /* the last: NULL without mixing, as shares */
    float *shares;
    slot_state state;
    psr_err err;  /* why it could not be filled */
    char *detail; /* of err; owned */
} batch_slot;

/* What a thread of the loader works with. */
typedef struct filler {
    psr_loader *loader;
    pthread_t thread;
    psr_picture_scratch pictures;
    psr_augment_scratch augment;
    float *partner; /* [C, S, S]; owned; NULL: nothing is mixed */
} filler;

struct psr_loader {
    const psr_dataset *dataset;
    psr_loader_options options;
    psr_augment_plan plan;
    psr_augmenter *augmenter;
    bool gives_bytes;
    size_t image_values; /* of an image: floats or bytes */
    size_t batch_floats; /* of a slot's memory for images */
    /* the sampler of the epoch that is planned, and of the one that the consumer takes */
    psr_sampler planned, taken;

    batch_slot *slots;
    uint32_t slot_count;
    filler *fillers;       /* [options.threads] */
    uint32_t thread_count; /* of them started so far */

    pthread_mutex_t plan_lock;
    uint64_t next_ticket;
    uint32_t plan_epoch, plan_step;
    bool plan_drawn; /* share is that of plan_epoch */
    uint32_t *order, *share;

    pthread_mutex_t lock;
    pthread_cond_t freed, filled;
    atomic_bool stopping; /* written under lock, read anywhere */

    /* the consumer's alone */
    uint64_t taken_ticket;
    uint32_t taken_epoch, taken_step;
    double waited_s;
    uint64_t wait_count;
};

/* Waits until the slot of the next ticket is free. False: the loader ends. plan_lock is held. */
static bool await_free_slot(psr_loader *loader, batch_slot *slot)
{
    pthread_mutex_lock(&loader->lock);
    while (slot->state != SLOT_FREE && !loader->stopping)
        pthread_cond_wait(&loader->freed, &loader->lock);
    bool go = !loader->stopping;
    if (go)
        slot->state = SLOT_FILLING;
    pthread_mutex_unlock(&loader->lock);
    return go;
}

/* Draws the next ticket: its slot, epoch, step and samples. NULL: there are no more tickets, or the
 * loader ends. */
static batch_slot *draw_ticket(psr_loader *loader)
{
    const psr_sampler *sampler = &loader->planned;
    batch_slot *drawn = NULL;
    pthread_mutex_lock(&loader->plan_lock);
    if (loader->plan_epoch >= loader->options.last_epoch)
        goto out;
    if (!loader->plan_drawn) {
        psr_sampler_order(sampler, loader->plan_epoch, loader->order);
        psr_sampler_select(sampler, loader->order, loader->options.rank, loader->share);
        loader->plan_drawn = true;
    }
    batch_slot *next = &loader->slots[loader->next_ticket % loader->slot_count];
    if (!await_free_slot(loader, next))
        goto out;
    drawn = next;
    psr_loader_batch *batch = &drawn->batch;
    batch->epoch = loader->plan_epoch;
    batch->step = loader->plan_step;
    batch->count = psr_sampler_batch(sampler, loader->options.rank, batch->step);
    batch->global_count = psr_sampler_global_batch(sampler, batch->step);
    if (batch->count > 0)
        memcpy(drawn->samples, loader->share + (size_t)batch->step * sampler->batch_size,
               batch->count * sizeof *drawn->samples);
    loader->next_ticket++;
    if (++loader->plan_step == psr_sampler_steps(sampler)) {
        loader->plan_step = 0;
        loader->plan_epoch++;
        loader->plan_drawn = false;
        loader->planned.used = 0;
    }
out:
    pthread_mutex_unlock(&loader->plan_lock);
    return drawn;
}

/* Gives of a picture what the first step reads. */
static psr_err get_part(filler *f, const psr_augment_key *key, uint32_t sample,
                        psr_picture *ret_picture, bool *ret_is_part)
{
    const psr_picture_source *source = f->loader->dataset->source;
    psr_picture_shape shape;
    psr_box box;
    PSR_TRY(psr_picture_source_size(source, sample, &f->pictures, &shape.height, &shape.width));
    *ret_is_part = psr_augmenter_part(f->loader->augmenter, key, shape, &box);
    if (!*ret_is_part)
        return psr_picture_source_get(source, sample, NULL, &f->pictures, ret_picture);
    const uint32_t side = psr_augmenter_part_side(f->loader->augmenter);
    const psr_picture_part part = {box.top, box.left, box.height, box.width, side, side};
    return psr_picture_source_get(source, sample, &part, &f->pictures, ret_picture);
}

/* Makes the image of a key. *ret_label: its sample's. */
static psr_err make_image(filler *f, const psr_augment_key *key, float *image, uint32_t *ret_label)
{
    psr_picture picture;
    bool is_part = false;
    PSR_TRY(get_part(f, key, key->sample, &picture, &is_part));
    *ret_label = f->loader->dataset->labels[key->sample];
    return psr_augmenter_image(f->loader->augmenter, key, &picture, is_part, &f->augment, image);
}

/* Makes image number i of a slot as bytes. */
static psr_err make_bytes(filler *f, batch_slot *slot, uint32_t i, const psr_augment_key *key)
{
    psr_picture picture;
    bool is_part = false;
    PSR_TRY(get_part(f, key, key->sample, &picture, &is_part));
    slot->labels[i] = f->loader->dataset->labels[key->sample];
    return psr_augmenter_bytes(f->loader->augmenter, key, &picture, is_part, &f->augment,
                               (uint8_t *)slot->images + i * f->loader->image_values,
                               &slot->placed[i]);
}

/* Mixes image number i of a slot with its partner. */
static psr_err mix_image(filler *f, batch_slot *slot, uint32_t i, const psr_augment_key *key)
{
    const psr_loader *loader = f->loader;
    const uint32_t side = psr_augmenter_size(loader->augmenter);
    const psr_mix mix = psr_draw_mix(&loader->plan, key, loader->dataset->count, side);
    const psr_augment_key partner = {.seed = key->seed, .epoch = key->epoch, .sample = mix.partner};
    PSR_TRY(make_image(f, &partner, f->partner, &slot->second_labels[i]));
    psr_mix_apply(&mix, loader->dataset->channels, side, slot->images + i * loader->image_values,
                  f->partner);
    slot->shares[i] = mix.share;
    return PSR_OK;
}

static psr_err fill_slot(filler *f, batch_slot *slot)
{
    const psr_loader_batch *batch = &slot->batch;
    psr_loader *loader = f->loader;
    const psr_sampler *sampler = &loader->options.sampler;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (atomic_load_explicit(&loader->stopping, memory_order_relaxed))
            return PSR_OK;
        const psr_augment_key key = {
            .seed = sampler->seed,
            .epoch = batch->epoch,
            .sample = slot->samples[i],
            .copy = psr_sampler_copy(sampler, loader->options.rank,
                                     batch->step * sampler->batch_size + i),
        };
        if (i + 1 < batch->count)
            psr_picture_source_prefetch(loader->dataset->source, slot->samples[i + 1]);
        if (loader->gives_bytes)
            PSR_TRY(make_bytes(f, slot, i, &key));
        else
            PSR_TRY(make_image(f, &key, slot->images + i * loader->image_values, &slot->labels[i]));
        if (slot->shares != NULL)
            PSR_TRY(mix_image(f, slot, i, &key));
    }
    return PSR_OK;
}

static void *thread_main(void *argument)
{
    filler *f = argument;
    psr_loader *loader = f->loader;
    batch_slot *slot;
    while ((slot = draw_ticket(loader)) != NULL) {
        slot->err = fill_slot(f, slot);
        if (slot->err != PSR_OK)
            slot->detail = strdup(psr_err_detail()); /* details belong to a thread */
        pthread_mutex_lock(&loader->lock);
        slot->state = SLOT_READY;
        pthread_cond_signal(&loader->filled);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

static psr_err check_options(const psr_loader_options *options)
{
    const psr_sampler *sampler = &options->sampler;
    assert(sampler->workers > 0 && sampler->batch_size > 0 && options->rank < sampler->workers);
    assert(options->threads > 0 && options->depth > 1);
    uint32_t steps = psr_sampler_steps(sampler);
    if (steps == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--workers: %" PRIu32 " samples give %" PRIu32
                        " workers none each (with --partition drop), "
                        "should be at most %" PRIu32 " workers",
                        sampler->count, sampler->workers, sampler->count);
    if (options->first_step > steps)
        return psr_fail(PSR_ERR_USAGE,
                        "step %" PRIu32 " of epoch %" PRIu32 " to begin with: an epoch has %" PRIu32
                        " steps",
                        options->first_step + 1, options->first_epoch + 1, steps);
    return PSR_OK;
}

static psr_err allocate_filler(psr_loader *loader, filler *f)
{
    const size_t scratch_bytes = loader->dataset->source->scratch_bytes;
    uint8_t *scratch = NULL;
    f->loader = loader;
    if (scratch_bytes > 0)
        PSR_TRY(psr_scratch_bytes(&f->pictures, scratch_bytes, &scratch));
    if (!psr_augment_plan_mixes(&loader->plan))
        return PSR_OK;
    f->partner = malloc(loader->image_values * sizeof *f->partner);
    return f->partner != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory to mix images");
}

/* A slot's images: floats, or bytes with what is said of each image. */
static psr_err allocate_images(psr_loader *loader, batch_slot *slot, uint32_t most)
{
    PSR_TRY(psr_arena_new(loader->batch_floats, &slot->images));
    if (!loader->gives_bytes) {
        slot->batch.images = slot->images;
        return PSR_OK;
    }
    slot->placed = calloc(most + 1u, sizeof *slot->placed);
    if (slot->placed == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to load batches of %" PRIu32 " images", most);
    slot->bytes = (psr_byte_images){.bytes = (const uint8_t *)slot->images,
                                    .images = slot->placed,
                                    .values = psr_augmenter_values(loader->augmenter)};
    slot->batch.bytes = &slot->bytes;
    return PSR_OK;
}

static psr_err allocate(psr_loader *loader)
{
    psr_sampler whole = loader->options.sampler;
    whole.used = 0; /* what is left of the first epoch is less */
    const psr_sampler *sampler = &whole;
    uint32_t most = psr_sampler_batch(sampler, loader->options.rank, 0);
    uint32_t share = psr_sampler_share(sampler, loader->options.rank);
    size_t side = psr_augmenter_size(loader->augmenter);
    loader->image_values = loader->dataset->channels * side * side;
    loader->gives_bytes = loader->options.wants_bytes && !psr_augment_plan_mixes(&loader->plan) &&
                          psr_augmenter_gives_bytes(loader->augmenter);
    loader->batch_floats = most * loader->image_values;
    if (loader->gives_bytes)
        loader->batch_floats = (loader->batch_floats + sizeof(float) - 1) / sizeof(float);
    loader->slot_count = loader->options.depth + LENT_MAX;
    loader->slots = calloc(loader->slot_count, sizeof *loader->slots);
    loader->fillers = calloc(loader->options.threads, sizeof *loader->fillers);
    loader->order = malloc((sampler->count + 1u) * sizeof *loader->order);
    loader->share = malloc((share + 1u) * sizeof *loader->share);
    if (loader->slots == NULL || loader->fillers == NULL || loader->order == NULL ||
        loader->share == NULL)
        goto no_memory;
    for (uint32_t i = 0; i < loader->options.threads; i++)
        PSR_TRY(allocate_filler(loader, &loader->fillers[i]));
    for (uint32_t i = 0; i < loader->slot_count; i++) {
        batch_slot *slot = &loader->slots[i];
        PSR_TRY(allocate_images(loader, slot, most));
        slot->labels = malloc((most + 1u) * sizeof *slot->labels);
        slot->samples = malloc((most + 1u) * sizeof *slot->samples);
        if (slot->labels == NULL || slot->samples == NULL)
            goto no_memory;
        if (psr_augment_plan_mixes(&loader->plan)) {
            slot->second_labels = malloc((most + 1u) * sizeof *slot->second_labels);
            slot->shares = malloc((most + 1u) * sizeof *slot->shares);
            if (slot->second_labels == NULL || slot->shares == NULL)
                goto no_memory;
        }
        slot->batch.labels = slot->labels;
        slot->batch.samples = slot->samples;
        slot->batch.second_labels = slot->second_labels;
        slot->batch.shares = slot->shares;
    }
    return PSR_OK;
no_memory:
    return psr_fail(PSR_ERR_NOMEM, "no memory to load batches of %" PRIu32 " images", most);
}

static psr_err start_threads(psr_loader *loader)
{
    for (; loader->thread_count < loader->options.threads; loader->thread_count++) {
        filler *f = &loader->fillers[loader->thread_count];
        PSR_TRY(psr_thread_start("psr-loader", thread_main, f, &f->thread));
    }
    return PSR_OK;
}

psr_err psr_loader_new(const psr_dataset *dataset, const psr_loader_options *options,
                       psr_loader **ret_loader)
{
    PSR_TRY(check_options(options));
    assert(options->sampler.count == dataset->count);
    psr_loader *loader = calloc(1, sizeof *loader);
    if (loader == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a loader");
    loader->dataset = dataset;
    loader->options = *options;
    loader->plan = *options->plan;
    loader->options.plan = &loader->plan;
    loader->options.sampler.copies = loader->plan.copies;
    loader->planned = loader->options.sampler;
    bool epoch_over = options->first_step == psr_sampler_steps(&options->sampler);
    if (epoch_over)
        loader->planned.used = 0;
    loader->taken = loader->planned;
    loader->plan_epoch = loader->taken_epoch = options->first_epoch + epoch_over;
    loader->plan_step = loader->taken_step = epoch_over ? 0 : options->first_step;
    pthread_mutex_init(&loader->plan_lock, NULL);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->freed, NULL);
    pthread_cond_init(&loader->filled, NULL);
    psr_err err = psr_augmenter_new(dataset, &loader->plan, &loader->augmenter);
    if (err == PSR_OK)
        err = allocate(loader);
    if (err == PSR_OK)
        err = start_threads(loader);
    if (err != PSR_OK) {
        psr_loader_free(loader);
        return err;
    }
    *ret_loader = loader;
    return PSR_OK;
}

void psr_loader_free(psr_loader *loader)
{
    if (loader == NULL)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stopping = true;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->lock);
    for (uint32_t i = 0; i < loader->thread_count; i++)
        pthread_join(loader->fillers[i].thread, NULL);
    for (uint32_t i = 0; loader->fillers != NULL && i < loader->options.threads; i++) {
        psr_scratch_done(&loader->fillers[i].pictures);
        psr_augment_scratch_done(&loader->fillers[i].augment);
        free(loader->fillers[i].partner);
    }
    pthread_cond_destroy(&loader->filled);
    pthread_cond_destroy(&loader->freed);
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->plan_lock);
    for (uint32_t i = 0; loader->slots != NULL && i < loader->slot_count; i++) {
        psr_arena_free(loader->slots[i].images, loader->batch_floats);
        free(loader->slots[i].placed);
        free(loader->slots[i].labels);
        free(loader->slots[i].samples);
        free(loader->slots[i].second_labels);
        free(loader->slots[i].shares);
        free(loader->slots[i].detail);
    }
    free(loader->slots);
    free(loader->fillers);
    free(loader->order);
    free(loader->share);
    psr_augmenter_free(loader->augmenter);
    free(loader);
}

bool psr_loader_gives_bytes(const psr_loader *loader)
{
    return loader->gives_bytes;
}

const psr_loader_batch *psr_loader_peek(psr_loader *loader)
{
    batch_slot *slot = &loader->slots[loader->taken_ticket % loader->slot_count];
    if (loader->taken_epoch >= loader->options.last_epoch)
        return NULL;
    pthread_mutex_lock(&loader->lock);
    const bool ready = slot->state == SLOT_READY && slot->err == PSR_OK;
    pthread_mutex_unlock(&loader->lock);
    return ready ? &slot->batch : NULL;
}

psr_err psr_loader_next(psr_loader *loader, const psr_loader_batch **ret_batch)
{
    if (loader->taken_epoch >= loader->options.last_epoch)
        return psr_fail(PSR_ERR_NOT_FOUND, "no more batches: the last epoch is %" PRIu32,
                        loader->options.last_epoch - 1);
    batch_slot *slot = &loader->slots[loader->taken_ticket % loader->slot_count];
    pthread_mutex_lock(&loader->lock);
    assert(slot->state != SLOT_LENT); /* every slot is lent, so no batch could ever come */
    if (slot->state != SLOT_READY) {
        double began_s = psr_clock_s();
        while (slot->state != SLOT_READY)
            pthread_cond_wait(&loader->filled, &loader->lock);
        loader->waited_s += psr_clock_s() - began_s;
        loader->wait_count++;
    }
    if (slot->err == PSR_OK)
        slot->state = SLOT_LENT;
    pthread_mutex_unlock(&loader->lock);
    if (slot->err != PSR_OK) /* and it stays so: the loader gives no more batches */
        return psr_fail(slot->err, "%s", slot->detail != NULL ? slot->detail : "no memory");
    loader->taken_ticket++;
    if (++loader->taken_step == psr_sampler_steps(&loader->taken)) {
        loader->taken_step = 0;
        loader->taken_epoch++;
        loader->taken.used = 0;
    }
    *ret_batch = &slot->batch;
    return PSR_OK;
}

void psr_loader_return(psr_loader *loader, const psr_loader_batch *batch)
{
    for (uint32_t i = 0; i < loader->slot_count; i++) {
        batch_slot *slot = &loader->slots[i];
        if (&slot->batch != batch)
            continue;
        pthread_mutex_lock(&loader->lock);
        assert(slot->state == SLOT_LENT);
        slot->state = SLOT_FREE;
        pthread_cond_broadcast(&loader->freed);
        pthread_mutex_unlock(&loader->lock);
        return;
    }
    assert(!"a batch of this loader");
}

void psr_loader_waits(const psr_loader *loader, double *ret_seconds, uint64_t *ret_count)
{
    *ret_seconds = loader->waited_s;
    *ret_count = loader->wait_count;
}
