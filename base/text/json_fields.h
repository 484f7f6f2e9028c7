/* Writes and reads the fields of JSON objects, for the codecs of messages. What is read may be
 * hostile: every failure is FORMAT and names the field. No state; any thread. */
#ifndef PSR_BASE_TEXT_JSON_FIELDS_H
#define PSR_BASE_TEXT_JSON_FIELDS_H

#include "base/err.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An object that is being written. A failed allocation is remembered, and psr_fields_finish returns
 * it. */
typedef struct psr_fields_writer {
    cJSON *object;
    bool failed;
} psr_fields_writer;

psr_fields_writer psr_fields_begin(void);
void psr_fields_put_text(psr_fields_writer *w, const char *name, const char *text);
void psr_fields_put_number(psr_fields_writer *w, const char *name, uint64_t value);
/* Consumes value; NULL: there was no memory for it. */
void psr_fields_put_item(psr_fields_writer *w, const char *name, cJSON *value);
/* Consumes the object, on failure too. The caller owns *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_fields_finish(psr_fields_writer *w, char **ret_json);

/* The caller owns *ret_object: cJSON_Delete. */
PSR_MUST_CHECK psr_err psr_fields_parse(const void *json, size_t size, cJSON **ret_object);
/* Printable text of fewer than size bytes. */
PSR_MUST_CHECK psr_err psr_fields_text(const cJSON *object, const char *name, char *to,
                                       size_t size);
/* A whole number of at most max and of 15 digits. */
PSR_MUST_CHECK psr_err psr_fields_number(const cJSON *object, const char *name, uint64_t max,
                                         uint64_t *ret_value);
PSR_MUST_CHECK psr_err psr_fields_u32(const cJSON *object, const char *name, uint32_t *ret_value);

#endif
