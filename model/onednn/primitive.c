/* oneDNN's primitives with their arguments, and where the arguments' bytes are. */
#include "model/onednn/private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static psr_err add_binding(psr_onednn_exec *exec, psr_onednn_binding binding)
{
    if (exec->binding_count == exec->binding_capacity) {
        uint32_t capacity = exec->binding_capacity ? 2 * exec->binding_capacity : 256;
        psr_onednn_binding *bindings = realloc(exec->bindings, capacity * sizeof *bindings);
        if (bindings == NULL)
            return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for memory objects");
        exec->bindings = bindings;
        exec->binding_capacity = capacity;
    }
    exec->bindings[exec->binding_count++] = binding;
    return PSR_OK;
}

psr_err psr_onednn_primitive_init(psr_onednn_exec *exec, const_dnnl_primitive_desc_t pd,
                                  const char *name, double flop,
                                  psr_onednn_primitive *ret_primitive)
{
    psr_onednn_primitive primitive = {0};
    psr_err err = psr_onednn_implementations_add(&exec->implementations, pd, name, flop);
    if (err == PSR_OK && !exec->context->only_plans) {
        dnnl_status_t status = dnnl_primitive_create(&primitive.primitive, pd);
        if (status != dnnl_success)
            err = psr_onednn_fail(status, "primitive", name);
    }
    const_dnnl_memory_desc_t scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t scratch_bytes = scratch == NULL ? 0 : dnnl_memory_desc_get_size(scratch);
    if (err == PSR_OK && scratch_bytes > 0) {
        psr_pass_buffer_grow(&exec->buffers, exec->scratch, scratch_bytes);
        err = psr_onednn_primitive_arg(exec, &primitive, DNNL_ARG_SCRATCHPAD, scratch,
                                       PSR_ONEDNN_WORKSPACE, exec->scratch);
    }
    if (err != PSR_OK) {
        psr_onednn_primitive_done(&primitive);
        return err;
    }
    *ret_primitive = primitive;
    return PSR_OK;
}

double psr_onednn_flop(const psr_onednn_exec *exec, uint32_t node)
{
    const psr_network_node *n = &exec->net->nodes[node];
    const psr_tensor *weight = &exec->net->params.tensors[n->weight];
    return 2.0 * exec->count * n->height * n->width * (double)weight->count;
}

void psr_onednn_primitive_done(psr_onednn_primitive *primitive)
{
    if (primitive->primitive != NULL)
        dnnl_primitive_destroy(primitive->primitive);
    primitive->primitive = NULL;
}

psr_err psr_onednn_primitive_arg(psr_onednn_exec *exec, psr_onednn_primitive *primitive, int arg,
                                 const_dnnl_memory_desc_t desc, psr_onednn_space space, size_t at)
{
    assert(primitive->arg_count < PSR_ONEDNN_ARGS_MAX);
    if (exec->context->only_plans)
        return PSR_OK;
    psr_onednn_binding binding = {.space = space, .at = at};
    dnnl_status_t status =
        dnnl_memory_create(&binding.memory, desc, exec->context->engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "memory", exec->net->name);
    psr_err err = add_binding(exec, binding);
    if (err != PSR_OK) {
        dnnl_memory_destroy(binding.memory);
        return err;
    }
    primitive->args[primitive->arg_count++] = (dnnl_exec_arg_t){arg, binding.memory};
    return PSR_OK;
}

psr_err psr_onednn_primitive_tensor(psr_onednn_exec *exec, psr_onednn_primitive *primitive, int arg,
                                    const psr_onednn_tensor *tensor)
{
    return psr_onednn_primitive_arg(exec, primitive, arg, tensor->desc, tensor->space,
                                    psr_onednn_place(tensor));
}

psr_err psr_onednn_primitive_run(const psr_onednn_exec *exec, const psr_onednn_primitive *primitive)
{
    if (primitive->primitive == NULL)
        return PSR_OK;
    dnnl_status_t status = dnnl_primitive_execute(primitive->primitive, exec->context->stream,
                                                  primitive->arg_count, primitive->args);
    return status == dnnl_success
               ? PSR_OK
               : psr_onednn_fail(status, "execution of a primitive", exec->net->name);
}

psr_err psr_onednn_copy_init(psr_onednn_exec *exec, const_dnnl_memory_desc_t from,
                             psr_onednn_space from_space, size_t from_at,
                             const_dnnl_memory_desc_t to, psr_onednn_space to_space, size_t to_at,
                             const char *name, psr_onednn_primitive *ret_primitive)
{
    *ret_primitive = (psr_onednn_primitive){0};
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(
        &pd, from, exec->context->engine, to, exec->context->engine, exec->context->attr);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "reorder", name);
    psr_err err = psr_onednn_primitive_init(exec, pd, name, 0, ret_primitive);
    dnnl_primitive_desc_destroy(pd);
    PSR_TRY(err);
    PSR_TRY(
        psr_onednn_primitive_arg(exec, ret_primitive, DNNL_ARG_FROM, from, from_space, from_at));
    return psr_onednn_primitive_arg(exec, ret_primitive, DNNL_ARG_TO, to, to_space, to_at);
}

psr_err psr_onednn_reorder_init(psr_onednn_exec *exec, const_dnnl_memory_desc_t from,
                                psr_onednn_space from_space, size_t from_at,
                                const_dnnl_memory_desc_t to, psr_onednn_space to_space,
                                size_t to_at, const char *name, psr_onednn_primitive *ret_primitive)
{
    *ret_primitive = (psr_onednn_primitive){0};
    if (dnnl_memory_desc_equal(from, to))
        return PSR_OK;
    return psr_onednn_copy_init(exec, from, from_space, from_at, to, to_space, to_at, name,
                                ret_primitive);
}

/* Whether wanted is one of the tilings of float32 weights that we move ourselves. */
static bool is_tiled(const psr_tensor *tensor, const_dnnl_memory_desc_t wanted,
                     psr_onednn_tiles *ret_tiles)
{
    static const struct {
        dnnl_format_tag_t tag;
        psr_onednn_tile_order order;
        uint32_t tile;
    } known[] = {
        {dnnl_ABcd16b16a, PSR_ONEDNN_TILES_ABBA, 16}, {dnnl_ABcd16a16b, PSR_ONEDNN_TILES_ABAB, 16},
        {dnnl_BAcd16a16b, PSR_ONEDNN_TILES_BAAB, 16}, {dnnl_ABcd8b8a, PSR_ONEDNN_TILES_ABBA, 8},
        {dnnl_ABcd8a8b, PSR_ONEDNN_TILES_ABAB, 8},
    };
    const uint32_t *shape = tensor->shape;
    if (tensor->rank != 4)
        return false;
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        dnnl_memory_desc_t desc;
        if (shape[0] % known[i].tile != 0 || shape[1] % known[i].tile != 0 ||
            dnnl_memory_desc_create_with_tag(&desc, 4, dims, dnnl_f32, known[i].tag) !=
                dnnl_success)
            continue;
        bool found = dnnl_memory_desc_equal(desc, wanted);
        dnnl_memory_desc_destroy(desc);
        *ret_tiles = (psr_onednn_tiles){known[i].order, known[i].tile, shape[0], shape[1],
                                        (size_t)shape[2] * shape[3]};
        if (found)
            return true;
    }
    return false;
}

/* Whether wanted is one of the tilings of bf16 weights that we pack ourselves. */
static bool is_paired(const psr_tensor *tensor, const_dnnl_memory_desc_t wanted,
                      psr_onednn_pairs *ret_pairs)
{
    static const struct {
        dnnl_format_tag_t tag;
        psr_onednn_pair_order order;
    } known[] = {
        {dnnl_ABcd8b16a2b, PSR_ONEDNN_PAIRS_AB_INPUTS},
        {dnnl_ABcd8a16b2a, PSR_ONEDNN_PAIRS_AB_OUTPUTS},
        {dnnl_BAcd8a16b2a, PSR_ONEDNN_PAIRS_BA_OUTPUTS},
    };
    const uint32_t *shape = tensor->shape;
    if (tensor->rank != 4 || shape[0] % 16 != 0 || shape[1] % 16 != 0)
        return false;
    const dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        dnnl_memory_desc_t desc;
        if (dnnl_memory_desc_create_with_tag(&desc, 4, dims, dnnl_bf16, known[i].tag) !=
            dnnl_success)
            continue;
        const bool found = dnnl_memory_desc_equal(desc, wanted);
        dnnl_memory_desc_destroy(desc);
        *ret_pairs =
            (psr_onednn_pairs){known[i].order, shape[0], shape[1], (size_t)shape[2] * shape[3]};
        if (found)
            return true;
    }
    return false;
}

psr_err psr_onednn_weights_init(psr_onednn_exec *exec, uint32_t param,
                                const_dnnl_memory_desc_t arena, const_dnnl_memory_desc_t wanted,
                                psr_onednn_space side, psr_onednn_weights *ret_weights)
{
    const psr_tensor *tensor = &exec->net->params.tensors[param];
    *ret_weights = (psr_onednn_weights){
        .side = side, .offset = tensor->offset, .space = side, .at = tensor->offset};
    if (dnnl_memory_desc_equal(arena, wanted))
        return PSR_OK;
    bool pack = side == PSR_ONEDNN_WEIGHTS;
    ret_weights->space = PSR_ONEDNN_WORKSPACE;
    ret_weights->at = pack ? exec->packed : exec->diff_weights;
    psr_pass_buffer_grow(&exec->buffers, (uint32_t)ret_weights->at,
                         dnnl_memory_desc_get_size(wanted));
    ret_weights->tiled = is_tiled(tensor, wanted, &ret_weights->tiles);
    ret_weights->paired = pack && is_paired(tensor, wanted, &ret_weights->pairs);
    if (ret_weights->tiled || ret_weights->paired)
        return PSR_OK;
    if (pack)
        return psr_onednn_reorder_init(exec, arena, side, tensor->offset, wanted,
                                       ret_weights->space, ret_weights->at, tensor->name,
                                       &ret_weights->reorder);
    return psr_onednn_reorder_init(exec, wanted, ret_weights->space, ret_weights->at, arena, side,
                                   tensor->offset, tensor->name, &ret_weights->reorder);
}

psr_err psr_onednn_weights_move(const psr_onednn_exec *exec, const psr_onednn_weights *weights)
{
    if (weights->zeros > 0)
        memset(exec->state->gradients + weights->offset, 0, weights->zeros * sizeof(float));
    if (!weights->tiled && !weights->paired)
        return psr_onednn_primitive_run(exec, &weights->reorder);
    void *packed = psr_onednn_at(exec, (uint32_t)weights->at);
    uint32_t threads = exec->context->threads;
    if (weights->paired)
        psr_onednn_tile_pairs(&weights->pairs, exec->state->weights + weights->offset, packed,
                              threads);
    else if (weights->side == PSR_ONEDNN_WEIGHTS)
        psr_onednn_tile(&weights->tiles, exec->state->weights + weights->offset, packed, threads);
    else
        psr_onednn_untile(&weights->tiles, packed, exec->state->gradients + weights->offset,
                          threads);
    return PSR_OK;
}

psr_err psr_onednn_bind(psr_onednn_exec *exec)
{
    void *spaces[PSR_ONEDNN_SPACES] = {
        [PSR_ONEDNN_WORKSPACE] = exec->base,
        [PSR_ONEDNN_IMAGES] = (void *)(uintptr_t)exec->batch->images,
        [PSR_ONEDNN_WEIGHTS] = (void *)(uintptr_t)exec->state->weights,
        [PSR_ONEDNN_GRADIENTS] = exec->state->gradients,
    };
    for (uint32_t i = 0; i < exec->binding_count; i++) {
        const psr_onednn_binding *binding = &exec->bindings[i];
        char *start = spaces[binding->space];
        if (start == exec->bound[binding->space])
            continue;
        char *handle = binding->space == PSR_ONEDNN_WORKSPACE
                           ? psr_onednn_at(exec, (uint32_t)binding->at)
                           : start + binding->at * sizeof(float);
        dnnl_status_t status = dnnl_memory_set_data_handle(binding->memory, handle);
        if (status != dnnl_success)
            return psr_onednn_fail(status, "memory", exec->net->name);
    }
    for (int space = 0; space < PSR_ONEDNN_SPACES; space++)
        exec->bound[space] = spaces[space];
    return PSR_OK;
}
