/* The configuration that a command line takes from an earlier run: `--config FILE`, `--config RUN`
 * or `--resume RUN`.
 *
 * It is read first and the options of the command line are put on top. What the file says may be
 * another person's: what stops or breaks a run, and what weakens its protection, is taken from the
 * command line alone. One thread. */
#ifndef PSR_DEPLOY_EARLIER_RUN_H
#define PSR_DEPLOY_EARLIER_RUN_H

#include "base/config/config.h"

typedef struct psr_earlier_run {
    char path[PSR_PATH_MAX + 64]; /* of the run.json; "" where nothing was taken */
    psr_config file;              /* what that file says */
    psr_config config;            /* what the command line goes on top
                                     of: the run's, or the defaults */
} psr_earlier_run;

/* Options of the command line, of those that decide what else of a file is in force. */
typedef struct psr_given_options {
    /* eval: --no-eval too */
    bool steps, epochs, init, resume, eval, eval_every, fault_point, data, data_content;
} psr_given_options;

/* config: the value of --config, a file or a run directory; resume: that of --resume, a run
 * directory or a checkpoint within one, which tells the configuration where --config is not given.
 * NULL: not given. A checkpoint that lies elsewhere has no run, and the defaults stay. The run's
 * --out is left out, since its directory is there already, and so is what psr_config_protect names.
 * NOT_FOUND, IO, FORMAT: naming option and file. */
PSR_MUST_CHECK psr_err psr_earlier_run_read(const char *config, const char *resume,
                                            psr_earlier_run *ret_run);

/* config: with the command line's options on top. Of what excludes each other (--steps and
 * --epochs, --init and --resume, --no-eval and --eval-every) the command line's goes and the run's
 * stays out; what only the run's --mode can have goes with that mode. What --data must hold is
 * forgotten where other --data are asked for, unless they are to go on with what a --resume has.
 * USAGE: the run has a --fault-point, and the command line has none. */
PSR_MUST_CHECK psr_err psr_earlier_run_fit(const psr_earlier_run *run,
                                           const psr_given_options *given, psr_config *config);

/* What of the file is not in force, since no file may say it: "RUN.JSON has --transport tcp, which
 * is taken from the command line alone: it is left out"; "": nothing. */
void psr_earlier_run_left_out(const psr_earlier_run *run, const psr_config *config, char *line,
                              size_t size);

#endif
