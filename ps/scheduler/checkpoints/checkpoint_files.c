#include "ps/scheduler/checkpoints/checkpoint_files.h"

#include "base/system/file.h"
#include "model/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES (PSR_PATH_MAX + 96)

struct psr_checkpoint_files {
    psr_checkpoint_files_options options;
    uint64_t step;
    char directory[PSR_PATH_MAX + 16];
    char path[PATH_BYTES], final_path[PATH_BYTES];
    psr_checkpoint_writer *model, *state;
    bool in_place;
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
    if (tensors == NULL)
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

/* model.safetensors or state.safetensors. */
static psr_err create_file(psr_checkpoint_files *files, bool of_state, const char *const *metadata,
                           psr_checkpoint_writer **ret_writer)
{
    char path[PATH_BYTES + 32];
    psr_tensor *tensors = NULL;
    size_t count = 0;
    PSR_TRY(list_tensors(files->options.sections, of_state, &tensors, &count));
    snprintf(path, sizeof path, "%s/%s.safetensors", files->path, of_state ? "state" : "model");
    psr_err err = of_state ? psr_checkpoint_create(path, tensors, count, metadata, ret_writer)
                           : psr_checkpoint_create_model(path, tensors, count, metadata,
                                                         (int64_t)files->step, ret_writer);
    free(tensors);
    PSR_TRY(err);
    psr_checkpoint_watch(*ret_writer, files->options.moved, files->options.context);
    return PSR_OK;
}

static psr_err create_files(psr_checkpoint_files *files)
{
    const psr_config *config = files->options.config;
    char step[32], workers[16];
    snprintf(step, sizeof step, "%" PRIu64, files->step);
    snprintf(workers, sizeof workers, "%" PRIu32, files->options.sections->ranks);
    const char *const of_model[] = {"model", config->model, "step", step, NULL};
    const psr_sections *sections = files->options.sections;
    const char *of_state[11] = {"model", config->model, "step", step, "workers", workers};
    size_t used = 6;
    if (sections->owes) {
        of_state[used++] = "compress";
        of_state[used++] = config->compress;
    }
    if (sections->pulls_differences) {
        of_state[used++] = "compress-weights";
        of_state[used++] = config->compress_weights;
    }
    PSR_TRY(create_file(files, false, of_model, &files->model));
    return create_file(files, true, of_state, &files->state);
}

/* ---- life ---- */

/* Removes a directory that we made, which has only files in it. */
static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    for (unsigned attempt = 0; directory == NULL && psr_file_try_again(attempt); attempt++)
        directory = opendir(path);
    if (directory == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}

psr_err psr_checkpoint_files_new(const psr_checkpoint_files_options *options, uint64_t step,
                                 psr_checkpoint_files **ret_files)
{
    psr_checkpoint_files *files = calloc(1, sizeof *files);
    if (files == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    files->options = *options;
    files->step = step;
    snprintf(files->directory, sizeof files->directory, "%s", options->directory);
    snprintf(files->path, sizeof files->path, "%s/.step-%" PRIu64 ".part", files->directory, step);
    snprintf(files->final_path, sizeof files->final_path, "%s/step-%" PRIu64, files->directory,
             step);
    if (mkdir(files->path, 0777) != 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", files->path, strerror(errno));
        free(files); /* another process made what is there, so it is not removed */
        return err;
    }
    psr_err err = create_files(files);
    if (err != PSR_OK) {
        psr_checkpoint_files_free(files);
        return err;
    }
    *ret_files = files;
    return PSR_OK;
}

void psr_checkpoint_files_free(psr_checkpoint_files *files)
{
    if (files == NULL)
        return;
    psr_checkpoint_abandon(&files->model);
    psr_checkpoint_abandon(&files->state);
    if (!files->in_place)
        remove_directory(files->path);
    free(files);
}

/* ---- pieces and end ---- */

/* The elements of the piece that belong to tensors; the rest is padding. */
psr_err psr_checkpoint_files_put(psr_checkpoint_files *files, uint32_t section, const float *data,
                                 size_t offset, size_t count)
{
    psr_section_place place;
    if (!psr_sections_place(files->options.sections, section, &place))
        return psr_fail(PSR_ERR_PROTOCOL, "a checkpoint of this run has no section %" PRIu32,
                        section);
    psr_checkpoint_writer *writer = place.in_state ? files->state : files->model;
    for (size_t t = 0; t < place.layout->tensor_count; t++) {
        const psr_tensor *tensor = &place.layout->tensors[t];
        size_t begin = offset > tensor->offset ? offset : tensor->offset;
        size_t tensor_end = tensor->offset + tensor->count, piece_end = offset + count;
        size_t end = piece_end < tensor_end ? piece_end : tensor_end;
        if (end <= begin)
            continue;
        char name[PSR_TENSOR_NAME_MAX + 40];
        snprintf(name, sizeof name, "%s%s", place.prefix, tensor->name);
        PSR_TRY(psr_checkpoint_put(writer, name, begin - tensor->offset, end - begin,
                                   data + (begin - offset)));
    }
    return PSR_OK;
}

psr_err psr_checkpoint_files_commit(psr_checkpoint_files *files)
{
    PSR_TRY(psr_checkpoint_commit(&files->model));
    PSR_TRY(psr_checkpoint_commit(&files->state));
    PSR_TRY(psr_dir_sync(files->path));
    if (rename(files->path, files->final_path) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be renamed to %s: %s", files->path,
                        files->final_path, strerror(errno));
    files->in_place = true;
    return psr_dir_sync(files->directory);
}
