/* The configuration as a command line. */
#include "base/config/config_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "" where nothing is to be said. */
static psr_err write_argument(const psr_config *config, const psr_option_info *info, char *text,
                              size_t size)
{
    char value[PSR_OPTION_TEXT_MAX];
    text[0] = '\0';
    PSR_TRY(psr_config_get(config, info->name, value, sizeof value));
    if (info->argument != NULL && value[0] != '\0')
        snprintf(text, size, "--%s=%s", info->name, value);
    else if (info->argument == NULL && strcmp(value, "true") == 0)
        snprintf(text, size, "--%s", info->name);
    else if (info->argument == NULL && info->negatable)
        snprintf(text, size, "--no-%s", info->name);
    return PSR_OK;
}

psr_err psr_config_to_arguments(const psr_config *config, char ***ret_arguments)
{
    psr_option_info info;
    char text[PSR_OPTION_TEXT_MAX + 64];
    char **arguments = calloc(psr_options_count + 1, sizeof *arguments);
    size_t used = 0;
    if (arguments == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the run's options");
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        psr_err err = write_argument(config, &info, text, sizeof text);
        if (err == PSR_OK && text[0] != '\0' && (arguments[used++] = strdup(text)) == NULL)
            err = psr_fail(PSR_ERR_NOMEM, "no memory for the run's options");
        if (err != PSR_OK) {
            psr_config_arguments_free(arguments);
            return err;
        }
    }
    *ret_arguments = arguments;
    return PSR_OK;
}

void psr_config_arguments_free(char **arguments)
{
    for (char **a = arguments; a != NULL && *a != NULL; a++)
        free(*a);
    free(arguments);
}
