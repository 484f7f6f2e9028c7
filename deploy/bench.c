/* `psring bench WHAT`: starts the program psring-bench-WHAT, which lies beside this one; on the
 * hosts of a hostfile by `psring run`. */
#include "deploy/bench_train/bench_train.h"
#include "deploy/commands.h"
#include "deploy/subcommands.h"

#include "base/system/child.h"
#include "base/config/describe.h"
#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/text/printable.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_benchmark(int argc, char **argv);
static int run_exchange(int argc, char **argv);
static int run_train(int argc, char **argv);

static const psr_subcommand rows[] = {
    {"comm", "the library's operations: latency and bandwidth of each size, all values checked",
     run_benchmark},
    {"exchange",
     "the exchange of gradients and weights alone, on this machine, beside Gloo, Open MPI, MXNet",
     run_exchange},
    {"train", "training in each architecture: which is fastest, with how many shards, and why",
     run_train},
};
static const psr_subcommands benchmarks = {rows, sizeof rows / sizeof *rows, "psring-bench-"};

/* Options of `psring run` that say where the ranks are. Each has a value but the last. */
static const char *const places[] = {"--hostfile",  "-H",    "--map-by",        "--bind-to",  "-x",
                                     "--interface", "--ssh", "--remote-psring", "--transport"};
static const char report_bindings[] = "--report-bindings";
static const char *const counts[] = {"--ranks", "-n"};

static const char places_help[] =
    "comm: without more, ranks are started on this machine. With --hostfile FILE or -H "
    "HOST:N,HOST:N "
    "`psring run` starts them there; it takes --map-by, --bind-to, --report-bindings, -x, "
    "--interface, --ssh, --remote-psring and --transport too, and -n N: how many (default: one for "
    "each slot). The program must lie at the same path on every host. train: `psring train` starts "
    "its runs, on the hosts that the same options name.\n";

static const char example[] = "  psring bench comm -n 2 --operation all_reduce\n"
                              "  psring bench train --model resnet20 --shards 1,2\n";

static void usage(FILE *to)
{
    psr_print(to, "Usage: psring bench WHAT [OPTION...]\n\nMeasures:\n");
    psr_subcommands_help(&benchmarks, to);
    psr_print(to, "\n");
    psr_help_wrap(to, places_help, 0, 0);
    psr_print(to, "\n");
    psr_help_wrap(to, "`psring bench WHAT --help` tells the other options. For a start:", 0, 0);
    psr_print(to, "%s", example);
}

/* For those who build psring. */
static void print_manual(const char *date)
{
    psr_manual_begin(stdout, "psring bench", "Measures psring on this machine or on others", date);
    psr_manual_section(stdout, "SYNOPSIS");
    psr_manual_synopsis(stdout, "psring bench", "WHAT [OPTION...]");
    psr_manual_section(stdout, "DESCRIPTION");
    psr_manual_text(stdout, places_help, strlen(places_help));
    psr_subcommands_manual(&benchmarks, "MEASUREMENTS", stdout);
    psr_manual_section(stdout, "EXAMPLES");
    psr_manual_text(stdout, example, strlen(example));
    psr_subcommands_see_also(&benchmarks, "psring psring-run", stdout);
}

static void print_completion(void)
{
    psr_subcommands_completion(&benchmarks, "psring bench", "--help", stdout);
    psr_print(stdout, "_psring_places='");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        psr_print(stdout, " %s%s", places[i], places[i][1] == '-' ? "=" : "");
    psr_print(stdout, " %s'\n", report_bindings);
}

/* How many words the option takes; 0: it is not in the list. */
static int words_of(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(list[i]);
        if (strcmp(word, list[i]) == 0)
            return 2;
        if (strncmp(word, list[i], length) == 0 && (list[i][1] != '-' || word[length] == '='))
            return 1; /* --name=VALUE, -nVALUE */
    }
    return 0;
}

static int words_of_place(const char *word)
{
    return strcmp(word, report_bindings) == 0
               ? 1
               : words_of(word, places, sizeof places / sizeof *places);
}

typedef struct words {
    const char **words; /* room for all */
    size_t count;
} words;

static void add(words *w, const char *const *from, int count)
{
    for (int i = 0; i < count; i++)
        w->words[w->count++] = from[i];
}

/* false: the last option lacks its value. */
static bool divide(int argc, char **argv, words *run, words *program, bool *ret_placed)
{
    bool placed = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-np") == 0) /* as mpirun is given it */
            argv[i][2] = '\0';
        placed = placed || words_of_place(argv[i]) > 0;
    }
    for (int i = 0, count = 0; i < argc; i += count) {
        count = words_of_place(argv[i]);
        if (count == 0 && placed)
            count = words_of(argv[i], counts, sizeof counts / sizeof *counts);
        if (i + count > argc)
            return false;
        add(count > 0 ? run : program, (const char *const *)argv + i, count > 0 ? count : 1);
        count += count == 0;
    }
    *ret_placed = placed;
    return true;
}

static int start(const char *path, char **command)
{
    execv(path, command);
    psr_print(stderr, "psring bench: %s: %s\n", path, strerror(errno));
    return 1;
}

/* Returns only if the program could not be started. */
static int start_divided(const char *path, const char *self, const char *title, int argc,
                         char **argv, words *run, words *own)
{
    bool placed = false;
    add(run, (const char *[]){self, "run"}, 2);
    add(own, (const char *[]){title}, 1);
    if (!divide(argc, argv, run, own, &placed)) {
        psr_print(stderr, "%s: %s needs a value\n", title, argv[argc - 1]);
        return 2;
    }
    if (!placed)
        return start(path, (char **)(uintptr_t)own->words);
    add(run, (const char *[]){"--", path}, 2);
    add(run, own->words + 1, (int)own->count - 1);
    return start(self, (char **)(uintptr_t)run->words);
}

static int run_benchmark(int argc, char **argv)
{
    char path[PATH_MAX], self[PATH_MAX], program[64], title[64];
    snprintf(program, sizeof program, "%s%s", benchmarks.pages, argv[0]);
    snprintf(title, sizeof title, "psring bench %s", argv[0]);
    if (psr_program_path(program, path, sizeof path) != PSR_OK ||
        psr_program_path("psring", self, sizeof self) != PSR_OK) {
        psr_print(stderr, "psring bench: %s\n", psr_err_detail());
        return 1;
    }
    const size_t room = (size_t)argc + 8;
    words run = {calloc(room, sizeof *run.words), 0}, own = {calloc(room, sizeof *own.words), 0};
    int status = 1;
    if (run.words != NULL && own.words != NULL)
        status = start_divided(path, self, title, argc - 1, argv + 1, &run, &own);
    else
        psr_print(stderr, "psring bench: no memory for %d words\n", argc);
    free(run.words);
    free(own.words);
    return status;
}

/* Its processes are on this machine alone, and --transport is the exchange's own. */
static int run_exchange(int argc, char **argv)
{
    static char title[] = "psring bench exchange";
    char path[PATH_MAX];
    (void)argc;
    if (psr_program_path("psring-bench-exchange", path, sizeof path) != PSR_OK) {
        psr_print(stderr, "psring bench: %s\n", psr_err_detail());
        return 1;
    }
    argv[0] = title;
    return start(path, argv);
}

/* `psring train` starts the runs, and takes the places itself. */
static int run_train(int argc, char **argv)
{
    const size_t room = (size_t)argc + 2;
    words where = {calloc(room, sizeof *where.words), 0},
          own = {calloc(room, sizeof *own.words), 0};
    int status = 1;
    if (where.words == NULL || own.words == NULL) {
        psr_print(stderr, "psring bench train: no memory for %d words\n", argc);
    } else {
        add(&own, (const char *[]){"psring bench train"}, 1);
        for (int i = 1, count = 0; i < argc; i += count) {
            const int placed = words_of_place(argv[i]);
            count = placed > 0 && i + placed <= argc ? placed : 1;
            add(placed > 0 ? &where : &own, (const char *const *)argv + i, count);
        }
        status = psr_bench_train((int)own.count, (char **)(uintptr_t)own.words, where.words);
    }
    free(where.words);
    free(own.words);
    return status;
}

int psr_command_bench(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    const char *date = NULL;
    psr_describe_kind described = psr_describe_asked(argc, argv, &date);
    if (described == PSR_DESCRIBE_MANUAL)
        print_manual(date);
    if (described == PSR_DESCRIBE_COMPLETION)
        print_completion();
    if (described != PSR_DESCRIBE_NOTHING)
        return 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "-?") == 0) {
        usage(stdout);
        return 0;
    }
    const psr_subcommand *found = psr_subcommands_find(&benchmarks, argv[1]);
    if (found != NULL)
        return found->run(argc - 1, argv + 1);
    psr_print(stderr, "psring bench: there is no measurement '%s'\n", argv[1]);
    usage(stderr);
    return 2;
}
