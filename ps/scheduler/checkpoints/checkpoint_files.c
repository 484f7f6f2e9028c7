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
#define ABOUT_MAX 40 /* words of options.about */

struct psr_checkpoint_files {
    psr_checkpoint_files_options options;
    uint64_t step;
    char directory[PSR_PATH_MAX + 16];
    char path[PATH_BYTES], final_path[PATH_BYTES];
    psr_checkpoint_writer *writers[PSR_CHECKPOINT_FILES]; /* NULL: it is not begun */
    bool in_place;
    bool evaluated;
    psr_checkpoint_evaluation evaluation; /* if evaluated */
};

/* ---- what the files hold ---- */

/* What a file has of a section. The model of averages is whole: of frozen tensors, whose average no
 * slot has, it has the weights. */
static const psr_layout *layout_in(const psr_sections *sections, const psr_section_place *place)
{
    const bool averages = place->file == PSR_CHECKPOINT_EMA && place->layout == &sections->trained;
    return averages ? &sections->net->params : place->layout;
}

/* Sections of one file, as tensors under their names. */
static psr_err list_tensors(const psr_sections *sections, psr_checkpoint_file file,
                            psr_tensor **ret_tensors, size_t *ret_count)
{
    size_t count = 0;
    uint32_t section;
    psr_section_place place;
    psr_tensor *tensors = NULL;
    for (uint32_t i = 0; psr_sections_at(sections, i, &section); i++)
        if (psr_sections_place(sections, section, &place) && place.file == file)
            count += layout_in(sections, &place)->tensor_count;
    tensors = calloc(count + 1, sizeof *tensors);
    if (tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu tensors of a checkpoint", count);
    count = 0;
    for (uint32_t i = 0; psr_sections_at(sections, i, &section); i++) {
        if (!psr_sections_place(sections, section, &place) || place.file != file)
            continue;
        const psr_layout *layout = layout_in(sections, &place);
        for (size_t t = 0; t < layout->tensor_count; t++) {
            psr_tensor *tensor = &tensors[count++];
            *tensor = layout->tensors[t];
            int length = snprintf(tensor->name, sizeof tensor->name, "%s%s", place.prefix,
                                  layout->tensors[t].name);
            if (length >= (int)sizeof tensor->name) {
                free(tensors);
                return psr_fail(PSR_ERR_UNSUPPORTED, "tensor name %s%s is too long", place.prefix,
                                layout->tensors[t].name);
            }
        }
    }
    *ret_tensors = tensors;
    *ret_count = count;
    return PSR_OK;
}

static psr_err create_file(psr_checkpoint_files *files, psr_checkpoint_file file,
                           const char *const *metadata)
{
    psr_checkpoint_writer **writer = &files->writers[file];
    char path[PATH_BYTES + 32];
    psr_tensor *tensors = NULL;
    size_t count = 0;
    PSR_TRY(list_tensors(files->options.sections, file, &tensors, &count));
    snprintf(path, sizeof path, "%s/%s.safetensors", files->path, psr_checkpoint_file_name(file));
    psr_err err = file == PSR_CHECKPOINT_STATE
                      ? psr_checkpoint_create(path, tensors, count, metadata, writer)
                      : psr_checkpoint_create_model(path, tensors, count, metadata,
                                                    (int64_t)files->step, writer);
    free(tensors);
    PSR_TRY(err);
    psr_checkpoint_watch(*writer, files->options.moved, files->options.context);
    return PSR_OK;
}

/* Names and texts in turn, as the writer takes them; ends with NULL. */
typedef struct metadata {
    const char *words[2 * 16 + ABOUT_MAX + 1];
    size_t used;
    char texts[10][PSR_PACE_TEXT_MAX]; /* those that are made here */
    size_t made;
} metadata;

static void add(metadata *m, const char *name, const char *text)
{
    m->words[m->used++] = name;
    m->words[m->used++] = text;
}

static char *make_text(metadata *m)
{
    return m->texts[m->made++];
}

static void add_count(metadata *m, const char *name, uint64_t value)
{
    char *text = make_text(m);
    snprintf(text, PSR_PACE_TEXT_MAX, "%" PRIu64, value);
    add(m, name, text);
}

static void add_real(metadata *m, const char *name, double value)
{
    char *text = make_text(m);
    snprintf(text, PSR_PACE_TEXT_MAX, "%.9g", value);
    add(m, name, text);
}

static void add_option(metadata *m, const psr_config *config, const char *name)
{
    char *text = make_text(m);
    if (psr_config_get(config, name, text, PSR_PACE_TEXT_MAX) == PSR_OK)
        add(m, name, text);
}

static void add_evaluation(metadata *m, const psr_checkpoint_evaluation *e)
{
    add_real(m, "test_accuracy", e->accuracy);
    add_real(m, "test_loss", e->loss);
    if (!e->has_ema)
        return;
    add_real(m, "ema_accuracy", e->ema_accuracy);
    add_real(m, "ema_loss", e->ema_loss);
}

/* A model: the weights, or with --ema their averages, of which shards may send pieces before the
 * workers have evaluated anything. */
static psr_err create_model(psr_checkpoint_files *files, psr_checkpoint_file file)
{
    metadata m = {.used = 0};
    add(&m, "model", files->options.config->model);
    add_count(&m, "step", files->step);
    const char *const *about = files->options.about;
    for (size_t i = 0; about != NULL && about[i] != NULL && i < ABOUT_MAX; i += 2)
        add(&m, about[i], about[i + 1]);
    if (file == PSR_CHECKPOINT_EMA)
        add_option(&m, files->options.config, "ema");
    else if (files->evaluated)
        add_evaluation(&m, &files->evaluation);
    return create_file(files, file, m.words);
}

/* What a run that goes on from it compares with its own (resume.c). */
static psr_err create_state(psr_checkpoint_files *files)
{
    static const char *const compared[] = {"optimizer", "seed", "shuffle", "augment"};
    const psr_config *config = files->options.config;
    const psr_sections *sections = files->options.sections;
    metadata m = {.used = 0};
    add(&m, "model", config->model);
    add_count(&m, "step", files->step);
    add_count(&m, "workers", sections->ranks);
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++)
        add_option(&m, config, compared[i]);
    if (config->pace.epoch_steps > 0) {
        char *text = make_text(&m);
        psr_pace_print(&config->pace, text);
        add(&m, "pace", text);
    }
    if (config->freeze[0] != '\0')
        add(&m, "freeze", config->freeze);
    if (sections->owes)
        add(&m, "compress", config->compress);
    if (sections->pulls_differences)
        add(&m, "compress-weights", config->compress_weights);
    if (sections->averages)
        add_option(&m, config, "ema");
    return create_file(files, PSR_CHECKPOINT_STATE, m.words);
}

/* The model is made when its first piece is there, since what it says of its evaluation is known by
 * then. */
static psr_err create_if_missing(psr_checkpoint_files *files, psr_checkpoint_file file)
{
    if (files->writers[file] != NULL)
        return PSR_OK;
    return file == PSR_CHECKPOINT_STATE ? create_state(files) : create_model(files, file);
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
        psr_err err = psr_fail(psr_err_of_write(errno), "%s: cannot be made: %s", files->path,
                               strerror(errno));
        free(files); /* another process made what is there, so it is not removed */
        return err;
    }
    *ret_files = files;
    return PSR_OK;
}

void psr_checkpoint_files_evaluated(psr_checkpoint_files *files,
                                    const psr_checkpoint_evaluation *evaluation)
{
    files->evaluated = true;
    files->evaluation = *evaluation;
}

psr_err psr_checkpoint_remove(const char *directory, uint64_t step)
{
    char path[PATH_BYTES], going[PATH_BYTES];
    snprintf(path, sizeof path, "%s/step-%" PRIu64, directory, step);
    snprintf(going, sizeof going, "%s/.step-%" PRIu64 ".gone", directory, step);
    if (rename(path, going) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    remove_directory(going);
    return PSR_OK;
}

void psr_checkpoint_files_free(psr_checkpoint_files *files)
{
    if (files == NULL)
        return;
    for (int i = 0; i < PSR_CHECKPOINT_FILES; i++)
        psr_checkpoint_abandon(&files->writers[i]);
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
    PSR_TRY(create_if_missing(files, place.file));
    /* --ema: of what is frozen, the model of averages has the weights */
    const psr_sections *sections = files->options.sections;
    const bool weights =
        place.file == PSR_CHECKPOINT_MODEL && place.layout == &sections->net->params;
    psr_checkpoint_writer *writer = files->writers[place.file];
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
        if (!weights || !tensor->frozen || !sections->averages)
            continue;
        PSR_TRY(create_if_missing(files, PSR_CHECKPOINT_EMA));
        PSR_TRY(psr_checkpoint_put(files->writers[PSR_CHECKPOINT_EMA], name, begin - tensor->offset,
                                   end - begin, data + (begin - offset)));
    }
    return PSR_OK;
}

psr_err psr_checkpoint_files_commit(psr_checkpoint_files *files)
{
    const int count = files->options.sections->averages ? PSR_CHECKPOINT_FILES : PSR_CHECKPOINT_EMA;
    for (int i = 0; i < count; i++)
        PSR_TRY(create_if_missing(files, (psr_checkpoint_file)i));
    for (int i = 0; i < count; i++)
        PSR_TRY(psr_checkpoint_commit(&files->writers[i]));
    PSR_TRY(psr_dir_sync(files->path));
    if (rename(files->path, files->final_path) != 0)
        return psr_fail(psr_err_of_write(errno), "%s: cannot be renamed to %s: %s", files->path,
                        files->final_path, strerror(errno));
    files->in_place = true;
    return psr_dir_sync(files->directory);
}
