#include "ps/scheduler/metrics/hashes.h"

#include <stddef.h>
#include <string.h>

bool psr_hash_is(const char *text)
{
    return text != NULL && strlen(text) == PSR_HASH_DIGITS &&
           strspn(text, "0123456789abcdef") == PSR_HASH_DIGITS;
}

const psr_hash_told *psr_hashes_differ(psr_hashes *hashes, uint64_t steps, uint32_t rank,
                                       const char *digits)
{
    psr_hash_told *first = &hashes->told[steps % PSR_HASHES_STEPS];
    if (steps < first->step) /* its hash is no longer kept */
        return NULL;
    if (steps > first->step || first->digits[0] == '\0') {
        *first = (psr_hash_told){.step = steps, .rank = rank};
        memcpy(first->digits, digits, PSR_HASH_DIGITS);
    }
    return strcmp(first->digits, digits) == 0 ? NULL : first;
}
