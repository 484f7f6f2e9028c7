#include "comm/wire/compression/codec.h"

#include "base/arrays/finite.h"
#include "base/arrays/multiversion.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <assert.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    psr_encoding encoding;
    const char *text; /* the whole text; TOPK: the text before the ratio */
    const psr_codec *codec;
} kinds[] = {
    {PSR_ENCODING_FLOAT32, "none", NULL},          {PSR_ENCODING_FP16, "fp16", &psr_codec_fp16},
    {PSR_ENCODING_BF16, "bf16", &psr_codec_bf16},  {PSR_ENCODING_INT8, "int8", &psr_codec_int8},
    {PSR_ENCODING_TOPK, "topk:", &psr_codec_topk}, {PSR_ENCODING_1BIT, "1bit", &psr_codec_1bit},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* NULL: there is none. */
static const psr_codec *codec_of(psr_compression compression)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (kinds[i].encoding == compression.encoding)
            return kinds[i].codec;
    assert(false); /* bytes and float64 are no compressions */
    return NULL;
}

/* ---- as text ---- */

/* A decimal number above 0, at most 1, with at most nine decimals, read exactly, so that 0.07 of
 * 100 values are 7 of them. 0: it is no such number. */
static uint32_t read_ratio(const char *text)
{
    uint32_t ratio = 0, unit = PSR_COMPRESSION_RATIO_ONE;
    if (*text == '0' || *text == '1')
        ratio = (uint32_t)(*text++ - '0') * unit;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 1; text++)
            ratio += (uint32_t)(*text - '0') * (unit /= 10);
    return *text == '\0' && ratio <= PSR_COMPRESSION_RATIO_ONE ? ratio : 0;
}

psr_err psr_compression_parse(const char *text, psr_compression *ret_compression)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        psr_compression found = {.encoding = kinds[i].encoding};
        if (found.encoding == PSR_ENCODING_TOPK) {
            if (strncmp(text, kinds[i].text, strlen(kinds[i].text)) != 0)
                continue;
            found.ratio = read_ratio(text + strlen(kinds[i].text));
            if (found.ratio == 0)
                return psr_fail(PSR_ERR_USAGE,
                                "'%s': the ratio of topk is a number above 0 and up to 1, with at "
                                "most nine decimals: topk:0.01 sends a hundredth of the values",
                                text);
        } else if (strcmp(text, kinds[i].text) != 0) {
            continue;
        }
        *ret_compression = found;
        return PSR_OK;
    }
    return psr_fail(
        PSR_ERR_USAGE,
        "'%s' is no compression; give none, fp16, bf16, int8, topk:R (topk:0.01) or 1bit", text);
}

psr_err psr_compression_parse_option(const char *name, const char *text,
                                     psr_compression *ret_compression)
{
    psr_err err = psr_compression_parse(text, ret_compression);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "--%s", name);
}

psr_err psr_compression_check_options(const char *compress, const char *compress_weights)
{
    psr_compression compression;
    PSR_TRY(psr_compression_parse_option("compress", compress, &compression));
    return psr_compression_parse_option("compress-weights", compress_weights, &compression);
}

void psr_compression_print(psr_compression compression, char text[PSR_COMPRESSION_TEXT_BYTES])
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (kinds[i].encoding == compression.encoding)
            snprintf(text, PSR_COMPRESSION_TEXT_BYTES, "%s", kinds[i].text);
    if (compression.encoding != PSR_ENCODING_TOPK)
        return;
    size_t length = strlen(text);
    length += (size_t)snprintf(text + length, PSR_COMPRESSION_TEXT_BYTES - length, "%u.%09u",
                               compression.ratio / PSR_COMPRESSION_RATIO_ONE,
                               compression.ratio % PSR_COMPRESSION_RATIO_ONE);
    while (text[length - 1] == '0')
        text[--length] = '\0';
    if (text[length - 1] == '.')
        text[--length] = '\0';
}

/* ---- what it is ---- */

bool psr_compression_equal(psr_compression a, psr_compression b)
{
    return a.encoding == b.encoding && a.ratio == b.ratio;
}

bool psr_compression_is_none(psr_compression compression)
{
    return compression.encoding == PSR_ENCODING_FLOAT32;
}

bool psr_compression_has_residual(psr_compression compression)
{
    const psr_codec *codec = codec_of(compression);
    return codec != NULL && codec->has_residual;
}

/* ---- sizes ---- */

size_t psr_compression_bytes_max(psr_compression compression, size_t count)
{
    const psr_codec *codec = codec_of(compression);
    return codec == NULL ? psr_encoding_bytes(PSR_ENCODING_FLOAT32, count)
                         : codec->bytes_max(count);
}

size_t psr_compression_values_max(psr_compression compression)
{
    /* too many even with one bit each */
    size_t fit = 0, too_many = (size_t)PSR_PAYLOAD_BYTES_MAX * 8 + 1;
    while (too_many - fit > 1) {
        const size_t middle = fit + (too_many - fit) / 2;
        if (psr_compression_bytes_max(compression, middle) <= PSR_PAYLOAD_BYTES_MAX)
            fit = middle;
        else
            too_many = middle;
    }
    return fit;
}

/* ---- encoding ---- */

struct psr_encoder {
    psr_compression compression;
    const psr_codec *codec;
    size_t count_max, count; /* count: values of the unit that is prepared */
    void *state;             /* owned; used by the codec */
};

psr_err psr_encoder_new(psr_compression compression, size_t count_max, psr_encoder **ret_encoder)
{
    const psr_codec *codec = codec_of(compression);
    assert(codec != NULL && count_max <= UINT32_MAX);
    psr_encoder *encoder = malloc(sizeof *encoder);
    void *state = malloc(codec->state_bytes(compression, count_max));
    if (encoder == NULL || state == NULL) {
        free(encoder);
        free(state);
        return psr_fail(PSR_ERR_NOMEM, "no memory to encode %zu values as %s", count_max,
                        psr_encoding_name(compression.encoding));
    }
    *encoder = (psr_encoder){compression, codec, count_max, 0, state};
    *ret_encoder = encoder;
    return PSR_OK;
}

void psr_encoder_free(psr_encoder **encoder)
{
    if (*encoder == NULL)
        return;
    free((*encoder)->state);
    free(*encoder);
    *encoder = NULL;
}

psr_err psr_encoder_prepare(psr_encoder *encoder, const float *values, float *residual,
                            size_t count)
{
    assert(count <= encoder->count_max && (residual != NULL) == encoder->codec->has_residual);
    PSR_TRY(encoder->codec->prepare(encoder->compression, encoder->state, values, residual, count));
    encoder->count = count;
    return PSR_OK;
}

size_t psr_encoder_bytes(const psr_encoder *encoder, psr_span slice)
{
    const psr_codec *codec = encoder->codec;
    assert(slice.offset <= encoder->count && slice.count <= encoder->count - slice.offset);
    return codec->slice_bytes == NULL ? codec->bytes_max(slice.count)
                                      : codec->slice_bytes(encoder->state, slice);
}

psr_payload psr_encode_slice(const psr_encoder *encoder, psr_head *head, psr_span slice,
                             void *buffer)
{
    head->encoding = encoder->compression.encoding;
    const psr_payload payload = {.data = buffer, .bytes = psr_encoder_bytes(encoder, slice)};
    encoder->codec->encode(encoder->state, slice, buffer);
    return payload;
}

psr_payload psr_encode_again(const psr_message *message, psr_head *head, void *buffer)
{
    head->encoding = message->head.encoding;
    if (message->payload_bytes > 0)
        memcpy(buffer, message->payload, message->payload_bytes);
    return (psr_payload){.data = buffer, .bytes = message->payload_bytes};
}

PSR_MULTIVERSION static int32_t largest_magnitude(const float *x, const float *r, size_t count)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t magnitude = psr_codec_magnitude(x[i] + r[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

psr_err psr_codec_largest(psr_encoding encoding, const float *values, const float *residual,
                          size_t count, float *ret_largest)
{
    const float largest = psr_codec_float((uint32_t)largest_magnitude(values, residual, count));
    if (!isfinite(largest))
        return psr_codec_not_finite(encoding, values, residual, count);
    *ret_largest = largest;
    return PSR_OK;
}

psr_err psr_codec_not_finite(psr_encoding encoding, const float *values, const float *residual,
                             size_t count)
{
    size_t i = 0;
    while (i + 1 < count && isfinite(values[i] + residual[i]))
        i++;
    return psr_fail(
        PSR_ERR_NUMERIC, "value %zu is %g, with what is owed of it %g: %s has finite values only",
        i, psr_shown(values[i]), psr_shown(values[i] + residual[i]), psr_encoding_name(encoding));
}

/* ---- decoding ---- */

psr_err psr_codec_check_bytes(const psr_message *message, size_t bytes, size_t count)
{
    if (message->payload_bytes == bytes)
        return PSR_OK;
    return psr_violation(message, "its payload has %zu bytes, not the %zu of %zu values of %s",
                         message->payload_bytes, bytes, count,
                         psr_encoding_name(message->head.encoding));
}

psr_err psr_decode_slice(const psr_message *message, psr_compression compression, size_t count,
                         float *ret_values)
{
    const psr_codec *codec = codec_of(compression);
    assert(codec != NULL);
    if (message->head.encoding != compression.encoding)
        return psr_violation(message, "its payload is in %s, not in %s",
                             psr_encoding_name(message->head.encoding),
                             psr_encoding_name(compression.encoding));
    /* The count may be a peer's, so it is checked before anything is computed from it. */
    if (count > psr_compression_values_max(compression))
        return psr_violation(message, "no message has %zu values of %s", count,
                             psr_encoding_name(compression.encoding));
    PSR_TRY(codec->check(message, count));
    codec->decode(message->payload, message->payload_bytes, count, ret_values);
    return PSR_OK;
}

/* A message followed by its values. */
typedef struct decoded {
    psr_message base;
    alignas(double) float values[];
} decoded;

static void free_decoded(psr_message *message)
{
    free(message);
}

psr_err psr_decode_message(psr_message **message, psr_compression compression, size_t count)
{
    /* The count may be a peer's: nothing is allocated for more values than a message can have. */
    const size_t most = psr_compression_values_max(compression);
    decoded *to = malloc(sizeof *to + (count < most ? count : most) * sizeof(float));
    if (to == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to decode %zu values", count);
    psr_err err = psr_decode_slice(*message, compression, count, to->values);
    if (err != PSR_OK) {
        free(to);
        return err;
    }
    to->base = **message;
    to->base.head.encoding = PSR_ENCODING_FLOAT32;
    to->base.payload = to->values;
    to->base.payload_bytes = count * sizeof(float);
    to->base.release = free_decoded;
    psr_message_free(message);
    *message = &to->base;
    return PSR_OK;
}

void psr_decode_own(psr_compression compression, const psr_payload *payload, size_t count,
                    float *ret_values)
{
    codec_of(compression)->decode(payload->data, payload->bytes, count, ret_values);
}

enum { ROUNDED_AT_ONCE = 4096 };

/* In pieces that stay in cache. Each is decoded after it has been encoded, so values that are still
 * to be encoded are not overwritten. */
psr_err psr_encoder_round(psr_encoder *encoder, float *values, float *residual, size_t count)
{
    alignas(double) unsigned char payload[8 * ROUNDED_AT_ONCE + 64];
    assert(psr_compression_bytes_max(encoder->compression, ROUNDED_AT_ONCE) <= sizeof payload);
    PSR_TRY(psr_encoder_prepare(encoder, values, residual, count));
    for (size_t at = 0; at < count; at += ROUNDED_AT_ONCE) {
        const size_t piece = count - at < ROUNDED_AT_ONCE ? count - at : ROUNDED_AT_ONCE;
        psr_head head = {0};
        const psr_payload encoded =
            psr_encode_slice(encoder, &head, (psr_span){at, piece}, payload);
        psr_decode_own(encoder->compression, &encoded, piece, values + at);
    }
    return PSR_OK;
}

/* Each value is rounded by itself, so a unit may have any length. */
psr_err psr_compression_round(psr_compression compression, float *values, size_t count)
{
    psr_encoder *encoder = NULL;
    if (psr_compression_is_none(compression))
        return PSR_OK;
    PSR_TRY(psr_encoder_new(compression, ROUNDED_AT_ONCE, &encoder));
    psr_err err = PSR_OK;
    for (size_t at = 0; at < count && err == PSR_OK; at += ROUNDED_AT_ONCE)
        err = psr_encoder_round(encoder, values + at, NULL,
                                count - at < ROUNDED_AT_ONCE ? count - at : ROUNDED_AT_ONCE);
    psr_encoder_free(&encoder);
    return err;
}
