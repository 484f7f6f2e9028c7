/* Prints the name of every option of the table that is not hidden, one per line; with --words, of
 * those whose value is a word of a list the words that a user is offered behind it. */
#include "base/config/config.h"

#include <stdio.h>
#include <string.h>

static bool is_unlisted(const psr_option_info *info, const char *word)
{
    for (const char *const *u = info->unlisted; u != NULL && *u != NULL; u++)
        if (strcmp(*u, word) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    psr_option_info info;
    bool words = argc > 1 && strcmp(argv[1], "--words") == 0;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        if (info.hidden || (words && info.words == NULL))
            continue;
        printf("%s", info.name);
        for (size_t w = 0; words && info.words[w] != NULL; w++)
            if (!is_unlisted(&info, info.words[w]))
                printf(" %s", info.words[w]);
        putchar('\n');
    }
    return 0;
}
