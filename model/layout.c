#include "model/layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the streaming state on the stack */
#include <xxhash.h>

static size_t align_up(size_t count)
{
    return (count + PSR_TENSOR_ALIGN - 1) / PSR_TENSOR_ALIGN * PSR_TENSOR_ALIGN;
}

psr_err psr_layout_add(psr_layout *layout, const char *name, uint32_t rank, const uint32_t *shape)
{
    assert(rank >= 1 && rank <= 4);
    if (strlen(name) >= PSR_TENSOR_NAME_MAX)
        return psr_fail(PSR_ERR_USAGE, "tensor name \"%.80s\" is longer than %d characters", name,
                        PSR_TENSOR_NAME_MAX - 1);
    psr_tensor tensor = {.rank = rank, .shape = {1, 1, 1, 1}, .offset = layout->length, .count = 1};
    memcpy(tensor.name, name, strlen(name));
    for (uint32_t i = 0; i < rank; i++) {
        tensor.shape[i] = shape[i];
        if (shape[i] == 0 ||
            __builtin_mul_overflow(tensor.count, (size_t)shape[i], &tensor.count) ||
            tensor.count > SIZE_MAX / 16 - layout->length)
            return psr_fail(PSR_ERR_USAGE, "tensor %s: shape is empty or larger than memory can be",
                            name);
    }
    /* The array doubles whenever its count reaches a power of two, so it needs no capacity
     * field. */
    if ((layout->tensor_count & (layout->tensor_count - 1)) == 0) {
        size_t capacity = layout->tensor_count ? 2 * layout->tensor_count : 1;
        psr_tensor *grown = realloc(layout->tensors, capacity * sizeof *grown);
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a layout of %zu tensors", capacity);
        layout->tensors = grown;
    }
    layout->tensors[layout->tensor_count++] = tensor;
    layout->length += align_up(tensor.count);
    layout->count += tensor.count;
    return PSR_OK;
}

void psr_layout_done(psr_layout *layout)
{
    if (layout == NULL)
        return;
    free(layout->tensors);
    *layout = (psr_layout){0};
}

const psr_tensor *psr_layout_find(const psr_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->tensor_count; i++)
        if (strcmp(layout->tensors[i].name, name) == 0)
            return &layout->tensors[i];
    return NULL;
}

uint64_t psr_layout_elements_in(const psr_layout *layout, size_t offset, size_t count)
{
    uint64_t elements = 0;
    size_t end = offset + count;
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *tensor = &layout->tensors[i];
        size_t from = offset > tensor->offset ? offset : tensor->offset;
        size_t to = end < tensor->offset + tensor->count ? end : tensor->offset + tensor->count;
        elements += from < to ? to - from : 0;
    }
    return elements;
}

void psr_layout_clear_padding(const psr_layout *layout, size_t offset, size_t count, float *values)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        size_t from = tensor->offset + tensor->count, end = offset + count;
        size_t to = t + 1 < layout->tensor_count ? tensor[1].offset : layout->length;
        from = from > offset ? from : offset;
        to = to < end ? to : end;
        if (from < to)
            memset(values + (from - offset), 0, (to - from) * sizeof *values);
    }
}

size_t psr_layout_trained_length(const psr_layout *layout)
{
    size_t length = 0;
    for (size_t t = 0; t < layout->tensor_count; t++)
        length += layout->tensors[t].frozen ? 0 : align_up(layout->tensors[t].count);
    return length;
}

size_t psr_layout_trained_count(const psr_layout *layout)
{
    size_t count = 0;
    for (size_t t = 0; t < layout->tensor_count; t++)
        count += layout->tensors[t].frozen ? 0 : layout->tensors[t].count;
    return count;
}

psr_err psr_layout_of_trained(const psr_layout *layout, psr_layout *ret_trained)
{
    psr_layout trained = {.tensors = calloc(layout->tensor_count + 1, sizeof *trained.tensors),
                          .length = layout->length,
                          .count = psr_layout_trained_count(layout)};
    if (trained.tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a layout of %zu tensors",
                        layout->tensor_count);
    for (size_t t = 0; t < layout->tensor_count; t++)
        if (!layout->tensors[t].frozen)
            trained.tensors[trained.tensor_count++] = layout->tensors[t];
    *ret_trained = trained;
    return PSR_OK;
}

uint64_t psr_layout_hash(const psr_layout *layout, const float *arena)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *tensor = &layout->tensors[i];
        XXH3_64bits_update(&state, arena + tensor->offset, tensor->count * sizeof(float));
    }
    return XXH3_64bits_digest(&state);
}

/* ---- buckets ---- */

/* Room of a tensor in the arena, its padding included. */
static size_t tensor_length(const psr_tensor *tensor)
{
    return align_up(tensor->count);
}

/* One walk from the arena's end to its start. items == NULL only counts. */
static uint32_t plan(const psr_layout *layout, size_t most, psr_bucket *items)
{
    uint32_t count = 0;
    size_t t = layout->tensor_count;
    while (t > 0) {
        const psr_tensor *tensor = &layout->tensors[--t];
        const size_t limit = tensor->frozen ? SIZE_MAX / 2 : most;
        size_t length = tensor_length(tensor);
        if (length > limit) {
            for (size_t end = tensor->offset + length; end > tensor->offset;) {
                size_t piece = end - tensor->offset < limit ? end - tensor->offset : limit;
                end -= piece;
                if (items != NULL)
                    items[count] = (psr_bucket){end, piece, (uint32_t)t, 1, true, tensor->frozen};
                count++;
            }
            continue;
        }
        size_t last = t;
        while (t > 0 && layout->tensors[t - 1].frozen == tensor->frozen &&
               length + tensor_length(&layout->tensors[t - 1]) <= limit)
            length += tensor_length(&layout->tensors[--t]);
        if (items != NULL)
            items[count] = (psr_bucket){layout->tensors[t].offset, length, (uint32_t)t,
                                        (uint32_t)(last - t + 1),  false,  tensor->frozen};
        count++;
    }
    return count;
}

uint64_t psr_bucket_bytes(const psr_layout *layout, uint64_t asked_bytes)
{
    /* Each bucket costs a latency, so there should not be many. Buckets larger than 4 MiB gain
     * nothing. */
    const uint64_t least = 4 << 10, most = 4 << 20, parts = 16;
    if (asked_bytes > 0)
        return asked_bytes;
    uint64_t part_bytes = psr_layout_trained_length(layout) * sizeof(float) / parts;
    uint64_t bytes = least;
    while (bytes < most && 2 * bytes <= part_bytes)
        bytes *= 2;
    return bytes;
}

psr_err psr_buckets_plan(const psr_layout *layout, uint64_t bucket_bytes, psr_buckets *ret_buckets)
{
    const uint64_t align_bytes = PSR_TENSOR_ALIGN * sizeof(float);
    if (bucket_bytes < align_bytes)
        return psr_fail(PSR_ERR_USAGE, "bucket size of %llu bytes: at least %llu are needed",
                        (unsigned long long)bucket_bytes, (unsigned long long)align_bytes);
    /* Buckets are counted in 32 bits, so an arena with more granules than that cannot be cut into
     * single granules.
     * */
    if (layout->length / PSR_TENSOR_ALIGN > UINT32_MAX / 2)
        return psr_fail(PSR_ERR_UNSUPPORTED, "an arena of %zu floats is too long for buckets",
                        layout->length);
    uint64_t granules = bucket_bytes / align_bytes;
    size_t limit =
        granules > SIZE_MAX / align_bytes ? SIZE_MAX / 2 : (size_t)granules * PSR_TENSOR_ALIGN;

    uint32_t count = plan(layout, limit, NULL);
    psr_bucket *items = malloc((count ? count : 1) * sizeof *items);
    if (items == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", count);
    plan(layout, limit, items);
    *ret_buckets = (psr_buckets){items, count};
    return PSR_OK;
}

/* Finds the tensors in span. span must end before tensor *next, or within the tensor below it.
 * Moves *next down to the first tensor in span. If span holds only a piece of that tensor, *next
 * stays above it until the rest has come. false: a bucket may not be cut like this. */
static bool bucket_of(const psr_layout *layout, psr_span span, size_t *next, psr_bucket *bucket)
{
    if (span.count == 0 || *next == 0)
        return false;
    size_t t = *next - 1;
    const psr_tensor *last = &layout->tensors[t];
    bool whole_end = psr_span_end(span) == last->offset + tensor_length(last);
    if (span.offset > last->offset || !whole_end) { /* a piece */
        if (span.offset < last->offset)
            return false;
        *bucket = (psr_bucket){span.offset, span.count, (uint32_t)t, 1, true, last->frozen};
        *next = span.offset == last->offset ? t : t + 1;
        return true;
    }
    while (layout->tensors[t].offset > span.offset && t > 0)
        if (layout->tensors[--t].frozen != last->frozen)
            return false;
    *bucket = (psr_bucket){span.offset,           span.count, (uint32_t)t,
                           (uint32_t)(*next - t), false,      last->frozen};
    *next = t;
    return layout->tensors[t].offset == span.offset;
}

psr_err psr_buckets_of(const psr_layout *layout, const psr_span *spans, uint32_t count,
                       psr_buckets *ret_buckets)
{
    psr_bucket *items = malloc(((size_t)count + 1) * sizeof *items);
    if (items == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", count);
    size_t end = layout->length, next = layout->tensor_count;
    bool fits = true;
    for (uint32_t b = 0; b < count && fits; b++) {
        fits = spans[b].count <= end && spans[b].offset == end - spans[b].count &&
               bucket_of(layout, spans[b], &next, &items[b]);
        end = spans[b].offset;
    }
    if (!fits || end != 0) {
        free(items);
        return psr_fail(PSR_ERR_FORMAT,
                        "the plan's buckets are not those of an arena of %zu floats",
                        layout->length);
    }
    *ret_buckets = (psr_buckets){items, count};
    return PSR_OK;
}

void psr_buckets_done(psr_buckets *buckets)
{
    if (buckets == NULL)
        return;
    free(buckets->items);
    *buckets = (psr_buckets){0};
}

uint32_t psr_buckets_trained(const psr_buckets *buckets)
{
    uint32_t trained = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        trained += !buckets->items[b].frozen;
    return trained;
}

static bool of_one_tensor(const psr_bucket *a, const psr_bucket *b)
{
    return a->piece && b->piece && a->first_tensor == b->first_tensor;
}

psr_err psr_buckets_parts(const psr_buckets *buckets, bool whole_tensors, psr_part **ret_parts)
{
    psr_part *parts = calloc((size_t)buckets->count + 1, sizeof *parts);
    if (parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u parts", buckets->count);
    uint32_t unit = 0;
    for (uint32_t b = 0; b < buckets->count; b++) {
        const psr_bucket *bucket = &buckets->items[b];
        if (b > 0 && !(whole_tensors && of_one_tensor(bucket - 1, bucket)))
            unit++;
        parts[b] = (psr_part){{bucket->offset, bucket->length}, unit};
    }
    *ret_parts = parts;
    return PSR_OK;
}
