/* JSON text that contains keys and tokens. Memory that held them is wiped before it is freed. Any
 * thread. */
#ifndef PSR_BASE_TEXT_SECRET_H
#define PSR_BASE_TEXT_SECRET_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* json as one line. It leaves no copies behind; cJSON's own printing does, since it grows its text
 * by realloc. NULL: no memory. The caller owns the result: psr_secret_free. */
char *psr_secret_print(const cJSON *json);

/* Wipes a text and frees it. NULL allowed. */
void psr_secret_free(char *text);

/* Deletes json when all strings in it have been wiped. NULL allowed. */
void psr_secret_delete(cJSON *json);

/* As realloc, but the old block is wiped before it is freed. The first `used` bytes are copied.
 * NULL: no memory, and the old block stays. */
void *psr_secret_grow(void *block, size_t used, size_t size);

#endif
