/* Kernels follow the pointers of their arguments. The table has every one of them with the bytes
 * that the kernel may touch there, so each is checked and replaced by the emulator's address. A
 * word of the struct that still holds an address of device memory is a pointer that the table
 * lacks. */
#include "tests/emulator/cuda/device.h"

#include <stdio.h>
#include <string.h>

/* ---- sizes ---- */

static size_t bytes_of(uint32_t type)
{
    static const size_t bytes[] = {4, 2, 2, 1};
    if (type > PSR_CUDA_INT8)
        psr_emulator_fault("a kernel is told type %u, which is none", type);
    return bytes[type];
}

static size_t times(size_t a, size_t b, size_t c, size_t d)
{
    return a * b * c * d;
}

/* ---- the table: kernel, member, bytes ---- */

#define FLOATS(count) ((count) * sizeof(float))
#define WORDS(count) ((count) * sizeof(uint32_t))
#define TYPED(count) (bytes_of(a->type) * (count))
#define IMAGE_PLAIN FLOATS(times(a->samples, a->channels, a->height, a->width))
#define IMAGE_WIDE TYPED(times(a->samples, a->channels_wide, a->height, a->width))
#define FILTER_PLAIN FLOATS(times(a->out, a->in, a->height, a->width))
#define FILTER_WIDE times(a->out, a->in_wide, a->height, a->width)
#define GATED TYPED(times(a->samples, a->channels, a->pixels, 1))
#define GATES TYPED(times(a->samples, a->channels, 1, 1))
#define AFTER_STRIDE(extent) (((extent)-1) / a->stride + 1)
#define SHORTCUT_LARGE TYPED(times(a->samples, a->in, a->height, a->width))
#define SHORTCUT_SMALL                                                                             \
    TYPED(times(a->samples, a->out, AFTER_STRIDE(a->height), AFTER_STRIDE(a->width)))
#define DROPPED TYPED(times(a->count, a->channels, a->height, a->width))
#define NORMED TYPED(a->rows * a->channels)

#define BYTE_IMAGES times(a->samples, a->channels, a->height, a->width)

#define POINTERS(P)                                                                                \
    P(images_of_bytes, bytes, BYTE_IMAGES)                                                         \
    P(images_of_bytes, images, a->samples * sizeof(psr_byte_image))                                \
    P(images_of_bytes, values, FLOATS((size_t)a->channels *PSR_BYTE_VALUES))                       \
    P(images_of_bytes, y, FLOATS(BYTE_IMAGES))                                                     \
    P(image, x, IMAGE_PLAIN)                                                                       \
    P(image, y, IMAGE_WIDE)                                                                        \
    P(filter, w, FILTER_PLAIN)                                                                     \
    P(filter, y, TYPED(FILTER_WIDE))                                                               \
    P(filter_gradient, x, FLOATS(FILTER_WIDE))                                                     \
    P(filter_gradient, dw, FILTER_PLAIN)                                                           \
    P(cast, x, bytes_of(a->from) * a->count)                                                       \
    P(cast, y, bytes_of(a->to) * a->count)                                                         \
    P(loss, logits, FLOATS((size_t)a->samples * a->classes))                                       \
    P(loss, labels, WORDS(a->samples))                                                             \
    P(loss, second_labels, WORDS(a->samples))                                                      \
    P(loss, shares, FLOATS(a->samples))                                                            \
    P(loss, gradient, TYPED((size_t)a->samples * a->classes))                                      \
    P(loss, losses, a->samples * sizeof(double))                                                   \
    P(loss, correct, WORDS(a->samples))                                                            \
    P(loss, top5, WORDS(a->samples))                                                               \
    P(loss_total, losses, a->samples * sizeof(double))                                             \
    P(loss_total, correct, WORDS(a->samples))                                                      \
    P(loss_total, top5, WORDS(a->samples))                                                         \
    P(loss_total, ret_loss, sizeof(double))                                                        \
    P(loss_total, ret_counts, WORDS(2))                                                            \
    P(dropout, x, DROPPED)                                                                         \
    P(dropout, y, DROPPED)                                                                         \
    P(dropout, samples, WORDS(a->count))                                                           \
    P(gate, x, GATED)                                                                              \
    P(gate, s, GATES)                                                                              \
    P(gate, y, GATED)                                                                              \
    P(gate_backward, x, GATED)                                                                     \
    P(gate_backward, s, GATES)                                                                     \
    P(gate_backward, dy, GATED)                                                                    \
    P(gate_backward, dx, GATED)                                                                    \
    P(gate_backward, ds, GATES)                                                                    \
    P(shortcut, x, SHORTCUT_LARGE)                                                                 \
    P(shortcut, y, SHORTCUT_SMALL)                                                                 \
    P(shortcut_backward, x, SHORTCUT_SMALL)                                                        \
    P(shortcut_backward, y, SHORTCUT_LARGE)                                                        \
    P(flatten, x, GATED)                                                                           \
    P(flatten, y, GATED)                                                                           \
    P(scale_of_norm, weight, FLOATS(a->channels))                                                  \
    P(scale_of_norm, bias, FLOATS(a->channels))                                                    \
    P(scale_of_norm, mean, FLOATS(a->channels))                                                    \
    P(scale_of_norm, variance, FLOATS(a->channels))                                                \
    P(scale_of_norm, scale, FLOATS(a->channels))                                                   \
    P(scale_of_norm, shift, FLOATS(a->channels))                                                   \
    P(norm_gradient, x, NORMED)                                                                    \
    P(norm_gradient, dy, NORMED)                                                                   \
    P(norm_gradient, dx, NORMED)                                                                   \
    P(norm_gradient, weight, FLOATS(a->channels))                                                  \
    P(norm_gradient, mean, FLOATS(a->channels))                                                    \
    P(norm_gradient, variance, FLOATS(a->channels))                                                \
    P(norm_gradient, dscale, FLOATS(a->channels))                                                  \
    P(norm_gradient, dbias, FLOATS(a->channels))                                                   \
    P(product, a, FLOATS((size_t)a->rows * a->inner))                                              \
    P(product, b, FLOATS((size_t)a->inner * a->columns))                                           \
    P(product, bias, FLOATS(a->columns))                                                           \
    P(product, c, FLOATS((size_t)a->rows * a->columns))                                            \
    P(column_sums, x, TYPED(a->rows * a->columns))                                                 \
    P(column_sums, y, FLOATS(a->columns))                                                          \
    P(add, a, TYPED(a->count))                                                                     \
    P(add, b, TYPED(a->count))                                                                     \
    P(add, y, TYPED(a->count))                                                                     \
    P(relu, x, TYPED(a->count))                                                                    \
    P(relu, dy, TYPED(a->count))                                                                   \
    P(relu, y, TYPED(a->count))                                                                    \
    P(sgd, w, FLOATS(a->count))                                                                    \
    P(sgd, momentum_buffer, FLOATS(a->count))                                                      \
    P(sgd, g, FLOATS(a->count))                                                                    \
    P(adam, w, FLOATS(a->count))                                                                   \
    P(adam, m, FLOATS(a->count))                                                                   \
    P(adam, v, FLOATS(a->count))                                                                   \
    P(adam, g, FLOATS(a->count))                                                                   \
    P(finite, x, FLOATS(a->count))                                                                 \
    P(finite, not_finite, WORDS(1))

/* ---- use ---- */

const char *psr_emulator_kernel_name(psr_cuda_kernel kernel)
{
#define NAME(name) #name,
    static const char *const names[] = {PSR_CUDA_KERNELS(NAME)};
    return names[kernel];
}

size_t psr_emulator_argument_bytes(psr_cuda_kernel kernel)
{
#define BYTES(name) sizeof(psr_cuda_##name##_args),
    static const size_t bytes[] = {PSR_CUDA_KERNELS(BYTES)};
    return bytes[kernel];
}

#define FITS(name)                                                                                 \
    _Static_assert(sizeof(psr_cuda_##name##_args) <= PSR_EMULATOR_ARGUMENT_BYTES,                  \
                   "an order has no room for the arguments of " #name);
PSR_CUDA_KERNELS(FITS)

static void *translated(const void *address, size_t bytes, const char *kernel, const char *member)
{
    if (address == NULL)
        return NULL;
    char who[96];
    snprintf(who, sizeof who, "kernel %s uses, by its %s,", kernel, member);
    return psr_emulator_device_memory(address, bytes, who);
}

static void find_forgotten(psr_cuda_kernel kernel, const unsigned char *arguments)
{
    const size_t bytes = psr_emulator_argument_bytes(kernel);
    for (size_t at = 0; at + sizeof(void *) <= bytes; at += sizeof(void *)) {
        void *word;
        memcpy(&word, arguments + at, sizeof word);
        if (word != NULL && psr_emulator_is_device_memory(word))
            psr_emulator_fault("kernel %s has a pointer at byte %zu of its arguments that the "
                               "emulator's table lacks",
                               psr_emulator_kernel_name(kernel), at);
    }
}

void psr_emulator_translate_arguments(psr_cuda_kernel kernel, void *arguments)
{
#define TRANSLATE(name, member, bytes)                                                             \
    if (kernel == PSR_CUDA_KERNEL_##name) {                                                        \
        psr_cuda_##name##_args *a = arguments;                                                     \
        a->member = translated(a->member, bytes, #name, #member);                                  \
    }
    POINTERS(TRANSLATE)
    find_forgotten(kernel, arguments);
}
