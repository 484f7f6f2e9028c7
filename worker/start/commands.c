#include "worker/start/commands.h"

#include "base/log.h"
#include "base/text/printable.h"
#include "worker/examine.h"
#include "worker/stored/stored_commands.h"

#include <stdlib.h>
#include <string.h>

/* Consumes json. Returns the exit status. */
static int print_found(psr_err err, char *json)
{
    if (err == PSR_OK)
        psr_print(stdout, "%s\n", json);
    else
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    free(json);
    return psr_err_exit_status(err);
}

static int examine(int count, char **words, const psr_worker_folders *folders)
{
    psr_config config;
    char *json = NULL;
    psr_config_defaults(&config);
    psr_err err = count > 1 ? psr_config_from_json(&config, words[1], strlen(words[1])) : PSR_OK;
    if (err == PSR_OK)
        err = psr_worker_examine(count > 0 ? words[0] : NULL, count > 1 ? &config : NULL,
                                 folders->data, &json);
    return print_found(err, json);
}

static int read_data(const char *data, const psr_worker_folders *folders)
{
    char *json = NULL;
    psr_err err = psr_worker_read(data, folders->data, folders->cache, &json);
    return print_found(err, json);
}

bool psr_worker_command(int count, char **words, const psr_worker_folders *folders, int *ret_status)
{
    if (strcmp(words[0], "examine") == 0)
        *ret_status = examine(count - 1, words + 1, folders);
    else if (strcmp(words[0], "read") == 0 && count == 2)
        *ret_status = read_data(words[1], folders);
    else if (strcmp(words[0], "inspect") == 0 && count > 1)
        *ret_status = psr_inspect_main((size_t)count - 1, words + 1);
    else if (strcmp(words[0], "export") == 0 && count == 4)
        *ret_status = psr_export_main(words[1], words[2], words[3]);
    else if (strcmp(words[0], "eval") == 0 && count == 5)
        *ret_status =
            psr_eval_main(words[1], words[2], (unsigned)strtoul(words[3], NULL, 10),
                          (unsigned)strtoul(words[4], NULL, 10), folders->data, folders->cache);
    else if (strcmp(words[0], "classify") == 0 && count > 6)
        *ret_status =
            psr_classify_main(words[1], (unsigned)strtoul(words[2], NULL, 10),
                              strcmp(words[3], "json") == 0, (unsigned)strtoul(words[4], NULL, 10),
                              (unsigned)strtoul(words[5], NULL, 10), (size_t)count - 6, words + 6);
    else
        return false;
    return true;
}
