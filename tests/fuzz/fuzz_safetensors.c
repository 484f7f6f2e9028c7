/* A whole safetensors file. What comes through must be usable: every tensor's bytes can be read. */
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Asks for the tensor as what the header says it is, so that the data itself is reached. */
static void read_tensor(const psr_checkpoint *checkpoint, const psr_safetensors_entry *entry)
{
    uint32_t shape[4] = {0};
    uint32_t rank = entry->rank < 4 ? entry->rank : 4;
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = (uint32_t)entry->shape[i];
        count *= shape[i];
    }
    if (psr_checkpoint_find(checkpoint, entry->name, rank, shape) != PSR_OK) {
        assert(psr_err_detail()[0] != '\0');
        return;
    }
    float *data = malloc(count * sizeof *data + 1); /* no more than the input has */
    assert(data != NULL);
    psr_err err = psr_checkpoint_read(checkpoint, entry->name, rank, shape, data);
    assert(err == PSR_OK);
    uint32_t seen = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &data[i], sizeof word);
        seen |= word;
    }
    free(data);
    assert(count == (entry->end - entry->begin) / 4 && (seen == 0 || count > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    psr_checkpoint *checkpoint = NULL;
    psr_safetensors header = {0};
    if (psr_checkpoint_parse("input", bytes, size, &checkpoint) != PSR_OK) {
        assert(checkpoint == NULL && strncmp(psr_err_detail(), "input: ", 7) == 0);
        return 0;
    }
    size_t data_begin = 0;
    psr_err err = psr_safetensors_data_begin(bytes, size, &data_begin);
    assert(err == PSR_OK);
    err = psr_safetensors_parse(bytes, data_begin, size, &header);
    assert(err == PSR_OK);
    for (size_t i = 0; i < header.entry_count; i++) {
        assert(strcmp(psr_checkpoint_name(checkpoint, i), header.entries[i].name) == 0);
        read_tensor(checkpoint, &header.entries[i]);
    }
    assert(psr_checkpoint_name(checkpoint, header.entry_count) == NULL);
    for (size_t i = 0; i < header.pair_count; i++)
        assert(strcmp(psr_checkpoint_metadata(checkpoint, header.pairs[i].key),
                      header.pairs[i].value) == 0);
    psr_safetensors_done(&header);
    psr_checkpoint_close(checkpoint);
    return 0;
}
