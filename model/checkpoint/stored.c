#include "model/checkpoint/stored.h"

#include "base/arrays/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL_FILE "model.safetensors"
#define PIXELS_MAX 65536

/* ---- the file ---- */

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

psr_err psr_stored_file(const char *path, char *ret_file, size_t size)
{
    char file[PSR_PATH_MAX + 64], folder[PSR_PATH_MAX + 16];
    struct stat status;
    uint64_t step = 0;
    if (strlen(path) >= PSR_PATH_MAX || size < sizeof file)
        return psr_fail(PSR_ERR_USAGE, "the path of a checkpoint is too long");
    if (stat(path, &status) != 0)
        return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "%s: %s", path,
                        strerror(errno));
    snprintf(file, sizeof file, "%s", path);
    if (S_ISDIR(status.st_mode)) {
        snprintf(file, sizeof file, "%s/" MODEL_FILE, path);
        snprintf(folder, sizeof folder, "%s/checkpoints", path);
        if (!is_file(file) && psr_checkpoint_newest(folder, UINT64_MAX, &step))
            snprintf(file, sizeof file, "%s/step-%" PRIu64 "/" MODEL_FILE, folder, step);
    }
    if (!is_file(file))
        return psr_fail(PSR_ERR_USAGE,
                        "%s is no checkpoint; give a run's directory, one of its "
                        "checkpoints/step-N, or a .safetensors file",
                        path);
    snprintf(ret_file, size, "%s", file);
    return PSR_OK;
}

/* ---- its metadata ---- */

bool psr_stored_count(const psr_checkpoint *checkpoint, const char *key, uint32_t *ret_count)
{
    const char *text = psr_checkpoint_metadata(checkpoint, key);
    char *end = NULL;
    const unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    if (end == NULL || end == text || value > PIXELS_MAX || *end != '\0')
        return false;
    *ret_count = (uint32_t)value;
    return true;
}

/* The shape of what the network gets. Older versions wrote that of the data alone. */
static bool read_input(const psr_checkpoint *checkpoint, uint32_t *ret_height, uint32_t *ret_width)
{
    if (psr_stored_count(checkpoint, "side", ret_height)) {
        *ret_width = *ret_height;
        return *ret_height > 0;
    }
    return psr_stored_count(checkpoint, "height", ret_height) &&
           psr_stored_count(checkpoint, "width", ret_width) && *ret_height > 0 && *ret_width > 0;
}

psr_err psr_stored_network(const psr_checkpoint *checkpoint, const char *origin,
                           psr_config *ret_config, psr_network **ret_net)
{
    psr_config config;
    uint32_t classes = 0, channels = 0, height, width;
    const char *json = psr_checkpoint_metadata(checkpoint, "config");
    psr_config_defaults(&config);
    if (json == NULL || !psr_stored_count(checkpoint, "classes", &classes) || classes == 0 ||
        !psr_stored_count(checkpoint, "channels", &channels) || channels == 0 ||
        !read_input(checkpoint, &height, &width))
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: its metadata do not say of which network it is (config, classes, "
                        "channels, side); give a checkpoint of psring train",
                        origin);
    psr_err err = psr_config_from_json(&config, json, strlen(json));
    if (err == PSR_OK)
        err = psr_network_of(&config, classes, channels, height, width, ret_net);
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_FORMAT, "%s: its metadata", origin);
    *ret_config = config;
    return PSR_OK;
}

psr_err psr_stored_open(const char *path, psr_stored_model *ret_model)
{
    psr_stored_model *m = ret_model;
    *m = (psr_stored_model){.checkpoint = NULL};
    PSR_TRY(psr_stored_file(path, m->file, sizeof m->file));
    PSR_TRY(psr_checkpoint_open(m->file, &m->checkpoint));
    PSR_TRY(psr_stored_network(m->checkpoint, m->file, &m->config, &m->net));
    PSR_TRY(psr_arena_new(m->net->params.length, &m->weights));
    PSR_TRY(psr_arena_new(m->net->buffers.length, &m->buffers));
    PSR_TRY(psr_checkpoint_load(m->checkpoint, "", &m->net->params, m->weights));
    return psr_checkpoint_load(m->checkpoint, "", &m->net->buffers, m->buffers);
}

void psr_stored_done(psr_stored_model *model)
{
    if (model->net != NULL) {
        psr_arena_free(model->weights, model->net->params.length);
        psr_arena_free(model->buffers, model->net->buffers.length);
    }
    psr_network_free(model->net);
    if (model->checkpoint != NULL)
        psr_checkpoint_close(model->checkpoint);
}

uint32_t psr_stored_numbers(const psr_checkpoint *checkpoint, const char *key, float *ret_numbers,
                            uint32_t most)
{
    const char *at = psr_checkpoint_metadata(checkpoint, key);
    uint32_t count = 0;
    while (at != NULL && *at != '\0') {
        char *end;
        const float number = strtof(at, &end);
        if (end == at || count == most || (*end != '\0' && *end != ','))
            return 0;
        ret_numbers[count++] = number;
        at = end + (*end == ',');
    }
    return count;
}
