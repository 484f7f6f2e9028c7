/* What is predicted for runs that have been measured, beside what they took. One thread. */
#ifndef PSR_BENCH_PREDICT_BESIDE_H
#define PSR_BENCH_PREDICT_BESIDE_H

#include "bench/predict/options.h"

/* Prints a table, or with o->json one JSON object, which psring report --predicted reads, with a
 * row for each run of o->runs: a directory, or all that psring bench train --keep-runs has put
 * beside a file. Links are those of the run's lab or its --link-rate, otherwise the options'.
 * Computing time is --compute's, or --profile's, or that of a run without exchange that is given
 * too, or the run's own. A run that cannot be predicted has a row that says why. NOT_FOUND, IO,
 * FORMAT, NOMEM. */
PSR_MUST_CHECK psr_err psr_predict_beside(psr_predict_options *options);

#endif
