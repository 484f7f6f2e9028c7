/* What is said while a run comes together, over hostile bytes: JOIN, FACTS, CONFIG, WELCOME, and a provision.
 * The first byte chooses. What is accepted goes to JSON and back: to the same JSON. */
#include "comm/members/member.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes into *json, reads again, writes again. */
#define THERE_AND_BACK(type, value, to_json, from_json, done)                                                \
    do {                                                                                                     \
        char *json = NULL, *json_again = NULL;                                                               \
        type again;                                                                                          \
        if (to_json(&(value), &json) != PSR_OK || from_json(json, strlen(json), &again) != PSR_OK ||         \
            to_json(&again, &json_again) != PSR_OK || strcmp(json, json_again) != 0)                         \
            abort();                                                                                         \
        free(json);                                                                                          \
        free(json_again);                                                                                    \
        done(&again);                                                                                        \
    } while (0)

static void nothing(void *value)
{
    (void)value;
}

static void free_view(psr_welcome *welcome)
{
    psr_view_done(&welcome->view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size--;
    psr_join join;
    psr_facts facts;
    psr_welcome welcome;
    psr_provision provision;
    psr_config config;
    uint32_t rank;
    switch (data[0]) {
    case 'j':
        if (psr_join_from_json(text, size, &join) == PSR_OK)
            THERE_AND_BACK(psr_join, join, psr_join_to_json, psr_join_from_json, nothing);
        break;
    case 'f':
        if (psr_facts_from_json(text, size, &facts) == PSR_OK)
            THERE_AND_BACK(psr_facts, facts, psr_facts_to_json, psr_facts_from_json, nothing);
        break;
    case 'w':
        if (psr_welcome_from_json(text, size, &welcome) == PSR_OK) {
            THERE_AND_BACK(psr_welcome, welcome, psr_welcome_to_json, psr_welcome_from_json, free_view);
            free_view(&welcome);
        }
        break;
    case 'c':
        if (psr_welcome_config_from_json(text, size, &rank, &config) == PSR_OK && config.threads > 65536)
            abort();
        break;
    case 'p':
        if (psr_provision_from_json(text, size, &provision) == PSR_OK) {
            THERE_AND_BACK(psr_provision, provision, psr_provision_to_json, psr_provision_from_json,
                           psr_provision_done);
            psr_provision_done(&provision);
        }
        break;
    default:
        break;
    }
    return 0;
}
