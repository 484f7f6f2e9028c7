/* The configuration of a run.json. What is taken is written and read back to the same bits; what is
 * refused changes nothing. */
#include "base/config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    psr_config defaults, config;
    psr_config_defaults(&defaults);
    config = defaults;
    if (psr_config_from_json(&config, (const char *)bytes, size) != PSR_OK) {
        assert(memcmp(&config, &defaults, sizeof config) == 0 && psr_err_detail()[0] != '\0');
        return 0;
    }
    char *json = NULL;
    if (psr_config_to_json(&config, &json) == PSR_OK) {
        psr_config again = defaults;
        psr_err err = psr_config_from_json(&again, json, strlen(json));
        assert(err == PSR_OK && memcmp(&again, &config, sizeof config) == 0);
        free(json);
    }
    psr_err err = psr_config_check(&config);
    assert(err == PSR_OK || psr_err_detail()[0] != '\0');
    return 0;
}
