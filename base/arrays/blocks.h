/* Memory that is needed again and again: blocks of one size, taken and given back. A block that was
 * given back keeps its memory and is the next to be taken, so only a first use pays for the
 * kernel's zeroing of pages, and huge pages at that. Any thread. */
#ifndef PSR_BASE_ARRAYS_BLOCKS_H
#define PSR_BASE_ARRAYS_BLOCKS_H

#include "base/err.h"

#include <stddef.h>

typedef struct psr_blocks psr_blocks;

/* Takes no memory yet. The caller owns *ret_blocks. NOMEM. */
PSR_MUST_CHECK psr_err psr_blocks_new(size_t block_bytes, psr_blocks **ret_blocks);
/* Gives the memory of all blocks back to the kernel: at once, or when the last block that is out
 * has been given back. Nobody takes one afterwards. NULL allowed. */
void psr_blocks_free(psr_blocks *blocks);

/* Takes memory for as many blocks in all, written to, so that taking and filling them waits for no
 * zeroing. NOMEM. */
PSR_MUST_CHECK psr_err psr_blocks_reserve(psr_blocks *blocks, size_t count);

/* The memory that so many blocks take. */
size_t psr_blocks_bytes(const psr_blocks *blocks, size_t count);
/* Adds memory of the caller's, aligned to 64, as many blocks as fit: these are taken first. It is
 * borrowed until the pool has been freed and its last block has been given back. */
void psr_blocks_lend(psr_blocks *blocks, void *memory, size_t bytes);

/* A block of block_bytes at a multiple of 64, whose content is anything. NOMEM. The caller owns
 * *ret_block: psr_blocks_give. */
PSR_MUST_CHECK psr_err psr_blocks_take(psr_blocks *blocks, void **ret_block);
void psr_blocks_give(void *block);

#endif
