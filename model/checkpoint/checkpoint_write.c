#include "model/checkpoint/checkpoint.h"

#include "base/system/file.h"
#include "base/arrays/ranges.h"
#include "model/checkpoint/placed_file.h"
#include "model/checkpoint/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the streaming state on the stack */
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are written as they lie in memory");

#define DATA_ALIGN 64 /* of the data's start in the file: the header is padded with spaces */

typedef struct writer_tensor {
    char name[PSR_TENSOR_NAME_MAX];
    bool scalar; /* int64, of rank 0 and of our own making; else float32 */
    uint32_t rank;
    uint32_t shape[4];
    uint64_t begin, bytes; /* in the data */
    size_t count;          /* elements */
    size_t digits;         /* place of its checksum in the header's text */
    psr_ranges put;        /* elements that are there */
    /* Of a tensor whose elements come in order, the checksum is made as they are copied. */
    bool hashed; /* checksum is that of all of it */
    uint64_t checksum;
    XXH3_state_t *hash;    /* owned; of the first hashed_bytes; NULL: of none */
    uint64_t hashed_bytes; /* less than `bytes` */
} writer_tensor;

struct psr_checkpoint_writer {
    char *path, *part_path;
    psr_placed_file file; /* at part_path */
    bool in_place;        /* it was renamed to path */
    writer_tensor *tensors;
    size_t tensor_count;
    size_t *by_name; /* indices of tensors, sorted by name */
    char *header;    /* 8 bytes of length, then JSON */
    size_t header_bytes, header_capacity;
    size_t digits; /* place of the header's own checksum */
    uint64_t data_bytes;
    bool (*moved)(void *context); /* NULL: nobody watches */
    void *context;
};

/* ---- header ---- */

static psr_err reserve(psr_checkpoint_writer *writer, size_t more)
{
    if (writer->header_capacity - writer->header_bytes > more)
        return PSR_OK;
    size_t capacity = 2 * (writer->header_capacity + more + 1);
    char *grown = realloc(writer->header, capacity);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a header of %zu bytes", capacity);
    writer->header = grown;
    writer->header_capacity = capacity;
    return PSR_OK;
}

static psr_err append_text(psr_checkpoint_writer *writer, const char *format, ...) PSR_PRINTF(2, 3);
static psr_err append_text(psr_checkpoint_writer *writer, const char *format, ...)
{
    PSR_TRY(reserve(writer, 512)); /* more than any format below needs: names are below 64 bytes */
    va_list args;
    va_start(args, format);
    int written = vsnprintf(writer->header + writer->header_bytes, 512, format, args);
    va_end(args);
    assert(written >= 0 && written < 512);
    writer->header_bytes += (size_t)written;
    return PSR_OK;
}

/* A JSON string. */
static psr_err append_string(psr_checkpoint_writer *writer, const char *prefix, const char *text)
{
    char shown[PSR_PRINTABLE_SIZE];
    if (!psr_utf8_valid((const uint8_t *)text, strlen(text)))
        return psr_fail(PSR_ERR_USAGE, "\"%s\" is not UTF-8: it cannot go into a checkpoint",
                        psr_printable(text, shown));
    PSR_TRY(append_text(writer, "\"%s", prefix));
    PSR_TRY(reserve(writer, 6 * strlen(text)));
    char *out = writer->header + writer->header_bytes;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            *out++ = '\\';
            *out++ = (char)c;
        } else if (c < 0x20) {
            out += sprintf(out, "\\u%04x", c);
        } else {
            *out++ = (char)c;
        }
    }
    writer->header_bytes = (size_t)(out - writer->header);
    return append_text(writer, "\"");
}

/* "PREFIX NAME":"0000000000000000", with the place of the digits. */
static psr_err append_checksum(psr_checkpoint_writer *writer, const char *prefix, const char *name,
                               size_t *ret_digits)
{
    PSR_TRY(append_string(writer, prefix, name));
    PSR_TRY(append_text(writer, ":\""));
    *ret_digits = writer->header_bytes;
    return append_text(writer, "0000000000000000\"");
}

static psr_err append_metadata(psr_checkpoint_writer *writer, const char *const *metadata)
{
    /* "format" is what readers of PyTorch's family look for. */
    PSR_TRY(append_text(writer, "\"__metadata__\":{\"format\":\"pt\","));
    for (; metadata != NULL && metadata[0] != NULL; metadata += 2) {
        if (strcmp(metadata[0], "format") == 0 || strncmp(metadata[0], "xxh3", 4) == 0)
            return psr_fail(PSR_ERR_USAGE, "metadata %s: the checkpoint writes this itself",
                            metadata[0]);
        PSR_TRY(append_string(writer, "", metadata[0]));
        PSR_TRY(append_text(writer, ":"));
        PSR_TRY(append_string(writer, "", metadata[1]));
        PSR_TRY(append_text(writer, ","));
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        PSR_TRY(
            append_checksum(writer, "xxh3/", writer->tensors[i].name, &writer->tensors[i].digits));
        PSR_TRY(append_text(writer, ","));
    }
    PSR_TRY(append_checksum(writer, "", "xxh3", &writer->digits));
    return append_text(writer, "}");
}

static psr_err append_tensor(psr_checkpoint_writer *writer, const writer_tensor *tensor)
{
    PSR_TRY(append_text(writer, ","));
    PSR_TRY(append_string(writer, "", tensor->name));
    PSR_TRY(append_text(writer, ":{\"dtype\":\"%s\",\"shape\":[", tensor->scalar ? "I64" : "F32"));
    for (uint32_t i = 0; i < tensor->rank; i++)
        PSR_TRY(append_text(writer, "%s%" PRIu32, i ? "," : "", tensor->shape[i]));
    return append_text(writer, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->begin,
                       tensor->begin + tensor->bytes);
}

/* The whole header with zeros for checksums, padded, its length in front. */
static psr_err build_header(psr_checkpoint_writer *writer, const char *const *metadata)
{
    PSR_TRY(append_text(writer, "%8s{", "")); /* 8 bytes for the length */
    PSR_TRY(append_metadata(writer, metadata));
    for (size_t i = 0; i < writer->tensor_count; i++)
        PSR_TRY(append_tensor(writer, &writer->tensors[i]));
    PSR_TRY(append_text(writer, "}"));
    PSR_TRY(append_text(writer, "%*s",
                        (int)((DATA_ALIGN - writer->header_bytes % DATA_ALIGN) % DATA_ALIGN), ""));
    uint64_t length = writer->header_bytes - 8;
    if (length > PSR_SAFETENSORS_HEADER_MAX)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "a header of %" PRIu64 " bytes: safetensors ends at %d", length,
                        PSR_SAFETENSORS_HEADER_MAX);
    memcpy(writer->header, &length, 8);
    return PSR_OK;
}

/* ---- tensors ---- */

static int compare_names(const void *a, const void *b, void *tensors)
{
    const writer_tensor *t = tensors;
    return strcmp(t[*(const size_t *)a].name, t[*(const size_t *)b].name);
}

static writer_tensor *find(const psr_checkpoint_writer *writer, const char *name)
{
    size_t low = 0, high = writer->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        writer_tensor *tensor = &writer->tensors[writer->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Length of X when name is X.running_mean; else 0. */
static size_t batchnorm_prefix(const char *name)
{
    static const char suffix[] = ".running_mean";
    size_t length = strlen(name);
    if (length < sizeof suffix || strcmp(name + length - (sizeof suffix - 1), suffix) != 0)
        return 0;
    return length - (sizeof suffix - 1);
}

static psr_err add_scalar(psr_checkpoint_writer *writer, const char *name, size_t prefix)
{
    writer_tensor *tensor = &writer->tensors[writer->tensor_count++];
    *tensor = (writer_tensor){
        .scalar = true, .begin = writer->data_bytes, .bytes = sizeof(int64_t), .count = 1};
    int length =
        snprintf(tensor->name, sizeof tensor->name, "%.*s.num_batches_tracked", (int)prefix, name);
    if (length >= (int)sizeof tensor->name)
        return psr_fail(PSR_ERR_USAGE, "tensor %s: its name leaves no room for num_batches_tracked",
                        name);
    writer->data_bytes += tensor->bytes;
    return PSR_OK;
}

static psr_err add_tensor(psr_checkpoint_writer *writer, const psr_tensor *from)
{
    assert(from->rank <= 4);
    writer_tensor *tensor = &writer->tensors[writer->tensor_count++];
    *tensor = (writer_tensor){.rank = from->rank, .begin = writer->data_bytes, .count = 1};
    memcpy(tensor->name, from->name, sizeof tensor->name);
    for (uint32_t i = 0; i < from->rank; i++) {
        tensor->shape[i] = from->shape[i];
        if (__builtin_mul_overflow(tensor->count, (size_t)from->shape[i], &tensor->count))
            return psr_fail(PSR_ERR_USAGE, "tensor %s: is larger than a file can be", from->name);
    }
    if (__builtin_mul_overflow((uint64_t)tensor->count, (uint64_t)sizeof(float), &tensor->bytes) ||
        __builtin_add_overflow(writer->data_bytes, tensor->bytes, &writer->data_bytes) ||
        writer->data_bytes > INT64_MAX - PSR_SAFETENSORS_HEADER_MAX)
        return psr_fail(PSR_ERR_USAGE, "tensor %s: is larger than a file can be", from->name);
    return PSR_OK;
}

/* The int64 scalars come first: a file that is sorted by alignment has every tensor aligned. */
static psr_err add_tensors(psr_checkpoint_writer *writer, const psr_tensor *tensors, size_t count,
                           bool scalars)
{
    writer->tensors = calloc(2 * count + 1, sizeof *writer->tensors);
    writer->by_name = calloc(2 * count + 1, sizeof *writer->by_name);
    if (writer->tensors == NULL || writer->by_name == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint of %zu tensors", count);
    for (size_t i = 0; scalars && i < count; i++) {
        size_t prefix = batchnorm_prefix(tensors[i].name);
        if (prefix)
            PSR_TRY(add_scalar(writer, tensors[i].name, prefix));
    }
    for (size_t i = 0; i < count; i++)
        PSR_TRY(add_tensor(writer, &tensors[i]));

    for (size_t i = 0; i < writer->tensor_count; i++)
        writer->by_name[i] = i;
    qsort_r(writer->by_name, writer->tensor_count, sizeof *writer->by_name, compare_names,
            writer->tensors);
    for (size_t i = 1; i < writer->tensor_count; i++)
        if (compare_names(&writer->by_name[i - 1], &writer->by_name[i], writer->tensors) == 0)
            return psr_fail(PSR_ERR_USAGE, "tensor %s: comes twice",
                            writer->tensors[writer->by_name[i]].name);
    return PSR_OK;
}

/* ---- file ---- */

static psr_err fail_errno(const char *path)
{
    return psr_fail(psr_err_of_write(errno), "%s: %s", path, strerror(errno));
}

static psr_err tell_moved(void *context)
{
    const psr_checkpoint_writer *writer = context;
    return writer->moved == NULL || writer->moved(writer->context)
               ? PSR_OK
               : psr_fail(PSR_ERR_CANCELLED, "%s: given up", writer->path);
}

/* hash: takes in what is written, which is a copy: data may be another process's, and change. NULL:
 * nothing does. */
static psr_err write_at(psr_checkpoint_writer *writer, const void *data, size_t size,
                        uint64_t offset, XXH3_state_t *hash)
{
    const char *from = data;
    while (size > 0) {
        const void *copy = NULL;
        size_t copied = 0;
        PSR_TRY(psr_placed_file_put(&writer->file, offset, from, size, &copy, &copied));
        if (hash != NULL)
            (void)XXH3_64bits_update(hash, copy, copied);
        from += copied;
        offset += copied;
        size -= copied;
    }
    return PSR_OK;
}

static psr_err create_file(psr_checkpoint_writer *writer)
{
    writer->file =
        (psr_placed_file){.path = writer->part_path, .moved = tell_moved, .context = writer};
    return psr_placed_file_create(&writer->file, writer->header_bytes + writer->data_bytes, true);
}

static psr_err create(const char *path, const psr_tensor *tensors, size_t tensor_count,
                      const char *const *metadata, bool scalars, psr_checkpoint_writer **ret_writer)
{
    psr_err err = PSR_OK;
    psr_checkpoint_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    writer->file = PSR_PLACED_FILE_NONE;
    writer->path = strdup(path);
    if (writer->path == NULL || asprintf(&writer->part_path, "%s.part", path) < 0) {
        writer->part_path = NULL;
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    }
    if (err == PSR_OK)
        err = add_tensors(writer, tensors, tensor_count, scalars);
    if (err == PSR_OK)
        err = build_header(writer, metadata);
    if (err != PSR_OK)
        psr_fail_context(err, "%s", path);
    else
        err = create_file(writer);
    if (err != PSR_OK) {
        psr_checkpoint_abandon(&writer);
        return err;
    }
    *ret_writer = writer;
    return PSR_OK;
}

psr_err psr_checkpoint_create(const char *path, const psr_tensor *tensors, size_t tensor_count,
                              const char *const *metadata, psr_checkpoint_writer **ret_writer)
{
    return create(path, tensors, tensor_count, metadata, false, ret_writer);
}

void psr_checkpoint_watch(psr_checkpoint_writer *writer, bool (*moved)(void *context),
                          void *context)
{
    writer->moved = moved;
    writer->context = context;
}

/* ---- pieces ---- */

/* The state that the elements from `first` on go into; NULL: they do not come in order, so the file
 * is read back for its checksum. */
static psr_err hash_of(writer_tensor *tensor, uint64_t begin, XXH3_state_t **ret_hash)
{
    if (begin != tensor->hashed_bytes || tensor->hashed)
        return PSR_OK;
    if (tensor->hash == NULL) {
        tensor->hash = XXH3_createState();
        if (tensor->hash == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory to checksum %s", tensor->name);
        (void)XXH3_64bits_reset(tensor->hash);
    }
    *ret_hash = tensor->hash;
    return PSR_OK;
}

static void note_hashed(writer_tensor *tensor, uint64_t end)
{
    tensor->hashed_bytes = end;
    if (end < tensor->bytes)
        return;
    tensor->hashed = true;
    tensor->checksum = XXH3_64bits_digest(tensor->hash);
    (void)XXH3_freeState(tensor->hash);
    tensor->hash = NULL;
}

static psr_err put(psr_checkpoint_writer *writer, writer_tensor *tensor, size_t first, size_t count,
                   const void *data)
{
    if (first > tensor->count || count > tensor->count - first)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "%s: tensor %s has %zu elements, %zu from %zu on were put", writer->path,
                        tensor->name, tensor->count, count, first);
    if (count == 0)
        return PSR_OK;
    if (psr_ranges_overlap(&tensor->put, first, first + count))
        return psr_fail(PSR_ERR_PROTOCOL, "%s: tensor %s: elements %zu to %zu were stored before",
                        writer->path, tensor->name, first, first + count);
    PSR_TRY(psr_ranges_reserve(&tensor->put));
    const uint64_t element_bytes = tensor->bytes / tensor->count, begin = first * element_bytes,
                   bytes = count * element_bytes;
    XXH3_state_t *hash = NULL;
    PSR_TRY(hash_of(tensor, begin, &hash));
    PSR_TRY(write_at(writer, data, bytes, writer->header_bytes + tensor->begin + begin, hash));
    psr_ranges_add(&tensor->put, first, first + count);
    if (hash != NULL)
        note_hashed(tensor, begin + bytes);
    return PSR_OK;
}

psr_err psr_checkpoint_put(psr_checkpoint_writer *writer, const char *name, size_t first,
                           size_t count, const float *data)
{
    char shown[PSR_PRINTABLE_SIZE];
    writer_tensor *tensor = find(writer, name);
    if (tensor == NULL || tensor->scalar)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: tensor %s was not announced", writer->path,
                        psr_printable(name, shown));
    return put(writer, tensor, first, count, data);
}

psr_err psr_checkpoint_create_model(const char *path, const psr_tensor *tensors,
                                    size_t tensor_count, const char *const *metadata,
                                    int64_t batches_tracked, psr_checkpoint_writer **ret_writer)
{
    psr_checkpoint_writer *writer = NULL;
    PSR_TRY(create(path, tensors, tensor_count, metadata, true, &writer));
    for (size_t i = 0; i < writer->tensor_count && writer->tensors[i].scalar; i++) {
        psr_err err = put(writer, &writer->tensors[i], 0, 1, &batches_tracked);
        if (err != PSR_OK) {
            psr_checkpoint_abandon(&writer);
            return err;
        }
    }
    *ret_writer = writer;
    return PSR_OK;
}

/* ---- commit ---- */

static void write_digits(char *at, uint64_t checksum)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, checksum);
    memcpy(at, digits, 16);
}

/* Of elements that did not come in order, the checksum is that of the file's bytes. */
static psr_err hash_rest(psr_checkpoint_writer *writer, writer_tensor *tensor)
{
    while (!tensor->hashed) {
        const void *data = NULL;
        size_t got = 0;
        XXH3_state_t *hash = NULL;
        PSR_TRY(hash_of(tensor, tensor->hashed_bytes, &hash));
        PSR_TRY(psr_placed_file_read(&writer->file,
                                     writer->header_bytes + tensor->begin + tensor->hashed_bytes,
                                     tensor->bytes - tensor->hashed_bytes, &data, &got));
        (void)XXH3_64bits_update(hash, data, got);
        note_hashed(tensor, tensor->hashed_bytes + got);
    }
    return PSR_OK;
}

static psr_err write_header(psr_checkpoint_writer *writer)
{
    for (size_t i = 0; i < writer->tensor_count; i++) {
        writer_tensor *tensor = &writer->tensors[i];
        if (tensor->bytes > 0)
            PSR_TRY(hash_rest(writer, tensor));
        else
            tensor->checksum = XXH3_64bits(NULL, 0);
        write_digits(writer->header + tensor->digits, tensor->checksum);
    }
    write_digits(writer->header + writer->digits,
                 XXH3_64bits(writer->header, writer->header_bytes));
    return write_at(writer, writer->header, writer->header_bytes, 0, NULL);
}

/* Makes sure that a rename in the directory of path survives a power cut. */
static psr_err sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory =
        slash != NULL ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (directory == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to commit %s", path);
    psr_err err = psr_dir_sync(directory);
    free(directory);
    return err;
}

static psr_err commit(psr_checkpoint_writer *writer)
{
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const writer_tensor *tensor = &writer->tensors[i];
        if (psr_ranges_first_missing(&tensor->put) < tensor->count)
            return psr_fail(PSR_ERR_PROTOCOL, "%s: tensor %s: element %zu of %zu was never put",
                            writer->path, tensor->name, psr_ranges_first_missing(&tensor->put),
                            tensor->count);
    }
    PSR_TRY(write_header(writer));
    PSR_TRY(psr_placed_file_finish(&writer->file));
    if (rename(writer->part_path, writer->path) != 0)
        return fail_errno(writer->path);
    writer->in_place = true;
    return sync_directory(writer->path);
}

psr_err psr_checkpoint_commit(psr_checkpoint_writer **writer)
{
    psr_err err = commit(*writer);
    psr_checkpoint_abandon(writer);
    return err;
}

void psr_checkpoint_abandon(psr_checkpoint_writer **writer)
{
    psr_checkpoint_writer *w = *writer;
    if (w == NULL)
        return;
    *writer = NULL;
    psr_placed_file_done(&w->file, !w->in_place);
    for (size_t i = 0; i < w->tensor_count; i++) {
        psr_ranges_done(&w->tensors[i].put);
        (void)XXH3_freeState(w->tensors[i].hash);
    }
    free(w->tensors);
    free(w->by_name);
    free(w->header);
    free(w->path);
    free(w->part_path);
    free(w);
}
