/* `psring report DIR...`: one row per run, from its run.json, and whether the weights are the same bits. */
#include "deploy/commands.h"

#include "base/file.h"
#include "base/options_argp.h"
#include "deploy/json.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 64
#define RUN_JSON_BYTES_MAX (16u << 20)

typedef struct run {
    const char *dir;
    cJSON *json;
    const cJSON *outcome;
} run;

typedef struct report_options {
    run runs[RUNS_MAX];
    size_t count;
} report_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    report_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->count == RUNS_MAX)
            psr_options_refuse(state, "more than 64 runs; give fewer");
        o->runs[o->count++].dir = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->count == 0)
            psr_options_refuse(state, "no run is named; give one or more run directories");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {NULL, parse, "DIR...",
                                 "Compares runs in one table and says whether their weights are the same bits.\v"
                                 "Exit status: 0 also when hashes differ; 2 when a directory holds no finished run.\n"
                                 "Example:\n  psring report psring-runs/A psring-runs/B\n",
                                 NULL, NULL, NULL};

static psr_err load(run *r)
{
    char path[4096];
    uint8_t *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/run.json", r->dir);
    PSR_TRY(psr_file_read(path, RUN_JSON_BYTES_MAX, &text, &size));
    r->json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    r->outcome = cJSON_GetObjectItemCaseSensitive(r->json, "outcome");
    if (!cJSON_IsObject(r->json))
        return psr_fail(PSR_ERR_FORMAT, "%s is not a JSON object; psring train writes it", path);
    if (!cJSON_IsObject(r->outcome) || !psr_json_text(r->outcome, "hash"))
        return psr_fail(PSR_ERR_FORMAT, "%s has no outcome: the run did not end well%s%s", path,
                        psr_json_text(r->outcome, "line") ? ": " : "", psr_json_text(r->outcome, "line") ? psr_json_text(r->outcome, "line") : "");
    return PSR_OK;
}

static const char *option(const run *r, const char *name)
{
    const char *text = psr_json_text(cJSON_GetObjectItemCaseSensitive(r->json, "config"), name);
    return text ? text : "?";
}

static void print_row(const run *r)
{
    const cJSON *o = r->outcome;
    char who[48];
    if (strcmp(option(r, "mode"), "ps") == 0)
        snprintf(who, sizeof who, "%s workers, %s shards", option(r, "workers"), option(r, "shards"));
    else
        snprintf(who, sizeof who, "%s workers", option(r, "workers"));
    printf("%-6s %-20s %7.0f %9.1f %9.0f %11.2f %11.6f %8.2f%%  %s\n", option(r, "mode"), who, psr_json_number(o, "steps", 0),
           psr_json_number(o, "seconds", 0), psr_json_number(o, "images_per_s", 0), psr_json_number(o, "wait_s", 0),
           psr_json_number(o, "loss", 0), 100 * psr_json_number(o, "accuracy", 0), psr_json_text(o, "hash"));
}

static void print_table(const report_options *o)
{
    printf("%-6s %-20s %7s %9s %9s %11s %11s %9s  %s\n", "mode", "processes", "steps", "seconds", "images/s", "exchange s", "final loss",
           "accuracy", "weight hash");
    bool equal = true;
    for (size_t i = 0; i < o->count; i++) {
        print_row(&o->runs[i]);
        equal &= strcmp(psr_json_text(o->runs[i].outcome, "hash"), psr_json_text(o->runs[0].outcome, "hash")) == 0;
    }
    printf("\n(exchange s: seconds that a worker waited for the exchange, mean over workers)\n");
    if (o->count > 1)
        printf("%s\n", equal ? (o->count == 2 ? "The two weight hashes are equal: both runs ended with the same bits."
                                              : "All weight hashes are equal: the runs ended with the same bits.")
                             : "The weight hashes differ.");
}

int psr_command_report(int argc, char **argv)
{
    report_options o = {0};
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    psr_err err = PSR_OK;
    for (size_t i = 0; i < o.count && !err; i++)
        err = load(&o.runs[i]);
    if (err)
        fprintf(stderr, "psring report: %s\n", psr_err_detail());
    else
        print_table(&o);
    for (size_t i = 0; i < o.count; i++)
        cJSON_Delete(o.runs[i].json);
    return psr_err_exit_status(err);
}
