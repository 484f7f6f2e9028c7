/* `psring keygen`: key files for a run whose processes are started by hand. */
#include "deploy/commands.h"

#include "base/file.h"
#include "base/options_argp.h"
#include "net/keys.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct keygen_options {
    const char *out;
    uint32_t workers, shards;
    bool curve;
} keygen_options;

static uint32_t number(struct argp_state *state, const char *name, const char *text, uint32_t least, uint32_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value < least || value > most) {
        char detail[128];
        snprintf(detail, sizeof detail, "--%s: '%.40s' is not a number from %u to %u", name, text, least, most);
        psr_options_refuse(state, detail);
    }
    return (uint32_t)value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    keygen_options *o = state->input;
    switch (key) {
    case 'o':
        o->out = arg;
        return 0;
    case 'w':
        o->workers = number(state, "workers", arg, 1, 1024);
        return 0;
    case 's':
        o->shards = number(state, "shards", arg, 0, 256);
        return 0;
    case 'l':
        o->curve = false;
        return 0;
    case ARGP_KEY_END:
        if (!o->out)
            psr_options_refuse(state, "--out DIR is missing: where the key files go");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "directory for the key files", 0},
    {"workers", 'w', "N", 0, "workers of the run (default 1)", 0},
    {"shards", 's', "S", 0, "shards of the run (default 1)", 0},
    {"loopback", 'l', NULL, 0, "a token for one machine rather than CURVE keys", 0},
    {0}};

static const struct argp argp = {
    options, parse, NULL,
    "Makes one key file per process (mode 0600), for --key-file of processes that are started by hand.\v"
    "Example, one machine:\n"
    "  psring keygen --out keys --workers 2 --shards 1 --loopback\n"
    "  psring-scheduler --key-file keys/scheduler-0.key --port 4100 --workers 2 --shards 1 ...\n"
    "  psring-ps --key-file keys/shard-0.key --scheduler 127.0.0.1:4100\n"
    "  psring-worker --key-file keys/worker-0.key --scheduler 127.0.0.1:4100\n",
    NULL, NULL, NULL};

static psr_err save_all(const keygen_options *o, const psr_keys *keys, size_t count)
{
    PSR_TRY(psr_mkdirs(o->out));
    for (size_t i = 0; i < count; i++) {
        psr_peer peer = i == 0 ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                        : i <= o->shards ? (psr_peer){PSR_ROLE_SHARD, (uint32_t)i - 1}
                                         : (psr_peer){PSR_ROLE_WORKER, (uint32_t)i - 1 - o->shards};
        char path[4096];
        snprintf(path, sizeof path, "%s/%s-%u.key", o->out, psr_role_name(peer.role), peer.rank);
        PSR_TRY(psr_keys_save(&keys[i], path));
        printf("%s\n", path);
    }
    return PSR_OK;
}

int psr_command_keygen(int argc, char **argv)
{
    keygen_options o = {.workers = 1, .shards = 1, .curve = true};
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    psr_keys *keys = NULL;
    size_t count = 0;
    psr_err err = psr_keys_generate(o.workers, o.shards, o.curve, &keys, &count);
    if (!err)
        err = save_all(&o, keys, count);
    if (err)
        fprintf(stderr, "psring keygen: %s\n", psr_err_detail());
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&keys[i]);
    free(keys);
    return psr_err_exit_status(err);
}
