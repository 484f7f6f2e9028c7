/* The one typed configuration of a run, and the one table of its options.
 *
 * The table (config_table.c) gives each option's name, kind, bounds, default and help text; the
 * command line (argp), run.json and the WELCOME message are all read and written through it, so an
 * option exists in one place. Strings are held in the struct. Plain data: copy with =. Any
 * thread. */
#ifndef PSR_BASE_CONFIG_CONFIG_H
#define PSR_BASE_CONFIG_CONFIG_H

#include "base/config/pace.h"
#include "base/content.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_PATH_MAX 1024
#define PSR_SLOWED_MAX 64 /* ranks of --slow */
/* The most bytes of an option as text, with its zero. */
#define PSR_OPTION_TEXT_MAX 4096
#define PSR_STRETCHES_MAX 64
#define PSR_STEPS_MOST ((uint64_t)1 << 40) /* of a run */
#define PSR_ROUTE_TEXT_MAX 512
#define PSR_FACTORS_TEXT_MAX 512

typedef enum psr_mode {
    PSR_MODE_PS,
    PSR_MODE_RING,
    PSR_MODE_LOCAL,
    PSR_MODE_NCCL,
    PSR_MODE_MPI
} psr_mode;
/* Consecutive steps of a run in one mode: from first_step to the next stretch or the end of the
 * run. */
typedef struct psr_stretch {
    psr_mode mode;
    uint64_t first_step; /* from 0; the text of --mode counts from 1 */
} psr_stretch;
typedef enum psr_sync { PSR_SYNC_BSP, PSR_SYNC_SSP, PSR_SYNC_ASYNC } psr_sync;
/* reversed is the control: another order on purpose, refused outside tests of local mode. */
typedef enum psr_fold_order { PSR_FOLD_RANK, PSR_FOLD_ARRIVAL, PSR_FOLD_REVERSED } psr_fold_order;
/* Whose rounding the single process of mode local imitates. */
typedef enum psr_compress_as { PSR_COMPRESS_AS_PS, PSR_COMPRESS_AS_RING } psr_compress_as;
typedef enum psr_precision {
    PSR_PRECISION_FP32,
    PSR_PRECISION_BF16,
    PSR_PRECISION_FP16
} psr_precision;
typedef enum psr_optimizer_kind {
    PSR_OPTIMIZER_SGD,
    PSR_OPTIMIZER_ADAM,
    PSR_OPTIMIZER_LARS,
    PSR_OPTIMIZER_ADAMW,
    PSR_OPTIMIZER_LAMB,
    PSR_OPTIMIZER_RMSPROP
} psr_optimizer_kind;
/* Tensors that weight decay spares: the sum of these. */
#define PSR_SPARE_NORMS 1u
#define PSR_SPARE_BIASES 2u
typedef enum psr_schedule_kind {
    PSR_SCHEDULE_CONSTANT,
    PSR_SCHEDULE_STEP,
    PSR_SCHEDULE_COSINE,
    PSR_SCHEDULE_POLY,
    PSR_SCHEDULE_MULTISTEP,
    PSR_SCHEDULE_ONECYCLE,
} psr_schedule_kind;
#define PSR_MILESTONES_MAX 16
/* --lr-schedule constant|cosine[:END]|poly:POWER|step:EVERY:GAMMA|multistep:A,B,..:GAMMA|
 * onecycle[:RISE[:FIRST[:LAST]]] (model/optimizers/schedule.c has the formulas) */
typedef struct psr_lr_schedule {
    psr_schedule_kind kind;
    double gamma, power;
    double end; /* of cosine: a rate */
    psr_duration every;
    psr_duration milestones[PSR_MILESTONES_MAX]; /* ascending */
    uint32_t milestone_count;
    double rise, divide_first, divide_last; /* of onecycle */
} psr_lr_schedule;

/* --loss-scale S[:STEPS]: how fp16's gradients are kept from vanishing and from overflowing
 * (model/loss_scale.h). */
#define PSR_LOSS_SCALE_LEAST 1
#define PSR_LOSS_SCALE_MOST (1 << 24)
typedef struct psr_loss_scaling {
    uint32_t first;        /* a power of two between these */
    uint32_t growth_steps; /* so many steps in a row that were taken double it */
} psr_loss_scaling;
/* --ema DECAY[:EVERY]: the exponential moving average of the weights (model/optimizers/ema.h). */
typedef struct psr_ema {
    double decay;   /* what stays of the average; 0: there is none */
    uint32_t every; /* updates from one averaging to the next */
} psr_ema;
/* --scale-lr: by what of the number of workers --lr is multiplied. */
typedef enum psr_scale { PSR_SCALE_NONE, PSR_SCALE_LINEAR, PSR_SCALE_SQRT } psr_scale;
#define PSR_ADDRESS_MAX 46 /* of IPv6, as text */

/* Where a run's figures are served while it goes on. */
typedef struct psr_metrics_port {
    bool on;
    char address[PSR_ADDRESS_MAX]; /* as numbers: 127.0.0.1, ::1 */
    uint16_t port;                 /* 0: a free one */
} psr_metrics_port;

/* "127.0.0.1:9100", "[::1]:9100" */
void psr_metrics_port_text(const psr_metrics_port *at, char *text, size_t size);

/* --eval-tta: from how many views of a sample it is judged (worker/views.h). */
typedef enum psr_eval_tta {
    PSR_EVAL_TTA_NONE,
    PSR_EVAL_TTA_FLIP,
    PSR_EVAL_TTA_FLIP_SHIFT
} psr_eval_tta;
typedef enum psr_eval_format { PSR_EVAL_FORMAT_PSRING, PSR_EVAL_FORMAT_TORCH } psr_eval_format;
#define PSR_AUGMENT_TEXT_MAX 256
#define PSR_FREEZE_TEXT_MAX 256
typedef enum psr_decode { PSR_DECODE_FULL, PSR_DECODE_SCALED } psr_decode;
typedef enum psr_partition {
    PSR_PARTITION_EXACT,
    PSR_PARTITION_DROP,
    PSR_PARTITION_PAD
} psr_partition;
typedef enum psr_update_on { PSR_UPDATE_ON_HOST, PSR_UPDATE_ON_DEVICE } psr_update_on;
typedef enum psr_played_gradients { PSR_PLAYED_ZERO, PSR_PLAYED_SEEDED } psr_played_gradients;
typedef enum psr_backend_kind {
    PSR_BACKEND_ONEDNN,
    PSR_BACKEND_REFERENCE,
    PSR_BACKEND_PLAYED,
    PSR_BACKEND_CUDA, /* by --device cuda alone: no word of --backend names it */
} psr_backend_kind;
typedef enum psr_transport_kind {
    PSR_TRANSPORT_AUTO,
    PSR_TRANSPORT_TCP,
    PSR_TRANSPORT_IPC,
    PSR_TRANSPORT_SHM
} psr_transport_kind;
/* Where TCP may go without encryption: nowhere, within this machine, or wherever the hosts are. */
typedef enum psr_bare {
    PSR_BARE_NOWHERE,
    PSR_BARE_THIS_MACHINE,
    PSR_BARE_TRUSTED_NETWORK
} psr_bare;
/* --trace: the steps whose events a run keeps. */
typedef struct psr_trace_range {
    bool on;
    bool chosen;          /* first and last are given, from 1 on; otherwise some steps are taken */
    uint64_t first, last; /* inclusive */
} psr_trace_range;
#define PSR_TRACE_STEP_MAX (UINT64_C(1) << 53) /* which a number of JSON holds */
typedef enum psr_shortcut { PSR_SHORTCUT_A, PSR_SHORTCUT_B } psr_shortcut;
typedef enum psr_stem { PSR_STEM_LARGE, PSR_STEM_SMALL } psr_stem;

typedef struct psr_config {
    /* architecture */
    psr_mode mode; /* --mode ps|ring|local (nccl, mpi refused by name in builds without): the first
                      stretch's */
    /* --mode ps@1,ring@150: in the order of their first steps, which ascend from 0. The first entry
     * is not read; mode has it. stretch_count: at least 1; it is 1 if the mode does not change. */
    psr_stretch stretches[PSR_STRETCHES_MAX];
    uint32_t stretch_count;
    /* --route PATTERN=ps|ring,..: tensors that go another way than the mode's; "": none */
    char route[PSR_ROUTE_TEXT_MAX];
    psr_sync sync;      /* --sync bsp|ssp:K|async */
    uint32_t ssp_bound; /* K of ssp:K */
    uint32_t workers;   /* --workers, 1..1024 */
    uint32_t shards;    /* --shards, 1..256; 0: auto. psr_config_shards says how many there are */
    /* --bucket-size; 0: auto, which the scheduler resolves when all have joined (model/layout.h) */
    uint64_t bucket_bytes;
    uint64_t slice_bytes; /* --slice-size: bytes of one data
                                              message, default 512 KiB */
    uint32_t window;      /* --window: slices in flight
                                              per connection, default 2 */
    psr_fold_order fold;  /* --fold rank|arrival|reversed */
    /* --compress: any text; comm/wire/compression/compression.h knows which ones are
     * compressions */
    char compress[24];
    /* --compress-as ps|ring: for mode local */
    psr_compress_as compress_as;
    /* --compress-weights: as --compress; for modes ps and local */
    char compress_weights[24];
    /* model and its arithmetic */
    char model[32]; /* --model: any text; model/networks/network_list.h knows the networks */
    /* --shortcut a|b, for networks that have the choice; default a (He et al.) */
    psr_shortcut shortcut;
    psr_stem stem;                  /* --stem large|small */
    uint32_t se_ratio;              /* --se RATIO; 0: no squeeze and excitation */
    bool zero_gamma;                /* --zero-gamma */
    double bn_momentum, bn_epsilon; /* --bn-momentum, --bn-epsilon */
    bool sync_bn;                   /* --sync-bn */
    psr_precision precision;        /* --precision fp32|bf16|fp16 */
    psr_loss_scaling loss_scaling;  /* --loss-scale S[:STEPS], of fp16 */
    psr_backend_kind backend;       /* --backend onednn|reference|played:PROFILE */
    char profile[PSR_PATH_MAX];     /* of played; else "" */
    double dilate;                  /* --dilate F: a played pass takes F times as long */
    /* --played-gradients zero|seeded */
    psr_played_gradients played_gradients;
    /* --device cpu|cuda|cuda:I: cuda is the GPU of the worker's number on its host */
    char device[16];
    psr_update_on update_on; /* --update-on host|device: where the optimizer runs */
    bool mixed_hosts;        /* --mixed-hosts: what computes may differ between workers */
    uint32_t threads;        /* --threads per worker; 0 on the command
                                 line: resolved by the launcher */
    /* data */
    char data[PSR_PATH_MAX]; /* --data DIR|fashion-mnist|synthetic[:SPEC] */
    uint32_t max_bad;        /* --max-bad N: broken pictures and empty classes */
    psr_decode decode;       /* --decode full|scaled */
    uint32_t image_size;     /* --image-size PX; 0: the data set's own */
    /* --data-content TRAIN-TEST: what --data must hold; "": anything */
    char data_content[PSR_CONTENT_TEXT_BYTES];
    uint32_t classes; /* --classes N; 0: as many as the data set has */
    /* --mean, --std: one number, or one for each channel, separated by commas; "": those of the
     * training set */
    char mean[64], std[64];
    /* --augment none|crop-flip|imagenet|LIST: any text; data/augment/plan.h knows the steps */
    char augment[PSR_AUGMENT_TEXT_MAX];
    bool shuffle;            /* --shuffle / --no-shuffle */
    uint32_t shuffle_buffer; /* --shuffle-buffer K; 0: the whole epoch */
    psr_partition partition; /* --partition exact|drop|pad: what happens
                                to the samples that n does not divide */
    bool drop_last;          /* --drop-last: steps end before the first incomplete batch */
    uint32_t loader_threads; /* --loader-threads */
    /* optimisation */
    uint32_t batch_size; /* --batch-size per worker */
    uint32_t accumulate; /* --accumulate: so many of these a step */
    uint32_t epochs;     /* --epochs; 0 if steps is given */
    uint64_t steps;      /* --steps; 0 if epochs is given */
    /* --seconds of the training clock (docs/figures.md), after which no further step begins; 0: as
     * many as --epochs or --steps take */
    double seconds;
    double lr;                        /* --lr */
    double momentum;                  /* --momentum */
    double weight_decay;              /* --weight-decay */
    double clip_norm;                 /* --clip-norm; 0: none */
    uint32_t no_decay;                /* --no-decay bn,bias: PSR_SPARE_.. */
    char freeze[PSR_FREEZE_TEXT_MAX]; /* --freeze LIST, all-but:LIST; "": all tensors are trained */
    bool freeze_bn;                   /* --freeze-bn */
    bool nesterov;                    /* --nesterov */
    psr_optimizer_kind optimizer;     /* --optimizer sgd|adam|.. */
    double adam_beta1, adam_beta2, adam_epsilon; /* --adam-beta1 .. */
    double lars_trust;                           /* --lars-trust */
    double rmsprop_alpha, rmsprop_epsilon;       /* --rmsprop-alpha, --rmsprop-epsilon */
    bool rmsprop_centered;                       /* --rmsprop-centered */
    psr_lr_schedule schedule;                    /* --lr-schedule */
    psr_duration warmup;                         /* --warmup, linear from 0 exclusive */
    psr_scale scale_lr;                          /* --scale-lr none|linear|sqrt */
    psr_ema ema;                                 /* --ema none|DECAY[:EVERY] */
    /* --lr-factor, --decay-factor PATTERN=FACTOR,..; "": none */
    char lr_factor[PSR_FACTORS_TEXT_MAX], decay_factor[PSR_FACTORS_TEXT_MAX];
    double label_smoothing; /* --label-smoothing */
    uint64_t seed;          /* --seed */
    /* the run */
    char out[PSR_PATH_MAX];        /* --out DIR */
    char init[PSR_PATH_MAX];       /* --init CKPT (weights only) */
    bool init_partial;             /* --init-partial: what fits of them */
    char resume[PSR_PATH_MAX];     /* --resume CKPT or run directory */
    psr_duration checkpoint_every; /* --checkpoint-every; none: only at the end */
    uint32_t keep;                 /* --keep K: the newest checkpoints; 0: all */
    bool memory_check;             /* --memory-check / --no-memory-check */
    bool keep_best;                /* --keep-best */
    psr_duration eval_every;       /* --eval-every; none: only at the end */
    double target_accuracy;        /* --target-accuracy; 0: none */
    bool eval_only;                /* --eval-only */
    psr_eval_format eval_format;   /* --eval-format psring|torch */
    psr_eval_tta eval_tta;         /* --eval-tta none|flip|flip-shift */
    bool eval;                     /* --eval / --no-eval */
    uint64_t log_every;            /* --log-every STEPS: the step line, default 20 */
    double deadline_s;             /* --deadline SECONDS, default 30 */
    psr_transport_kind transport;  /* --transport auto|tcp|ipc|shm; auto: ipc when all processes
                                     are on one host, and shared memory within each */
    psr_bare bare;                 /* --no-encrypt[=trusted-network] */
    bool hash;                     /* --hash: weight hash after every step */
    bool tensorboard;              /* --tensorboard: RUN/tensorboard/ */
    uint64_t tensorboard_norms;    /* --tensorboard-norms STEPS; 0: never */
    psr_metrics_port metrics_port; /* --metrics-port [ADDRESS:]PORT */
    uint64_t metrics_every;        /* --metrics-every STEPS: metrics.jsonl, default 1 */
    psr_trace_range trace;         /* --trace[=FIRST-LAST]; psr_config_traced_steps resolves it */
    /* --algorithms auto|timed|direct|TEXT: for convolutions (model/onednn/choice/rule.h); run.json
     * of a timed run has the TEXT */
    char algorithms[PSR_OPTION_TEXT_MAX];
    bool exchange; /* --no-exchange: every worker computes alone,
                      to measure what the exchange costs */
    /* --slow RANK:FACTOR,..: that worker takes FACTOR times as long to compute */
    struct psr_slowed {
        uint32_t rank;
        double factor;
    } slowed[PSR_SLOWED_MAX];
    uint32_t slowed_count;
    uint64_t link_rate_bits_per_s; /* --link-rate; 0: none is emulated */
    uint64_t link_delay_ns;        /* --link-delay; 0: none */
    char record[PSR_PATH_MAX];     /* --record FILE: worker 0 writes how long its passes took */
    char fault_point[64];          /* hidden --fault-point ROLE:RANK:PHASE:STEP */
    /* No option: where the run is in its data, which gives durations in epochs their steps. Every
     * process sets it when it learns the data's size; zeros before. */
    psr_pace pace;
} psr_config;

/* Every field at its default. */
void psr_config_defaults(psr_config *config);

/* One entry of the table. */
typedef enum psr_option_kind {
    PSR_OPTION_FLAG, /* bool; "--no-NAME" too where negatable */
    PSR_OPTION_U32,
    PSR_OPTION_U64,
    PSR_OPTION_DURATION, /* steps, or epochs with "e" */
    PSR_OPTION_BYTES,    /* u64 with suffix K, M, G (binary) */
    PSR_OPTION_DOUBLE,
    PSR_OPTION_STRING,
    PSR_OPTION_ENUM,   /* int-sized enum by name */
    PSR_OPTION_SPECIAL /* its own parser and printer: mode, sync, lr-schedule */
} psr_option_kind;

typedef struct psr_option psr_option;

/* Sets one option by its long name (no dashes) from text. USAGE with "--NAME: what, what would be
 * right"; an unknown name is refused with the nearest known one. */
PSR_MUST_CHECK psr_err psr_config_set(psr_config *config, const char *name, const char *text);

/* The option's present value as text that psr_config_set reads back to the same bits. */
PSR_MUST_CHECK psr_err psr_config_get(const psr_config *config, const char *name, char *text,
                                      size_t size);

/* "none", "flip", "flip-shift" */
const char *psr_eval_tta_name(psr_eval_tta tta);
/* "ps", "ring", .. */
const char *psr_mode_name(psr_mode mode);
/* The mode of a step (from 0). */
psr_mode psr_config_mode_at(const psr_config *config, uint64_t step);
/* The first step of the first stretch after this step; 0: there is none. */
uint64_t psr_config_next_stretch(const psr_config *config, uint64_t step);
/* From this step on the run is in that mode. Later stretches that were planned are dropped. USAGE:
 * there are PSR_STRETCHES_MAX stretches before it. */
PSR_MUST_CHECK psr_err psr_config_change_mode(psr_config *config, uint64_t step, psr_mode mode);
/* The same configuration with a single stretch in that mode. */
psr_config psr_config_in_mode(const psr_config *config, psr_mode mode);
/* Copies the stretches of other into config. false: they were the same. */
bool psr_config_take_stretches(psr_config *config, const psr_config *other);
/* Replaces --shards auto by the resolved number, if that is not 0. */
void psr_config_resolve_shards(psr_config *config);
/* Whether some stretch is in that mode. */
bool psr_config_has_mode(const psr_config *config, psr_mode mode);
/* The way of a tensor by --route: PSR_MODE_PS or PSR_MODE_RING, from the first pattern that matches
 * its name (fnmatch). false: none does, and the tensor goes by the mode. */
bool psr_config_route_of(const psr_config *config, const char *tensor, psr_mode *ret_mode);
/* The pattern of --route number `index`, from 0. false: it has fewer. */
bool psr_config_route_pattern(const psr_config *config, uint32_t index,
                              char ret_pattern[static PSR_ROUTE_TEXT_MAX]);
/* Whether a tensor's name matches a pattern of --route (fnmatch). */
bool psr_config_route_fits(const char *pattern, const char *tensor);
/* Whether some pattern of --route gives this way. */
bool psr_config_routes_by(const psr_config *config, psr_mode way);
/* Factors of tensors (--lr-factor, --decay-factor): the factor of the first pattern that matches a
 * tensor's name (fnmatch), and 1 if none does. */
double psr_config_factor_of(const char *factors, const char *tensor);
/* The pattern number `index`, from 0. false: there are fewer. */
bool psr_config_factor_pattern(const char *factors, uint32_t index,
                               char ret_pattern[static PSR_FACTORS_TEXT_MAX]);
/* --device: whether passes are computed on a GPU. *ret_index: which one, of those that each host
 * has; UINT32_MAX: that of the worker's number on its host. ret_index may be NULL. */
bool psr_config_uses_gpu(const psr_config *config, uint32_t *ret_index);
/* --update-on device: whether each worker's back end holds the weights and updates them. */
bool psr_config_updates_on_device(const psr_config *config);
/* What computes, by --device and --backend. */
psr_backend_kind psr_config_backend(const psr_config *config);
/* --freeze: whether it freezes a tensor of that name. */
bool psr_config_freezes(const psr_config *config, const char *tensor);
/* Whether a pattern of --freeze matches a tensor's name: it is the name, or that of a layer or
 * block with the tensor ("layer1" of "layer1.0.conv1.weight"), or matches the name (fnmatch). */
bool psr_config_freeze_fits(const char *pattern, const char *tensor);
/* The pattern of --freeze number `index`, from 0. false: it has fewer. */
bool psr_config_freeze_pattern(const psr_config *config, uint32_t index,
                               char ret_pattern[static PSR_FREEZE_TEXT_MAX]);
/* Whether processes have an emulated link, by which all goes that they send each other. */
bool psr_config_has_link(const psr_config *config);
/* Slices and a window for links of that rate, where so many workers push to a shard (0: there are
 * none). A slice takes about a millisecond there (0.9 to 1.8: a power of two), so that push, fold
 * and pull overlap, and its head costs little; slices in flight fill the link while an answer comes
 * back, without filling the queues on the way. Where several push to one, the slices of all of them
 * share one queue, so they are smaller and fewer. Neither changes any bit. */
void psr_config_slices_for(uint64_t rate_bits_per_s, uint32_t pushers, uint64_t *ret_slice_bytes,
                           uint32_t *ret_window);
/* How many workers push to a shard; 0: the run has none. */
uint32_t psr_config_pushers(const psr_config *config);
/* Whether processes of one host share memory, where they can. */
bool psr_config_shares_memory(const psr_config *config);
/* --tensorboard-norms: whether the step that makes so many complete tells norms. */
bool psr_config_norms_due(const psr_config *config, uint64_t steps);
/* Whether the loss is scaled, so that a step may be left out (--precision fp16). */
bool psr_config_scales_loss(const psr_config *config);
/* Whether nothing is updated before something of the step's whole gradient is known to all that
 * update: its norm (--clip-norm), or that it is finite (--precision fp16). */
bool psr_config_updates_together(const psr_config *config);
/* Whether the optimizer's update needs whole tensors (LARS, LAMB: norms of a tensor). */
bool psr_config_updates_whole_tensors(const psr_config *config);
/* The samples of a worker in a whole step: --batch-size times --accumulate. */
uint32_t psr_config_step_samples(const psr_config *config);
/* Whether the run evaluates its weights: a played one has none that could be judged. */
bool psr_config_evaluates(const psr_config *config);
/* How many times as long as others this worker takes to compute (--slow); 1: it is not slowed. */
double psr_config_slow_factor(const psr_config *config, uint32_t rank);
/* Whether a stretch or a pattern of --route sends gradients to shards. */
bool psr_config_needs_shards(const psr_config *config);
/* The number of shard processes of the run. In mode ring there are some if --shards gives a number,
 * or --route needs them: they wait for a change of mode by hand. */
uint32_t psr_config_shards(const psr_config *config);
/* Whether the run has more than one way: several stretches, or --route. */
bool psr_config_has_several_ways(const psr_config *config);

/* For repeating a run in another mode (--config of a run in mode ps together with --mode ring):
 * options that config still has from file, and that only file's mode can have (shards, sync, fold,
 * compress-as, compress-weights), become their defaults. So do file's --eval-every with --no-eval,
 * and its --compress-as with --compress none. For a compressed ring run, mode local imitates the
 * ring's rounding. */
void psr_config_fit_mode(psr_config *config, const psr_config *file);

/* Sets the options that protect a run (--transport, --no-encrypt) to their defaults: no file may
 * set them, since it may be another person's. */
void psr_config_protect(psr_config *config);
/* Lists those of these options that file sets and config has at their defaults: "--transport tcp,
 * --no-encrypt this-machine"; "": none. */
void psr_config_left_out(const psr_config *file, const psr_config *config, char *words,
                         size_t size);

/* Checks, after all options are set, that they fit together (ssp with ring, shards in ring, lars
 * with async slices, batch 0, ...): USAGE, which names both options. --model and --shortcut are
 * checked by psr_network_check, --compress and --compress-weights by
 * psr_compression_check_options, --augment by psr_augment_check. */
PSR_MUST_CHECK psr_err psr_config_check(const psr_config *config);

/* Whether a run of this configuration can change to that mode while it is under way. USAGE: it
 * cannot; the message says why. */
PSR_MUST_CHECK psr_err psr_config_may_change(const psr_config *config, psr_mode mode);
/* Whether a run of this configuration can change its mode, if it has the shards that the change
 * needs. */
bool psr_config_can_change(const psr_config *config);

/* The steps that --trace asks for, of a run that takes the steps first_step to total_steps - 1. */
typedef struct psr_traced_steps {
    uint64_t first; /* from 0 */
    uint64_t count; /* 0: none */
} psr_traced_steps;
/* USAGE: --trace names steps that the run does not take. */
PSR_MUST_CHECK psr_err psr_config_traced_steps(const psr_config *config, uint64_t first_step,
                                               uint64_t total_steps, psr_traced_steps *ret_steps);

/* JSON object { "option-name": "text", ... } of every option, in the table's order. The caller owns
 * *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_config_to_json(const psr_config *config, char **ret_json);
/* The same with the options that shards need: consistency, optimizer, schedule and when checkpoints
 * are due, but no network, data set or path. A reader has the others at their defaults. */
PSR_MUST_CHECK psr_err psr_config_to_json_for_shards(const psr_config *config, char **ret_json);

/* Reads what these wrote, on top of what config holds: a bare object, or a run.json that has
 * it under "config". Unknown names and wrong kinds: FORMAT. Bytes may be hostile. */
PSR_MUST_CHECK psr_err psr_config_from_json(psr_config *config, const char *json, size_t size);

/* Every option as a word of a command line, "--name=value", and NULL after the last. The caller
 * owns *ret_arguments: psr_config_arguments_free. */
PSR_MUST_CHECK psr_err psr_config_to_arguments(const psr_config *config, char ***ret_arguments);
void psr_config_arguments_free(char **arguments); /* NULL allowed */

/* Chooses the directory of a run without --out: psring-runs/20261120-174530-resnet20-ps, and -2, -3
 * .. if that exists. */
void psr_config_name_out(psr_config *config);

/* An option in which two configurations differ, and both values. Names are the table's. */
typedef struct psr_option_difference {
    const char *name;
    char one[PSR_OPTION_TEXT_MAX], other[PSR_OPTION_TEXT_MAX];
} psr_option_difference;
/* The first difference in the table's order, except in the options of `apart` (ends with NULL).
 * false: there is none. */
bool psr_config_difference(const psr_config *one, const psr_config *other, const char *const *apart,
                           psr_option_difference *ret_difference);

/* Iterates the table, for argp (deploy) and for docs: i = 0.. until false. */
typedef struct psr_option_info {
    const char *name;     /* long name */
    const char *argument; /* "N", "DIR", ... or NULL for a flag */
    const char *implied;  /* the value if the argument is left out; NULL: it must be given */
    /* the words that the value is or begins with; ends with NULL; NULL: it is no such option */
    const char *const *words;
    /* those of words that are not offered to users; ends with NULL; NULL: none */
    const char *const *unlisted;
    const char *help;
    const char *group; /* heading in --help */
    /* a note for the user if the option does not have its default, or has the value aloud_at,
     * wherever that value comes from; NULL: none */
    const char *aloud;
    bool hidden;
    bool negatable;
} psr_option_info;
bool psr_config_option(size_t i, psr_option_info *ret_info);

/* Iterates over the options that have such a note: finds the next one from *at on (0 at first), as
 * "--slow 1:10: why that matters", and advances *at. false: there are no more. */
bool psr_config_aloud(const psr_config *config, size_t *at, char *line, size_t size);

#endif
