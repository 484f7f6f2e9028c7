/* What a person sees of a training run on stdout, whoever has started it: the configuration in a
 * few lines, a progress bar with rate and time left on a terminal that fits its width (plain lines
 * otherwise), and a summary; and what it sees on stderr. Nothing of it waits for the terminal
 * (base/show/screen.h). psring train shows it of its runs, and the scheduler of those that no
 * launcher of psring's has started. One thread. */
#ifndef PSR_BASE_SHOW_H
#define PSR_BASE_SHOW_H

#include "base/config/config.h"
#include "base/show/bar.h"
#include "base/show/screen.h"

#include <cjson/cJSON.h>

typedef enum psr_show_kind {
    PSR_SHOW_BAR,   /* one line that is redrawn */
    PSR_SHOW_LINES, /* a line after a number of steps, and when 30 s have passed without one */
    PSR_SHOW_NONE,  /* no progress */
} psr_show_kind;

typedef struct psr_show {
    psr_screen *screen; /* borrowed */
    psr_show_kind kind;
    double line_every;        /* steps from one line to the next */
    psr_bar bar;              /* what was shown last */
    char connecting[96];      /* shown instead of the bar before there is a run; "": nothing */
    size_t connecting_tenths; /* tenths of the hosts in the last line */
    bool bar_on_screen;
    bool begun;
    double began_s;    /* when the first progress event came */
    double first_step; /* the step in it */
    double shown_s;    /* when the last line or bar was drawn */
    double line_step;  /* the step in the last line */
} psr_show;

void psr_show_init(psr_show *show, psr_screen *screen, psr_show_kind kind, double line_every);
/* Shows how many hosts of a run have been reached: instead of the bar; without a bar, a line for
 * each tenth of them if there are many. On stderr if stdout belongs to a program. */
void psr_show_connecting(psr_show *show, size_t there, size_t troubles, size_t hosts,
                         bool to_stderr);
/* Where the processes of a run are, and how they reach each other. */
#define PSR_SHOW_HOSTS 8
typedef struct psr_show_place {
    const char *hosts[PSR_SHOW_HOSTS]; /* the names of the first hosts; borrowed */
    size_t host_count;                 /* of all hosts */
    size_t sharing;                    /* hosts within which memory is shared */
    const char *sockets;               /* directory of a run on ipc sockets; "": TCP */
} psr_show_place;

/* The few lines at the start. config: with threads resolved. */
void psr_show_configuration(psr_show *show, const psr_config *config, const psr_show_place *place);
/* The lines after that, when the run directory exists. resumed: what the run continues from; "": it
 * begins anew. */
void psr_show_run(psr_show *show, const char *out, const char *resumed);
/* So many steps of the run are completed. loss, images_per_s: not finite if not known. */
void psr_show_step(psr_show *show, uint64_t completed, uint64_t total, double loss,
                   double images_per_s);
/* So many of all samples are counted in the evaluation after that step. */
void psr_show_evaluating(psr_show *show, uint64_t step, uint64_t total, uint64_t counted,
                         uint64_t samples);
/* The evaluation has ended. */
void psr_show_evaluated(psr_show *show);
/* The terminal has another width now. */
void psr_show_resized(psr_show *show);
/* Draws the bar again: others have used the terminal. */
void psr_show_again(psr_show *show);
/* A line for the person, above the bar. */
void psr_show_line(psr_show *show, const char *line);
/* A line on stderr, below the bar. */
void psr_show_error(psr_show *show, const char *format, ...) PSR_PRINTF(2, 3);
/* The same for the output of another process: left out while too much waits. */
void psr_show_others_error(psr_show *show, const char *format, ...) PSR_PRINTF(2, 3);
/* Ends the bar's line. */
void psr_show_end(psr_show *show);

/* The summary of a run that is over: run.json's outcome, and the run directory. */
void psr_show_outcome(psr_show *show, const psr_config *config, const char *out,
                      const cJSON *outcome);
/* For a run that was stopped in order: prints the command that continues it. */
void psr_show_how_to_go_on(psr_show *show, const char *how);

#endif
