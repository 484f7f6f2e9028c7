#include "base/text/nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 63 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t psr_edit_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return SIZE_MAX;

    /* d[i][j]: distance of the first i letters of a from the first j of b. */
    uint8_t d[WORD_MAX + 1][WORD_MAX + 1];
    for (size_t i = 0; i <= a_length; i++)
        d[i][0] = (uint8_t)i;
    for (size_t j = 0; j <= b_length; j++)
        d[0][j] = (uint8_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = least(d[i - 1][j], d[i][j - 1]) + 1u;
            best = least(best, d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1u : 0u));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, d[i - 2][j - 2] + 1u);
            d[i][j] = (uint8_t)best;
        }
    }
    return d[a_length][b_length];
}

int psr_is_near(const char *word, const char *candidate)
{
    size_t allowed = strlen(candidate) / 3;
    if (allowed < 2)
        allowed = 2;
    size_t distance = psr_edit_distance(word, candidate);
    return distance <= allowed && distance < strlen(candidate);
}

const char *psr_nearer(const char *word, const char *best, const char *candidate)
{
    if (!psr_is_near(word, candidate))
        return best;
    return best == NULL || psr_edit_distance(word, candidate) < psr_edit_distance(word, best)
               ? candidate
               : best;
}
