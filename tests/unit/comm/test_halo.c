/* Blocks that lie not dense, and the halo of an image cut into tiles against the image as a
 * whole. */
#include "comm/collectives/halo.h"
#include "tests/unit/comm/group_network.h"

/* ---- blocks ---- */

static void a_block_is_read_and_written_in_the_order_of_its_indices(void **state)
{
    (void)state;
    enum { MEMORY = 2000 };
    static uint16_t memory[MEMORY], written[MEMORY], values[300];
    for (size_t i = 0; i < MEMORY; i++)
        memory[i] = (uint16_t)i;
    static const psr_block blocks[] = {
        {.shape = {2, 3, 4, 5}, .stride = {400, 100, 10, 1}},
        {.shape = {2, 3, 4, 5}, .stride = {1, 30, 7, 200}},
        {.shape = {1, 1, 7, 1}, .stride = {0, 0, 3, 1}},
        {.shape = {2, 3, 4, 5}},
        {.shape = {1, 1, 1, 9}, .stride = {0, 0, 0, 2}},
    };
    for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        psr_block block = blocks[b];
        const size_t *shape = block.shape, *stride = block.stride;
        size_t count = 0, places[300], k = 0;
        assert_true(psr_block_count(&block, &count));
        assert_int_equal(psr_block_is_dense(&block), b == 3);
        for (size_t i = 0; i < shape[0]; i++)
            for (size_t j = 0; j < shape[1]; j++)
                for (size_t l = 0; l < shape[2]; l++)
                    for (size_t m = 0; m < shape[3]; m++, k++)
                        places[k] =
                            b == 3 ? k
                                   : i * stride[0] + j * stride[1] + l * stride[2] + m * stride[3];
        for (size_t first = 0; first < count; first++)
            for (size_t length = 0; first + length <= count; length++) {
                block.data = memory;
                psr_block_read(&block, sizeof *memory, first, length, values);
                memset(written, 0xff, sizeof written);
                block.data = written;
                psr_block_write(&block, sizeof *memory, first, length, values);
                for (size_t i = 0; i < length; i++)
                    assert_true(values[i] == places[first + i] &&
                                written[places[first + i]] == places[first + i]);
                for (size_t i = 0; i < count; i++)
                    assert_true((i >= first && i < first + length) || written[places[i]] == 0xffff);
            }
    }
    const psr_block huge = {.shape = {SIZE_MAX, 2, 1, 1}};
    size_t count = 77;
    assert_false(psr_block_count(&huge, &count));
    assert_int_equal(count, 77);
}

/* ---- an image of tiles ---- */

enum { BATCH = 2, CHANNELS = 3, HEIGHT = 5, WIDTH = 4, TILES_MAX = 9 };
enum {
    TOP = 2,
    BOTTOM = 1,
    LEFT = 1,
    RIGHT = 3,
    HEIGHT_ALL = TOP + HEIGHT + BOTTOM,
    WIDTH_ALL = LEFT + WIDTH + RIGHT
};

typedef int32_t plain[BATCH][CHANNELS][HEIGHT][WIDTH];
typedef int32_t ringed[BATCH][CHANNELS][HEIGHT_ALL][WIDTH_ALL];

typedef struct grid {
    uint32_t rows, columns;
    bool periodic;
} grid;

static int32_t value(int n, int c, int64_t row, int64_t column)
{
    return (int32_t)(1 + n + 10 * c + 100 * row + 10000 * column);
}

/* The place in the whole image of a place on a tile. false: outside. */
static bool place_of(const grid *g, uint32_t tile, int64_t row, int64_t column, int64_t *ret_row,
                     int64_t *ret_column)
{
    int64_t rows = (int64_t)g->rows * HEIGHT, columns = (int64_t)g->columns * WIDTH;
    row += (int64_t)(tile / g->columns) * HEIGHT;
    column += (int64_t)(tile % g->columns) * WIDTH;
    if (!g->periodic && (row < 0 || row >= rows || column < 0 || column >= columns))
        return false;
    *ret_row = (row + rows) % rows;
    *ret_column = (column + columns) % columns;
    return true;
}

static uint32_t neighbor(const grid *g, uint32_t tile, psr_direction d)
{
    static const int down[] = {-1, -1, 0, 1, 1, 1, 0, -1}, right[] = {0, 1, 1, 1, 0, -1, -1, -1};
    int64_t row, column;
    if (!place_of(g, tile, down[d] * HEIGHT, right[d] * WIDTH, &row, &column))
        return PSR_NO_NEIGHBOR;
    return (uint32_t)(row / HEIGHT * g->columns + column / WIDTH);
}

static psr_halo halo_of(const grid *g, uint32_t tile)
{
    psr_halo halo = {.shape = {BATCH, CHANNELS, HEIGHT, WIDTH},
                     .receive = {.top = TOP, .bottom = BOTTOM, .left = LEFT, .right = RIGHT},
                     .send = {.top = BOTTOM, .bottom = TOP, .left = RIGHT, .right = LEFT}};
    for (psr_direction d = 0; d <= PSR_TOP_LEFT; d++)
        halo.send_ranks[d] = halo.receive_ranks[d] = neighbor(g, tile, d);
    assert_true(psr_halo_fits(&halo));
    return halo;
}

static void exchange(network *net, const psr_halo_blocks blocks[], uint64_t times)
{
    psr_request *requests[TILES_MAX];
    for (uint32_t r = 0; r < net->ranks; r++) {
        psr_request_options options = {.kind = PSR_KIND_NEIGHBORS,
                                       .type = PSR_TYPE_INT32,
                                       .send_blocks = blocks[r].send,
                                       .send_block_count = blocks[r].send_count,
                                       .receive_blocks = blocks[r].receive,
                                       .receive_block_count = blocks[r].receive_count,
                                       .persistent = times > 1};
        requests[r] = network_request(net, r, &options);
    }
    for (uint64_t t = 0; t < times; t++) {
        for (uint32_t r = 0; r < net->ranks; r++) {
            assert_ok(psr_request_start(requests[r]));
            for (uint32_t d = network_draw(net, 20); d > 0; d--)
                network_deliver(net, NULL);
        }
        network_settle(net);
    }
    for (uint32_t r = 0; r < net->ranks; r++) {
        assert_true(psr_request_done(requests[r]));
        psr_request_free(requests[r]);
    }
}

static void forward(const grid *g, uint64_t seed)
{
    static plain x[TILES_MAX];
    static ringed y[TILES_MAX];
    network *net = network_open(g->rows * g->columns, 64, 2, seed);
    psr_halo_blocks blocks[TILES_MAX];
    int64_t row = 0, column = 0;
    for (uint32_t tile = 0; tile < net->ranks; tile++) {
        for (int n = 0; n < BATCH; n++)
            for (int c = 0; c < CHANNELS; c++)
                for (int i = 0; i < HEIGHT; i++)
                    for (int j = 0; j < WIDTH; j++)
                        if (place_of(g, tile, i, j, &row, &column))
                            x[tile][n][c][i][j] = value(n, c, row, column);
        memset(y[tile], 0xa5, sizeof y[tile]);
        psr_halo halo = halo_of(g, tile);
        blocks[tile] = psr_halo_forward(&halo, tile, x[tile], y[tile], sizeof(int32_t));
    }
    exchange(net, blocks, 1 + seed % 2);
    for (uint32_t tile = 0; tile < net->ranks; tile++)
        for (int n = 0; n < BATCH; n++)
            for (int c = 0; c < CHANNELS; c++)
                for (int i = 0; i < HEIGHT_ALL; i++)
                    for (int j = 0; j < WIDTH_ALL; j++) {
                        bool there = place_of(g, tile, i - TOP, j - LEFT, &row, &column);
                        assert_int_equal(y[tile][n][c][i][j], there ? value(n, c, row, column) : 0);
                    }
    network_close(net);
}

static void back(const grid *g, uint64_t seed)
{
    static ringed y[TILES_MAX];
    static plain x[TILES_MAX], want[TILES_MAX];
    network *net = network_open(g->rows * g->columns, 64, 2, seed);
    psr_halo_blocks blocks[TILES_MAX];
    memset(want, 0, sizeof want);
    for (uint32_t tile = 0; tile < net->ranks; tile++) {
        for (int n = 0; n < BATCH; n++)
            for (int c = 0; c < CHANNELS; c++)
                for (int i = 0; i < HEIGHT_ALL; i++)
                    for (int j = 0; j < WIDTH_ALL; j++) {
                        int64_t row, column;
                        y[tile][n][c][i][j] = value(n, c, i, j) * (int32_t)(3 + tile);
                        if (place_of(g, tile, i - TOP, j - LEFT, &row, &column))
                            want[row / HEIGHT * g->columns + column / WIDTH][n][c][row % HEIGHT]
                                [column % WIDTH] += y[tile][n][c][i][j];
                    }
        memset(x[tile], 0xa5, sizeof x[tile]);
        psr_halo halo = halo_of(g, tile);
        blocks[tile] = psr_halo_back(&halo, tile, y[tile], x[tile], sizeof(int32_t));
    }
    exchange(net, blocks, 1 + seed % 2);
    for (uint32_t tile = 0; tile < net->ranks; tile++)
        assert_memory_equal(x[tile], want[tile], sizeof x[tile]);
    network_close(net);
}

static const grid grids[] = {{1, 1, false}, {1, 1, true},  {1, 2, false}, {1, 2, true},
                             {2, 1, true},  {2, 2, false}, {2, 2, true},  {3, 1, true},
                             {1, 3, false}, {2, 3, true},  {3, 3, false}, {3, 3, true}};

static void a_tile_gets_the_edges_of_its_neighbours_and_zeros_where_there_is_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        for (uint64_t seed = 0; seed < 6; seed++)
            forward(&grids[i], seed);
}

static void back_each_edge_gets_what_all_have_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        for (uint64_t seed = 0; seed < 6; seed++)
            back(&grids[i], seed);
}

/* Sums of floats show their order: the inside, then the directions in theirs, whatever comes
 * first. */
static void an_edge_is_added_to_in_the_order_of_the_list(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        network *net = network_open(4, 64, 2, seed);
        float sum = 1, parts[4] = {0, 1e8f, -1e8f, 0.25f};
        psr_request *requests[4];
        for (uint32_t r = 0; r < 4; r++) {
            psr_block out = psr_block_dense(0, &parts[r], 1), in[3];
            for (uint32_t k = 0; k < 3; k++) {
                in[k] = psr_block_dense(k + 1, &sum, 1);
                in[k].adds = true;
            }
            psr_request_options options = {.kind = PSR_KIND_NEIGHBORS,
                                           .type = PSR_TYPE_FLOAT32,
                                           .send_blocks = &out,
                                           .send_block_count = r > 0,
                                           .receive_blocks = in,
                                           .receive_block_count = r == 0 ? 3 : 0};
            requests[r] = network_request(net, r, &options);
            assert_ok(psr_request_start(requests[r]));
        }
        network_settle(net);
        assert_true(sum == ((1 + 1e8f) - 1e8f) + 0.25f && sum == 0.25f);
        for (uint32_t r = 0; r < 4; r++)
            psr_request_free(requests[r]);
        network_close(net);
    }
}

static void edges_larger_than_the_image_do_not_fit(void **state)
{
    (void)state;
    const grid one = {1, 1, false};
    for (int side = 0; side < 4; side++) {
        psr_halo halo = halo_of(&one, 0);
        size_t *lengths[] = {&halo.send.top, &halo.send.bottom, &halo.send.left, &halo.send.right};
        *lengths[side] = side < 2 ? HEIGHT : WIDTH;
        assert_true(psr_halo_fits(&halo));
        ++*lengths[side];
        assert_false(psr_halo_fits(&halo));
    }
}

static void blocks_that_cannot_be_are_refused(void **state)
{
    (void)state;
    network *net = network_open(2, 64, 2, 0);
    int32_t value_here = 0;
    psr_block block = psr_block_dense(1, &value_here, 1);
    psr_request_options options = {.kind = PSR_KIND_NEIGHBORS,
                                   .type = PSR_TYPE_INT32,
                                   .reduction = PSR_REDUCTION_MEAN,
                                   .receive_blocks = &block,
                                   .receive_block_count = 1};
    psr_request *request;
    block.adds = true;
    assert_fails(psr_request_new(net->groups[0], &options, &request), PSR_ERR_USAGE,
                 "blocks of int32 are not added by mean");
    options.type = PSR_TYPE_INT32_INT32;
    options.reduction = PSR_REDUCTION_SUM;
    assert_fails(psr_request_new(net->groups[0], &options, &request), PSR_ERR_USAGE,
                 "blocks of int32_int32 are not added by sum");
    options.type = PSR_TYPE_INT32;
    block.adds = false;
    block.data = NULL;
    assert_fails(psr_request_new(net->groups[0], &options, &request), PSR_ERR_USAGE,
                 "what is received has no memory");
    block.shape[0] = SIZE_MAX;
    block.shape[1] = 2;
    assert_fails(psr_request_new(net->groups[0], &options, &request), PSR_ERR_USAGE,
                 "more values than memory can hold");
    network_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_read_and_written_in_the_order_of_its_indices),
        cmocka_unit_test(a_tile_gets_the_edges_of_its_neighbours_and_zeros_where_there_is_none),
        cmocka_unit_test(back_each_edge_gets_what_all_have_of_it),
        cmocka_unit_test(an_edge_is_added_to_in_the_order_of_the_list),
        cmocka_unit_test(edges_larger_than_the_image_do_not_fit),
        cmocka_unit_test(blocks_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
