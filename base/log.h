/* Logging, for programs only (libraries return errors): once, to stderr: time, level, role and
 * rank, message, key=value. The step lines of a rank go to stdout by psr_log_plain.
 * Never blocks: when stderr is a full pipe the line is dropped and counted, and the count is told with the
 * next line that goes through. Thread-safe. */
#ifndef PSR_BASE_LOG_H
#define PSR_BASE_LOG_H

#include "base/err.h"

typedef enum psr_log_level {
    PSR_LOG_ERROR,
    PSR_LOG_WARN,
    PSR_LOG_INFO,
    PSR_LOG_DEBUG,
} psr_log_level;

/* Called once by main. name ("worker 1", "shard 0", "scheduler") is copied. */
void psr_log_init(const char *name, psr_log_level threshold);

/* One line: "12:01:02.345 info  worker 1: joined scheduler=... step=3". */
void psr_log(psr_log_level level, const char *format, ...) PSR_PRINTF(2, 3);

/* One unprefixed line on stdout (the step line), same promise not to block. */
void psr_log_plain(const char *format, ...) PSR_PRINTF(1, 2);

#endif
