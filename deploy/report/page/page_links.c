#include "deploy/report/page/page_private.h"

#include "base/text/json.h"
#include "deploy/report/page/html.h"
#include "deploy/report/run_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATIONS_MAX 8
#define ENDS_MAX 512 /* hosts, or processes, of a run */
#define ENDS_SHOWN 8 /* the busiest */
#define HOSTS_TABLE 16

/* A host's link, or that of a process if each had one. */
typedef struct end {
    char name[256];
    double sent, received; /* bytes a step */
} end;

typedef struct ends {
    size_t group;
    const psr_run_record *run;
    bool of_hosts;
    end items[ENDS_MAX];
    size_t count;
    double most; /* bytes a step */
} ends;

static double busier(const end *e)
{
    return fmax(e->sent, e->received);
}

static end *end_named(ends *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strncmp(all->items[i].name, name, sizeof all->items[i].name - 1) == 0)
            return &all->items[i];
    if (all->count == ENDS_MAX)
        return NULL;
    end *e = &all->items[all->count++];
    *e = (end){0};
    snprintf(e->name, sizeof e->name, "%s", name);
    return e;
}

/* ---- between hosts ---- */

/* A row of outcome.links. False: it is none, or stayed within a host. */
static bool crosses(const cJSON *row, const char **ret_from, const char **ret_to, double *ret_bytes)
{
    *ret_from = psr_json_text(row, "from");
    *ret_to = psr_json_text(row, "to");
    *ret_bytes = psr_json_number(row, "bytes", NAN);
    return *ret_from != NULL && *ret_to != NULL && *ret_bytes >= 0 && isfinite(*ret_bytes) &&
           strcmp(*ret_from, *ret_to) != 0;
}

static const cJSON *links_of(const psr_run_record *run)
{
    return cJSON_GetObjectItemCaseSensitive(run->outcome, "links");
}

static void add_hosts(ends *all, double steps)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, links_of(all->run))
    {
        const char *from, *to;
        double bytes;
        if (!crosses(row, &from, &to, &bytes))
            continue;
        end *e = end_named(all, from);
        if (e != NULL)
            e->sent += bytes / steps;
        e = end_named(all, to);
        if (e != NULL)
            e->received += bytes / steps;
    }
    all->of_hosts = all->count > 0;
}

/* ---- of processes ---- */

static void add_workers(ends *all, double steps)
{
    psr_run_steps read;
    if (psr_run_steps_read(all->run->directory, &read) != PSR_OK)
        return; /* the page says elsewhere what cannot be read */
    for (size_t i = 0; i < read.count; i++) {
        const psr_run_step *step = &read.items[i];
        char name[32];
        snprintf(name, sizeof name, "worker %u", step->rank);
        end *e = end_named(all, name);
        if (e == NULL || !isfinite(step->bytes_sent) || !isfinite(step->bytes_received))
            continue;
        e->sent += step->bytes_sent / steps;
        e->received += step->bytes_received / steps;
    }
    psr_run_steps_done(&read);
}

/* A run by ring may have shards that nothing was sent to. */
static void add_shards(ends *all, double steps)
{
    const cJSON *shard;
    cJSON_ArrayForEach(shard, cJSON_GetObjectItemCaseSensitive(all->run->outcome, "shards"))
    {
        const double sent = psr_json_number(shard, "weight_bytes", 0),
                     received = psr_json_number(shard, "gradient_bytes", 0);
        char name[32];
        snprintf(name, sizeof name, "shard %.0f", psr_json_number(shard, "rank", 0));
        end *e = sent > 0 || received > 0 ? end_named(all, name) : NULL;
        if (e == NULL)
            continue;
        e->sent = fmax(sent, 0) / steps;
        e->received = fmax(received, 0) / steps;
    }
}

/* ---- a configuration ---- */

/* The busiest first; equal ones by name, so that a page is the same each time. */
static int by_bytes(const void *one, const void *other)
{
    const double a = busier(one), b = busier(other);
    return a != b ? (a < b) - (a > b)
                  : strcmp(((const end *)one)->name, ((const end *)other)->name);
}

/* False: the run says nothing of it. */
static bool find_ends(const psr_page *p, size_t group, ends *all)
{
    *all = (ends){.group = group, .run = &p->runs->items[p->groups.items[group].runs[0]]};
    const double steps =
        psr_json_number(all->run->outcome, psr_figure_definitions[PSR_FIGURE_OWN_STEPS].name, 0);
    if (!(steps >= 1))
        return false;
    add_hosts(all, steps);
    if (!all->of_hosts) {
        add_shards(all, steps);
        add_workers(all, steps);
    }
    qsort(all->items, all->count, sizeof *all->items, by_bytes);
    all->most = all->count > 0 ? busier(&all->items[0]) : 0;
    return all->most > 0;
}

/* Two bars, one above the other. */
static void put_end(const psr_page *p, const end *e, double most)
{
    psr_page_put_text(p, "<div class=bar><span class=name>", e->name,
                      "</span><span class=\"track two\">");
    fprintf(p->to,
            "<i class=s0 style=\"width:%.2f%%\"></i><i class=s1 style=\"width:%.2f%%\"></i></span>"
            "<span class=value>%.3f, %.3f MB</span></div>\n",
            100 * e->sent / most, 100 * e->received / most, e->sent / 1e6, e->received / 1e6);
}

/* The bytes from a host to another one. */
static double between(const ends *all, const char *from, const char *to)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, links_of(all->run))
    {
        const char *a, *b;
        double bytes;
        if (crosses(row, &a, &b, &bytes) && strcmp(a, from) == 0 && strcmp(b, to) == 0)
            return bytes;
    }
    return 0;
}

static void put_pairs(const psr_page *p, const ends *all)
{
    const double steps =
        psr_json_number(all->run->outcome, psr_figure_definitions[PSR_FIGURE_OWN_STEPS].name, 1);
    psr_page_put(p, "<details><summary>From host to host, in MB a step</summary>\n"
                    "<div class=wide><table><tr><th>from, to");
    for (size_t to = 0; to < all->count; to++)
        psr_page_put_text(p, "<th>", all->items[to].name, "");
    psr_page_put(p, "</tr>\n");
    for (size_t from = 0; from < all->count; from++) {
        psr_page_put_text(p, "<tr><th>", all->items[from].name, "");
        for (size_t to = 0; to < all->count; to++)
            if (from == to)
                psr_page_put(p, "<td>-");
            else
                fprintf(p->to, "<td>%.3f",
                        between(all, all->items[from].name, all->items[to].name) / steps / 1e6);
        psr_page_put(p, "</tr>\n");
    }
    psr_page_put(p, "</table></div></details>\n");
}

static void put_ends(const psr_page *p, const ends *all, double most)
{
    char name[PSR_PAGE_NAME_BYTES];
    psr_page_group_name(p, all->group, name);
    psr_page_put_text(p, "<h3>", name, "</h3>\n");
    for (size_t i = 0; i < all->count && i < ENDS_SHOWN; i++)
        put_end(p, &all->items[i], most);
    if (all->count > ENDS_SHOWN)
        fprintf(p->to, "<p class=soft>The busiest %d of %zu.</p>\n", ENDS_SHOWN, all->count);
    if (all->of_hosts && all->count <= HOSTS_TABLE)
        put_pairs(p, all);
}

psr_err psr_page_put_links(const psr_page *p)
{
    ends *all = calloc(CONFIGURATIONS_MAX, sizeof *all);
    size_t count = 0, measured = psr_page_measured(p);
    double most = 0;
    bool of_hosts = false;
    if (all == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the links of %d runs", CONFIGURATIONS_MAX);
    for (size_t g = 0; g < measured && count < CONFIGURATIONS_MAX; g++)
        if (find_ends(p, g, &all[count])) {
            most = fmax(most, all[count].most);
            of_hosts = of_hosts || all[count].of_hosts;
            count++;
        }
    if (count > 0) {
        psr_page_put(p, "<h2>Bytes of each link in a step</h2>\n<p class=soft>");
        psr_page_put(p, of_hosts ? "Payloads between hosts, of the whole run over its steps. What "
                                   "is busiest bounds the step."
                                 : "Nothing left the host. This is what each process would send "
                                   "and receive over a link of its own; through shared memory much "
                                   "of it is lent, not sent.");
        psr_page_put(p, "</p>\n<p class=legend><span><i class=s0></i>sends</span> "
                        "<span><i class=s1></i>receives</span></p>\n");
    }
    for (size_t i = 0; i < count; i++)
        put_ends(p, &all[i], most);
    free(all);
    return PSR_OK;
}
