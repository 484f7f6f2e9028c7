/* One direction of a convolution by oneDNN: its primitive, the weights on their way to it or from
 * it, and copies of the two values where it does not take them as they lie.
 *
 * Between two values as they lie oneDNN sometimes has but reference loops, a hundred times slower
 * than its kernels. Each primitive is asked (implementations.h), and where it is a loop other ways
 * are tried in the order of the table in conv_way.c; the first that is none is taken. No clock and
 * no name of a processor is asked, so the same processor always takes the same way. */
#ifndef PSR_MODEL_ONEDNN_LAYERS_CONV_WAY_H
#define PSR_MODEL_ONEDNN_LAYERS_CONV_WAY_H

#include "model/onednn/private.h"

/* A convolution of the plan; conv.c fills it in. */
typedef struct psr_conv {
    uint32_t node, input;
    uint32_t index; /* among the convolutions, for the choice of algorithms */
    uint32_t groups;
    dnnl_dims_t strides, dilates;
    dnnl_dims_t kernel, pad_begin, pad_end; /* of the window that meets images (conv.c, crop) */
    dnnl_memory_desc_t weights, bias;       /* as they lie in the arena; bias NULL when absent */
    dnnl_memory_desc_t any_weights;         /* in the compute type */
    dnnl_memory_desc_t any_gradient;
    dnnl_primitive_desc_t forward_pd; /* between the values as they lie: the hint for the
                                               backward pass; the executable's step owns it */
} psr_conv;

/* A value that the primitive reads or writes in the place of the network's own. */
typedef struct psr_conv_copy {
    psr_onednn_tensor tensor;
    psr_onednn_primitive copy; /* from the network's value, or to it; none: the tensor is it */
    bool larger;               /* the rest of it is zeros */
} psr_conv_copy;

typedef struct psr_conv_way {
    psr_onednn_direction direction;
    psr_onednn_weights weights;
    psr_onednn_primitive primitive;
    psr_conv_copy source, destination;
} psr_conv_way;

/* The description of the weights of a window of `in` channels in all and `out`: [out,in,KH,KW], or
 * with groups [groups,out/groups,in/groups,KH,KW]. tag: dnnl_oihw, for which dnnl_goihw stands in
 * with groups, or dnnl_format_tag_any. */
PSR_MUST_CHECK psr_err psr_conv_weights_desc(psr_onednn_exec *exec, const psr_conv *conv,
                                             uint32_t out, uint32_t in, const dnnl_dim_t kernel[2],
                                             dnnl_data_type_t type, dnnl_format_tag_t tag,
                                             dnnl_memory_desc_t *ret_desc);

/* The primitive between two values or their gradients, whose layouts may be oneDNN's choice
 * (dnnl_format_tag_any). The caller owns *ret_pd: dnnl_primitive_desc_destroy. */
dnnl_status_t psr_conv_describe(const psr_onednn_exec *exec, const psr_conv *conv,
                                psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                                const_dnnl_memory_desc_t source,
                                const_dnnl_memory_desc_t destination,
                                dnnl_primitive_desc_t *ret_pd);

/* Plans direction with the algorithm that was chosen for it, in the step that is being planned.
 * source and destination: the two values, or in the backward pass their gradients; in WORKSPACE,
 * but for a source that is read. psr_conv_way_done also after a failure. COMPUTE, NOMEM,
 * UNSUPPORTED. */
PSR_MUST_CHECK psr_err psr_conv_way_init(psr_onednn_exec *exec, const psr_conv *conv,
                                         psr_onednn_direction direction,
                                         const psr_onednn_tensor *source,
                                         const psr_onednn_tensor *destination,
                                         psr_conv_way *ret_way);
/* Nothing where none was planned (zero). */
PSR_MUST_CHECK psr_err psr_conv_way_run(const psr_onednn_exec *exec, const psr_conv_way *way);
void psr_conv_way_done(psr_conv_way *way);

#endif
