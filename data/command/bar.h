/* The progress of something that has a beginning and an end, on stderr: on a terminal a bar with
 * rate and time left, redrawn ten times a second; elsewhere nothing. In place. One thread at a
 * time. */
#ifndef PSR_DATA_COMMAND_BAR_H
#define PSR_DATA_COMMAND_BAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_data_bar {
    char what[48]; /* at its left: a file's name */
    bool bytes;    /* counts bytes rather than pictures */
    bool drawn;    /* and not yet taken away */
    bool terminal;
    uint64_t before; /* done before it began: no part of the rate */
    double began_s, drawn_s;
} psr_data_bar;

void psr_data_bar_begin(psr_data_bar *bar, const char *what, bool bytes);
/* total 0: not known. */
void psr_data_bar_at(psr_data_bar *bar, uint64_t done, uint64_t total);
/* Takes it away, so that lines can be printed. */
void psr_data_bar_end(psr_data_bar *bar);

#endif
