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
    PSR_SHOW_BAR,   /* one line, drawn again and again */
    PSR_SHOW_LINES, /* a line every so many steps, and when 30 s have passed without one */
    PSR_SHOW_NONE,  /* nothing of the progress */
} psr_show_kind;

typedef struct psr_show {
    psr_screen *screen; /* borrowed */
    psr_show_kind kind;
    double line_every;        /* steps from one line to the next */
    psr_bar bar;              /* what was told last */
    char connecting[96];      /* in the bar's place, before there is a run; "": nothing */
    size_t connecting_tenths; /* of the hosts, that the last line told of */
    bool bar_on_screen;
    bool begun;
    double began_s;    /* of the first progress event */
    double first_step; /* that it told */
    double shown_s;    /* when the last line or bar was drawn */
    double line_step;  /* that the last line told */
} psr_show;

void psr_show_init(psr_show *show, psr_screen *screen, psr_show_kind kind, double line_every);
/* How far the hosts of a run are reached: in the bar's place; without a bar, a line for each tenth
 * of them where they are many. On stderr where stdout is a program's. */
void psr_show_connecting(psr_show *show, size_t there, size_t troubles, size_t hosts,
                         bool to_stderr);
/* Where the processes of a run are, and how they reach each other. */
#define PSR_SHOW_HOSTS 8
typedef struct psr_show_place {
    const char *hosts[PSR_SHOW_HOSTS]; /* the names of the first; borrowed */
    size_t host_count;                 /* of all */
    size_t sharing;                    /* hosts within which memory is shared */
    const char *sockets;               /* directory of a run on ipc sockets; "": TCP */
} psr_show_place;

/* The few lines at the start. config: with threads resolved. */
void psr_show_configuration(psr_show *show, const psr_config *config, const psr_show_place *place);
/* The lines behind it, once the run directory is there. resumed: what the run goes on with; "": it
 * is from its start. */
void psr_show_run(psr_show *show, const char *out, const char *resumed);
/* So many steps are completed, of the run. loss, images_per_s: not finite: not known. */
void psr_show_step(psr_show *show, uint64_t completed, uint64_t total, double loss,
                   double images_per_s);
/* In the evaluation after that step so many samples are counted, of all. */
void psr_show_evaluating(psr_show *show, uint64_t step, uint64_t total, uint64_t counted,
                         uint64_t samples);
/* It is over. */
void psr_show_evaluated(psr_show *show);
/* The terminal has another width now. */
void psr_show_resized(psr_show *show);
/* The bar is to be there again: others have had the terminal. */
void psr_show_again(psr_show *show);
/* A line for the person, above the bar. */
void psr_show_line(psr_show *show, const char *line);
/* A line on stderr, below the bar. */
void psr_show_error(psr_show *show, const char *format, ...) PSR_PRINTF(2, 3);
/* The same for what another process said: left out while too much waits. */
void psr_show_others_error(psr_show *show, const char *format, ...) PSR_PRINTF(2, 3);
/* Ends the bar's line. */
void psr_show_end(psr_show *show);

/* The summary of a run that is over: run.json's outcome, and the run directory. */
void psr_show_outcome(psr_show *show, const psr_config *config, const char *out,
                      const cJSON *outcome);
/* Of a run that was stopped in order: the command. */
void psr_show_how_to_go_on(psr_show *show, const char *how);

#endif
