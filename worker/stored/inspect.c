#include "worker/stored/stored_commands.h"

#include "base/text/printable.h"
#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/stored.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 2, SHAPE_BYTES = 64, VALUE_WIDTH = 65 };

typedef struct inspect {
    size_t count;
    char files[FILES][PSR_PATH_MAX + 64];
    psr_checkpoint *checkpoints[FILES];
} inspect;

/* ---- tensors ---- */

static void print_shape(const psr_safetensors_entry *e, char text[static SHAPE_BYTES])
{
    size_t used = (size_t)snprintf(text, SHAPE_BYTES, "%s[", e->dtype);
    for (uint32_t d = 0; d < e->rank && used < SHAPE_BYTES; d++)
        used += (size_t)snprintf(text + used, SHAPE_BYTES - used, "%s%" PRIu64, d > 0 ? "," : "",
                                 e->shape[d]);
    if (used < SHAPE_BYTES)
        snprintf(text + used, SHAPE_BYTES - used, "]");
}

static uint64_t values_of(const psr_safetensors_entry *e)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < e->rank; d++)
        count *= e->shape[d];
    return count;
}

/* Whether its values can be read as float32. */
static bool is_float(const psr_safetensors_entry *e)
{
    bool fits = strcmp(e->dtype, "F32") == 0;
    for (uint32_t d = 0; d < e->rank; d++)
        fits = fits && e->shape[d] <= UINT32_MAX;
    return fits;
}

/* The caller owns *ret_values. */
static psr_err read_values(const psr_checkpoint *checkpoint, const psr_safetensors_entry *e,
                           float **ret_values)
{
    uint32_t shape[PSR_SAFETENSORS_RANK_MAX];
    for (uint32_t d = 0; d < e->rank; d++)
        shape[d] = (uint32_t)e->shape[d];
    float *values = malloc((size_t)(e->end - e->begin) + 1);
    if (values == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the tensor %s", e->name);
    psr_err err = psr_checkpoint_read(checkpoint, e->name, e->rank, shape, values);
    if (err != PSR_OK) {
        free(values);
        return err;
    }
    *ret_values = values;
    return PSR_OK;
}

static const char *checksum_of(const psr_checkpoint *checkpoint, const char *name)
{
    char key[512];
    snprintf(key, sizeof key, "xxh3/%s", name);
    const char *checksum = psr_checkpoint_metadata(checkpoint, key);
    return checksum != NULL ? checksum : "-";
}

/* ---- one ---- */

static void print_metadata(const inspect *i)
{
    const char *key, *value;
    psr_print(stdout, "%s\n", i->files[0]);
    for (size_t p = 0; psr_checkpoint_pair(i->checkpoints[0], p, &key, &value); p++) {
        if (strncmp(key, "xxh3", 4) == 0)
            continue;
        const int length = (int)strlen(value);
        psr_print(stdout, "  %-13s%.*s%s\n", key, length > VALUE_WIDTH ? VALUE_WIDTH - 3 : length,
                  value, length > VALUE_WIDTH ? "..." : "");
    }
    psr_print(stdout, "\n%-33s %-18s %10s %16s\n", "tensor", "shape", "norm", "checksum");
}

static psr_err show_one(const inspect *i)
{
    const psr_checkpoint *checkpoint = i->checkpoints[0];
    const psr_safetensors_entry *e;
    uint64_t values = 0, tensors = 0;
    double all = 0;
    print_metadata(i);
    for (; (e = psr_checkpoint_tensor_at(checkpoint, tensors)) != NULL; tensors++) {
        char shape[SHAPE_BYTES], norm[32] = "-";
        print_shape(e, shape);
        values += values_of(e);
        if (is_float(e)) {
            float *read = NULL;
            double square = 0;
            PSR_TRY(read_values(checkpoint, e, &read));
            for (uint64_t v = 0; v < values_of(e); v++)
                square += (double)read[v] * (double)read[v];
            free(read);
            all += square;
            snprintf(norm, sizeof norm, "%.6g", sqrt(square));
        }
        psr_print(stdout, "%-33s %-18s %10s %16s\n", e->name, shape, norm,
                  checksum_of(checkpoint, e->name));
    }
    psr_print(stdout, "\n%" PRIu64 " tensors, %" PRIu64 " values, norm of all %.9g\n", tensors,
              values, sqrt(all));
    return PSR_OK;
}

/* ---- two ---- */

static const psr_safetensors_entry *find(const psr_checkpoint *checkpoint, const char *name)
{
    const psr_safetensors_entry *e;
    for (size_t i = 0; (e = psr_checkpoint_tensor_at(checkpoint, i)) != NULL; i++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

/* text: how they differ; "": not at all, to the bit. */
static psr_err compare(const inspect *i, const psr_safetensors_entry *one,
                       const psr_safetensors_entry *other, char text[static 160])
{
    char shapes[FILES][SHAPE_BYTES];
    float *values[FILES] = {NULL, NULL};
    double largest = 0;
    uint64_t differing = 0;
    print_shape(one, shapes[0]);
    print_shape(other, shapes[1]);
    text[0] = '\0';
    if (strcmp(shapes[0], shapes[1]) != 0) {
        snprintf(text, 160, "%s | %s", shapes[0], shapes[1]);
        return PSR_OK;
    }
    if (!is_float(one)) {
        const char *sums[] = {checksum_of(i->checkpoints[0], one->name),
                              checksum_of(i->checkpoints[1], one->name)};
        if (strcmp(sums[0], sums[1]) != 0)
            snprintf(text, 160, "%s | %s", sums[0], sums[1]);
        return PSR_OK;
    }
    psr_err err = read_values(i->checkpoints[0], one, &values[0]);
    if (err == PSR_OK)
        err = read_values(i->checkpoints[1], other, &values[1]);
    for (uint64_t v = 0; err == PSR_OK && v < values_of(one); v++) {
        differing += memcmp(&values[0][v], &values[1][v], sizeof(float)) != 0;
        largest = fmax(largest, fabs((double)values[0][v] - (double)values[1][v]));
    }
    if (differing > 0)
        snprintf(text, 160, "%" PRIu64 " of %" PRIu64 " values, by %.3g at most", differing,
                 values_of(one), largest);
    free(values[0]);
    free(values[1]);
    return err;
}

static psr_err show_two(const inspect *i, bool *ret_differ)
{
    const psr_safetensors_entry *e;
    size_t tensors = 0, differing = 0, alone = 0;
    for (; (e = psr_checkpoint_tensor_at(i->checkpoints[0], tensors)) != NULL; tensors++) {
        char text[160] = "only in the first";
        const psr_safetensors_entry *other = find(i->checkpoints[1], e->name);
        if (other != NULL)
            PSR_TRY(compare(i, e, other, text));
        if (text[0] == '\0')
            continue;
        differing++;
        psr_print(stdout, "%-33s %s\n", e->name, text);
    }
    for (size_t t = 0; (e = psr_checkpoint_tensor_at(i->checkpoints[1], t)) != NULL; t++) {
        if (find(i->checkpoints[0], e->name) != NULL)
            continue;
        alone++;
        psr_print(stdout, "%-33s only in the second\n", e->name);
    }
    *ret_differ = differing + alone > 0;
    if (*ret_differ)
        psr_print(stdout, "%zu of %zu tensors differ\n", differing + alone, tensors + alone);
    else
        psr_print(stdout, "%zu tensors, the same to the last bit\n", tensors);
    return PSR_OK;
}

int psr_inspect_main(size_t count, char *const *names)
{
    inspect i = {.count = count};
    bool differ = false;
    psr_err err = count >= 1 && count <= FILES
                      ? PSR_OK
                      : psr_fail(PSR_ERR_USAGE, "one checkpoint, or two to compare");
    for (size_t k = 0; err == PSR_OK && k < count; k++) {
        err = psr_stored_file(names[k], i.files[k], sizeof i.files[k]);
        if (err == PSR_OK)
            err = psr_checkpoint_open(i.files[k], &i.checkpoints[k]);
    }
    if (err == PSR_OK)
        err = count == 1 ? show_one(&i) : show_two(&i, &differ);
    if (err != PSR_OK)
        psr_print(stderr, "psring inspect: %s\n", psr_err_detail());
    for (size_t k = 0; k < FILES; k++)
        if (i.checkpoints[k] != NULL)
            psr_checkpoint_close(i.checkpoints[k]);
    /* 1 is for a difference */
    return err == PSR_OK ? differ : err == PSR_ERR_NOMEM ? psr_err_exit_status(err) : 2;
}
