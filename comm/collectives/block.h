/* A block: a part of a tensor of up to four dimensions, which need not lie dense. Its values have
 * the order of its indices, the last one fastest. Plain data; any thread. */
#ifndef PSR_COMM_COLLECTIVES_BLOCK_H
#define PSR_COMM_COLLECTIVES_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_block {
    uint32_t rank; /* to whom it goes, or of whom it comes */
    void *data;    /* of what is sent, NULL: zeros */
    size_t shape[4];
    size_t stride[4]; /* values; all 0: dense */
    bool adds;        /* what is received is folded into what
                         stands there, by the call's reduction */
} psr_block;

static inline psr_block psr_block_dense(uint32_t rank, void *data, size_t count)
{
    return (psr_block){.rank = rank, .data = data, .shape = {1, 1, 1, count}};
}

bool psr_block_is_dense(const psr_block *block);
/* Its values. false: more than memory can have. */
bool psr_block_count(const psr_block *block, size_t *ret_count);

/* Values [first, first + count) of it, of so many bytes each, to and from dense memory. */
void psr_block_read(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                    void *to);
void psr_block_write(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                     const void *from);

#endif
