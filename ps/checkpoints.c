#include "ps/checkpoints.h"

#include "base/file.h"
#include "model/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES (PSR_PATH_MAX + 96)

typedef enum part_state { PART_GATHERING, PART_FLUSHING, PART_IN_PLACE, PART_FAILED } part_state;

/* One checkpoint on its way. */
typedef struct part {
    uint64_t step;
    part_state state; /* after PART_GATHERING under the mutex */
    char path[PATH_BYTES], final_path[PATH_BYTES];
    psr_checkpoint_writer *model, *run_state;
    uint64_t missing;     /* elements of all sections */
    uint64_t *missing_of; /* [sections] */
    psr_err err;
    char failure[512];
    struct part *next;
} part;

struct psr_checkpoints {
    char directory[PSR_PATH_MAX + 16];
    psr_config config;
    const psr_sections *sections;
    uint32_t section_count;
    void (*wake)(void *context);
    void *wake_context;
    part *parts; /* gathering, flushing or not yet taken: oldest first */
    uint64_t last_in_place;
    bool any_in_place;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool quit;
};

/* ---- what the files hold ---- */

/* Sections of one file, as tensors under their names. */
static psr_err list_tensors(const psr_sections *sections, bool in_state, psr_tensor **ret_tensors,
                            size_t *ret_count)
{
    size_t count = 0;
    uint32_t section;
    psr_section_place place;
    psr_tensor *tensors = NULL;
    for (uint32_t i = 0; psr_sections_at(sections, i, &section); i++)
        if (psr_sections_place(sections, section, &place) && place.in_state == in_state)
            count += place.layout->tensor_count;
    tensors = calloc(count + 1, sizeof *tensors);
    if (!tensors)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu tensors of a checkpoint", count);
    count = 0;
    for (uint32_t i = 0; psr_sections_at(sections, i, &section); i++) {
        if (!psr_sections_place(sections, section, &place) || place.in_state != in_state)
            continue;
        for (size_t t = 0; t < place.layout->tensor_count; t++) {
            psr_tensor *tensor = &tensors[count++];
            *tensor = place.layout->tensors[t];
            int length = snprintf(tensor->name, sizeof tensor->name, "%s%s", place.prefix,
                                  place.layout->tensors[t].name);
            if (length >= (int)sizeof tensor->name) {
                free(tensors);
                return psr_fail(PSR_ERR_UNSUPPORTED, "tensor name %s%s is too long", place.prefix,
                                place.layout->tensors[t].name);
            }
        }
    }
    *ret_tensors = tensors;
    *ret_count = count;
    return PSR_OK;
}

static psr_err create_files(psr_checkpoints *set, part *p)
{
    char path[PATH_BYTES + 32], step[32], workers[16];
    psr_tensor *tensors = NULL;
    size_t count;
    snprintf(step, sizeof step, "%" PRIu64, p->step);
    snprintf(workers, sizeof workers, "%" PRIu32, set->config.workers);
    const char *const of_model[] = {"model", set->config.model, "step", step, NULL};
    const char *const of_state[] = {"model", set->config.model, "step", step, "workers", workers, NULL};

    PSR_TRY(list_tensors(set->sections, false, &tensors, &count));
    snprintf(path, sizeof path, "%s/model.safetensors", p->path);
    psr_err err = psr_checkpoint_create_model(path, tensors, count, of_model, (int64_t)p->step, &p->model);
    free(tensors);
    if (err != PSR_OK)
        return err;
    PSR_TRY(list_tensors(set->sections, true, &tensors, &count));
    snprintf(path, sizeof path, "%s/state.safetensors", p->path);
    err = psr_checkpoint_create(path, tensors, count, of_state, &p->run_state);
    free(tensors);
    return err;
}

/* ---- a directory of ours, with files alone in it ---- */

static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}

/* ---- parts ---- */

static void part_free(part *p)
{
    if (!p)
        return;
    psr_checkpoint_abandon(&p->model);
    psr_checkpoint_abandon(&p->run_state);
    if (p->state != PART_IN_PLACE)
        remove_directory(p->path);
    free(p->missing_of);
    free(p);
}

static psr_err part_new(psr_checkpoints *set, uint64_t step, part **ret_part)
{
    part *p = calloc(1, sizeof *p);
    if (p)
        p->missing_of = calloc((size_t)set->section_count + 1, sizeof *p->missing_of);
    if (!p || !p->missing_of) {
        free(p);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    }
    p->step = step;
    snprintf(p->path, sizeof p->path, "%s/.step-%" PRIu64 ".part", set->directory, step);
    snprintf(p->final_path, sizeof p->final_path, "%s/step-%" PRIu64, set->directory, step);
    uint32_t section;
    psr_section_place place;
    for (uint32_t i = 0; psr_sections_at(set->sections, i, &section); i++)
        if (psr_sections_place(set->sections, section, &place)) {
            p->missing_of[i] = place.layout->count;
            p->missing += place.layout->count;
        }
    psr_err err = PSR_OK;
    if (mkdir(p->path, 0777) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", p->path, strerror(errno));
    if (err == PSR_OK)
        err = create_files(set, p);
    if (err != PSR_OK) {
        part_free(p);
        return err;
    }
    *ret_part = p;
    return PSR_OK;
}

static psr_err find_part(psr_checkpoints *set, uint64_t step, part **ret_part)
{
    part **at = &set->parts;
    for (; *at; at = &(*at)->next)
        if ((*at)->step == step) {
            *ret_part = *at;
            return PSR_OK;
        }
    part *p = NULL;
    PSR_TRY(part_new(set, step, &p));
    /* The flushing thread walks the list. */
    pthread_mutex_lock(&set->mutex);
    *at = p;
    pthread_mutex_unlock(&set->mutex);
    *ret_part = p;
    return PSR_OK;
}

/* ---- flushing ---- */

static psr_err flush(part *p, const char *directory)
{
    PSR_TRY(psr_checkpoint_commit(&p->model));
    PSR_TRY(psr_checkpoint_commit(&p->run_state));
    PSR_TRY(psr_dir_sync(p->path));
    if (rename(p->path, p->final_path) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be renamed to %s: %s", p->path, p->final_path,
                        strerror(errno));
    return psr_dir_sync(directory);
}

static part *next_to_flush(psr_checkpoints *set)
{
    for (part *p = set->parts; p; p = p->next)
        if (p->state == PART_FLUSHING)
            return p;
    return NULL;
}

static void *flush_all(void *context)
{
    psr_checkpoints *set = context;
    pthread_mutex_lock(&set->mutex);
    for (;;) {
        part *p = next_to_flush(set);
        if (!p && set->quit)
            break;
        if (!p) {
            pthread_cond_wait(&set->condition, &set->mutex);
            continue;
        }
        pthread_mutex_unlock(&set->mutex);
        psr_err err = flush(p, set->directory);
        pthread_mutex_lock(&set->mutex);
        p->err = err;
        if (err != PSR_OK)
            snprintf(p->failure, sizeof p->failure, "%s", psr_err_detail());
        p->state = err == PSR_OK ? PART_IN_PLACE : PART_FAILED;
        set->wake(set->wake_context);
    }
    pthread_mutex_unlock(&set->mutex);
    return NULL;
}

static void begin_flush(psr_checkpoints *set, part *p)
{
    pthread_mutex_lock(&set->mutex);
    p->state = PART_FLUSHING;
    pthread_cond_signal(&set->condition);
    pthread_mutex_unlock(&set->mutex);
}

/* ---- pieces ---- */

static bool index_of(const psr_sections *sections, uint32_t section, uint32_t *ret_index)
{
    uint32_t each;
    for (uint32_t i = 0; psr_sections_at(sections, i, &each); i++)
        if (each == section) {
            *ret_index = i;
            return true;
        }
    return false;
}

/* Stores the elements of the piece that lie in tensors (the rest is padding) and counts them. */
static psr_err put_tensors(part *p, const psr_section_place *place, const float *data, size_t offset,
                           size_t count, uint64_t *ret_stored)
{
    psr_checkpoint_writer *writer = place->in_state ? p->run_state : p->model;
    uint64_t stored = 0;
    for (size_t t = 0; t < place->layout->tensor_count; t++) {
        const psr_tensor *tensor = &place->layout->tensors[t];
        size_t begin = offset > tensor->offset ? offset : tensor->offset;
        size_t tensor_end = tensor->offset + tensor->count, piece_end = offset + count;
        size_t end = piece_end < tensor_end ? piece_end : tensor_end;
        if (end <= begin)
            continue;
        char name[PSR_TENSOR_NAME_MAX + 40];
        snprintf(name, sizeof name, "%s%s", place->prefix, tensor->name);
        PSR_TRY(
            psr_checkpoint_put(writer, name, begin - tensor->offset, end - begin, data + (begin - offset)));
        stored += end - begin;
    }
    *ret_stored = stored;
    return PSR_OK;
}

psr_err psr_checkpoints_put(psr_checkpoints *set, uint64_t step, uint32_t section, const float *data,
                            size_t offset, size_t count)
{
    psr_section_place place;
    uint32_t index = 0;
    part *p = NULL;
    if (!psr_sections_place(set->sections, section, &place) || !index_of(set->sections, section, &index))
        return psr_fail(PSR_ERR_PROTOCOL, "a checkpoint of this run has no section %" PRIu32, section);
    if (offset > place.layout->length || count > place.layout->length - offset)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "%zu floats at %zu are not within section %" PRIu32 ", which has %zu", count, offset,
                        section, place.layout->length);
    PSR_TRY(find_part(set, step, &p));
    if (p->missing == 0)
        return psr_fail(PSR_ERR_PROTOCOL, "a piece of the checkpoint of step %" PRIu64 ", which is whole",
                        step);
    uint64_t stored = 0;
    PSR_TRY(put_tensors(p, &place, data, offset, count, &stored));
    p->missing_of[index] -= stored;
    p->missing -= stored;
    if (p->missing == 0)
        begin_flush(set, p);
    return PSR_OK;
}

psr_err psr_checkpoints_whole(const psr_checkpoints *set, uint64_t step)
{
    if (set->any_in_place && set->last_in_place == step)
        return PSR_OK;
    for (const part *p = set->parts; p; p = p->next) {
        if (p->step != step || p->missing == 0)
            continue;
        uint32_t section;
        psr_section_place place;
        for (uint32_t i = 0; psr_sections_at(set->sections, i, &section); i++)
            if (p->missing_of[i] > 0 && psr_sections_place(set->sections, section, &place))
                return psr_fail(PSR_ERR_PROTOCOL,
                                "the checkpoint of step %" PRIu64 " lacks %" PRIu64 " numbers of %s (%s)",
                                step, p->missing_of[i], place.prefix[0] ? place.prefix : "the model",
                                place.in_state ? "state.safetensors" : "model.safetensors");
    }
    for (const part *p = set->parts; p; p = p->next)
        if (p->step == step)
            return PSR_OK;
    return psr_fail(PSR_ERR_PROTOCOL, "nobody sent anything of the checkpoint of step %" PRIu64, step);
}

psr_err psr_checkpoints_take(psr_checkpoints *set, uint64_t *ret_step)
{
    part *taken = NULL;
    pthread_mutex_lock(&set->mutex);
    for (part **at = &set->parts; *at; at = &(*at)->next)
        if ((*at)->state == PART_IN_PLACE || (*at)->state == PART_FAILED) {
            taken = *at;
            *at = taken->next;
            break;
        }
    pthread_mutex_unlock(&set->mutex);
    if (!taken)
        return PSR_ERR_NOT_FOUND;
    psr_err err = taken->err;
    if (err != PSR_OK) {
        psr_fail(err, "%s", taken->failure);
    } else {
        *ret_step = set->last_in_place = taken->step;
        set->any_in_place = true;
    }
    part_free(taken);
    return err;
}

/* ---- life ---- */

psr_err psr_checkpoints_new(const psr_checkpoints_options *options, psr_checkpoints **ret_checkpoints)
{
    psr_checkpoints *set = calloc(1, sizeof *set);
    if (!set)
        return psr_fail(PSR_ERR_NOMEM, "no memory for checkpoints");
    if (snprintf(set->directory, sizeof set->directory, "%s", options->directory) >=
        (int)sizeof set->directory) {
        free(set);
        return psr_fail(PSR_ERR_USAGE, "--out: the path is too long");
    }
    set->config = *options->config;
    set->sections = options->sections;
    set->wake = options->wake;
    set->wake_context = options->context;
    uint32_t section;
    while (psr_sections_at(set->sections, set->section_count, &section))
        set->section_count++;
    pthread_mutex_init(&set->mutex, NULL);
    pthread_cond_init(&set->condition, NULL);
    int failure = pthread_create(&set->thread, NULL, flush_all, set);
    if (failure != 0) {
        psr_checkpoints_free(set);
        return psr_fail(PSR_ERR_NOMEM, "no thread for checkpoints: %s", strerror(failure));
    }
    set->thread_runs = true;
    *ret_checkpoints = set;
    return PSR_OK;
}

void psr_checkpoints_free(psr_checkpoints *set)
{
    if (!set)
        return;
    if (set->thread_runs) {
        pthread_mutex_lock(&set->mutex);
        set->quit = true;
        pthread_cond_signal(&set->condition);
        pthread_mutex_unlock(&set->mutex);
        pthread_join(set->thread, NULL);
    }
    while (set->parts) {
        part *next = set->parts->next;
        part_free(set->parts);
        set->parts = next;
    }
    pthread_mutex_destroy(&set->mutex);
    pthread_cond_destroy(&set->condition);
    free(set);
}
