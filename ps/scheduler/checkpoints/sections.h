/* Which file of a checkpoint holds which section of net/message.h, under which names. Immutable
 * after building. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_SECTIONS_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_SECTIONS_H

#include "base/facts.h"
#include "model/networks/network.h"

#define PSR_CHECKPOINT_SLOTS_MAX 4

typedef enum psr_checkpoint_file {
    PSR_CHECKPOINT_MODEL, /* model.safetensors */
    PSR_CHECKPOINT_STATE, /* state.safetensors */
    PSR_CHECKPOINT_EMA,   /* model-ema.safetensors: --ema's averages, under a model's names */
    PSR_CHECKPOINT_FILES,
} psr_checkpoint_file;

/* "model", "state", "model-ema": the file's name before .safetensors. */
const char *psr_checkpoint_file_name(psr_checkpoint_file file);

typedef struct psr_sections {
    psr_network *net;        /* owned */
    uint32_t ranks;          /* number of ranks of training */
    bool computes_all_ranks; /* worker 0 computes them all */
    bool owes;               /* --compress has a residual: there is a section for each rank */
    /* --compress-weights has a residual: the model is what workers have, and what shards update is
     * in the state */
    bool pulls_differences;
    bool averages;      /* --ema: there is a model of averages */
    uint32_t ema_slot;  /* then: which slot is their weights */
    psr_layout trained; /* owned: of the optimizer's state and of residuals (--freeze) */
    /* --precision fp16; or, which its owner sets, the run goes on from one in which steps were left
     * out (model/loss_scale.h) */
    bool has_scale;
    psr_layout scale; /* owned: of the loss scale's numbers */
    uint32_t slot_count;
    /* the optimizer's state arrays, for example "momentum" */
    char slot_names[PSR_CHECKPOINT_SLOTS_MAX][32];
} psr_sections;

/* Of the test set. */
typedef struct psr_checkpoint_evaluation {
    double accuracy, loss;
    bool has_ema; /* --ema: so was the average of the weights evaluated */
    double ema_accuracy, ema_loss;
} psr_checkpoint_evaluation;

typedef struct psr_section_place {
    psr_checkpoint_file file;
    char prefix[40];          /* before a tensor's name: "", "momentum/", "rank3/" */
    const psr_layout *layout; /* of the section's array; borrowed from the sections */
    uint32_t worker;          /* the worker that gets it when it is restored */
    uint32_t rank;            /* of a residual, and of statistics of one rank */
    bool of_statistics;       /* of one rank */
    bool of_ema;              /* --ema's: the like without it if the checkpoint's run had none */
    bool of_loss_scale;       /* given with the step that begins, not restored by pieces */
    bool of_compression;      /* a residual: zeros if the checkpoint's run had none */
    /* the weights that shards update, beside those that workers have: the same ones if the
     * checkpoint's run had none */
    bool of_updated;
} psr_section_place;

/* The sections for the run's model and data. The caller owns *ret_sections: psr_sections_done.
 * Fails as psr_network_new; FORMAT: the workers counted another number of parameters than this
 * program does. */
PSR_MUST_CHECK psr_err psr_sections_init(const psr_config *config, const psr_facts *facts,
                                         psr_sections *ret_sections);
void psr_sections_done(psr_sections *sections);

/* false: this run has no such section. */
bool psr_sections_place(const psr_sections *sections, uint32_t section,
                        psr_section_place *ret_place);

/* The i-th section of this run, to go through all; false: there are no more. */
bool psr_sections_at(const psr_sections *sections, uint32_t i, uint32_t *ret_section);

#endif
