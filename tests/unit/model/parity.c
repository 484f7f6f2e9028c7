#include "tests/unit/model/parity.h"

#include "base/rng.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"

float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof *x);
    return x;
}

void fill(float *x, size_t count, uint32_t stream, float low, float high)
{
    const psr_rng_at at = {.seed = 11, .purpose = PSR_RNG_TEST, .layer = stream};
    for (size_t i = 0; i < count; i++)
        x[i] = low + (high - low) * psr_rng_unit(psr_rng_word(at, i));
}

setting setting_of(psr_network *net, uint32_t max_batch)
{
    setting s = {.net = net, .max_batch = max_batch, .algorithms = "direct"};
    const size_t pixels = (size_t)net->channels * net->height * net->width;
    expect_ok(psr_buckets_plan(&net->params, 1 << 14, &s.buckets));
    s.images = floats(max_batch * pixels);
    s.weights = floats(net->params.length);
    s.buffers = floats(net->buffers.length);
    s.labels = calloc(max_batch, sizeof *s.labels);
    s.samples = calloc(max_batch, sizeof *s.samples);
    assert_non_null(s.labels);
    assert_non_null(s.samples);
    fill(s.images, max_batch * pixels, 1, -1, 1);
    psr_network_init(net, 3, s.weights, s.buffers);
    /* Scales and shifts that are neither 1 nor 0. */
    for (size_t t = 0; t < net->params.tensor_count; t++) {
        const psr_tensor *tensor = &net->params.tensors[t];
        if (tensor->rank == 1)
            fill(s.weights + tensor->offset, tensor->count, 100 + (uint32_t)t, 0.3f, 0.9f);
    }
    for (size_t t = 0; t < net->buffers.tensor_count; t++)
        fill(s.buffers + net->buffers.tensors[t].offset, net->buffers.tensors[t].count, 9, 0.5f,
             1.5f);
    for (uint32_t n = 0; n < max_batch; n++) {
        s.labels[n] = (3 * n + 1) % net->classes;
        s.samples[n] = 1000 * n + 17;
    }
    return s;
}

void setting_done(setting *s)
{
    psr_buckets_done(&s->buckets);
    psr_network_free(s->net);
    free(s->images);
    free(s->weights);
    free(s->buffers);
    free(s->labels);
    free(s->samples);
}

psr_backend *backend_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                        uint32_t threads)
{
    const psr_backend_options options = {.kind = kind,
                                         .precision = precision,
                                         .max_batch = s->max_batch,
                                         .label_smoothing = 0.1,
                                         .threads = threads,
                                         .buckets = &s->buckets,
                                         .algorithms = s->algorithms};
    psr_backend *backend = NULL;
    expect_ok(psr_backend_new(s->net, &options, &backend));
    return backend;
}

/* One training pass and one inference of the first count samples. */
void passes(const setting *s, outcome *o, uint32_t count)
{
    const psr_batch batch = {
        s->images,  s->labels, s->samples,        count,
        .epoch = 2, .seed = 5, .bytes = s->bytes, .gradient_scale = s->gradient_scale};
    memcpy(o->buffers, s->buffers, s->net->buffers.length * sizeof(float));
    const psr_exec_state state = {s->weights, o->gradients, o->buffers};
    expect_ok(
        psr_backend_train(o->backend, &batch, &state, 1.0f / (float)count, NULL, &o->trained));
    const psr_exec_state still = {s->weights, NULL, s->buffers};
    expect_ok(psr_backend_infer(o->backend, &batch, &still, NULL, o->logits, &o->inferred));
}

outcome outcome_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                   uint32_t threads, uint32_t count)
{
    outcome o = {.backend = backend_of(s, kind, precision, threads),
                 .gradients = floats(s->net->params.length),
                 .buffers = floats(s->net->buffers.length),
                 .logits = floats((size_t)s->max_batch * s->net->classes)};
    passes(s, &o, count);
    return o;
}

void outcome_done(outcome *o)
{
    psr_backend_free(o->backend);
    free(o->gradients);
    free(o->buffers);
    free(o->logits);
}

double distance(const float *a, const float *b, size_t count, double *ret_norm)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    *ret_norm = sqrt(norm);
    return sqrt(difference);
}

/* What is no number counts as infinitely far. */
static PSR_PRINTF(4, 5) void note(largest_error *e, double off, double limit, const char *format,
                                  ...)
{
    const double share = off == 0 ? 0 : isnan(off / limit) ? INFINITY : off / limit;
    va_list values;
    if (share <= e->share)
        return;
    e->share = share;
    va_start(values, format);
    vsnprintf(e->what, sizeof e->what, format, values);
    va_end(values);
}

/* Relative to the tensor, but never to less than a hundredth of the whole gradient: a bias before a
 * batch norm has gradient 0, of which only rounding is left. */
static void note_tensors(largest_error *e, const psr_layout *layout, const float *found,
                         const float *expected, double relative)
{
    double whole;
    distance(expected, expected, layout->length, &whole);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        double norm,
            off = distance(found + tensor->offset, expected + tensor->offset, tensor->count, &norm);
        const double unit = norm > 1e-2 * whole ? norm : 1e-2 * whole;
        note(e, off, relative * unit, "%.100s is off by %.3g of %.3g", tensor->name, off, norm);
    }
}

static void note_loss(largest_error *e, const char *name, double found, double expected,
                      double relative)
{
    note(e, fabs(found - expected), relative * expected, "%s is %.9g rather than %.9g", name, found,
         expected);
}

largest_error error_of(const setting *s, const outcome *found, const outcome *expected,
                       uint32_t count, tolerance limit)
{
    largest_error e = {.what = "nothing is off"};
    double norm,
        off = distance(found->logits, expected->logits, (size_t)count * s->net->classes, &norm);
    note(&e, off, limit.value * norm, "the logits are off by %.3g of %.3g", off, norm);
    note_loss(&e, "the loss", found->trained.loss_sum, expected->trained.loss_sum, limit.value);
    note_loss(&e, "the loss of inference", found->inferred.loss_sum, expected->inferred.loss_sum,
              limit.value);
    note_tensors(&e, &s->net->params, found->gradients, expected->gradients, limit.gradient);
    note_tensors(&e, &s->net->buffers, found->buffers, expected->buffers, limit.value);
    return e;
}

void assert_alike(const setting *s, const outcome *found, const outcome *expected, uint32_t count,
                  tolerance limit)
{
    const largest_error e = error_of(s, found, expected, count, limit);
    if (!(e.share <= 1))
        fail_msg("%s, %.3g times what is allowed", e.what, e.share);
}

void assert_same_bits(const setting *s, const outcome *a, const outcome *b)
{
    assert_true(a->trained.loss_sum == b->trained.loss_sum);
    assert_memory_equal(a->gradients, b->gradients, s->net->params.length * sizeof(float));
    assert_memory_equal(a->buffers, b->buffers, s->net->buffers.length * sizeof(float));
    assert_memory_equal(a->logits, b->logits,
                        (size_t)s->max_batch * s->net->classes * sizeof(float));
}
