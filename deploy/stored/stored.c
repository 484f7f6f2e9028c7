/* `psring inspect`, `psring export`, `psring eval`: the command lines. psring-worker, which links
 * checkpoints, data and kernels, does the work (worker/stored/stored_commands.h). */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "deploy/agent/program.h"
#include "deploy/stored/stored_words.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KEY_TO = 1000, KEY_DATA, KEY_THREADS, KEY_BATCH_SIZE, NAMES_MAX = 2 };

typedef struct stored {
    const char *names[NAMES_MAX];
    size_t count, least, most;
    const char *to, *output; /* export */
    const char *data;        /* eval; "": the run's own */
    uint32_t threads, batch_size;
} stored;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    stored *s = state->input;
    switch (key) {
    case KEY_TO:
        if (strcmp(arg, "onnx") != 0 && strcmp(arg, "safetensors") != 0)
            psr_options_refuse_format(state, "--to: '%.64s' is not known; give onnx or safetensors",
                                      arg);
        s->to = arg;
        return 0;
    case 'o':
        s->output = arg;
        return 0;
    case KEY_DATA:
        s->data = arg;
        return 0;
    case KEY_THREADS:
        s->threads = (uint32_t)psr_options_number(state, "threads", arg, 1, PSR_STORED_THREADS_MAX);
        return 0;
    case KEY_BATCH_SIZE:
        s->batch_size = (uint32_t)psr_options_number(state, "batch-size", arg, 1, 65536);
        return 0;
    case ARGP_KEY_ARG:
        if (s->count == s->most)
            psr_options_refuse_format(state, "'%.64s' is one checkpoint too many", arg);
        s->names[s->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (s->count < s->least)
            psr_options_refuse(state, PSR_STORED_NO_CKPT);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* words: after the program's own, NULL-terminated. Returns only if it fails: the exit status. */
static int become_worker(const char *command, char *const *words)
{
    const psr_err err = psr_program_become("psring-worker", words);
    psr_print(stderr, "%s: %s\n", command, psr_err_detail());
    return psr_err_exit_status(err);
}

/* execv takes no const, and changes nothing. */
static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

#define CKPT PSR_STORED_CKPT " Every checksum is verified."

/* ---- inspect ---- */

static const char inspect_doc[] =
    "Shows a checkpoint: what its metadata say, and each tensor's type, shape, L2 norm and "
    "checksum (XXH3-64). With two: the tensors in which they differ, in how many values and by "
    "how much at most.\v" CKPT " Norms are summed in double.\n"
    "\n"
    "Examples:\n"
    "  psring inspect psring-runs/A\n"
    "  psring inspect ps/checkpoints/step-20 ring/checkpoints/step-20\n"
    "\n"
    "Exit status: 0; with two 1 where a tensor differs; 2 when one cannot be read.\n";

int psr_command_inspect(int argc, char **argv)
{
    static const struct argp_option none[] = {{0}};
    static const struct argp argp = {none, parse, "CKPT [CKPT]", inspect_doc, NULL, NULL, NULL};
    stored s = {.least = 1, .most = 2};
    psr_options_parse(&argp, argc, argv, 0, NULL, &s);
    char *words[] = {word("psring-worker"), word("inspect"), word(s.names[0]), word(s.names[1]),
                     NULL};
    return become_worker(argv[0], words);
}

/* ---- export ---- */

static const struct argp_option export_options[] = {
    {"to", KEY_TO, "onnx|safetensors", 0, "the format", 0},
    {"output", 'o', "FILE", 0, "the file, which is replaced", 0},
    {0}};

static const char export_doc[] =
    "Writes a trained network for other programs. onnx: a model for inference, which takes images "
    "of pixels from 0 to 1 (float32, N x C x H x W) and normalises them itself; its output is "
    "called logits. safetensors: weights and batch-norm statistics under torchvision's names, "
    "without the state of training.\v" CKPT " The network is built from the checkpoint's "
    "metadata; a node that the format cannot have is refused by name.\n"
    "\n"
    "Examples:\n"
    "  psring export psring-runs/A --to onnx -o model.onnx\n"
    "  psring export psring-runs/A --to safetensors -o model.safetensors\n"
    "\n"
    "Exit status: 0 done; 1 the file cannot be written; 2 bad input.\n";

int psr_command_export(int argc, char **argv)
{
    static const struct argp argp = {export_options, parse, "CKPT", export_doc, NULL, NULL, NULL};
    stored s = {.least = 1, .most = 1};
    psr_options_parse(&argp, argc, argv, 0, NULL, &s);
    if (s.to == NULL || s.output == NULL) {
        psr_print(stderr, "%s: give --to onnx or --to safetensors, and -o FILE\n", argv[0]);
        return psr_err_exit_status(PSR_ERR_USAGE);
    }
    char *words[] = {
        word("psring-worker"), word("export"), word(s.names[0]), word(s.to), word(s.output), NULL};
    return become_worker(argv[0], words);
}

/* ---- eval ---- */

static const struct argp_option eval_options[] = {
    {"data", KEY_DATA, "DIR", 0,
     "whose test split is taken, as psring train's --data; default: the run's own", 0},
    {"threads", KEY_THREADS, "N", 0, PSR_STORED_THREADS_HELP, 0},
    {"batch-size", KEY_BATCH_SIZE, "N", 0, "samples at a time (default 100)", 0},
    {0}};

static const char eval_doc[] =
    "Evaluates a checkpoint on a test split, each sample once. Pixels are normalised as in the run "
    "that trained it. The last line is 'Test set: Average loss: 0.0561, Accuracy: 98.21%'.\v" CKPT
    "\n"
    "\n"
    "Examples:\n"
    "  psring eval psring-runs/A\n"
    "  psring eval psring-runs/A --data /data/mnist\n"
    "\n"
    "Exit status: 0 done; 1 it failed; 2 bad input.\n";

int psr_command_eval(int argc, char **argv)
{
    static const struct argp argp = {eval_options, parse, "CKPT", eval_doc, NULL, NULL, NULL};
    stored s = {.least = 1, .most = 1, .data = "", .batch_size = 100};
    char threads[16], batch_size[16];
    psr_options_parse(&argp, argc, argv, 0, NULL, &s);
    snprintf(threads, sizeof threads, "%" PRIu32, psr_stored_threads(s.threads));
    snprintf(batch_size, sizeof batch_size, "%" PRIu32, s.batch_size);
    char *words[] = {word("psring-worker"),
                     word("eval"),
                     word(s.names[0]),
                     word(s.data),
                     threads,
                     batch_size,
                     NULL};
    return become_worker(argv[0], words);
}
