#include "data/dataset.h"

#include "data/files/idx.h"
#include "data/images/folder_source.h"
#include "data/location.h"
#include "data/pack/pack.h"
#include "data/survey.h"
#include "base/system/thread.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens the two files of an IDX split. ret own; untouched on failure. */
static psr_err open_idx(const psr_location *location, psr_split split, psr_source **ret_images,
                        psr_source **ret_labels)
{
    const psr_split_files *files = &location->files->split[split];
    psr_source *images = NULL;
    PSR_TRY(psr_location_open(location, files->name[0], &images));
    psr_err err = psr_location_open(location, files->name[1], ret_labels);
    if (err != PSR_OK) {
        psr_source_free(images);
        return err;
    }
    *ret_images = images;
    return PSR_OK;
}

static psr_err read_idx(const psr_location *location, psr_split split, psr_samples *ret_samples)
{
    psr_source *images = NULL, *labels = NULL;
    PSR_TRY(open_idx(location, split, &images, &labels));
    psr_err err = psr_idx_read(images, labels, ret_samples);
    psr_source_free(images);
    psr_source_free(labels);
    return err;
}

/* Reads the headers of one IDX split, and counts the classes in its labels. */
static psr_err read_idx_outline(const psr_location *location, psr_split split,
                                psr_idx_shape *ret_shape, uint32_t *ret_classes,
                                uint64_t *ret_memory_bytes)
{
    psr_source *images = NULL, *labels = NULL;
    PSR_TRY(open_idx(location, split, &images, &labels));
    psr_err err = psr_idx_read_shape(images, labels, ret_shape);
    if (err == PSR_OK)
        err = psr_idx_count_classes(labels, ret_shape->count, ret_classes);
    if (err == PSR_OK)
        *ret_memory_bytes = ret_shape->count * (uint64_t)sizeof(uint32_t) +
                            (psr_idx_is_mapped(images, ret_shape) ? 0 : psr_idx_bytes(ret_shape));
    psr_source_free(images);
    psr_source_free(labels);
    return err;
}

static uint32_t cifar_count(const psr_location *location, psr_split split)
{
    return location->files->split[split].records * location->files->split[split].file_count;
}

/* Reads one file of CIFAR into its part of the samples. */
typedef struct cifar_job {
    const psr_location *location;
    psr_split split;
    uint32_t file;
    psr_samples *samples;
    pthread_t thread;
    bool started;
    psr_err err;
    char detail[2 * PSR_PATH_MAX]; /* the error's text is the thread's own */
} cifar_job;

static psr_err read_cifar_file(const cifar_job *job)
{
    const psr_split_files *files = &job->location->files->split[job->split];
    size_t first = (size_t)job->file * files->records;
    psr_source *source = NULL;
    PSR_TRY(psr_location_open(job->location, files->name[job->file], &source));
    psr_err err = psr_cifar_read(source, job->location->files->cifar, files->records,
                                 job->samples->pixels + first * PSR_CIFAR_IMAGE_BYTES,
                                 job->samples->labels + first);
    psr_source_free(source);
    return err;
}

static void *cifar_thread(void *argument)
{
    cifar_job *job = argument;
    job->err = read_cifar_file(job);
    if (job->err != PSR_OK)
        snprintf(job->detail, sizeof job->detail, "%s", psr_err_detail());
    return NULL;
}

/* Reads all files at the same time, each in a thread, because unpacking one xz file takes more than
 * a second. Those for which there was no thread, or no memory beside the others, are then read one
 * after another. If several fail, the error of the first file is returned. */
static psr_err read_cifar_files(const psr_location *location, psr_split split, psr_samples *samples)
{
    cifar_job jobs[PSR_LOCATION_MAX_FILES];
    const uint32_t count = location->files->split[split].file_count;
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < count; i++) {
        cifar_job *job = &jobs[i];
        *job = (cifar_job){.location = location, .split = split, .file = i, .samples = samples};
        job->started = psr_thread_start("psr-unpack", cifar_thread, job, &job->thread) == PSR_OK;
    }
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i].started)
            pthread_join(jobs[i].thread, NULL);
    for (uint32_t i = 0; i < count && err == PSR_OK; i++) {
        if (!jobs[i].started || jobs[i].err == PSR_ERR_NOMEM)
            err = read_cifar_file(&jobs[i]);
        else if (jobs[i].err != PSR_OK)
            err = psr_fail(jobs[i].err, "%s", jobs[i].detail);
    }
    return err;
}

static psr_err read_cifar(const psr_location *location, psr_split split, psr_samples *ret_samples)
{
    psr_samples samples = {
        .count = cifar_count(location, split),
        .channels = PSR_CIFAR_CHANNELS,
        .height = PSR_CIFAR_SIDE,
        .width = PSR_CIFAR_SIDE,
        .classes = location->files->cifar->classes,
    };
    psr_err err = PSR_OK;
    PSR_TRY(psr_samples_fit(location->directory, "pixels",
                            samples.count * psr_samples_image_bytes(&samples),
                            "free some, or train on a pack (psring data pack), which is mapped"));
    samples.pixels = malloc(samples.count * psr_samples_image_bytes(&samples));
    samples.labels = malloc(samples.count * sizeof *samples.labels);
    if (samples.pixels == NULL || samples.labels == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for %" PRIu32 " images", location->directory,
                       samples.count);
    else
        err = read_cifar_files(location, split, &samples);
    if (err != PSR_OK) {
        psr_samples_done(&samples);
        return err;
    }
    *ret_samples = samples;
    return PSR_OK;
}

/* Labels alone: pictures are drawn when they are wanted. */
static psr_err read_generated(const psr_location *location, psr_split split,
                              psr_samples *ret_samples)
{
    const psr_synthetic *s = &location->synthetic;
    psr_samples samples = {
        .count = split == PSR_SPLIT_TRAIN ? s->train_count : s->test_count,
        .channels = s->channels,
        .height = s->size,
        .width = s->size,
        .classes = s->classes,
    };
    PSR_TRY(psr_synthetic_labels(s, split, location->reading, &samples.labels));
    *ret_samples = samples;
    return PSR_OK;
}

static psr_err read_split(const psr_location *location, psr_split split, psr_samples *ret_samples)
{
    if (location->files == NULL)
        return read_generated(location, split, ret_samples);
    return location->files->cifar != NULL ? read_cifar(location, split, ret_samples)
                                          : read_idx(location, split, ret_samples);
}

static psr_err check_sides(const psr_location *location, uint32_t height, uint32_t width,
                           uint32_t train_height, uint32_t train_width)
{
    if (height == train_height && width == train_width)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "%s: test images of %" PRIu32 "x%" PRIu32 ", should be %" PRIu32 "x%" PRIu32
                    " as in training",
                    location->directory, height, width, train_height, train_width);
}

typedef struct channel_sums {
    uint64_t sum[3], squares[3];
} channel_sums;

/* pixels[channels, height, width] */
static void add_picture(const psr_dataset *dataset, const uint8_t *pixels, channel_sums *sums)
{
    for (uint32_t c = 0; c < dataset->channels; c++) {
        /* A row at a time in 32 bits, which hold 1024 * 255^2; the compiler vectorises this. */
        for (uint32_t y = 0; y < dataset->height; y++, pixels += dataset->width) {
            uint32_t row_sum = 0, row_squares = 0;
            for (uint32_t k = 0; k < dataset->width; k++) {
                row_sum += pixels[k];
                row_squares += (uint32_t)pixels[k] * pixels[k];
            }
            sums->sum[c] += row_sum;
            sums->squares[c] += row_squares;
        }
    }
}

/* How many pictures mean and deviation are computed of. */
static uint32_t counted_pictures(const psr_dataset *dataset)
{
    const uint64_t bytes = (uint64_t)dataset->channels * dataset->height * dataset->width,
                   most = PSR_SYNTHETIC_CONSTANTS_BYTES / bytes;
    return psr_synthetic_of(dataset->source) != NULL && most < dataset->count ? (uint32_t)most
                                                                              : dataset->count;
}

/* Pictures of these sources have one channel behind the other. */
static psr_err compute_constants(psr_dataset *dataset, psr_reading *reading)
{
    const uint32_t count = counted_pictures(dataset);
    channel_sums sums = {0};
    psr_picture_scratch scratch = {0};
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < count && err == PSR_OK; i++) {
        psr_picture picture = {0};
        err = psr_reading_moved(reading);
        if (err == PSR_OK)
            err = psr_picture_source_get(dataset->source, i, NULL, &scratch, &picture);
        if (err == PSR_OK)
            add_picture(dataset, picture.pixels, &sums);
    }
    psr_scratch_done(&scratch);
    PSR_TRY(err);
    for (uint32_t c = 0; c < dataset->channels; c++)
        psr_constants_of_sums((uint64_t)count * dataset->height * dataset->width, sums.sum[c],
                              sums.squares[c], &dataset->mean[c], &dataset->deviation[c]);
    return PSR_OK;
}

/* train: NULL: they are computed. */
static psr_err set_constants(psr_dataset *dataset, const psr_dataset *train, psr_reading *reading)
{
    for (uint32_t c = 0; c < 3; c++) {
        dataset->mean[c] = train != NULL ? train->mean[c] : 0.0f;
        dataset->deviation[c] = train != NULL ? train->deviation[c] : 1.0f;
    }
    if (train == NULL)
        PSR_TRY(compute_constants(dataset, reading));
    psr_dataset_copy_constants(dataset);
    return PSR_OK;
}

static psr_err add_source(const psr_location *location, psr_split split, psr_dataset *dataset)
{
    return location->files == NULL ? psr_synthetic_source_new(&location->synthetic, split,
                                                              dataset->labels, &dataset->source)
                                   : psr_dataset_add_source(dataset);
}

/* train: NULL for the train split itself. */
static psr_err open_split(const psr_location *location, psr_split split, const psr_dataset *train,
                          psr_dataset **ret_dataset)
{
    psr_dataset *dataset = calloc(1, sizeof *dataset);
    psr_samples *samples = calloc(1, sizeof *samples);
    psr_err err = PSR_OK;
    if (dataset == NULL || samples == NULL) {
        err = psr_fail(PSR_ERR_NOMEM, "--data %s: no memory", location->name);
        goto out;
    }
    err = read_split(location, split, samples);
    if (err != PSR_OK)
        goto out;
    if (train != NULL)
        err = check_sides(location, samples->height, samples->width, train->height, train->width);
    if (err != PSR_OK)
        goto out;
    *dataset = (psr_dataset){
        .pixels = samples->pixels,
        .labels = samples->labels,
        .count = samples->count,
        .channels = samples->channels,
        .height = samples->height,
        .width = samples->width,
        .classes = samples->classes,
        .mapped = samples->mapped,
        .storage = samples,
    };
    samples = NULL;
    snprintf(dataset->name, sizeof dataset->name, "%s", location->name);
    err = add_source(location, split, dataset);
    if (err == PSR_OK)
        err = set_constants(dataset, train, location->reading);
    if (err != PSR_OK)
        goto out;
    *ret_dataset = dataset;
    dataset = NULL;
out:
    if (samples != NULL)
        psr_samples_done(samples);
    free(samples);
    psr_dataset_free(dataset);
    return err;
}

psr_err psr_dataset_of_source(psr_picture_source *source, const char *name,
                              psr_dataset **ret_dataset)
{
    psr_dataset *dataset = calloc(1, sizeof *dataset);
    if (dataset == NULL) {
        psr_picture_source_free(source);
        return psr_fail(PSR_ERR_NOMEM, "--data %s: no memory", name);
    }
    *dataset = (psr_dataset){
        .labels = source->labels,
        .count = source->count,
        .channels = source->channels,
        .height = source->height,
        .width = source->width,
        .classes = source->classes,
        .source = source,
    };
    snprintf(dataset->name, sizeof dataset->name, "%s", name);
    memcpy(dataset->mean, source->mean, sizeof dataset->mean);
    memcpy(dataset->deviation, source->deviation, sizeof dataset->deviation);
    *ret_dataset = dataset;
    return PSR_OK;
}

static psr_err open_pack(const psr_location *location, psr_dataset **ret_train,
                         psr_dataset **ret_test)
{
    psr_pack_info info;
    psr_picture_source *sources[2];
    psr_dataset *train = NULL;
    PSR_TRY(psr_pack_open(location->directory, psr_decode_file, &info, sources));
    psr_err err = psr_dataset_of_source(sources[0], location->name, &train);
    if (err != PSR_OK) {
        psr_picture_source_free(sources[1]);
        return err;
    }
    err = psr_dataset_of_source(sources[1], location->name, ret_test);
    if (err != PSR_OK) {
        psr_dataset_free(train);
        return err;
    }
    train->classes = (*ret_test)->classes = info.classes;
    *ret_train = train;
    return PSR_OK;
}

psr_err psr_dataset_of_pictures(psr_picture_set *set, const char *name, psr_dataset **ret_train,
                                psr_dataset **ret_test)
{
    psr_picture_source *source = NULL;
    psr_dataset *train = NULL;
    PSR_TRY(psr_folder_source_new(set, false, &source));
    PSR_TRY(psr_dataset_of_source(source, name, &train));
    psr_err err = psr_folder_source_new(set, true, &source);
    if (err == PSR_OK)
        err = psr_dataset_of_source(source, name, ret_test);
    if (err != PSR_OK) {
        psr_dataset_free(train);
        return err;
    }
    *ret_train = train;
    return PSR_OK;
}

static psr_err open_pictures(const psr_location *location, psr_dataset **ret_train,
                             psr_dataset **ret_test)
{
    psr_picture_set *set = NULL;
    PSR_TRY(psr_picture_set_read(location->directory, location->cache, location->reading, &set));
    psr_err err = psr_dataset_of_pictures(set, location->name, ret_train, ret_test);
    psr_picture_set_free(set);
    return err;
}

psr_err psr_dataset_open_both(const char *spec, psr_dataset **ret_train, psr_dataset **ret_test)
{
    return psr_dataset_read_both(spec, NULL, NULL, ret_train, ret_test);
}

psr_err psr_dataset_read_both(const char *spec, const char *cache, psr_reading *reading,
                              psr_dataset **ret_train, psr_dataset **ret_test)
{
    psr_location location;
    psr_dataset *train = NULL;
    PSR_TRY(psr_location_resolve(spec, &location));
    location.cache = cache;
    location.reading = reading;
    if (location.is_pack)
        return open_pack(&location, ret_train, ret_test);
    if (location.is_pictures)
        return open_pictures(&location, ret_train, ret_test);
    PSR_TRY(open_split(&location, PSR_SPLIT_TRAIN, NULL, &train));
    psr_err err = open_split(&location, PSR_SPLIT_TEST, train, ret_test);
    if (err != PSR_OK) {
        psr_dataset_free(train);
        return err;
    }
    uint32_t classes =
        train->classes > (*ret_test)->classes ? train->classes : (*ret_test)->classes;
    train->classes = (*ret_test)->classes = classes;
    *ret_train = train;
    return PSR_OK;
}

/* channels: 0 if the number is not known yet. A single number is used for all channels. */
static psr_err parse_constants(const char *text, uint32_t channels, float values[3])
{
    double value[3] = {0};
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        char number[40];
        size_t length = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s",
                 (int)(length < sizeof number ? length : sizeof number - 1), at);
        char *end = NULL;
        bool starts_well = number[0] != '\0' && strchr(" \t+", number[0]) == NULL;
        if (count == 3 || length >= sizeof number || !starts_well ||
            (value[count] = strtod(number, &end), *end != '\0' || !isfinite((float)value[count])))
            return psr_fail(PSR_ERR_USAGE,
                            "'%.64s' is no constant for each channel; give one number, or three "
                            "with commas, on the scale of 0 to 1 (0.49,0.48,0.45)",
                            text);
        count++;
        at += length;
        if (*at == '\0')
            break;
    }
    if (count != 1 && channels != 0 && count != channels)
        return psr_fail(
            PSR_ERR_USAGE,
            "'%.64s' has %" PRIu32 " numbers, and the data have %" PRIu32 " channel%s; give %s%s",
            text, count, channels, channels == 1 ? "" : "s",
            channels == 1 ? "one" : "one, or one for each", channels == 1 ? "" : " channel");
    for (uint32_t c = 0; c < 3; c++)
        values[c] = (float)value[count == 1 ? 0 : c < count ? c : 0];
    return PSR_OK;
}

psr_err psr_dataset_normalise_by(psr_dataset *dataset, const char *mean, const char *deviation)
{
    float means[3], deviations[3];
    memcpy(means, dataset->mean, sizeof means);
    memcpy(deviations, dataset->deviation, sizeof deviations);
    psr_err err = mean[0] != '\0' ? parse_constants(mean, dataset->channels, means) : PSR_OK;
    if (err != PSR_OK)
        return psr_fail_context(err, "--mean");
    err = deviation[0] != '\0' ? parse_constants(deviation, dataset->channels, deviations) : PSR_OK;
    for (uint32_t c = 0; c < dataset->channels && err == PSR_OK; c++) {
        if (!(deviations[c] > 0))
            err = psr_fail(PSR_ERR_USAGE, "'%.64s': every number must be above 0", deviation);
    }
    if (err != PSR_OK)
        return psr_fail_context(err, "--std");
    memcpy(dataset->mean, means, sizeof means);
    memcpy(dataset->deviation, deviations, sizeof deviations);
    return PSR_OK;
}

psr_err psr_dataset_open(const char *spec, psr_split split, psr_dataset **ret_dataset)
{
    psr_location location;
    PSR_TRY(psr_location_resolve(spec, &location));
    if (split == PSR_SPLIT_TRAIN && !location.is_pack && !location.is_pictures)
        return open_split(&location, PSR_SPLIT_TRAIN, NULL, ret_dataset);
    psr_dataset *opened[2];
    PSR_TRY(psr_dataset_open_both(spec, &opened[0], &opened[1]));
    *ret_dataset = opened[split];
    psr_dataset_free(opened[1 - split]);
    return PSR_OK;
}

psr_err psr_dataset_add_source(psr_dataset *dataset)
{
    PSR_TRY(dataset->mapped != NULL
                ? psr_mapped_source_new(dataset->mapped, dataset->labels, dataset->count,
                                        dataset->channels, dataset->height, dataset->width,
                                        dataset->classes, &dataset->source)
                : psr_memory_source_new(dataset->pixels, dataset->labels, dataset->count,
                                        dataset->channels, dataset->height, dataset->width,
                                        dataset->classes, &dataset->source));
    psr_dataset_copy_constants(dataset);
    return PSR_OK;
}

void psr_dataset_copy_constants(psr_dataset *dataset)
{
    memcpy(dataset->source->mean, dataset->mean, sizeof dataset->mean);
    memcpy(dataset->source->deviation, dataset->deviation, sizeof dataset->deviation);
}

void psr_dataset_free(psr_dataset *dataset)
{
    if (dataset == NULL)
        return;
    psr_picture_source_free(dataset->source);
    if (dataset->storage != NULL)
        psr_samples_done(dataset->storage);
    free(dataset->storage);
    free(dataset);
}

static psr_err idx_info(const psr_location *location, psr_dataset_info *info)
{
    psr_idx_shape train, test;
    uint32_t train_classes = 0, test_classes = 0;
    uint64_t train_bytes = 0, test_bytes = 0;
    PSR_TRY(read_idx_outline(location, PSR_SPLIT_TRAIN, &train, &train_classes, &train_bytes));
    PSR_TRY(read_idx_outline(location, PSR_SPLIT_TEST, &test, &test_classes, &test_bytes));
    PSR_TRY(check_sides(location, test.height, test.width, train.height, train.width));
    info->train_count = train.count;
    info->test_count = test.count;
    info->channels = 1;
    info->height = train.height;
    info->width = train.width;
    info->classes = train_classes > test_classes ? train_classes : test_classes;
    info->memory_bytes = train_bytes + test_bytes;
    return PSR_OK;
}

static psr_err cifar_info(const psr_location *location, psr_dataset_info *info)
{
    /* CIFAR has no header to read. So this only checks that every file exists and can be opened. */
    for (int s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < location->files->split[s].file_count; i++) {
            psr_source *source = NULL;
            PSR_TRY(psr_location_open(location, location->files->split[s].name[i], &source));
            psr_source_free(source);
        }
    }
    info->train_count = cifar_count(location, PSR_SPLIT_TRAIN);
    info->test_count = cifar_count(location, PSR_SPLIT_TEST);
    info->channels = PSR_CIFAR_CHANNELS;
    info->height = info->width = PSR_CIFAR_SIDE;
    info->classes = location->files->cifar->classes;
    info->memory_bytes = ((uint64_t)info->train_count + info->test_count) *
                         (PSR_CIFAR_IMAGE_BYTES + sizeof(uint32_t));
    return PSR_OK;
}

static psr_err pack_info(const psr_location *location, psr_dataset_info *info)
{
    psr_pack_info pack;
    PSR_TRY(psr_pack_read_info(location->directory, &pack));
    info->train_count = pack.count[0];
    info->test_count = pack.count[1];
    info->channels = pack.channels;
    info->height = pack.height;
    info->width = pack.width;
    info->classes = pack.classes;
    return PSR_OK;
}

static psr_err pictures_info(const psr_location *location, psr_dataset_info *info)
{
    psr_picture_set *set = NULL;
    PSR_TRY(psr_picture_set_list(location->directory, &set));
    info->train_count = psr_picture_set_split(set, false)->list.paths.count;
    info->test_count = psr_picture_set_split(set, true)->list.paths.count;
    info->channels = 3;
    info->classes = set->split[0].list.classes.count;
    psr_picture_set_free(set);
    return PSR_OK;
}

psr_err psr_dataset_info_read(const char *spec, psr_dataset_info *ret_info)
{
    psr_location location;
    PSR_TRY(psr_location_resolve(spec, &location));
    psr_dataset_info info = {0};
    snprintf(info.name, sizeof info.name, "%s", location.name);
    if (location.is_pack) {
        PSR_TRY(pack_info(&location, &info));
    } else if (location.is_pictures) {
        PSR_TRY(pictures_info(&location, &info));
    } else if (location.files == NULL) {
        info.train_count = location.synthetic.train_count;
        info.test_count = location.synthetic.test_count;
        info.channels = location.synthetic.channels;
        info.height = info.width = location.synthetic.size;
        info.classes = location.synthetic.classes;
        info.memory_bytes = ((uint64_t)info.train_count + info.test_count) * sizeof(uint32_t);
    } else if (location.files->cifar != NULL) {
        PSR_TRY(cifar_info(&location, &info));
    } else {
        PSR_TRY(idx_info(&location, &info));
    }
    *ret_info = info;
    return PSR_OK;
}
