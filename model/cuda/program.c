#include "model/cuda/program.h"

#include "model/cuda/program_build.h"
#include "model/dropout.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

/* Room for one more in a list. NULL: there is no memory. */
static void *grown(psr_cuda_build *b, void *items, uint32_t count, uint32_t *room, size_t size)
{
    if (b->err != PSR_OK || count < *room)
        return items;
    const uint32_t more = *room == 0 ? 64 : 2 * *room;
    void *larger = realloc(items, more * size);
    if (larger == NULL) {
        b->err = psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the program of %s", b->net->name);
        return items;
    }
    *room = more;
    return larger;
}

static psr_cuda_step *add_step(psr_cuda_build *b, uint32_t node, bool backward)
{
    psr_cuda_program *p = b->program;
    p->steps = grown(b, p->steps, p->step_count, &b->step_room, sizeof *p->steps);
    if (b->err != PSR_OK)
        return NULL;
    psr_cuda_step *step = &p->steps[p->step_count++];
    memset(step, 0, sizeof *step);
    step->node = node;
    step->backward = backward;
    if (backward) {
        step->layer = node;
        step->layer_nodes = 1;
    } else if (b->group != NULL) {
        step->layer = b->group->nodes[0];
        step->layer_nodes = b->group->node_count;
    }
    step->graph = PSR_NONE;
    return step;
}

/* ---- places ---- */

uint32_t psr_cuda_build_place(psr_cuda_build *b, psr_cuda_memory memory, size_t offset,
                              size_t bytes)
{
    psr_cuda_program *p = b->program;
    p->places = grown(b, p->places, p->place_count, &b->place_room, sizeof *p->places);
    if (b->err != PSR_OK)
        return PSR_NONE;
    p->places[p->place_count] = (psr_cuda_place){memory, PSR_NONE, offset, bytes};
    return p->place_count++;
}

uint32_t psr_cuda_build_room(psr_cuda_build *b, size_t bytes)
{
    const uint32_t place = psr_cuda_build_place(b, PSR_CUDA_ROOM, 0, bytes);
    b->buffers.now = b->program->step_count;
    if (b->err == PSR_OK)
        b->err = psr_pass_buffer_add(&b->buffers, bytes, &b->program->places[place].buffer);
    return place;
}

static uint32_t place_of_tensor(psr_cuda_build *b, psr_cuda_memory memory, const psr_tensor *tensor)
{
    return psr_cuda_build_place(b, memory, tensor->offset * sizeof(float),
                                tensor->count * sizeof(float));
}

uint32_t psr_cuda_build_weight(psr_cuda_build *b, uint32_t tensor)
{
    return place_of_tensor(b, PSR_CUDA_WEIGHTS, &b->net->params.tensors[tensor]);
}

uint32_t psr_cuda_build_weight_gradient(psr_cuda_build *b, uint32_t tensor)
{
    return place_of_tensor(b, PSR_CUDA_GRADIENTS, &b->net->params.tensors[tensor]);
}

uint32_t psr_cuda_build_buffer(psr_cuda_build *b, uint32_t tensor, psr_cuda_memory memory)
{
    return place_of_tensor(b, memory, &b->net->buffers.tensors[tensor]);
}

/* The newest step reads or writes a place: rooms live as long as that. */
static void add_use(psr_cuda_build *b, uint32_t at, uint32_t place, bool written)
{
    if (b->err != PSR_OK)
        return;
    psr_cuda_program *p = b->program;
    psr_cuda_step *step = &p->steps[p->step_count - 1];
    step->uses[step->use_count++] = (psr_cuda_use){place, at, written};
    if (p->places[place].memory != PSR_CUDA_ROOM)
        return;
    psr_pass_buffer *buffer = &b->buffers.items[p->places[place].buffer];
    b->buffers.now = p->step_count - 1;
    psr_pass_buffer_use(&b->buffers, p->places[place].buffer);
    if (buffer->first > b->buffers.now)
        buffer->first = b->buffers.now;
}

/* ---- sizes ---- */

size_t psr_cuda_type_bytes(psr_cuda_type type)
{
    return type == PSR_CUDA_FLOAT32 ? 4 : type == PSR_CUDA_INT8 ? 1 : 2;
}

/* cuDNN has no weight gradients for one or three channels, so the images, of which nobody wants a
 * gradient, come with channels of zeros behind their own, and so do the filters that read them. */
uint32_t psr_cuda_build_channels(const psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    return n->op == PSR_OP_INPUT ? (n->channels + 3) / 4 * 4 : n->channels;
}

size_t psr_cuda_build_count(const psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    return (size_t)b->batch * psr_cuda_build_channels(b, node) * n->height * n->width;
}

bool psr_cuda_build_is_number(const psr_cuda_build *b, uint32_t node)
{
    return psr_cuda_build_count(b, node) == b->batch;
}

psr_cuda_type psr_cuda_build_type(const psr_cuda_build *b, uint32_t node)
{
    return node >= b->tail ? PSR_CUDA_FLOAT32 : b->type;
}

psr_cuda_window psr_cuda_build_window(const psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_network_node *input = &b->net->nodes[n->input[0]];
    if (n->op == PSR_OP_AVGPOOL) /* the global mean's window is the image */
        return (psr_cuda_window){input->height, input->width, 1, 0};
    return (psr_cuda_window){n->kernel, n->kernel, n->stride, n->pad};
}

bool psr_cuda_build_filter_is_plain(const psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    return n->kernel == 1 && b->net->nodes[n->input[0]].op != PSR_OP_INPUT;
}

bool psr_cuda_build_trains(const psr_cuda_build *b, uint32_t tensor)
{
    return tensor != PSR_NONE && !b->net->params.tensors[tensor].frozen;
}

/* ---- graphs ---- */

void psr_cuda_cut_begin(psr_cuda_cut *cut)
{
    psr_cuda_graph_begin(&cut->g);
    for (uint32_t i = 0; i < PSR_CUDA_GRAPH_TENSORS; i++)
        cut->places[i] = PSR_NONE;
    memset(cut->numbers, 0, sizeof cut->numbers);
}

/* Where the newest tensor lies. */
static uint32_t lay(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t tensor, uint32_t place)
{
    const psr_cuda_tensor *t = &cut->g.tensors[tensor];
    size_t bytes = psr_cuda_type_bytes(t->type);
    for (uint32_t i = 0; i < t->rank; i++)
        bytes *= (size_t)t->dims[i];
    cut->places[tensor] = place != PSR_NONE ? place : psr_cuda_build_room(b, bytes);
    return tensor;
}

static uint32_t image_of(psr_cuda_build *b, psr_cuda_cut *cut, psr_cuda_type type, uint32_t node,
                         uint32_t place)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t tensor = psr_cuda_image(&cut->g, type, b->batch,
                                           psr_cuda_build_channels(b, node), n->height, n->width);
    return lay(b, cut, tensor, place);
}

uint32_t psr_cuda_cut_value(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, uint32_t place)
{
    return image_of(b, cut, psr_cuda_build_type(b, node), node, place);
}

uint32_t psr_cuda_cut_gradient(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, uint32_t place)
{
    return image_of(b, cut, b->type, node, place);
}

uint32_t psr_cuda_cut_filter(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node,
                             psr_cuda_type type, uint32_t place)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t in = psr_cuda_build_channels(b, n->input[0]);
    return lay(b, cut,
               psr_cuda_image(&cut->g, type, n->channels, in / n->groups, n->kernel, n->kernel),
               place);
}

uint32_t psr_cuda_cut_channels(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t channels,
                               uint32_t place)
{
    return lay(b, cut, psr_cuda_channels(&cut->g, channels), place);
}

uint32_t psr_cuda_cut_matrix(psr_cuda_build *b, psr_cuda_cut *cut, psr_cuda_type type,
                             uint32_t rows, uint32_t columns, bool transposed, uint32_t place)
{
    return lay(b, cut, psr_cuda_matrix(&cut->g, type, rows, columns, transposed), place);
}

uint32_t psr_cuda_cut_number(psr_cuda_cut *cut, double number)
{
    const uint32_t tensor = psr_cuda_number(&cut->g);
    cut->numbers[tensor] = (float)number;
    return tensor;
}

/* How many of an operation's first tensors it reads. */
static uint32_t read_by(const psr_cuda_operation *o)
{
    switch (o->kind) {
    case PSR_CUDA_STATISTICS:
    case PSR_CUDA_MAX_POOL:
    case PSR_CUDA_MEAN_POOL:
    case PSR_CUDA_MEAN_POOL_BACKWARD:
        return 1;
    case PSR_CUDA_NORM:
        return 7;
    case PSR_CUDA_NORM_BACKWARD:
        return 5;
    default:
        return o->tensor_count - 1;
    }
}

static bool is_written(const psr_cuda_graph *g, uint32_t tensor)
{
    for (uint32_t i = 0; i < g->operation_count; i++)
        for (uint32_t k = read_by(&g->operations[i]); k < g->operations[i].tensor_count; k++)
            if (g->operations[i].tensors[k] == tensor)
                return true;
    return false;
}

void psr_cuda_cut_end(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, bool backward)
{
    psr_cuda_program *p = b->program;
    if (b->err == PSR_OK)
        b->err = psr_cuda_graph_check(&cut->g);
    p->graphs = grown(b, p->graphs, p->graph_count, &b->graph_room, sizeof *p->graphs);
    psr_cuda_step *step = add_step(b, node, backward);
    if (b->err != PSR_OK)
        return;
    p->graphs[p->graph_count] = cut->g;
    step->graph = p->graph_count++;
    memcpy(step->numbers, cut->numbers, sizeof step->numbers);
    for (uint32_t i = 0; i < cut->g.tensor_count; i++)
        if (cut->places[i] != PSR_NONE)
            add_use(b, i, cut->places[i], is_written(&cut->g, i));
}

/* ---- kernels ---- */

void psr_cuda_build_kernel(psr_cuda_build *b, uint32_t node, bool backward, psr_cuda_kernel kernel,
                           const psr_cuda_arguments *arguments)
{
    psr_cuda_step *step = add_step(b, node, backward);
    if (step == NULL)
        return;
    step->kernel = kernel;
    step->arguments = *arguments;
}

void psr_cuda_build_use(psr_cuda_build *b, size_t at, uint32_t place, bool written)
{
    if (place != PSR_NONE)
        add_use(b, (uint32_t)at, place, written);
}

void psr_cuda_build_cast(psr_cuda_build *b, uint32_t node, bool backward, uint32_t x,
                         psr_cuda_type from, uint32_t y, psr_cuda_type to, size_t count)
{
    const psr_cuda_arguments arguments = {.cast = {.from = from, .to = to, .count = count}};
    psr_cuda_build_kernel(b, node, backward, PSR_CUDA_KERNEL_cast, &arguments);
    PSR_CUDA_READS(b, cast, x, x);
    PSR_CUDA_WRITES(b, cast, y, y);
}

void psr_cuda_build_dropout(psr_cuda_build *b, uint32_t node, bool backward, uint32_t x, uint32_t y)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {.dropout = {.drop = (float)n->drop,
                                                      .scale = psr_dropout_scale(n->drop),
                                                      .whole_channels = n->op == PSR_OP_DROPOUT2D,
                                                      .node = node,
                                                      .type = b->type,
                                                      .count = b->batch,
                                                      .channels = n->channels,
                                                      .height = n->height,
                                                      .width = n->width}};
    psr_cuda_build_kernel(b, node, backward, PSR_CUDA_KERNEL_dropout, &arguments);
    PSR_CUDA_READS(b, dropout, samples, psr_cuda_build_place(b, PSR_CUDA_SAMPLES, 0, 4 * b->batch));
    PSR_CUDA_READS(b, dropout, x, x);
    PSR_CUDA_WRITES(b, dropout, y, y);
}

void psr_cuda_build_relu(psr_cuda_build *b, uint32_t node, uint32_t x, uint32_t dy, uint32_t y)
{
    const psr_cuda_arguments arguments = {
        .relu = {.type = b->type, .count = psr_cuda_build_count(b, node)}};
    psr_cuda_build_kernel(b, node, dy != PSR_NONE, PSR_CUDA_KERNEL_relu, &arguments);
    PSR_CUDA_READS(b, relu, x, x);
    PSR_CUDA_READS(b, relu, dy, dy);
    PSR_CUDA_WRITES(b, relu, y, y);
}

/* ---- the loss ---- */

static void build_loss(psr_cuda_build *b)
{
    const uint32_t last = b->net->node_count - 1, N = b->batch, classes = b->net->classes;
    const uint32_t losses = psr_cuda_build_room(b, N * sizeof(double));
    const uint32_t correct = psr_cuda_build_room(b, N * sizeof(uint32_t));
    const uint32_t top5 = psr_cuda_build_room(b, N * sizeof(uint32_t));
    const psr_cuda_arguments loss = {.loss = {.type = b->type, .samples = N, .classes = classes}};
    if (b->training)
        b->gradients[last] =
            psr_cuda_build_room(b, (size_t)N * classes * psr_cuda_type_bytes(b->type));
    psr_cuda_build_kernel(b, last, false, PSR_CUDA_KERNEL_loss, &loss);
    PSR_CUDA_READS(b, loss, logits, b->program->logits);
    PSR_CUDA_READS(b, loss, labels, psr_cuda_build_place(b, PSR_CUDA_LABELS, 0, 4 * (size_t)N));
    PSR_CUDA_READS(b, loss, second_labels,
                   psr_cuda_build_place(b, PSR_CUDA_SECOND_LABELS, 0, 4 * (size_t)N));
    PSR_CUDA_READS(b, loss, shares, psr_cuda_build_place(b, PSR_CUDA_SHARES, 0, 4 * (size_t)N));
    PSR_CUDA_WRITES(b, loss, gradient, b->training ? b->gradients[last] : PSR_NONE);
    PSR_CUDA_WRITES(b, loss, losses, losses);
    PSR_CUDA_WRITES(b, loss, correct, correct);
    PSR_CUDA_WRITES(b, loss, top5, top5);

    const psr_cuda_arguments total = {.loss_total = {.samples = N}};
    psr_cuda_build_kernel(b, last, false, PSR_CUDA_KERNEL_loss_total, &total);
    PSR_CUDA_READS(b, loss_total, losses, losses);
    PSR_CUDA_READS(b, loss_total, correct, correct);
    PSR_CUDA_READS(b, loss_total, top5, top5);
    PSR_CUDA_WRITES(b, loss_total, ret_loss,
                    psr_cuda_build_place(b, PSR_CUDA_RESULT, 0, sizeof(double)));
    PSR_CUDA_WRITES(b, loss_total, ret_counts,
                    psr_cuda_build_place(b, PSR_CUDA_RESULT, offsetof(psr_cuda_result, counts),
                                         2 * sizeof(uint32_t)));
}

/* ---- the whole ---- */

/* The images come with further channels, which only these leave out again. */
static psr_err check_readers_of_images(const psr_network *net)
{
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *n = &net->nodes[i];
        for (int k = 0; k < 2; k++)
            if (n->input[k] == 0 && n->op != PSR_OP_FLATTEN &&
                (n->op != PSR_OP_CONV || n->groups != 1))
                return psr_fail(PSR_ERR_UNSUPPORTED,
                                "%s: on a GPU, images are read by convolutions of one group and "
                                "by linear layers, and not by %s",
                                net->name, n->name);
    }
    return PSR_OK;
}

/* The last linear layer, if only scales follow it; otherwise there is no tail. */
static uint32_t tail_of(const psr_network *net)
{
    uint32_t node = net->node_count - 1;
    while (net->nodes[node].op == PSR_OP_SCALE)
        node = net->nodes[node].input[0];
    return net->nodes[node].op == PSR_OP_LINEAR ? node : net->node_count;
}

/* Logits stay until the host has them. */
static void build_passes(psr_cuda_build *b)
{
    psr_cuda_program *p = b->program;
    psr_cuda_build_forward(b);
    build_loss(b);
    if (b->training)
        psr_cuda_build_backward(b);
    if (b->err != PSR_OK)
        return;
    b->buffers.now = p->step_count;
    psr_pass_buffer_use(&b->buffers, p->places[p->logits].buffer);
    b->err = psr_pass_buffers_place(&b->buffers);
    p->room_bytes = b->buffers.bytes;
    for (uint32_t i = 0; i < p->place_count && b->err == PSR_OK; i++)
        if (p->places[i].memory == PSR_CUDA_ROOM)
            p->places[i].offset = b->buffers.items[p->places[i].buffer].offset;
}

psr_err psr_cuda_program_new(const psr_network *net, uint32_t batch, psr_cuda_type type,
                             bool training, psr_cuda_program **ret_program)
{
    enum { LISTS = 5 };
    PSR_TRY(check_readers_of_images(net));
    psr_cuda_build b = {
        .net = net, .batch = batch, .type = type, .training = training, .tail = tail_of(net)};
    PSR_TRY(psr_fusion_groups_init(net, &b.groups));
    uint32_t *lists = malloc(LISTS * net->node_count * sizeof *lists);
    b.program = calloc(1, sizeof *b.program);
    if (lists == NULL || b.program == NULL) {
        b.err = psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the program of %s", net->name);
    } else {
        for (uint32_t i = 0; i < LISTS * net->node_count; i++)
            lists[i] = PSR_NONE;
        b.values = lists;
        b.gradients = lists + net->node_count;
        b.filters = lists + 2 * net->node_count;
        b.first = lists + 3 * net->node_count;
        b.second = lists + 4 * net->node_count;
        *b.program = (psr_cuda_program){.batch = batch, .type = type, .training = training};
        build_passes(&b);
    }
    psr_pass_buffers_done(&b.buffers);
    psr_fusion_groups_done(&b.groups);
    free(lists);
    if (b.err != PSR_OK) {
        psr_cuda_program_free(b.program);
        return b.err;
    }
    *ret_program = b.program;
    return PSR_OK;
}

void psr_cuda_program_free(psr_cuda_program *program)
{
    if (program == NULL)
        return;
    free(program->steps);
    free(program->graphs);
    free(program->places);
    free(program);
}
