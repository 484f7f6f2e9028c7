#include "worker/pass_times.h"

#include "model/played/profile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSES_MAX 256

/* A pass has one time for each node forward, one for each node backward, and the rest. */
struct psr_pass_times {
    const psr_network *net;
    float *passes;    /* [PASSES_MAX][width] */
    size_t width;     /* 2 * nodes + 1 */
    float *now;       /* [width]: the pass under way */
    uint32_t reports; /* in it */
    size_t ended;     /* passes, of which the last PASSES_MAX are kept */
};

psr_err psr_pass_times_new(const psr_network *net, psr_pass_times **ret_times)
{
    psr_pass_times *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->net = net;
        t->width = 2 * (size_t)net->node_count + 1;
        t->passes = calloc(PASSES_MAX * t->width, sizeof *t->passes);
        t->now = calloc(t->width, sizeof *t->now);
    }
    if (t == NULL || t->passes == NULL || t->now == NULL) {
        psr_pass_times_free(t);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the times of passes");
    }
    *ret_times = t;
    return PSR_OK;
}

void psr_pass_times_free(psr_pass_times *times)
{
    if (times == NULL)
        return;
    free(times->passes);
    free(times->now);
    free(times);
}

void psr_pass_times_begin(psr_pass_times *t)
{
    memset(t->now, 0, t->width * sizeof *t->now);
    t->reports = 0;
}

/* Before node k's forward pass, node k-1's has been computed. The last node's forward pass, and the
 * loss, are not told apart from its backward pass. */
void psr_pass_times_progress(psr_pass_times *t, double busy_s)
{
    const uint32_t nodes = t->net->node_count, report = t->reports++;
    assert(report < 2 * nodes);
    if (report < nodes)
        t->now[report > 0 ? report - 1 : 0] += (float)busy_s;
    else
        t->now[nodes + (2 * nodes - 1 - report)] += (float)busy_s;
}

void psr_pass_times_end(psr_pass_times *t, double busy_s)
{
    t->now[t->width - 1] += (float)busy_s;
    memcpy(t->passes + t->ended++ % PASSES_MAX * t->width, t->now, t->width * sizeof *t->now);
}

/* ---- medians ---- */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* values are sorted by it */
static double median(float *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2.0;
}

/* The medians of each time, scaled so that their sum is the median of the passes. */
static void medians(const psr_pass_times *t, size_t count, double *ret_medians)
{
    float column[PASSES_MAX];
    double sum = 0;
    for (size_t i = 0; i < t->width; i++) {
        for (size_t k = 0; k < count; k++)
            column[k] = t->passes[k * t->width + i];
        sum += ret_medians[i] = median(column, count);
    }
    for (size_t k = 0; k < count; k++) {
        column[k] = 0;
        for (size_t i = 0; i < t->width; i++)
            column[k] += t->passes[k * t->width + i];
    }
    const double whole = median(column, count);
    for (size_t i = 0; i < t->width && sum > 0; i++)
        ret_medians[i] *= whole / sum;
}

/* ---- the profile ---- */

/* The first parameter of a node, or PSR_NONE. */
static uint32_t tensor_of(const psr_network_node *n)
{
    return n->weight != PSR_NONE ? n->weight : n->bias;
}

/* A node without parameters counts with the one before it that has some; the first ones with the
 * first that has. */
static void share_out(const psr_pass_times *t, const double *times, psr_profile *p)
{
    const uint32_t nodes = t->net->node_count;
    uint32_t tensor = PSR_NONE;
    for (uint32_t node = 0; node < nodes && tensor == PSR_NONE; node++)
        tensor = tensor_of(&t->net->nodes[node]);
    for (uint32_t node = 0; node < nodes; node++) {
        const uint32_t own = tensor_of(&t->net->nodes[node]);
        tensor = own != PSR_NONE ? own : tensor;
        p->tensors[tensor].forward_s += times[node];
        p->tensors[tensor].backward_s += times[nodes + node];
    }
    p->rest_s = times[t->width - 1];
}

static psr_err fill(const psr_pass_times *t, psr_profile *p)
{
    const psr_layout *params = &t->net->params;
    const size_t count = t->ended < PASSES_MAX ? t->ended : PASSES_MAX;
    double *times = calloc(t->width, sizeof *times);
    p->tensors = calloc(params->tensor_count, sizeof *p->tensors);
    if (times == NULL || p->tensors == NULL) {
        free(times);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a profile");
    }
    p->count = params->tensor_count;
    for (size_t i = 0; i < p->count; i++) {
        memcpy(p->tensors[i].name, params->tensors[i].name, sizeof p->tensors[i].name);
        p->tensors[i].bytes = psr_profile_tensor_bytes(&params->tensors[i]);
    }
    medians(t, count, times);
    share_out(t, times, p);
    free(times);
    return PSR_OK;
}

psr_err psr_pass_times_write(psr_pass_times *t, const psr_config *config, const char *machine)
{
    psr_profile p = {.batch = config->batch_size, .threads = config->threads};
    if (t->ended == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--record %s: no step was recorded, since the first is left out; give "
                        "--steps 2 or more",
                        config->record);
    snprintf(p.network, sizeof p.network, "%s", t->net->name);
    snprintf(p.machine, sizeof p.machine, "%s", machine);
    psr_err err = fill(t, &p);
    if (err == PSR_OK)
        err = psr_profile_write(config->record, &p);
    psr_profile_done(&p);
    return err;
}
