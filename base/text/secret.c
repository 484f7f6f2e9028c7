#include "base/text/secret.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096 };

char *psr_secret_print(const cJSON *json)
{
    for (size_t size = FIRST_BYTES; size < INT_MAX / 2; size *= 2) {
        char *text = malloc(size);
        if (text == NULL)
            return NULL;
        /* it changes nothing of json */
        if (cJSON_PrintPreallocated((cJSON *)(uintptr_t)json, text, (int)size, 0))
            return text;
        explicit_bzero(text, size);
        free(text);
    }
    return NULL;
}

void psr_secret_free(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void wipe(const cJSON *json)
{
    for (const cJSON *item = json; item != NULL; item = item->next) {
        wipe(item->child);
        if (cJSON_IsString(item))
            explicit_bzero(item->valuestring, strlen(item->valuestring));
    }
}

void psr_secret_delete(cJSON *json)
{
    wipe(json);
    cJSON_Delete(json);
}

void *psr_secret_grow(void *block, size_t used, size_t size)
{
    void *grown = malloc(size);
    if (grown == NULL)
        return NULL;
    if (block != NULL) {
        memcpy(grown, block, used);
        explicit_bzero(block, used);
    }
    free(block);
    return grown;
}
