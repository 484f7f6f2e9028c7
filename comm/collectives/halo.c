#include "comm/collectives/halo.h"

/* The position of a direction: 0 before (top, left), 1 inside, 2 after (bottom, right). */
typedef struct side {
    uint8_t row, column;
} side;

static const side sides[PSR_DIRECTIONS] = {
    [PSR_TOP] = {0, 1},          [PSR_TOP_RIGHT] = {0, 2}, [PSR_RIGHT] = {1, 2},
    [PSR_BOTTOM_RIGHT] = {2, 2}, [PSR_BOTTOM] = {2, 1},    [PSR_BOTTOM_LEFT] = {2, 0},
    [PSR_LEFT] = {1, 0},         [PSR_TOP_LEFT] = {0, 0},
};

typedef struct run {
    size_t begin, count;
} run;

/* The edge of `length` values on one side; before and behind are its sizes. */
static run edge_of(uint8_t where, size_t length, size_t before, size_t behind)
{
    return where == 0   ? (run){0, before}
           : where == 1 ? (run){0, length}
                        : (run){length - behind, behind};
}

/* The halo on one side of `length` values; it begins before them. */
static run halo_of(uint8_t where, size_t length, size_t before, size_t behind)
{
    return where == 0   ? (run){0, before}
           : where == 1 ? (run){before, length}
                        : (run){before + length, behind};
}

/* A dense image. */
typedef struct image {
    uint8_t *data;
    size_t shape[4], value_bytes;
} image;

static psr_block part_of(const image *m, uint32_t rank, run rows, run columns)
{
    size_t width = m->shape[3], area = m->shape[2] * width;
    return (psr_block){.rank = rank,
                       .data = m->data + (rows.begin * width + columns.begin) * m->value_bytes,
                       .shape = {m->shape[0], m->shape[1], rows.count, columns.count},
                       .stride = {m->shape[1] * area, area, width, 1}};
}

static psr_block edge(const psr_halo *h, const image *x, psr_direction d, uint32_t rank)
{
    return part_of(x, rank, edge_of(sides[d].row, h->shape[2], h->send.top, h->send.bottom),
                   edge_of(sides[d].column, h->shape[3], h->send.left, h->send.right));
}

static psr_block halo(const psr_halo *h, const image *y, psr_direction d, uint32_t rank)
{
    return part_of(y, rank, halo_of(sides[d].row, h->shape[2], h->receive.top, h->receive.bottom),
                   halo_of(sides[d].column, h->shape[3], h->receive.left, h->receive.right));
}

static psr_block inside(const psr_halo *h, const image *y, uint32_t rank)
{
    return part_of(y, rank, (run){h->receive.top, h->shape[2]},
                   (run){h->receive.left, h->shape[3]});
}

static image without_halo(const psr_halo *h, void *data, size_t value_bytes)
{
    return (image){data, {h->shape[0], h->shape[1], h->shape[2], h->shape[3]}, value_bytes};
}

static image with_halo(const psr_halo *h, void *data, size_t value_bytes)
{
    const psr_halo_lengths *l = &h->receive;
    return (image){data,
                   {h->shape[0], h->shape[1], l->top + h->shape[2] + l->bottom,
                    l->left + h->shape[3] + l->right},
                   value_bytes};
}

static void add_pair(psr_halo_blocks *blocks, psr_block from, psr_block to)
{
    blocks->send[blocks->send_count++] = from;
    blocks->receive[blocks->receive_count++] = to;
}

/* What a rank sends upwards its upper neighbour expects from below. Two ranks may be neighbours on
 * several sides, so both must mean the same block by the k-th: one takes the directions in their
 * order, the other the opposite of each. */
static psr_direction opposite(psr_direction d)
{
    return (psr_direction)((d + PSR_DIRECTIONS / 2) % PSR_DIRECTIONS);
}

bool psr_halo_fits(const psr_halo *h)
{
    return h->send.top <= h->shape[2] && h->send.bottom <= h->shape[2] &&
           h->send.left <= h->shape[3] && h->send.right <= h->shape[3];
}

psr_halo_blocks psr_halo_forward(const psr_halo *h, uint32_t rank, void *x_data, void *y_data,
                                 size_t value_bytes)
{
    const image x = without_halo(h, x_data, value_bytes), y = with_halo(h, y_data, value_bytes);
    psr_halo_blocks blocks = {.send_count = 0};
    add_pair(&blocks, part_of(&x, rank, (run){0, h->shape[2]}, (run){0, h->shape[3]}),
             inside(h, &y, rank));
    for (psr_direction d = 0; d <= PSR_TOP_LEFT; d++)
        if (h->receive_ranks[d] == PSR_NO_NEIGHBOR) {
            psr_block to = halo(h, &y, d, rank), zeros = to;
            zeros.data = NULL;
            add_pair(&blocks, zeros, to);
        }
    for (psr_direction d = 0; d <= PSR_TOP_LEFT; d++) {
        psr_direction there = opposite(d);
        if (h->send_ranks[d] != PSR_NO_NEIGHBOR)
            blocks.send[blocks.send_count++] = edge(h, &x, d, h->send_ranks[d]);
        if (h->receive_ranks[there] != PSR_NO_NEIGHBOR)
            blocks.receive[blocks.receive_count++] = halo(h, &y, there, h->receive_ranks[there]);
    }
    return blocks;
}

psr_halo_blocks psr_halo_back(const psr_halo *h, uint32_t rank, void *y_data, void *x_data,
                              size_t value_bytes)
{
    const image x = without_halo(h, x_data, value_bytes), y = with_halo(h, y_data, value_bytes);
    psr_halo_blocks blocks = {.send_count = 0};
    add_pair(&blocks, inside(h, &y, rank),
             part_of(&x, rank, (run){0, h->shape[2]}, (run){0, h->shape[3]}));
    for (psr_direction d = 0; d <= PSR_TOP_LEFT; d++) {
        psr_direction there = opposite(d);
        if (h->receive_ranks[there] != PSR_NO_NEIGHBOR)
            blocks.send[blocks.send_count++] = halo(h, &y, there, h->receive_ranks[there]);
        if (h->send_ranks[d] != PSR_NO_NEIGHBOR) {
            psr_block to = edge(h, &x, d, h->send_ranks[d]);
            to.adds = true;
            blocks.receive[blocks.receive_count++] = to;
        }
    }
    return blocks;
}
