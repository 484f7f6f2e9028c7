/* A run's figures as a person reads them: the summary of `psring train`, and how each figure is
 * written in it and in the table of `psring report`. The figures are run.json's outcome
 * (base/figures.h). No state; any thread. */
#ifndef PSR_BASE_SUMMARY_H
#define PSR_BASE_SUMMARY_H

#include "base/figures.h"

#include <cjson/cJSON.h>

#define PSR_SUMMARY_BYTES 8192
#define PSR_FIGURE_TEXT_BYTES 48

/* A figure of an outcome; NaN: it is not there, or null. */
double psr_summary_figure(const cJSON *outcome, psr_figure figure);

/* The figure with its significant digits, without its unit; accuracy in percent. For the first of
 * three over workers the mean and, if there is one, the range: "1.20 (0.10-2.30)". "-": not
 * known. */
void psr_summary_text(const cJSON *outcome, psr_figure figure,
                      char text[static PSR_FIGURE_TEXT_BYTES]);

/* A head and a row for each stretch of a run that changed its architecture; "" for other runs.
 * before: put in front of each line. */
void psr_summary_stretches(const cJSON *outcome, const char *before,
                           char text[static PSR_SUMMARY_BYTES]);

/* The lines of a run that has ended: how long it took, its warm-up, waiting, and result. Unknown
 * figures are left out. */
void psr_summary_print(const cJSON *outcome, char text[static PSR_SUMMARY_BYTES]);

#endif
