#include "ps/show/picture.h"

#include "base/system/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000, MARGIN = 20, BAND = 44, TOP = 64, GAP = 34, COLOURS = 8 };

/* Okabe and Ito's, which people with any colour vision tell apart; black is for text. */
static const char *const colours[COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                             "#56b4e9", "#d55e00", "#f0e442", "#999999"};

typedef struct picture {
    FILE *to;
    size_t length; /* of the arena */
} picture;

static double x_of(const picture *p, size_t at)
{
    return MARGIN + (double)at / (double)p->length * (WIDTH - 2 * MARGIN);
}

static bool is_dark(const char *colour)
{
    return strcmp(colour, colours[0]) == 0 || strcmp(colour, colours[2]) == 0 ||
           strcmp(colour, colours[5]) == 0;
}

/* A box with a title, which a browser shows where the mouse is, and the first
 * letters of a label where there is room for them. */
static void box(const picture *p, psr_span span, int band, const char *colour, const char *title,
                const char *label, size_t label_letters)
{
    const double x = x_of(p, span.offset), width = x_of(p, psr_span_end(span)) - x;
    const int y = TOP + band * (BAND + GAP);
    fprintf(p->to,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
            "stroke-width=\"0.5\"><title>%s</title></rect>\n",
            x, y, width, BAND, colour, title);
    if (width > 6.5 * (double)label_letters + 4)
        fprintf(p->to, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%.*s</text>\n",
                x + width / 2, y + BAND / 2 + 4, is_dark(colour) ? "white" : "black",
                (int)label_letters, label);
}

static void band_title(const picture *p, int band, const char *text)
{
    fprintf(p->to, "<text x=\"%d\" y=\"%d\" class=\"band\">%s</text>\n", MARGIN,
            TOP + band * (BAND + GAP) - 6, text);
}

static void draw_tensors(const picture *p, const psr_layout *layout)
{
    char title[PSR_TENSOR_NAME_MAX + 64];
    band_title(p, 0, "tensors");
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        snprintf(title, sizeof title, "%s, %zu values", tensor->name, tensor->count);
        const char *dot = strrchr(tensor->name, '.'); /* the layer's name ends there */
        box(p, (psr_span){tensor->offset, tensor->count}, 0, t % 2 ? "#d8d8d8" : "#ececec", title,
            tensor->name, dot != NULL ? (size_t)(dot - tensor->name) : strlen(tensor->name));
    }
}

/* Who holds a slice: a shard or a worker; by ring the rank that completes the chunk's sum. */
static psr_peer holder_of(const psr_plan *plan, const psr_slice *slice)
{
    return plan->buckets[slice->bucket].route == PSR_ROUTE_RING
               ? (psr_peer){PSR_ROLE_WORKER, slice->chunk}
               : psr_plan_home(plan, slice->bucket);
}

static void draw_buckets(const picture *p, const psr_plan *plan)
{
    char title[128], label[32];
    band_title(p, 1, "buckets; bucket 0 leaves first");
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        const psr_plan_bucket *bucket = &plan->buckets[b];
        const psr_peer home = psr_plan_home(plan, b);
        const bool held = bucket->route == PSR_ROUTE_SHARD || bucket->route == PSR_ROUTE_HOST;
        int letters = snprintf(label, sizeof label, "%" PRIu32, b);
        snprintf(title, sizeof title, "bucket %" PRIu32 ", %.1f KiB, %s", b,
                 (double)bucket->span.count * sizeof(float) / 1024,
                 held ? psr_role_name(home.role) : "all workers");
        box(p, bucket->span, 1, held ? colours[home.rank % COLOURS] : "#bbbbbb", title, label,
            (size_t)letters);
    }
}

static void draw_slices(const picture *p, const psr_plan *plan)
{
    char title[128], label[32];
    band_title(p, 2,
               plan->slice_count > 0 && plan->buckets[0].route == PSR_ROUTE_RING
                   ? "slices; the number is the rank where the sum is complete"
                   : "slices; the number is the rank of the shard or worker that holds it");
    for (uint32_t i = 0; i < plan->slice_count; i++) {
        const psr_slice *slice = &plan->slices[i];
        const psr_peer holder = holder_of(plan, slice);
        int letters = snprintf(label, sizeof label, "%" PRIu32, holder.rank);
        snprintf(title, sizeof title, "slice %" PRIu32 " of bucket %" PRIu32 ": %s %" PRIu32, i,
                 slice->bucket, psr_role_name(holder.role), holder.rank);
        box(p, slice->span, 2, colours[holder.rank % COLOURS], title, label, (size_t)letters);
    }
}

psr_err psr_show_picture_write(const char *path, const char *model, const psr_layout *layout,
                               const psr_plan *plan)
{
    char *text = NULL;
    size_t size = 0;
    picture p = {.to = open_memstream(&text, &size), .length = psr_plan_length(plan)};
    if (p.to == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    fprintf(p.to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"11\">\n<style>.band{font-size:13px}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"28\" font-size=\"16\">%s: the parameters, first layer on the "
            "left</text>\n",
            WIDTH, TOP + 3 * (BAND + GAP), MARGIN, model);
    draw_tensors(&p, layout);
    draw_buckets(&p, plan);
    draw_slices(&p, plan);
    fputs("</svg>\n", p.to);
    if (fclose(p.to) != 0) {
        free(text);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    }
    psr_err err = psr_file_write_atomic(path, text, size);
    free(text);
    return err;
}
