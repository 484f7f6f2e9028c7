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
    const char *folder, *shared; /* one of them */
    uint32_t workers, shards;
    bool curve;
} keygen_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    keygen_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
    case 'o':
        if (o->folder)
            psr_options_refuse(state, "one folder is enough");
        o->folder = arg;
        return 0;
    case 'f':
        o->shared = arg;
        return 0;
    case 'w':
        o->workers = (uint32_t)psr_options_number(state, "workers", arg, 1, 1024);
        return 0;
    case 's':
        o->shards = (uint32_t)psr_options_number(state, "shards", arg, 0, 256);
        return 0;
    case 'l':
        o->curve = false;
        return 0;
    case ARGP_KEY_END:
        if (!o->folder && !o->shared)
            psr_options_refuse(state, "DIR is missing, where the key files go (or --shared FILE)");
        if (o->folder && o->shared)
            psr_options_refuse(state, "a folder of key files, or --shared: give one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "the folder for the key files, as the argument DIR", 0},
    {"shared", 'f', "FILE", 0, "one file with the keys of all, for launchers that start identical commands",
     0},
    {"workers", 'w', "N", 0, "workers of the run (default 1)", 0},
    {"shards", 's', "S", 0, "shards of the run (default 1)", 0},
    {"loopback", 'l', NULL, 0, "tokens for ipc sockets on one machine rather than CURVE keys", 0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    "DIR\n--shared FILE",
    "Makes key files (mode 0600) for processes that no launcher of psring's hands keys to: one for each "
    "process (--keys DIR, or "
    "--key-file), or one that all share.\v"
    "With a file for each process nobody can be another rank; a shared one keeps\n"
    "strangers out, but who can read it can be any rank. Keys that are there are not\n"
    "replaced: a directory holds one set.\n"
    "\n"
    "Example, one machine (with --loopback the scheduler says which socket to give\n"
    "to --scheduler):\n"
    "  psring keygen keys --workers 2\n"
    "  psring-scheduler --keys keys --port 4100 --workers 2 \\\n"
    "    --model mlp --data synthetic:count=640,test=64 --steps 20 --out by-hand &\n"
    "  psring-ps --keys keys --rank 0 --scheduler 127.0.0.1:4100 &\n"
    "  psring-worker --keys keys --rank 0 --scheduler 127.0.0.1:4100 &\n"
    "  psring-worker --keys keys --rank 1 --scheduler 127.0.0.1:4100 &\n"
    "  wait\n",
    NULL,
    NULL,
    NULL};

static psr_err key_path(const keygen_options *o, size_t i, char *path, size_t size)
{
    psr_peer peer = i == 0           ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                    : i <= o->shards ? (psr_peer){PSR_ROLE_SHARD, (uint32_t)i - 1}
                                     : (psr_peer){PSR_ROLE_WORKER, (uint32_t)i - 1 - o->shards};
    return psr_keys_path(o->folder, peer, path, size);
}

/* Keys of two sets do not go together, so a key file of any name is in the way. */
static psr_err check_empty(const char *directory)
{
    psr_err err = PSR_OK;
    DIR *entries = opendir(directory);
    if (!entries)
        return psr_fail(PSR_ERR_IO, "%s: cannot be read: %s", directory, strerror(errno));
    for (struct dirent *entry; err == PSR_OK && (entry = readdir(entries));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".key") == 0)
            err = psr_fail(PSR_ERR_USAGE,
                           "%s: holds keys already (%s), which are not replaced; name another "
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
    PSR_TRY(psr_mkdirs(o->folder));
    PSR_TRY(check_empty(o->folder));
    psr_err err = PSR_OK;
    size_t saved = 0;
    for (; saved < count && err == PSR_OK; saved += err == PSR_OK) {
        err = key_path(o, saved, path, sizeof path);
        if (err == PSR_OK)
            err = psr_keys_save(&keys[saved], path);
    }
    for (size_t i = 0; i < saved; i++) {
        if (key_path(o, i, path, sizeof path) != PSR_OK)
            continue; /* it was saved there */
        if (err == PSR_OK)
            psr_print(stdout, "%s\n", path);
        else
            unlink(path);
    }
    return err;
}

static psr_err save_shared(const keygen_options *o, const psr_keys *keys)
{
    PSR_TRY(psr_keys_save_shared(keys, o->shared));
    psr_print(stdout, "%s\n", o->shared);
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
        err = o.shared ? save_shared(&o, keys) : save_all(&o, keys, count);
    if (err)
        psr_print(stderr, "psring keygen: %s\n", psr_err_detail());
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&keys[i]);
    free(keys);
    return psr_err_exit_status(err);
}
