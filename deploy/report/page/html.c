#include "deploy/report/page/html.h"

#include "base/text/printable.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The size of a chart's own coordinates. It is stretched to the page's width. */
#define CHART_WIDTH 1000.0
#define CHART_HEIGHT 400.0

void psr_html_text(FILE *to, const char *text)
{
    char *shown = strdup(text);
    if (shown == NULL)
        return;
    psr_printable_line(shown, strlen(shown));
    for (const char *at = shown; *at; at++)
        switch (*at) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        case '\'':
            fputs("&#39;", to);
            break;
        default:
            fputc(*at, to);
        }
    free(shown);
}

const char *psr_html_number(double value, char text[static PSR_HTML_NUMBER_BYTES])
{
    bool is_large = fabs(value) >= 1000 && fabs(value) < 1e15;
    snprintf(text, PSR_HTML_NUMBER_BYTES, is_large ? "%.0f" : "%.4g", value);
    return text;
}

void psr_html_bar(FILE *to, const char *name, const psr_html_part *parts, size_t count,
                  double whole, const char *value)
{
    fputs("<div class=bar><span class=name>", to);
    psr_html_text(to, name);
    fputs("</span><span class=track>", to);
    for (size_t i = 0; i < count; i++) {
        if (!(parts[i].value > 0) || !(whole > 0))
            continue;
        fprintf(to, "<i class=s%zu style=\"width:%.2f%%\"", parts[i].colour % PSR_HTML_COLOURS,
                100 * fmin(parts[i].value / whole, 1));
        if (parts[i].name != NULL) {
            fputs(" title=\"", to);
            psr_html_text(to, parts[i].name);
            fputs("\"", to);
        }
        fputs("></i>", to);
    }
    fputs("</span><span class=value>", to);
    psr_html_text(to, value);
    fputs("</span></div>\n", to);
}

/* ---- charts of lines ---- */

typedef struct extent {
    double least, most;
} extent;

static void widen(extent *axis, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        axis->least = fmin(axis->least, values[i]);
        axis->most = fmax(axis->most, values[i]);
    }
}

static extent extent_of(const psr_html_line *lines, size_t count, int of_y, int from_zero)
{
    extent axis = {DBL_MAX, -DBL_MAX};
    for (size_t i = 0; i < count; i++)
        widen(&axis, of_y ? lines[i].y : lines[i].x, lines[i].count);
    if (from_zero)
        axis.least = fmin(axis.least, 0);
    if (!(axis.most > axis.least))
        axis.most = axis.least + 1; /* one value: a flat line */
    return axis;
}

static double share(extent axis, double value)
{
    return (value - axis.least) / (axis.most - axis.least);
}

/* Both ends of an axis, and between them its name. */
static void put_ends(FILE *to, const char *of, extent axis, const char *name)
{
    char least[PSR_HTML_NUMBER_BYTES], most[PSR_HTML_NUMBER_BYTES];
    fprintf(to, "<div class=%s><b>%s</b><b>", of, psr_html_number(axis.least, least));
    psr_html_text(to, name);
    fprintf(to, "</b><b>%s</b></div>", psr_html_number(axis.most, most));
}

static void put_line(FILE *to, const psr_html_line *line, extent x, extent y)
{
    fprintf(to, "<polyline class=\"s%zu%s\" points=\"", line->colour % PSR_HTML_COLOURS,
            line->dashed ? " dashed" : "");
    for (size_t i = 0; i < line->count; i++)
        fprintf(to, "%.1f,%.1f ", CHART_WIDTH * share(x, line->x[i]),
                CHART_HEIGHT * (1 - share(y, line->y[i])));
    fputs("\"/>", to);
    for (size_t i = 0; i < line->count && line->count <= 12; i++) /* few points are shown as such */
        fprintf(to, "<path class=\"s%zu dot\" d=\"M%.1f,%.1fh.01\"/>",
                line->colour % PSR_HTML_COLOURS, CHART_WIDTH * share(x, line->x[i]),
                CHART_HEIGHT * (1 - share(y, line->y[i])));
}

void psr_html_chart(FILE *to, const char *x_name, const char *y_name, const psr_html_line *lines,
                    size_t count, int from_zero)
{
    extent x = extent_of(lines, count, 0, from_zero), y = extent_of(lines, count, 1, from_zero);
    fputs("<div class=chart>", to);
    put_ends(to, "y", y, y_name);
    fprintf(to, "<svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=none role=img aria-label=\"",
            CHART_WIDTH, CHART_HEIGHT);
    psr_html_text(to, y_name);
    fputs(" against ", to);
    psr_html_text(to, x_name);
    fputs("\">", to);
    for (int i = 1; i < 4; i++)
        fprintf(to, "<path class=grid d=\"M0,%.0fH%.0f\"/>", i * CHART_HEIGHT / 4, CHART_WIDTH);
    for (size_t i = 0; i < count; i++)
        put_line(to, &lines[i], x, y);
    fputs("</svg>", to);
    put_ends(to, "x", x, x_name);
    fputs("</div>\n<p class=legend>", to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "<span><i class=\"s%zu%s\"></i>", lines[i].colour % PSR_HTML_COLOURS,
                lines[i].dashed ? " dashed" : "");
        psr_html_text(to, lines[i].name);
        fputs("</span> ", to);
    }
    fputs("</p>\n", to);
}
