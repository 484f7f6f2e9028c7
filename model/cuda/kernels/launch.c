/* Every kernel is right with any number of blocks (its loops go on where the grid ends), so that
 * these numbers only decide how fast it is. */
#include "model/cuda/kernels/launch.h"

enum {
    THREADS = 256, /* but for loss */
    /* Eight blocks of 256 threads are what one of a GPU's 100 to 150 processors holds. */
    MOST_BLOCKS = 2048,
    AT_ONCE = 8, /* values that a thread takes at a time (values.h) */
};

static uint64_t parts(uint64_t count, uint64_t of)
{
    return (count + of - 1) / of;
}

#define MEMBER(name) psr_cuda_##name##_args name;
typedef union any_arguments {
    PSR_CUDA_KERNELS(MEMBER)
} any_arguments;

/* Blocks of values that are taken one by one. */
static uint64_t groups(uint64_t count)
{
    return parts(count, THREADS * AT_ONCE);
}

/* Tiles of 1024 values (turn.cu). */
static uint64_t tiles(uint64_t batch, uint64_t rows, uint64_t columns)
{
    return parts(batch * rows * columns, 1024);
}

/* Classes are summed by a tree, whose width depends on their number alone. */
static uint32_t loss_threads(uint32_t classes)
{
    uint32_t threads = 32;
    while (threads < classes && threads < THREADS)
        threads *= 2;
    return threads;
}

/* Blocks of 16 channels each (lanes.h). */
static uint64_t lanes(uint64_t channels)
{
    return parts(channels, 16);
}

static uint64_t plane(uint32_t height, uint32_t width)
{
    return (uint64_t)height * width;
}

/* The blocks that would do all work at once. */
static uint64_t blocks_of(psr_cuda_kernel kernel, const any_arguments *a)
{
    switch (kernel) {
    case PSR_CUDA_KERNEL_images_of_bytes: /* a pixel a thread */
        return parts(a->images_of_bytes.samples *
                         plane(a->images_of_bytes.height, a->images_of_bytes.width),
                     THREADS);
    case PSR_CUDA_KERNEL_image:
        return tiles(a->image.samples, a->image.channels_wide,
                     plane(a->image.height, a->image.width));
    case PSR_CUDA_KERNEL_filter:
        return tiles(a->filter.out, a->filter.in_wide, plane(a->filter.height, a->filter.width));
    case PSR_CUDA_KERNEL_filter_gradient:
        return tiles(a->filter_gradient.out, a->filter_gradient.in,
                     plane(a->filter_gradient.height, a->filter_gradient.width));
    case PSR_CUDA_KERNEL_cast:
        return groups(a->cast.count);
    case PSR_CUDA_KERNEL_loss:
        return a->loss.samples;
    case PSR_CUDA_KERNEL_loss_total:
        return 1;
    case PSR_CUDA_KERNEL_dropout: /* four values a thread */
        return parts(a->dropout.count * plane(a->dropout.height, a->dropout.width) *
                         parts(a->dropout.channels, 4),
                     THREADS);
    case PSR_CUDA_KERNEL_gate:
        return groups(a->gate.samples * plane(a->gate.channels, a->gate.pixels));
    case PSR_CUDA_KERNEL_gate_backward:
        return a->gate_backward.samples * lanes(a->gate_backward.channels);
    case PSR_CUDA_KERNEL_shortcut: /* a value a thread, of the smaller image */
    case PSR_CUDA_KERNEL_shortcut_backward:
        return parts(a->shortcut.samples * plane(a->shortcut.height, a->shortcut.width) *
                         a->shortcut.in,
                     THREADS);
    case PSR_CUDA_KERNEL_flatten:
        return tiles(a->flatten.samples, a->flatten.channels, a->flatten.pixels);
    case PSR_CUDA_KERNEL_scale_of_norm:
        return parts(a->scale_of_norm.channels, THREADS);
    case PSR_CUDA_KERNEL_norm_gradient: /* dx: a value a thread */
        return a->norm_gradient.dx == NULL
                   ? lanes(a->norm_gradient.channels)
                   : parts(a->norm_gradient.rows * a->norm_gradient.channels, THREADS);
    case PSR_CUDA_KERNEL_product:
        return parts(a->product.rows, 64) * parts(a->product.columns, 64);
    case PSR_CUDA_KERNEL_column_sums:
        return lanes(a->column_sums.columns);
    case PSR_CUDA_KERNEL_add:
        return groups(a->add.count);
    case PSR_CUDA_KERNEL_relu:
        return parts(a->relu.count, THREADS);
    case PSR_CUDA_KERNEL_sgd:
        return groups(a->sgd.count);
    case PSR_CUDA_KERNEL_adam:
        return groups(a->adam.count);
    case PSR_CUDA_KERNEL_finite:
        return groups(a->finite.count);
    case PSR_CUDA_KERNEL_COUNT:
        break;
    }
    return 0;
}

#define ARGUMENT_BYTES(name) sizeof(psr_cuda_##name##_args),
static const size_t argument_bytes[] = {PSR_CUDA_KERNELS(ARGUMENT_BYTES)};

psr_cuda_grid psr_cuda_kernel_grid(psr_cuda_kernel kernel, const void *arguments)
{
    const any_arguments *a = arguments;
    const uint64_t blocks = blocks_of(kernel, a);
    return (psr_cuda_grid){
        .blocks = (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS),
        .threads = kernel == PSR_CUDA_KERNEL_loss ? loss_threads(a->loss.classes) : THREADS,
        .argument_bytes = argument_bytes[kernel],
    };
}

psr_err psr_cuda_kernel_launch(const psr_cuda_api *api, psr_cuda_stream *stream,
                               psr_cuda_kernel kernel, const void *arguments)
{
    const psr_cuda_grid grid = psr_cuda_kernel_grid(kernel, arguments);
    return api->launch(stream, kernel, grid.blocks, grid.threads, arguments, grid.argument_bytes);
}
