#include "ps/tables/serve.h"

#include "ps/tables/optimizers.h"

#include <psring/psring.h>
#include <stdio.h>

static psring_err check(void *context, const char *arguments, char *ret_line, size_t line_bytes)
{
    psr_err err = psr_table_optimizer_check(context, arguments);
    if (err != PSR_OK)
        snprintf(ret_line, line_bytes, "%s", psr_err_detail());
    return (psring_err)err;
}

static psring_err apply(void *context, const psring_update_run *run)
{
    return (psring_err)psr_table_optimizer_apply(context, run->arguments, run->values, run->pushed,
                                                 run->states, run->count, run->number);
}

static psring_err define(psring_comm *comm, psr_table_optimizer *const *optimizers)
{
    psring_err err = PSRING_OK;
    for (uint32_t i = 0; i < PSR_TABLE_OPTIMIZERS && err == PSRING_OK; i++) {
        const psring_update update = {.size = sizeof update,
                                      .states = PSR_TABLE_OPTIMIZER_STATES,
                                      .context = optimizers[i],
                                      .check = check,
                                      .apply = apply};
        err = psring_update_define(comm, psr_table_optimizer_name(i), &update);
    }
    return err;
}

static psring_err serve(psr_table_optimizer *const *optimizers, char *line, size_t line_bytes)
{
    psring_comm *comm = NULL;
    psring_options options = {.size = sizeof options};
    psring_err err = psring_options_env(&options);
    /* the program may join at any time, and the launcher ends both */
    options.join_deadline_ms = INT32_MAX;
    if (err == PSRING_OK)
        err = psring_init(&options, &comm);
    if (err == PSRING_OK)
        err = define(comm, optimizers);
    if (err == PSRING_OK)
        err = psring_serve(comm);
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err != PSRING_OK) {
        snprintf(line, line_bytes, "%s", psring_err_detail());
        psring_abort(&comm, line);
    }
    return err;
}

psr_err psr_tables_serve(char *ret_line, size_t line_bytes)
{
    psr_table_optimizer *optimizers[PSR_TABLE_OPTIMIZERS] = {NULL};
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < PSR_TABLE_OPTIMIZERS && err == PSR_OK; i++)
        err = psr_table_optimizer_new(psr_table_optimizer_name(i), &optimizers[i]);
    if (err == PSR_OK)
        err = (psr_err)serve(optimizers, ret_line, line_bytes);
    else
        snprintf(ret_line, line_bytes, "%s", psr_err_detail());
    for (uint32_t i = 0; i < PSR_TABLE_OPTIMIZERS; i++)
        psr_table_optimizer_free(optimizers[i]);
    return err;
}
