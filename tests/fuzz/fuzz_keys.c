/* psr_keys_from_json and psr_keys_from_certificate over hostile bytes. What they accept goes to
 * JSON and back: to the same text. */
#include "net/trust/keys/keys.h"

#include "base/text/secret.h"

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

/* Consumes keys, which are worker 0's. */
static void go_and_come_back(psr_keys *keys)
{
    static const psr_peer worker0 = {PSR_ROLE_WORKER, 0};
    psr_keys again;
    if (!keys->curve && keys->member_count == 0 && strlen(keys->token) != PSR_TOKEN_BYTES - 1)
        abort();
    for (size_t i = 0; i < keys->member_count; i++)
        if (psr_keys_of(keys, keys->members[i].peer) != keys->members[i].public_key)
            abort();
    char *json = text_of(keys);
    if (psr_keys_from_json(json, strlen(json), worker0, &again) != PSR_OK)
        abort();
    char *json_again = text_of(&again);
    if (strcmp(json, json_again) != 0)
        abort();
    psr_secret_free(json);
    psr_secret_free(json_again);
    psr_keys_done(keys);
    psr_keys_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const psr_peer worker0 = {PSR_ROLE_WORKER, 0};
    psr_keys keys;
    if (psr_keys_from_json((const char *)data, size, worker0, &keys) == PSR_OK)
        go_and_come_back(&keys);
    if (psr_keys_from_certificate((const char *)data, size, worker0, &keys) == PSR_OK) {
        if (keys.bare)
            abort(); /* which no file can say */
        go_and_come_back(&keys);
    }
    return 0;
}
