/* The word that was probably meant, for messages that refuse one. Any thread; no state. */
#ifndef PSR_BASE_NEAREST_H
#define PSR_BASE_NEAREST_H

#include <stddef.h>

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string
 * alignment). Words longer than 63 bytes are as far as can be: SIZE_MAX. */
size_t psr_edit_distance(const char *a, const char *b);

/* Is candidate near enough to word to be offered in its place? A third of its letters, two at least. */
int psr_is_near(const char *word, const char *candidate);

/* To find the one to offer among candidates: candidate if it is near to word and nearer than best (NULL: none yet), else
 * best. */
const char *psr_nearer(const char *word, const char *best, const char *candidate);

#endif
