#include "deploy/report/page/page.h"

#include "base/system/file.h"
#include "deploy/report/page/html.h"
#include "deploy/report/page/page_private.h"
#include "deploy/report/page/page_style.h"
#include "deploy/report/page/predicted.h"

#include <math.h>
#include <stdlib.h>

void psr_page_put(const psr_page *p, const char *html)
{
    fputs(html, p->to);
}

void psr_page_put_text(const psr_page *p, const char *before, const char *text, const char *after)
{
    psr_page_put(p, before);
    psr_html_text(p->to, text);
    psr_page_put(p, after);
}

void psr_page_group_name(const psr_page *p, size_t group, char name[static PSR_PAGE_NAME_BYTES])
{
    psr_run_group_name(p->runs, &p->groups.items[group], name, PSR_PAGE_NAME_BYTES);
}

size_t psr_page_measured(const psr_page *p)
{
    size_t count = 0;
    while (count < p->groups.count && isfinite(p->groups.items[count].median))
        count++;
    return count;
}

const char *psr_page_option(const psr_page *p, size_t group, const char *name)
{
    const char *value =
        psr_run_record_option(&p->runs->items[p->groups.items[group].runs[0]], name);
    return value != NULL ? value : "";
}

bool psr_page_differs_in(const psr_page *p, const char *name)
{
    return psr_run_records_lists(p->runs->differing, name);
}

static psr_err put_page(const psr_page *p)
{
    psr_page_put(p, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
                    "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
                    "<title>psring report</title>\n<style>\n");
    psr_page_put(p, psr_page_style);
    psr_page_put(p, "</style></head><body>\n");
    psr_page_put_question(p);
    psr_page_put_answer(p);
    psr_page_put_throughput(p);
    psr_page_put_scaling(p);
    psr_page_put_parts(p);
    PSR_TRY(psr_page_put_timeline(p));
    psr_page_put_bytes(p);
    PSR_TRY(psr_page_put_links(p));
    psr_predicted_put(p->runs, p->to);
    PSR_TRY(psr_page_put_curves(p));
    psr_page_put_runs(p);
    psr_page_put_configuration(p);
    psr_page_put_caveats(p);
    psr_page_put_commands(p);
    psr_page_put(p, "</body></html>\n");
    return PSR_OK;
}

psr_err psr_runs_write_page(const psr_runs *runs, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    psr_page *p = calloc(1, sizeof *p);
    FILE *to = open_memstream(&text, &size);
    psr_err err =
        p != NULL && to != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a page");
    if (err == PSR_OK) {
        p->runs = runs;
        p->to = to;
        psr_run_groups_make(runs, &p->groups);
        err = put_page(p);
    }
    if (to != NULL && fclose(to) != 0 && err == PSR_OK)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a page");
    if (err == PSR_OK)
        err = psr_file_write_atomic(path, text, size);
    free(text);
    free(p);
    return err;
}
