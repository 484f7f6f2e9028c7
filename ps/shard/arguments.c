#include "ps/shard/arguments.h"

#include "base/config/options_argp.h"

#define SHARDS_MAX 256

enum {
    OPTION_PROVISION = 0x100,
    OPTION_SCHEDULER,
    OPTION_KEY_FILE,
    OPTION_KEYS,
    OPTION_RANK,
    OPTION_INTERFACE
};

static const struct argp_option options[] = {
    {"provision", OPTION_PROVISION, "-", 0,
     "read keys, rank and the scheduler's endpoint as one line of JSON from standard input", 0},
    {"scheduler", OPTION_SCHEDULER, "HOST:PORT|SOCKET", 0, "where the scheduler listens", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0,
     "this shard's keys, or with --rank the keys that all share (psring keygen)", 0},
    {"keys", OPTION_KEYS, "DIR", 0,
     "the folder that psring keygen wrote; --rank says which of its files is this one's", 0},
    {"rank", OPTION_RANK, "N", 0, "the shard to be; default: any", 0},
    {"interface", OPTION_INTERFACE, "ADDRESS", 0,
     "address or interface to listen on; default: 127.0.0.1", 0},
    {0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    psr_shard_arguments *a = state->input;
    switch (key) {
    case OPTION_PROVISION:
        psr_options_check_provision(state, text);
        a->provisioned = true;
        return 0;
    case OPTION_SCHEDULER:
        a->scheduler = text;
        return 0;
    case OPTION_KEY_FILE:
    case OPTION_KEYS:
        psr_options_set_keys(state, &a->keys, text);
        return 0;
    case OPTION_RANK:
        a->rank = (uint32_t)psr_options_number(state, "rank", text, 0, SHARDS_MAX - 1);
        return 0;
    case OPTION_INTERFACE:
        a->interface = text;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "takes options alone; see --help");
        return 0;
    case ARGP_KEY_END:
        if (a->provisioned && (a->scheduler != NULL || a->keys != NULL || a->interface != NULL ||
                               a->rank != UINT32_MAX))
            psr_options_refuse(
                state,
                "--provision already tells scheduler, keys and rank; leave the other options out");
        if (!a->provisioned && (a->scheduler == NULL || a->keys == NULL))
            psr_options_refuse(state, "give --scheduler HOST:PORT (or its socket) and --key-file "
                                      "FILE or --keys DIR (psring train starts shards by itself)");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "One shard of a run: holds a part of the parameters, sums what workers push, updates, answers. "
    "Its configuration comes from the scheduler.\vExample, by hand (psring keygen --help has all "
    "of a run):\n"
    "  psring-ps --keys keys --rank 0 --scheduler 127.0.0.1:4100\n"
    "\n"
    "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the\n"
    "protocol.\n";

void psr_shard_arguments_parse(int argc, char **argv, psr_shard_arguments *ret_arguments)
{
    static const struct argp parser = {.options = options, .parser = parse_option, .doc = doc};
    psr_shard_arguments a = {.rank = UINT32_MAX};
    psr_options_parse(&parser, argc, argv, 0, NULL, &a);
    *ret_arguments = a;
}

/* ---- psring-ps serve ---- */

enum { OPTION_PARENT = 0x200 };

static const struct argp_option serve_options[] = {
    {"parent", OPTION_PARENT, "PID", 0,
     "end when the process that started this one, PID, ends in whatever way", 0},
    {0},
};

static error_t parse_serve(int key, char *text, struct argp_state *state)
{
    psr_serve_arguments *a = state->input;
    switch (key) {
    case OPTION_PARENT:
        a->parent = (int32_t)psr_options_number(state, "parent", text, 1, INT32_MAX);
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "takes options alone; psring run --shards starts it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char serve_doc[] =
    "One shard of a program's tables. psring run --shards S starts S of them beside the program's "
    "ranks. Started by hand it takes its rank and its scheduler from the environment, as the ranks "
    "do. It ends when they have ended.\vExamples:\n"
    "  psring run -n 4 --shards 1 -- ./program\n"
    "  PSRING_RANKS=5 PSRING_SHARDS=1 PSRING_RANK=4 PSRING_SCHEDULER=10.0.0.1:4100 \\\n"
    "    PSRING_KEY_FILE=key psring-ps serve\n"
    "  psring-ps serve --parent $$        (in a script that exports these variables)\n"
    "\n"
    "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the\n"
    "protocol.\n";

void psr_serve_arguments_parse(int argc, char **argv, psr_serve_arguments *ret_arguments)
{
    static const struct argp parser = {
        .options = serve_options, .parser = parse_serve, .doc = serve_doc};
    static char name[] = "psring-ps serve";
    psr_serve_arguments a = {.parent = 0};
    argv[0] = name;
    psr_options_parse(&parser, argc, argv, 0, NULL, &a);
    *ret_arguments = a;
}
