/* `psring data get NAME`: brings a data set's files into psring's own data folder. */
#include "data/command/command.h"
#include "data/command/digest.h"
#include "data/command/download.h"
#include "data/command/known.h"
#include "data/command/place.h"

#include "base/config/options_argp.h"
#include "base/system/child.h"
#include "base/system/file.h"
#include "base/text/printable.h"
#include "data/location.h"
#include "data/opened.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECKSUMS_BYTES ((size_t)1 << 20)
/* Ends the name of a file that has not come in whole. */
#define PART ".part"
enum { PART_NAME_BYTES = 64 };

typedef struct get_options {
    const psr_known_set *set;
    const char *to, *from, *url, *checksums;
} get_options;

typedef struct getting {
    const psr_data_command *command;
    const get_options *options;
    const psr_known_set *set;
    char *checksums; /* of --checksums, owned; NULL: the authors' */
    bool keeps;      /* what has been downloaded is right as far as it goes */
    psr_data_place place;
} getting;

enum { KEY_TO = 1000, KEY_FROM, KEY_URL, KEY_CHECKSUMS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    get_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->set != NULL)
            psr_options_refuse(state, "one data set at a time");
        o->set = psr_known_set_find(arg);
        if (o->set == NULL)
            psr_options_refuse_format(
                state, "'%.64s' is not known; there are mnist, fashion-mnist, cifar10, cifar100",
                arg);
        return 0;
    case KEY_TO:
        o->to = arg;
        return 0;
    case KEY_FROM:
        o->from = arg;
        return 0;
    case KEY_URL:
        if (strncmp(arg, "https://", 8) != 0 && strncmp(arg, "http://", 7) != 0)
            psr_options_refuse_format(state, "--url %.200s: give https://.. or http://..", arg);
        o->url = arg;
        return 0;
    case KEY_CHECKSUMS:
        o->checksums = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->set == NULL)
            psr_options_refuse(state, "give mnist, fashion-mnist, cifar10 or cifar100");
        if (o->from != NULL && o->url != NULL)
            psr_options_refuse(state, "--from and --url: give one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"to", KEY_TO, "DIR", 0,
     "the folder in which the folder NAME is made (default: psring's own, where --data NAME looks: "
     "$XDG_DATA_HOME/psring or ~/.local/share/psring)",
     0},
    {"from", KEY_FROM, "DIR", 0,
     "take the files from this folder rather than from the network: the authors' archives, or the "
     "data files, plain, .gz or .xz",
     0},
    {"url", KEY_URL, "BASE", 0,
     "the folder of a mirror that has the files, rather than the authors'", 0},
    {"checksums", KEY_CHECKSUMS, "FILE", 0,
     "SHA-256 of the files, as sha256sum prints them, in place of those of the authors' files: for "
     "a mirror that has packed them anew",
     0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    "mnist|fashion-mnist|cifar10|cifar100",
    "Downloads a data set from its authors' site, checks the checksums of its files and what is in "
    "them, and puts it where --data NAME finds it. The folder appears when all of it is right. The "
    "same command continues a download that was broken off.\v"
    "Examples:\n"
    "  psring data get cifar10\n"
    "  psring data get mnist --from ~/Downloads\n"
    "\n"
    "Exit status: 0 it is there; 1 it could not be brought; 2 bad input; 130 interrupted.\n",
    NULL,
    NULL,
    NULL};

/* ---- checksums ---- */

/* A line of sha256sum: 64 digits, two characters, a name. */
static bool line_is_of(const char *line, size_t length, const char *name)
{
    const char *at = line + PSR_SHA256_BYTES + 1;
    if (length < PSR_SHA256_BYTES + 2 || strspn(line, "0123456789abcdefABCDEF") < 64)
        return false;
    const char *end = line + length;
    for (const char *slash = at; slash < end; slash++)
        if (*slash == '/')
            at = slash + 1;
    return (size_t)(end - at) == strlen(name) && memcmp(at, name, strlen(name)) == 0;
}

static psr_err wanted_checksum(const getting *g, const psr_known_file *file,
                               char digits[PSR_SHA256_BYTES])
{
    snprintf(digits, PSR_SHA256_BYTES, "%s", file->sha256);
    if (g->checksums == NULL)
        return PSR_OK;
    for (const char *line = g->checksums; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (line_is_of(line, length, file->name)) {
            snprintf(digits, PSR_SHA256_BYTES, "%s", line);
            return PSR_OK;
        }
        line += length + (line[length] == '\n');
    }
    return psr_fail(PSR_ERR_USAGE, "--checksums %s: has no line for %s", g->options->checksums,
                    file->name);
}

static psr_err check_file(const getting *g, const psr_known_file *file, const char *where)
{
    char path[PSR_PATH_MAX], wanted[PSR_SHA256_BYTES], got[PSR_SHA256_BYTES];
    PSR_TRY(wanted_checksum(g, file, wanted));
    PSR_TRY(psr_data_place_path(&g->place, file->name, path));
    PSR_TRY(psr_sha256_of_file(path, g->command->stop, got));
    if (strcasecmp(got, wanted) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_PEER, "%s: its SHA-256 is %s, should be %s; nothing of it is kept",
                    where, got, wanted);
}

/* ---- where files come from ---- */

static psr_err part_path(const getting *g, const psr_known_file *file, char path[PSR_PATH_MAX])
{
    char name[PART_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", file->name, PART);
    return psr_data_place_path(&g->place, name, path);
}

/* Downloads what an earlier try has not. The checksum of the whole decides. */
static psr_err fetch(getting *g, const psr_known_file *file, const char *url, bool *ret_continued)
{
    char path[PSR_PATH_MAX], part[PSR_PATH_MAX];
    psr_data_bar bar;
    uint64_t before = 0;
    PSR_TRY(psr_data_place_path(&g->place, file->name, path));
    PSR_TRY(part_path(g, file, part));
    psr_data_bar_begin(&bar, file->name, true);
    if (!bar.terminal)
        psr_print(stderr, "%s\n", url);
    psr_err err = psr_download(url, part, g->command->stop, &bar, &before);
    g->keeps = err == PSR_ERR_PEER || err == PSR_ERR_CANCELLED;
    PSR_TRY(err);
    if (before > 0)
        psr_print(stderr, "%s: continued after %.1f MiB\n", file->name, (double)before / (1 << 20));
    *ret_continued = before > 0;
    if (rename(part, path) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be renamed to %s: %s", part, path, strerror(errno));
    err = check_file(g, file, url);
    g->keeps = err == PSR_ERR_CANCELLED;
    if (err == PSR_ERR_PEER)
        (void)unlink(path);
    return err;
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static psr_err download_file(getting *g, const psr_known_file *file)
{
    char url[PSR_PATH_MAX], path[PSR_PATH_MAX];
    const char *base = g->options->url != NULL ? g->options->url : g->set->base;
    const char *slash = base[strlen(base) - 1] == '/' ? "" : "/";
    bool continued = false;
    int length = snprintf(url, sizeof url, "%s%s%s", base, slash, file->name);
    if (length < 0 || (size_t)length >= sizeof url)
        return psr_fail(PSR_ERR_USAGE, "--url %s: too long", base);
    PSR_TRY(psr_data_place_path(&g->place, file->name, path));
    if (is_file(path)) { /* an earlier try has brought it */
        psr_err err = check_file(g, file, path);
        g->keeps = err == PSR_ERR_CANCELLED;
        if (err != PSR_ERR_PEER)
            return err;
        (void)unlink(path);
    }
    psr_err err = fetch(g, file, url, &continued);
    if (err != PSR_ERR_PEER || !continued)
        return err;
    psr_print(stderr, "%s: what an earlier try left does not belong to it; it begins anew\n",
              file->name);
    return fetch(g, file, url, &continued);
}

/* Whether --from has every one of the authors' files. */
static bool has_authors_files(const getting *g)
{
    for (int i = 0; i < PSR_KNOWN_FILES_MAX && g->set->files[i].name != NULL; i++) {
        char path[PSR_PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", g->options->from, g->set->files[i].name);
        if (length < 0 || (size_t)length >= sizeof path || !is_file(path))
            return false;
    }
    return true;
}

static psr_err copy_authors_file(getting *g, const psr_known_file *file)
{
    char path[PSR_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", g->options->from, file->name);
    PSR_TRY(psr_data_place_copy(&g->place, path, file->name, g->command->stop));
    return check_file(g, file, path);
}

static psr_err unpack(const getting *g, const psr_known_file *file)
{
    char path[PSR_PATH_MAX], folder[PSR_PATH_MAX];
    psr_child child;
    PSR_TRY(psr_data_place_path(&g->place, file->name, path));
    snprintf(folder, sizeof folder, "%s", g->place.gathered);
    const char *const words[] = {
        "tar",          "-xzf", path, "-C", folder, "--strip-components=1", "--no-same-owner",
        g->set->folder, NULL};
    const psr_child_surroundings surroundings = {.directory = "/",
                                                 .out = open("/dev/null", O_WRONLY | O_CLOEXEC),
                                                 .err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
                                                 .inherits = -1};
    PSR_TRY(psr_child_start_program((char *const *)(uintptr_t)words, &surroundings, &child));
    psr_child_wait(&child);
    int status = child.status;
    psr_child_done(&child);
    if (status != 0) {
        char how[64];
        psr_child_describe(status, how, sizeof how);
        return psr_fail(PSR_ERR_IO, "%s: tar could not unpack it: %s", path, how);
    }
    if (unlink(path) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be removed", path);
    return PSR_OK;
}

static psr_err gather_authors_files(getting *g)
{
    for (int i = 0; i < PSR_KNOWN_FILES_MAX && g->set->files[i].name != NULL; i++) {
        const psr_known_file *file = &g->set->files[i];
        PSR_TRY(g->options->from != NULL ? copy_authors_file(g, file) : download_file(g, file));
        if (g->set->folder != NULL)
            PSR_TRY(unpack(g, file));
    }
    return PSR_OK;
}

/* Files as --data finds them in a folder: plain, .gz or .xz. */
static psr_err gather_data_files(getting *g)
{
    static const char *const suffixes[] = {"", ".gz", ".xz"};
    psr_location location;
    PSR_TRY(psr_location_resolve(g->options->from, &location));
    if (location.files == NULL)
        return psr_fail(PSR_ERR_USAGE, "--from %s: give the folder of its files", g->options->from);
    for (int s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < location.files->split[s].file_count; i++) {
            char path[PSR_PATH_MAX], name[128];
            size_t k = 0;
            for (; k < sizeof suffixes / sizeof *suffixes; k++) {
                snprintf(name, sizeof name, "%s%s", location.files->split[s].name[i], suffixes[k]);
                int length = snprintf(path, sizeof path, "%s/%s", g->options->from, name);
                if (length > 0 && (size_t)length < sizeof path && is_file(path))
                    break;
            }
            if (k == sizeof suffixes / sizeof *suffixes)
                return psr_fail(PSR_ERR_NOT_FOUND, "%s/%s: missing", g->options->from,
                                location.files->split[s].name[i]);
            PSR_TRY(psr_data_place_copy(&g->place, path, name, g->command->stop));
        }
    }
    return PSR_OK;
}

/* ---- the whole ---- */

/* Whether the folder holds this data set. With checksums of the user's own, or where its content is
 * not known, any that --data would take. */
static psr_err check_content(const getting *g, const char *folder)
{
    psr_content content;
    char text[PSR_CONTENT_TEXT_BYTES];
    PSR_TRY(psr_content_find(folder, NULL, NULL, &content));
    snprintf(text, sizeof text, "%s-%s", content.train, content.test);
    if (g->checksums != NULL || g->set->content[0] == '\0' || strcmp(text, g->set->content) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "%s: its samples are not those of %s: their content is %s, should be %s",
                    folder, g->set->name, text, g->set->content);
}

static psr_err gather(getting *g)
{
    if (g->options->from == NULL || has_authors_files(g))
        PSR_TRY(gather_authors_files(g));
    else
        PSR_TRY(gather_data_files(g));
    PSR_TRY(check_content(g, g->place.gathered));
    if (atomic_load(g->command->stop))
        return psr_fail(PSR_ERR_CANCELLED, "told to stop");
    PSR_TRY(psr_data_place_finish(&g->place));
    psr_print(stdout, "%s is in %s\n", g->set->name, g->place.final);
    return PSR_OK;
}

/* *ret_is: it is there already, and whole. Something else in its place is an error. */
static psr_err look_for_it(const getting *g, const char *parent, bool *ret_is)
{
    char path[PSR_PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", parent, g->set->name);
    *ret_is = lstat(path, &status) == 0;
    if (!*ret_is)
        return PSR_OK;
    psr_err err = check_content(g, path);
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_USAGE,
                                "%s is there, and is not %s; remove it, or give another --to", path,
                                g->set->name);
    psr_print(stdout, "%s is in %s already\n", g->set->name, path);
    return PSR_OK;
}

/* What an earlier download left of the set's files is kept. */
static psr_err begin_place(getting *g, const char *parent)
{
    char parts[PSR_KNOWN_FILES_MAX][PART_NAME_BYTES];
    const char *kept[2 * PSR_KNOWN_FILES_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0;
         g->options->from == NULL && i < PSR_KNOWN_FILES_MAX && g->set->files[i].name != NULL;
         i++) {
        snprintf(parts[i], sizeof parts[i], "%s%s", g->set->files[i].name, PART);
        kept[count++] = g->set->files[i].name;
        kept[count++] = parts[i];
    }
    return psr_data_place_begin(parent, g->set->name, kept, &g->place);
}

static psr_err get(getting *g)
{
    const char *parent = g->options->to != NULL ? g->options->to : g->command->user_directory;
    bool is_there = false;
    size_t size = 0;
    if (parent == NULL)
        return psr_fail(PSR_ERR_USAGE, "neither HOME nor XDG_DATA_HOME is set; give --to DIR");
    if (g->options->checksums != NULL)
        PSR_TRY(psr_file_read(g->options->checksums, CHECKSUMS_BYTES, (uint8_t **)&g->checksums,
                              &size));
    PSR_TRY(look_for_it(g, parent, &is_there));
    if (is_there)
        return PSR_OK;
    PSR_TRY(begin_place(g, parent));
    if (g->options->from == NULL)
        psr_print(stderr, "%s: from %s (%s)\n", g->set->name,
                  g->options->url != NULL ? g->options->url : g->set->base,
                  g->options->url != NULL ? "--url" : g->set->origin);
    psr_err err = gather(g);
    bool left = false;
    if (g->keeps)
        psr_data_place_leave(&g->place, &left);
    psr_data_place_done(&g->place);
    return left ? psr_fail_context(err, "what has come is kept, and the same command continues")
                : err;
}

psr_err psr_data_get(psr_data_command *command, int argc, char **argv)
{
    get_options o = {0};
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    getting g = {.command = command, .options = &o, .set = o.set, .place = {.lock = -1}};
    psr_err err = get(&g);
    free(g.checksums);
    return err;
}
