#include "worker/examine.h"

#include "base/text/json_fields.h"
#include "data/augment/plan.h"
#include "data/opened.h"
#include "model/backend.h"
#include "model/networks/network_memory.h"
#include "net/transport.h"

#include <inttypes.h>
#include <stdio.h>

static psr_err find_data(const char *data, const char *user_directory, psr_dataset_info *ret_info)
{
    char directory[PSR_PATH_MAX];
    PSR_TRY(psr_dataset_find(data, user_directory, 0, directory, sizeof directory));
    return psr_dataset_info_read(directory, ret_info);
}

static psr_err measure_network(const psr_config *planned, const psr_dataset_info *info,
                               psr_network_memory *ret_memory)
{
    psr_network *net = NULL;
    uint32_t side = 0;
    const uint32_t classes = planned->classes > 0 ? planned->classes : info->classes;
    PSR_TRY(psr_augment_side_of(planned, info->channels,
                                (psr_picture_shape){info->height, info->width}, &side));
    PSR_TRY(psr_network_of(planned, classes, info->channels, side, side, &net));
    *ret_memory = psr_network_memory_for(net, planned, false);
    psr_network_free(net);
    return PSR_OK;
}

static void put_network(psr_fields_writer *w, const psr_config *planned,
                        const psr_dataset_info *info)
{
    psr_network_memory memory;
    if (measure_network(planned, info, &memory) != PSR_OK) {
        psr_fields_put_text(w, "model_failure", psr_err_detail());
        return;
    }
    psr_fields_put_number(w, "fixed_bytes", memory.fixed_bytes);
    psr_fields_put_number(w, "sample_bytes", memory.sample_bytes);
}

psr_err psr_worker_examine(const char *data, const psr_config *planned, const char *user_directory,
                           char **ret_json)
{
    char library[32], text[256];
    psr_fields_writer w = psr_fields_begin();
    psr_transport_library(library, sizeof library);
    psr_fields_put_text(&w, "version", PSR_VERSION);
    psr_fields_put_text(&w, "identity", psr_backend_identity(PSR_BACKEND_ONEDNN, 0));
    psr_fields_put_text(&w, "library", library);
    psr_dataset_info info;
    if (data != NULL && find_data(data, user_directory, &info) != PSR_OK)
        psr_fields_put_text(&w, "data_failure", psr_err_detail());
    else if (data != NULL) {
        char size[64] = "different sizes";
        if (info.height > 0)
            snprintf(size, sizeof size, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, info.channels,
                     info.height, info.width);
        snprintf(text, sizeof text,
                 "%s, %" PRIu32 " + %" PRIu32 " samples of %s, %" PRIu32 " classes", info.name,
                 info.train_count, info.test_count, size, info.classes);
        psr_fields_put_text(&w, "data", text);
        psr_fields_put_number(&w, "channels", info.channels);
        psr_fields_put_number(&w, "height", info.height);
        psr_fields_put_number(&w, "width", info.width);
        psr_fields_put_number(&w, "classes", info.classes);
        psr_fields_put_number(&w, "data_bytes", info.memory_bytes);
        if (planned != NULL)
            put_network(&w, planned, &info);
    }
    return psr_fields_finish(&w, ret_json);
}

psr_err psr_worker_read(const char *data, const char *user_directory, const char *cache,
                        char **ret_json)
{
    char directory[PSR_PATH_MAX], text[PSR_CONTENT_TEXT_BYTES];
    psr_content content;
    psr_fields_writer w = psr_fields_begin();
    psr_err err = psr_dataset_find(data, user_directory, 0, directory, sizeof directory);
    if (err == PSR_OK)
        err = psr_content_find(directory, cache, NULL, &content);
    if (err == PSR_OK) {
        snprintf(text, sizeof text, "%s-%s", content.train, content.test);
        psr_fields_put_text(&w, "content", text);
    } else {
        psr_fields_put_text(&w, "failure", psr_err_detail());
    }
    return psr_fields_finish(&w, ret_json);
}
