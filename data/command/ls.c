/* `psring data ls`: which data sets there are. */
#include "data/command/command.h"
#include "data/command/known.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "data/dataset.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key == ARGP_KEY_ARG)
        psr_options_refuse(state, "takes no argument");
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    NULL,
    parse,
    NULL,
    "Lists the data sets that --data knows by name, with the place where each was found, and the "
    "packs in psring's own data folder.\v"
    "Example:\n"
    "  psring data ls\n"
    "\n"
    "Exit status: 0.\n",
    NULL,
    NULL,
    NULL};

static void print_found(const char *name, const char *path)
{
    psr_dataset_info info;
    char size[64] = "different sizes";
    if (psr_dataset_info_read(path, &info) != PSR_OK) {
        psr_print(stdout, "%-14s  %s\n", name, psr_err_detail());
        return;
    }
    if (info.height > 0)
        snprintf(size, sizeof size, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, info.channels, info.height,
                 info.width);
    psr_print(stdout, "%-14s  %s, %" PRIu32 " + %" PRIu32 " pictures of %s, %" PRIu32 " classes\n",
              name, path, info.train_count, info.test_count, size, info.classes);
}

static int is_pack(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && entry->d_name[0] != '.' &&
           strcmp(entry->d_name + length - 5, ".pack") == 0;
}

static void print_packs(const char *directory)
{
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_pack, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PSR_PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (length > 0 && (size_t)length < sizeof path)
            print_found(entries[i]->d_name, path);
        free(entries[i]);
    }
    free(entries);
}

psr_err psr_data_ls(psr_data_command *command, int argc, char **argv)
{
    psr_options_parse(&argp, argc, argv, 0, NULL, NULL);
    const psr_known_set *set;
    for (size_t i = 0; (set = psr_known_set_at(i)) != NULL; i++) {
        char path[PSR_PATH_MAX];
        if (psr_dataset_find(set->name, command->user_directory, 0, path, sizeof path) == PSR_OK)
            print_found(set->name, path);
        else
            psr_print(stdout, "%-14s  not here: psring data get %s\n", set->name, set->name);
    }
    if (command->user_directory != NULL)
        print_packs(command->user_directory);
    return PSR_OK;
}
