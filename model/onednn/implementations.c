#include "model/onednn/implementations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return "";
    return name;
}

/* "ref:any", "ref_int8:any"; in version 3 also as a part:
 * "jit_uni_ncsp_convolution:conv+ref:any". Pooling's "simple_nchw:any" has no vectors either. */
bool psr_onednn_is_loops(const_dnnl_primitive_desc_t pd)
{
    const char *name = name_of(pd);
    return strncmp(name, "ref", 3) == 0 || strstr(name, "+ref") != NULL ||
           strncmp(name, "simple_nchw", strlen("simple_nchw")) == 0;
}

static const char *kind_of(const_dnnl_primitive_desc_t pd)
{
    dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
    dnnl_prop_kind_t pass = dnnl_prop_kind_undef;
    dnnl_primitive_desc_query(pd, dnnl_query_primitive_kind, 0, &kind);
    dnnl_primitive_desc_query(pd, dnnl_query_prop_kind, 0, &pass);
    const bool data = pass == dnnl_backward_data, weights = pass == dnnl_backward_weights;
    switch (kind) {
    case dnnl_convolution:
        return data      ? "convolution's backward data"
               : weights ? "convolution's backward weights"
                         : "convolution";
    case dnnl_inner_product:
        return data      ? "inner product's backward data"
               : weights ? "inner product's backward weights"
                         : "inner product";
    case dnnl_reorder:
        return "reorder";
    default:
        return pass == dnnl_backward || data ? "max pooling's backward" : "max pooling";
    }
}

psr_err psr_onednn_implementations_add(psr_onednn_implementations *all,
                                       const_dnnl_primitive_desc_t pd, const char *node,
                                       double flop)
{
    if (all->count == all->capacity) {
        const uint32_t capacity = all->capacity ? 2 * all->capacity : 64;
        psr_onednn_implementation *items = realloc(all->items, capacity * sizeof *items);
        if (items == NULL)
            return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for names of implementations");
        all->items = items;
        all->capacity = capacity;
    }
    psr_onednn_implementation *item = &all->items[all->count++];
    *item = (psr_onednn_implementation){
        .node = node, .kind = kind_of(pd), .flop = flop, .loops = psr_onednn_is_loops(pd)};
    snprintf(item->name, sizeof item->name, "%s", name_of(pd));
    return PSR_OK;
}

/* What a loop takes of the time of a kernel, by order of magnitude (docs/measurements.md). */
#define LOOPS_TIMES 100

void psr_onednn_implementations_tell(const psr_onednn_implementations *all, char *text, size_t size)
{
    double flop = 0, by_loops = 0;
    uint32_t loops = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < all->count; i++) {
        flop += all->items[i].flop;
        by_loops += all->items[i].loops ? all->items[i].flop : 0;
        loops += all->items[i].loops;
    }
    if (loops == 0)
        return;
    used = (size_t)snprintf(
        text, size,
        "oneDNN has but loops for %u of %u primitives, %.2g%% of the multiplications, about %d "
        "times as slow: ",
        loops, all->count, flop > 0 ? 100 * by_loops / flop : 0.0, LOOPS_TIMES);
    for (uint32_t i = 0, told = 0; i < all->count && used < size; i++) {
        const psr_onednn_implementation *item = &all->items[i];
        if (item->loops)
            used += (size_t)snprintf(text + used, size - used, "%s%s, %s (%s)",
                                     told++ > 0 ? "; " : "", item->node, item->kind, item->name);
    }
}

void psr_onednn_implementations_done(psr_onednn_implementations *all)
{
    free(all->items);
    *all = (psr_onednn_implementations){0};
}
