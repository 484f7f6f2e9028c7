/* The progress bar as one line of text that fits a terminal's width. It does no I/O and reads no
 * clock; any thread. */
#ifndef PSR_BASE_BAR_H
#define PSR_BASE_BAR_H

#include <stddef.h>

#define PSR_BAR_TEXT_MAX 256

typedef struct psr_bar {
    double step, total;      /* steps completed, of the run */
    double images_per_s;     /* of all workers */
    double loss;             /* NaN: not known */
    double left_s;           /* seconds until the last step; negative: not known */
    double counted, samples; /* of the present evaluation; samples 0: there is none */
} psr_bar;

/* At most width - 1 columns (in the last one some terminals wrap), all ASCII: a byte is a column.
 * What does not fit is left out, rate first, then loss, then the time left, and the bar itself
 * takes what remains. */
void psr_bar_print(const psr_bar *bar, unsigned width, char text[static PSR_BAR_TEXT_MAX]);

/* The same as a line for a log, which has no width. */
void psr_bar_print_line(const psr_bar *bar, char text[static PSR_BAR_TEXT_MAX]);

#endif
