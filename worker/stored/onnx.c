#include "worker/stored/onnx.h"

#include "onnx.pb-c.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IR_VERSION = 7,
    OPSET = 13,
    FLOAT = 1, /* of data_type */
    INT64 = 7,
    ATTRIBUTE_FLOAT = 1, /* of an attribute's type */
    ATTRIBUTE_INT = 2,
    ATTRIBUTE_INTS = 7,
    INPUTS_MAX = 5,
    INTS_MAX = 8,
    ATTRIBUTES_MAX = 4,
    METADATA_MAX = 64,
};

#define MODEL_BYTES_MAX ((size_t)INT_MAX) /* of a protocol buffer */

/* Everything of a model lives until it is packed, in pieces of one list. */
typedef struct piece {
    struct piece *next;
    max_align_t bytes[];
} piece;

typedef struct maker {
    const psr_onnx_options *options;
    piece *pieces; /* owned */
    bool failed;   /* no memory */
    PsrOnnx__NodeProto **nodes;
    size_t node_count, node_room;
    PsrOnnx__TensorProto **tensors;
    size_t tensor_count, tensor_room;
    const char **values; /* [node_count of the net]: the name of each value */
} maker;

/* ---- memory ---- */

/* Zeroed. A failure is remembered, and then there is static room for one thing. */
static void *take(maker *m, size_t size)
{
    static max_align_t spare[64];
    piece *p = size <= SIZE_MAX - sizeof *p ? calloc(1, sizeof *p + size) : NULL;
    if (p == NULL) {
        m->failed = true;
        memset(spare, 0, sizeof spare);
        return size <= sizeof spare ? spare : NULL;
    }
    p->next = m->pieces;
    m->pieces = p;
    return p->bytes;
}

static char *PSR_PRINTF(2, 3) name_of(maker *m, const char *format, ...)
{
    char text[PSR_TENSOR_NAME_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *name = take(m, strlen(text) + 1);
    if (!m->failed)
        memcpy(name, text, strlen(text) + 1);
    return name;
}

/* Makes room for one pointer more in an array. */
static bool grow(maker *m, void **array, size_t count, size_t *room)
{
    if (count < *room)
        return true;
    void *larger = realloc(*array, (2 * count + 16) * sizeof(void *));
    if (larger == NULL) {
        m->failed = true;
        return false;
    }
    *array = larger;
    *room = 2 * count + 16;
    return true;
}

/* ---- parts ---- */

/* data is borrowed until the model is packed. */
static void add_tensor(maker *m, const char *name, int type, const void *data, size_t size,
                       uint32_t rank, const int64_t *dims)
{
    void *array = m->tensors;
    if (!grow(m, &array, m->tensor_count, &m->tensor_room))
        return;
    m->tensors = array;
    PsrOnnx__TensorProto *t = take(m, sizeof *t);
    int64_t *own = take(m, (rank + 1) * sizeof *own);
    if (m->failed)
        return;
    psr_onnx__tensor_proto__init(t);
    memcpy(own, dims, rank * sizeof *own);
    t->dims = own;
    t->n_dims = rank;
    t->has_data_type = t->has_raw_data = true;
    t->data_type = type;
    t->name = (char *)(uintptr_t)name;
    t->raw_data = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)data};
    m->tensors[m->tensor_count++] = t;
}

/* A list of numbers that an operator takes as an input. Returns its name. */
static const char *add_ints(maker *m, const char *name, const int64_t *numbers, uint32_t count)
{
    const int64_t dims[] = {count};
    int64_t *own = take(m, count * sizeof *own);
    if (m->failed)
        return name;
    memcpy(own, numbers, count * sizeof *own);
    add_tensor(m, name, INT64, own, count * sizeof *own, 1, dims);
    return name;
}

/* Inputs end at the first NULL. */
static PsrOnnx__NodeProto *add_node(maker *m, const char *op, const char *output,
                                    const char *const inputs[INPUTS_MAX])
{
    void *array = m->nodes;
    PsrOnnx__NodeProto *n = take(m, sizeof *n);
    char **names = take(m, (INPUTS_MAX + 1) * sizeof *names);
    PsrOnnx__AttributeProto **attributes = take(m, ATTRIBUTES_MAX * sizeof(void *));
    psr_onnx__node_proto__init(n);
    if (!grow(m, &array, m->node_count, &m->node_room) || m->failed)
        return n;
    m->nodes = array;
    while (n->n_input < INPUTS_MAX && inputs[n->n_input] != NULL) {
        names[n->n_input] = (char *)(uintptr_t)inputs[n->n_input];
        n->n_input++;
    }
    names[INPUTS_MAX] = (char *)(uintptr_t)output;
    n->input = names;
    n->output = names + INPUTS_MAX;
    n->n_output = 1;
    n->name = names[INPUTS_MAX];
    n->op_type = (char *)(uintptr_t)op;
    n->attribute = attributes;
    m->nodes[m->node_count++] = n;
    return n;
}

static PsrOnnx__AttributeProto *add_attribute(maker *m, PsrOnnx__NodeProto *n, const char *name,
                                              int type)
{
    PsrOnnx__AttributeProto *a = take(m, sizeof *a);
    psr_onnx__attribute_proto__init(a);
    a->name = (char *)(uintptr_t)name;
    a->has_type = true;
    a->type = type;
    if (!m->failed && n->n_attribute < ATTRIBUTES_MAX)
        n->attribute[n->n_attribute++] = a;
    return a;
}

static void set_ints(maker *m, PsrOnnx__NodeProto *n, const char *name, uint32_t count,
                     int64_t value)
{
    PsrOnnx__AttributeProto *a = add_attribute(m, n, name, ATTRIBUTE_INTS);
    int64_t *ints = take(m, INTS_MAX * sizeof *ints);
    if (m->failed)
        return;
    for (uint32_t i = 0; i < count; i++)
        ints[i] = value;
    a->ints = ints;
    a->n_ints = count;
}

static void set_int(maker *m, PsrOnnx__NodeProto *n, const char *name, int64_t value)
{
    PsrOnnx__AttributeProto *a = add_attribute(m, n, name, ATTRIBUTE_INT);
    a->has_i = true;
    a->i = value;
}

/* ---- the network's nodes ---- */

/* A tensor of a layout as an initializer; matrix: all dimensions but the first are one. */
static const char *weight(maker *m, const psr_layout *layout, const float *arena, uint32_t index,
                          bool matrix)
{
    if (index == PSR_NONE)
        return NULL;
    const psr_tensor *t = &layout->tensors[index];
    int64_t dims[4];
    for (uint32_t d = 0; d < t->rank; d++)
        dims[d] = t->shape[d];
    if (matrix)
        dims[1] = (int64_t)(t->count / t->shape[0]);
    add_tensor(m, t->name, FLOAT, arena + t->offset, t->count * sizeof(float), matrix ? 2 : t->rank,
               dims);
    return t->name;
}

static void set_window(maker *m, PsrOnnx__NodeProto *n, const psr_network_node *node)
{
    set_ints(m, n, "kernel_shape", 2, node->kernel);
    set_ints(m, n, "strides", 2, node->stride);
    set_ints(m, n, "pads", 4, node->pad);
}

static void make_conv(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const psr_onnx_options *o = m->options;
    const psr_tensor *w = &o->net->params.tensors[node->weight];
    const char *const inputs[INPUTS_MAX] = {
        x, weight(m, &o->net->params, o->weights, node->weight, false),
        weight(m, &o->net->params, o->weights, node->bias, false)};
    PsrOnnx__NodeProto *n = add_node(m, "Conv", y, inputs);
    set_window(m, n, node);
    set_int(m, n, "group", o->net->nodes[node->input[0]].channels / w->shape[1]);
}

static void make_norm(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const psr_onnx_options *o = m->options;
    const char *const inputs[INPUTS_MAX] = {
        x, weight(m, &o->net->params, o->weights, node->weight, false),
        weight(m, &o->net->params, o->weights, node->bias, false),
        weight(m, &o->net->buffers, o->buffers, node->mean, false),
        weight(m, &o->net->buffers, o->buffers, node->variance, false)};
    PsrOnnx__NodeProto *n = add_node(m, "BatchNormalization", y, inputs);
    PsrOnnx__AttributeProto *epsilon = add_attribute(m, n, "epsilon", ATTRIBUTE_FLOAT);
    epsilon->has_f = true;
    epsilon->f = (float)node->epsilon;
}

/* Every stride-th row and column; new channels are zero, half before, half after. */
static void make_shortcut(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const int64_t starts[] = {0, 0}, ends[] = {INT_MAX, INT_MAX}, axes[] = {2, 3},
                  steps[] = {node->stride, node->stride};
    const uint32_t more = node->channels - m->options->net->nodes[node->input[0]].channels;
    const int64_t pads[] = {0, more / 2, 0, 0, 0, more - more / 2, 0, 0};
    const char *const sliced = name_of(m, "%s.sliced", y);
    const char *const of_slice[INPUTS_MAX] = {x, add_ints(m, name_of(m, "%s.starts", y), starts, 2),
                                              add_ints(m, name_of(m, "%s.ends", y), ends, 2),
                                              add_ints(m, name_of(m, "%s.axes", y), axes, 2),
                                              add_ints(m, name_of(m, "%s.steps", y), steps, 2)};
    const char *const of_pad[INPUTS_MAX] = {sliced, add_ints(m, name_of(m, "%s.pads", y), pads, 8)};
    add_node(m, "Slice", sliced, of_slice);
    add_node(m, "Pad", y, of_pad);
}

static void make_linear(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const psr_onnx_options *o = m->options;
    const char *const rows = name_of(m, "%s.rows", y);
    const char *const of_rows[INPUTS_MAX] = {x};
    const char *const inputs[INPUTS_MAX] = {
        rows, weight(m, &o->net->params, o->weights, node->weight, true),
        weight(m, &o->net->params, o->weights, node->bias, false)};
    add_node(m, "Flatten", rows, of_rows);
    set_int(m, add_node(m, "Gemm", y, inputs), "transB", 1);
}

/* The gate's values [N,C] come from a linear layer, whose 1x1 picture is flat here. */
static void make_gate(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const int64_t axes[] = {2, 3};
    const char *const square = name_of(m, "%s.gate", y);
    const char *const of_square[INPUTS_MAX] = {m->values[node->input[1]],
                                               add_ints(m, name_of(m, "%s.axes", y), axes, 2)};
    const char *const inputs[INPUTS_MAX] = {x, square};
    add_node(m, "Unsqueeze", square, of_square);
    add_node(m, "Mul", y, inputs);
}

static void make_scale(maker *m, const psr_network_node *node, const char *x, const char *y)
{
    const int64_t one = 1;
    const char *const name = name_of(m, "%s.factor", y);
    const char *const inputs[INPUTS_MAX] = {x, name};
    float *factor = take(m, sizeof *factor); /* lives until the model is packed */
    if (factor == NULL)
        return;
    *factor = (float)node->factor;
    add_tensor(m, name, FLOAT, factor, sizeof *factor, 1, &one);
    add_node(m, "Mul", y, inputs);
}

/* y = x (1 + erf(x / sqrt(2))) / 2: ONNX has a Gelu since operator set 20, which is newer. */
static void make_gelu(maker *m, const char *x, const char *y)
{
    static const float numbers[] = {0.70710678f, 1.0f, 0.5f};
    static const char *const words[] = {"narrow", "one", "half"};
    const int64_t one = 1;
    const char *number[3];
    for (int i = 0; i < 3; i++) {
        number[i] = name_of(m, "%s.%s", y, words[i]);
        add_tensor(m, number[i], FLOAT, &numbers[i], sizeof numbers[i], 1, &one);
    }
    const char *scaled = name_of(m, "%s.scaled", y), *erf = name_of(m, "%s.erf", y),
               *raised = name_of(m, "%s.raised", y), *twice = name_of(m, "%s.twice", y);
    add_node(m, "Mul", scaled, (const char *const[INPUTS_MAX]){x, number[0]});
    add_node(m, "Erf", erf, (const char *const[INPUTS_MAX]){scaled});
    add_node(m, "Add", raised, (const char *const[INPUTS_MAX]){erf, number[1]});
    add_node(m, "Mul", twice, (const char *const[INPUTS_MAX]){x, raised});
    add_node(m, "Mul", y, (const char *const[INPUTS_MAX]){twice, number[2]});
}

/* Node i's value gets a name. UNSUPPORTED: an operator that this does not know. */
static psr_err make_node(maker *m, uint32_t i)
{
    const psr_network_node *node = &m->options->net->nodes[i];
    const bool is_last = i + 1 == m->options->net->node_count;
    const char *y = is_last ? "logits" : name_of(m, "value%" PRIu32 ".%s", i, node->name);
    const char *x = m->values[node->input[0]];
    const char *const inputs[INPUTS_MAX] = {
        x, node->input[1] != PSR_NONE ? m->values[node->input[1]] : NULL};
    m->values[i] = y;
    switch (node->op) {
    case PSR_OP_CONV:
        make_conv(m, node, x, y);
        return PSR_OK;
    case PSR_OP_BATCHNORM:
        make_norm(m, node, x, y);
        return PSR_OK;
    case PSR_OP_RELU:
        add_node(m, "Relu", y, inputs);
        return PSR_OK;
    case PSR_OP_MAXPOOL:
        set_window(m, add_node(m, "MaxPool", y, inputs), node);
        return PSR_OK;
    case PSR_OP_AVGPOOL:
        add_node(m, "GlobalAveragePool", y, inputs);
        return PSR_OK;
    case PSR_OP_ADD:
        add_node(m, "Add", y, inputs);
        return PSR_OK;
    case PSR_OP_SHORTCUT_A:
        make_shortcut(m, node, x, y);
        return PSR_OK;
    case PSR_OP_FLATTEN:
        add_node(m, "Flatten", y, inputs);
        return PSR_OK;
    case PSR_OP_LINEAR:
        make_linear(m, node, x, y);
        return PSR_OK;
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
        add_node(m, "Identity", y, inputs);
        return PSR_OK;
    case PSR_OP_SIGMOID:
        add_node(m, "Sigmoid", y, inputs);
        return PSR_OK;
    case PSR_OP_GATE:
        make_gate(m, node, x, y);
        return PSR_OK;
    case PSR_OP_SCALE:
        make_scale(m, node, x, y);
        return PSR_OK;
    case PSR_OP_GELU:
        make_gelu(m, x, y);
        return PSR_OK;
    case PSR_OP_INPUT:
        break;
    }
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "--to onnx: the node %.100s of %.32s is of a kind (%d) that it does not know",
                    node->name[0] != '\0' ? node->name : "without a name", m->options->net->name,
                    (int)node->op);
}

/* (image - mean) / deviation, or the image as it is. */
static void make_input(maker *m)
{
    const psr_onnx_options *o = m->options;
    const int64_t dims[] = {1, o->net->channels, 1, 1};
    const size_t size = o->net->channels * sizeof(float);
    const char *const centre[INPUTS_MAX] = {"image", "input.mean"}, *const scale[INPUTS_MAX] = {
                                                                        "input.centred",
                                                                        "input.deviation"};
    m->values[0] = "image";
    if (o->mean == NULL)
        return;
    add_tensor(m, "input.mean", FLOAT, o->mean, size, 4, dims);
    add_tensor(m, "input.deviation", FLOAT, o->deviation, size, 4, dims);
    add_node(m, "Sub", "input.centred", centre);
    add_node(m, "Div", "input.normalised", scale);
    m->values[0] = "input.normalised";
}

/* ---- the model ---- */

/* A float32 value whose first dimension is free. */
typedef struct described {
    PsrOnnx__ValueInfoProto value;
    PsrOnnx__TypeProto type;
    PsrOnnx__TypeOfTensor tensor;
    PsrOnnx__TensorShapeProto shape;
    PsrOnnx__Dimension dims[4], *pointers[4];
} described;

static PsrOnnx__ValueInfoProto *describe(maker *m, const char *name, uint32_t rank,
                                         const int64_t *dims)
{
    static char free_dimension[] = "N";
    described *d = take(m, sizeof *d);
    if (m->failed)
        return NULL;
    psr_onnx__value_info_proto__init(&d->value);
    psr_onnx__type_proto__init(&d->type);
    psr_onnx__type_of_tensor__init(&d->tensor);
    psr_onnx__tensor_shape_proto__init(&d->shape);
    for (uint32_t i = 0; i < rank; i++) {
        psr_onnx__dimension__init(&d->dims[i]);
        d->dims[i].has_dim_value = i > 0;
        d->dims[i].dim_value = dims[i];
        d->dims[i].dim_param = i > 0 ? NULL : free_dimension;
        d->pointers[i] = &d->dims[i];
    }
    d->shape.dim = d->pointers;
    d->shape.n_dim = rank;
    d->tensor.has_elem_type = true;
    d->tensor.elem_type = FLOAT;
    d->tensor.shape = &d->shape;
    d->type.tensor_type = &d->tensor;
    d->value.name = (char *)(uintptr_t)name;
    d->value.type = &d->type;
    return &d->value;
}

static size_t list_metadata(maker *m, PsrOnnx__StringStringEntryProto *entries[METADATA_MAX])
{
    size_t count = 0;
    const char *const *pair = m->options->metadata;
    for (; pair != NULL && pair[0] != NULL && count < METADATA_MAX; pair += 2) {
        PsrOnnx__StringStringEntryProto *entry = take(m, sizeof *entry);
        if (m->failed)
            break;
        psr_onnx__string_string_entry_proto__init(entry);
        entry->key = (char *)(uintptr_t)pair[0];
        entry->value = (char *)(uintptr_t)pair[1];
        entries[count++] = entry;
    }
    return count;
}

static psr_err pack(maker *m, void **ret_bytes, size_t *ret_size)
{
    static char producer[] = "psring", version[] = PSR_VERSION, domain[] = "";
    const psr_network *net = m->options->net;
    const int64_t of_image[] = {0, net->channels, net->height, net->width},
                  of_logits[] = {0, net->classes};
    PsrOnnx__StringStringEntryProto *entries[METADATA_MAX];
    PsrOnnx__ValueInfoProto *image = describe(m, "image", 4, of_image),
                            *logits = describe(m, "logits", 2, of_logits);
    PsrOnnx__GraphProto graph = PSR_ONNX__GRAPH_PROTO__INIT;
    graph.node = m->nodes;
    graph.n_node = m->node_count;
    graph.name = (char *)(uintptr_t)net->name;
    graph.initializer = m->tensors;
    graph.n_initializer = m->tensor_count;
    graph.input = &image;
    graph.output = &logits;
    graph.n_input = graph.n_output = 1;
    PsrOnnx__OperatorSetIdProto opset = PSR_ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets = &opset;
    opset.domain = domain;
    opset.has_version = true;
    opset.version = OPSET;
    PsrOnnx__ModelProto model = PSR_ONNX__MODEL_PROTO__INIT;
    model.has_ir_version = true;
    model.ir_version = IR_VERSION;
    model.producer_name = producer;
    model.producer_version = version;
    model.graph = &graph;
    model.opset_import = &opsets;
    model.n_opset_import = 1;
    model.n_metadata_props = list_metadata(m, entries);
    model.metadata_props = entries;
    if (m->failed)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an ONNX model");
    const size_t size = psr_onnx__model_proto__get_packed_size(&model);
    if (size > MODEL_BYTES_MAX)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--to onnx: %zu bytes are more than a file of this format can have; give "
                        "--to safetensors",
                        size);
    uint8_t *bytes = malloc(size);
    if (bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an ONNX model");
    psr_onnx__model_proto__pack(&model, bytes);
    *ret_bytes = bytes;
    *ret_size = size;
    return PSR_OK;
}

psr_err psr_onnx_make(const psr_onnx_options *options, void **ret_bytes, size_t *ret_size)
{
    maker m = {.options = options};
    m.values = calloc(options->net->node_count, sizeof *m.values);
    if (m.values == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an ONNX model");
    psr_err err = PSR_OK;
    make_input(&m);
    for (uint32_t i = 1; err == PSR_OK && i < options->net->node_count; i++)
        err = make_node(&m, i);
    if (err == PSR_OK)
        err = pack(&m, ret_bytes, ret_size);
    while (m.pieces != NULL) {
        piece *next = m.pieces->next;
        free(m.pieces);
        m.pieces = next;
    }
    free(m.values);
    free(m.nodes);
    free(m.tensors);
    return err;
}
