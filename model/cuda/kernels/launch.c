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

static psr_cuda_grid grid_of(uint64_t blocks, size_t argument_bytes)
{
    return (psr_cuda_grid){(uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), THREADS,
                           argument_bytes};
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

#define ARGUMENTS(name, args)                                                                      \
    const psr_cuda_##name##_args *args = arguments;                                                \
    const size_t bytes = sizeof *args

psr_cuda_grid psr_cuda_kernel_grid(psr_cuda_kernel kernel, const void *arguments)
{
    switch (kernel) {
    case PSR_CUDA_KERNEL_image: {
        ARGUMENTS(image, args);
        return grid_of(
            tiles(args->samples, args->channels_wide, (uint64_t)args->height * args->width), bytes);
    }
    case PSR_CUDA_KERNEL_filter: {
        ARGUMENTS(filter, args);
        return grid_of(tiles(args->out, args->in_wide, (uint64_t)args->height * args->width),
                       bytes);
    }
    case PSR_CUDA_KERNEL_filter_gradient: {
        ARGUMENTS(filter_gradient, args);
        return grid_of(tiles(args->out, args->in, (uint64_t)args->height * args->width), bytes);
    }
    case PSR_CUDA_KERNEL_flatten: {
        ARGUMENTS(flatten, args);
        return grid_of(tiles(args->samples, args->channels, args->pixels), bytes);
    }
    case PSR_CUDA_KERNEL_cast: {
        ARGUMENTS(cast, args);
        return grid_of(parts(args->count, THREADS * AT_ONCE), bytes);
    }
    case PSR_CUDA_KERNEL_add: {
        ARGUMENTS(add, args);
        return grid_of(parts(args->count, THREADS * AT_ONCE), bytes);
    }
    case PSR_CUDA_KERNEL_loss: {
        ARGUMENTS(loss, args);
        psr_cuda_grid grid = grid_of(args->samples, bytes);
        grid.threads = loss_threads(args->classes);
        return grid;
    }
    case PSR_CUDA_KERNEL_loss_total:
        return grid_of(1, sizeof(psr_cuda_loss_total_args));
    case PSR_CUDA_KERNEL_product: {
        ARGUMENTS(product, args);
        return grid_of(parts(args->rows, 64) * parts(args->columns, 64), bytes);
    }
    case PSR_CUDA_KERNEL_column_sums: {
        ARGUMENTS(column_sums, args);
        return grid_of(parts(args->columns, 16), bytes);
    }
    default:
        return (psr_cuda_grid){0};
    }
}

psr_err psr_cuda_kernel_launch(const psr_cuda_api *api, psr_cuda_stream *stream,
                               psr_cuda_kernel kernel, const void *arguments)
{
    const psr_cuda_grid grid = psr_cuda_kernel_grid(kernel, arguments);
    return api->launch(stream, kernel, grid.blocks, grid.threads, arguments, grid.argument_bytes);
}
