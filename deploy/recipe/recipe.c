#include "deploy/recipe/recipe.h"

#include "base/system/file.h"
#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENDING ".recipe"
#define RECIPE_BYTES_MAX (64u << 10)
enum { RECIPES_MAX = 256, NAME_BYTES = 64 };

/* ---- the folder ---- */

/* Beside this program in the build tree, or in the data folder beside its own. */
static psr_err find_folder(char folder[PSR_PATH_MAX])
{
    static const char *const beside[] = {"recipes", "../share/psring/recipes"};
    char self[PATH_MAX];
    const ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (got < 0)
        return psr_fail(PSR_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    self[got] = '\0';
    char *slash = strrchr(self, '/');
    *(slash != NULL ? slash + 1 : self) = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char candidate[PATH_MAX + 64];
        const int length = snprintf(candidate, sizeof candidate, "%s%s", self, beside[i]);
        if (length <= 0 || length >= PSR_PATH_MAX || access(candidate, R_OK | X_OK) != 0)
            continue;
        memcpy(folder, candidate, (size_t)length + 1);
        return PSR_OK;
    }
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "--recipe: the folder of recipes is neither %s%s nor %s%s; give a file, with a "
                    "slash in its path",
                    self, beside[0], self, beside[1]);
}

static int is_recipe(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name), ending = strlen(ENDING);
    return length > ending && length < NAME_BYTES &&
           strcmp(entry->d_name + length - ending, ENDING) == 0;
}

/* Their names, sorted, without the ending. The caller frees each and the array. */
static psr_err list_names(const char *folder, struct dirent ***ret_entries, int *ret_count)
{
    const int count = scandir(folder, ret_entries, is_recipe, alphasort);
    if (count < 0)
        return psr_fail(PSR_ERR_IO, "--recipe: %s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *name = (*ret_entries)[i]->d_name;
        name[strlen(name) - strlen(ENDING)] = '\0';
    }
    *ret_count = count;
    return PSR_OK;
}

static void free_names(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static psr_err refuse_name(const char *folder, const char *recipe)
{
    struct dirent **entries = NULL;
    int count = 0;
    char names[1024] = "";
    const char *nearest = NULL;
    PSR_TRY(list_names(folder, &entries, &count));
    psr_text_end end = {names, sizeof names};
    for (int i = 0; i < count; i++) {
        psr_text_add(&end, "%s%s", i > 0 ? ", " : "", entries[i]->d_name);
        nearest = psr_nearer(recipe, nearest, entries[i]->d_name);
    }
    const psr_err err =
        psr_fail(PSR_ERR_USAGE,
                 "--recipe: there is none called '%.64s'%s%s%s; give a file, with a slash in its "
                 "path, or one of %s",
                 recipe, nearest != NULL ? " (" : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?)" : "", names);
    free_names(entries, count);
    return err;
}

/* ---- one file ---- */

/* What a file of other people may not say. */
static bool is_command_lines_alone(const char *name)
{
    static const char *const alone[] = {"out", "resume", "fault-point", "transport", "no-encrypt"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (strcmp(name, alone[i]) == 0)
            return true;
    return false;
}

static bool find_option(const char *name, psr_option_info *ret_info, bool *ret_negated)
{
    for (size_t i = 0; psr_config_option(i, ret_info); i++) {
        *ret_negated = ret_info->negatable && strncmp(name, "no-", 3) == 0 &&
                       strcmp(name + 3, ret_info->name) == 0;
        if (*ret_negated || strcmp(name, ret_info->name) == 0)
            return true;
    }
    return false;
}

static psr_err add_name(psr_recipe *recipe, const char *name)
{
    for (size_t i = 0; i < recipe->count; i++)
        if (strcmp(recipe->names[i], name) == 0)
            return psr_fail(PSR_ERR_USAGE, "--%s stands there twice", name);
    if (recipe->count == sizeof recipe->names / sizeof recipe->names[0])
        return psr_fail(PSR_ERR_USAGE, "there are more than %zu options", recipe->count);
    recipe->names[recipe->count++] = name;
    return PSR_OK;
}

/* line: without spaces around it; is changed. */
static psr_err read_line(psr_recipe *recipe, char *line)
{
    psr_option_info info;
    bool negated;
    if (strncmp(line, "--", 2) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "'%.64s' is no option; options begin with --, comments with #", line);
    char *name = line + 2, *end = name + strcspn(name, "= \t");
    const char *value = *end != '\0' ? end + 1 + strspn(end + 1, " \t") : NULL;
    *end = '\0';
    if (is_command_lines_alone(name))
        return psr_fail(PSR_ERR_USAGE, "--%s is taken from the command line alone", name);
    if (!find_option(name, &info, &negated))
        return psr_config_set(&recipe->config, name, value != NULL ? value : "");
    if (info.argument == NULL && value != NULL)
        return psr_fail(PSR_ERR_USAGE, "--%s takes no value, so leave '%.64s' out", name, value);
    if (info.argument == NULL)
        value = negated ? "false" : "true";
    if (value == NULL && info.implied == NULL)
        return psr_fail(PSR_ERR_USAGE, "--%s: its value is missing; give --%s %s", name, name,
                        info.argument);
    PSR_TRY(add_name(recipe, info.name));
    return psr_config_set(&recipe->config, info.name, value != NULL ? value : info.implied);
}

/* Cuts white space off both ends. */
static char *trimmed(char *line)
{
    line += strspn(line, " \t\r");
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL)
        line[--length] = '\0';
    return line;
}

static psr_err read_text(psr_recipe *recipe, char *text)
{
    unsigned number = 0;
    for (char *next, *line = text; line != NULL; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        line = trimmed(line);
        if (line[0] == '\0' || line[0] == '#')
            continue;
        const psr_err err = read_line(recipe, line);
        if (err != PSR_OK)
            return psr_fail_context(PSR_ERR_USAGE, "--recipe %s, line %u", recipe->path, number);
    }
    return PSR_OK;
}

/* As a string, since the file's bytes may have none of its end. The caller frees *ret_text. */
static psr_err read_file(const char *path, char **ret_text)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    const psr_err err = psr_file_read(path, RECIPE_BYTES_MAX, &bytes, &size);
    if (err != PSR_OK)
        return psr_fail_context(err, "--recipe");
    char *text = memchr(bytes, '\0', size) == NULL ? realloc(bytes, size + 1) : NULL;
    if (text == NULL) {
        free(bytes);
        return psr_fail(PSR_ERR_USAGE, "--recipe %s: not a text", path);
    }
    text[size] = '\0';
    *ret_text = text;
    return PSR_OK;
}

static psr_err find_path(const char *recipe, char path[PSR_PATH_MAX + 64])
{
    char folder[PSR_PATH_MAX];
    if (strchr(recipe, '/') != NULL) {
        if (strlen(recipe) >= PSR_PATH_MAX)
            return psr_fail(PSR_ERR_USAGE, "--recipe: a path of %zu bytes, should be below %d",
                            strlen(recipe), PSR_PATH_MAX);
        snprintf(path, PSR_PATH_MAX + 64, "%s", recipe);
        return PSR_OK;
    }
    PSR_TRY(find_folder(folder));
    const int length =
        snprintf(path, PSR_PATH_MAX + 64, "%s/%.*s" ENDING, folder, NAME_BYTES, recipe);
    if (length <= 0 || length >= PSR_PATH_MAX || access(path, F_OK) != 0)
        return refuse_name(folder, recipe);
    return PSR_OK;
}

psr_err psr_recipe_read(const char *recipe, psr_recipe *ret_recipe)
{
    char *text = NULL;
    *ret_recipe = (psr_recipe){.count = 0};
    psr_config_defaults(&ret_recipe->config);
    ret_recipe->config.workers = 0;
    PSR_TRY(find_path(recipe, ret_recipe->path));
    PSR_TRY(read_file(ret_recipe->path, &text));
    const psr_err err = read_text(ret_recipe, text);
    free(text);
    return err;
}

void psr_recipe_print(const psr_recipe *recipe, const psr_config *config, FILE *stream)
{
    psr_print(stream, "recipe %s\n", recipe->path);
    for (size_t i = 0; i < recipe->count; i++) {
        char own[PSR_OPTION_TEXT_MAX] = "", used[PSR_OPTION_TEXT_MAX] = "";
        const char *name = recipe->names[i];
        if (psr_config_get(&recipe->config, name, own, sizeof own) != PSR_OK ||
            psr_config_get(config, name, used, sizeof used) != PSR_OK)
            continue;
        if (strcmp(own, used) == 0)
            psr_print(stream, "  --%s %s\n", name, own);
        else
            psr_print(stream, "  --%s %s, on the command line %s\n", name, own, used);
    }
    fflush(stream); /* what others write to its descriptor follows */
}

/* ---- the list ---- */

/* The comment of the first line. */
static void title_of(const char *path, char *title, size_t size)
{
    char *text = NULL;
    title[0] = '\0';
    if (read_file(path, &text) != PSR_OK)
        return;
    text[strcspn(text, "\n")] = '\0';
    if (text[0] == '#')
        snprintf(title, size, "%s", trimmed(text + 1));
    free(text);
}

psr_err psr_recipe_list(FILE *stream)
{
    char folder[PSR_PATH_MAX];
    struct dirent **entries = NULL;
    int count = 0;
    PSR_TRY(find_folder(folder));
    PSR_TRY(list_names(folder, &entries, &count));
    for (int i = 0; i < count; i++) {
        char path[PSR_PATH_MAX + 512], title[128];
        snprintf(path, sizeof path, "%s/%s" ENDING, folder, entries[i]->d_name);
        title_of(path, title, sizeof title);
        psr_print(stream, "%-22s %s\n", entries[i]->d_name, title);
    }
    free_names(entries, count);
    return PSR_OK;
}
