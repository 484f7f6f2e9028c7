/* The answer of a prediction: every architecture on every number of hosts, what is best, where one
 * overtakes another, and how much each input matters. One thread. */
#ifndef PSR_BENCH_ANSWER_H
#define PSR_BENCH_ANSWER_H

#include "bench/predict/scenario.h"

#define PSR_ANSWER_LIST_MAX 16
#define PSR_EMULATED_WORKERS_MAX 64 /* emulated unless it is said otherwise */

typedef enum psr_predict_by { PSR_BY_AUTO, PSR_BY_MACHINES, PSR_BY_ONE_LINK } psr_predict_by;

typedef struct psr_predict_question {
    psr_scenario scenario; /* its hosts are each of those below */
    uint32_t hosts[PSR_ANSWER_LIST_MAX], host_count;
    uint32_t shards[PSR_ANSWER_LIST_MAX], shard_count; /* 0: by the number of hosts */
    bool ring, ps;                                     /* which of the two are predicted */
    bool beside, dedicated;
    psr_predict_by by;
    bool slices_given; /* false: those that training takes from such links */
} psr_predict_question;

typedef struct psr_input_effect {
    const char *name; /* of the option */
    double value;
    double less, more; /* step_s with 10% less and 10% more of it, over step_s */
} psr_input_effect;

typedef struct psr_answer_hosts {
    uint32_t hosts, first, count; /* of rows */
    uint32_t best, best_ps;       /* rows; best_ps UINT32_MAX: there is none, as below */
    uint32_t ring;                /* the ring's row */
} psr_answer_hosts;

enum { PSR_INPUT_EFFECTS = 10 };

typedef struct psr_answer {
    psr_prediction *rows; /* owned */
    uint32_t row_count;
    psr_answer_hosts hosts[PSR_ANSWER_LIST_MAX];
    uint32_t host_count;
    psr_input_effect effects[PSR_INPUT_EFFECTS]; /* on the best of the last number of hosts */
    uint32_t effect_count;
    /* The rate of the links at which ring and the best PS are equally fast there, by the one-link
     * model, between a hundredth and a hundred times the rate given; 0: one of them is faster at
     * all of these. */
    double crossing_bits_per_s;
    bool ring_below; /* the ring is faster at slower links */
} psr_answer;

/* Fails as psr_emulate. The caller owns *ret_answer: psr_answer_done. */
PSR_MUST_CHECK psr_err psr_answer_make(psr_predict_question *question, psr_answer *ret_answer);
void psr_answer_done(psr_answer *answer);

/* A table of at most 80 columns. */
void psr_answer_print(const psr_predict_question *question, const psr_answer *answer);
/* One JSON object. NOMEM. */
PSR_MUST_CHECK psr_err psr_answer_print_json(const psr_predict_question *question,
                                             const psr_answer *answer);

#endif
