/* What earlier measurements say: a run directory of psring train, and the JSON of psring doctor.
 * Both may come from elsewhere, and are checked. One thread. */
#ifndef PSR_BENCH_INPUTS_H
#define PSR_BENCH_INPUTS_H

#include "base/config/config.h"

typedef struct psr_run_input {
    psr_config config;                         /* what the run.json has, on top of the defaults */
    uint32_t classes, channels, height, width; /* of the images */
    double compute_s; /* of a step: median over ranks and steps, without the first tenth */
    /* of a step after warm-up, with its exchange, until the first worker had computed its last one;
     * 0: it is not known */
    double step_s;
    uint32_t hosts;            /* with workers; 0: it is not known */
    uint32_t workers_per_host; /* 0: they have different numbers */
    bool dedicated;            /* shards are on hosts of their own */
} psr_run_input;

/* NOT_FOUND, IO, FORMAT: naming the file. */
PSR_MUST_CHECK psr_err psr_run_input_read(const char *directory, psr_run_input *ret_input);

/* How long its step would compute if no other worker did, on a machine with so many processors that
 * all of its workers shared; 0: none are shared. One that is played sleeps: it needs none. */
double psr_run_input_alone_s(const psr_run_input *input, uint32_t processors);

/* The links of the run's lab, by its lab.json: of each host with workers, then of each with shards
 * alone; and the share of packets that all of them lose. NOT_FOUND: it was in none. FORMAT. */
PSR_MUST_CHECK psr_err psr_run_links_read(const char *directory, uint32_t hosts_max,
                                          double *ret_bits_per_s, double *ret_slow,
                                          uint32_t *ret_count, double *ret_loss);

typedef struct psr_doctor_input {
    uint32_t hosts;
    double bits_per_s; /* of messages between two hosts: the median */
    double round_trip_s;
} psr_doctor_input;

/* FORMAT: also if it has no pair of hosts that was measured. */
PSR_MUST_CHECK psr_err psr_doctor_input_read(const char *path, psr_doctor_input *ret_input);

#endif
