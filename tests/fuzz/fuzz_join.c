/* What is said while a run comes together, over hostile bytes: JOIN, CONFIG, FACTS, WELCOME with
 * what training puts into them, and a provision. The first byte chooses. What is accepted is
 * written and read again: to the same bytes. */
#include "base/config/config.h"
#include "base/facts.h"
#include "comm/members/member.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes, reads again, writes again. */
#define THERE_AND_BACK(type, value, to_json, from_json, done)                                      \
    do {                                                                                           \
        char *there = NULL, *there_again = NULL;                                                   \
        type again;                                                                                \
        if (to_json(&(value), &there) != PSR_OK ||                                                 \
            from_json((psr_bytes){there, strlen(there)}, &again) != PSR_OK ||                      \
            to_json(&again, &there_again) != PSR_OK || strcmp(there, there_again) != 0)            \
            abort();                                                                               \
        free(there);                                                                               \
        free(there_again);                                                                         \
        done(&again);                                                                              \
    } while (0)

static psr_err provision_from_bytes(psr_bytes json, psr_provision *ret_provision)
{
    return psr_provision_from_json(json.data, json.size, ret_provision);
}

static void nothing(void *value)
{
    (void)value;
}

static void same(const void *a, size_t a_size, const void *b, size_t b_size)
{
    if (a_size != b_size || memcmp(a, b, a_size) != 0)
        abort();
}

static void take_config(psr_bytes payload)
{
    psr_place place, place_again;
    psr_bytes given, given_again;
    psr_config config;
    void *written = NULL;
    size_t size = 0;
    if (psr_place_read(payload, &place, &given) != PSR_OK)
        return;
    if (psr_place_write(&place, given, &written, &size) != PSR_OK ||
        psr_place_read((psr_bytes){written, size}, &place_again, &given_again) != PSR_OK ||
        place_again.rank != place.rank || place_again.ranks != place.ranks ||
        place_again.deadline_ms != place.deadline_ms)
        abort();
    same(given.data, given.size, given_again.data, given_again.size);
    free(written);
    psr_config_defaults(&config);
    if (psr_config_from_json(&config, given.data, given.size) == PSR_OK && config.threads > 65536)
        abort();
}

static void take_facts(psr_bytes json)
{
    psr_facts facts;
    if (psr_facts_from_json(json, &facts) == PSR_OK)
        THERE_AND_BACK(psr_facts, facts, psr_facts_to_json, psr_facts_from_json, nothing);
}

static void take_agreed(psr_bytes agreed)
{
    psr_worker_start worker;
    if (psr_worker_start_from_json(agreed, &worker) == PSR_OK)
        THERE_AND_BACK(psr_worker_start, worker, psr_worker_start_to_json,
                       psr_worker_start_from_json, nothing);
}

static void take_welcome(psr_bytes payload)
{
    psr_view view, view_again;
    psr_bytes agreed, agreed_again;
    void *written = NULL, *again = NULL;
    size_t size = 0, size_again = 0;
    if (psr_welcome_read(payload, &view, &agreed) != PSR_OK)
        return;
    if (psr_welcome_write(&view, agreed, &written, &size) != PSR_OK ||
        psr_welcome_read((psr_bytes){written, size}, &view_again, &agreed_again) != PSR_OK ||
        psr_welcome_write(&view_again, agreed_again, &again, &size_again) != PSR_OK)
        abort();
    same(written, size, again, size_again);
    free(written);
    free(again);
    psr_view_done(&view);
    psr_view_done(&view_again);
    take_agreed(agreed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size--;
    psr_join join;
    psr_provision provision;
    switch (data[0]) {
    case 'j':
        if (psr_join_from_json((psr_bytes){text, size}, &join) == PSR_OK)
            THERE_AND_BACK(psr_join, join, psr_join_to_json, psr_join_from_json, nothing);
        break;
    case 'f':
        take_facts((psr_bytes){text, size});
        break;
    case 'w':
        take_welcome((psr_bytes){text, size});
        break;
    case 'c':
        take_config((psr_bytes){text, size});
        break;
    case 'p':
        if (psr_provision_from_json(text, size, &provision) == PSR_OK) {
            THERE_AND_BACK(psr_provision, provision, psr_provision_to_json, provision_from_bytes,
                           psr_provision_done);
            psr_provision_done(&provision);
        }
        break;
    default:
        break;
    }
    return 0;
}
