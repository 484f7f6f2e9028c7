/* topk:R: the k = ceil(R L) values of largest magnitude, as they are; all others count as +0 and
 * are owed (Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017;
 * Lin et al., "Deep gradient compression", ICLR 2018).
 *
 * Payload: m indices, 32 bits each, ascending, counted from the slice's beginning; then their m
 * values, float32. 8 m bytes; the slices of a unit have k pairs together, 8 ceil(R L) bytes for L
 * values. Of equal magnitudes the one of lower index is taken.
 *
 *     sent = e if selected, else +0;  r = 0 if selected, else e: nothing is rounded
 *
 * Selection is exact and takes O(L) time. A sample, every seventeenth value, gives a bound that the
 * k-th largest of all nearly always reaches. The values that reach it are the candidates, or all
 * values if they are fewer than k; among them the k-th largest is found digit by digit. */
#include "comm/wire/compression/codec.h"

#include "base/arrays/finite.h"
#include "base/arrays/fold.h"
#include "base/arrays/multiversion.h"
#include "net/violation.h"

enum {
    PAIR_BYTES = sizeof(uint32_t) + sizeof(float),
    STRIDE = 17,  /* of the sample; it divides no likely length of a tensor's rows */
    BLOCK = 1024, /* values that are compared at once: they stay in the cache */
};

typedef struct topk_state {
    size_t selected; /* k */
    uint32_t *indices;
    float *values;
    int32_t words[]; /* keys, indices and values, one after another */
} topk_state;

static size_t bytes_max(size_t count)
{
    return count * PAIR_BYTES;
}

static size_t selected_of(psr_compression compression, size_t count)
{
    return (size_t)(((uint64_t)count * compression.ratio + PSR_COMPRESSION_RATIO_ONE - 1) /
                    PSR_COMPRESSION_RATIO_ONE);
}

/* Keys and indices of candidates, some of which are selected, and their values. */
static size_t state_bytes(psr_compression compression, size_t count_max)
{
    return sizeof(topk_state) +
           (2 * count_max + selected_of(compression, count_max)) * sizeof(int32_t);
}

/* The k-th largest of count keys, 0 < k <= count: digit by digit from the highest, among those that
 * agree so far. Changes the keys. *ret_equal: how many of the k largest are equal to it. */
static int32_t select_key(int32_t *keys, size_t count, size_t k, size_t *ret_equal)
{
    static const struct {
        unsigned shift, bits;
    } digits[] = {{20, 11}, {9, 11}, {0, 9}}; /* of 31 bits */
    int32_t found = 0;
    for (size_t d = 0; d < sizeof digits / sizeof digits[0]; d++) {
        const unsigned shift = digits[d].shift;
        const int32_t mask = (1 << digits[d].bits) - 1;
        uint32_t with_digit[1 << 11] = {0};
        for (size_t i = 0; i < count; i++)
            with_digit[keys[i] >> shift & mask]++;
        int32_t digit = mask;
        for (; with_digit[digit] < k; digit--)
            k -= with_digit[digit];
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            const int32_t key = keys[i];
            keys[kept] = key;
            kept += (key >> shift & mask) == digit;
        }
        count = kept;
        found |= digit << shift;
    }
    *ret_equal = k;
    return found;
}

/* A bound that the k-th largest magnitude of e nearly always reaches: more than a seventeenth of k
 * magnitudes of the sample do. */
static int32_t guess_least(const float *e, size_t count, size_t k, int32_t *keys)
{
    const size_t sample = count / STRIDE, reach = k / STRIDE + k / (8 * STRIDE) + 16;
    if (reach > sample)
        return 0;
    for (size_t i = 0; i < sample; i++)
        keys[i] = psr_codec_magnitude(e[i * STRIDE]);
    size_t equal;
    return select_key(keys, sample, reach, &equal);
}

PSR_MULTIVERSION static void compare(const float *restrict e, int32_t least,
                                     uint8_t *restrict flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        flags[i] = psr_codec_magnitude(e[i]) >= least;
}

/* The indices, ascending, of magnitudes that are at least `least`; returns how many. */
static size_t collect(const float *e, size_t count, int32_t least, uint32_t *indices)
{
    size_t collected = 0;
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        uint8_t flags[BLOCK] = {0};
        const size_t length = count - begin < BLOCK ? count - begin : BLOCK;
        compare(e + begin, least, flags, length);
        for (size_t i = 0; i < length; i += 64) {
            uint64_t reach = 0;
            for (size_t byte = 0; byte < 8; byte++)
                reach |= (uint64_t)psr_codec_gather(flags + i + 8 * byte) << 8 * byte;
            for (; reach != 0; reach &= reach - 1)
                indices[collected++] = (uint32_t)(begin + i) + (uint32_t)__builtin_ctzll(reach);
        }
    }
    return collected;
}

/* Keeps, of the candidates in self->indices, those above the threshold and the first of those equal
 * to it. Sets these to 0 in e. */
static void take(topk_state *self, float *restrict e, size_t candidates, int32_t threshold,
                 size_t equal)
{
    uint32_t *restrict indices = self->indices;
    float *restrict values = self->values;
    size_t taken = 0;
    for (size_t i = 0; i < candidates; i++) {
        const uint32_t index = indices[i];
        const int32_t magnitude = psr_codec_magnitude(e[index]);
        const bool first_equal = magnitude == threshold && equal > 0;
        indices[taken] = index;
        taken += magnitude > threshold || first_equal;
        equal -= first_equal;
    }
    for (size_t i = 0; i < taken; i++) {
        values[i] = e[indices[i]];
        e[indices[i]] = 0;
    }
    self->selected = taken;
}

static psr_err prepare(psr_compression compression, void *state, const float *values,
                       float *residual, size_t count)
{
    topk_state *self = state;
    const size_t k = selected_of(compression, count);
    int32_t *keys = self->words;
    float largest;
    PSR_TRY(psr_codec_largest(compression.encoding, values, residual, count, &largest));
    psr_fold_add(residual, values, count); /* e */
    self->indices = (uint32_t *)(keys + count);
    self->values = (float *)(self->indices + count);
    self->selected = 0;
    if (k == 0)
        return PSR_OK;

    size_t candidates =
               collect(residual, count, guess_least(residual, count, k, keys), self->indices),
           equal;
    if (candidates < k)
        candidates = collect(residual, count, 0, self->indices);
    for (size_t i = 0; i < candidates; i++)
        keys[i] = psr_codec_magnitude(residual[self->indices[i]]);
    const int32_t threshold = select_key(keys, candidates, k, &equal);
    take(self, residual, candidates, threshold, equal);
    return PSR_OK;
}

/* How many selected values come before index. */
static size_t selected_before(const topk_state *self, size_t index)
{
    size_t low = 0, high = self->selected;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (self->indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t slice_bytes(const void *state, psr_span slice)
{
    return bytes_max(selected_before(state, psr_span_end(slice)) -
                     selected_before(state, slice.offset));
}

static void encode(const void *state, psr_span slice, void *payload)
{
    const topk_state *self = state;
    const size_t first = selected_before(self, slice.offset),
                 count = selected_before(self, psr_span_end(slice)) - first;
    uint32_t *indices = payload;
    for (size_t i = 0; i < count; i++)
        indices[i] = self->indices[first + i] - (uint32_t)slice.offset;
    memcpy(indices + count, self->values + first, count * sizeof(float));
}

static psr_err check(const psr_message *message, size_t count)
{
    const size_t pairs = message->payload_bytes / PAIR_BYTES;
    if (pairs * PAIR_BYTES != message->payload_bytes || pairs > count)
        return psr_violation(message,
                             "its payload has %zu bytes, not those of pairs of at most %zu values",
                             message->payload_bytes, count);
    if (pairs == 0)
        return PSR_OK; /* there may be no payload */
    const uint32_t *indices = message->payload;
    for (size_t i = 0; i < pairs; i++)
        if (indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1]))
            return psr_violation(message,
                                 "its indices do not ascend below %zu: the one at %zu is %u", count,
                                 i, indices[i]);
    if (!psr_finite((const float *)(indices + pairs), pairs))
        return psr_violation(message, "one of its top-k values is not finite");
    return PSR_OK;
}

static void decode(const void *payload, size_t payload_bytes, size_t count, float *ret_values)
{
    memset(ret_values, 0, count * sizeof *ret_values);
    if (payload_bytes == 0)
        return;
    const size_t pairs = payload_bytes / PAIR_BYTES;
    const uint32_t *indices = payload;
    const float *values = (const float *)(indices + pairs);
    for (size_t i = 0; i < pairs; i++)
        ret_values[indices[i]] = values[i];
}

const psr_codec psr_codec_topk = {
    .has_residual = true,
    .bytes_max = bytes_max,
    .state_bytes = state_bytes,
    .prepare = prepare,
    .slice_bytes = slice_bytes,
    .encode = encode,
    .check = check,
    .decode = decode,
};
