#include "deploy/bench/places.h"

#include "base/text/printable.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MORE 16 /* that a benchmark adds to the user's */

/* Options of `psring run` that say where the ranks are. Each has a value but the last. */
static const char *const places[] = {"--hostfile",  "-H",    "--map-by",        "--bind-to",  "-x",
                                     "--interface", "--ssh", "--remote-psring", "--transport"};
static const char report_bindings[] = "--report-bindings";
static const char *const counts[] = {"--ranks", "-n"};

psr_err psr_bench_words_init(psr_bench_words *ret_words, int argc)
{
    const char **words = calloc((size_t)argc + WORDS_MORE, sizeof *words);
    if (words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %d words", argc);
    *ret_words = (psr_bench_words){words, 0};
    return PSR_OK;
}

void psr_bench_words_add(psr_bench_words *words, const char *word)
{
    words->words[words->count++] = word;
}

void psr_bench_words_done(psr_bench_words *words)
{
    free(words->words);
    *words = (psr_bench_words){0};
}

int psr_bench_option_words(const char *word, const char *option)
{
    const size_t length = strlen(option);
    if (strcmp(word, option) == 0)
        return 2;
    /* --name=VALUE, -nVALUE */
    return strncmp(word, option, length) == 0 && (option[1] != '-' || word[length] == '=');
}

static int words_of(const char *word, const char *const *list, size_t count)
{
    int words = 0;
    for (size_t i = 0; i < count && words == 0; i++)
        words = psr_bench_option_words(word, list[i]);
    return words;
}

int psr_bench_place_words(const char *word)
{
    return strcmp(word, report_bindings) == 0
               ? 1
               : words_of(word, places, sizeof places / sizeof *places);
}

const char *psr_bench_value(const char *const *words, const char *option)
{
    const char *value = NULL;
    for (size_t i = 0; words[i] != NULL; i++) {
        const int taken = psr_bench_option_words(words[i], option);
        if (taken == 2)
            value = words[i + 1];
        else if (taken == 1)
            value = words[i] + strlen(option) + (words[i][strlen(option)] == '=');
    }
    return value;
}

char *psr_bench_unquote(const char *ssh)
{
    char *way = strdup(ssh), *to = way;
    if (way == NULL)
        return NULL;
    for (const char *at = way; *at != '\0'; at++)
        if (*at != '\'' && *at != '"')
            *to++ = *at;
    *to = '\0';
    return way;
}

bool psr_bench_divide(int argc, char **argv, psr_bench_words *run, psr_bench_words *own,
                      bool *ret_placed)
{
    bool placed = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-np") == 0) /* as mpirun is given it */
            argv[i][2] = '\0';
        placed = placed || psr_bench_place_words(argv[i]) > 0;
    }
    for (int i = 0, count = 0; i < argc; i += count) {
        count = psr_bench_place_words(argv[i]);
        if (count == 0 && placed)
            count = words_of(argv[i], counts, sizeof counts / sizeof *counts);
        if (i + count > argc)
            return false;
        psr_bench_words *to = count > 0 ? run : own;
        count += count == 0;
        for (int k = i; k < i + count; k++)
            psr_bench_words_add(to, argv[k]);
    }
    *ret_placed = placed;
    return true;
}

void psr_bench_places_print(FILE *to)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        psr_print(to, " %s%s", places[i], places[i][1] == '-' ? "=" : "");
    psr_print(to, " %s", report_bindings);
}

int psr_bench_start(const char *path, const psr_bench_words *command)
{
    execv(path, (char **)(uintptr_t)command->words);
    psr_print(stderr, "psring bench: %s: %s\n", path, strerror(errno));
    return 1;
}
