/* Logging, for programs only (libraries return errors): once, to stderr: time, level, role and
 * rank, message, key=value. The step lines of a rank go to stdout by psr_log_plain. Never blocks:
 * when stderr is a full pipe the line is dropped and counted, and the count is told with the next
 * line that goes through. Thread-safe. */
#ifndef PSR_BASE_LOG_H
#define PSR_BASE_LOG_H

#include "base/err.h"

#include <stdbool.h>

typedef enum psr_log_level {
    PSR_LOG_ERROR,
    PSR_LOG_WARN,
    PSR_LOG_INFO,
    PSR_LOG_DEBUG,
} psr_log_level;

/* What a line is about; it decides where the line is shown. */
typedef enum psr_log_kind {
    PSR_LOG_OF_RUN,
    PSR_LOG_OF_STRANGER, /* a process that is not of the run: it changes
                            nothing, and is shown in logs only */
} psr_log_kind;

const char *psr_log_level_name(psr_log_level level); /* "error", "warn", "info", "debug" */
const char *psr_log_kind_name(psr_log_kind kind);    /* "run", "stranger" */

/* Called once by main. name ("worker 1", "shard 0", "scheduler") is copied. */
void psr_log_init(const char *name, psr_log_level threshold);

/* One line: "12:01:02.345 info  worker 1: joined scheduler=... step=3". */
void psr_log(psr_log_level level, const char *format, ...) PSR_PRINTF(2, 3);

/* The same of another kind than the run's:
 * "12:01:02.345 warn  worker 1 (stranger): turned away ...". */
void psr_log_of(psr_log_kind kind, psr_log_level level, const char *format, ...) PSR_PRINTF(3, 4);

/* One unprefixed line on stdout (the step line), same promise not to block. */
void psr_log_plain(const char *format, ...) PSR_PRINTF(1, 2);

/* A line as psr_log and psr_log_of print it, read again by whoever holds the other end of
 * stderr. */
typedef struct psr_log_line {
    psr_log_level level;
    psr_log_kind kind;
    const char *message; /* borrowed: the text after time, level and name */
} psr_log_line;

/* Reads such a line. false: the text is not psr_log's, but comes from a library or a dying
 * process. */
bool psr_log_line_read(const char *text, psr_log_line *ret_line);

#endif
