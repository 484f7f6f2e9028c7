/* `psring lab check|show|run LAB`: a cluster on this machine. */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "deploy/lab/picture.h"
#include "deploy/lab/run.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_RESULT = 1000, KEY_DILATE };

typedef struct lab_options {
    const char *verb, *file, *result;
    double dilate;
    char **command; /* argv's; NULL: none */
} lab_options;

static void read_dilate(const struct argp_state *state, const char *text, double *ret_factor)
{
    char *end, detail[128];
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 1 && value <= 1000)) {
        snprintf(detail, sizeof detail, "--dilate: '%.40s' is not a factor of 1 to 1000", text);
        psr_options_refuse(state, detail);
    }
    *ret_factor = value;
}

static bool is_verb(const char *word)
{
    return strcmp(word, "run") == 0 || strcmp(word, "check") == 0 || strcmp(word, "show") == 0;
}

static void check(const struct argp_state *state, const lab_options *o)
{
    if (o->verb == NULL)
        psr_options_refuse(state, "say what to do: run, check or show, and with which lab file");
    if (o->file == NULL)
        psr_options_refuse(state, "the lab file is missing");
    const bool runs = strcmp(o->verb, "run") == 0;
    if (runs && o->command == NULL)
        psr_options_refuse(state, "the command is missing; give for instance: psring lab run LAB "
                                  "-- train --mode ring --steps 50");
    if (!runs && o->command != NULL)
        psr_options_refuse(state, "only run takes a command");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    lab_options *o = state->input;
    switch (key) {
    case KEY_RESULT:
        o->result = arg;
        return 0;
    case KEY_DILATE:
        read_dilate(state, arg, &o->dilate);
        return 0;
    case ARGP_KEY_ARG:
        if (o->verb == NULL && !is_verb(arg))
            psr_options_refuse(state, "the first word is run, check or show");
        if (o->verb == NULL) {
            o->verb = arg;
        } else if (o->file == NULL) {
            o->file = arg;
        } else { /* all that follows is the command's */
            o->command = state->argv + state->next - 1;
            state->next = state->argc;
        }
        return 0;
    case ARGP_KEY_END:
        check(state, o);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"result", KEY_RESULT, "FILE", 0,
     "write drops, load and whether the result is valid to this file too, as JSON (a training run "
     "has it as lab.json in its directory)",
     0},
    {"dilate", KEY_DILATE, "F", 0,
     "all links F times as slow, and with --backend played:PROFILE all computation too, so that "
     "this machine keeps up; the times that come out are F times the lab's",
     0},
    {0}};

static const char doc[] =
    "Runs psring on a cluster of emulated hosts on this machine: network namespaces behind a "
    "switch, with links of the rates that a lab file gives. run builds it, runs a psring command "
    "(train, run, bench or doctor) on its hosts, and takes it down; check reads the file and tells "
    "what it says; show draws it.\v"
    "A lab file has a line for each host or group of hosts:\n"
    "  congestion cubic\n"
    "  default rate=100Mbit queue=256K\n"
    "  switch rack uplink=200Mbit\n"
    "  host node[1-2]\n"
    "  host node[3-4] switch=rack slots=2\n"
    "  host ps1 shards=1 rate=1Gbit\n"
    "  host old slow=2\n"
    "Rates are bits per second, decimal; queue and burst bytes, with K and M. slots are workers; a "
    "host with shards is for parameter servers. docs/lab.md tells all of it.\n"
    "\n"
    "It needs the programs ip and tc (package iproute2), and no root where the kernel lets users "
    "make namespaces. The queues of the switches drop what does not fit, and the drops are told. "
    "The result is called INVALID if this machine, and not the lab, was the limit.\n"
    "\n"
    "Examples:\n"
    "  psring lab check four.lab\n"
    "  psring lab show four.lab\n"
    "  psring lab run four.lab -- train --mode ring --model resnet20 --steps 50\n"
    "  psring lab run four.lab -- bench comm --operation all_reduce\n"
    "\n"
    "Exit status: that of the command; 2 for a wrong lab file, or where a lab cannot be made.\n";

static void tell(const psr_lab *lab, const char *file)
{
    psr_print(stdout, "%s: %zu hosts, %u workers, %u shards of their own, %zu switch%s\n", file,
              lab->host_count, psr_lab_slots(lab), psr_lab_shards(lab), lab->switch_count,
              lab->switch_count > 1 ? "es" : "");
}

int psr_command_lab(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "run|check|show LAB [-- COMMAND..]", doc, NULL,
                                     NULL,    NULL};
    lab_options o = {.dilate = 1};
    psr_lab *lab = calloc(1, sizeof *lab);
    psr_options_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
    psr_err err =
        lab != NULL ? psr_lab_read(o.file, lab) : psr_fail(PSR_ERR_NOMEM, "no memory for a lab");
    int status = 0;
    if (err != PSR_OK) {
        psr_print(stderr, "psring lab: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    } else if (strcmp(o.verb, "run") == 0) {
        psr_lab_dilate(lab, o.dilate);
        status = psr_lab_run_command(&(psr_lab_run){.lab = lab,
                                                    .name = o.file,
                                                    .command = o.command,
                                                    .dilate = o.dilate,
                                                    .result = o.result});
    } else {
        tell(lab, o.file);
        (strcmp(o.verb, "show") == 0 ? psr_lab_picture : psr_lab_print)(lab, stdout);
    }
    free(lab);
    return status;
}
