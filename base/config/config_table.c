/* The one table of options. Only this table has an option's name, argument, default and meaning;
 * the command line, run.json and the messages between processes go through it. */
#include "base/config/config_table.h"

#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "base/text/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARCHITECTURE "Architecture:"
#define MODEL "Model and arithmetic:"
#define DATA "Data:"
#define OPTIMISATION "Optimisation:"
#define RUN "The run:"
#define NETWORK "Network:"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* In the order of the enums of config.h. */
static const char *const mode_words[] = {"ps", "ring", "local", "nccl", "mpi", NULL};
static const char *const fold_words[] = {"rank", "arrival", "reversed", NULL};
static const char *const compress_offered[] = {"none",  "fp16", "bf16", "int8",
                                               "topk:", "1bit", NULL};
static const char *const compress_as_words[] = {"ps", "ring", NULL};
static const char *const precision_words[] = {"fp32", "bf16", "fp16", NULL};
static const char *const optimizer_words[] = {"sgd",  "adam",    "lars", "adamw",
                                              "lamb", "rmsprop", NULL};
static const char *const augment_offered[] = {"none", "crop-flip", "imagenet", NULL};
static const char *const partition_words[] = {"exact", "drop", "pad", NULL};
static const char *const backend_words[] = {"onednn", "reference", "played:", NULL};
static const char *const update_on_words[] = {"host", "device", NULL};
static const char *const played_gradients_words[] = {"zero", "seeded", NULL};
static const char *const network_words[] = {"auto", "tcp", "ipc", "shm", NULL};
static const char *const scale_words[] = {"none", "linear", "sqrt", NULL};
static const char *const eval_format_words[] = {"psring", "torch", NULL};
static const char *const eval_tta_words[] = {"none", "flip", "flip-shift", NULL};

const char *psr_eval_tta_name(psr_eval_tta tta)
{
    return eval_tta_words[tta];
}

static const char *const shortcut_words[] = {"a", "b", NULL};
static const char *const stem_words[] = {"large", "small", NULL};
#define MODES_OWN                                                                                  \
    "who sums the gradients. ps: parameter servers, as many as --shards says; ring: the workers, " \
    "by a ring all-reduce"
#define MODE_LOCAL                                                                                 \
    "local: one process does every worker's share in turn and sums as the others do, which is "    \
    "the reference"
/* The words that users are not offered. */
/* ..@STEP stands for a run that changes. */
#define MODES_CHANGE                                                                               \
    "; ps@1,ring@150: parameter servers from step 1 on and a ring from step 150 on, and so on "    \
    "for "                                                                                         \
    "each MODE@STEP"
#define MODE_NCCL "nccl: NCCL's all-reduce sums them on GPUs (--device cuda); "
#if PSR_MPI
#define MODES "ps|ring|mpi|nccl|local|MODE@STEP,.."
#define MODES_HELP                                                                                 \
    MODES_OWN MODES_CHANGE "; mpi: MPI's all-reduce sums them, under mpirun; " MODE_NCCL MODE_LOCAL
static const char *const mode_unlisted[] = {NULL};
#else
#define MODES "ps|ring|nccl|local|MODE@STEP,.."
#define MODES_HELP MODES_OWN MODES_CHANGE "; " MODE_NCCL MODE_LOCAL
static const char *const mode_unlisted[] = {"mpi", NULL};
#endif
static const char *const decode_words[] = {"full", "scaled", NULL};

static psr_err read_sync(psr_config *config, const char *text)
{
    uint64_t bound = 0;
    if (strcmp(text, "bsp") == 0)
        config->sync = PSR_SYNC_BSP;
    else if (strcmp(text, "async") == 0)
        config->sync = PSR_SYNC_ASYNC;
    else if (strncmp(text, "ssp:", 4) == 0 && psr_parse_u64(text + 4, &bound) && bound <= 1000000)
        config->sync = PSR_SYNC_SSP;
    else
        return psr_fail(
            PSR_ERR_USAGE,
            "'%s' is not a way to synchronise; give bsp, async, or ssp:K with K steps (ssp:3)",
            text);
    config->ssp_bound = (uint32_t)bound;
    return PSR_OK;
}

static void print_sync(const psr_config *config, char *text, size_t size)
{
    if (config->sync == PSR_SYNC_SSP)
        snprintf(text, size, "ssp:%" PRIu32, config->ssp_bound);
    else
        snprintf(text, size, "%s", config->sync == PSR_SYNC_BSP ? "bsp" : "async");
}

/* Reads "1:10", which ends at a comma or the end. NULL: it is something else; else what follows. */
static const char *read_slowed(const char *text, struct psr_slowed *ret_slowed)
{
    char part[48];
    uint64_t rank = 0;
    double factor = 1;
    const size_t length = strcspn(text, ",");
    if (length >= sizeof part)
        return NULL;
    memcpy(part, text, length);
    part[length] = '\0';
    char *colon = strchr(part, ':');
    if (colon == NULL)
        return NULL;
    *colon = '\0';
    if (!psr_parse_u64(part, &rank) || rank > 1023 || !psr_parse_double(colon + 1, &factor) ||
        factor < 1 || factor > 1000)
        return NULL;
    *ret_slowed = (struct psr_slowed){(uint32_t)rank, factor};
    return text + length;
}

static psr_err read_slow(psr_config *config, const char *text)
{
    struct psr_slowed slowed[PSR_SLOWED_MAX] = {{0}};
    uint32_t count = 0;
    for (const char *at = text; text[0] != '\0'; at++) {
        at = count < PSR_SLOWED_MAX ? read_slowed(at, &slowed[count]) : NULL;
        for (uint32_t i = 0; at != NULL && i < count; i++)
            if (slowed[i].rank == slowed[count].rank)
                at = NULL;
        if (at == NULL)
            return psr_fail(PSR_ERR_USAGE,
                            "'%s' is not RANK:FACTOR with a factor of 1 to 1000 (1:10), or several "
                            "of them, each rank once, joined by commas",
                            text);
        count++;
        if (*at == '\0')
            break;
    }
    memcpy(config->slowed, slowed, sizeof slowed);
    config->slowed_count = count;
    return PSR_OK;
}

static void print_slow(const psr_config *config, char *text, size_t size)
{
    char number[32];
    psr_text_end end = {text, size};
    text[0] = '\0';
    for (uint32_t i = 0; i < config->slowed_count; i++) {
        psr_print_double(config->slowed[i].factor, number, sizeof number);
        psr_text_add(&end, "%s%" PRIu32 ":%s", i > 0 ? "," : "", config->slowed[i].rank, number);
    }
}

static psr_err read_backend(psr_config *config, const char *text)
{
    static const char played[] = "played:";
    const char *profile = "";
    if (strcmp(text, "onednn") == 0)
        config->backend = PSR_BACKEND_ONEDNN;
    else if (strcmp(text, "reference") == 0)
        config->backend = PSR_BACKEND_REFERENCE;
    else if (strncmp(text, played, sizeof played - 1) == 0 && text[sizeof played - 1] != '\0' &&
             strlen(text) - sizeof played + 1 < sizeof config->profile &&
             psr_is_printable(text, strlen(text)))
        profile = text + sizeof played - 1;
    else
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' is not a back end; give onednn, reference, or played:PROFILE with a "
                        "file that --record wrote",
                        text);
    if (profile[0] != '\0')
        config->backend = PSR_BACKEND_PLAYED;
    memset(config->profile, 0, sizeof config->profile);
    memcpy(config->profile, profile, strlen(profile));
    return PSR_OK;
}

static void print_backend(const psr_config *config, char *text, size_t size)
{
    if (config->backend == PSR_BACKEND_PLAYED)
        snprintf(text, size, "played:%s", config->profile);
    else
        snprintf(text, size, "%s",
                 config->backend == PSR_BACKEND_REFERENCE ? "reference" : "onednn");
}

static psr_err read_link_rate(psr_config *config, const char *text)
{
    uint64_t rate = 0;
    if (text[0] != '\0' && !psr_rate_parse(text, strlen(text), &rate))
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' is not a rate; give bits per second, 1Kbit to 1000Gbit (100Mbit)",
                        text);
    config->link_rate_bits_per_s = rate;
    return PSR_OK;
}

static void print_link_rate(const psr_config *config, char *text, size_t size)
{
    char rate[PSR_RATE_TEXT_BYTES] = "";
    if (config->link_rate_bits_per_s > 0)
        psr_rate_print(config->link_rate_bits_per_s, rate);
    snprintf(text, size, "%s", rate);
}

static psr_err read_link_delay(psr_config *config, const char *text)
{
    double delay_s = 0;
    if (text[0] != '\0' && (!psr_duration_parse(text, strlen(text), &delay_s) || delay_s > 10))
        return psr_fail(PSR_ERR_USAGE, "'%s' is not a delay of at most 10 s; give 1ms, 250us",
                        text);
    config->link_delay_ns = (uint64_t)llround(delay_s * 1e9);
    return PSR_OK;
}

static void print_link_delay(const psr_config *config, char *text, size_t size)
{
    char number[32];
    if (size > 0)
        text[0] = '\0';
    if (config->link_delay_ns == 0)
        return;
    psr_print_double((double)config->link_delay_ns / 1e3, number, sizeof number);
    snprintf(text, size, "%sus", number);
}

static psr_err read_bare(psr_config *config, const char *text)
{
    if (text[0] == '\0')
        config->bare = PSR_BARE_NOWHERE;
    else if (strcmp(text, "this-machine") == 0)
        config->bare = PSR_BARE_THIS_MACHINE;
    else if (strcmp(text, "trusted-network") == 0)
        config->bare = PSR_BARE_TRUSTED_NETWORK;
    else
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' is not a place; give --no-encrypt within this machine, or "
                        "--no-encrypt=trusted-network",
                        text);
    return PSR_OK;
}

static void print_bare(const psr_config *config, char *text, size_t size)
{
    static const char *const words[] = {"", "this-machine", "trusted-network"};
    snprintf(text, size, "%s", words[config->bare]);
}

static psr_err judge_device(psr_config *config, const char *text)
{
    uint64_t index;
    (void)config;
    if (strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0 ||
        (strncmp(text, "cuda:", 5) == 0 && psr_parse_u64(text + 5, &index) && index < 1024))
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%s' is not a device; give cpu, cuda, or cuda:I for GPU number I of each host",
                    text);
}

static psr_err judge_content(psr_config *config, const char *text)
{
    (void)config;
    const char *test = text + PSR_CONTENT_BYTES;
    if (text[0] == '\0' ||
        (strlen(text) == PSR_CONTENT_TEXT_BYTES - 1 && psr_content_begins(text) &&
         test[-1] == '-' && psr_content_begins(test)))
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%.80s' is no content of a data set; give what an earlier run.json has under "
                    "\"data-content\" (32 hexadecimal digits, a hyphen, 32 more)",
                    text);
}

/* The letters and commas are those of model/onednn/choice/choice.h. Whether they fit the network is
 * checked when it is compiled. */
static psr_err judge_algorithms(psr_config *config, const char *text)
{
    (void)config;
    if (strcmp(text, "auto") == 0 || strcmp(text, "timed") == 0 || strcmp(text, "direct") == 0 ||
        (text[0] != '\0' && strspn(text, "dwo,") == strlen(text)))
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%.64s' is no choice of algorithms; give auto, timed, direct, or what an "
                    "earlier run.json has under \"algorithms\" (ddd,doo)",
                    text);
}

/* A lower-case word of letters, digits and dashes that ends at a colon or the end; NULL when it is
 * not. */
static const char *after_word(const char *text)
{
    const char *end = text;
    while (islower((unsigned char)*end) || isdigit((unsigned char)*end) || *end == '-')
        end++;
    return end > text && (*end == ':' || *end == '\0') ? end : NULL;
}

static const char *after_digits(const char *text)
{
    const char *end = text;
    while (isdigit((unsigned char)*end))
        end++;
    return end > text && end - text <= 18 && (*end == ':' || *end == '\0') ? end : NULL;
}

static psr_err judge_fault_point(psr_config *config, const char *text)
{
    static const char *const roles[] = {"worker:", "shard:", "scheduler:", "launcher:", "agent:"};
    (void)config;
    if (text[0] == '\0')
        return PSR_OK;
    const char *at = NULL;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strncmp(text, roles[i], strlen(roles[i])) == 0)
            at = text + strlen(roles[i]);
    }
    const char *(*const parts[])(const char *) = {after_digits, after_word, after_digits};
    for (int i = 0; i < 3 && at != NULL; i++) {
        at = parts[i](at);
        if (at != NULL && *at == '\0' && i == 2)
            return PSR_OK;
        at = at != NULL && *at == ':' ? at + 1 : NULL;
    }
    return psr_fail(PSR_ERR_USAGE,
                    "'%s' is not ROLE:RANK:PHASE:STEP with a ROLE of worker, shard, scheduler, "
                    "launcher or agent (worker:1:push:3)",
                    text);
}

#define FIELD(f) .offset = offsetof(psr_config, f)
#define ENUM(f, w) .kind = PSR_OPTION_ENUM, FIELD(f), .words = (w)
#define FLAG(f) .kind = PSR_OPTION_FLAG, FIELD(f), .negatable = true
#define U32(f, a, b) .kind = PSR_OPTION_U32, FIELD(f), .least = (a), .most = (b)
#define U64(f, a, b) .kind = PSR_OPTION_U64, FIELD(f), .least = (a), .most = (b)
#define DURATION(f) .kind = PSR_OPTION_DURATION, FIELD(f)
#define BYTES(f, a, b) .kind = PSR_OPTION_BYTES, FIELD(f), .least = (a), .most = (b)
#define DOUBLE(f, a, b) .kind = PSR_OPTION_DOUBLE, FIELD(f), .low = (a), .high = (b)
#define STRING(f) .kind = PSR_OPTION_STRING, FIELD(f), .size = sizeof(((psr_config *)0)->f)
#define SPECIAL(r, p) .kind = PSR_OPTION_SPECIAL, .read = (r), .print = (p)

const psr_option psr_options[] = {
    {"mode", MODES, MODES_HELP, ARCHITECTURE, "ps",
     SPECIAL(psr_config_read_mode, psr_config_print_mode), .words = mode_words,
     .unlisted = mode_unlisted, .for_shards = true, .aloud_at = "mpi",
     .aloud = "MPI sums in an order of its own, so losses come near those of ps, ring and local, "
              "and bits do not"},
    {"sync", "bsp|ssp:K|async",
     "bulk synchronous, stale synchronous with a bound of K steps, or unbounded; the last two in "
     "mode ps",
     ARCHITECTURE, "bsp", SPECIAL(read_sync, print_sync), .for_shards = true},
    {"workers", "N", "how many processes compute gradients", ARCHITECTURE, "1",
     U32(workers, 1, 1024), .for_shards = true},
    {"route", "PATTERN=ps|ring,..",
     "which tensors go by ps or ring, by name or pattern (layer4.*=ps,*=ring); the first pattern "
     "that matches a tensor counts; other tensors go by --mode",
     ARCHITECTURE, "", STRING(route), .read = psr_config_judge_route, .for_shards = true},
    {"shards", "S|auto",
     "how many server processes there are, each with a part of the parameters; auto: one if --mode "
     "or --route needs it. With --mode ring they wait until psring mode RUN ps changes the run",
     ARCHITECTURE, "auto", U32(shards, 1, 256), .zero = "auto"},
    {"bucket-size", "BYTES|auto",
     "size of the units in which parameters are exchanged; K, M and G are powers of 1024; auto: by "
     "the network's size, so that a small network has several units too",
     ARCHITECTURE, "auto", BYTES(bucket_bytes, 4 * KIB, GIB), .zero = "auto"},
    {"slice-size", "BYTES",
     "size of a bucket's messages. psring train on several hosts measures their links at the start "
     "and chooses it with --window, unless one of both is given",
     ARCHITECTURE, "512K", BYTES(slice_bytes, 4 * KIB, 1 * MIB)},
    {"window", "N",
     "slices in flight per connection; eight times as many where a shard reads them in shared "
     "memory. From 4 on, with --sync bsp, a shard holds back workers that are far ahead of the "
     "slowest one",
     ARCHITECTURE, "2", U32(window, 1, 4096)},
    {"fold", "rank|arrival|reversed",
     "order in which gradients are summed: by rank, which gives the same bits every time; as they "
     "arrive; or by rank counted from the last one, which gives other bits, the same every time",
     ARCHITECTURE, "rank", ENUM(fold, fold_words),
     .aloud = "gradients are not summed in the order of ranks, so other bits come out than by rank",
     .for_shards = true},
    {"compress", "ENCODING",
     "how gradients are sent: none, fp16, bf16, int8, topk:R (the share R of the values: "
     "topk:0.01) or 1bit; what the last three leave out is kept and sent later",
     ARCHITECTURE, "none", STRING(compress), .words = compress_offered},
    {"compress-as", "ps|ring",
     "in mode local: round as parameter servers do, each worker's gradient once, or as a ring "
     "does, at every hop",
     ARCHITECTURE, "ps", ENUM(compress_as, compress_as_words)},
    {"compress-weights", "ENCODING",
     "in modes ps and local: how weights come back to the workers: none, fp16 or bf16, or as what "
     "they lack, in int8, topk:R or 1bit (with --sync bsp); shards and checkpoints keep float32",
     ARCHITECTURE, "none", STRING(compress_weights), .words = compress_offered},

    {"model", "NAME", "the network", MODEL, "resnet20", STRING(model)},
    {"shortcut", "a|b",
     "shortcuts of resnet20 to resnet110 and of preresnet20 to preresnet110 where the shape "
     "changes "
     "(He et al., 4.2): padded identity (A) or 1x1 convolution (B)",
     MODEL, "a", ENUM(shortcut, shortcut_words)},
    {"stem", "large|small",
     "first layers of torchvision's networks: large: 7x7 convolution of stride 2 and max pooling; "
     "small: 3x3 convolution of stride 1, for images of about 32 pixels",
     MODEL, "large", ENUM(stem, stem_words)},
    {"se", "RATIO|none",
     "squeeze and excitation (Hu et al. 2018) at the end of every residual block, through a "
     "RATIOth "
     "of its channels (16)",
     MODEL, "none", U32(se_ratio, 1, 4096), .zero = "none"},
    {"zero-gamma", NULL,
     "the last batch norm of every residual block starts with weights of 0, so that the network "
     "starts as its shortcuts",
     MODEL, "false", FLAG(zero_gamma)},
    {"bn-momentum", "M",
     "batch norm: share of a batch's statistics that goes into the running ones", MODEL, "0.1",
     DOUBLE(bn_momentum, 0, 1), .low_excluded = true},
    {"bn-epsilon", "E", "batch norm: what is added to a variance", MODEL, "1e-05",
     DOUBLE(bn_epsilon, 0, 1), .low_excluded = true},
    {"sync-bn", NULL,
     "batch norm: statistics of the batches of all workers together, instead of each worker's own; "
     "workers wait for each other at every batch norm, forward and backward",
     MODEL, "false", FLAG(sync_bn)},
    {"precision", "fp32|bf16|fp16",
     "of the arithmetic; parameters and sums are always float32. fp16 is for --device cuda, and "
     "scales the loss",
     MODEL, "fp32", ENUM(precision, precision_words), .for_shards = true},
    {"loss-scale", "S[:STEPS]",
     "with --precision fp16: what the loss is multiplied by at first, a power of two; a step whose "
     "gradient overflows is left out by all and halves it, STEPS others in a row (2000) double it",
     MODEL, "65536", SPECIAL(psr_config_read_loss_scale, psr_config_print_loss_scale)},
    {"backend", "onednn|reference|played:PROFILE",
     "oneDNN; plain loops; or nothing, but passes take as long as those that --record wrote into "
     "the file PROFILE, for lessons and labs",
     MODEL, "onednn", SPECIAL(read_backend, print_backend), .words = backend_words,
     .aloud_at = "played:",
     .aloud = "played: nothing is computed, passes take as long as recorded ones, and the weights "
              "and losses mean nothing"},
    {"dilate", "F",
     "with --backend played: passes take F times as long (F from 1 to 1000), and links of "
     "--link-rate and --link-delay are F times as slow, for a machine that cannot keep up",
     MODEL, "1", DOUBLE(dilate, 1, 1000), .for_shards = true,
     .aloud = "played passes take that many times as long, so all times are that many times those "
              "of what is played"},
    {"played-gradients", "zero|seeded",
     "with --backend played: gradients are zeros, or random numbers by --seed, which cost time",
     MODEL, "zero", ENUM(played_gradients, played_gradients_words)},
    {"record", "FILE",
     "write how long worker 0's forward and backward passes take, tensor by tensor (the median of "
     "the steps but the first), for --backend played",
     MODEL, "", STRING(record)},
    {"device", "cpu|cuda|cuda:I",
     "where it computes; cuda: on the GPU of the worker's number on its host, which psring-cuda "
     "brings (numbers are checked by emulation only so far)",
     MODEL, "cpu", STRING(device), .read = judge_device},
    {"update-on", "host|device",
     "with --device cuda: where the optimizer updates the weights; device: on the GPU, which then "
     "holds them and the optimizer's state, and is given the sums of gradients; sgd, adam and "
     "adamw, with the host's bits",
     MODEL, "host", ENUM(update_on, update_on_words)},
    {"mixed-hosts", NULL,
     "go on where workers have other processors, GPUs or versions of libraries; without it they "
     "are refused",
     MODEL, "false", FLAG(mixed_hosts),
     .aloud = "workers may compute with what differs, so bits depend on who computes what, and may "
              "be others than those of another mode"},
    {"threads", "N", "compute threads per worker; 0: this machine's cores shared evenly", MODEL,
     "0", U32(threads, 0, 1024)},

    {"data", "DIR|FILE|fashion-mnist|synthetic[:SPEC]",
     "what to train on. DIR: a directory with the authors' files of MNIST and its family (IDX), "
     "CIFAR-10 or CIFAR-100, plain, .gz or .xz, or with a folder of JPEG or PNG pictures for each "
     "class, or with train and val that have such folders (or train.tsv and val.tsv, with lines of "
     "PATH, a tab and LABEL); FILE: a pack, of psring data pack; mnist, fashion-mnist, cifar10 or "
     "cifar100: the files that psring data get or the package dataset-fashion-mnist brings; "
     "synthetic: generated; SPEC changes these, joined by "
     "commas: count=60000, test=10000, channels=3, size=32, classes=10",
     DATA, "fashion-mnist", STRING(data)},
    {"data-content", "TRAIN-TEST",
     "hashes of the samples that --data must hold, as in an earlier run.json; other samples are "
     "refused",
     DATA, "", STRING(data_content), .read = judge_content},
    {"max-bad", "N",
     "pictures that may be broken, and classes that may be empty, before the run is refused; a "
     "broken one is named, and the next one takes its place",
     DATA, "0", U32(max_bad, 0, 1000000000)},
    {"decode", "full|scaled",
     "how JPEG pictures are decoded that a step makes smaller (random-resized-crop): at full size, "
     "to the same pixels as Pillow's; or at the half, quarter or eighth of it that still covers "
     "what is wanted, which is faster and gives slightly other pixels",
     DATA, "full", ENUM(decode, decode_words)},
    {"image-size", "PX",
     "side of the images, to which they are resized before --augment; 0: the data set's own, or "
     "what --augment makes of them",
     DATA, "0", U32(image_size, 0, 4096)},
    {"classes", "N",
     "outputs of the network; 0: as many as the data have; for IDX files the largest label plus "
     "one",
     DATA, "0", U32(classes, 0, 65536)},
    {"mean", "M[,M,M]",
     "mean that is subtracted from pixels: one number, or one for each channel, on the scale of 0 "
     "to 1; default: the training set's, for pictures in files ImageNet's",
     DATA, "", STRING(mean)},
    {"std", "S[,S,S]",
     "deviation that pixels are divided by, given like --mean; default: the training set's", DATA,
     "", STRING(std)},
    {"augment", "none|crop-flip|imagenet|LIST",
     "what pictures go through, in this order: LIST has steps joined by commas, their values "
     "behind "
     "colons (crop:32:4,flip,resize:224). crop:SIDE[:PADDING], flip[:P], resize:SIDE, "
     "resize-short:SIDE, centre-crop:SIDE, random-resized-crop:SIDE[:SCALE[:RATIO]], "
     "colour-jitter:B[:C[:S[:HUE]]], lighting[:STD], rand-augment[:N[:M]], trivial-augment, "
     "random-erasing[:P[:SCALE[:RATIO]]], cutout:SIDE, mixup:ALPHA, cutmix:ALPHA, repeat:COPIES; "
     "docs/augmentation.md defines them. crop-flip: crop,flip by an eighth of the side; imagenet: "
     "random-resized-crop:224,flip. An evaluation takes resizes and crops without chance",
     DATA, "none", STRING(augment), .words = augment_offered},
    {"shuffle", NULL, "a new order each epoch, a function of seed and epoch", DATA, "true",
     FLAG(shuffle)},
    {"shuffle-buffer", "K",
     "shuffle as streaming loaders do: each sample is a random one of a buffer of K, in which the "
     "next one then takes its place; 0: the whole epoch",
     DATA, "0", U32(shuffle_buffer, 0, UINT32_MAX)},
    {"partition", "exact|drop|pad",
     "what happens to an epoch's last samples when they do not divide evenly among workers. exact: "
     "each is used once; drop: they are left out; pad: some are repeated, as PyTorch's "
     "DistributedSampler does",
     DATA, "exact", ENUM(partition, partition_words)},
    {"drop-last", NULL,
     "leave out an epoch's last batches if one of them is incomplete, so that all have the same "
     "size",
     DATA, "false", FLAG(drop_last)},
    {"loader-threads", "N", "threads per worker that read and augment", DATA, "1",
     U32(loader_threads, 1, 64)},

    {"batch-size", "N", "samples per worker and step", OPTIMISATION, "64",
     U32(batch_size, 1, 1 << 20)},
    {"accumulate", "K",
     "batches per worker and step whose gradients are added before they are exchanged: a step "
     "takes K times --batch-size samples in the memory of one batch",
     OPTIMISATION, "1", U32(accumulate, 1, 1024)},
    {"epochs", "N", "passes over the data; or give --steps", OPTIMISATION, "0",
     U32(epochs, 0, 1000000)},
    {"steps", "N", "updates; or give --epochs", OPTIMISATION, "0", U64(steps, 0, PSR_STEPS_MOST)},
    {"seconds", "T",
     "train for T seconds: no step begins when a worker has trained for so long, evaluations and "
     "checkpoints apart; all end with the same step. With --epochs or --steps: or until these are "
     "done",
     OPTIMISATION, "0", DOUBLE(seconds, 0, 1e9)},
    {"lr", "RATE", "learning rate at its peak", OPTIMISATION, "0.1", DOUBLE(lr, 0, 1e6),
     .for_shards = true},
    {"momentum", "M", "of sgd, lars and rmsprop", OPTIMISATION, "0.9", DOUBLE(momentum, 0, 1),
     .high_excluded = true, .for_shards = true},
    {"weight-decay", "L2",
     "as PyTorch's: added to the gradient; with adamw and lamb taken from the weights, beside the "
     "gradient's moments",
     OPTIMISATION, "0.0001", DOUBLE(weight_decay, 0, 1e6), .for_shards = true},
    {"clip-norm", "C",
     "scale the gradient down to this Euclidean norm over all parameters where it is larger; 0: "
     "never",
     OPTIMISATION, "0", DOUBLE(clip_norm, 0, 1e30), .for_shards = true},
    {"no-decay", "bn,bias",
     "which tensors --weight-decay spares: bn (weights and biases of batch norm), bias (every "
     "bias), or both",
     OPTIMISATION, "", SPECIAL(psr_config_read_no_decay, psr_config_print_no_decay),
     .for_shards = true},
    {"freeze", "LIST|all-but:LIST",
     "tensors that are not trained, by layer or pattern (conv1,bn1,layer1, or layer4.*.conv2.*); "
     "all-but:fc trains fc alone. They have no gradient, are not exchanged and stay as they are",
     OPTIMISATION, "", STRING(freeze), .read = psr_config_judge_freeze},
    {"freeze-bn", NULL,
     "batch norms that --freeze freezes whole normalise by their running statistics and keep them; "
     "without it they train on by the batch's, as PyTorch's do",
     OPTIMISATION, "false", FLAG(freeze_bn)},
    {"nesterov", NULL, "Nesterov's momentum, of sgd", OPTIMISATION, "false", FLAG(nesterov),
     .for_shards = true},
    {"optimizer", "sgd|adam|lars|adamw|lamb|rmsprop", "what turns a gradient into an update",
     OPTIMISATION, "sgd", ENUM(optimizer, optimizer_words), .for_shards = true},
    {"adam-beta1", "B", "decay of the first moment, of adam, adamw and lamb", OPTIMISATION, "0.9",
     DOUBLE(adam_beta1, 0, 1), .high_excluded = true, .for_shards = true},
    {"adam-beta2", "B", "decay of the second moment, of adam, adamw and lamb", OPTIMISATION,
     "0.999", DOUBLE(adam_beta2, 0, 1), .high_excluded = true, .for_shards = true},
    {"adam-epsilon", "E", "added to the denominator, of adam, adamw and lamb", OPTIMISATION,
     "1e-08", DOUBLE(adam_epsilon, 0, 1), .low_excluded = true, .for_shards = true},
    {"lars-trust", "T", "trust coefficient of lars", OPTIMISATION, "0.001",
     DOUBLE(lars_trust, 0, 1000), .low_excluded = true, .for_shards = true},
    {"rmsprop-alpha", "A", "decay of rmsprop's mean of squares", OPTIMISATION, "0.99",
     DOUBLE(rmsprop_alpha, 0, 1), .high_excluded = true, .for_shards = true},
    {"rmsprop-epsilon", "E", "added to rmsprop's denominator", OPTIMISATION, "1e-08",
     DOUBLE(rmsprop_epsilon, 0, 1), .low_excluded = true, .for_shards = true},
    {"rmsprop-centered", NULL, "rmsprop divides by the deviation, not by the root of squares",
     OPTIMISATION, "false", FLAG(rmsprop_centered), .for_shards = true},
    {"lr-schedule", "constant|cosine|poly|step|multistep|onecycle",
     "how the learning rate changes after the warm-up. cosine[:END] falls to the rate END; "
     "poly:POWER to zero; step:EVERY:GAMMA multiplies by GAMMA every EVERY, "
     "multistep:A,B,..:GAMMA after A, after B, and so on; these count steps (1000) or epochs "
     "(30e); onecycle[:RISE[:FIRST[:LAST]]] is PyTorch's OneCycleLR, with its defaults "
     "0.3:25:10000",
     OPTIMISATION, "constant", SPECIAL(psr_config_read_schedule, psr_config_print_schedule),
     .for_shards = true},
    {"warmup", "STEPS|Ne",
     "steps, or epochs (5e), in which the learning rate rises linearly, before the schedule",
     OPTIMISATION, "0", DURATION(warmup), .for_shards = true},
    {"scale-lr", "none|linear|sqrt",
     "multiply --lr by the number of workers, or by its square root; the warm-up then begins at "
     "--lr itself (Goyal et al., 2017)",
     OPTIMISATION, "none", ENUM(scale_lr, scale_words), .for_shards = true},
    {"ema", "none|DECAY[:EVERY]",
     "average the weights too: after every update, or every EVERY updates (0.9999:32), the average "
     "becomes DECAY times itself and 1 - DECAY times the weights; until --warmup is over it is the "
     "weights. Evaluated beside them, and saved as model-ema.safetensors",
     OPTIMISATION, "none", SPECIAL(psr_config_read_ema, psr_config_print_ema), .for_shards = true},
    {"lr-factor", "PATTERN=FACTOR,..",
     "tensors whose learning rate is multiplied, by name or pattern (*.bias=64,fc.*=10); the first "
     "pattern that matches a tensor counts; with 0 a tensor stays as it is",
     OPTIMISATION, "", STRING(lr_factor), .read = psr_config_judge_factors, .for_shards = true},
    {"decay-factor", "PATTERN=FACTOR,..",
     "tensors whose --weight-decay is multiplied, likewise (*.bias=0.5); what they lose a step is "
     "learning rate times decay, so with --lr-factor times both factors",
     OPTIMISATION, "", STRING(decay_factor), .read = psr_config_judge_factors, .for_shards = true},
    {"label-smoothing", "S", "share of the target that is spread over all classes", OPTIMISATION,
     "0", DOUBLE(label_smoothing, 0, 1), .high_excluded = true},
    {"seed", "N", "seed of every random number of the run", OPTIMISATION, "1",
     U64(seed, 0, UINT64_MAX)},

    {"out", "DIR",
     "directory that the run makes and writes; default: one in psring-runs that is named after the "
     "time",
     RUN, "", STRING(out)},
    {"init", "CKPT",
     "start from these weights, a checkpoint or a safetensors file, of float32, float16 or "
     "bfloat16; with another number of classes the last layer starts anew",
     RUN, "", STRING(init)},
    {"init-partial", NULL,
     "with --init: tensors that CKPT has not, or in another shape, start as they do without --init",
     RUN, "false", FLAG(init_partial)},
    {"resume", "RUN|CKPT|auto",
     "go on from a checkpoint, or from the newest checkpoint of a run directory. auto is for a "
     "command that a launcher starts again: it goes on from the newest checkpoint of --out DIR, "
     "DIR-2, .. if there is one, and writes the next of these names",
     RUN, "", STRING(resume)},
    {"checkpoint-every", "STEPS|Ne",
     "steps, or epochs (1e, 0.5e), from one checkpoint to the next; 0: only at the end", RUN, "0",
     DURATION(checkpoint_every), .for_shards = true},
    {"keep", "K", "keep the newest K checkpoints and remove older ones; 0: keep all", RUN, "0",
     U32(keep, 0, 1000000)},
    {"keep-best", NULL,
     "keep the checkpoint of the best test accuracy too, whatever its age; checkpoints/best names "
     "it. With --ema the average's accuracy counts",
     RUN, "false", FLAG(keep_best)},
    {"eval-every", "STEPS|Ne",
     "steps, or epochs (1e, 0.5e), from one evaluation on the test set to the next; 0: only at the "
     "end",
     RUN, "0", DURATION(eval_every)},
    {"target-accuracy", "A",
     "end the run after the first evaluation with at least this share of the test set right "
     "(0.94), with --ema by the average; 0: never",
     RUN, "0", DOUBLE(target_accuracy, 0, 1)},
    {"eval-only", NULL,
     "take no step: evaluate the weights of --resume or --init on the test set, and end", RUN,
     "false", FLAG(eval_only)},
    {"eval-format", "psring|torch",
     "how rank 0's log has an evaluation; torch: with a line as that of PyTorch's examples beside "
     "it, 'Test set: Average loss: 0.0561, Accuracy: 98.21%'",
     RUN, "psring", ENUM(eval_format, eval_format_words)},
    {"eval-tta", "none|flip|flip-shift",
     "judge a sample by the mean of its logits over several views (test-time augmentation): flip: "
     "the picture and its mirror image; flip-shift: half of that, and half of both shifted by a "
     "pixel up and left, and down and right",
     RUN, "none", ENUM(eval_tta, eval_tta_words)},
    {"eval", NULL,
     "evaluate on the test set at the end, and as --eval-every says; with --no-eval never", RUN,
     "true", FLAG(eval)},
    {"log-every", "STEPS",
     "steps from one line of progress to the next, in the workers' logs and where stdout is no "
     "terminal",
     RUN, "20", U64(log_every, 1, PSR_STEPS_MOST)},
    {"deadline", "SECONDS",
     "how long a process may make no progress; then the run ends and names it", RUN, "30",
     DOUBLE(deadline_s, 0, 1e6), .low_excluded = true},
    {"memory-check", NULL,
     "before the start, refuse a run whose workers need more memory than their host has free, and "
     "say what would fit; --no-memory-check starts it all the same",
     RUN, "true", FLAG(memory_check),
     .aloud = "memory is not compared with what the run needs; the kernel may end a process of it"},
    {"hash", NULL, "write the hash of the weights after every step", RUN, "false", FLAG(hash)},
    {"metrics-every", "STEPS",
     "steps from one line of each rank in metrics.jsonl to the next (478 bytes each); steps with "
     "an "
     "evaluation and the last one always have theirs. A line tells of its own step, run.json of "
     "all",
     RUN, "1", U64(metrics_every, 1, PSR_STEPS_MOST)},
    {"tensorboard", NULL,
     "write TensorBoard's event files into the run's folder tensorboard: loss, accuracy, learning "
     "rate, images/s, exchange, wait, staleness; tensorboard --logdir RUN shows them",
     RUN, "false", FLAG(tensorboard)},
    {"tensorboard-norms", "STEPS",
     "with --tensorboard: every STEPS steps, the Euclidean norm of each tensor's weights and "
     "gradient over all workers, before --clip-norm; 0: never. Sums are kept until a bucket is "
     "whole, and worker 0 waits in these steps",
     RUN, "0", U64(tensorboard_norms, 0, PSR_STEPS_MOST), .for_shards = true},
    {"metrics-port", "[ADDRESS:]PORT",
     "serve the run's figures for Prometheus, at http://127.0.0.1:PORT/metrics while it goes on; "
     "0: "
     "a free port. ADDRESS (0.0.0.0:9100): on that address of the scheduler's host, to everybody "
     "who reaches it",
     RUN, "", SPECIAL(psr_config_read_metrics_port, psr_config_print_metrics_port),
     .protects = true},
    {"trace", "FIRST-LAST",
     "write trace.json, which Perfetto and chrome://tracing show: what every thread of every "
     "process does in these steps; --trace alone: three steps after the first ten",
     RUN, "", SPECIAL(psr_config_read_trace, psr_config_print_trace), .implied = "auto",
     .for_shards = true},
    {"exchange", NULL,
     "--no-exchange is for lessons, in mode ring: workers compute and exchange nothing, which "
     "shows what an exchange costs",
     RUN, "true", FLAG(exchange),
     .aloud = "nothing is exchanged, so each worker ends with weights of its own; for lessons and "
              "measuring"},
    {"slow", "RANK:FACTOR,..",
     "for lessons: the worker of that rank takes FACTOR times as long to compute, which shows who "
     "waits for it; several are joined by commas",
     RUN, "", SPECIAL(read_slow, print_slow),
     .aloud = "that worker is made slow on purpose; for lessons and tests"},
    {"algorithms", "auto|timed|direct|TEXT",
     "how convolutions are computed. auto: chosen by a rule without a clock, so that the same "
     "command gives the same bits; timed: chosen by timing on rank 0, as fast or faster, with bits "
     "that no other run has; direct: direct sums alone; TEXT: the choice that an earlier run.json "
     "has",
     RUN, "auto", STRING(algorithms), .read = judge_algorithms},
    {"fault-point", "ROLE:RANK:PHASE:STEP", "stops one process there, for tests", RUN, "",
     STRING(fault_point), .hidden = true, .read = judge_fault_point,
     .aloud = "that process stops itself there; for tests", .for_shards = true},
    {"transport", "auto|tcp|ipc|shm",
     "tcp: TCP alone; ipc: sockets that only this user reaches, for a run on one host; shm: "
     "gradients and weights go through shared memory within each host, the rest over ipc on one "
     "host and TCP between hosts; auto: shm where it is possible",
     NETWORK, "auto", ENUM(transport, network_words), .protects = true, .for_shards = true},
    {"link-rate", "RATE",
     "each process sends and receives no faster than this, as if it had a link of its own: bits "
     "per second, decimal (100Mbit, 1Gbit); for lessons, where psring lab cannot run",
     NETWORK, "", SPECIAL(read_link_rate, print_link_rate), .for_shards = true,
     .aloud = "links are emulated; all values go by sockets, none through shared memory"},
    {"link-delay", "TIME",
     "each message arrives so much later (1ms, 250us), as if hosts were that far apart", NETWORK,
     "", SPECIAL(read_link_delay, print_link_delay), .for_shards = true,
     .aloud = "links are emulated; all values go by sockets, none through shared memory"},
    {"no-encrypt", "trusted-network",
     "no encryption over TCP: within this machine, or with =trusted-network between hosts on a "
     "network that nobody else uses",
     NETWORK, "", SPECIAL(read_bare, print_bare), .implied = "this-machine", .protects = true},
};
const size_t psr_options_count = sizeof psr_options / sizeof psr_options[0];

const psr_option *psr_option_find(const char *name)
{
    for (size_t i = 0; i < psr_options_count; i++) {
        if (strcmp(psr_options[i].name, name) == 0)
            return &psr_options[i];
    }
    return NULL;
}

const char *psr_option_nearest(const char *name)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < psr_options_count; i++) {
        const psr_option *option = &psr_options[i];
        if (!option->hidden)
            nearest = psr_nearer(name, nearest, option->name);
    }
    return nearest;
}
