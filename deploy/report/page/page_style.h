/* The style of the page that `psring report -o` writes. */
#ifndef PSR_DEPLOY_REPORT_PAGE_STYLE_H
#define PSR_DEPLOY_REPORT_PAGE_STYLE_H

extern const char psr_page_style[];

#endif
