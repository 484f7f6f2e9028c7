#include "model/cuda/device_memory.h"

#include <string.h>

#define ALIGN_BYTES ((size_t)256)

static size_t take(size_t *end, size_t bytes)
{
    const size_t at = *end;
    *end += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return at;
}

static psr_cuda_batch_block block_of(const psr_network *net, uint32_t samples)
{
    const size_t pixels = (size_t)net->channels * net->height * net->width;
    psr_cuda_batch_block block = {0};
    block.images = take(&block.bytes, samples * pixels * sizeof(float));
    block.labels = take(&block.bytes, samples * sizeof(uint32_t));
    block.second_labels = take(&block.bytes, samples * sizeof(uint32_t));
    block.shares = take(&block.bytes, samples * sizeof(float));
    block.samples = take(&block.bytes, samples * sizeof(uint32_t));
    block.pixels = take(&block.bytes, samples * pixels);
    block.placed = take(&block.bytes, samples * sizeof(psr_byte_image));
    block.values = take(&block.bytes, net->channels * PSR_BYTE_VALUES * sizeof(float));
    return block;
}

/* New memory of the device, or NULL for nothing. */
static psr_err new_memory(psr_cuda_device_memory *m, size_t bytes, void **ret_memory)
{
    PSR_TRY(m->api->memory_new(m->device, bytes > 0 ? bytes : ALIGN_BYTES, ret_memory));
    m->other_bytes += bytes;
    return PSR_OK;
}

static psr_err new_pinned(psr_cuda_device_memory *m, size_t bytes, void **ret_memory)
{
    PSR_TRY(m->api->pinned_new(m->device, bytes > 0 ? bytes : ALIGN_BYTES, ret_memory));
    m->pinned_bytes += bytes;
    return PSR_OK;
}

static psr_err open_pinned(psr_cuda_device_memory *m)
{
    const size_t logits = (size_t)m->max_batch * m->net->classes * sizeof(float);
    PSR_TRY(new_pinned(m, m->block.bytes, (void **)&m->batch));
    PSR_TRY(new_pinned(m, m->net->buffers.length * sizeof(float), (void **)&m->buffers));
    PSR_TRY(new_pinned(m, logits, (void **)&m->logits));
    return new_pinned(m, sizeof(psr_cuda_result), (void **)&m->result);
}

static psr_err open_device(psr_cuda_device_memory *m)
{
    const size_t params = m->net->params.length * sizeof(float),
                 buffers = m->net->buffers.length * sizeof(float);
    PSR_TRY(new_memory(m, params, &m->at[PSR_CUDA_WEIGHTS]));
    PSR_TRY(new_memory(m, params, &m->at[PSR_CUDA_GRADIENTS]));
    PSR_TRY(new_memory(m, buffers, &m->at[PSR_CUDA_BUFFERS]));
    PSR_TRY(new_memory(m, buffers, &m->at[PSR_CUDA_BUFFERS_AFTER]));
    PSR_TRY(new_memory(m, sizeof(psr_cuda_result), &m->at[PSR_CUDA_RESULT]));
    PSR_TRY(new_memory(m, m->block.bytes, &m->at[PSR_CUDA_IMAGES]));
    char *block = m->at[PSR_CUDA_IMAGES];
    m->at[PSR_CUDA_LABELS] = block + m->block.labels;
    m->at[PSR_CUDA_SECOND_LABELS] = block + m->block.second_labels;
    m->at[PSR_CUDA_SHARES] = block + m->block.shares;
    m->at[PSR_CUDA_SAMPLES] = block + m->block.samples;
    return PSR_OK;
}

psr_err psr_cuda_device_memory_init(psr_cuda_device_memory *memory, const psr_cuda_api *api,
                                    psr_cuda_device *device, const psr_network *net,
                                    uint32_t max_batch)
{
    *memory = (psr_cuda_device_memory){.api = api,
                                       .device = device,
                                       .net = net,
                                       .max_batch = max_batch,
                                       .block = block_of(net, max_batch)};
    PSR_TRY(open_device(memory));
    return open_pinned(memory);
}

void psr_cuda_device_memory_done(psr_cuda_device_memory *m)
{
    /* The others lie in the block of the images. */
    void *const blocks[] = {m->at[PSR_CUDA_ROOM],          m->at[PSR_CUDA_WEIGHTS],
                            m->at[PSR_CUDA_GRADIENTS],     m->at[PSR_CUDA_BUFFERS],
                            m->at[PSR_CUDA_BUFFERS_AFTER], m->at[PSR_CUDA_IMAGES],
                            m->at[PSR_CUDA_RESULT],        m->workspace};
    void *const pinned[] = {m->batch, m->buffers, m->logits, m->result};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (blocks[i] != NULL)
            m->api->memory_free(m->device, blocks[i]);
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++)
        if (pinned[i] != NULL)
            m->api->pinned_free(m->device, pinned[i]);
    memset(m, 0, sizeof *m);
}

/* ---- what grows ---- */

static size_t room_of(const psr_cuda_device_memory *m, const psr_cuda_program *like, uint32_t batch)
{
    psr_cuda_program *program;
    if (psr_cuda_program_new(m->net, batch, like->type, like->training, &program) != PSR_OK)
        return SIZE_MAX;
    const size_t bytes = program->room_bytes;
    psr_cuda_program_free(program);
    return bytes;
}

/* The largest batch whose room is free, by halving the interval; 0: none. */
static uint32_t batch_that_fits(const psr_cuda_device_memory *m, const psr_cuda_program *program,
                                size_t free_bytes)
{
    uint32_t fits = 0, too_many = program->batch;
    while (too_many - fits > 1) {
        const uint32_t middle = fits + (too_many - fits) / 2;
        if (room_of(m, program, middle) <= free_bytes)
            fits = middle;
        else
            too_many = middle;
    }
    return fits;
}

static psr_err refuse(const psr_cuda_device_memory *m, const psr_cuda_program *program,
                      size_t workspace_bytes)
{
    psr_cuda_device_facts facts;
    PSR_TRY(m->api->device_facts(m->device, &facts));
    const size_t free_bytes =
        facts.free_bytes > workspace_bytes ? facts.free_bytes - workspace_bytes : 0;
    const uint32_t fits = batch_that_fits(m, program, free_bytes);
    const double gib = 1024.0 * 1024 * 1024;
    if (fits == 0)
        return psr_fail(PSR_ERR_NOMEM,
                        "%s: not even one sample of %s fits into what is free of the GPU's memory, "
                        "%.2f GiB",
                        facts.name, m->net->name, (double)free_bytes / gib);
    return psr_fail(PSR_ERR_NOMEM,
                    "%s: a batch of %u takes %.2f GiB for activations, and %.2f GiB are free; a "
                    "batch of %u would fit (--batch-size)",
                    facts.name, program->batch, (double)program->room_bytes / gib,
                    (double)free_bytes / gib, fits);
}

/* *bytes: what it has, and then what it was asked to have. */
static psr_err enlarge(psr_cuda_device_memory *m, void **memory, size_t *bytes, size_t wanted,
                       bool *moved)
{
    if (wanted <= *bytes && *memory != NULL)
        return PSR_OK;
    if (*memory != NULL)
        m->api->memory_free(m->device, *memory);
    *memory = NULL;
    *bytes = 0;
    PSR_TRY(m->api->memory_new(m->device, wanted > 0 ? wanted : ALIGN_BYTES, memory));
    *bytes = wanted;
    *moved = true;
    return PSR_OK;
}

psr_err psr_cuda_device_memory_grow(psr_cuda_device_memory *m, const psr_cuda_program *program,
                                    size_t workspace_bytes, bool *ret_moved)
{
    *ret_moved = false;
    psr_err err = enlarge(m, &m->workspace, &m->workspace_bytes, workspace_bytes, ret_moved);
    if (err == PSR_OK)
        err = enlarge(m, &m->at[PSR_CUDA_ROOM], &m->room_bytes, program->room_bytes, ret_moved);
    return err == PSR_ERR_NOMEM ? refuse(m, program, workspace_bytes) : err;
}
