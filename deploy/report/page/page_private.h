/* The sections of a page (deploy/report/page/page.h), each in a file of its own, and what they
 * share. A section that has nothing to show writes nothing. One thread. */
#ifndef PSR_DEPLOY_REPORT_PAGE_PRIVATE_H
#define PSR_DEPLOY_REPORT_PAGE_PRIVATE_H

#include "deploy/report/groups.h"

#include <stdio.h>

#define PSR_PAGE_NAME_BYTES 512
#define PSR_PAGE_TEXT_BYTES 1024

typedef struct psr_page {
    const psr_runs *runs; /* borrowed */
    psr_run_groups groups;
    FILE *to; /* memory; what does not fit shows when it is closed */
} psr_page;

/* Writes HTML as it is. */
void psr_page_put(const psr_page *p, const char *html);
/* Writes text that a browser shows as it is, between two pieces of HTML. */
void psr_page_put_text(const psr_page *p, const char *before, const char *text, const char *after);

/* psr_run_group_name of a group. */
void psr_page_group_name(const psr_page *p, size_t group, char name[static PSR_PAGE_NAME_BYTES]);
/* Groups with a rate: the first so many. */
size_t psr_page_measured(const psr_page *p);
/* An option of the group's first run, "" if there is none. Borrowed. */
const char *psr_page_option(const psr_page *p, size_t group, const char *name);
/* Whether runs differ in that option. */
bool psr_page_differs_in(const psr_page *p, const char *name);

/* ---- sections, in their order ---- */

void psr_page_put_question(const psr_page *p);
void psr_page_put_answer(const psr_page *p);
void psr_page_put_throughput(const psr_page *p);
void psr_page_put_scaling(const psr_page *p);
void psr_page_put_parts(const psr_page *p); /* where a step's time goes */
void psr_page_put_bytes(const psr_page *p);
PSR_MUST_CHECK psr_err psr_page_put_links(const psr_page *p);    /* bytes of each link; NOMEM */
PSR_MUST_CHECK psr_err psr_page_put_timeline(const psr_page *p); /* one step, traced; NOMEM */
PSR_MUST_CHECK psr_err psr_page_put_curves(const psr_page *p);   /* the loss; NOMEM */
void psr_page_put_runs(const psr_page *p);
void psr_page_put_configuration(const psr_page *p);
void psr_page_put_caveats(const psr_page *p);
void psr_page_put_commands(const psr_page *p);

#endif
