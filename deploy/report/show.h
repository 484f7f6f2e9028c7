/* What the person at `psring train` sees on stdout: the configuration in a few lines, a progress bar with rate and time left on a
 * terminal that fits its width (plain lines otherwise), and a summary; and what it sees on stderr. Nothing of it waits for the terminal
 * (deploy/launch/screen.h). One thread. */
#ifndef PSR_DEPLOY_SHOW_H
#define PSR_DEPLOY_SHOW_H

#include "base/config.h"
#include "comm/comm.h"
#include "deploy/launch/bar.h"
#include "deploy/report/json.h"
#include "deploy/launch/placement.h"
#include "deploy/launch/screen.h"

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
/* How far the hosts of a run are reached: in the bar's place; without a bar, a line for each tenth of them where they are many. On stderr
 * where stdout is a program's. */
void psr_show_connecting(psr_show *show, size_t there, size_t troubles, size_t hosts, bool to_stderr);
/* The few lines at the start. sockets: the directory of a run on ipc sockets, "": TCP. shares: over TCP, memory within each host. */
void psr_show_configuration(psr_show *show, const psr_config *config, const psr_placement *placement,
                            const char *sockets, bool shares);
/* What --no-encrypt means, for every summary of a run that had it. */
const char *psr_show_bare(const psr_config *config);
void psr_show_progress_event(psr_show *show, const psr_run_progress *progress);
/* A line of the summary: what each shard carried, by the outcome's "shards". Nothing in a run without. */
void psr_show_traffic(psr_show *show, const cJSON *outcome);
void psr_show_evaluating_event(psr_show *show, const psr_run_evaluating *evaluating);
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

#endif
