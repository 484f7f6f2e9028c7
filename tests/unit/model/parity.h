/* One network and two back ends: whether they compute the same. The networks here are small, and
 * between them have every operator in odd shapes. Whatever goes wrong fails the test. */
#ifndef PSR_TESTS_PARITY_H
#define PSR_TESTS_PARITY_H

#include "model/backend.h"
#include "model/networks/squeeze.h"

/* Relative errors in the Euclidean norm. float32: both sides round each product once, in another
 * order. bf16: values have 8 bits, and where a rounding turns a ReLU or a maximum over, a whole
 * element's gradient comes or goes, which in layers of a few hundred elements is percents of a
 * tensor; what is really wrong is off by about 1. */
typedef struct tolerance {
    double value, gradient;
} tolerance;

/* ---- networks: the caller owns them ---- */

psr_network *convolutions(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                          uint32_t pad);
psr_network *low_images(uint32_t height, uint32_t width, uint32_t kernel, uint32_t stride);
psr_network *few_channels(uint32_t channels, uint32_t height, uint32_t kernel, uint32_t stride);
psr_network *norm_alone(uint32_t channels);
psr_network *norm_relu(uint32_t channels);
psr_network *norm_add(uint32_t channels, bool relu);
psr_network *two_norms(uint32_t channels, bool relu);
psr_network *grouped(uint32_t groups, uint32_t each, uint32_t size, uint32_t stride);
psr_network *squeezed(uint32_t channels, bool projects);
psr_network *added_behind_relu(uint32_t channels);
psr_network *gelus(uint32_t channels);
psr_network *option_a(uint32_t in, uint32_t out);
psr_network *pools(uint32_t channels);
psr_network *plain_pools(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad);
psr_network *dropouts(void);
psr_network *everything(void);
psr_network *named(const char *model, uint32_t channels, uint32_t size, psr_shortcut shortcut);

/* ---- outcomes ---- */

/* What every back end is given, and what each has made of it. */
typedef struct setting {
    psr_network *net;
    psr_buckets buckets;
    uint32_t max_batch;
    float *images, *weights, *buffers;
    uint32_t *labels, *samples;
    const char *algorithms;       /* direct, unless a test says otherwise */
    float gradient_scale;         /* of a GPU's passes; 0: 1 */
    const psr_byte_images *bytes; /* borrowed: what is passed instead of images; NULL: these */
} setting;

typedef struct outcome {
    psr_backend *backend;
    psr_pass_result trained, inferred;
    float *gradients, *buffers, *logits;
} outcome;

float *floats(size_t count);
void fill(float *x, size_t count, uint32_t stream, float low, float high);
setting setting_of(psr_network *net, uint32_t max_batch);
void setting_done(setting *s);
psr_backend *backend_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                        uint32_t threads);
void passes(const setting *s, outcome *o, uint32_t count);
outcome outcome_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                   uint32_t threads, uint32_t count);
void outcome_done(outcome *o);
double distance(const float *a, const float *b, size_t count, double *ret_norm);
/* The largest error of one back end's outcome beside another's. share: of what the limit allows, so
 * that above 1 is too much. what: where it is, in words. */
typedef struct largest_error {
    double share;
    char what[200];
} largest_error;
largest_error error_of(const setting *s, const outcome *found, const outcome *expected,
                       uint32_t count, tolerance limit);
void assert_alike(const setting *s, const outcome *found, const outcome *expected, uint32_t count,
                  tolerance limit);
void assert_same_bits(const setting *s, const outcome *a, const outcome *b);

#endif
