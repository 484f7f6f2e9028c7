/* The exchange of a halo with eight neighbours, for a 2-D image that is cut into tiles, one for
 * each rank (MindSpore's NeighborExchangeV2). It is made of blocks of a neighbour exchange
 * (comm/collectives/group.h).
 *
 * Forward, x[N,C,H,W] becomes y[N,C,top+H+bottom,left+W+right]: x is inside, and the edges of the
 * neighbours' x are around it, zeros where there is no neighbour. Backward, the gradient of y
 * becomes that of x: its inside, with the neighbours' halo gradients added at the edges (first the
 * rank's own, then in the order of the directions). Plain data; any thread. */
#ifndef PSR_COMM_COLLECTIVES_HALO_H
#define PSR_COMM_COLLECTIVES_HALO_H

#include "comm/collectives/block.h"

/* Clockwise. */
typedef enum psr_direction {
    PSR_TOP,
    PSR_TOP_RIGHT,
    PSR_RIGHT,
    PSR_BOTTOM_RIGHT,
    PSR_BOTTOM,
    PSR_BOTTOM_LEFT,
    PSR_LEFT,
    PSR_TOP_LEFT,
} psr_direction;
enum { PSR_DIRECTIONS = 8 };

#define PSR_NO_NEIGHBOR UINT32_MAX

/* In rows (top, bottom) or columns (left, right). */
typedef struct psr_halo_lengths {
    size_t top, bottom, left, right;
} psr_halo_lengths;

typedef struct psr_halo {
    size_t shape[4];                     /* N, C, H, W without halo */
    uint32_t send_ranks[PSR_DIRECTIONS]; /* the rank that gets this edge; PSR_NO_NEIGHBOR: none */
    uint32_t receive_ranks[PSR_DIRECTIONS]; /* the rank whose edge comes there */
    psr_halo_lengths send, receive;
} psr_halo;

/* The blocks of one call: the inside, the eight directions, and the zeros. */
enum { PSR_HALO_BLOCKS = 1 + 2 * PSR_DIRECTIONS };
typedef struct psr_halo_blocks {
    psr_block send[PSR_HALO_BLOCKS], receive[PSR_HALO_BLOCKS];
    size_t send_count, receive_count;
} psr_halo_blocks;

/* Whether the image has the edges that are to be sent. */
bool psr_halo_fits(const psr_halo *halo);

/* Makes the blocks. x is without halo, y with halo; both are dense and borrowed by the blocks.
 * rank: this rank. */
psr_halo_blocks psr_halo_forward(const psr_halo *halo, uint32_t rank, void *x, void *y,
                                 size_t value_bytes);
psr_halo_blocks psr_halo_back(const psr_halo *halo, uint32_t rank, void *y_gradient,
                              void *x_gradient, size_t value_bytes);

#endif
