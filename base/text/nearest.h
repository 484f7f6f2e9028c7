/* Finds the word that was probably meant, for messages that refuse an unknown one. Any thread; no
 * state. */
#ifndef PSR_BASE_TEXT_NEAREST_H
#define PSR_BASE_TEXT_NEAREST_H

#include <stddef.h>

/* The number of insertions, deletions, substitutions and swaps of neighbours that turn a into b
 * (optimal string alignment). SIZE_MAX for words longer than 63 bytes. */
size_t psr_edit_distance(const char *a, const char *b);

/* Whether candidate is near enough to word to be suggested: the distance is at most two, or a third
 * of word's letters where that is more. */
int psr_is_near(const char *word, const char *candidate);

/* For a loop over candidates: returns candidate if it is near to word and nearer than best (NULL:
 * none yet), else best. */
const char *psr_nearer(const char *word, const char *best, const char *candidate);

#endif
