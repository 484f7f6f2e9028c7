#include "base/arrays/blocks.h"

#include "base/arrays/huge_pages.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The kernel is asked for so many blocks at a time. */
enum { SLAB_BLOCKS = 8, ALIGNMENT = 64, PAGE_BYTES = 4096 };

typedef struct block {
    alignas(ALIGNMENT) psr_blocks *of;
    struct block *next; /* while it is free */
    alignas(ALIGNMENT) unsigned char bytes[];
} block;

typedef struct slab {
    void *memory;
    struct slab *next;
} slab;

struct psr_blocks {
    size_t block_bytes; /* with the head, a multiple of ALIGNMENT */
    pthread_mutex_t mutex;
    /* Guarded by it: */
    slab *slabs;
    block *free;
    size_t out; /* blocks */
    size_t all; /* blocks of all slabs */
    bool ended; /* freed by its owner */
};

static size_t slab_bytes(const psr_blocks *blocks)
{
    const size_t bytes = SLAB_BLOCKS * blocks->block_bytes;
    return (bytes + PSR_HUGE_PAGE_BYTES - 1) / PSR_HUGE_PAGE_BYTES * PSR_HUGE_PAGE_BYTES;
}

psr_err psr_blocks_new(size_t block_bytes, psr_blocks **ret_blocks)
{
    psr_blocks *blocks = calloc(1, sizeof *blocks);
    if (blocks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for blocks");
    blocks->block_bytes =
        (sizeof(block) + block_bytes + ALIGNMENT - 1) / ALIGNMENT * (size_t)ALIGNMENT;
    pthread_mutex_init(&blocks->mutex, NULL);
    *ret_blocks = blocks;
    return PSR_OK;
}

static void release(psr_blocks *blocks)
{
    while (blocks->slabs != NULL) {
        slab *next = blocks->slabs->next;
        (void)munmap(blocks->slabs->memory, slab_bytes(blocks));
        free(blocks->slabs);
        blocks->slabs = next;
    }
    pthread_mutex_destroy(&blocks->mutex);
    free(blocks);
}

void psr_blocks_free(psr_blocks *blocks)
{
    if (blocks == NULL)
        return;
    pthread_mutex_lock(&blocks->mutex);
    blocks->ended = true;
    const bool last = blocks->out == 0;
    pthread_mutex_unlock(&blocks->mutex);
    if (last)
        release(blocks);
}

/* With the mutex held. The first of them is taken first. */
static void add_blocks(psr_blocks *blocks, unsigned char *memory, size_t count)
{
    blocks->all += count;
    for (size_t i = count; i-- > 0;) {
        block *b = (block *)(void *)(memory + i * blocks->block_bytes);
        *b = (block){.of = blocks, .next = blocks->free};
        blocks->free = b;
    }
}

/* With the mutex held. false: no memory. */
static bool add_slab(psr_blocks *blocks)
{
    slab *added = malloc(sizeof *added);
    unsigned char *memory = added != NULL ? psr_huge_pages_map(slab_bytes(blocks)) : NULL;
    if (memory == NULL) {
        free(added);
        return false;
    }
    *added = (slab){memory, blocks->slabs};
    blocks->slabs = added;
    add_blocks(blocks, memory, SLAB_BLOCKS);
    return true;
}

psr_err psr_blocks_reserve(psr_blocks *blocks, size_t count)
{
    bool has = true;
    pthread_mutex_lock(&blocks->mutex);
    while (has && blocks->all < count) {
        has = add_slab(blocks);
        for (size_t at = 0; has && at < slab_bytes(blocks); at += PAGE_BYTES) {
            volatile unsigned char *page = (unsigned char *)blocks->slabs->memory + at;
            *page = *page;
        }
    }
    pthread_mutex_unlock(&blocks->mutex);
    return has ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes", slab_bytes(blocks));
}

size_t psr_blocks_bytes(const psr_blocks *blocks, size_t count)
{
    return count * blocks->block_bytes;
}

void psr_blocks_lend(psr_blocks *blocks, void *memory, size_t bytes)
{
    pthread_mutex_lock(&blocks->mutex);
    add_blocks(blocks, memory, bytes / blocks->block_bytes);
    pthread_mutex_unlock(&blocks->mutex);
}

psr_err psr_blocks_take(psr_blocks *blocks, void **ret_block)
{
    pthread_mutex_lock(&blocks->mutex);
    const bool has = blocks->free != NULL || add_slab(blocks);
    if (has) {
        block *taken = blocks->free;
        blocks->free = taken->next;
        blocks->out++;
        *ret_block = taken->bytes;
    }
    pthread_mutex_unlock(&blocks->mutex);
    return has ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes", slab_bytes(blocks));
}

void psr_blocks_give(void *given)
{
    block *b = (block *)(void *)((unsigned char *)given - offsetof(block, bytes));
    psr_blocks *blocks = b->of;
    pthread_mutex_lock(&blocks->mutex);
    b->next = blocks->free;
    blocks->free = b;
    const bool last = --blocks->out == 0 && blocks->ended;
    pthread_mutex_unlock(&blocks->mutex);
    if (last)
        release(blocks);
}
