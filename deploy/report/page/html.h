/* Pieces of a page in HTML: text, a row of a bar chart, a chart of lines. All text from elsewhere
 * goes through psr_html_text. Widths are percentages, so that a page fits any screen; colours are
 * the classes s0 to s7 of the page's style (deploy/report/page/page_style.h). One thread. */
#ifndef PSR_DEPLOY_REPORT_HTML_H
#define PSR_DEPLOY_REPORT_HTML_H

#include <stddef.h>
#include <stdio.h>

#define PSR_HTML_COLOURS 8

/* Writes the text so that a browser shows it as it is; what could change its direction or is no
 * UTF-8 becomes a question mark (base/text/printable.h). */
void psr_html_text(FILE *to, const char *text);

/* A number as a person reads it: four digits, or all before the point, without an exponent where it
 * can be. */
#define PSR_HTML_NUMBER_BYTES 32
const char *psr_html_number(double value, char text[static PSR_HTML_NUMBER_BYTES]);

typedef struct psr_html_part {
    double value;     /* in the chart's unit; negative or NaN: left out */
    size_t colour;    /* taken modulo PSR_HTML_COLOURS */
    const char *name; /* shown while the pointer is on it; NULL: none */
} psr_html_part;

/* A bar of one or more parts, its name before it and what its value is after it. whole: the value
 * of a bar that fills the width. */
void psr_html_bar(FILE *to, const char *name, const psr_html_part *parts, size_t count,
                  double whole, const char *value);

typedef struct psr_html_line {
    const char *name;
    const double *x, *y; /* finite */
    size_t count;
    size_t colour;
    int dashed;
} psr_html_line;

/* Lines over one pair of axes, with a legend. from_zero: both axes begin at 0. */
void psr_html_chart(FILE *to, const char *x_name, const char *y_name, const psr_html_line *lines,
                    size_t count, int from_zero);

#endif
