/* Keys and tokens as JSON text: what held them is wiped before its memory is given back. Any thread. */
#ifndef PSR_BASE_SECRET_H
#define PSR_BASE_SECRET_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* json as one line. Unlike cJSON's own printing, which grows its text by copies that nobody wipes, it leaves none. NULL:
 * no memory. ret owns: psr_secret_free. */
char *psr_secret_print(const cJSON *json);

/* Wipes a text and gives it back. NULL allowed. */
void psr_secret_free(char *text);

/* Deletes json when all strings in it have been wiped. NULL allowed. */
void psr_secret_delete(cJSON *json);

/* As realloc, but the block that it leaves is wiped: `used` bytes of it are kept. NULL: no memory, and the old block stays. */
void *psr_secret_grow(void *block, size_t used, size_t size);

#endif
