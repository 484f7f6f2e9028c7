/* What the person at `psring train` sees on stdout: the configuration in a few lines, a progress bar with rate and time left on a
 * terminal (plain lines otherwise), and a summary; and what it sees on stderr. Nothing of it waits for the terminal
 * (deploy/screen.h). One thread. */
#ifndef PSR_DEPLOY_SHOW_H
#define PSR_DEPLOY_SHOW_H

#include "base/config.h"
#include "deploy/placement.h"
#include "deploy/screen.h"

typedef struct psr_show {
    psr_screen *screen; /* borrowed */
    bool terminal;
    bool bar_on_screen;
    double began_s;       /* of the first progress event */
    double first_step;    /* that it told */
    double shown_s;       /* when the last line or bar was drawn */
    double plain_percent; /* progress that the last plain line told */
} psr_show;

typedef struct psr_show_progress {
    double step, total; /* completed steps, of the run */
    double loss, images_per_s;
} psr_show_progress;

void psr_show_init(psr_show *show, psr_screen *screen);
/* The few lines at the start. */
void psr_show_configuration(psr_show *show, const psr_config *config, const psr_plan *plan);
void psr_show_progress_event(psr_show *show, const psr_show_progress *progress);
/* A line for the person, above the bar. */
void psr_show_line(psr_show *show, const char *line);
/* A line on stderr, below the bar. */
void psr_show_error(psr_show *show, const char *format, ...) PSR_PRINTF(2, 3);
/* Ends the bar's line. */
void psr_show_end(psr_show *show);

#endif
