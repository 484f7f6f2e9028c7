/* The configuration that a command line takes from an earlier run: `--config FILE`, `--config RUN`
 * or `--resume RUN`. It is read first, and the options of the command line are put on top. The file
 * may be another person's: options that stop or break a run, or weaken its protection, are taken
 * from the command line only. One thread. */
#ifndef PSR_DEPLOY_EARLIER_RUN_H
#define PSR_DEPLOY_EARLIER_RUN_H

#include "base/config/config.h"

typedef struct psr_earlier_run {
    char path[PSR_PATH_MAX + 64]; /* the path of the run.json; "" if nothing was taken */
    psr_config file;              /* the file's configuration */
    /* the configuration to which the command line's options are added: the run's, or the
     * defaults */
    psr_config config;
} psr_earlier_run;

/* The options of the command line that decide which others of the file are used. */
typedef struct psr_given_options {
    /* eval: --no-eval too */
    bool steps, epochs, init, resume, eval, eval_every, fault_point, data, data_content;
} psr_given_options;

/* config: the value of --config, a file or a run directory. resume: that of --resume, a run
 * directory or a checkpoint within one, which gives the configuration if --config is not given.
 * NULL: not given. A checkpoint elsewhere has no run, and the defaults stay. Two things are left
 * out: the run's --out, since its directory exists already, and the options of psr_config_protect.
 * NOT_FOUND, IO, FORMAT: naming option and file. */
PSR_MUST_CHECK psr_err psr_earlier_run_read(const char *config, const char *resume,
                                            psr_earlier_run *ret_run);

/* config: with the command line's options on top. Of options that exclude each other (--steps and
 * --epochs, --init and --resume, --no-eval and --eval-every) the command line's is used and the
 * run's is dropped. Options that only the run's --mode can have are dropped with that mode. The
 * content of --data is not checked if other --data are asked for, unless --resume must have the
 * same. USAGE: the run has a --fault-point, and the command line has none. */
PSR_MUST_CHECK psr_err psr_earlier_run_fit(const psr_earlier_run *run,
                                           const psr_given_options *given, psr_config *config);

/* Lists what is left out of the file because no file may set it: "RUN.JSON has --transport tcp,
 * which is taken from the command line alone: it is left out"; "": nothing. */
void psr_earlier_run_left_out(const psr_earlier_run *run, const psr_config *config, char *line,
                              size_t size);

#endif
