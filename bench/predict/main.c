/* `psring predict`: how long a step would take on a cluster, for each architecture. */
#include "base/log.h"
#include "bench/predict/beside.h"
#include "bench/predict/costs.h"
#include "bench/predict/question.h"

#include <stdio.h>

static psr_err answer(psr_predict_options *o)
{
    psr_answer found;
    psr_err err = psr_answer_make(&o->question, &found);
    if (err != PSR_OK)
        return err;
    if (o->json)
        err = psr_answer_print_json(&o->question, &found);
    else
        psr_answer_print(&o->question, &found);
    psr_answer_done(&found);
    return err;
}

static psr_err predict(psr_predict_options *o)
{
    if (o->calibrate)
        return psr_costs_calibrate();
    if (o->beside)
        return psr_predict_beside(o);
    PSR_TRY(psr_predict_question_make(o));
    psr_err err = answer(o);
    psr_scenario_done(&o->question.scenario);
    return err;
}

int main(int argc, char **argv)
{
    psr_predict_options options;
    psr_log_init("predict", PSR_LOG_ERROR);
    psr_predict_options_parse(argc, argv, &options);
    psr_err err = predict(&options);
    if (err != PSR_OK)
        fprintf(stderr, "psring predict: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
