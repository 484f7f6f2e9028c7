/* What a worker tells a shard of a table: any words. What is read says the same when it is written
 * again. */
#include "comm/psring/opening.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t count = size / sizeof(int64_t);
    int64_t *words = malloc(count * sizeof *words + 1), *again = NULL;
    size_t count_again = 0;
    psr_opening opening;
    if (words == NULL)
        abort();
    memcpy(words, data, count * sizeof *words);
    if (psr_opening_from_words(words, count, &opening) == PSR_OK) {
        char line[PSR_OPENING_LINE_BYTES];
        psr_opening other;
        psr_opening_describe(&opening, line);
        if (psr_opening_to_words(&opening, &again, &count_again) != PSR_OK ||
            count_again != count || psr_opening_from_words(again, count_again, &other) != PSR_OK ||
            psr_opening_digest(&opening) != psr_opening_digest(&other) || other.id != opening.id)
            abort();
        psr_opening_done(&opening);
        psr_opening_done(&other);
    }
    free(words);
    free(again);
    return 0;
}
