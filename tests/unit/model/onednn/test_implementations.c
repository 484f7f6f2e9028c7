/* Every network, at many sizes and batches, in float32 and bf16, with every instruction set that
 * this processor has: no reference loop but those that model/onednn/loops.txt has with its reason,
 * and all of those. From descriptions of primitives alone: nothing is computed or allocated.
 *
 * usage: test_implementations sample|all|list LOOPS_TXT [SET]
 *   sample  a part of the grid
 *   all     the grid; also that what the list has of an instruction set is so
 *   list    prints the name of each implementation that is taken on the sample
 *   SET     an instruction set, as oneDNN names it; default: all, one after the other */
#include "base/err.h"
#include "model/networks/network.h"
#include "model/networks/network_list.h"
#include "model/onednn/choice/pick.h"
#include "model/onednn/context.h"
#include "model/onednn/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the grid ---- */

/* By rising power, as oneDNN names them. */
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
} instruction_sets[] = {
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx2_vnni_2, "avx2_vnni_2"},
#endif
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16"},
#endif
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16"},
#endif
};
enum { INSTRUCTION_SETS = sizeof instruction_sets / sizeof instruction_sets[0] };

typedef struct grid {
    const char *const *networks; /* NULL: all */
    const uint32_t *sizes, *batches, *threads;
} grid;

static const char *const sampled_networks[] = {"mlp",         "convnet",         "resnet20",
                                               "resnet18",    "resnet50",        "resnet9",
                                               "preresnet20", "resnext50_32x4d", NULL};
static const uint32_t sampled_sizes[] = {28, 32, 224, 0}, sampled_batches[] = {1, 16, 0},
                      sampled_threads[] = {2, 0};
static const uint32_t all_sizes[] = {28, 32, 48, 64, 96, 128, 160, 192, 224, 0},
                      all_batches[] = {1, 2, 3, 4, 7, 8, 16, 32, 64, 0},
                      all_threads[] = {1, 2, 4, 0};
static const grid sample = {sampled_networks, sampled_sizes, sampled_batches, sampled_threads},
                  whole = {NULL, all_sizes, all_batches, all_threads};

/* One place of it. */
typedef struct place {
    const char *isa, *network;
    psr_precision precision;
    uint32_t size, batch, threads;
    bool training;
} place;

static const char *precision_name(psr_precision precision)
{
    return precision == PSR_PRECISION_BF16 ? "bf16" : "fp32";
}

/* ---- the list ---- */

enum { ENTRIES_MAX = 64, FIELD_MAX = 128 };

typedef struct entry {
    char what[16], versions[FIELD_MAX], isas[FIELD_MAX], precisions[FIELD_MAX], networks[FIELD_MAX],
        kind[FIELD_MAX];
    bool found;
} entry;

/* Shared with the children. */
typedef struct list {
    entry entries[ENTRIES_MAX];
    size_t count;
    bool lists;
} list;

static void die(const char *what, const char *of)
{
    fprintf(stderr, "test_implementations: %s: %s\n", of, what);
    exit(2);
}

/* Cuts spaces off both ends. */
static void copy_field(char *to, const char *from, size_t length)
{
    while (length > 0 && (*from == ' ' || *from == '\t'))
        from++, length--;
    while (length > 0 && (from[length - 1] == ' ' || from[length - 1] == '\t'))
        length--;
    snprintf(to, FIELD_MAX, "%.*s", (int)length, from);
}

static void read_line(list *l, const char *line, const char *path)
{
    int length = 0;
    entry e = {0};
    const char *reason = strstr(line, " : ");
    if (line[0] == '#' || line[0] == '\n')
        return;
    if (reason == NULL || strlen(reason) < 10 ||
        sscanf(line, "%15s %127s %127s %127s %127s%n", e.what, e.versions, e.isas, e.precisions,
               e.networks, &length) != 5 ||
        line + length > reason || l->count == ENTRIES_MAX)
        die(line, path);
    copy_field(e.kind, line + length, (size_t)(reason - line - length));
    if (strcmp(e.what, "refused") != 0 && (strcmp(e.what, "loops") != 0 || e.kind[0] == '\0'))
        die(line, path);
    l->entries[l->count++] = e;
}

static void read_list(list *l, const char *path)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die("cannot be read", path);
    while (fgets(line, sizeof line, file) != NULL)
        read_line(l, line, path);
    fclose(file);
}

static bool is_among(const char *names, const char *name)
{
    size_t length = strlen(name);
    if (strcmp(names, "*") == 0)
        return true;
    for (const char *at = names; at != NULL; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* NULL: it is not there. kind: of a loop; NULL: it is refused. */
static entry *find(list *l, const place *at, const char *kind)
{
    char version[16];
    snprintf(version, sizeof version, "%d", dnnl_version()->major);
    for (size_t i = 0; i < l->count; i++) {
        entry *e = &l->entries[i];
        const bool same = strcmp(e->what, kind == NULL ? "refused" : "loops") == 0 &&
                          (kind == NULL || is_among(e->kind, kind));
        if (same && is_among(e->versions, version) && is_among(e->isas, at->isa) &&
            is_among(e->precisions, precision_name(at->precision)) &&
            is_among(e->networks, at->network))
            return e;
    }
    return NULL;
}

/* ---- one place ---- */

/* Whether it is as the list says. */
static bool judge(list *l, const place *at, const psr_onednn_implementation *item,
                  const char *refusal)
{
    if (item != NULL && l->lists)
        printf("%s\t%s\t%s\t%s\n", at->isa, precision_name(at->precision), item->kind, item->name);
    if (item != NULL && !item->loops)
        return true;
    entry *e = find(l, at, item == NULL ? NULL : item->kind);
    if (e != NULL) {
        e->found = true;
        return true;
    }
    printf("# %s, %s, %u px, batch %u, %s, %u threads, %s: %s%s%s%s%s\n", at->isa, at->network,
           at->size, at->batch, precision_name(at->precision), at->threads,
           at->training ? "training" : "inference", item == NULL ? refusal : item->node,
           item == NULL ? "" : ", ", item == NULL ? "" : item->kind, item == NULL ? "" : ": ",
           item == NULL ? "" : item->name);
    return false;
}

/* What the rule chooses, in training and in inference: from a plan in which all are direct. */
static psr_err choose(const psr_onednn_context *context, const psr_network *net,
                      const psr_fusion_groups *groups, uint32_t batch, char **ret_choices)
{
    psr_onednn_exec *direct;
    PSR_TRY(psr_onednn_exec_new(context, net, groups, "", batch, true, &direct));
    const psr_err err = psr_onednn_pick(direct, psr_onednn_decide_by_rule, ret_choices);
    psr_onednn_exec_free(direct);
    return err;
}

/* Compiled as the back end does. */
static bool check_passes(list *l, place at, const psr_onednn_context *context,
                         const psr_network *net, const psr_fusion_groups *groups)
{
    bool good = true;
    char *choices = NULL;
    const psr_err chosen = choose(context, net, groups, at.batch, &choices);
    for (int training = 0; training < 2; training++) {
        psr_onednn_exec *exec = NULL;
        at.training = training;
        psr_err err = chosen;
        if (err == PSR_OK)
            err = psr_onednn_exec_new(context, net, groups, choices, at.batch, at.training, &exec);
        for (uint32_t i = 0; err == PSR_OK && i < exec->implementations.count; i++)
            good = judge(l, &at, &exec->implementations.items[i], NULL) && good;
        if (err != PSR_OK)
            good = judge(l, &at, NULL, psr_err_detail()) && good;
        psr_onednn_exec_free(exec);
    }
    free(choices);
    return good;
}

static bool check_place(list *l, const place *at)
{
    const bool grey = strcmp(at->network, "mlp") == 0 || strcmp(at->network, "convnet") == 0;
    psr_network *net = NULL;
    psr_fusion_groups groups = {0};
    psr_onednn_context context = {0};
    psr_err err =
        psr_network_new(at->network, 10, grey ? 1 : 3, at->size, at->size, PSR_SHORTCUT_A, &net);
    if (err == PSR_OK)
        err = psr_onednn_context_open(at->precision, at->threads, &context);
    context.only_plans = true;
    if (err == PSR_OK)
        err = psr_fusion_groups_init(net, &groups);
    const bool good = err == PSR_OK ? check_passes(l, *at, &context, net, &groups)
                                    : judge(l, at, NULL, psr_err_detail());
    psr_fusion_groups_done(&groups);
    psr_onednn_context_close(&context);
    psr_network_free(net);
    return good;
}

/* ---- the walk ---- */

static bool has_network(const grid *g, const char *name)
{
    for (size_t i = 0; g->networks != NULL && g->networks[i] != NULL; i++)
        if (strcmp(g->networks[i], name) == 0)
            return true;
    return g->networks == NULL;
}

static bool walk_network(list *l, const grid *g, place at)
{
    bool good = true;
    for (const uint32_t *size = g->sizes; *size != 0; size++)
        for (const uint32_t *batch = g->batches; *batch != 0; batch++)
            for (const uint32_t *threads = g->threads; *threads != 0; threads++) {
                if (*size < psr_network_find(at.network)->least_size)
                    continue; /* no image of it */
                at.size = *size;
                at.batch = *batch;
                at.threads = *threads;
                good = check_place(l, &at) && good;
            }
    return good;
}

/* In a process of its own, since oneDNN is held to an instruction set once. Exit status 0: all as
 * the list says; 1: not; 3: this processor has not all of it. */
static void walk(list *l, const grid *g, size_t set)
{
    bool good = true;
    if (dnnl_set_max_cpu_isa(instruction_sets[set].isa) != dnnl_success)
        exit(2);
    if (dnnl_get_effective_cpu_isa() != instruction_sets[set].isa)
        exit(3);
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++)
        for (int precision = 0; precision < 2; precision++)
            if (has_network(g, network->name)) {
                const place at = {.isa = instruction_sets[set].name,
                                  .network = network->name,
                                  .precision = precision ? PSR_PRECISION_BF16 : PSR_PRECISION_FP32};
                good = walk_network(l, g, at) && good;
            }
    fflush(stdout);
    _exit(good ? 0 : 1);
}

static int walk_apart(list *l, const grid *g, size_t set)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        walk(l, g, set);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 2;
    return WEXITSTATUS(status);
}

/* What the list has of an instruction set must have been found with it. */
static bool is_stale(const list *l, const char *isa)
{
    char version[16];
    bool stale = false;
    snprintf(version, sizeof version, "%d", dnnl_version()->major);
    for (size_t i = 0; i < l->count; i++) {
        const entry *e = &l->entries[i];
        if (e->found || !is_among(e->isas, isa) || !is_among(e->versions, version))
            continue;
        printf("# %s, %s of %s in %s: nothing of the kind\n", isa, e->what, e->networks,
               e->precisions);
        stale = true;
    }
    return stale;
}

/* Exit statuses of walk_apart, as a test's line. */
static void print_result(size_t number, size_t set, int status, bool stale)
{
    printf("%s %zu - %s: no loop and no refusal but those in loops.txt%s\n",
           (status == 0 || status == 3) && !stale ? "ok" : "not ok", number,
           instruction_sets[set].name,
           status == 3 ? " # SKIP this processor cannot be held to it" : "");
}

int main(int argc, char **argv)
{
    const char *what = argc >= 3 && argc <= 4 ? argv[1] : "", *only = argc == 4 ? argv[3] : NULL;
    const bool all = strcmp(what, "all") == 0, lists = strcmp(what, "list") == 0;
    size_t number = 0;
    if (!all && !lists && strcmp(what, "sample") != 0)
        die("sample|all|list LOOPS_TXT [SET]", "usage");
    list *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l == MAP_FAILED)
        die("no memory", "the list");
    read_list(l, argv[2]);
    l->lists = lists;
    for (size_t i = 0; i < INSTRUCTION_SETS; i++) {
        if (only != NULL && strcmp(only, instruction_sets[i].name) != 0)
            continue;
        for (size_t e = 0; e < l->count; e++)
            l->entries[e].found = false;
        const int status = walk_apart(l, all ? &whole : &sample, i);
        const bool stale = all && status <= 1 && is_stale(l, instruction_sets[i].name);
        number++;
        if (!lists)
            print_result(number, i, status, stale);
    }
    if (!lists)
        printf("1..%zu%s\n", number, number > 0 ? "" : " # SKIP this oneDNN does not know it");
    munmap(l, sizeof *l);
    return 0;
}
