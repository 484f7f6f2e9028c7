#include "bench/step_profile.h"

#include "base/clock.h"
#include "model/onednn/compat.h"
#include "model/fusion_groups.h"
#include "model/onednn/kernels/tiles.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of every call of progress in a forward pass, the kind that its time counts as: what the oneDNN
 * back end computes together is one group, and it goes by groups; the reference goes by nodes.
 * NULL: no memory. */
static psr_op *kinds_of(const psr_network *net, bool by_groups)
{
    psr_fusion_groups groups;
    psr_op *kinds = malloc(net->node_count * sizeof *kinds);
    if (kinds == NULL || psr_fusion_groups_init(net, &groups) != PSR_OK) {
        free(kinds);
        return NULL;
    }
    uint32_t call = 0;
    for (uint32_t g = 0; g < groups.count; g++)
        for (uint32_t i = 0; i < groups.items[g].node_count; i++)
            kinds[by_groups ? call++ : groups.items[g].nodes[i]] = groups.items[g].op;
    psr_fusion_groups_done(&groups);
    return kinds;
}

void profile_begin(profile *p, const psr_network *net, bool by_groups)
{
    *p = (profile){.net = net, .kinds = kinds_of(net, by_groups)};
    fflush(stdout);
    p->account = tmpfile();
    p->stdout_copy = dup(STDOUT_FILENO);
    if (p->account != NULL && p->stdout_copy >= 0) {
        dup2(fileno(p->account), STDOUT_FILENO);
        dnnl_set_verbose(1);
    }
    p->tiles_s = -psr_onednn_tiles_seconds();
    p->began_s = p->last_s = psr_clock_s();
}

void profile_progress(void *context)
{
    profile *p = context;
    uint32_t count = p->net->node_count, call = p->calls++;
    double now_s = psr_clock_s();
    if (p->kinds == NULL)
        return;
    if (call > 0 && call < count)
        p->forward_s[p->kinds[call - 1]] += now_s - p->last_s;
    else if (call == count) /* the last forward, the loss and the last
                               node's backward; in short, the last layer */
        p->backward_s[p->kinds[count - 1]] += now_s - p->last_s;
    else if (call > count)
        p->backward_s[p->kinds[2 * count - 1 - call]] += now_s - p->last_s;
    p->last_s = now_s;
}

static void read_account(profile *p)
{
    char line[2048];
    rewind(p->account);
    while (fgets(line, sizeof line, p->account) != NULL) {
        const char *time = strrchr(line, ',');
        if (strstr(line, ",exec,") == NULL || time == NULL)
            continue;
        int kind = strstr(line, ",reorder,") != NULL       ? 0
                   : strstr(line, ",convolution,") != NULL ? 1
                                                           : 2;
        p->primitive_s[kind] += 1e-3 * strtod(time + 1, NULL);
    }
}

void profile_end(profile *p)
{
    p->whole_s = p->last_s - p->began_s;
    p->tiles_s += psr_onednn_tiles_seconds();
    dnnl_set_verbose(0);
    fflush(stdout);
    if (p->account != NULL && p->stdout_copy >= 0) {
        dup2(p->stdout_copy, STDOUT_FILENO);
        read_account(p);
    }
    if (p->stdout_copy >= 0)
        close(p->stdout_copy);
    if (p->account != NULL)
        fclose(p->account);
    free(p->kinds);
    p->kinds = NULL;
}

double profile_copy_share(const profile *p)
{
    /* The images' way in is a reorder, and counted there. */
    static const psr_op copying[] = {PSR_OP_SHORTCUT_A, PSR_OP_FLATTEN};
    double copies_s = p->primitive_s[0] + p->tiles_s;
    for (size_t i = 0; i < sizeof copying / sizeof copying[0]; i++)
        copies_s += p->forward_s[copying[i]] + p->backward_s[copying[i]];
    return copies_s / p->whole_s;
}

void profile_print(const profile *p)
{
    static const char *const names[PROFILE_KINDS] = {
        "input",        "convolution", "batch norm", "relu",    "max pool",
        "average pool", "add",         "shortcut",   "flatten", "linear",
        "dropout",      "dropout2d",   "sigmoid",    "gate",    "scale"};
    printf("of one step (%.1f ms):         forward     backward\n", 1e3 * p->whole_s);
    for (int kind = 0; kind < PROFILE_KINDS; kind++)
        if (p->forward_s[kind] + p->backward_s[kind] > 0)
            printf("%20s        %8.2f ms  %8.2f ms  %5.1f %%\n", names[kind],
                   1e3 * p->forward_s[kind], 1e3 * p->backward_s[kind],
                   100 * (p->forward_s[kind] + p->backward_s[kind]) / p->whole_s);
    printf("%20s        %8.2f ms               %5.1f %%\n", "oneDNN's reorders",
           1e3 * p->primitive_s[0], 100 * p->primitive_s[0] / p->whole_s);
    printf("%20s        %8.2f ms               %5.1f %%\n", "weights into tiles", 1e3 * p->tiles_s,
           100 * p->tiles_s / p->whole_s);
    printf("%20s                              %6.1f %%\n", "copies of any kind",
           100 * profile_copy_share(p));
}
