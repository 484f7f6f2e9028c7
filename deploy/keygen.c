/* `psring keygen`: key files for a run whose processes are started by hand. */
#include "deploy/commands.h"

#include "base/file.h"
#include "base/options_argp.h"
#include "base/printable.h"
#include "net/keys.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct keygen_options {
    const char *out;
    uint32_t workers, shards;
    bool curve;
} keygen_options;

static uint32_t number(struct argp_state *state, const char *name, const char *text, uint32_t least,
                       uint32_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value < least || value > most) {
        char detail[128];
        snprintf(detail, sizeof detail, "--%s: '%.40s' is not a number from %u to %u", name, text, least,
                 most);
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
    {"loopback", 'l', NULL, 0, "a token for ipc sockets on one machine rather than CURVE keys", 0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Makes one key file per process (mode 0600), for --key-file of processes that are started by hand.\v"
    "Keys that are there are not replaced: a directory holds one set.\n"
    "\n"
    "Example, one machine (with --loopback the scheduler says which socket to give\n"
    "to --scheduler):\n"
    "  psring keygen --out keys --workers 2\n"
    "  psring-scheduler --key-file keys/scheduler-0.key --port 4100 --workers 2 \\\n"
    "    --model mlp --data synthetic:count=640,test=64 --steps 20 --out by-hand &\n"
    "  psring-ps --key-file keys/shard-0.key --scheduler 127.0.0.1:4100 &\n"
    "  psring-worker --key-file keys/worker-0.key --scheduler 127.0.0.1:4100 &\n"
    "  psring-worker --key-file keys/worker-1.key --scheduler 127.0.0.1:4100 &\n"
    "  wait\n",
    NULL,
    NULL,
    NULL};

static void key_path(const keygen_options *o, size_t i, char *path, size_t size)
{
    psr_peer peer = i == 0           ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                    : i <= o->shards ? (psr_peer){PSR_ROLE_SHARD, (uint32_t)i - 1}
                                     : (psr_peer){PSR_ROLE_WORKER, (uint32_t)i - 1 - o->shards};
    snprintf(path, size, "%s/%s-%u.key", o->out, psr_role_name(peer.role), peer.rank);
}

/* Keys of two sets do not go together, so a key file of any name is in the way. */
static psr_err check_empty(const char *directory)
{
    psr_err err = PSR_OK;
    DIR *entries = opendir(directory);
    if (!entries)
        return psr_fail(PSR_ERR_IO, "--out %s: cannot be read: %s", directory, strerror(errno));
    for (struct dirent *entry; err == PSR_OK && (entry = readdir(entries));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".key") == 0)
            err = psr_fail(PSR_ERR_USAGE,
                           "--out %s: holds keys already (%s), which are not replaced; name another "
                           "directory, or remove "
                           "them first",
                           directory, entry->d_name);
    }
    closedir(entries);
    return err;
}

/* All or none. */
static psr_err save_all(const keygen_options *o, const psr_keys *keys, size_t count)
{
    char path[4096];
    PSR_TRY(psr_mkdirs(o->out));
    PSR_TRY(check_empty(o->out));
    psr_err err = PSR_OK;
    size_t saved = 0;
    for (; saved < count && err == PSR_OK; saved += err == PSR_OK) {
        key_path(o, saved, path, sizeof path);
        err = psr_keys_save(&keys[saved], path);
    }
    for (size_t i = 0; i < saved; i++) {
        key_path(o, i, path, sizeof path);
        if (err == PSR_OK)
            psr_print(stdout, "%s\n", path);
        else
            unlink(path);
    }
    return err;
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
        psr_print(stderr, "psring keygen: %s\n", psr_err_detail());
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&keys[i]);
    free(keys);
    return psr_err_exit_status(err);
}
