/* GELU, y = x Phi(x), by itself, as loops over all elements, padding included: gelu(0) = 0 keeps it
 * zero. Phi is the standard normal distribution. With t = 1 / (1 + p |x| / sqrt(2)),
 *     Phi(-|x|) = (a1 t + a2 t^2 + .. + a5 t^5) exp(-x^2 / 2) / 2
 * within 7.5e-8 (Abramowitz, Stegun, "Handbook of mathematical functions", 7.1.26), and the
 * exponential is of our own too, so that both are vectors and the same with every C library. */
#include "base/arrays/multiversion.h"
#include "model/onednn/kernels/bf16.h"
#include "model/onednn/private.h"

#include <stdlib.h>
#include <string.h>

/* Elements that a thread takes at a time. */
#define BLOCK ((size_t)1 << 14)

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* exp(v) for v in [-87, 0], within 2 units of the last place: v = n log 2 + r, |r| <= log(2) / 2,
 * exp(r) by its series. */
static inline float exponential(float v)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: what is added to it becomes a whole number */
    const float n = (v * 1.44269504f + round) - round;
    const float r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
    float sum = 1.0f / 5040;
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    return sum * float_of((uint32_t)((int32_t)n + 127) << 23);
}

/* Phi(x), and exp(-x^2 / 2). Without branches, so that it becomes vectors: floats that are not
 * negative are in the order of their bits. A NaN's bell is that of the limit; x itself stands in
 * what comes of both. */
static inline float distribution(float x, float *ret_bell)
{
    const uint32_t sign = bits_of(x) & 0x80000000, limit = 0x41500000; /* 13 */
    const uint32_t size_bits = bits_of(x) & 0x7fffffff;
    const float size = float_of(size_bits < limit ? size_bits : limit);
    const float bell = exponential(-0.5f * size * size);
    const float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * size);
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    const float half = 0.5f - 0.5f * sum * t * bell; /* Phi(|x|) - 1/2 */
    *ret_bell = bell;
    return 0.5f + float_of(bits_of(half) | sign);
}

static inline float gelu(float x)
{
    float bell;
    return x * distribution(x, &bell);
}

static inline float slope(float x)
{
    float bell;
    const float phi = distribution(x, &bell);
    return phi + x * 0.39894228f * bell;
}

PSR_MULTIVERSION static void gelu_f32(const float *restrict x, float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = gelu(x[i]);
}

PSR_MULTIVERSION static void gelu_bf16(const uint16_t *restrict x, uint16_t *restrict y,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = psr_bf16_from_float(gelu(psr_bf16_to_float(x[i])));
}

/* d: dy, then dx. */
PSR_MULTIVERSION static void gradient_f32(const float *restrict x, float *restrict d, size_t count)
{
    for (size_t i = 0; i < count; i++)
        d[i] *= slope(x[i]);
}

PSR_MULTIVERSION static void gradient_bf16(const uint16_t *restrict x, uint16_t *restrict d,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        d[i] = psr_bf16_from_float(psr_bf16_to_float(d[i]) * slope(psr_bf16_to_float(x[i])));
}

typedef struct activation {
    uint32_t y, x;     /* nodes */
    uint32_t gradient; /* buffer: dy, then dx in its place, for this is its only reader */
} activation;

static psr_err plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    activation *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    self->x = exec->net->nodes[self->y].input[0];
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->x);
    if (x->layout == PSR_ONEDNN_OTHER)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                        exec->net->nodes[self->y].name);
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &y));
    return psr_onednn_give(exec, self->y, &y);
}

static psr_err plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    activation *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->gradient = dy[0];
    psr_onednn_use(exec, self->x);
    return psr_onednn_gradient_put(exec, self->x, self->gradient);
}

static psr_err forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const activation *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    const char *from = psr_onednn_data(exec, x);
    char *to = psr_onednn_data(exec, y);
    const size_t count = psr_onednn_elements(y), width = psr_onednn_type_bytes(y->type);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t length = count - at < BLOCK ? count - at : BLOCK;
        if (y->type == dnnl_bf16)
            gelu_bf16((const void *)(from + at * width), (void *)(to + at * width), length);
        else
            gelu_f32((const void *)(from + at * width), (void *)(to + at * width), length);
    }
    return PSR_OK;
}

static psr_err backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const activation *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x];
    const char *value = psr_onednn_data(exec, x);
    char *gradient = psr_onednn_at(exec, self->gradient);
    const size_t count = psr_onednn_elements(x), width = psr_onednn_type_bytes(x->type);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t length = count - at < BLOCK ? count - at : BLOCK;
        if (x->type == dnnl_bf16)
            gradient_bf16((const void *)(value + at * width), (void *)(gradient + at * width),
                          length);
        else
            gradient_f32((const void *)(value + at * width), (void *)(gradient + at * width),
                         length);
    }
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_gelu = {plan_forward, plan_backward, forward, backward,
                                               NULL};
