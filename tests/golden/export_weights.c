/* export_weights MODEL CLASSES CHANNELS SIZE SEED FILE: writes psring's initial weights as a
 * safetensors checkpoint under torchvision's names, and their hash on stdout. For make_golden.py,
 * which starts PyTorch from them. */
#include "model/checkpoint/checkpoint.h"
#include "model/networks/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_err put_all(psr_checkpoint_writer *writer, const psr_layout *layout, const float *arena)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        PSR_TRY(psr_checkpoint_put(writer, tensor->name, 0, tensor->count, arena + tensor->offset));
    }
    return PSR_OK;
}

static psr_err write_weights(const psr_network *net, const float *arena, const float *buffers,
                             const char *path)
{
    const size_t count = net->params.tensor_count + net->buffers.tensor_count;
    psr_tensor *tensors = calloc(count, sizeof(*tensors));
    if (tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "out of memory");
    memcpy(tensors, net->params.tensors, net->params.tensor_count * sizeof(*tensors));
    if (net->buffers.tensor_count > 0)
        memcpy(tensors + net->params.tensor_count, net->buffers.tensors,
               net->buffers.tensor_count * sizeof(*tensors));
    psr_checkpoint_writer *writer = NULL;
    psr_err err = psr_checkpoint_create_model(path, tensors, count, NULL, 0, &writer);
    if (err == PSR_OK)
        err = put_all(writer, &net->params, arena);
    if (err == PSR_OK)
        err = put_all(writer, &net->buffers, buffers);
    if (err == PSR_OK)
        err = psr_checkpoint_commit(&writer);
    psr_checkpoint_abandon(&writer);
    free(tensors);
    return err;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: export_weights MODEL CLASSES CHANNELS SIZE SEED FILE\n");
        return 2;
    }
    psr_network *net = NULL;
    float *arena = NULL, *buffers = NULL;
    psr_err err = psr_network_new(argv[1], number(argv[2]), number(argv[3]), number(argv[4]),
                                  number(argv[4]), PSR_SHORTCUT_A, &net);
    if (err == PSR_OK) {
        arena = calloc(net->params.length, sizeof(*arena));
        buffers = calloc(net->buffers.length + 1, sizeof(*buffers));
        if (arena == NULL || buffers == NULL)
            err = psr_fail(PSR_ERR_NOMEM, "out of memory");
    }
    if (err == PSR_OK) {
        psr_network_init(net, number(argv[5]), arena, buffers);
        err = write_weights(net, arena, buffers, argv[6]);
    }
    if (err == PSR_OK)
        printf("%016" PRIx64 "\n", psr_layout_hash(&net->params, arena));
    else
        fprintf(stderr, "export_weights: %s\n", psr_err_detail());
    free(arena);
    free(buffers);
    psr_network_free(net);
    return psr_err_exit_status(err);
}
