/* `psring bench WHAT`: starts the program psring-bench-WHAT, which lies beside this one; on the
 * hosts of a hostfile by `psring run`. */
#include "deploy/bench/exchange.h"
#include "deploy/bench/places.h"
#include "deploy/bench_train/bench_train.h"
#include "deploy/commands.h"
#include "deploy/subcommands.h"

#include "base/system/child.h"
#include "base/text/printable.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int run_benchmark(int argc, char **argv);
static int run_train(int argc, char **argv);

static const psr_subcommand rows[] = {
    {"comm", "the library's operations: latency and bandwidth of each size, all values checked",
     run_benchmark},
    {"exchange", "the exchange of gradients and weights alone, beside Gloo, Open MPI and MXNet",
     psr_bench_exchange},
    {"train", "training in each architecture: which is fastest, with how many shards, and why",
     run_train},
};
static const psr_subcommands benchmarks = {rows, sizeof rows / sizeof *rows, "psring-bench-"};

static const char places_help[] =
    "Without more, everything runs on this machine. With --hostfile FILE or -H HOST:N,HOST:N "
    "it runs there. --map-by, --bind-to, --report-bindings, -x, --interface, --ssh, "
    "--remote-psring and -n N (how many; default: one for each slot) are taken too. comm and "
    "exchange are started by `psring run` and must lie at the same path on every host; train's "
    "runs are started by `psring train`. exchange and train take --ps-hostfile FILE: hosts of "
    "their own for the shards. On emulated hosts: psring lab run LAB -- bench WHAT ...\n";

static const char example[] = "  psring bench comm -n 2 --operation all_reduce\n"
                              "  psring bench exchange --mode ring --model resnet50 -n 2\n"
                              "  psring bench exchange -n 2 -b 64K -e 64M --gloo python3\n"
                              "  psring bench exchange --hostfile hosts --mode ps -b 16M\n"
                              "  psring bench train --model resnet20 --shards 1,2\n"
                              "  psring bench train --hostfile hosts --link 1Gbit\n"
                              "  psring lab run LAB -- bench train --seconds 10\n";

static void complete_places(FILE *to)
{
    psr_print(to, "_psring_places='");
    psr_bench_places_print(to);
    psr_print(to, "'\n");
}

/* Returns only if the program could not be started. */
static int start_divided(const char *path, const char *self, const char *title, int argc,
                         char **argv, psr_bench_words *run, psr_bench_words *own)
{
    bool placed = false;
    psr_bench_words_add(run, self);
    psr_bench_words_add(run, "run");
    psr_bench_words_add(own, title);
    if (!psr_bench_divide(argc, argv, run, own, &placed)) {
        psr_print(stderr, "%s: %s needs a value\n", title, argv[argc - 1]);
        return 2;
    }
    if (!placed)
        return psr_bench_start(path, own);
    psr_bench_words_add(run, "--");
    psr_bench_words_add(run, path);
    for (size_t i = 1; i < own->count; i++)
        psr_bench_words_add(run, own->words[i]);
    return psr_bench_start(self, run);
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
    psr_bench_words run = {0}, own = {0};
    int status = 1;
    if (psr_bench_words_init(&run, argc) == PSR_OK && psr_bench_words_init(&own, argc) == PSR_OK)
        status = start_divided(path, self, title, argc - 1, argv + 1, &run, &own);
    else
        psr_print(stderr, "psring bench: %s\n", psr_err_detail());
    psr_bench_words_done(&run);
    psr_bench_words_done(&own);
    return status;
}

/* `psring train` starts the runs, and takes the places itself. */
static int run_train(int argc, char **argv)
{
    psr_bench_words where = {0}, own = {0};
    int status = 1;
    if (psr_bench_words_init(&where, argc) != PSR_OK ||
        psr_bench_words_init(&own, argc) != PSR_OK) {
        psr_print(stderr, "psring bench train: %s\n", psr_err_detail());
    } else {
        psr_bench_words_add(&own, "psring bench train");
        for (int i = 1, count = 0; i < argc; i += count) {
            const int placed = psr_bench_place_words(argv[i]);
            count = placed > 0 && i + placed <= argc ? placed : 1;
            for (int k = i; k < i + count; k++)
                psr_bench_words_add(placed > 0 ? &where : &own, argv[k]);
        }
        status = psr_bench_train((int)own.count, (char **)(uintptr_t)own.words, where.words);
    }
    psr_bench_words_done(&where);
    psr_bench_words_done(&own);
    return status;
}

int psr_command_bench(int argc, char **argv)
{
    static const psr_front_door door = {
        .list = &benchmarks,
        .program = "psring bench",
        .title = "Measures psring on this machine or on others",
        .heading = "Measures",
        .man_heading = "MEASUREMENTS",
        .kind = "a measurement",
        .about = places_help,
        .rest = "the other options",
        .example = example,
        .others = "psring psring-run",
        .complete = complete_places,
    };
    return psr_front_door_run(&door, argc, argv);
}
