#include "data/content_cache.h"

#include "base/config/config.h"
#include "base/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS PSR_CONTENT_DIGITS
/* "KEY TRAIN TEST\n" */
#define ENTRY_BYTES (3 * PSR_CONTENT_BYTES)

/* Two digits of the key choose one of 256 slots. */
static bool print_path(const char *directory, const char *key, char path[PSR_PATH_MAX])
{
    int length = snprintf(path, PSR_PATH_MAX, "%s/%.2s", directory, key);
    return length > 0 && length < PSR_PATH_MAX;
}

bool psr_content_cache_get(const char *directory, const char *key, psr_content *ret_content)
{
    char path[PSR_PATH_MAX];
    uint8_t *entry = NULL;
    size_t size = 0;
    if (!psr_dir_is_private(directory) || !print_path(directory, key, path) ||
        psr_file_read(path, ENTRY_BYTES, &entry, &size) != PSR_OK)
        return false;
    const char *text = (const char *)entry, *train = text + PSR_CONTENT_BYTES;
    const char *test = train + PSR_CONTENT_BYTES;
    bool known = size == ENTRY_BYTES && memcmp(text, key, DIGITS) == 0 && text[DIGITS] == ' ' &&
                 psr_content_begins(train) && train[DIGITS] == ' ' && psr_content_begins(test) &&
                 test[DIGITS] == '\n';
    if (known) {
        snprintf(ret_content->train, sizeof ret_content->train, "%.*s", DIGITS, train);
        snprintf(ret_content->test, sizeof ret_content->test, "%.*s", DIGITS, test);
    }
    free(entry);
    return known;
}

void psr_content_cache_put(const char *directory, const char *key, const psr_content *content)
{
    char path[PSR_PATH_MAX], entry[ENTRY_BYTES + 1];
    if (!psr_dir_make_private(directory) || !print_path(directory, key, path))
        return;
    snprintf(entry, sizeof entry, "%s %s %s\n", key, content->train, content->test);
    psr_err err = psr_file_write_atomic(path, entry, ENTRY_BYTES);
    (void)err; /* without the entry the next process reads the files once more */
}
