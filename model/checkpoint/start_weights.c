#include "model/checkpoint/start_weights.h"

#include "base/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BEFORE "module."
/* How many tensors a line names. */
#define NAMED 3

/* Names for a line: the first few, and how many there are. */
typedef struct name_list {
    char text[300];
    uint32_t count;
} name_list;

typedef struct start {
    const psr_checkpoint *checkpoint;
    const psr_network *net;
    const char *before; /* every name in the file: "" or BEFORE */
    name_list wrong, anew, halves;
    uint32_t taken;
} start;

static void name(name_list *names, const char *format, ...) PSR_PRINTF(2, 3);

static void name(name_list *names, const char *format, ...)
{
    char one[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(one, sizeof one, format, arguments);
    va_end(arguments);
    const size_t used = strlen(names->text);
    if (names->count++ < NAMED)
        snprintf(names->text + used, sizeof names->text - used, "%s%s", used > 0 ? ", " : "", one);
}

/* "a, b, c and 4 more" */
static const char *said(const name_list *names, char *text, size_t size)
{
    if (names->count > NAMED)
        snprintf(text, size, "%s and %u more", names->text, names->count - NAMED);
    else
        snprintf(text, size, "%s", names->text);
    return text;
}

static void tell(psr_start_told *told, const char *format, ...) PSR_PRINTF(2, 3);

static void tell(psr_start_told *told, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(told->lines[told->count++], sizeof told->lines[0], format, arguments);
    va_end(arguments);
}

static void print_shape(char *text, size_t size, uint32_t rank, const uint64_t *shape)
{
    psr_text_end end = {text, size};
    text[0] = '\0';
    for (uint32_t i = 0; i < rank; i++)
        psr_text_add(&end, "%s%" PRIu64, i > 0 ? "x" : "", shape[i]);
}

/* What the file has of a tensor of the network. */
typedef enum found { AS_NEEDED, MISSING, OTHER_SHAPE, OTHER_TYPE } found;

static found look(const start *s, const psr_tensor *tensor, char full[2 * PSR_TENSOR_NAME_MAX],
                  psr_checkpoint_entry *ret_entry)
{
    snprintf(full, 2 * PSR_TENSOR_NAME_MAX, "%s%s", s->before, tensor->name);
    if (!psr_checkpoint_entry_of(s->checkpoint, full, ret_entry))
        return MISSING;
    bool same = ret_entry->rank == tensor->rank;
    for (uint32_t i = 0; i < tensor->rank && same; i++)
        same = ret_entry->shape[i] == tensor->shape[i];
    if (!same)
        return OTHER_SHAPE;
    return psr_checkpoint_holds_floats(ret_entry) ? AS_NEEDED : OTHER_TYPE;
}

/* Whether the file's classifier has another number of outputs, and nothing else is different. */
static bool has_other_classes(const start *s)
{
    const psr_network_node *last = &s->net->nodes[s->net->node_count - 1];
    const psr_tensor *weight = &s->net->params.tensors[last->weight];
    char full[2 * PSR_TENSOR_NAME_MAX];
    psr_checkpoint_entry entry;
    return look(s, weight, full, &entry) == OTHER_SHAPE && entry.rank == 2 && weight->rank == 2 &&
           entry.shape[1] == weight->shape[1];
}

static bool is_classifiers(const start *s, const psr_layout *layout, size_t index)
{
    const psr_network_node *last = &s->net->nodes[s->net->node_count - 1];
    return layout == &s->net->params && (index == last->weight || index == last->bias);
}

static void name_wrong(name_list *names, const psr_tensor *tensor, found what,
                       const psr_checkpoint_entry *entry)
{
    uint64_t shape[4] = {0};
    char has[64], needs[64];
    for (uint32_t i = 0; i < tensor->rank && i < 4; i++)
        shape[i] = tensor->shape[i];
    print_shape(needs, sizeof needs, tensor->rank, shape);
    if (what == MISSING) {
        name(names, "%s is missing", tensor->name);
    } else if (what == OTHER_TYPE) {
        name(names, "%s is of type %s", tensor->name, entry->dtype);
    } else {
        print_shape(has, sizeof has, entry->rank, entry->shape);
        name(names, "%s is %s rather than %s", tensor->name, has, needs);
    }
}

/* Judges all tensors of a layout, or with an arena reads those that are to be taken. */
static psr_err visit(start *s, const psr_layout *layout, float *arena)
{
    const bool other_classes = has_other_classes(s);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *tensor = &layout->tensors[i];
        char full[2 * PSR_TENSOR_NAME_MAX];
        psr_checkpoint_entry entry;
        const found what = look(s, tensor, full, &entry);
        const bool anew = other_classes && is_classifiers(s, layout, i);
        if (arena != NULL && what == AS_NEEDED && !anew)
            PSR_TRY(psr_checkpoint_read_floats(s->checkpoint, full, tensor->rank, tensor->shape,
                                               arena + tensor->offset));
        if (arena != NULL)
            continue;
        if (anew)
            name(&s->anew, "%s", tensor->name);
        else if (what != AS_NEEDED)
            name_wrong(&s->wrong, tensor, what, &entry);
        else
            s->taken++;
        if (!anew && what == AS_NEEDED && strcmp(entry.dtype, "F32") != 0)
            name(&s->halves, "%s %s", tensor->name, entry.dtype);
    }
    return PSR_OK;
}

/* Tensors of the file that the network does not have; counters of batches are nobody's. */
static void name_others(const start *s, name_list *others)
{
    static const char counter[] = ".num_batches_tracked";
    const char *full;
    for (size_t i = 0; (full = psr_checkpoint_name(s->checkpoint, i)) != NULL; i++) {
        const size_t length = strlen(full), before = strlen(s->before);
        const bool fits = strncmp(full, s->before, before) == 0;
        if (length >= sizeof counter && strcmp(full + length - (sizeof counter - 1), counter) == 0)
            continue;
        if (!fits || (psr_layout_find(&s->net->params, full + before) == NULL &&
                      psr_layout_find(&s->net->buffers, full + before) == NULL))
            name(others, "%.60s", full);
    }
}

static void tell_all(const start *s, psr_start_told *told)
{
    char text[340];
    name_list others = {.count = 0};
    name_others(s, &others);
    if (s->anew.count > 0)
        tell(told, "another number of classes: %s start anew", said(&s->anew, text, sizeof text));
    if (s->wrong.count > 0)
        tell(told, "%u tensors are taken; others start anew: %s", s->taken,
             said(&s->wrong, text, sizeof text));
    if (others.count > 0)
        tell(told, "left out, since the network has no such tensors: %s",
             said(&others, text, sizeof text));
    if (s->halves.count > 0 || s->before[0] != '\0')
        tell(told, "%s%s%s%s%s", s->before[0] != '\0' ? "names are behind " BEFORE : "",
             s->before[0] != '\0' && s->halves.count > 0 ? "; " : "",
             s->halves.count > 0 ? "of half precision: " : "",
             s->halves.count > 0 ? said(&s->halves, text, sizeof text) : "",
             s->halves.count > 0 ? "; training goes on in float32" : "");
}

psr_err psr_start_weights(const psr_checkpoint *checkpoint, const psr_network *net, bool partial,
                          float *weights, float *statistics, psr_start_told *ret_told)
{
    start s = {.checkpoint = checkpoint, .net = net, .before = ""};
    char full[2 * PSR_TENSOR_NAME_MAX], text[340];
    psr_checkpoint_entry entry;
    if (look(&s, &net->params.tensors[0], full, &entry) == MISSING) {
        s.before = BEFORE;
        if (look(&s, &net->params.tensors[0], full, &entry) == MISSING)
            s.before = "";
    }
    PSR_TRY(visit(&s, &net->params, NULL));
    PSR_TRY(visit(&s, &net->buffers, NULL));
    if (s.wrong.count > 0 && (!partial || s.taken == 0))
        return psr_fail(PSR_ERR_FORMAT, "%u of %zu tensors do not fit %s: %s%s", s.wrong.count,
                        net->params.tensor_count + net->buffers.tensor_count, net->name,
                        said(&s.wrong, text, sizeof text),
                        partial ? "" : "; --init-partial takes those that fit");
    PSR_TRY(visit(&s, &net->params, weights));
    PSR_TRY(visit(&s, &net->buffers, statistics));
    *ret_told = (psr_start_told){.count = 0};
    tell_all(&s, ret_told);
    return PSR_OK;
}
