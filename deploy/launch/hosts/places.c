#include "deploy/launch/hosts/places.h"

#include "base/config/options_argp.h"
#include "deploy/agent/program.h"
#include "deploy/launch/hosts/allocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_HOSTFILE = 2000,
    KEY_MAP_BY,
    KEY_BIND_TO,
    KEY_REPORT,
    KEY_INTERFACE,
    KEY_SSH,
    KEY_REMOTE
};

static bool is_name(const char *text, size_t length)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return length > 0 && (text[0] < '0' || text[0] > '9') && strspn(text, letters) >= length;
}

/* "NAME=VALUE", or "NAME" of this environment. */
static void add_variable(const struct argp_state *state, psr_places *p, const char *text)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : getenv(text);
    char detail[256], *variable = NULL;
    if (!is_name(text, length) || value == NULL) {
        snprintf(detail, sizeof detail, "-x '%.100s': %s", text,
                 value == NULL ? "there is no such variable here; give NAME=VALUE"
                               : "a variable's name has letters, digits and _");
        psr_options_refuse(state, detail);
        return;
    }
    const char **grown = realloc(p->variables, (p->variable_count + 2) * sizeof *grown);
    if (grown != NULL)
        p->variables = grown;
    if (grown == NULL || asprintf(&variable, "%.*s=%s", (int)length, text, value) < 0) {
        psr_options_refuse(state, "no memory for -x");
        return;
    }
    p->variable_bytes += strlen(variable) + 1;
    if (p->variable_bytes > PSR_PROGRAM_BYTES_MAX) {
        snprintf(detail, sizeof detail, "-x: the variables have more than %u bytes",
                 PSR_PROGRAM_BYTES_MAX);
        psr_options_refuse(state, detail);
    }
    p->variables[p->variable_count++] = variable;
    p->variables[p->variable_count] = NULL;
}

/* The place of text in words, which end with NULL. */
static int read_word(const struct argp_state *state, const char *option, const char *text,
                     const char *const *words, const char *all)
{
    char detail[128];
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    snprintf(detail, sizeof detail, "%s: '%.40s' is not one of %s", option, text, all);
    psr_options_refuse(state, detail);
    return 0;
}

char *psr_places_count(struct argp_state *state, char *arg)
{
    if (strcmp(arg, "p") != 0)
        return arg;
    if (state->next >= state->argc)
        psr_options_refuse(state, "-np: its number is missing");
    return state->argv[state->next++];
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    /* in the order of the enums */
    static const char *const map_by[] = {"slot", "node", NULL}, *const bind_to[] = {"none", "core",
                                                                                    "numa", NULL};
    psr_places *p = state->input;
    switch (key) {
    case 'H':
        p->host_list = arg;
        return 0;
    case 'x':
        add_variable(state, p, arg);
        return 0;
    case KEY_HOSTFILE:
        p->hostfile = arg;
        return 0;
    case KEY_MAP_BY:
        p->map_by = (psr_map_by)read_word(state, "--map-by", arg, map_by, "slot, node");
        return 0;
    case KEY_BIND_TO:
        p->bind_to = (psr_bind_to)read_word(state, "--bind-to", arg, bind_to, "none, core, numa");
        return 0;
    case KEY_REPORT:
        p->report_bindings = true;
        return 0;
    case KEY_INTERFACE:
        p->interface = arg;
        return 0;
    case KEY_SSH:
        p->ssh = arg;
        return 0;
    case KEY_REMOTE:
        p->remote_program = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"hostfile", KEY_HOSTFILE, "FILE", 0,
     "start the ranks on these hosts, over ssh. A line is 'HOST slots=N max_slots=M'; HOST may be "
     "node[1-16]. A host takes N ranks (default 1), and up to M (default N) when the slots of all "
     "hosts are taken",
     1},
    {"host", 'H', "HOST:N,HOST:N", 0, "the hosts as a list, with their slots", 1},
    {"map-by", KEY_MAP_BY, "slot|node", 0,
     "slot: ranks take all slots of a host before the next host; node: one slot of each host in "
     "turn (default slot)",
     1},
    {"bind-to", KEY_BIND_TO, "none|core|numa", 0,
     "core: each process stays on cores of its own, its share of its host's; numa: on the cores of "
     "one NUMA node (default none)",
     1},
    {"report-bindings", KEY_REPORT, NULL, 0, "show which processors each process is bound to", 1},
    {NULL, 'x', "NAME[=VALUE]", 0,
     "an environment variable for all processes of the run; without =VALUE it has the value that "
     "it has here; may be repeated",
     1},
    {"interface", KEY_INTERFACE, "NAME|ADDRESS", 0,
     "network interface to use on every host (default: where ssh connects; on one host none)", 1},
    {"ssh", KEY_SSH, "CMD", 0,
     "the command that reaches a host, quoted as for a shell: 'ssh -p 2222 -i ~/key' (default: "
     "ssh, which checks host keys; in a Slurm job srun, and the job's hosts)",
     1},
    {"remote-psring", KEY_REMOTE, "PATH", 0,
     "psring's path on other hosts (default: the same as here, then PATH)", 1},
    {0}};

const struct argp psr_places_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

static psr_err read_allocation(psr_places *places, psr_hosts *ret_hosts)
{
    psr_err err = psr_allocation_read(ret_hosts);
    if (err == PSR_OK && places->ssh == NULL)
        places->ssh = PSR_ALLOCATION_SSH;
    return err == PSR_ERR_NOT_FOUND ? PSR_OK : err;
}

psr_err psr_places_read(psr_places *places, psr_hosts *ret_hosts)
{
    if (places->hostfile != NULL && places->host_list != NULL)
        return psr_fail(PSR_ERR_USAGE, "--hostfile and -H say the same thing twice; give one");
    if (places->hostfile != NULL)
        return psr_hostfile_read(places->hostfile, ret_hosts);
    return places->host_list != NULL ? psr_hosts_from_list(places->host_list, ret_hosts)
                                     : read_allocation(places, ret_hosts);
}

void psr_places_done(psr_places *places)
{
    for (size_t i = 0; i < places->variable_count; i++)
        free((char *)(uintptr_t)places->variables[i]);
    free(places->variables);
    *places = (psr_places){0};
}
