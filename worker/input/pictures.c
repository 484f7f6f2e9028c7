#include "worker/input/pictures.h"

#include "base/log.h"
#include "data/images/folder_source.h"

#include <inttypes.h>

/* Broken pictures that are named in the log; of more only their number is said. */
#define MOST_NAMED 100

psr_err psr_pictures_prepare(psr_opened *opened, const psr_config *config, bool says)
{
    const psr_picture_set *set = psr_folder_source_set(opened->train->source);
    opened->train->source->scaled = config->decode == PSR_DECODE_SCALED;
    opened->test->source->scaled = config->decode == PSR_DECODE_SCALED;
    if (set == NULL)
        return PSR_OK;
    psr_err err = psr_picture_set_judge(set, config->max_bad);
    if (err != PSR_OK)
        return psr_fail_context(err, "--data %s", config->data);
    for (uint32_t i = 0; says && i < set->broken.count && i < MOST_NAMED; i++)
        psr_log(PSR_LOG_WARN, "%s", psr_names_get(&set->broken, i));
    if (says && set->broken.count > 0)
        psr_log(PSR_LOG_WARN,
                "pictures broken=%" PRIu32 " allowed=%" PRIu32
                ": the place of each is taken by the next one that is whole",
                set->broken.count, config->max_bad);
    return PSR_OK;
}
