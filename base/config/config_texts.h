/* The configuration of a run.json as texts, for readers that compare and show options. Files of
 * earlier versions have a text for every value, later ones numbers and booleans too. No state; any
 * thread. */
#ifndef PSR_BASE_CONFIG_CONFIG_TEXTS_H
#define PSR_BASE_CONFIG_CONFIG_TEXTS_H

#include <cjson/cJSON.h>

/* Replaces the value of every known option by the text that this version prints for it: 4194304 and
 * "4M" by "4M". Numbers and booleans of options of other versions become
 * texts as they stand; what no option reads stays as it is. NULL allowed. */
void psr_config_to_texts(cJSON *options);

#endif
