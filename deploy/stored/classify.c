/* `psring classify`: the command line. psring-worker does the work
 * (worker/stored/stored_commands.h). */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "deploy/agent/program.h"
#include "deploy/stored/stored_words.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_TOP = 1000, KEY_JSON, KEY_THREADS, KEY_BATCH_SIZE, OWN_WORDS = 7 };

typedef struct classify {
    char **names; /* the checkpoint, then the pictures; room for all words of the command line */
    size_t count;
    bool as_json;
    uint32_t top, threads, batch_size;
} classify;

static const struct argp_option options[] = {
    {"top", KEY_TOP, "K", 0, "how many classes are told of each picture (default 5)", 0},
    {"json", KEY_JSON, NULL, 0, "one JSON object a picture and line, for programs", 0},
    {"threads", KEY_THREADS, "N", 0, PSR_STORED_THREADS_HELP, 0},
    {"batch-size", KEY_BATCH_SIZE, "N", 0, "pictures at a time (default 32)", 0},
    {0}};

static const char doc[] =
    "Says what is in pictures: the most likely classes that a trained network finds in each, with "
    "their shares (softmax), numbers and names. A picture is a JPEG or PNG file of any size. It "
    "goes through what the run's evaluation did with its pictures, and is normalised as there; "
    "where these had all one size, it is first resized until its shorter side fits and cut from "
    "the middle.\v" PSR_STORED_CKPT " Class names are those of the training data.\n"
    "\n"
    "Examples:\n"
    "  psring classify psring-runs/A cat.jpg dog.png\n"
    "  psring classify psring-runs/A --top 1 --json *.jpg\n"
    "\n"
    "Exit status: 0 done; 1 it failed; 2 bad input. A file that is no picture is named, the others "
    "go on, and the status is 2.\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    classify *c = state->input;
    switch (key) {
    case KEY_TOP:
        c->top = (uint32_t)psr_options_number(state, "top", arg, 1, 65536);
        return 0;
    case KEY_JSON:
        c->as_json = true;
        return 0;
    case KEY_THREADS:
        c->threads = (uint32_t)psr_options_number(state, "threads", arg, 1, PSR_STORED_THREADS_MAX);
        return 0;
    case KEY_BATCH_SIZE:
        c->batch_size = (uint32_t)psr_options_number(state, "batch-size", arg, 1, 65536);
        return 0;
    case ARGP_KEY_ARG:
        c->names[c->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->count == 0)
            psr_options_refuse(state, PSR_STORED_NO_CKPT);
        if (c->count == 1)
            psr_options_refuse(state, "no picture is named; give JPEG or PNG files");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Returns only if it fails. */
static psr_err become_worker(const classify *c)
{
    static char program[] = "psring-worker", command[] = "classify";
    static char lines[] = "lines", json[] = "json";
    char top[16], threads[16], batch_size[16];
    snprintf(top, sizeof top, "%" PRIu32, c->top);
    snprintf(threads, sizeof threads, "%" PRIu32, psr_stored_threads(c->threads));
    snprintf(batch_size, sizeof batch_size, "%" PRIu32, c->batch_size);
    char **words = calloc(OWN_WORDS + c->count + 1, sizeof *words);
    if (words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu words", c->count);
    char *const own[OWN_WORDS] = {program, command,   c->names[0], top, c->as_json ? json : lines,
                                  threads, batch_size};
    for (size_t i = 0; i < OWN_WORDS; i++)
        words[i] = own[i];
    for (size_t i = 1; i < c->count; i++)
        words[OWN_WORDS + i - 1] = c->names[i];
    const psr_err err = psr_program_become("psring-worker", words);
    free(words);
    return err;
}

int psr_command_classify(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "CKPT IMAGE...", doc, NULL, NULL, NULL};
    classify c = {.names = calloc((size_t)argc + 1, sizeof *c.names), .top = 5, .batch_size = 32};
    psr_err err =
        c.names != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %d words", argc);
    if (err == PSR_OK) {
        psr_options_parse(&argp, argc, argv, 0, NULL, &c);
        err = become_worker(&c);
    }
    psr_print(stderr, "%s: %s\n", argv[0], psr_err_detail());
    free(c.names);
    return psr_err_exit_status(err);
}
