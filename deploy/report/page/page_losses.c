#include "deploy/report/page/page_private.h"

#include "deploy/report/curves.h"
#include "deploy/report/page/html.h"

#include <stdlib.h>

typedef struct loss_curve {
    psr_curve curve;
    double steps[PSR_CURVE_POINTS_MAX], seconds[PSR_CURVE_POINTS_MAX], losses[PSR_CURVE_POINTS_MAX];
    char name[PSR_PAGE_NAME_BYTES];
} loss_curve;

static void fill_curve(const psr_page *p, size_t group, loss_curve *curve)
{
    const char *directory = p->runs->items[p->groups.items[group].runs[0]].directory;
    if (psr_curve_read(directory, &curve->curve) != PSR_OK)
        curve->curve.count = 0; /* a run without metrics has no line */
    for (size_t i = 0; i < curve->curve.count; i++) {
        curve->steps[i] = curve->curve.points[i].step;
        curve->seconds[i] = curve->curve.points[i].train_s;
        curve->losses[i] = curve->curve.points[i].loss;
    }
    psr_page_group_name(p, group, curve->name);
}

static void put_losses(const psr_page *p, const loss_curve *curves, size_t count)
{
    psr_html_line lines[PSR_HTML_COLOURS];
    size_t drawn = 0, each = 1;
    for (int by_seconds = 0; by_seconds <= 1; by_seconds++) {
        drawn = 0;
        for (size_t g = 0; g < count; g++) {
            if (curves[g].curve.count < 2)
                continue;
            each = curves[g].curve.steps_per_point > each ? curves[g].curve.steps_per_point : each;
            lines[drawn++] = (psr_html_line){.name = curves[g].name,
                                             .x = by_seconds ? curves[g].seconds : curves[g].steps,
                                             .y = curves[g].losses,
                                             .count = curves[g].curve.count,
                                             .colour = g,
                                             .dashed = g % 2 == 1};
        }
        if (drawn == 0)
            return;
        psr_page_put(p, by_seconds
                            ? "<h2>Loss against seconds of training</h2>\n"
                            : "<h2>Loss against steps</h2>\n<p class=soft>Where two runs have the "
                              "same bits their lines lie on one another.</p>\n");
        psr_html_chart(p->to, by_seconds ? "seconds" : "step", "loss", lines, drawn, 0);
    }
    fprintf(p->to, "<p class=soft>The first run of each configuration%s",
            count < p->groups.count ? ", the first eight" : "");
    if (each > 1)
        fprintf(p->to, "; a point is the mean of %zu steps", each);
    psr_page_put(p, ".</p>\n");
}

psr_err psr_page_put_curves(const psr_page *p)
{
    size_t count = p->groups.count < PSR_HTML_COLOURS ? p->groups.count : PSR_HTML_COLOURS;
    loss_curve *curves = calloc(count > 0 ? count : 1, sizeof *curves);
    if (curves == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the losses of %zu runs", count);
    for (size_t g = 0; g < count; g++)
        fill_curve(p, g, &curves[g]);
    put_losses(p, curves, count);
    free(curves);
    return PSR_OK;
}
