/* Checkpoints as safetensors (https://github.com/huggingface/safetensors: 8-byte little-endian
 * header length, JSON header, raw data). A file is written under another name and then renamed. Its
 * checksums are in __metadata__, and are verified when it is read. checkpoints/step-N/ holds two
 * files. model.safetensors has weights and averaged batch-norm statistics under torchvision's
 * names, so that it loads elsewhere. state.safetensors has the optimizer's slots ("momentum/NAME"),
 * each rank's own buffers ("rank0/NAME"), with error feedback each rank's residual, which it has
 * not sent yet ("residual0/NAME"), where workers get differences of weights those that shards
 * update ("updated/NAME"), and counters in __metadata__. With --ema there is a third file,
 * model-ema.safetensors: the averages of both under the same names, so that it opens as a model
 * does; state.safetensors then has each rank's own averaged statistics too ("ema0/NAME").
 *
 * Checksums, as 16 hex digits: "xxh3/NAME" is the XXH3-64 of a tensor's bytes; "xxh3" that of the
 * file up to the data (length and header), with its own digits as zeros. So every flipped bit of a
 * file is found. A file that another program wrote has no checksums, and is read without that
 * check.
 *
 * A file is written in pieces (tensor, range of elements), which may arrive in any order from
 * several processes. So the set of tensors must be known before the first piece. The bytes of a
 * file that is read may be hostile. One thread at a time. */
#ifndef PSR_MODEL_CHECKPOINT_H
#define PSR_MODEL_CHECKPOINT_H

#include "base/err.h"
#include "model/layout.h"

#include <stdbool.h>

struct psr_safetensors_entry; /* model/checkpoint/safetensors.h */

/* ---- writing ---- */
typedef struct psr_checkpoint_writer psr_checkpoint_writer;

/* Starts FILE (a path inside an existing directory) with float32 tensors (name, shape; the rest of
 * psr_tensor is not looked at) and metadata pairs (NULL-terminated key, value, key, value; NULL:
 * none), all UTF-8. Creates FILE.part at its full size, so a full disk is reported here. USAGE for
 * a name that comes twice or text that is not UTF-8, IO, NOMEM. The caller owns *ret_writer:
 * psr_checkpoint_commit or psr_checkpoint_abandon. */
PSR_MUST_CHECK psr_err psr_checkpoint_create(const char *path, const psr_tensor *tensors,
                                             size_t tensor_count, const char *const *metadata,
                                             psr_checkpoint_writer **ret_writer);
/* The same for model.safetensors: beside every tensor X.running_mean an int64 scalar
 * X.num_batches_tracked of value batches_tracked (>= 0) is written too, which torchvision's strict
 * load_state_dict asks for. */
PSR_MUST_CHECK psr_err psr_checkpoint_create_model(const char *path, const psr_tensor *tensors,
                                                   size_t tensor_count, const char *const *metadata,
                                                   int64_t batches_tracked,
                                                   psr_checkpoint_writer **ret_writer);
/* From now on put and commit call moved(context) whenever the disk has written or read something,
 * at least once in 32 MiB. So a caller can distinguish a slow disk from one that hangs. When moved
 * returns false, put and commit give up: CANCELLED. */
void psr_checkpoint_watch(psr_checkpoint_writer *writer, bool (*moved)(void *context),
                          void *context);
/* Stores elements [first, first+count) of a tensor, past the page cache where the file system can
 * (model/checkpoint/placed_file.h), so that a commit never has much to flush. data is read once:
 * the checksum is that of what is written, even if another process changes data meanwhile. Elements
 * that come in their order are cheapest: of others the commit reads the file back. Each element
 * must be stored exactly once. PROTOCOL: an element comes twice, or the tensor does not have it.
 * NOT_FOUND: psr_checkpoint_create was given no such name. After these two nothing was stored. IO:
 * the file can only be abandoned. */
PSR_MUST_CHECK psr_err psr_checkpoint_put(psr_checkpoint_writer *writer, const char *name,
                                          size_t first, size_t count, const float *data);
/* Checksums, fsync, rename. Consumes *writer, also on failure; after a failure FILE.part is gone,
 * and a FILE that was there before is unchanged. PROTOCOL: elements are missing. IO. */
PSR_MUST_CHECK psr_err psr_checkpoint_commit(psr_checkpoint_writer **writer);
/* Removes what was written. NULL allowed; nulls it. */
void psr_checkpoint_abandon(psr_checkpoint_writer **writer);

/* ---- reading ---- */
typedef struct psr_checkpoint psr_checkpoint;

/* Opens a file and verifies its header and every checksum. FORMAT names file, tensor and what is
 * wrong (flipped byte, header that claims too much, overlap, missing bytes); NOT_FOUND when there
 * is no such file; IO (not a file, ..), NOMEM. The caller owns *ret_checkpoint:
 * psr_checkpoint_close. Only the header is kept in memory. Other programs may change or cut the
 * file at any time. So data are verified again when they are read. */
PSR_MUST_CHECK psr_err psr_checkpoint_open(const char *path, psr_checkpoint **ret_checkpoint);
/* The same from memory. origin stands for the path in messages; bytes are borrowed until close. */
PSR_MUST_CHECK psr_err psr_checkpoint_parse(const char *origin, const void *bytes, size_t size,
                                            psr_checkpoint **ret_checkpoint);
void psr_checkpoint_close(psr_checkpoint *checkpoint);
/* Value of a metadata key or NULL. Borrowed. */
const char *psr_checkpoint_metadata(const psr_checkpoint *checkpoint, const char *key);
/* Checks that a float32 tensor of this name and shape is there. NOT_FOUND, or FORMAT when shape or
 * type differ. */
PSR_MUST_CHECK psr_err psr_checkpoint_find(const psr_checkpoint *checkpoint, const char *name,
                                           uint32_t rank, const uint32_t *shape);
/* Reads the whole tensor to data (as many floats as shape has). Errors of psr_checkpoint_find leave
 * data untouched. IO (the file is shorter now, ..) and FORMAT (its bytes no longer match the
 * checksum) leave it undefined. */
PSR_MUST_CHECK psr_err psr_checkpoint_read(const psr_checkpoint *checkpoint, const char *name,
                                           uint32_t rank, const uint32_t *shape, float *data);
/* What the file says of a tensor. */
typedef struct psr_checkpoint_entry {
    const char *dtype; /* "F32", "F16", "BF16", ..; static storage */
    uint32_t rank;
    const uint64_t *shape; /* [rank]; borrowed until close */
} psr_checkpoint_entry;
/* false: there is no tensor of this name. */
bool psr_checkpoint_entry_of(const psr_checkpoint *checkpoint, const char *name,
                             psr_checkpoint_entry *ret_entry);
/* Whether psr_checkpoint_read_floats reads a tensor of this type. */
bool psr_checkpoint_holds_floats(const psr_checkpoint_entry *entry);
/* psr_checkpoint_read of a tensor of float32, float16 or bfloat16, whose values float32 holds
 * exactly. */
PSR_MUST_CHECK psr_err psr_checkpoint_read_floats(const psr_checkpoint *checkpoint,
                                                  const char *name, uint32_t rank,
                                                  const uint32_t *shape, float *data);
/* The i-th tensor's name in alphabetical order, or NULL past the end. Borrowed. */
const char *psr_checkpoint_name(const psr_checkpoint *checkpoint, size_t i);

/* The i-th tensor in the order of psr_checkpoint_name, of whatever type, as the file describes it;
 * NULL past the end. Borrowed. */
const struct psr_safetensors_entry *psr_checkpoint_tensor_at(const psr_checkpoint *checkpoint,
                                                             size_t i);
/* The i-th pair of metadata; false past the end. Borrowed. */
bool psr_checkpoint_pair(const psr_checkpoint *checkpoint, size_t i, const char **ret_key,
                         const char **ret_value);

/* Reads every tensor of layout (name = prefix + its name) into its place in arena (layout->length
 * floats); other tensors of the file are ignored. Errors: those of psr_checkpoint_find for any of
 * these tensors, which leave the arena untouched; and those of psr_checkpoint_read. Padding is
 * never written. */
PSR_MUST_CHECK psr_err psr_checkpoint_load(const psr_checkpoint *checkpoint, const char *prefix,
                                           const psr_layout *layout, float *arena);

/* The largest N below `below` (UINT64_MAX: any) of the directories step-N of a folder of
 * checkpoints; false: there is none. */
bool psr_checkpoint_newest(const char *directory, uint64_t below, uint64_t *ret_step);

#endif
