#include "base/member_arguments.h"

#include "base/options_argp.h"

#include <stdlib.h>

enum {
    OPTION_PROVISION = 0x100,
    OPTION_SCHEDULER,
    OPTION_KEY_FILE,
    OPTION_KEYS,
    OPTION_RANK,
    OPTION_INTERFACE
};

typedef struct parse {
    const psr_member_words *words;
    psr_member_arguments arguments;
} parse;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    psr_member_arguments *a = &p->arguments;
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
    case OPTION_RANK: {
        char *end;
        unsigned long rank = strtoul(text, &end, 10);
        if (end == text || *end != '\0' || text[0] == '-' || rank >= p->words->ranks)
            psr_options_refuse(state, p->words->rank_range);
        a->rank = (uint32_t)rank;
        return 0;
    }
    case OPTION_INTERFACE:
        a->interface = text;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "takes options alone; see --help");
        return 0;
    case ARGP_KEY_END:
        if (a->provisioned && (a->scheduler || a->keys || a->interface || a->rank != UINT32_MAX))
            psr_options_refuse(
                state, "--provision already tells scheduler, keys and rank; leave the other options out");
        if (!a->provisioned && (!a->scheduler || !a->keys))
            psr_options_refuse(state, p->words->neither);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void psr_member_arguments_parse(const psr_member_words *words, int argc, char **argv,
                                psr_member_arguments *ret_arguments)
{
    const struct argp_option options[] = {
        {"provision", OPTION_PROVISION, "-", 0,
         "read keys, rank and the scheduler's endpoint as one line of JSON from standard input", 0},
        {"scheduler", OPTION_SCHEDULER, "HOST:PORT|SOCKET", 0, "where the scheduler listens", 0},
        {"key-file", OPTION_KEY_FILE, "FILE", 0, words->key_file, 0},
        {"keys", OPTION_KEYS, "DIR", 0,
         "the folder that psring keygen wrote; --rank says which of its files is this one's", 0},
        {"rank", OPTION_RANK, "N", 0, words->rank, 0},
        {"interface", OPTION_INTERFACE, "ADDRESS", 0, "address or interface to listen on; default: 127.0.0.1",
         0},
        {0},
    };
    const struct argp parser = {.options = options, .parser = parse_option, .doc = words->doc};
    parse p = {.words = words, .arguments = {.rank = UINT32_MAX}};
    psr_options_parse(&parser, argc, argv, 0, NULL, &p);
    *ret_arguments = p.arguments;
}
