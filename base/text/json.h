/* Short functions around cJSON, for one-line objects. No state; any thread. */
#ifndef PSR_BASE_TEXT_JSON_H
#define PSR_BASE_TEXT_JSON_H

#include "base/text/lines.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Queues {"name": value, ...}: pairs ended by NULL. A name that begins with '#' takes a double,
 * with '?' an int as true or false, with '!' a cJSON * that it consumes; any other a string. */
void psr_json_put(psr_line_writer *writer, const char *name, ...);

/* A string member of object, or NULL (also when object is NULL or the member of another kind).
 * Borrowed. */
const char *psr_json_text(const cJSON *object, const char *name);
/* A member that is a number; otherwise the value given. */
double psr_json_number(const cJSON *object, const char *name, double otherwise);
/* A member that is a whole number from 0 to max; false when it is not. */
bool psr_json_count(const cJSON *object, const char *name, uint32_t max, uint32_t *ret_count);
/* 1 for a member that is true; 0 for one that is false, absent or of another kind. */
int psr_json_true(const cJSON *object, const char *name);

/* Whether all names and texts in it would pass base/text/printable.h unchanged. */
bool psr_json_is_printable(const cJSON *item);

#endif
