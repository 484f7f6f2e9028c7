/* What the files of the oneDNN back end share.
 *
 * A network becomes a row of groups of nodes that one kernel computes together
 * (model/fusion_groups.h); for one batch size each group becomes a step, planned forward and then,
 * in reverse, backward; planning creates oneDNN's primitives, chooses the layouts and says which
 * buffer lives in which step. Then the buffers get their places and every memory object its
 * binding, and a pass is nothing but calling the steps.
 *
 * A value x[N,C,H,W] lies in memory as x[N][C/B][S][B] with S = H*W: plain is B = 1, channels last
 * B = C, blocked B = 8 or 16 with C rounded up and zeros in between. */
#ifndef PSR_MODEL_ONEDNN_PRIVATE_H
#define PSR_MODEL_ONEDNN_PRIVATE_H

#include "model/backend.h"
#include "model/pass_buffers.h"
#include "model/onednn/choice/choice.h"
#include "model/onednn/compat.h"
#include "model/fusion_groups.h"
#include "model/onednn/implementations.h"
#include "model/onednn/kernels/image_lanes.h"
#include "model/onednn/kernels/tiles.h"
#include "model/readiness.h"
#include "model/onednn/kernels/winograd.h"
#include "model/onednn/kernels/winograd_bf16.h"

typedef enum psr_onednn_layout {
    PSR_ONEDNN_PLAIN,
    PSR_ONEDNN_CHANNELS_LAST,
    PSR_ONEDNN_BLOCKED_8,
    PSR_ONEDNN_BLOCKED_16,
    PSR_ONEDNN_OTHER, /* one that only oneDNN's primitives understand */
} psr_onednn_layout;

/* Where a memory object's bytes are: in the workspace, or in what the caller lends for a pass. */
typedef enum psr_onednn_space {
    PSR_ONEDNN_WORKSPACE, /* at: a buffer's index */
    PSR_ONEDNN_IMAGES,    /* at: 0 */
    PSR_ONEDNN_WEIGHTS,   /* at: floats from the arena's start */
    PSR_ONEDNN_GRADIENTS, /* likewise */
    PSR_ONEDNN_SPACES,
} psr_onednn_space;

typedef struct psr_onednn_tensor {
    uint32_t n, c, h, w;
    psr_onednn_layout layout;
    uint32_t block, blocks; /* B, and how many of them; 0 for OTHER */
    dnnl_data_type_t type;
    dnnl_memory_desc_t desc; /* owned by the executable */
    size_t bytes;
    psr_onednn_space space;
    uint32_t buffer;
} psr_onednn_tensor;

/* Gradients of a value that its readers have made and that its maker is to add up. */
typedef struct psr_onednn_gradients {
    uint32_t buffers[4];
    uint32_t count;
} psr_onednn_gradients;

/* What all executables of a back end share. */
typedef struct psr_onednn_context {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* user-mode scratchpad, deterministic */
    dnnl_data_type_t type;      /* of activations */
    uint32_t threads;
    psr_onednn_layout layout; /* of convolutions' values; OTHER: oneDNN's
                                 choice, which only tests overrule */
    bool sync_norms;          /* passes of training stop at each batch norm (model/norm_sums.h) */
    bool only_plans;          /* executables cannot run: primitives are
                                 described, not made */
} psr_onednn_context;

typedef struct psr_onednn_exec psr_onednn_exec;
typedef struct psr_onednn_step psr_onednn_step;

/* One kind of step. Every function but done may fail with COMPUTE, NOMEM or UNSUPPORTED. */
typedef struct psr_onednn_step_class {
    psr_err (*plan_forward)(psr_onednn_exec *exec, psr_onednn_step *step);
    psr_err (*plan_backward)(psr_onednn_exec *exec, psr_onednn_step *step);
    psr_err (*forward)(psr_onednn_exec *exec, psr_onednn_step *step);
    psr_err (*backward)(psr_onednn_exec *exec, psr_onednn_step *step);
    void (*done)(psr_onednn_step *step); /* NULL when self holds nothing but itself */
} psr_onednn_step_class;

extern const psr_onednn_step_class psr_onednn_input;
extern const psr_onednn_step_class psr_onednn_conv;
extern const psr_onednn_step_class psr_onednn_norm;
extern const psr_onednn_step_class psr_onednn_pool;
extern const psr_onednn_step_class psr_onednn_mean;
extern const psr_onednn_step_class psr_onednn_relu;
extern const psr_onednn_step_class psr_onednn_add;
extern const psr_onednn_step_class psr_onednn_shortcut;
extern const psr_onednn_step_class psr_onednn_flatten;
extern const psr_onednn_step_class psr_onednn_dropout;
extern const psr_onednn_step_class psr_onednn_linear;
extern const psr_onednn_step_class psr_onednn_sigmoid;
extern const psr_onednn_step_class psr_onednn_gate;
extern const psr_onednn_step_class psr_onednn_scale;
extern const psr_onednn_step_class psr_onednn_gelu;

struct psr_onednn_step {
    const psr_onednn_step_class *class;
    const psr_fusion_group *group;
    void *self;        /* the class's own; freed with free() after done */
    bool has_gradient; /* false: what it gives depends on no parameter, and it has no backward */
    /* Buffers to be added up (into += from) before the step's backward. */
    struct {
        uint32_t into, from;
        size_t count;
    } sums[4];
    uint32_t sum_count;
};

/* A memory object and where its bytes are. */
typedef struct psr_onednn_binding {
    dnnl_memory_t memory;
    psr_onednn_space space;
    size_t at;
} psr_onednn_binding;

struct psr_onednn_exec {
    const psr_onednn_context *context;
    const psr_network *net;
    const psr_fusion_groups *groups;
    const char *choices; /* of algorithms, one per convolution in order (choice.h) */
    uint32_t count;      /* N */
    bool training;

    psr_onednn_step *steps;    /* groups->count */
    psr_onednn_tensor *values; /* [node_count]: those that a group gives */
    psr_onednn_gradients *gradients;
    uint32_t logits_gradient; /* buffer: float[N,classes] */

    psr_pass_buffers buffers;
    uint32_t scratch, packed, diff_weights; /* buffers that all primitives share */

    psr_onednn_implementations implementations; /* of all primitives, as they were planned */
    psr_onednn_binding *bindings;
    uint32_t binding_count, binding_capacity;
    dnnl_memory_desc_t *descs;
    uint32_t desc_count, desc_capacity;
    void *bound[PSR_ONEDNN_SPACES]; /* what the bindings point to now */

    /* Of the present pass. */
    char *base;
    const psr_batch *batch;
    const psr_exec_state *state;
    psr_readiness *readiness;
    double label_smoothing;
    float loss_scale;
    psr_pass_result result;
    bool backward;
    uint32_t at; /* the step that comes next, or has stopped; backward: 1 + it */
    /* With context->sync_norms: sums of a stop, owned. A batch norm's step stops the pass once in
     * each direction, when it has given them, and is called again when they are all workers'. */
    double *sums;
    bool stopped;
};

/* The batch norms of a group, which stop together. */
static inline psr_norm_stop psr_onednn_stop(const psr_fusion_group *group)
{
    return (psr_norm_stop){.nodes = {group->norm, group->second_norm}};
}

/* ---- tensor.c ---- */

/* oneDNN's status as ours, with what was asked of it. */
psr_err psr_onednn_fail(dnnl_status_t status, const char *what, const char *name);

/* A description that the executable owns. */
PSR_MUST_CHECK psr_err psr_onednn_desc(psr_onednn_exec *exec, int rank, const dnnl_dims_t dims,
                                       dnnl_data_type_t type, dnnl_format_tag_t tag,
                                       dnnl_memory_desc_t *ret_desc);

/* Likewise of the part of whole's array that begins at offsets. */
PSR_MUST_CHECK psr_err psr_onednn_desc_within(psr_onednn_exec *exec, const_dnnl_memory_desc_t whole,
                                              const dnnl_dims_t dims, const dnnl_dims_t offsets,
                                              dnnl_memory_desc_t *ret_desc);

/* node's value in a layout; `desc` a copy of one that oneDNN chose, whose layout is found out. No
 * buffer yet: space WORKSPACE, buffer to be filled in. */
PSR_MUST_CHECK psr_err psr_onednn_tensor_in(psr_onednn_exec *exec, uint32_t node,
                                            psr_onednn_layout layout, dnnl_data_type_t type,
                                            psr_onednn_tensor *ret_tensor);
PSR_MUST_CHECK psr_err psr_onednn_tensor_as(psr_onednn_exec *exec, uint32_t node,
                                            const_dnnl_memory_desc_t desc, dnnl_data_type_t type,
                                            psr_onednn_tensor *ret_tensor);
/* Makes tensor node's value, in a new buffer. */
PSR_MUST_CHECK psr_err psr_onednn_give(psr_onednn_exec *exec, uint32_t node,
                                       const psr_onednn_tensor *tensor);
/* node's value, in use in the step that is being planned. */
psr_onednn_tensor *psr_onednn_use(psr_onednn_exec *exec, uint32_t node);

dnnl_format_tag_t psr_onednn_tag(psr_onednn_layout layout);
static inline size_t psr_onednn_type_bytes(dnnl_data_type_t type)
{
    return type == dnnl_bf16 ? 2 : 4;
}
static inline size_t psr_onednn_elements(const psr_onednn_tensor *tensor)
{
    return tensor->bytes / psr_onednn_type_bytes(tensor->type);
}

/* Where in its space a value begins, for a binding. */
static inline size_t psr_onednn_place(const psr_onednn_tensor *tensor)
{
    return tensor->space == PSR_ONEDNN_WORKSPACE ? tensor->buffer : 0;
}

/* Bytes of a value or a buffer in the present pass. */
void *psr_onednn_at(const psr_onednn_exec *exec, uint32_t buffer);
void *psr_onednn_data(const psr_onednn_exec *exec, const psr_onednn_tensor *tensor);

/* ---- gradients of values, while the backward pass is planned ---- */

/* False for values whose gradient nobody wants: the images, and what depends on no trained
 * parameter. */
bool psr_onednn_wants_gradient(const psr_onednn_exec *exec, uint32_t node);
/* Whether node's weight or bias is trained. If one of them is, both gradients may be written. */
bool psr_onednn_wants_parameters(const psr_onednn_exec *exec, uint32_t node);
/* A reader of node has made a gradient of node's layout in buffer. */
PSR_MUST_CHECK psr_err psr_onednn_gradient_put(psr_onednn_exec *exec, uint32_t node,
                                               uint32_t buffer);
/* node's maker takes them, at most `most` (1 or 2); more are added up before the step runs. */
uint32_t psr_onednn_gradient_take(psr_onednn_exec *exec, psr_onednn_step *step, uint32_t node,
                                  uint32_t most, uint32_t ret_buffers[2]);

/* ---- primitive.c ---- */

#define PSR_ONEDNN_ARGS_MAX 8

/* A primitive with its arguments. Zero: none. */
typedef struct psr_onednn_primitive {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[PSR_ONEDNN_ARGS_MAX];
    int arg_count;
} psr_onednn_primitive;

/* Grows the shared scratchpad to what the primitive needs. pd borrowed for the call, name (the
 * node's) for the executable's life. flop: its multiplications and additions; 0: it has none. */
PSR_MUST_CHECK psr_err psr_onednn_primitive_init(psr_onednn_exec *exec,
                                                 const_dnnl_primitive_desc_t pd, const char *name,
                                                 double flop, psr_onednn_primitive *ret_primitive);
/* Multiplications and additions of one direction of a convolution or a linear layer. */
double psr_onednn_flop(const psr_onednn_exec *exec, uint32_t node);
void psr_onednn_primitive_done(psr_onednn_primitive *primitive);
/* Adds an argument whose bytes are at `at` of space. */
PSR_MUST_CHECK psr_err psr_onednn_primitive_arg(psr_onednn_exec *exec,
                                                psr_onednn_primitive *primitive, int arg,
                                                const_dnnl_memory_desc_t desc,
                                                psr_onednn_space space, size_t at);
PSR_MUST_CHECK psr_err psr_onednn_primitive_tensor(psr_onednn_exec *exec,
                                                   psr_onednn_primitive *primitive, int arg,
                                                   const psr_onednn_tensor *tensor);
/* None: does nothing. */
PSR_MUST_CHECK psr_err psr_onednn_primitive_run(const psr_onednn_exec *exec,
                                                const psr_onednn_primitive *primitive);

/* A copy from one place to another, whatever the layouts. */
PSR_MUST_CHECK psr_err psr_onednn_copy_init(psr_onednn_exec *exec, const_dnnl_memory_desc_t from,
                                            psr_onednn_space from_space, size_t from_at,
                                            const_dnnl_memory_desc_t to, psr_onednn_space to_space,
                                            size_t to_at, const char *name,
                                            psr_onednn_primitive *ret_primitive);
/* Likewise, but none when the descriptions are equal: for bytes that serve as they are. */
PSR_MUST_CHECK psr_err psr_onednn_reorder_init(psr_onednn_exec *exec, const_dnnl_memory_desc_t from,
                                               psr_onednn_space from_space, size_t from_at,
                                               const_dnnl_memory_desc_t to,
                                               psr_onednn_space to_space, size_t to_at,
                                               const char *name,
                                               psr_onednn_primitive *ret_primitive);

/* Points every memory object at the present pass's arrays. */
PSR_MUST_CHECK psr_err psr_onednn_bind(psr_onednn_exec *exec);

/* ---- weights: from the arena to the layout of a primitive, and back ---- */

/* A weight tensor in the layout that one primitive wants: from the arena into the shared packed
 * buffer (or the arena itself, when that is the layout), or from the shared buffer back into the
 * gradient arena. */
typedef struct psr_onednn_weights {
    psr_onednn_space side; /* of the arena: weights or gradients */
    size_t offset;         /* there */
    size_t zeros;          /* floats of a gradient to clear first, when
                              the primitive gives but a part of it */
    bool tiled, paired;    /* moved by tiles.h; else by the reorder, if there is one */
    psr_onednn_tiles tiles;
    psr_onednn_pairs pairs;       /* the same for bf16 */
    psr_onednn_primitive reorder; /* none when the arena serves */
    psr_onednn_space space;       /* where the primitive finds it */
    size_t at;
} psr_onednn_weights;

/* arena: description of tensor `param` as it lies in the arena, or of a part of it; wanted: the
 * primitive's.
 */
PSR_MUST_CHECK psr_err psr_onednn_weights_init(psr_onednn_exec *exec, uint32_t param,
                                               const_dnnl_memory_desc_t arena,
                                               const_dnnl_memory_desc_t wanted,
                                               psr_onednn_space side,
                                               psr_onednn_weights *ret_weights);
/* Packs them before their primitive runs; or brings a gradient back into the arena after it. */
PSR_MUST_CHECK psr_err psr_onednn_weights_move(const psr_onednn_exec *exec,
                                               const psr_onednn_weights *weights);

/* ---- conv.c ---- */

/* The layout in which group, a convolution of the images, reads them with most profit. Borrowed:
 * the executable's. */
PSR_MUST_CHECK psr_err psr_onednn_conv_source(psr_onednn_exec *exec, const psr_fusion_group *group,
                                              dnnl_memory_desc_t *ret_desc);

/* One direction of a planned convolution by oneDNN, DIRECT or WINOGRAD, between the layouts that
 * its values have. False when there is none but loops, which nobody wants to time. The caller owns
 * *ret_pd: dnnl_primitive_desc_destroy. */
bool psr_onednn_conv_create(const psr_onednn_exec *exec, const psr_onednn_step *step,
                            psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                            dnnl_primitive_desc_t *ret_pd);
/* All directions by OWN_WINOGRAD. False when it does not fit. */
bool psr_onednn_conv_winograd(const psr_onednn_exec *exec, const psr_onednn_step *step,
                              psr_winograd *ret_winograd);

/* ---- elementwise.c ---- */

/* into[i] += from[i]. */
void psr_onednn_accumulate(uint32_t threads, dnnl_data_type_t type, void *into, const void *from,
                           size_t count);
/* Element-wise conversion; a bf16 is the nearest, ties to even. */
void psr_onednn_to_bf16(const float *from, uint16_t *to, size_t count);

/* [begin, end) of part i when count is cut into parts, as even as can be. */
static inline size_t psr_onednn_cut(size_t count, size_t parts, size_t i)
{
    return count / parts * i + (count % parts) * i / parts;
}

#endif
