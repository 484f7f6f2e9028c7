/* Checks which options do not go together. Each refusal names both and says what would be right. */
#include "base/attempts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *word(const psr_config *config, const char *name,
                        char text[static PSR_OPTION_TEXT_MAX])
{
    return psr_config_get(config, name, text, PSR_OPTION_TEXT_MAX) == PSR_OK ? text : "?";
}

/* "--sync ssp:3 does not go with --mode ring: <why>" */
static psr_err refuse_pair(const psr_config *config, const char *a, const char *b, const char *why)
{
    char a_text[PSR_OPTION_TEXT_MAX], b_text[PSR_OPTION_TEXT_MAX];
    return psr_fail(PSR_ERR_USAGE, "--%s %.200s does not go with --%s %.200s: %s", a,
                    word(config, a, a_text), b, word(config, b, b_text), why);
}

static bool differs_from_default(const psr_config *config, const char *name)
{
    psr_config defaults;
    psr_config_defaults(&defaults);
    char text[PSR_OPTION_TEXT_MAX], initial[PSR_OPTION_TEXT_MAX];
    return strcmp(word(config, name, text), word(&defaults, name, initial)) != 0;
}

/* Whether a library sums in the place of psring. */
static bool sums_elsewhere(const psr_config *config)
{
    return config->mode == PSR_MODE_MPI || config->mode == PSR_MODE_NCCL;
}

static psr_err check_build(const psr_config *config)
{
    if (config->mode == PSR_MODE_MPI && !PSR_MPI)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--mode mpi is not in this build; give ps, ring or local");
    return PSR_OK;
}

static bool compresses_weights(const psr_config *config)
{
    return strcmp(config->compress_weights, "none") != 0;
}

/* An option with which a run cannot use shards in one step and a ring in the next. */
typedef struct obstacle {
    const char *option, *why, *instead;
} obstacle;

/* Whether an update depends on how many there were before. */
static bool counts_updates(const psr_config *config)
{
    return config->optimizer == PSR_OPTIMIZER_ADAM || config->optimizer == PSR_OPTIMIZER_ADAMW ||
           config->optimizer == PSR_OPTIMIZER_LAMB || config->ema.decay > 0;
}

/* NULL: there is none. */
static const obstacle *find_obstacle(const psr_config *config)
{
    static const obstacle sync = {"sync", "a change needs all workers after the same step",
                                  "use --sync bsp"},
                          compress = {"compress", "shards and a ring round differently",
                                      "leave --compress out"},
                          weights = {"compress-weights", "a ring sends no weights",
                                     "leave --compress-weights out"},
                          fold = {"fold", "a ring sees no arrivals", "use --fold rank"},
                          exchange = {"exchange", "nothing is sent then", "leave one out"},
                          precision = {"precision",
                                       "a shard that has nothing for a while does not hear which "
                                       "steps were left out, and this optimizer, or --ema, counts "
                                       "updates",
                                       "use --precision bf16"},
                          workers = {"workers", "one worker is no ring", "give more --workers"},
                          update = {"update-on", "shards update on their processors",
                                    "use --update-on host"};
    if (config->sync != PSR_SYNC_BSP)
        return &sync;
    if (strcmp(config->compress, "none") != 0)
        return &compress;
    if (compresses_weights(config))
        return &weights;
    if (config->fold == PSR_FOLD_ARRIVAL)
        return &fold;
    if (!config->exchange)
        return &exchange;
    if (psr_config_scales_loss(config) && counts_updates(config))
        return &precision;
    if (psr_config_updates_on_device(config))
        return &update;
    return config->workers == 1 ? &workers : NULL;
}

/* name: the option that asks for several ways. */
static psr_err check_change(const psr_config *config, const char *name)
{
    char why[256];
    const obstacle *o = find_obstacle(config);
    if (o == NULL)
        return PSR_OK;
    snprintf(why, sizeof why, "%s; %s", o->why, o->instead);
    return refuse_pair(config, name, o->option, why);
}

static bool is_ps_or_ring(psr_mode mode)
{
    return mode == PSR_MODE_PS || mode == PSR_MODE_RING;
}

bool psr_config_can_change(const psr_config *config)
{
    return is_ps_or_ring(config->mode) && find_obstacle(config) == NULL;
}

psr_err psr_config_may_change(const psr_config *config, psr_mode mode)
{
    char text[PSR_OPTION_TEXT_MAX];
    const obstacle *o = find_obstacle(config);
    if (!is_ps_or_ring(mode))
        return psr_fail(PSR_ERR_USAGE, "a run can change to ps or ring only, not to %s",
                        psr_mode_name(mode));
    if (!is_ps_or_ring(config->mode))
        return psr_fail(PSR_ERR_USAGE, "a run of --mode %s cannot change its mode",
                        psr_mode_name(config->mode));
    if (o != NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "this run cannot change its mode, because it has --%s %.200s: %s",
                        o->option, word(config, o->option, text), o->why);
    if (mode == PSR_MODE_PS && psr_config_shards(config) == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "this run has no shards; start it with --shards to change it to ps");
    return PSR_OK;
}

static psr_err check_ways(const psr_config *config)
{
    for (uint32_t i = 0; i < config->stretch_count && config->stretch_count > 1; i++) {
        const psr_mode mode = i == 0 ? config->mode : config->stretches[i].mode;
        char text[PSR_OPTION_TEXT_MAX];
        if (!is_ps_or_ring(mode))
            return psr_fail(
                PSR_ERR_USAGE,
                "--mode %.200s: a run changes between ps and ring alone, not to or from %s",
                word(config, "mode", text), psr_mode_name(mode));
    }
    const psr_stretch *last =
        &config->stretches[config->stretch_count > 1 ? config->stretch_count - 1 : 0];
    if (config->stretch_count > 1 && config->steps != 0 && last->first_step >= config->steps)
        return refuse_pair(config, "mode", "steps", "the run ends before that; give more --steps");
    if (config->route[0] != '\0' && !is_ps_or_ring(config->mode))
        return refuse_pair(config, "route", "mode",
                           "it is for --mode ps and ring; leave --route out");
    if (config->route[0] != '\0' && !psr_config_has_mode(config, PSR_MODE_PS) &&
        psr_config_routes_by(config, PSR_MODE_PS) && config->shards == 0)
        return refuse_pair(config, "route", "mode", "that run has no shards; give --shards");
    if (config->shards > 0 && !is_ps_or_ring(config->mode))
        return refuse_pair(config, "shards", "mode",
                           "shards serve --mode ps and ring; leave --shards out");
    if (config->stretch_count > 1)
        return check_change(config, "mode");
    if (config->route[0] != '\0')
        return check_change(config, "route");
    if (config->shards > 0 && config->mode == PSR_MODE_RING)
        return check_change(config, "shards");
    return PSR_OK;
}

static psr_err check_architecture(const psr_config *config)
{
    if (config->mode != PSR_MODE_PS && config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "sync", "mode",
                           "only shards can let workers be apart; use --mode ps or --sync bsp");
    PSR_TRY(check_ways(config));
    if (config->mode != PSR_MODE_PS && config->fold == PSR_FOLD_ARRIVAL)
        return refuse_pair(config, "fold", "mode", "only a shard sees arrivals; use --fold rank");
    if (sums_elsewhere(config) && config->fold == PSR_FOLD_REVERSED)
        return refuse_pair(config, "fold", "mode",
                           "its library sums in an order of its own; use --fold rank");
    if (config->mode == PSR_MODE_NCCL && !psr_config_uses_gpu(config, NULL))
        return refuse_pair(config, "mode", "device",
                           "NCCL sums on GPUs; give --device cuda, or --mode ring");
    if (config->sync != PSR_SYNC_BSP && config->fold != PSR_FOLD_RANK)
        return refuse_pair(config, "fold", "sync",
                           "without --sync bsp each push is an update by itself; use --fold rank");

    char text[PSR_OPTION_TEXT_MAX];
    if (config->bucket_bytes % 64 != 0)
        return psr_fail(PSR_ERR_USAGE, "--bucket-size: %s is not a multiple of 64",
                        word(config, "bucket-size", text));
    if (config->slice_bytes % 64 != 0)
        return psr_fail(PSR_ERR_USAGE, "--slice-size: %s is not a multiple of 64",
                        word(config, "slice-size", text));
    return PSR_OK;
}

/* Otherwise they come as what the workers lack (comm/tables/differences.h). */
static bool weights_come_whole(const psr_config *config)
{
    static const char *const whole[] = {"none", "fp16", "bf16"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(config->compress_weights, whole[i]) == 0)
            return true;
    return false;
}

static psr_err check_compressed_weights(const psr_config *config)
{
    if (!compresses_weights(config))
        return PSR_OK;
    if (config->mode != PSR_MODE_PS && config->mode != PSR_MODE_LOCAL)
        return refuse_pair(config, "compress-weights", "mode",
                           "no weights are sent in that mode; leave --compress-weights out");
    if (config->compress_as == PSR_COMPRESS_AS_RING)
        return refuse_pair(config, "compress-weights", "compress-as",
                           "a ring sends no weights; leave one out");
    if (!config->exchange)
        return refuse_pair(config, "compress-weights", "exchange",
                           "nothing is sent then; leave one out");
    if (config->sync != PSR_SYNC_BSP && !weights_come_whole(config))
        return refuse_pair(config, "compress-weights", "sync",
                           "a shard encodes what all workers lack alike, and there each has other "
                           "weights; use --sync bsp, or --compress-weights bf16");
    return PSR_OK;
}

static psr_err check_compression(const psr_config *config)
{
    bool compresses = strcmp(config->compress, "none") != 0;
    if (config->compress_as != PSR_COMPRESS_AS_PS && config->mode != PSR_MODE_LOCAL)
        return refuse_pair(
            config, "compress-as", "mode",
            "only --mode local imitates another architecture; leave --compress-as out");
    if (config->compress_as != PSR_COMPRESS_AS_PS && !compresses)
        return refuse_pair(config, "compress-as", "compress",
                           "without --compress nothing is rounded; leave --compress-as out");
    if (compresses && sums_elsewhere(config))
        return refuse_pair(config, "compress", "mode",
                           "its library sums float32; leave --compress out");
    if (compresses && !config->exchange)
        return refuse_pair(config, "compress", "exchange", "nothing is sent then; leave one out");
    return check_compressed_weights(config);
}

static psr_err check_sync_bn(const psr_config *config)
{
    if (!config->sync_bn)
        return PSR_OK;
    if (config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "sync-bn", "sync",
                           "workers are not in the same step then, and each batch norm needs the "
                           "sums of all; use --sync bsp");
    if (!config->exchange)
        return refuse_pair(config, "sync-bn", "exchange",
                           "workers exchange nothing then; leave one out");
    if (config->backend == PSR_BACKEND_PLAYED)
        return refuse_pair(config, "sync-bn", "backend",
                           "a played pass has no statistics; leave one out");
    if (config->record[0] != '\0')
        return refuse_pair(config, "sync-bn", "record",
                           "a recorded pass has no place for the waits in its middle; leave one "
                           "out");
    return PSR_OK;
}

/* What cannot be where a GPU updates the weights. */
static psr_err check_update_on(const psr_config *config)
{
    if (!psr_config_updates_on_device(config))
        return PSR_OK;
    if (!psr_config_uses_gpu(config, NULL))
        return refuse_pair(config, "update-on", "device",
                           "there is no GPU that could update; give --device cuda, or leave "
                           "--update-on out");
    if (config->mode == PSR_MODE_PS)
        return refuse_pair(config, "update-on", "mode",
                           "shards update, on their processors; use --mode ring, or --update-on "
                           "host");
    if (config->optimizer != PSR_OPTIMIZER_SGD && config->optimizer != PSR_OPTIMIZER_ADAM &&
        config->optimizer != PSR_OPTIMIZER_ADAMW)
        return refuse_pair(config, "update-on", "optimizer",
                           "a GPU updates by sgd, adam and adamw; use --update-on host");
    if (psr_config_scales_loss(config))
        return refuse_pair(config, "update-on", "precision",
                           "a step may be left out for what its sums hold, and a GPU does not look "
                           "at them; use --update-on host");
    if (config->clip_norm > 0)
        return refuse_pair(config, "update-on", "clip-norm",
                           "the norm is taken where the host updates; use --update-on host");
    if (config->tensorboard_norms > 0)
        return refuse_pair(config, "update-on", "tensorboard-norms",
                           "norms are taken where the host updates; use --update-on host");
    if (compresses_weights(config))
        return refuse_pair(config, "update-on", "compress-weights",
                           "no weights are sent then; leave one out");
    if (!config->exchange)
        return refuse_pair(config, "update-on", "exchange",
                           "nothing is updated then; leave one out");
    return PSR_OK;
}

/* What a GPU cannot do, or not yet. */
static psr_err check_device(const psr_config *config)
{
    if (!psr_config_uses_gpu(config, NULL))
        return PSR_OK;
    if (config->backend != PSR_BACKEND_ONEDNN)
        return refuse_pair(config, "device", "backend",
                           "back ends are for processors; leave --backend out");
    if (config->sync_bn)
        return refuse_pair(config, "device", "sync-bn",
                           "a GPU does not stop at batch norms; leave --sync-bn out");
    if (config->accumulate > 1)
        return refuse_pair(config, "device", "accumulate",
                           "a GPU's gradients are not added to others; leave --accumulate out");
    if (strcmp(config->algorithms, "auto") != 0)
        return refuse_pair(config, "device", "algorithms",
                           "those are a processor's; leave --algorithms out");
    if (config->record[0] != '\0')
        return refuse_pair(config, "device", "record",
                           "a recorded pass is a processor's; leave --record out");
    if (config->slowed_count > 0)
        return refuse_pair(config, "device", "slow",
                           "how long a GPU takes is not known while it computes; leave --slow out");
    return PSR_OK;
}

/* A step may be left out, by all alike. */
static psr_err check_loss_scale(const psr_config *config)
{
    if (!psr_config_scales_loss(config))
        return differs_from_default(config, "loss-scale")
                   ? refuse_pair(config, "loss-scale", "precision",
                                 "only fp16's gradients are scaled; leave --loss-scale out")
                   : PSR_OK;
    if (!psr_config_uses_gpu(config, NULL))
        return refuse_pair(config, "precision", "device",
                           "processors compute in fp32 or bf16; give --device cuda");
    if (config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "precision", "sync",
                           "each push is an update by itself there, and a step that overflows has "
                           "to be left out by all; use --sync bsp, or --precision bf16");
    if (!config->exchange)
        return refuse_pair(config, "precision", "exchange",
                           "nobody hears then of a step that overflows; leave one out");
    if (strcmp(config->compress, "none") != 0)
        return refuse_pair(config, "precision", "compress",
                           "what is left out of a gradient that overflows cannot be kept; leave "
                           "--compress out, or use --precision bf16");
    return PSR_OK;
}

static psr_err check_model(const psr_config *config)
{
    PSR_TRY(check_device(config));
    PSR_TRY(check_loss_scale(config));
    if (config->precision != PSR_PRECISION_FP32 && config->backend == PSR_BACKEND_REFERENCE)
        return refuse_pair(config, "precision", "backend",
                           "the reference is float32; use --precision fp32");
    if (strcmp(config->algorithms, "auto") != 0 && config->backend == PSR_BACKEND_REFERENCE)
        return refuse_pair(config, "algorithms", "backend",
                           "the reference has no other algorithms; leave --algorithms out");
    if (config->backend != PSR_BACKEND_PLAYED &&
        (config->dilate != 1 || config->played_gradients != PSR_PLAYED_ZERO))
        return refuse_pair(config, config->dilate != 1 ? "dilate" : "played-gradients", "backend",
                           "it is for --backend played:PROFILE");
    PSR_TRY(check_update_on(config));
    PSR_TRY(check_sync_bn(config));
    if (config->backend == PSR_BACKEND_PLAYED && config->record[0] != '\0')
        return refuse_pair(config, "record", "backend", "a played pass is recorded already");
    if (config->backend == PSR_BACKEND_PLAYED && !psr_duration_is_none(config->eval_every))
        return refuse_pair(config, "eval-every", "backend",
                           "played weights mean nothing; leave --eval-every out");
    if (config->shuffle_buffer != 0 && !config->shuffle)
        return refuse_pair(config, "shuffle-buffer", "shuffle",
                           "there is nothing to shuffle; leave one of them out");
    if (config->image_size != 0 && config->image_size < 8)
        return psr_fail(PSR_ERR_USAGE,
                        "--image-size: %" PRIu32 " is too small; give 0 or 8 to 4096",
                        config->image_size);
    if (config->data[0] == '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "--data: empty; give a directory, fashion-mnist or synthetic");
    return PSR_OK;
}

#define RULE(kind) (1u << PSR_OPTIMIZER_##kind)
#define ADAMS (RULE(ADAM) | RULE(ADAMW) | RULE(LAMB))

/* An option that only some optimizers have must keep its default with the others. */
static psr_err check_rule_options(const psr_config *config)
{
    static const struct {
        const char *name, *why;
        unsigned rules;
    } own[] = {
        {"adam-beta1", "only adam, adamw and lamb have it", ADAMS},
        {"adam-beta2", "only adam, adamw and lamb have it", ADAMS},
        {"adam-epsilon", "only adam, adamw and lamb have it", ADAMS},
        {"lars-trust", "only lars has it", RULE(LARS)},
        {"rmsprop-alpha", "only rmsprop has it", RULE(RMSPROP)},
        {"rmsprop-epsilon", "only rmsprop has it", RULE(RMSPROP)},
        {"rmsprop-centered", "only rmsprop has it", RULE(RMSPROP)},
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if ((own[i].rules >> config->optimizer & 1) == 0 &&
            differs_from_default(config, own[i].name))
            return refuse_pair(config, own[i].name, "optimizer", own[i].why);
    return PSR_OK;
}

static psr_err check_optimisation(const psr_config *config)
{
    const bool open_end = config->epochs == 0 && config->steps == 0 && !config->eval_only;
    if (open_end && config->seconds == 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "--epochs and --steps are both 0: nothing says when to end; give one of them");
    const psr_schedule_kind schedule = config->schedule.kind;
    if (open_end && (schedule == PSR_SCHEDULE_COSINE || schedule == PSR_SCHEDULE_POLY ||
                     schedule == PSR_SCHEDULE_ONECYCLE))
        return refuse_pair(config, "seconds", "lr-schedule",
                           "it falls until the last step, whose number is not known then; give "
                           "--steps too");
    if (config->epochs != 0 && config->steps != 0)
        return refuse_pair(config, "epochs", "steps", "both say when to end; set one of them to 0");
    if (schedule == PSR_SCHEDULE_ONECYCLE && !psr_duration_is_none(config->warmup))
        return refuse_pair(config, "warmup", "lr-schedule",
                           "a cycle begins with a rise of its own; leave --warmup out");
    if (schedule == PSR_SCHEDULE_COSINE && config->schedule.end > config->lr)
        return refuse_pair(config, "lr-schedule", "lr", "its end would be above its beginning");
    if (config->nesterov && config->optimizer != PSR_OPTIMIZER_SGD)
        return refuse_pair(config, "nesterov", "optimizer", "it is a form of sgd's momentum");
    if (config->nesterov && config->momentum == 0)
        return refuse_pair(config, "nesterov", "momentum", "it needs a momentum above 0");

    PSR_TRY(check_rule_options(config));
    if (config->accumulate > 1 && config->record[0] != '\0')
        return refuse_pair(config, "accumulate", "record",
                           "what is recorded is one pass a step; leave one out");
    if (config->clip_norm > 0 && config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "clip-norm", "sync",
                           "each push is an update by itself, before the norm of its whole "
                           "gradient is known; use --sync bsp");
    if (config->clip_norm > 0 && !config->exchange)
        return refuse_pair(config, "clip-norm", "exchange",
                           "nothing is updated then; leave one out");
    if (config->tensorboard_norms > 0 && config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "tensorboard-norms", "sync",
                           "each push is an update by itself there, and no step has a gradient of "
                           "all workers; use --sync bsp");
    if (config->tensorboard_norms > 0 && !config->exchange)
        return refuse_pair(config, "tensorboard-norms", "exchange",
                           "no gradient is summed then; leave one out");
    if (config->tensorboard_norms > 0 && !config->tensorboard)
        return psr_fail(PSR_ERR_USAGE,
                        "--tensorboard-norms is for --tensorboard, which is not given; give both, "
                        "or leave it out");
    if (config->ema.decay > 0 && config->sync != PSR_SYNC_BSP)
        return refuse_pair(config, "ema", "sync",
                           "each push is an update by itself there, and no step's weights are "
                           "everybody's; use --sync bsp");
    if (config->ema.decay > 0 && !config->exchange)
        return refuse_pair(config, "ema", "exchange", "nothing is updated then; leave one out");
    if (config->no_decay != 0 && config->weight_decay == 0)
        return refuse_pair(config, "no-decay", "weight-decay",
                           "nothing decays then; leave --no-decay out");
    if (config->decay_factor[0] != '\0' && config->weight_decay == 0)
        return refuse_pair(config, "decay-factor", "weight-decay",
                           "nothing decays then; leave --decay-factor out");
    if (config->freeze_bn && config->freeze[0] == '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "--freeze-bn is for --freeze, which is not given; leave it out");
    if (psr_config_updates_whole_tensors(config) && config->sync != PSR_SYNC_BSP)
        return refuse_pair(
            config, "optimizer", "sync",
            "its update needs whole tensors, a push is a piece of one; use --sync bsp");
    return PSR_OK;
}

static psr_err check_evaluation(const psr_config *config)
{
    const bool now_and_then = !psr_duration_is_none(config->eval_every);
    char text[PSR_OPTION_TEXT_MAX];
    if (!config->eval && now_and_then)
        return psr_fail(PSR_ERR_USAGE,
                        "--no-eval does not go with --eval-every %s: there is no evaluation then; "
                        "leave one out",
                        word(config, "eval-every", text));
    if (!config->eval && config->eval_tta != PSR_EVAL_TTA_NONE)
        return psr_fail(PSR_ERR_USAGE,
                        "--no-eval does not go with --eval-tta %s: there is no evaluation then; "
                        "leave one out",
                        word(config, "eval-tta", text));
    if (config->target_accuracy > 0 && !now_and_then)
        return refuse_pair(config, "target-accuracy", "eval-every",
                           "it ends the run after an evaluation; give --eval-every 1e");
    if (config->keep_best && (!now_and_then || psr_duration_is_none(config->checkpoint_every)))
        return refuse_pair(config, "keep-best", now_and_then ? "checkpoint-every" : "eval-every",
                           "the best one is chosen by evaluations of checkpoints; give both "
                           "--eval-every and --checkpoint-every");
    if (config->eval_only && !psr_config_evaluates(config))
        return refuse_pair(config, "eval-only", config->eval ? "backend" : "eval",
                           "there would be nothing to do");
    if (config->eval_only && config->init[0] == '\0' && config->resume[0] == '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "--eval-only: there are no weights to evaluate; give --resume or --init");
    return PSR_OK;
}

static psr_err check_run(const psr_config *config)
{
    if (config->bare != PSR_BARE_NOWHERE &&
        (config->transport == PSR_TRANSPORT_IPC || config->transport == PSR_TRANSPORT_SHM))
        return refuse_pair(config, "no-encrypt", "transport",
                           "only what goes over TCP is encrypted; leave --no-encrypt out");
    if (psr_config_has_link(config) && config->transport == PSR_TRANSPORT_SHM)
        return refuse_pair(config, config->link_rate_bits_per_s > 0 ? "link-rate" : "link-delay",
                           "transport",
                           "shared memory would go past the link; leave --transport out");
    if (!config->exchange && config->mode != PSR_MODE_RING)
        return refuse_pair(
            config, "exchange", "mode",
            "only workers without shards can work without an exchange; use --mode ring");
    psr_traced_steps traced;
    if (config->steps != 0) /* of --epochs the data say how many they are */
        PSR_TRY(psr_config_traced_steps(config, 0, config->steps, &traced));
    PSR_TRY(check_evaluation(config));
    if (config->record[0] != '\0' && config->slowed_count > 0)
        return refuse_pair(config, "record", "slow", "it would record the waiting; leave one out");
    for (uint32_t i = 0; i < config->slowed_count; i++)
        if (config->slowed[i].rank >= config->workers)
            return refuse_pair(config, "slow", "workers",
                               "there is no worker of that rank; ranks count from 0");
    const bool attempts = psr_attempts_are_asked_for(config);
    if (attempts && config->out[0] == '\0')
        return psr_fail(
            PSR_ERR_USAGE,
            "--resume auto goes on with the last attempt of --out DIR, DIR-2, ..: give --out");
    if (config->init_partial && config->init[0] == '\0')
        return psr_fail(PSR_ERR_USAGE,
                        "--init-partial is for --init, which is not given; leave it out");
    if (config->init[0] != '\0' && config->resume[0] != '\0' && !attempts)
        return refuse_pair(config, "init", "resume",
                           "a resumed run has its weights; give one of them");
    return PSR_OK;
}

static bool has_same_mode(const psr_config *config, const psr_config *file)
{
    char one[PSR_OPTION_TEXT_MAX], other[PSR_OPTION_TEXT_MAX];
    return strcmp(word(config, "mode", one), word(file, "mode", other)) == 0;
}

void psr_config_fit_mode(psr_config *config, const psr_config *file)
{
    psr_config defaults;
    psr_config_defaults(&defaults);
    if (strcmp(config->compress, "none") == 0 && config->compress_as == file->compress_as)
        config->compress_as = defaults.compress_as;
    if (!config->eval && config->eval_every.steps == file->eval_every.steps &&
        config->eval_every.milli_epochs == file->eval_every.milli_epochs)
        config->eval_every = defaults.eval_every;
    if (!config->eval && config->eval_tta == file->eval_tta)
        config->eval_tta = defaults.eval_tta;
    if (config->update_on == file->update_on &&
        (config->mode == PSR_MODE_PS || !psr_config_uses_gpu(config, NULL)))
        config->update_on = defaults.update_on;
    if (has_same_mode(config, file))
        return;
    if (!psr_config_needs_shards(config) && config->shards == file->shards)
        config->shards = defaults.shards;
    if (config->mode != PSR_MODE_PS && config->sync == file->sync &&
        config->ssp_bound == file->ssp_bound) {
        config->sync = defaults.sync;
        config->ssp_bound = defaults.ssp_bound;
    }
    if (config->mode != PSR_MODE_PS && config->mode != PSR_MODE_LOCAL &&
        strcmp(config->compress_weights, file->compress_weights) == 0)
        strcpy(config->compress_weights, defaults.compress_weights);
    if (config->mode != PSR_MODE_LOCAL && config->compress_as == file->compress_as)
        config->compress_as = defaults.compress_as;
    if (config->mode == PSR_MODE_LOCAL && file->mode == PSR_MODE_RING &&
        strcmp(config->compress, "none") != 0 && config->compress_as == file->compress_as)
        config->compress_as = PSR_COMPRESS_AS_RING;
    if (config->fold == file->fold &&
        (sums_elsewhere(config) ||
         (config->mode != PSR_MODE_PS && config->fold == PSR_FOLD_ARRIVAL)))
        config->fold = defaults.fold;
}

psr_err psr_config_check(const psr_config *config)
{
    PSR_TRY(check_build(config));
    PSR_TRY(check_architecture(config));
    PSR_TRY(check_compression(config));
    PSR_TRY(check_model(config));
    PSR_TRY(check_optimisation(config));
    return check_run(config);
}
