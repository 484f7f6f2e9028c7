/* A file of a known size that is written in pieces, which come in any order, past the page cache
 * where the file system can (O_DIRECT): the kernel then neither copies the bytes nor makes pages
 * for them, on cores on which workers compute. Where it cannot, they go through the page cache.
 *
 * Bytes are copied once, to memory of this object that is aligned as the kernel wants it, and are
 * written from there when it is full, or when a piece comes that does not follow the last one. A
 * block of which a piece fills only a part is read first, so that pieces may begin and end
 * anywhere. Private to model/'s checkpoints. One thread at a time. */
#ifndef PSR_MODEL_PLACED_FILE_H
#define PSR_MODEL_PLACED_FILE_H

#include "base/arrays/huge_pages.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes are collected before they are written. */
#define PSR_PLACED_FILE_STAGE_BYTES PSR_HUGE_PAGE_BYTES

typedef struct psr_placed_file {
    const char *path; /* for errors; borrowed */
    /* Called after each write, read and flush, if set. An error ends the call in which it came. */
    psr_err (*moved)(void *context);
    void *context;

    /* ---- private ---- */
    int fd;
    bool created; /* there is a file of this object at path */
    bool direct;  /* O_DIRECT is in force */
    uint64_t size_bytes;
    uint8_t *stage;  /* owned */
    uint64_t begin;  /* the place of stage[0] in the file, a multiple of the block */
    size_t from, to; /* stage[from, to) is not written yet; from is in the first block */
    uint64_t unflushed_bytes;
} psr_placed_file;

#define PSR_PLACED_FILE_NONE ((psr_placed_file){.fd = -1})

/* Makes path, or empties it, at its full size, so a full disk is told here where the file system
 * can reserve space. file has path, moved and context; the rest is set. direct: false: through the
 * page cache in any case. IO, FULL, NOMEM; what was made stays for psr_placed_file_done. */
PSR_MUST_CHECK psr_err psr_placed_file_create(psr_placed_file *file, uint64_t size_bytes,
                                              bool direct);

/* Copies the first bytes of data, as many as go at once and `bytes` (above 0) at most, for their
 * place `offset` in the file. *ret_copy, *ret_copied: the copy, which is what will be written even
 * if data changes meanwhile; borrowed until the next call. IO, FULL: of what was copied before. */
PSR_MUST_CHECK psr_err psr_placed_file_put(psr_placed_file *file, uint64_t offset, const void *data,
                                           size_t bytes, const void **ret_copy, size_t *ret_copied);

/* Reads back from offset on, at most `bytes` (above 0) within the file's size: what was put, if it
 * was. *ret_data: borrowed until the next call. IO. */
PSR_MUST_CHECK psr_err psr_placed_file_read(psr_placed_file *file, uint64_t offset, uint64_t bytes,
                                            const void **ret_data, size_t *ret_got);

/* Writes what is left and flushes the file to the disk at its true size. */
PSR_MUST_CHECK psr_err psr_placed_file_finish(psr_placed_file *file);

/* Closes it. removes: also takes it away, if this object made it. On PSR_PLACED_FILE_NONE it does
 * nothing. */
void psr_placed_file_done(psr_placed_file *file, bool removes);

#endif
