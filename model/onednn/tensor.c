/* Values: their layouts, buffers and gradients. */
#include "model/onednn/private.h"

#include <assert.h>
#include <stdlib.h>

psr_err psr_onednn_fail(dnnl_status_t status, const char *what, const char *name)
{
    psr_err code = status == dnnl_out_of_memory   ? PSR_ERR_NOMEM
                   : status == dnnl_unimplemented ? PSR_ERR_UNSUPPORTED
                                                  : PSR_ERR_COMPUTE;
    return psr_fail(code, "onednn: %s of %s: %s", what, name, dnnl_status2str(status));
}

dnnl_format_tag_t psr_onednn_tag(psr_onednn_layout layout)
{
    switch (layout) {
    case PSR_ONEDNN_PLAIN:
        return dnnl_nchw;
    case PSR_ONEDNN_CHANNELS_LAST:
        return dnnl_nhwc;
    case PSR_ONEDNN_BLOCKED_8:
        return dnnl_nChw8c;
    case PSR_ONEDNN_BLOCKED_16:
        return dnnl_nChw16c;
    default:
        assert(!"a layout without a tag");
        return dnnl_format_tag_undef;
    }
}

/* Hands *desc to the executable, which destroys it in the end; also on failure. */
static psr_err own_desc(psr_onednn_exec *exec, dnnl_memory_desc_t desc)
{
    if (exec->desc_count == exec->desc_capacity) {
        uint32_t capacity = exec->desc_capacity ? 2 * exec->desc_capacity : 64;
        dnnl_memory_desc_t *descs = realloc(exec->descs, capacity * sizeof *descs);
        if (descs == NULL) {
            dnnl_memory_desc_destroy(desc);
            return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for descriptions");
        }
        exec->descs = descs;
        exec->desc_capacity = capacity;
    }
    exec->descs[exec->desc_count++] = desc;
    return PSR_OK;
}

psr_err psr_onednn_desc(psr_onednn_exec *exec, int rank, const dnnl_dims_t dims,
                        dnnl_data_type_t type, dnnl_format_tag_t tag, dnnl_memory_desc_t *ret_desc)
{
    dnnl_memory_desc_t desc;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&desc, rank, dims, type, tag);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "memory description", exec->net->name);
    PSR_TRY(own_desc(exec, desc));
    *ret_desc = desc;
    return PSR_OK;
}

psr_err psr_onednn_desc_within(psr_onednn_exec *exec, const_dnnl_memory_desc_t whole,
                               const dnnl_dims_t dims, const dnnl_dims_t offsets,
                               dnnl_memory_desc_t *ret_desc)
{
    dnnl_memory_desc_t desc;
    dnnl_status_t status = dnnl_memory_desc_create_submemory(&desc, whole, dims, offsets);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "memory description", exec->net->name);
    PSR_TRY(own_desc(exec, desc));
    *ret_desc = desc;
    return PSR_OK;
}

static void set_shape(psr_onednn_tensor *tensor, const psr_onednn_exec *exec, uint32_t node)
{
    const psr_network_node *n = &exec->net->nodes[node];
    *tensor =
        (psr_onednn_tensor){.n = exec->count, .c = n->channels, .h = n->height, .w = n->width};
}

static void set_blocks(psr_onednn_tensor *tensor, psr_onednn_layout layout)
{
    tensor->layout = layout;
    tensor->block = layout == PSR_ONEDNN_PLAIN           ? 1
                    : layout == PSR_ONEDNN_CHANNELS_LAST ? tensor->c
                    : layout == PSR_ONEDNN_BLOCKED_8     ? 8
                    : layout == PSR_ONEDNN_BLOCKED_16    ? 16
                                                         : 0;
    tensor->blocks = tensor->block ? (tensor->c + tensor->block - 1) / tensor->block : 0;
}

psr_err psr_onednn_tensor_in(psr_onednn_exec *exec, uint32_t node, psr_onednn_layout layout,
                             dnnl_data_type_t type, psr_onednn_tensor *ret_tensor)
{
    psr_onednn_tensor tensor;
    set_shape(&tensor, exec, node);
    set_blocks(&tensor, layout);
    tensor.type = type;
    dnnl_dims_t dims = {tensor.n, tensor.c, tensor.h, tensor.w};
    PSR_TRY(psr_onednn_desc(exec, 4, dims, type, psr_onednn_tag(layout), &tensor.desc));
    tensor.bytes = dnnl_memory_desc_get_size(tensor.desc);
    *ret_tensor = tensor;
    return PSR_OK;
}

psr_err psr_onednn_tensor_as(psr_onednn_exec *exec, uint32_t node, const_dnnl_memory_desc_t desc,
                             dnnl_data_type_t type, psr_onednn_tensor *ret_tensor)
{
    /* Where several fit (one channel, one pixel) the simplest is taken. */
    static const psr_onednn_layout known[] = {PSR_ONEDNN_BLOCKED_16, PSR_ONEDNN_BLOCKED_8,
                                              PSR_ONEDNN_CHANNELS_LAST, PSR_ONEDNN_PLAIN};
    psr_onednn_tensor tensor;
    set_shape(&tensor, exec, node);
    tensor.type = type;
    set_blocks(&tensor, PSR_ONEDNN_OTHER);
    dnnl_dims_t dims = {tensor.n, tensor.c, tensor.h, tensor.w};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        dnnl_memory_desc_t candidate;
        dnnl_status_t status =
            dnnl_memory_desc_create_with_tag(&candidate, 4, dims, type, psr_onednn_tag(known[i]));
        if (status != dnnl_success)
            return psr_onednn_fail(status, "memory description", exec->net->nodes[node].name);
        if (dnnl_memory_desc_equal(candidate, desc))
            set_blocks(&tensor, known[i]);
        dnnl_memory_desc_destroy(candidate);
    }
    dnnl_status_t status = dnnl_memory_desc_clone(&tensor.desc, desc);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "memory description", exec->net->nodes[node].name);
    PSR_TRY(own_desc(exec, tensor.desc));
    tensor.bytes = dnnl_memory_desc_get_size(tensor.desc);
    *ret_tensor = tensor;
    return PSR_OK;
}

psr_err psr_onednn_give(psr_onednn_exec *exec, uint32_t node, const psr_onednn_tensor *tensor)
{
    exec->values[node] = *tensor;
    exec->values[node].space = PSR_ONEDNN_WORKSPACE;
    return psr_pass_buffer_add(&exec->buffers, tensor->bytes, &exec->values[node].buffer);
}

psr_onednn_tensor *psr_onednn_use(psr_onednn_exec *exec, uint32_t node)
{
    psr_onednn_tensor *tensor = &exec->values[node];
    assert(tensor->bytes > 0);
    if (tensor->space == PSR_ONEDNN_WORKSPACE)
        psr_pass_buffer_use(&exec->buffers, tensor->buffer);
    return tensor;
}

void *psr_onednn_at(const psr_onednn_exec *exec, uint32_t buffer)
{
    return exec->base + exec->buffers.items[buffer].offset;
}

void *psr_onednn_data(const psr_onednn_exec *exec, const psr_onednn_tensor *tensor)
{
    if (tensor->space == PSR_ONEDNN_WORKSPACE)
        return psr_onednn_at(exec, tensor->buffer);
    assert(tensor->space == PSR_ONEDNN_IMAGES);
    return (void *)(uintptr_t)exec->batch->images;
}

bool psr_onednn_wants_gradient(const psr_onednn_exec *exec, uint32_t node)
{
    /* A flattened view of the images is the images. */
    while (exec->net->nodes[node].op == PSR_OP_FLATTEN)
        node = exec->net->nodes[node].input[0];
    return psr_network_wants_gradient(exec->net, node);
}

bool psr_onednn_wants_parameters(const psr_onednn_exec *exec, uint32_t node)
{
    const psr_network_node *n = &exec->net->nodes[node];
    const psr_tensor *params = exec->net->params.tensors;
    return !params[n->weight].frozen || (n->bias != PSR_NONE && !params[n->bias].frozen);
}

psr_err psr_onednn_gradient_put(psr_onednn_exec *exec, uint32_t node, uint32_t buffer)
{
    psr_onednn_gradients *gradients = &exec->gradients[node];
    if (gradients->count == sizeof gradients->buffers / sizeof gradients->buffers[0])
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s has more readers than %u",
                        exec->net->nodes[node].name, gradients->count);
    gradients->buffers[gradients->count++] = buffer;
    psr_pass_buffer_use(&exec->buffers, buffer);
    return PSR_OK;
}

uint32_t psr_onednn_gradient_take(psr_onednn_exec *exec, psr_onednn_step *step, uint32_t node,
                                  uint32_t most, uint32_t ret_buffers[2])
{
    psr_onednn_gradients *gradients = &exec->gradients[node];
    assert(gradients->count > 0 && most > 0 && most <= 2);
    for (uint32_t i = 0; i < gradients->count; i++)
        psr_pass_buffer_use(&exec->buffers, gradients->buffers[i]);
    while (gradients->count > most) {
        gradients->count--;
        step->sums[step->sum_count].into = gradients->buffers[0];
        step->sums[step->sum_count].from = gradients->buffers[gradients->count];
        step->sums[step->sum_count].count = psr_onednn_elements(&exec->values[node]);
        step->sum_count++;
    }
    uint32_t count = gradients->count;
    for (uint32_t i = 0; i < count; i++)
        ret_buffers[i] = gradients->buffers[i];
    gradients->count = 0;
    return count;
}
