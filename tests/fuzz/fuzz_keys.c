/* psr_keys_from_json over hostile bytes. What it accepts goes to text and back: to the same text. */
#include "net/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const psr_keys *keys)
{
    char *json;
    if (psr_keys_to_json(keys, &json) != PSR_OK)
        abort();
    return json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_keys keys, again;
    static const psr_peer worker0 = {PSR_ROLE_WORKER, 0};
    if (psr_keys_from_json((const char *)data, size, worker0, &keys) != PSR_OK)
        return 0;
    if (!keys.curve && keys.member_count == 0 && strlen(keys.token) != PSR_TOKEN_BYTES - 1)
        abort();
    for (size_t i = 0; i < keys.member_count; i++)
        if (psr_keys_of(&keys, keys.members[i].peer) != keys.members[i].public_key)
            abort();
    char *json = text_of(&keys);
    if (psr_keys_from_json(json, strlen(json), worker0, &again) != PSR_OK)
        abort();
    char *json_again = text_of(&again);
    if (strcmp(json, json_again) != 0)
        abort();
    free(json);
    free(json_again);
    psr_keys_done(&keys);
    psr_keys_done(&again);
    return 0;
}
