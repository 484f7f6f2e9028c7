#include "worker/stored/stored_commands.h"

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
    psr_stored_model model;
    const char *pairs[2 * PAIRS_MAX + 1]; /* metadata without checksums; borrowed */
} exporting;

static void take_pairs(exporting *e)
{
    const char *key, *value;
    size_t used = 0;
    for (size_t i = 0; psr_checkpoint_pair(e->model.checkpoint, i, &key, &value); i++) {
        if (strncmp(key, "xxh3", 4) == 0 || strcmp(key, "format") == 0 || used == 2 * PAIRS_MAX)
            continue;
        e->pairs[used++] = key;
        e->pairs[used++] = value;
    }
}

static psr_err write_onnx(const exporting *e, const char *file)
{
    float mean[CHANNELS_MAX], deviation[CHANNELS_MAX];
    const uint32_t channels = e->model.net->channels;
    const bool normalises =
        psr_stored_numbers(e->model.checkpoint, "mean", mean, CHANNELS_MAX) == channels &&
        psr_stored_numbers(e->model.checkpoint, "std", deviation, CHANNELS_MAX) == channels;
    const psr_onnx_options options = {.net = e->model.net,
                                      .weights = e->model.weights,
                                      .buffers = e->model.buffers,
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
    const psr_layout *params = &e->model.net->params, *buffers = &e->model.net->buffers;
    const char *step = psr_checkpoint_metadata(e->model.checkpoint, "step");
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
        err = put_layout(writer, params, e->model.weights);
    if (err == PSR_OK)
        err = put_layout(writer, buffers, e->model.buffers);
    if (err == PSR_OK)
        err = psr_checkpoint_commit(&writer);
    psr_checkpoint_abandon(&writer);
    free(tensors);
    return err;
}

int psr_export_main(const char *checkpoint, const char *format, const char *file)
{
    exporting e = {.pairs = {NULL}};
    psr_err err = psr_stored_open(checkpoint, &e.model);
    if (err == PSR_OK)
        take_pairs(&e);
    if (err == PSR_OK)
        err = strcmp(format, "onnx") == 0 ? write_onnx(&e, file) : write_safetensors(&e, file);
    if (err == PSR_OK)
        psr_print(stdout, "%s: %s of %s, %zu parameters\n", file, e.model.net->name, e.model.file,
                  (size_t)e.model.net->params.count);
    else
        psr_print(stderr, "psring export: %s\n", psr_err_detail());
    psr_stored_done(&e.model);
    return err == PSR_ERR_FORMAT || err == PSR_ERR_NOT_FOUND ? 2 : psr_err_exit_status(err);
}
