/* From a command line, and the files that it names, to what is predicted. One thread. */
#ifndef PSR_BENCH_PREDICT_QUESTION_H
#define PSR_BENCH_PREDICT_QUESTION_H

#include "bench/predict/options.h"

/* Makes o->question whole, of the run in o->runs[0] if there is one. NOT_FOUND, IO, FORMAT: of a
 * file, naming it. USAGE: an option, naming it. NOMEM. The caller owns the question's scenario:
 * psr_scenario_done. */
PSR_MUST_CHECK psr_err psr_predict_question_make(psr_predict_options *options);

#endif
