/* psr_decode_slice over hostile payloads: what it refuses must be PROTOCOL. And psr_encoder_prepare
 * over any floats: what is sent and what is owed are together what there was. Of an input the first
 * byte is the compression, the second how many values are wanted, the rest the payload, and then
 * the floats. */
#include "comm/wire/compression/compression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT_MAX = 255 };

static const psr_compression compressions[] = {
    {PSR_ENCODING_FP16, 0},         {PSR_ENCODING_BF16, 0},
    {PSR_ENCODING_INT8, 0},         {PSR_ENCODING_1BIT, 0},
    {PSR_ENCODING_TOPK, 100000000}, {PSR_ENCODING_TOPK, PSR_COMPRESSION_RATIO_ONE},
};
enum { COMPRESSIONS = sizeof compressions / sizeof compressions[0] };

static psr_err decode(psr_compression compression, const void *bytes, size_t size, size_t count,
                      float *values)
{
    void *exact = malloc(size > 0 ? size : 1); /* so that a read beyond it is seen */
    if (exact == NULL)
        abort();
    if (size > 0)
        memcpy(exact, bytes, size);
    const psr_message message = {
        .head.encoding = compression.encoding, .payload = exact, .payload_bytes = size};
    const psr_err err = psr_decode_slice(&message, compression, count, values);
    free(exact);
    return err;
}

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* One rounding of a number: half of the distance to its neighbour. */
static double half_ulp(float value)
{
    return ((double)nextafterf(fabsf(value), INFINITY) - (double)fabsf(value)) / 2;
}

static void send(psr_compression compression, psr_encoder *encoder, const float *values,
                 size_t count)
{
    float residual[COUNT_MAX] = {0}, sent[COUNT_MAX] = {0}, buffer[2 * COUNT_MAX + 2];
    const bool owes = psr_compression_has_residual(compression);
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(values[i]);
    const psr_err err = psr_encoder_prepare(encoder, values, owes ? residual : NULL, count);
    must(err == (finite || !owes ? PSR_OK : PSR_ERR_NUMERIC));
    if (err != PSR_OK)
        return;
    for (size_t begin = 0, part; begin < count; begin += part) {
        part = count - begin < 19 ? count - begin : 19;
        psr_head head = {.type = PSR_MSG_PUSH};
        const psr_payload payload =
            psr_encode_slice(encoder, &head, (psr_span){begin, part}, buffer);
        must(decode(compression, payload.data, payload.bytes, part, sent + begin) == PSR_OK);
    }
    for (size_t i = 0; i < count && owes; i++)
        must(fabs((double)sent[i] + (double)residual[i] - (double)values[i]) <=
             half_ulp(residual[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const psr_compression compression = compressions[data[0] % COMPRESSIONS];
    const size_t count = data[1];
    float values[COUNT_MAX];
    const psr_err err = decode(compression, data + 2, size - 2, count, values);
    must(err == PSR_OK || err == PSR_ERR_PROTOCOL);
    for (size_t i = 0; i < count && err == PSR_OK && psr_compression_has_residual(compression); i++)
        must(isfinite(values[i]));

    const size_t floats =
        (size - 2) / sizeof *values < COUNT_MAX ? (size - 2) / sizeof *values : COUNT_MAX;
    memcpy(values, data + 2, floats * sizeof *values);
    psr_encoder *encoder;
    must(psr_encoder_new(compression, COUNT_MAX, &encoder) == PSR_OK);
    send(compression, encoder, values, floats);
    psr_encoder_free(&encoder);
    return 0;
}
