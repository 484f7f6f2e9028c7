#include "worker/stored/stored_commands.h"

#include "base/arrays/arena.h"
#include "base/system/file.h"
#include "base/text/printable.h"
#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/stored.h"
#include "worker/stored/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 40, CHANNELS_MAX = 3 };

typedef struct exporting {
    char file[PSR_PATH_MAX + 64];
    psr_checkpoint *checkpoint;
    psr_config config;
    psr_network *net;
    float *weights, *buffers;
    const char *pairs[2 * PAIRS_MAX + 1]; /* metadata without checksums; borrowed */
} exporting;

static psr_err open_stored(exporting *e, const char *name)
{
    const char *key, *value;
    size_t used = 0;
    PSR_TRY(psr_stored_file(name, e->file, sizeof e->file));
    PSR_TRY(psr_checkpoint_open(e->file, &e->checkpoint));
    PSR_TRY(psr_stored_network(e->checkpoint, e->file, &e->config, &e->net));
    PSR_TRY(psr_arena_new(e->net->params.length, &e->weights));
    PSR_TRY(psr_arena_new(e->net->buffers.length, &e->buffers));
    PSR_TRY(psr_checkpoint_load(e->checkpoint, "", &e->net->params, e->weights));
    PSR_TRY(psr_checkpoint_load(e->checkpoint, "", &e->net->buffers, e->buffers));
    for (size_t i = 0; psr_checkpoint_pair(e->checkpoint, i, &key, &value); i++) {
        if (strncmp(key, "xxh3", 4) == 0 || strcmp(key, "format") == 0 || used == 2 * PAIRS_MAX)
            continue;
        e->pairs[used++] = key;
        e->pairs[used++] = value;
    }
    return PSR_OK;
}

static psr_err write_onnx(const exporting *e, const char *file)
{
    float mean[CHANNELS_MAX], deviation[CHANNELS_MAX];
    const uint32_t channels = e->net->channels;
    const bool normalises =
        psr_stored_numbers(e->checkpoint, "mean", mean, CHANNELS_MAX) == channels &&
        psr_stored_numbers(e->checkpoint, "std", deviation, CHANNELS_MAX) == channels;
    const psr_onnx_options options = {.net = e->net,
                                      .weights = e->weights,
                                      .buffers = e->buffers,
                                      .mean = normalises ? mean : NULL,
                                      .deviation = deviation,
                                      .metadata = e->pairs};
    void *bytes = NULL;
    size_t size = 0;
    PSR_TRY(psr_onnx_make(&options, &bytes, &size));
    psr_err err = psr_file_write_atomic(file, bytes, size);
    free(bytes);
    return err;
}

static psr_err put_layout(psr_checkpoint_writer *writer, const psr_layout *layout,
                          const float *arena)
{
    for (size_t t = 0; t < layout->tensor_count; t++)
        PSR_TRY(psr_checkpoint_put(writer, layout->tensors[t].name, 0, layout->tensors[t].count,
                                   arena + layout->tensors[t].offset));
    return PSR_OK;
}

static psr_err write_safetensors(const exporting *e, const char *file)
{
    const psr_layout *params = &e->net->params, *buffers = &e->net->buffers;
    const char *step = psr_checkpoint_metadata(e->checkpoint, "step");
    psr_checkpoint_writer *writer = NULL;
    psr_tensor *tensors =
        calloc((size_t)params->tensor_count + buffers->tensor_count + 1, sizeof *tensors);
    if (tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", file);
    memcpy(tensors, params->tensors, params->tensor_count * sizeof *tensors);
    if (buffers->tensor_count > 0)
        memcpy(tensors + params->tensor_count, buffers->tensors,
               buffers->tensor_count * sizeof *tensors);
    psr_err err = psr_checkpoint_create_model(
        file, tensors, (size_t)params->tensor_count + buffers->tensor_count, e->pairs,
        step != NULL ? (int64_t)strtoull(step, NULL, 10) : 0, &writer);
    if (err == PSR_OK)
        err = put_layout(writer, params, e->weights);
    if (err == PSR_OK)
        err = put_layout(writer, buffers, e->buffers);
    if (err == PSR_OK)
        err = psr_checkpoint_commit(&writer);
    psr_checkpoint_abandon(&writer);
    free(tensors);
    return err;
}

int psr_export_main(const char *checkpoint, const char *format, const char *file)
{
    exporting e = {.checkpoint = NULL};
    psr_err err = open_stored(&e, checkpoint);
    if (err == PSR_OK)
        err = strcmp(format, "onnx") == 0 ? write_onnx(&e, file) : write_safetensors(&e, file);
    if (err == PSR_OK)
        psr_print(stdout, "%s: %s of %s, %zu parameters\n", file, e.net->name, e.file,
                  (size_t)e.net->params.count);
    else
        psr_print(stderr, "psring export: %s\n", psr_err_detail());
    if (e.net != NULL) {
        psr_arena_free(e.weights, e.net->params.length);
        psr_arena_free(e.buffers, e.net->buffers.length);
    }
    psr_network_free(e.net);
    if (e.checkpoint != NULL)
        psr_checkpoint_close(e.checkpoint);
    return err == PSR_ERR_FORMAT || err == PSR_ERR_NOT_FOUND ? 2 : psr_err_exit_status(err);
}
