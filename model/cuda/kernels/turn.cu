/* What turns matrices around: image, filter, filter_gradient and flatten, between the order in which
 * tensors are written (channels, then pixels) and that of a GPU (pixels, then channels). */
#include "model/cuda/kernels/values.h"

/* y[b][c][r] = x[b][r][c] for r < rows and c < columns. A row of x has x_stride values, of which
 * columns are read; a column of y has y_stride, of which those from rows on become zero. */
typedef struct psr_turn {
    const void *x;
    void *y;
    uint32_t x_type, y_type;
    uint32_t batch, rows, columns, x_stride, y_stride;
} psr_turn;

/* A tile goes through shared memory, so that both sides are read and written along their lines. It
 * is as wide as a matrix with few rows or columns: a 3 x 3 filter's columns are 9, an image's rows
 * 3. */
#define PSR_TURN_TILE 1024
#define PSR_TURN_EDGE 32

PSR_DEVICE void psr_turn_tile(const psr_turn *turn, float *tile, uint32_t tile_rows,
                              uint32_t tile_columns, uint64_t at)
{
    /* Columns of an odd stride lie in all of the shared memory's banks. */
    const uint32_t stride = tile_columns | 1u;
    const uint32_t row_tiles = (turn->y_stride + tile_rows - 1) / tile_rows;
    const uint32_t column_tiles = (turn->columns + tile_columns - 1) / tile_columns;
    const uint32_t c0 = (uint32_t)(at % column_tiles) * tile_columns;
    const uint32_t r0 = (uint32_t)(at / column_tiles % row_tiles) * tile_rows;
    const uint64_t b = at / column_tiles / row_tiles;
    const uint32_t count = tile_rows * tile_columns;
    for (uint32_t i = PSR_THREAD; i < count; i += PSR_THREADS) {
        const uint32_t r = i / tile_columns, c = i % tile_columns;
        if (r0 + r < turn->rows && c0 + c < turn->columns)
            tile[r * stride + c] = psr_device_get(
                turn->x, turn->x_type, (b * turn->rows + r0 + r) * turn->x_stride + c0 + c);
        else
            tile[r * stride + c] = 0;
    }
    PSR_BARRIER();
    for (uint32_t i = PSR_THREAD; i < count; i += PSR_THREADS) {
        const uint32_t r = i % tile_rows, c = i / tile_rows;
        if (r0 + r < turn->y_stride && c0 + c < turn->columns)
            psr_device_set(turn->y, turn->y_type,
                           (b * turn->columns + c0 + c) * turn->y_stride + r0 + r,
                           tile[r * stride + c]);
    }
    PSR_BARRIER();
}

PSR_DEVICE void psr_turn_all(const psr_turn *turn)
{
    PSR_SHARED(float, tile, 2 * PSR_TURN_TILE);
    uint32_t tile_rows = PSR_TURN_EDGE, tile_columns = PSR_TURN_EDGE;
    if (turn->columns < PSR_TURN_EDGE) {
        tile_columns = turn->columns;
        tile_rows = PSR_TURN_TILE / tile_columns;
    } else if (turn->y_stride < PSR_TURN_EDGE) {
        tile_rows = turn->y_stride;
        tile_columns = PSR_TURN_TILE / tile_rows;
    }
    const uint64_t tiles = (uint64_t)turn->batch * ((turn->y_stride + tile_rows - 1) / tile_rows) *
                           ((turn->columns + tile_columns - 1) / tile_columns);
    for (uint64_t at = PSR_BLOCK; at < tiles; at += PSR_BLOCKS)
        psr_turn_tile(turn, tile, tile_rows, tile_columns, at);
}

/* y[b][pixel][channel] = x[b][channel][pixel], and zero for the channels from there up to wide. */
PSR_DEVICE void psr_turn_widened(const float *x, void *y, uint32_t y_type, uint32_t batch,
                                 uint32_t channels, uint32_t wide, uint32_t pixels)
{
    psr_turn turn;
    turn.x = x;
    turn.x_type = PSR_CUDA_FLOAT32;
    turn.y = y;
    turn.y_type = y_type;
    turn.batch = batch;
    turn.rows = channels;
    turn.columns = turn.x_stride = pixels;
    turn.y_stride = wide;
    psr_turn_all(&turn);
}

PSR_KERNEL(image)
{
    psr_turn_widened(args.x, args.y, args.type, args.samples, args.channels, args.channels_wide,
                     args.height * args.width);
}

PSR_KERNEL(filter)
{
    psr_turn_widened(args.w, args.y, args.type, args.out, args.in, args.in_wide,
                     args.height * args.width);
}

PSR_KERNEL(filter_gradient)
{
    psr_turn turn;
    turn.x = args.x;
    turn.y = args.dw;
    turn.x_type = turn.y_type = PSR_CUDA_FLOAT32;
    turn.batch = args.out;
    turn.rows = turn.y_stride = args.height * args.width;
    turn.columns = args.in;
    turn.x_stride = args.in_wide;
    psr_turn_all(&turn);
}

PSR_KERNEL(flatten)
{
    psr_turn turn;
    turn.x = args.x;
    turn.y = args.y;
    turn.x_type = turn.y_type = args.type;
    turn.batch = args.samples;
    turn.rows = turn.y_stride = args.back ? args.channels : args.pixels;
    turn.columns = turn.x_stride = args.back ? args.pixels : args.channels;
    psr_turn_all(&turn);
}
