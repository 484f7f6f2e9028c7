#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/augment/augmenter.h"
#include "data/loader.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The linker sends every allocation of this program and of the libraries in it here (--wrap). */
static atomic_uint_fast64_t allocations;

#define COUNTED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        atomic_fetch_add(&allocations, 1);                                                         \
        return __real_##name arguments;                                                            \
    }
COUNTED(void *, malloc, (size_t size), (size))
COUNTED(void *, calloc, (size_t count, size_t size), (count, size))
COUNTED(void *, realloc, (void *old, size_t size), (old, size))
COUNTED(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
COUNTED(int, posix_memalign, (void **ret, size_t alignment, size_t size), (ret, alignment, size))
COUNTED(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
        (at, size, protection, flags, fd, offset))

enum { COUNT = 103, SIDE = 16, IMAGE = 3 * SIDE * SIDE };

static const psr_dataset *dataset_new(void **state)
{
    psr_dataset *dataset = NULL;
    assert_int_equal(
        psr_dataset_open("synthetic:count=103,test=1,size=16", PSR_SPLIT_TRAIN, &dataset), PSR_OK);
    *state = dataset;
    return dataset;
}

static int dataset_teardown(void **state)
{
    psr_dataset_free(*state);
    return 0;
}

static const psr_augment_plan *plan_of(const char *list)
{
    static psr_augment_plan plan;
    assert_int_equal(psr_augment_plan_parse(list, 0, &plan), PSR_OK);
    return &plan;
}

static psr_loader_options options_of(uint32_t threads)
{
    return (psr_loader_options){
        .sampler = {.seed = 7,
                    .count = COUNT,
                    .workers = 3,
                    .batch_size = 10,
                    .partition = PSR_PARTITION_EXACT,
                    .shuffle = true},
        .rank = 1,
        .plan = plan_of("crop-flip"),
        .threads = threads,
        .depth = 3,
        .last_epoch = UINT32_MAX,
    };
}

static psr_loader *loader_of(const psr_dataset *dataset, psr_loader_options options)
{
    psr_loader *loader = NULL;
    assert_int_equal(psr_loader_new(dataset, &options, &loader), PSR_OK);
    return loader;
}

/* Image number i of a batch, by the augmenter alone. */
static void assert_image(const psr_augmenter *augmenter, const psr_augment_key *key,
                         const psr_picture *picture, const psr_loader_batch *batch, uint32_t i)
{
    psr_augment_scratch memory = {0};
    if (batch->bytes != NULL) {
        uint8_t bytes[IMAGE];
        psr_byte_image image;
        assert_int_equal(
            psr_augmenter_bytes(augmenter, key, picture, false, &memory, bytes, &image), PSR_OK);
        assert_memory_equal(&batch->bytes->images[i], &image, sizeof image);
        assert_memory_equal(batch->bytes->bytes + (size_t)i * IMAGE, bytes,
                            (size_t)3 * image.place.height * image.place.width);
    } else {
        float image[IMAGE];
        assert_int_equal(psr_augmenter_image(augmenter, key, picture, false, &memory, image),
                         PSR_OK);
        assert_memory_equal(batch->images + (size_t)i * IMAGE, image, sizeof image);
    }
    psr_augment_scratch_done(&memory);
}

/* What the batch of (epoch, step) must hold, by the sampler and the augmenter alone. */
static void assert_batch(const psr_dataset *dataset, const psr_loader_options *options,
                         const psr_loader_batch *batch, uint32_t epoch, uint32_t step)
{
    uint32_t order[COUNT], share[COUNT];
    psr_augmenter *augmenter = NULL;
    assert_int_equal(batch->epoch, epoch);
    assert_int_equal(batch->step, step);
    assert_int_equal(batch->count, psr_sampler_batch(&options->sampler, options->rank, step));
    assert_true((batch->bytes == NULL) == !options->wants_bytes);
    assert_true((batch->images == NULL) == options->wants_bytes);
    assert_int_equal((uintptr_t)batch->images % 64, 0);
    assert_int_equal(psr_augmenter_new(dataset, options->plan, &augmenter), PSR_OK);
    if (batch->bytes != NULL)
        assert_memory_equal(batch->bytes->values, psr_augmenter_values(augmenter),
                            3 * PSR_BYTE_VALUES * sizeof(float));
    psr_sampler_order(&options->sampler, epoch, order);
    psr_sampler_select(&options->sampler, order, options->rank, share);
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t sample = share[step * options->sampler.batch_size + i];
        assert_int_equal(batch->samples[i], sample);
        assert_int_equal(batch->labels[i], dataset->labels[sample]);
        psr_picture picture;
        psr_picture_scratch scratch = {0};
        assert_int_equal(psr_picture_source_get(dataset->source, sample, NULL, &scratch, &picture),
                         PSR_OK);
        const psr_augment_key key = {
            .seed = options->sampler.seed, .epoch = epoch, .sample = sample};
        assert_image(augmenter, &key, &picture, batch, i);
        psr_scratch_done(&scratch);
    }
    psr_augmenter_free(augmenter);
}

static void batches_are_the_same_with_1_2_4_and_9_threads(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    static const uint32_t threads[] = {1, 2, 4, 9};
    for (int t = 0; t < 8; t++) {
        psr_loader_options options = options_of(threads[t / 2]);
        options.wants_bytes = t % 2 == 1;
        psr_loader *loader = loader_of(dataset, options);
        assert_int_equal(psr_loader_gives_bytes(loader), options.wants_bytes);
        uint32_t steps = psr_sampler_steps(&options.sampler);
        for (uint32_t i = 0; i < 5 * steps; i++) {
            const psr_loader_batch *batch = NULL;
            assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
            assert_batch(dataset, &options, batch, i / steps, i % steps);
            psr_loader_return(loader, batch);
        }
        psr_loader_free(loader);
    }
}

static void all_ranks_take_the_same_steps_and_the_last_may_be_empty(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    uint32_t total = 0, uses[COUNT] = {0};
    for (uint32_t rank = 0; rank < 3; rank++) {
        psr_loader_options options = options_of(2);
        options.rank = rank;
        options.sampler.batch_size = 17; /* shares of 35 34 34: steps of 17 17 1 and 17 17 0 */
        options.last_epoch = 1;
        psr_loader *loader = loader_of(dataset, options);
        const psr_loader_batch *batch = NULL;
        for (uint32_t step = 0; step < 3; step++) {
            assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
            assert_int_equal(batch->count, step < 2 ? 17 : rank == 0 ? 1 : 0);
            assert_batch(dataset, &options, batch, 0, step);
            for (uint32_t i = 0; i < batch->count; i++, total++)
                uses[batch->samples[i]]++;
            psr_loader_return(loader, batch);
        }
        assert_int_equal(psr_loader_next(loader, &batch), PSR_ERR_NOT_FOUND);
        assert_string_equal(psr_err_detail(), "no more batches: the last epoch is 0");
        psr_loader_free(loader);
    }
    assert_int_equal(total, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(uses[i], 1);
}

static void a_resumed_loader_goes_on_where_another_stopped(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(3);
    uint32_t steps = psr_sampler_steps(&options.sampler);
    for (uint32_t first_step = 0; first_step <= steps; first_step++) {
        options.first_epoch = 2;
        options.first_step = first_step;
        options.last_epoch = 4;
        psr_loader *loader = loader_of(dataset, options);
        const psr_loader_batch *batch = NULL;
        for (uint32_t i = first_step; i < 2 * steps; i++) {
            assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
            assert_batch(dataset, &options, batch, 2 + i / steps, i % steps);
            psr_loader_return(loader, batch);
        }
        assert_int_equal(psr_loader_next(loader, &batch), PSR_ERR_NOT_FOUND);
        psr_loader_free(loader);
    }
}

static void a_lent_batch_stays_while_others_come(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(4);
    psr_loader *loader = loader_of(dataset, options);
    const psr_loader_batch *kept = NULL, *batch = NULL;
    uint32_t steps = psr_sampler_steps(&options.sampler);
    assert_int_equal(psr_loader_next(loader, &kept), PSR_OK);
    for (uint32_t i = 1; i < options.depth + 2; i++) { /* as many as there are slots:
                                                          then kept's is due */
        assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
        assert_batch(dataset, &options, batch, i / steps, i % steps);
        assert_batch(dataset, &options, kept, 0, 0);
        psr_loader_return(loader, batch);
    }
    psr_loader_return(loader, kept);
    assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
    assert_batch(dataset, &options, batch, (options.depth + 2) / steps,
                 (options.depth + 2) % steps);
    psr_loader_return(loader, batch);
    psr_loader_free(loader);
}

static void a_loader_ends_while_its_threads_work(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    for (uint32_t i = 0; i < 200; i++) {
        psr_loader_options options = options_of(1 + i % 5);
        options.depth = 2 + i % 3;
        psr_loader *loader = loader_of(dataset, options);
        const psr_loader_batch *batch = NULL;
        for (uint32_t k = 0; k < i % 4; k++) {
            assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
            if (k + 1 < i % 4) /* the last one stays lent */
                psr_loader_return(loader, batch);
        }
        psr_loader_free(loader);
    }
    psr_loader_free(NULL);
}

static void waits_are_counted(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader *loader = loader_of(dataset, options_of(1));
    double seconds = -1, more_seconds = 0;
    uint64_t count = 99, more_count = 0;
    psr_loader_waits(loader, &seconds, &count);
    assert_true(seconds == 0 && count == 0);
    /* A consumer that does nothing else must wait for a single thread sooner or later. */
    uint64_t batches = 0;
    for (; more_count == 0; batches++) {
        const psr_loader_batch *batch = NULL;
        assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
        psr_loader_return(loader, batch);
        psr_loader_waits(loader, &more_seconds, &more_count);
    }
    assert_true(more_seconds > 0);
    assert_in_range(more_count, 1, batches);
    psr_loader_free(loader);
}

static void a_steady_step_allocates_nothing(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    uint64_t before = atomic_load(&allocations), started = 0;
    psr_loader *loader = loader_of(dataset, options_of(2));
    for (uint32_t i = 0; i < 300; i++) {
        const psr_loader_batch *batch = NULL;
        assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
        psr_loader_return(loader, batch);
        if (i == 0)
            started = atomic_load(&allocations);
    }
    assert_true(started > before); /* they are counted at all */
    assert_int_equal(atomic_load(&allocations), started);
    psr_loader_free(loader);
}

static void a_loader_that_would_never_give_a_sample_is_refused(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(1);
    psr_loader *loader = NULL;
    options.sampler.workers = COUNT + 1;
    options.sampler.partition = PSR_PARTITION_DROP;
    assert_int_equal(psr_loader_new(dataset, &options, &loader), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "--workers: 103 samples give 104 workers none each (with "
                                          "--partition drop), should be at most 103 workers");
    assert_null(loader);
}

static void a_first_step_beyond_the_epoch_is_refused(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(1);
    psr_loader *loader = NULL;
    options.first_epoch = 1;
    options.first_step = 5;
    assert_int_equal(psr_loader_new(dataset, &options, &loader), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "step 6 of epoch 2 to begin with: an epoch has 4 steps");
    assert_null(loader);
}

static void a_list_that_does_not_fit_the_pictures_is_refused(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(1);
    psr_loader *loader = NULL;
    options.plan = plan_of("crop:32:4");
    assert_int_equal(psr_loader_new(dataset, &options, &loader), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--augment crop:32:4: pictures of 16x16 with 4 pixels of padding are "
                        "smaller; give a smaller crop");
    assert_null(loader);
}

/* Image number i of a batch that rank 1 of 3 got equals what a single process gets of the same
 * sample and copy. */
static void assert_same_of_all(const psr_loader_batch *part, uint32_t i,
                               const psr_loader_batch *whole, uint32_t position)
{
    assert_int_equal(part->samples[i], whole->samples[position]);
    assert_int_equal(part->labels[i], whole->labels[position]);
    assert_int_equal(part->second_labels[i], whole->second_labels[position]);
    assert_true(part->shares[i] == whole->shares[position]);
    assert_memory_equal(part->images + (size_t)i * IMAGE, whole->images + (size_t)position * IMAGE,
                        IMAGE * sizeof(float));
}

static void mixed_pictures_do_not_depend_on_the_number_of_workers(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(2), alone = options_of(1);
    options.plan = alone.plan =
        plan_of("crop:16:2,flip,colour-jitter:0.4:0.4,cutout:4,mixup:0.4,cutmix:1,repeat:2");
    alone.sampler.workers = 1;
    alone.sampler.batch_size = 3 * options.sampler.batch_size;
    alone.rank = 0;
    psr_loader *part = loader_of(dataset, options), *whole = loader_of(dataset, alone);
    bool differ = false;
    for (uint32_t step = 0; step < 3; step++) {
        const psr_loader_batch *ours, *all;
        assert_int_equal(psr_loader_next(part, &ours), PSR_OK);
        assert_int_equal(psr_loader_next(whole, &all), PSR_OK);
        for (uint32_t i = 0; i < ours->count; i++)
            assert_same_of_all(ours, i, all, 3 * i + options.rank);
        /* two copies of one sample stand beside each other */
        assert_int_equal(all->samples[0], all->samples[1]);
        differ |= memcmp(all->images, all->images + IMAGE, IMAGE * sizeof(float)) != 0;
        psr_loader_return(part, ours);
        psr_loader_return(whole, all);
    }
    assert_true(differ);
    psr_loader_free(part);
    psr_loader_free(whole);
}

static void the_next_batch_can_be_seen_before_it_is_lent(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_loader_options options = options_of(2);
    options.last_epoch = 1;
    psr_loader *loader = loader_of(dataset, options);
    const uint32_t steps = psr_sampler_steps(&options.sampler);
    for (uint32_t step = 0; step < steps; step++) {
        const psr_loader_batch *seen, *batch;
        while ((seen = psr_loader_peek(loader)) == NULL)
            sched_yield(); /* until its threads have made it */
        assert_ptr_equal(psr_loader_peek(loader), seen);
        assert_batch(dataset, &options, seen, 0, step);
        assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
        assert_ptr_equal(batch, seen);
        psr_loader_return(loader, batch);
    }
    assert_null(psr_loader_peek(loader));
    psr_loader_free(loader);
}

static void what_is_mixed_or_resized_exactly_is_given_as_floats(void **state)
{
    const psr_dataset *dataset = dataset_new(state);
    psr_augment_plan plans[2];
    assert_int_equal(psr_augment_plan_parse("flip,mixup:0.4", 0, &plans[0]), PSR_OK);
    assert_int_equal(psr_augment_plan_parse("crop-flip", 24, &plans[1]), PSR_OK);
    for (int i = 0; i < 2; i++) {
        psr_loader_options options = options_of(1);
        const psr_loader_batch *batch;
        options.plan = &plans[i];
        options.wants_bytes = true;
        psr_loader *loader = loader_of(dataset, options);
        assert_false(psr_loader_gives_bytes(loader));
        assert_int_equal(psr_loader_next(loader, &batch), PSR_OK);
        assert_null(batch->bytes);
        assert_non_null(batch->images);
        psr_loader_return(loader, batch);
        psr_loader_free(loader);
    }
}

/* ---- broken pictures ---- */

/* Samples 5, 6 and 40 are broken. */
static psr_err give_some(const psr_picture_source *source, uint32_t i, const psr_picture_part *part,
                         psr_picture_scratch *scratch, psr_picture *ret_picture)
{
    if (i == 5 || i == 6 || i == 40)
        return psr_fail(PSR_ERR_FORMAT, "picture %u: broken", i);
    return psr_picture_source_get(source->state, i, part, scratch, ret_picture);
}

static void a_broken_picture_ends_the_loading_by_its_name(void **state)
{
    static const psr_picture_source_kind kind = {.name = "broken", .picture = give_some};
    const psr_dataset *dataset = dataset_new(state);
    psr_picture_source source = *dataset->source;
    psr_dataset broken = *dataset;
    psr_loader_options options = options_of(2);
    source.kind = &kind;
    source.state = dataset->source;
    broken.source = &source;
    options.sampler.workers = 1;
    options.rank = 0;
    options.plan = plan_of("none");
    psr_loader *loader = loader_of(&broken, options);
    const psr_loader_batch *batch = NULL;
    psr_err err;
    while ((err = psr_loader_next(loader, &batch)) == PSR_OK)
        psr_loader_return(loader, batch);
    assert_int_equal(err, PSR_ERR_FORMAT);
    assert_non_null(strstr(psr_err_detail(), "picture "));
    assert_int_equal(psr_loader_next(loader, &batch), PSR_ERR_FORMAT); /* and again */
    psr_loader_free(loader);
}

#define with_dataset(test) cmocka_unit_test_teardown(test, dataset_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_dataset(batches_are_the_same_with_1_2_4_and_9_threads),
        with_dataset(all_ranks_take_the_same_steps_and_the_last_may_be_empty),
        with_dataset(a_resumed_loader_goes_on_where_another_stopped),
        with_dataset(a_lent_batch_stays_while_others_come),
        with_dataset(a_loader_ends_while_its_threads_work),
        with_dataset(waits_are_counted),
        with_dataset(a_steady_step_allocates_nothing),
        with_dataset(a_loader_that_would_never_give_a_sample_is_refused),
        with_dataset(a_first_step_beyond_the_epoch_is_refused),
        with_dataset(a_broken_picture_ends_the_loading_by_its_name),
        with_dataset(a_list_that_does_not_fit_the_pictures_is_refused),
        with_dataset(the_next_batch_can_be_seen_before_it_is_lent),
        with_dataset(what_is_mixed_or_resized_exactly_is_given_as_floats),
        with_dataset(mixed_pictures_do_not_depend_on_the_number_of_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
