/* `psring keygen`: key files for a run whose processes are started by hand. */
#include "net/trust/keys/certificate.h"
#include "deploy/commands.h"

#include "base/system/file.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "base/text/secret.h"
#include "net/trust/keys/keys.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct keygen_options {
    const char *folder, *shared, *convert; /* one of them */
    uint32_t workers, shards;
    bool curve;
} keygen_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    keygen_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
    case 'o':
        if (o->folder != NULL)
            psr_options_refuse(state, "one folder is enough");
        o->folder = arg;
        return 0;
    case 'f':
        o->shared = arg;
        return 0;
    case 'c':
        o->convert = arg;
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
        if (o->folder == NULL && o->shared == NULL && o->convert == NULL)
            psr_options_refuse(state, "give DIR, the folder for the key files, or --shared FILE");
        if ((o->folder != NULL) + (o->shared != NULL) + (o->convert != NULL) > 1)
            psr_options_refuse(state,
                               "a folder of key files, --shared, or --convert: give one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "the folder for the key files, as the argument DIR", 0},
    {"shared", 'f', "FILE", 0,
     "one file with the keys of all, for launchers that start identical commands", 0},
    {"convert", 'c', "FILE", 0,
     "make certificates of FILE, a key file of psring 0.1 before it wrote certificates", 0},
    {"workers", 'w', "N", 0, "workers of the run (default 1)", 0},
    {"shards", 's', "S", 0, "shards of the run (default 1)", 0},
    {"loopback", 'l', NULL, 0, "tokens for ipc sockets on one machine rather than CURVE keys", 0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    "DIR\n--shared FILE\n--convert FILE",
    "Makes key files for processes that no launcher of psring's hands keys to: two for each "
    "process "
    "(--keys DIR, or --key-file), or one that all share.\v"
    "They are ZeroMQ certificates. Of a process's two files ROLE-N.key is public, and\n"
    "ROLE-N.key_secret is that process's alone (mode 0600). With these nobody can be\n"
    "another rank. A shared file keeps strangers out, but who can read it can be any\n"
    "rank. Keys that are there are not replaced: a directory holds one set.\n"
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

#define PATH_BYTES 4096

static psr_err secret_path(const char *path, char secret[PATH_BYTES])
{
    if (snprintf(secret, PATH_BYTES, "%s" PSR_KEYS_SECRET, path) >= PATH_BYTES)
        return psr_fail(PSR_ERR_USAGE, "%s: the path is too long", path);
    return PSR_OK;
}

/* ---- two files for each process ---- */

static psr_err key_path(const keygen_options *o, size_t i, char path[PATH_BYTES])
{
    psr_peer peer = i == 0           ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                    : i <= o->shards ? (psr_peer){PSR_ROLE_SHARD, (uint32_t)i - 1}
                                     : (psr_peer){PSR_ROLE_WORKER, (uint32_t)i - 1 - o->shards};
    return psr_keys_path(o->folder, peer, path, PATH_BYTES);
}

/* Keys of two sets must not be mixed, so any key file in the directory is refused. */
static psr_err check_empty(const char *directory)
{
    psr_err err = PSR_OK;
    DIR *entries = opendir(directory);
    if (entries == NULL)
        return psr_fail(PSR_ERR_IO, "%s: cannot be read: %s", directory, strerror(errno));
    for (struct dirent *entry; err == PSR_OK && (entry = readdir(entries)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot != NULL && (strcmp(dot, ".key") == 0 || strcmp(dot, ".key" PSR_KEYS_SECRET) == 0))
            err = psr_fail(PSR_ERR_USAGE,
                           "%s: holds keys already (%s), which are not replaced; name another "
                           "directory, or remove them first",
                           directory, entry->d_name);
    }
    closedir(entries);
    return err;
}

/* Writes the secret file, where no file may exist yet, and then, with CURVE, the public file at
 * path. */
static psr_err save_pair(const psr_keys *keys, const char *path)
{
    char secret[PATH_BYTES], *text = NULL;
    PSR_TRY(secret_path(path, secret));
    PSR_TRY(psr_certificate_secret(keys, &text));
    psr_err err = psr_keys_save_private(text, secret);
    psr_secret_free(text);
    if (err != PSR_OK || !keys->curve)
        return err;
    err = psr_certificate_public(keys, &text);
    if (err == PSR_OK) {
        err = psr_keys_write_public(text, path);
        free(text);
    }
    if (err != PSR_OK)
        unlink(secret);
    return err;
}

static void tell_pair(const psr_keys *keys, const char *path)
{
    if (keys->curve)
        psr_print(stdout, "%s\n", path);
    psr_print(stdout, "%s" PSR_KEYS_SECRET "\n", path);
}

static void remove_pair(const char *path)
{
    char secret[PATH_BYTES];
    unlink(path);
    if (secret_path(path, secret) == PSR_OK)
        unlink(secret);
}

/* All or none. */
static psr_err save_all(const keygen_options *o, const psr_keys *keys, size_t count)
{
    char path[PATH_BYTES], detail[PSR_ERR_DETAIL_BYTES];
    PSR_TRY(psr_mkdirs(o->folder));
    PSR_TRY(check_empty(o->folder));
    psr_err err = PSR_OK;
    size_t saved = 0;
    for (; saved < count && err == PSR_OK; saved += err == PSR_OK) {
        err = key_path(o, saved, path);
        if (err == PSR_OK)
            err = save_pair(&keys[saved], path);
    }
    psr_err_detail_keep(detail);
    for (size_t i = 0; i < saved; i++) {
        if (key_path(o, i, path) != PSR_OK)
            continue; /* it was saved there */
        if (err == PSR_OK)
            tell_pair(&keys[i], path);
        else
            remove_pair(path);
    }
    psr_err_detail_restore(detail);
    return err;
}

/* ---- one file that all share ---- */

/* sets: with CURVE all of them. write: psr_keys_save_private or psr_keys_write_private. */
static psr_err write_shared(const psr_keys *sets, const char *path,
                            psr_err (*write)(const char *text, const char *path))
{
    char *text = NULL;
    PSR_TRY(psr_certificate_shared(sets, &text));
    psr_err err = write(text, path);
    psr_secret_free(text);
    if (err == PSR_OK)
        psr_print(stdout, "%s\n", path);
    return err;
}

static psr_err save_shared(const keygen_options *o, const psr_keys *keys)
{
    psr_keys token;
    if (o->curve)
        return write_shared(keys, o->shared, psr_keys_save_private);
    PSR_TRY(psr_keys_generate_token(&token));
    psr_err err = write_shared(&token, o->shared, psr_keys_save_private);
    psr_keys_done(&token);
    return err;
}

static void free_sets(psr_keys *sets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&sets[i]);
    free(sets);
}

static psr_err generate(const keygen_options *o)
{
    psr_keys *sets = NULL;
    size_t count = 0;
    PSR_TRY(psr_keys_generate(o->workers, o->shards, o->curve, &sets, &count));
    psr_err err = o->shared != NULL ? save_shared(o, sets) : save_all(o, sets, count);
    free_sets(sets, count);
    return err;
}

/* ---- a file of before ---- */

/* Loads the keys of any process. ret_shared: the file holds the keys of all, and *ret_keys gets the
 * scheduler's. */
static psr_err load_any(const char *path, psr_keys *ret_keys, bool *ret_shared)
{
    for (psr_role role = PSR_ROLE_SCHEDULER; role <= PSR_ROLE_WORKER; role++) {
        psr_err err = psr_keys_load(path, (psr_peer){role, PSR_RANK_ANY}, ret_keys);
        if (err != PSR_ERR_USAGE) {
            *ret_shared = err == PSR_OK && ret_keys->member_count == 0; /* a token */
            return err;
        }
    }
    *ret_shared = true;
    return psr_keys_load(path, (psr_peer){PSR_ROLE_SCHEDULER, 0}, ret_keys);
}

static psr_err convert_pair(const psr_keys *keys, const char *path)
{
    PSR_TRY(save_pair(keys, path)); /* the public file takes the old one's place */
    if (!keys->curve && unlink(path) != 0)
        return psr_fail(PSR_ERR_IO, "key file %s cannot be removed: %s", path, strerror(errno));
    tell_pair(keys, path);
    return PSR_OK;
}

static psr_err convert_shared(const psr_keys *keys, const char *path)
{
    const size_t count = keys->member_count;
    if (!keys->curve)
        return write_shared(keys, path, psr_keys_write_private);
    psr_keys *sets = calloc(count, sizeof *sets);
    psr_err err = sets != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %zu keys", count);
    for (size_t i = 0; i < count && err == PSR_OK; i++)
        err = psr_keys_load(path, keys->members[i].peer, &sets[i]);
    if (err == PSR_OK)
        err = write_shared(sets, path, psr_keys_write_private);
    if (sets != NULL)
        free_sets(sets, count);
    return err;
}

static psr_err convert(const char *path)
{
    psr_keys keys;
    bool shared = false;
    PSR_TRY(load_any(path, &keys, &shared));
    psr_err err = !keys.old_file
                      ? psr_fail(PSR_ERR_USAGE, "key file %s is a certificate already", path)
                  : shared ? convert_shared(&keys, path)
                           : convert_pair(&keys, path);
    psr_keys_done(&keys);
    return err;
}

int psr_command_keygen(int argc, char **argv)
{
    keygen_options o = {.workers = 1, .shards = 1, .curve = true};
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    psr_err err = o.convert != NULL ? convert(o.convert) : generate(&o);
    if (err != PSR_OK)
        psr_print(stderr, "psring keygen: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
