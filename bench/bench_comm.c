/* The library's operations measured as nccl-tests measures NCCL's: a line for each operation and
 * size, all results checked. Measures with what a program of a user has, psring/psring.h and
 * libpsring. docs/figures.md defines the columns. */
#include "base/config/options_argp.h"
#include "base/text/text.h"
#include "bench/collectives/local_ranks.h"
#include "bench/collectives/measure.h"
#include "bench/collectives/table.h"
#include "bench/collectives/values.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOCAL_RANKS = 256 };

typedef struct settings {
    size_t least_bytes, most_bytes, factor;
    uint32_t warmup, iterations;
    int local_ranks;                    /* 0: not said */
    bool shared;                        /* the arrays lie in memory that is shared */
    const char *operations, *algorithm; /* NULL: all, the library's choice */
    const char *encoding;               /* NULL: none */
    psring_type type;
    psring_op op;
    int root;
    bench_format format;
} settings;

/* ---- the command line ---- */

static const struct argp_option options[] = {
    {"begin", 'b', "BYTES", 0, "smallest size; suffixes K, M, G are powers of 1024 (8)", 0},
    {"end", 'e', "BYTES", 0, "largest size (128M)", 0},
    {"factor", 'f', "N", 0, "each size is the one before times N (2)", 0},
    {"operation", 'o', "LIST", 0, "operations, separated by commas, or all (all)", 0},
    {"type", 't', "float32|float64|float16|bfloat16|int32|int64|TYPE", 0,
     "of the values; also int8, int16, uint8, uint16, uint32, uint64, and pairs of a value and an "
     "index: float32_int32, float64_int32, int16_int32, int32_int32, int64_int32 (float32)",
     0},
    {"op", 'O', "sum|product|minimum|maximum|mean|OP", 0,
     "how values become one; also logical_and, logical_or, logical_xor; of integers bitwise_and, "
     "bitwise_or, bitwise_xor; of pairs minloc, maxloc (sum)",
     0},
    {"root", 'r', "RANK", 0, "root of the operations that have one (0)", 0},
    {"algorithm", 'a', "NAME", 0,
     "algorithm, where all operations of LIST have it; auto: by the library's table (auto)", 0},
    {"encoding", 'E', "none|fp16|bf16", 0,
     "how sums and means of float32 are sent, of all_reduce alone: in half the bytes; other "
     "encodings round, and their values cannot be checked (none)",
     0},
    {"memory", 'm', "private|shared", 0,
     "where the arrays lie. private: in memory of malloc; shared: in that of psring_memory_new, "
     "which ranks of one host read in place (private)",
     0},
    {"iterations", 'i', "N", 0, "calls that are timed (20)", 0},
    {"warmup", 'w', "N", 0, "calls before them, besides a first one (5)", 0},
    {"ranks", 'n', "N", 0,
     "start N ranks on this machine (2), each on its own part of the processors where there are "
     "enough; not where PSRING_RANKS is set",
     0},
    {"json", 'j', NULL, 0, "write one JSON object", 0},
    {"csv", 'c', NULL, 0, "write comma-separated values", 0},
    {0},
};

static size_t read_bytes(struct argp_state *state, const char *name, const char *text)
{
    static const char suffixes[] = "KMG";
    char digits[24];
    const size_t length = strlen(text);
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1]) : NULL;
    const unsigned shift = suffix != NULL ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    snprintf(digits, sizeof digits, "%.*s", (int)(suffix != NULL ? length - 1 : length), text);
    return (size_t)psr_options_number(state, name, digits, 1, (UINT64_C(1) << 40) >> shift)
           << shift;
}

static bool lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL;
         at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static bool is_wanted(const settings *s, const bench_operation *operation)
{
    return lists(s->operations, "all") || lists(s->operations, operation->name);
}

/* Every word of the list is an operation's name, or all. */
static void check_operations(struct argp_state *state, const char *list)
{
    size_t commas = 0, known = lists(list, "all");
    for (const char *at = list; *at != '\0'; at++)
        commas += *at == ',';
    for (size_t k = 0; k < bench_operation_count; k++)
        known += lists(list, bench_operations[k].name);
    if (known == commas + 1)
        return;
    char names[384] = "";
    psr_text_end end = {names, sizeof names};
    for (size_t k = 0; k < bench_operation_count; k++)
        psr_text_add(&end, " %s", bench_operations[k].name);
    psr_options_refuse_format(
        state, "--operation %.64s: it should be all, or a list of these, each once:%s", list,
        names);
}

static void check(struct argp_state *state, const settings *s)
{
    if (s->least_bytes > s->most_bytes)
        psr_options_refuse_format(state, "--begin is beyond --end");
    check_operations(state, s->operations);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'b':
        s->least_bytes = read_bytes(state, "begin", argument);
        break;
    case 'e':
        s->most_bytes = read_bytes(state, "end", argument);
        break;
    case 'f':
        s->factor = psr_options_number(state, "factor", argument, 2, UINT32_MAX);
        break;
    case 'o':
        s->operations = argument;
        break;
    case 't':
        if (!bench_type_find(argument, &s->type))
            psr_options_refuse_format(state, "there is no type %s", argument);
        break;
    case 'O':
        if (!bench_op_find(argument, &s->op))
            psr_options_refuse_format(state, "there is no op %s", argument);
        break;
    case 'r':
        s->root = (int)psr_options_number(state, "root", argument, 0, INT32_MAX);
        break;
    case 'a':
        s->algorithm = strcmp(argument, "auto") == 0 ? NULL : argument;
        break;
    case 'E':
        if (strcmp(argument, "none") != 0 && strcmp(argument, "fp16") != 0 &&
            strcmp(argument, "bf16") != 0)
            psr_options_refuse_format(state, "--encoding %.64s: it should be none, fp16 or bf16",
                                      argument);
        s->encoding = strcmp(argument, "none") == 0 ? NULL : argument;
        break;
    case 'm':
        s->shared = strcmp(argument, "shared") == 0;
        if (!s->shared && strcmp(argument, "private") != 0)
            psr_options_refuse_format(state, "--memory %.64s: it should be private or shared",
                                      argument);
        break;
    case 'i':
        s->iterations = (uint32_t)psr_options_number(state, "iterations", argument, 1, 1000000);
        break;
    case 'w':
        s->warmup = (uint32_t)psr_options_number(state, "warmup", argument, 0, 1000000);
        break;
    case 'n':
        s->local_ranks = (int)psr_options_number(state, "ranks", argument, 1, MOST_LOCAL_RANKS);
        break;
    case 'j':
        s->format = BENCH_JSON;
        break;
    case 'c':
        s->format = BENCH_CSV;
        break;
    case ARGP_KEY_END:
        check(state, s);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] =
    "Times libpsring's operations and checks all that they deliver; docs/figures.md says what each "
    "column is.\vExamples:\n"
    "  psring bench comm -n 4 --operation all_reduce\n"
    "  psring bench comm -n 4 -b 1K -e 16M -f 4 --json \\\n"
    "    --operation all_reduce,all_gather\n"
    "  psring bench comm -n 4 -b 1M --operation all_reduce --encoding fp16\n"
    "\n"
    "Started alone it starts its ranks itself, on this machine. On several machines start it once "
    "for each rank, with PSRING_RANKS, PSRING_RANK, PSRING_SCHEDULER and PSRING_KEY_FILE in its "
    "environment (docs/library.md), or by what starts ranks so. Rank 0 writes the table.\n"
    "\n"
    "Exit status: 0 all values were right; 1 one was wrong, or an operation failed; 2 bad input.\n";

static const struct argp parser = {.options = options, .parser = parse, .doc = doc};

/* ---- a rank ---- */

static int hosts_of(const psring_group *world)
{
    int hosts = 0;
    for (int rank = 0; rank < psring_size(world); rank++) {
        int earlier = 0;
        while (earlier < rank && strcmp(psring_host(world, earlier), psring_host(world, rank)) != 0)
            earlier++;
        hosts += earlier == rank;
    }
    return hosts;
}

/* All sizes of one operation. A size that is too small for a value of each rank is as if it were
 * the smallest that is not. */
static psring_err run_operation(const settings *s, const bench_operation *operation,
                                psring_comm *comm, bench_table *table, int64_t *wrong)
{
    psring_group *world = psring_world(comm);
    const int ranks = psring_size(world);
    const size_t unit_bytes = operation->units(ranks) * bench_type_bytes(s->type);
    bench_task task = {.operation = operation,
                       .type = s->type,
                       .op = s->op,
                       .root = s->root,
                       .algorithm = s->algorithm,
                       .encoding = s->encoding,
                       .shares = s->shared ? comm : NULL,
                       .warmup = s->warmup,
                       .iterations = s->iterations};
    for (size_t bytes = s->least_bytes, last = SIZE_MAX;; bytes *= s->factor) {
        task.unit = unit_bytes == 0 ? 0 : bytes < unit_bytes ? 1 : bytes / unit_bytes;
        if (task.unit != last) {
            bench_figures figures;
            psring_err err = bench_measure(world, &task, &figures);
            if (err != PSRING_OK)
                return err;
            *wrong += figures.wrong;
            if (psring_rank(world) == 0)
                bench_table_add(table, &task, &figures);
        }
        last = task.unit;
        if (bytes > s->most_bytes / s->factor)
            return PSRING_OK;
    }
}

/* Can it be, of so many ranks? NULL: yes. */
static const char *lacks(const settings *s, const bench_operation *operation, int ranks)
{
    if (operation->least_ranks > ranks)
        return "an operation of the list needs more ranks";
    if (operation->scans && s->op == PSRING_MEAN)
        return "an operation of the list has no mean";
    if (s->encoding != NULL && strcmp(operation->name, "all_reduce") != 0)
        return "--encoding: an operation of the list has none; all_reduce has";
    return NULL;
}

static psring_err run_all(const settings *s, psring_comm *comm, bench_table *table, int64_t *wrong)
{
    const int ranks = psring_size(psring_world(comm));
    psring_err err = PSRING_OK;
    for (size_t k = 0; k < bench_operation_count && err == PSRING_OK; k++)
        if (is_wanted(s, &bench_operations[k]) && lacks(s, &bench_operations[k], ranks) == NULL)
            err = run_operation(s, &bench_operations[k], comm, table, wrong);
    return err;
}

/* NULL: all that is asked for can be checked with so many ranks. */
static const char *refuse(const settings *s, int ranks)
{
    if (s->root >= ranks)
        return "--root: there is no such rank";
    const char *why_not = NULL;
    for (size_t k = 0; k < bench_operation_count && why_not == NULL; k++) {
        const bench_operation *operation = &bench_operations[k];
        if (operation->folds && is_wanted(s, operation))
            why_not = s->encoding != NULL
                          ? bench_values_refuse_encoded(s->type, s->op, ranks, s->encoding)
                          : bench_values_refuse(s->type, s->op, ranks);
        if (why_not == NULL && lists(s->operations, operation->name))
            why_not = lacks(s, operation, ranks);
    }
    return why_not;
}

static psring_err measure_all(const settings *s, psring_comm *comm, int64_t *ret_wrong)
{
    psring_group *world = psring_world(comm);
    const bool writes = psring_rank(world) == 0;
    psring_counts counts = {.size = sizeof counts};
    bench_table table = {.file = stdout,
                         .format = s->format,
                         .ranks = psring_size(world),
                         .hosts = hosts_of(world),
                         .shared = s->shared};
    if (writes)
        bench_table_begin(&table, s->warmup, s->iterations);
    psring_err err = run_all(s, comm, &table, ret_wrong);
    if (err == PSRING_OK)
        err = psring_counts_get(comm, &counts);
    if (!writes || bench_table_end(&table, &counts))
        return err;
    fprintf(stderr, "psring-bench-comm: the table could not be written\n");
    return err != PSRING_OK ? err : PSRING_ERR_IO;
}

/* The line; its exit status. */
static int say_failure(psring_err err)
{
    const char *detail = psring_err_detail();
    fprintf(stderr, "psring-bench-comm: %s%s%s\n", psring_err_name(err),
            detail[0] != '\0' ? ": " : "", detail);
    return 1;
}

static int run_rank(const psring_options *place, void *context)
{
    const settings *s = context;
    psring_comm *comm = NULL;
    int64_t wrong = 0;
    psring_err err = psring_init(place, &comm);
    if (err != PSRING_OK)
        return say_failure(err);
    psring_group *world = psring_world(comm);
    const bool is_first = psring_rank(world) == 0;
    const char *why_not = refuse(s, psring_size(world));
    if (why_not != NULL && is_first)
        fprintf(stderr, "psring-bench-comm: %s\n", why_not);
    if (why_not == NULL)
        err = measure_all(s, comm, &wrong);
    if (wrong > 0 && is_first)
        fprintf(stderr, "psring-bench-comm: %" PRId64 " wrong values\n", wrong);
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err == PSRING_OK)
        return why_not != NULL || wrong > 0;
    const int status = say_failure(err);
    psring_abort(&comm, psring_err_detail()); /* the others learn why at once */
    return status;
}

int main(int argc, char **argv)
{
    settings s = {.least_bytes = 8,
                  .most_bytes = 128 << 20,
                  .factor = 2,
                  .warmup = 5,
                  .iterations = 20,
                  .operations = "all",
                  .type = PSRING_FLOAT32,
                  .op = PSRING_SUM};
    psr_options_parse(&parser, argc, argv, 0, NULL, &s);
    psring_options place = {.size = sizeof place};
    const psring_err err = psring_options_env(&place);
    if (err == PSRING_ERR_NOT_FOUND)
        return bench_local_ranks(s.local_ranks > 0 ? s.local_ranks : 2, run_rank, &s);
    if (err == PSRING_OK && s.local_ranks == 0)
        return run_rank(&place, &s);
    fprintf(stderr, "psring-bench-comm: %s\n",
            err != PSRING_OK ? psring_err_detail()
                             : "--ranks: PSRING_RANKS says how many there are");
    return 1;
}
