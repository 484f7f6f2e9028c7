#include "base/show/bar.h"

#include "base/text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BAR_MOST 30
#define BAR_LEAST 5
/* the rate is left out if less than this width would remain for the bar */
#define BAR_BEFORE_RATE 10
#define PART_MAX 96

static void print_time_left(double seconds, char text[static PART_MAX])
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 359999) {
        snprintf(text, PART_MAX, "-:-- left");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, PART_MAX, "%lu:%02lu:%02lu left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, PART_MAX, "%lu:%02lu left", s / 60, s % 60);
}

static void print_rate(double images_per_s, char text[static PART_MAX])
{
    snprintf(text, PART_MAX, "%.*f images/s", images_per_s < 10 ? 1 : 0, images_per_s);
}

/* Chooses the longest of several texts that fits so many columns. The texts go from long to short;
 * if none fits, the last one is cut. */
static const char *longest_that_fits(const char *const texts[], size_t count, size_t columns)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (strlen(texts[i]) <= columns)
            return texts[i];
    return texts[count - 1];
}

/* The part that is always shown, even if the terminal is very narrow. */
static void print_place(const psr_bar *bar, size_t columns, char text[static PART_MAX])
{
    char whole[PART_MAX], shorter[PART_MAX], shortest[PART_MAX], percent[PART_MAX];
    if (bar->samples > 0) {
        snprintf(whole, sizeof whole, "%.0f/%.0f  evaluating %.0f/%.0f", bar->step, bar->total,
                 bar->counted, bar->samples);
        snprintf(shorter, sizeof shorter, "evaluating %.0f/%.0f", bar->counted, bar->samples);
        snprintf(shortest, sizeof shortest, "eval %.0f/%.0f", bar->counted, bar->samples);
        snprintf(percent, sizeof percent, "evaluating %.0f%%",
                 floor(100 * bar->counted / bar->samples));
        snprintf(
            text, PART_MAX, "%s",
            longest_that_fits((const char *[]){whole, shorter, shortest, percent}, 4, columns));
    } else {
        snprintf(whole, sizeof whole, "%.0f/%.0f", bar->step, bar->total);
        snprintf(percent, sizeof percent, "%.0f%%",
                 bar->total > 0 ? floor(100 * bar->step / bar->total) : 0);
        snprintf(text, PART_MAX, "%s",
                 longest_that_fits((const char *[]){whole, percent}, 2, columns));
    }
    if (strlen(text) > columns)
        text[columns] = '\0';
}

/* Adds the part, with two blanks before it, if it fits and so many columns remain. */
static void take_part(char *part, size_t *columns, size_t leaves)
{
    if (strlen(part) + 2 + leaves <= *columns)
        *columns -= strlen(part) + 2;
    else
        part[0] = '\0';
}

/* "[####......] ", of what is left of the columns; "" when that is too little. */
static void print_filled(double share, size_t columns, char text[static PART_MAX])
{
    text[0] = '\0';
    if (columns < BAR_LEAST + 3)
        return;
    size_t width = columns - 3 < BAR_MOST ? columns - 3 : BAR_MOST, filled = 0;
    while (filled < width && (double)(filled + 1) <= share * (double)width)
        filled++;
    text[0] = '[';
    memset(text + 1, '#', filled);
    memset(text + 1 + filled, '.', width - filled);
    memcpy(text + 1 + width, "] ", 3);
}

void psr_bar_print(const psr_bar *bar, unsigned width, char text[static PSR_BAR_TEXT_MAX])
{
    size_t columns = width > 1 ? width - 1 : 0;
    char place[PART_MAX], left[PART_MAX] = "", loss[PART_MAX] = "", rate[PART_MAX] = "",
                          filled[PART_MAX];
    print_place(bar, columns, place);
    columns -= strlen(place);
    if (bar->samples <= 0) {
        print_time_left(bar->left_s, left);
        take_part(left, &columns, 0);
        if (isfinite(bar->loss))
            snprintf(loss, sizeof loss, "loss %.4f", bar->loss);
        if (loss[0])
            take_part(loss, &columns, 0);
        print_rate(bar->images_per_s, rate);
        take_part(rate, &columns, BAR_BEFORE_RATE + 3);
    }
    print_filled(bar->samples > 0 ? bar->counted / bar->samples
                 : bar->total > 0 ? bar->step / bar->total
                                  : 0,
                 columns, filled);
    psr_text_end end = {text, PSR_BAR_TEXT_MAX};
    psr_text_add(&end, "%s%s%s%s%s%s%s%s", filled, place, rate[0] ? "  " : "", rate,
                 loss[0] ? "  " : "", loss, left[0] ? "  " : "", left);
}

void psr_bar_print_line(const psr_bar *bar, char text[static PSR_BAR_TEXT_MAX])
{
    char left[PART_MAX], loss[PART_MAX] = "", rate[PART_MAX];
    if (bar->samples > 0) {
        snprintf(text, PSR_BAR_TEXT_MAX, "step %.0f/%.0f  evaluating: %.0f of %.0f samples",
                 bar->step, bar->total, bar->counted, bar->samples);
        return;
    }
    print_time_left(bar->left_s, left);
    print_rate(bar->images_per_s, rate);
    if (isfinite(bar->loss))
        snprintf(loss, sizeof loss, "  loss %.4f", bar->loss);
    psr_text_end end = {text, PSR_BAR_TEXT_MAX};
    psr_text_add(&end, "step %.0f/%.0f  %s%s  %s", bar->step, bar->total, rate, loss, left);
}
