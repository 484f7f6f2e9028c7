/* Every graph of every network, planned by cuDNN for devices that are told by their properties
 * alone: some engine computes it, is deterministic, and has a bounded workspace. Nothing is
 * computed, and no GPU is needed; the driver is a stand-in (stand_in_driver.py).
 *
 * usage: test_cuda_plans FOLDER sample|sample-list
 *        test_cuda_plans FOLDER all|all-list DEVICE MODE [EVERY]
 *   FOLDER  of the devices' properties: sm_80.json and so on
 *   sample  of three small networks the first graph of each kind, in bf16 for sm_90
 *   all     every network, with even and odd batches
 *   EVERY   only each such graph of the list
 *   -list   each graph is printed with what was chosen */
#include "base/err.h"
#include "model/cuda/network_graphs.h"
#include "model/cuda/nvidia/plan.h"
#include "model/cuda/nvidia/properties.h"
#include "model/cuda/plan_files.h"
#include "model/networks/network_list.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define WORKSPACE_MOST ((size_t)1 << 30)
#define SHOWN_MOST 20 /* failures of one row of the table */

/* ---- the grid ---- */

/* The residual network first: cuDNN takes less time for its gradient of filters. */
static const char *const sampled_networks[] = {"resnet20", "convnet", NULL};
static const uint32_t sampled_batches[] = {33, 0}, all_batches[] = {1, 33, 128, 0};

static const struct mode {
    const char *name;
    psr_cuda_type type;
    bool tf32;
} modes[] = {{"bf16", PSR_CUDA_BF16, false},
             {"fp16", PSR_CUDA_FP16, false},
             {"fp32", PSR_CUDA_FLOAT32, false},
             {"tf32", PSR_CUDA_FLOAT32, true}};
enum { MODES = sizeof modes / sizeof modes[0] };

static void die(const char *what)
{
    fprintf(stderr, "test_cuda_plans: %s\n", what);
    exit(2);
}

static void die_of(psr_err err)
{
    if (err != PSR_OK)
        die(psr_err_detail());
}

/* ---- graphs, each once ---- */

typedef struct collection {
    bool kinds; /* one of each sequence of operations is enough */
    psr_cuda_graph *graphs;
    psr_cudnn_plan_facts *facts; /* of the graphs that were planned */
    uint64_t *hashes;
    size_t count, room;
    double seconds; /* of processor time, that choosing took */
} collection;

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Where plans are kept; NULL: nowhere. */
static const char *kept;

/* What tells a graph from others: all of it, or its operations without their tensors. */
static uint64_t hash_of(const psr_cuda_graph *graph, bool kinds)
{
    int words[2 * PSR_CUDA_GRAPH_OPERATIONS] = {0};
    if (!kinds)
        return XXH3_64bits(graph, sizeof *graph);
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        words[2 * i] = 1 + (int)graph->operations[i].kind;
        words[2 * i + 1] = (int)graph->operations[i].pointwise;
    }
    return XXH3_64bits(words, sizeof words);
}

static psr_err collect(void *context, uint32_t node, const psr_cuda_graph *graph)
{
    collection *c = context;
    const uint64_t hash = hash_of(graph, c->kinds);
    (void)node;
    for (size_t i = 0; i < c->count; i++)
        if (c->hashes[i] == hash)
            return PSR_OK;
    if (c->count == c->room) {
        c->room = c->room == 0 ? 256 : 2 * c->room;
        c->graphs = realloc(c->graphs, c->room * sizeof *c->graphs);
        c->hashes = realloc(c->hashes, c->room * sizeof *c->hashes);
        if (c->graphs == NULL || c->hashes == NULL)
            die("no memory for graphs");
    }
    c->graphs[c->count] = *graph;
    c->hashes[c->count++] = hash;
    return PSR_OK;
}

/* se: a ratio of --se, for networks that have it; 0: none. */
static void collect_network(const psr_listed_network *listed, uint32_t se, const uint32_t *batches,
                            psr_cuda_type type, collection *c)
{
    const bool large = listed->family == PSR_FAMILY_IMAGENET;
    const bool gray = listed->family == PSR_FAMILY_MLP || listed->family == PSR_FAMILY_CONVNET;
    const uint32_t size = large ? 224 : gray ? 28 : 32;
    psr_config config;
    psr_config_defaults(&config);
    snprintf(config.model, sizeof config.model, "%s", listed->name);
    config.se_ratio = se;
    if (psr_network_check(&config) != PSR_OK)
        return; /* it has no --se */
    for (size_t i = 0; batches[i] > 0; i++) {
        psr_network *net = NULL;
        die_of(psr_network_of(&config, large ? 1000 : 10, gray ? 1 : 3, size, size, &net));
        die_of(psr_cuda_network_graphs(net, batches[i], type, collect, c));
        psr_network_free(net);
    }
}

static void collect_sample(collection *c)
{
    for (size_t i = 0; sampled_networks[i] != NULL; i++)
        collect_network(psr_network_find(sampled_networks[i]), i == 0 ? 4 : 0, sampled_batches,
                        PSR_CUDA_BF16, c);
}

static void collect_all(psr_cuda_type type, collection *c)
{
    for (size_t i = 0; psr_networks[i].name != NULL; i++) {
        collect_network(&psr_networks[i], 0, all_batches, type, c);
        collect_network(&psr_networks[i], 16, all_batches, type, c);
    }
}

/* ---- a row of the table: one device, one mode ---- */

typedef struct row {
    size_t planned, failed, compiled, fallback, tensor_cores, workspace_bytes;
} row;

static void plan_one(const psr_cuda_wall *wall, const psr_cuda_graph *graph, const char *device,
                     const struct mode *mode, bool lists, psr_cudnn_plan_facts *ret_facts, row *r)
{
    const psr_cuda_plan_limits limits = {
        .workspace_bytes = WORKSPACE_MOST, .tf32 = mode->tf32, .kept = kept};
    psr_cudnn_plan *plan = NULL;
    char text[PSR_CUDA_GRAPH_TEXT_MAX];
    psr_cuda_graph_describe(graph, text, sizeof text);
    if (psr_cudnn_plan_new(wall, graph, &(psr_cudnn_plan_target){.json = device}, &limits, &plan) !=
        PSR_OK) {
        r->failed++;
        if (r->failed <= SHOWN_MOST || lists)
            printf("# %s: %s: %s\n", mode->name, text, psr_err_detail());
        return;
    }
    const psr_cudnn_plan_facts f = *ret_facts = psr_cudnn_plan_read(plan);
    r->planned++;
    r->compiled += f.compiled_at_run_time;
    r->fallback += f.fallback;
    r->tensor_cores += f.tensor_cores;
    if (f.workspace_bytes > r->workspace_bytes)
        r->workspace_bytes = f.workspace_bytes;
    if (lists)
        printf("# %s: %s: engine %d, the %u. configuration%s%s%s, %zu bytes\n", mode->name, text,
               (int)f.engine, f.configurations, f.fallback ? " of the fallback" : "",
               f.compiled_at_run_time ? ", compiled at run time" : "",
               f.tensor_cores ? ", tensor cores" : "", f.workspace_bytes);
    psr_cudnn_plan_free(plan);
}

enum { DEVICE_BYTES = 4096 };

static const char *read_device(const char *folder, const char *name, char text[DEVICE_BYTES])
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die(path);
    text[fread(text, 1, DEVICE_BYTES - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- what must be refused, and what must repeat ---- */

static int number;

static void tell(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    if (!good)
        printf("# %s\n", psr_err_detail());
}

/* The gradient of dy[33,20,8,8] for x[33,10,12,12] (data), or of w[20,10,5,5] in a type. */
static psr_cuda_graph gradient_of_conv(bool data, psr_cuda_type type)
{
    const psr_cuda_window window = {5, 5, 1, 0};
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = psr_cuda_image(&g, data ? type : PSR_CUDA_BF16, 33, 10, 12, 12);
    const uint32_t w = psr_cuda_image(&g, data ? PSR_CUDA_BF16 : type, 20, 10, 5, 5);
    const uint32_t dy = psr_cuda_image(&g, PSR_CUDA_BF16, 33, 20, 8, 8);
    psr_cuda_operate(&g, data ? PSR_CUDA_CONV_DATA : PSR_CUDA_CONV_WEIGHTS, &window,
                     data ? (uint32_t[]){dy, w, x} : (uint32_t[]){x, dy, w}, 3);
    return g;
}

/* ret_facts: of the plan, which is freed; zeros if there is none. */
static psr_err try_plan(const psr_cuda_wall *wall, const psr_cuda_graph *g, const char *device,
                        size_t workspace_bytes, psr_cudnn_plan_facts *ret_facts)
{
    const psr_cuda_plan_limits limits = {.workspace_bytes = workspace_bytes, .kept = kept};
    psr_cudnn_plan *plan = NULL;
    const psr_err err =
        psr_cudnn_plan_new(wall, g, &(psr_cudnn_plan_target){.json = device}, &limits, &plan);
    memset(ret_facts, 0, sizeof *ret_facts);
    if (err == PSR_OK)
        *ret_facts = psr_cudnn_plan_read(plan);
    psr_cudnn_plan_free(plan);
    return err;
}

static void check_limits(const psr_cuda_wall *wall, const char *device)
{
    psr_cudnn_plan_facts free_one, bound, again;
    const psr_cuda_graph data = gradient_of_conv(true, PSR_CUDA_BF16);
    const bool planned = try_plan(wall, &data, device, WORKSPACE_MOST, &free_one) == PSR_OK &&
                         try_plan(wall, &data, device, WORKSPACE_MOST, &again) == PSR_OK;
    tell(planned && free_one.engine == again.engine &&
             free_one.configurations == again.configurations &&
             free_one.workspace_bytes == again.workspace_bytes,
         "the same graph is planned in the same way twice");
    const size_t less = free_one.workspace_bytes - 1;
    const psr_err err = try_plan(wall, &data, device, less, &bound);
    tell(planned && free_one.workspace_bytes > 0 &&
             (err == PSR_ERR_UNSUPPORTED ||
              (err == PSR_OK && bound.too_large > 0 && bound.workspace_bytes <= less)),
         "an engine that needs more workspace than allowed is passed over");
}

static void check_refusals(const psr_cuda_wall *wall, const char *device)
{
    psr_cudnn_plan_facts facts;
    psr_cuda_graph g = gradient_of_conv(false, PSR_CUDA_FLOAT32);
    tell(try_plan(wall, &g, device, WORKSPACE_MOST, &facts) == PSR_ERR_UNSUPPORTED,
         "a graph for which cuDNN has no engine is refused: float32 gradients straight from bf16");
    g = gradient_of_conv(true, PSR_CUDA_BF16);
    tell(try_plan(wall, &g, "no properties", WORKSPACE_MOST, &facts) == PSR_ERR_FORMAT,
         "text that is no device's properties is refused");
    tell(try_plan(wall, &g, "{}", WORKSPACE_MOST, &facts) == PSR_ERR_FORMAT,
         "properties that lack fields are refused");
    for (int i = 0; i <= PSR_CUDA_GRAPH_OPERATIONS; i++)
        psr_cuda_point(&g, PSR_CUDA_RELU, 0, 0, 0);
    tell(try_plan(wall, &g, device, WORKSPACE_MOST, &facts) == PSR_ERR_UNSUPPORTED,
         "a graph of more operations than there is room for is refused");
}

/* The version is that of the cuDNN that tells. */
static void check_properties(const psr_cuda_wall *wall, const char *device)
{
    const psr_cudnn_plan_target target = {.json = device};
    char *text = NULL;
    const psr_err err = psr_cudnn_properties_read(wall, &target, &text);
    cJSON *given = cJSON_Parse(device), *told = err == PSR_OK ? cJSON_Parse(text) : NULL;
    bool same = given != NULL && told != NULL;
    for (const cJSON *field = same ? given->child : NULL; same && field != NULL;
         field = field->next)
        same = strcmp(field->string, "cudnnVersion") == 0 ||
               cJSON_Compare(field, cJSON_GetObjectItemCaseSensitive(told, field->string), true);
    tell(same, "a device's properties are told as they were given");
    if (!same)
        printf("# %s\n", text != NULL ? text : "");
    cJSON_Delete(given);
    cJSON_Delete(told);
    free(text);
}

/* ---- what is kept ---- */

/* The first file of the folder; "" if there is none. */
static void find_kept(char path[600])
{
    DIR *folder = opendir(kept);
    if (folder == NULL)
        die("no folder for plans");
    path[0] = '\0';
    for (const struct dirent *e; path[0] == '\0' && (e = readdir(folder)) != NULL;)
        if (e->d_name[0] != '.')
            snprintf(path, 600, "%s/%s", kept, e->d_name);
    closedir(folder);
}

static void remove_kept(void)
{
    char path[600];
    for (find_kept(path); path[0] != '\0'; find_kept(path))
        unlink(path);
}

/* The key of the only plan that is kept. */
static char *read_key(void)
{
    char path[600], *key = calloc(1, 1 << 16);
    find_kept(path);
    FILE *file = fopen(path, "rb");
    uint64_t head[6]; /* the fifth says how long the key is that comes next */
    if (key == NULL || file == NULL || fread(head, sizeof head, 1, file) != 1 ||
        head[4] >= 1 << 16 || fread(key, (size_t)head[4], 1, file) != 1)
        die("a kept plan cannot be read");
    fclose(file);
    return key;
}

static bool is_same(psr_cudnn_plan_facts a, psr_cudnn_plan_facts b)
{
    return a.engine == b.engine && a.workspace_bytes == b.workspace_bytes &&
           a.configurations == b.configurations && a.tensor_cores == b.tensor_cores &&
           a.compiled_at_run_time == b.compiled_at_run_time && a.fallback == b.fallback;
}

/* Each graph, that was chosen, read again. Not every engine can be written by cuDNN. */
static void check_all_kept(const psr_cuda_wall *wall, const char *device, const collection *c)
{
    size_t read = 0, compiled = 0, compiled_and_read = 0, others = 0;
    const double begun = processor_seconds();
    for (size_t i = 0; i < c->count; i++) {
        const psr_cudnn_plan_facts chosen = c->facts[i];
        psr_cudnn_plan_facts again;
        die_of(try_plan(wall, &c->graphs[i], device, WORKSPACE_MOST, &again));
        others += chosen.from_file || !is_same(chosen, again);
        read += again.from_file;
        compiled += chosen.compiled_at_run_time;
        compiled_and_read += chosen.compiled_at_run_time && again.from_file;
    }
    printf("# of %zu graphs %zu are read from files, of %zu that are compiled at run time %zu; "
           "choosing took %.2f s of processor time, reading %.2f s\n",
           c->count, read, compiled, compiled_and_read, c->seconds, processor_seconds() - begun);
    tell(others == 0, "a plan that is read from a file is the one that was chosen");
    tell(compiled > 0 && compiled_and_read == compiled,
         "what is compiled at run time is read from its file");
}

/* A file that is whole, with a text in it that is no plan of this graph's. */
static bool is_chosen_anew(const psr_cuda_wall *wall, const psr_cuda_graph *g, const char *device,
                           const char *text, psr_cudnn_plan_facts chosen)
{
    const psr_cuda_plan_files files = {kept, 10, PSR_CUDA_PLAN_FILES_BYTES};
    psr_cudnn_plan_facts found;
    char *key = read_key(), value[sizeof chosen + 100];
    const size_t bytes = strlen(text);
    memcpy(value, &chosen, sizeof chosen);
    memcpy(value + sizeof chosen, text, bytes);
    psr_cuda_plan_files_put(&files, key, value, sizeof chosen + bytes);
    free(key);
    return try_plan(wall, g, device, WORKSPACE_MOST, &found) == PSR_OK && !found.from_file &&
           is_same(found, chosen) && try_plan(wall, g, device, WORKSPACE_MOST, &found) == PSR_OK &&
           found.from_file && is_same(found, chosen);
}

static void check_bad_files(const psr_cuda_wall *wall, const psr_cuda_graph *g, const char *device,
                            const char *other_device)
{
    psr_cudnn_plan_facts chosen, found;
    char path[600];
    remove_kept();
    tell(try_plan(wall, g, device, WORKSPACE_MOST, &chosen) == PSR_OK && !chosen.from_file &&
             try_plan(wall, g, device, WORKSPACE_MOST, &found) == PSR_OK && found.from_file,
         "a plan is kept");
    tell(is_chosen_anew(wall, g, device, "no plan", chosen) &&
             is_chosen_anew(wall, g, device, "{}", chosen) &&
             is_chosen_anew(wall, g, device, "{\"plan\": [1, 2", chosen),
         "a text that cuDNN refuses is written anew");
    find_kept(path);
    tell(truncate(path, 1000) == 0 && try_plan(wall, g, device, WORKSPACE_MOST, &found) == PSR_OK &&
             !found.from_file && is_same(found, chosen),
         "a torn file is written anew");
    tell(try_plan(wall, g, other_device, WORKSPACE_MOST, &found) == PSR_OK && !found.from_file,
         "what is kept for one device is not read for another");
}

static void check_kept(const psr_cuda_wall *wall, const char *device, const char *other_device,
                       const collection *c)
{
    size_t i = 0; /* the first that is compiled at run time, which each device has */
    check_all_kept(wall, device, c);
    while (i + 1 < c->count && !c->facts[i].compiled_at_run_time)
        i++;
    check_bad_files(wall, &c->graphs[i], device, other_device);
    remove_kept();
    rmdir(kept);
}

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    die("MODE is bf16, fp16, fp32 or tf32");
    return NULL;
}

int main(int argc, char **argv)
{
    static psr_cuda_wall wall;
    if (argc < 3 || (strncmp(argv[2], "sample", 6) != 0 && argc < 5))
        die("usage: FOLDER sample|sample-list, or FOLDER all|all-list DEVICE MODE [EVERY]");
    const bool lists = strstr(argv[2], "-list") != NULL, all = strncmp(argv[2], "all", 3) == 0;
    static char texts[2][DEVICE_BYTES], folder[] = "/tmp/psr-test-plans-XXXXXX";
    const char *name = all ? argv[3] : "sm_90", *device = read_device(argv[1], name, texts[0]);
    const struct mode *mode = find_mode(all ? argv[4] : "bf16");
    const size_t every = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
    collection c = {.kinds = !all};
    row r = {0};
    if (psr_cuda_wall_load_cudnn(&wall) != PSR_OK) {
        printf("1..0 # SKIP %s\n", psr_err_detail());
        return 0;
    }
    if (all)
        collect_all(mode->type, &c);
    else
        collect_sample(&c);
    c.facts = calloc(c.count, sizeof *c.facts);
    kept = all ? NULL : mkdtemp(folder);
    if (c.facts == NULL || (kept == NULL && !all))
        die("no memory, or no folder for plans");
    const double begun = processor_seconds();
    for (size_t i = 0; every > 0 && i < c.count; i += every)
        plan_one(&wall, &c.graphs[i], device, mode, lists, &c.facts[i], &r);
    c.seconds = processor_seconds() - begun;
    printf("# %s, %s: of %zu graphs %zu planned (%zu compiled at run time, %zu by the fallback, "
           "%zu on tensor cores), %zu failed; largest workspace %zu bytes\n",
           name, mode->name, c.count, r.planned, r.compiled, r.fallback, r.tensor_cores, r.failed,
           r.workspace_bytes);
    tell(r.failed == 0 && r.planned > 0, "each graph has a deterministic engine");
    if (!all) {
        check_kept(&wall, device, read_device(argv[1], "sm_80", texts[1]), &c);
        kept = NULL;
        check_limits(&wall, device);
        check_refusals(&wall, device);
        check_properties(&wall, device);
    }
    printf("1..%d\n", number);
    free(c.graphs);
    free(c.facts);
    free(c.hashes);
    return 0;
}
