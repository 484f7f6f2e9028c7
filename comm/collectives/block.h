/* A block: a part of a tensor of up to four dimensions. It need not be dense. Its values are in the
 * order of its indices, the last index fastest. Plain data; any thread. */
#ifndef PSR_COMM_COLLECTIVES_BLOCK_H
#define PSR_COMM_COLLECTIVES_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_block {
    uint32_t rank; /* the rank that it goes to or comes from */
    void *data;    /* NULL, in a block that is sent: zeros */
    size_t shape[4];
    size_t stride[4]; /* in values; all 0: dense */
    bool adds; /* received values are folded into those that are there, by the call's reduction */
} psr_block;

static inline psr_block psr_block_dense(uint32_t rank, void *data, size_t count)
{
    return (psr_block){.rank = rank, .data = data, .shape = {1, 1, 1, count}};
}

bool psr_block_is_dense(const psr_block *block);
/* The number of its values. false: more than memory can hold. */
bool psr_block_count(const psr_block *block, size_t *ret_count);

/* Copy values [first, first + count) of the block to or from dense memory; a value has
 * value_bytes. */
void psr_block_read(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                    void *to);
void psr_block_write(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                     const void *from);

#endif
