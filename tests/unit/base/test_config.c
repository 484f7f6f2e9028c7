#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/config/config.h"
#include "base/config/config_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if PSR_MPI
#define MODES "ps, ring, local, nccl, mpi"
#else
#define MODES "ps, ring, local, nccl"
#endif

/* A run that fits together. */
static psr_config fitting(void)
{
    psr_config config;
    psr_config_defaults(&config);
    config.steps = 10;
    return config;
}

/* Another value than the default for every option: the test fails when an option has none here. */
static const struct {
    const char *name, *text;
} others[] = {
    {"mode", "ring@1,ps@100"},
    {"route", "layer4.*=ps,fc=ring,*=ring"},
    {"sync", "ssp:7"},
    {"workers", "1024"},
    {"shards", "256"},
    {"bucket-size", "12345664"},
    {"slice-size", "128K"},
    {"window", "9"},
    {"fold", "arrival"},
    {"compress", "topk:0.01"},
    {"compress-as", "ring"},
    {"compress-weights", "bf16"},
    {"model", "resnet152"},
    {"shortcut", "b"},
    {"stem", "small"},
    {"se", "16"},
    {"zero-gamma", "true"},
    {"bn-momentum", "0.25"},
    {"bn-epsilon", "0.001"},
    {"sync-bn", "true"},
    {"precision", "bf16"},
    {"loss-scale", "1024:50"},
    {"backend", "reference"},
    {"dilate", "10"},
    {"played-gradients", "seeded"},
    {"record", "times.json"},
    {"link-rate", "2500Kbit"},
    {"link-delay", "250us"},
    {"device", "cuda:1"},
    {"update-on", "device"},
    {"mixed-hosts", "true"},
    {"threads", "3"},
    {"data", "/data/with \"quotes\", \\ and \xc3\xa4"},
    {"image-size", "224"},
    {"classes", "47"},
    {"mean", "0.49,0.48,0.45"},
    {"std", "0.25"},
    {"augment", "crop:32:4,flip:0.5,resize:224:plain"},
    {"shuffle", "false"},
    {"shuffle-buffer", "1000"},
    {"partition", "pad"},
    {"drop-last", "true"},
    {"loader-threads", "2"},
    {"batch-size", "17"},
    {"accumulate", "4"},
    {"epochs", "90"},
    {"steps", "1099511627776"},
    {"seconds", "90.5"},
    {"lr", "0.30000000000000004"},
    {"momentum", "0.30000000000000004"},
    {"weight-decay", "1e-300"},
    {"clip-norm", "1.5"},
    {"tensorboard-norms", "8"},
    {"no-decay", "bn,bias"},
    {"ema", "0.99989999999999999:32"},
    {"freeze", "all-but:layer4.*.conv2.*,fc"},
    {"freeze-bn", "true"},
    {"nesterov", "true"},
    {"optimizer", "lars"},
    {"adam-beta1", "0.99999999999999989"},
    {"adam-beta2", "0.333333333333333314829616256247"},
    {"adam-epsilon", "5e-324"},
    {"lars-trust", "0.02"},
    {"rmsprop-alpha", "0.9"},
    {"rmsprop-epsilon", "0.0316"},
    {"rmsprop-centered", "true"},
    {"lr-schedule", "multistep:30e,60.5e,80e:0.30000000000000004"},
    {"warmup", "2.5e"},
    {"scale-lr", "linear"},
    {"lr-factor", "*.bias=64,fc.*=0"},
    {"decay-factor", "fc.*=2"},
    {"label-smoothing", "0.1"},
    {"seed", "18446744073709551615"},
    {"out", "runs/a b"},
    {"init-partial", "true"},
    {"init", "there/model.safetensors"},
    {"resume", "runs/1"},
    {"checkpoint-every", "100"},
    {"keep", "3"},
    {"keep-best", "true"},
    {"eval-every", "0.125e"},
    {"target-accuracy", "0.94"},
    {"eval-only", "true"},
    {"eval-format", "torch"},
    {"eval-tta", "flip-shift"},
    {"eval", "false"},
    {"log-every", "1"},
    {"max-bad", "3"},
    {"decode", "scaled"},
    {"data-content", "0123456789abcdef0123456789abcdef-fedcba9876543210fedcba9876543210"},
    {"deadline", "0.25"},
    {"memory-check", "false"},
    {"hash", "true"},
    {"metrics-every", "7"},
    {"tensorboard", "true"},
    {"metrics-port", "[::1]:9100"},
    {"trace", "3-4"},
    {"fault-point", "worker:1:push:3"},
    {"transport", "ipc"},
    {"no-encrypt", "trusted-network"},
    {"algorithms", "dwd,ooo"},
    {"exchange", "false"},
    {"slow", "1:2.5"},
};
enum { OTHERS = sizeof others / sizeof others[0] };

static void every_option_of_the_table_is_in_this_test(void **state)
{
    (void)state;
    psr_option_info info;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        int found = 0;
        for (int k = 0; k < OTHERS; k++)
            found += strcmp(others[k].name, info.name) == 0;
        if (found != 1)
            fail_msg("--%s", info.name);
        assert_true(info.help != NULL && info.help[0] != '\0');
        assert_non_null(info.group);
    }
}

static void every_option_reads_back_to_the_same_bits_as_text(void **state)
{
    (void)state;
    for (int k = 0; k < OTHERS; k++) {
        psr_config a, b;
        psr_config_defaults(&a);
        psr_config_defaults(&b);
        if (psr_config_set(&a, others[k].name, others[k].text) != PSR_OK)
            fail_msg("%s", psr_err_detail());
        if (memcmp(&a, &b, sizeof a) == 0)
            fail_msg("--%s %s changes nothing", others[k].name, others[k].text);
        char text[PSR_OPTION_TEXT_MAX];
        assert_int_equal(psr_config_get(&a, others[k].name, text, sizeof text), PSR_OK);
        assert_int_equal(psr_config_set(&b, others[k].name, text), PSR_OK);
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("--%s %s became %s", others[k].name, others[k].text, text);
    }
}

static void the_whole_configuration_reads_back_to_the_same_bits_as_json(void **state)
{
    (void)state;
    psr_config a, b;
    psr_config_defaults(&a);
    for (int k = 0; k < OTHERS; k++)
        assert_int_equal(psr_config_set(&a, others[k].name, others[k].text), PSR_OK);
    char *json = NULL;
    assert_int_equal(psr_config_to_json(&a, &json), PSR_OK);
    psr_config_defaults(&b);
    if (psr_config_from_json(&b, json, strlen(json)) != PSR_OK)
        fail_msg("%s", psr_err_detail());
    assert_memory_equal(&a, &b, sizeof a);

    /* As run.json has it. */
    size_t size = strlen(json) + 64;
    char *run = malloc(size);
    assert_non_null(run);
    snprintf(run, size, "{\"version\": \"1\", \"config\": %s, \"outcome\": {}}", json);
    psr_config_defaults(&b);
    assert_int_equal(psr_config_from_json(&b, run, strlen(run)), PSR_OK);
    assert_memory_equal(&a, &b, sizeof a);
    free(run);
    free(json);
}

static const char *text_of(const char *name)
{
    for (int k = 0; k < OTHERS; k++)
        if (strcmp(others[k].name, name) == 0)
            return others[k].text;
    fail_msg("--%s", name);
    return NULL;
}

/* No network, data set or path: each option has another value than the default here, so one more
 * that is told would be seen. */
static void shards_are_told_their_options_and_no_other(void **state)
{
    (void)state;
    static const char *const told[] = {
        "mode",
        "route",
        "sync",
        "fold",
        "lr",
        "momentum",
        "weight-decay",
        "nesterov",
        "optimizer",
        "adam-beta1",
        "adam-beta2",
        "adam-epsilon",
        "lars-trust",
        "lr-schedule",
        "warmup",
        "checkpoint-every",
        "fault-point",
        "transport",
        "dilate",
        "link-rate",
        "link-delay",
        "trace",
        "rmsprop-alpha",
        "rmsprop-epsilon",
        "rmsprop-centered",
        "no-decay",
        "ema",
        "clip-norm",
        "precision",
        "tensorboard-norms",
        "scale-lr",
        "lr-factor",
        "decay-factor",
        "workers",
    };
    psr_config whole, expected, read;
    psr_config_defaults(&whole);
    psr_config_defaults(&expected);
    psr_config_defaults(&read);
    for (int k = 0; k < OTHERS; k++)
        assert_int_equal(psr_config_set(&whole, others[k].name, others[k].text), PSR_OK);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_int_equal(psr_config_set(&expected, told[i], text_of(told[i])), PSR_OK);
    char *json = NULL;
    assert_int_equal(psr_config_to_json_for_shards(&whole, &json), PSR_OK);
    assert_int_equal(psr_config_from_json(&read, json, strlen(json)), PSR_OK);
    assert_memory_equal(&read, &expected, sizeof read);
    assert_null(strstr(json, "model"));
    assert_null(strstr(json, "data"));
    free(json);
}

static void slices_take_about_a_millisecond_of_the_link(void **state)
{
    (void)state;
    static const struct {
        uint64_t rate_bits_per_s, slice_bytes;
        uint32_t pushers, window;
    } known[] = {{1000000, 4 << 10, 0, 8},
                 {10000000, 4 << 10, 0, 8},
                 {100000000, 16 << 10, 0, 8},
                 {80000000, 16 << 10, 0, 8}, /* measured with something else on the link */
                 {1000000000, 128 << 10, 0, 8},
                 {100000000000, 512 << 10, 0, 4},
                 {100000000, 16 << 10, 2, 4}, /* 128K of all of them together */
                 {100000000, 8 << 10, 4, 4},
                 {90000000, 8 << 10, 4, 4},
                 {100000000, 4 << 10, 8, 4},
                 {100000000, 4 << 10, 16, 2},
                 {1000000000, 64 << 10, 4, 4}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t slice = 0;
        uint32_t window = 0;
        psr_config_slices_for(known[i].rate_bits_per_s, known[i].pushers, &slice, &window);
        assert_int_equal(slice, known[i].slice_bytes);
        assert_int_equal(window, known[i].window);
    }
}

static void json_goes_on_top_of_what_was_there(void **state)
{
    (void)state;
    psr_config config = fitting();
    static const char json[] = "{\"workers\": \"5\"}";
    assert_int_equal(psr_config_from_json(&config, json, sizeof json - 1), PSR_OK);
    assert_int_equal(config.workers, 5);
    assert_int_equal(config.steps, 10);
}

static void values_have_types_and_texts_of_earlier_versions_are_read(void **state)
{
    (void)state;
    psr_config config, read;
    char *json = NULL;
    psr_config_defaults(&config);
    psr_config_defaults(&read);
    config.bucket_bytes = 4 << 20;
    config.lr = 0.1;
    config.seed = UINT64_MAX; /* which no double holds */
    assert_int_equal(psr_config_to_json(&config, &json), PSR_OK);
    assert_non_null(strstr(json, "\"bucket-size\":\t4194304,"));
    assert_non_null(strstr(json, "\"lr\":\t0.1,"));
    assert_non_null(strstr(json, "\"seed\":\t\"18446744073709551615\","));
    assert_non_null(strstr(json, "\"shuffle\":\ttrue,"));
    assert_non_null(strstr(json, "\"shards\":\t\"auto\","));
    assert_non_null(strstr(json, "\"mode\":\t\"ps\","));
    free(json);
    static const char texts[] = "{\"bucket-size\": \"4M\", \"lr\": \"0.1\", \"shuffle\": \"no\", "
                                "\"seed\": \"18446744073709551615\"}";
    assert_int_equal(psr_config_from_json(&read, texts, sizeof texts - 1), PSR_OK);
    config.shuffle = false;
    assert_memory_equal(&config, &read, sizeof config);
}

/* cJSON writes 15 digits of some whole numbers of 16. */
static void every_seed_comes_back(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {0,
                                     999999999999999,
                                     1000000000000000,
                                     8865314999999999,
                                     UINT64_C(1) << 53,
                                     (UINT64_C(1) << 53) + 1};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        psr_config config, read;
        char *json = NULL;
        psr_config_defaults(&config);
        psr_config_defaults(&read);
        config.seed = seeds[i];
        assert_int_equal(psr_config_to_json(&config, &json), PSR_OK);
        assert_int_equal(psr_config_from_json(&read, json, strlen(json)), PSR_OK);
        assert_int_equal(read.seed, seeds[i]);
        free(json);
    }
}

static void readers_see_one_text_for_a_number_and_for_an_earlier_text(void **state)
{
    (void)state;
    cJSON *options =
        cJSON_Parse("{\"bucket-size\": 4194304, \"slice-size\": \"512K\", \"lr\": 1e-1, "
                    "\"shuffle\": false, \"unknown\": 3, \"workers\": []}");
    psr_config_to_texts(options);
    char *json = cJSON_PrintUnformatted(options);
    assert_string_equal(json, "{\"bucket-size\":\"4M\",\"slice-size\":\"512K\",\"lr\":\"0.1\","
                              "\"shuffle\":\"false\",\"unknown\":\"3\",\"workers\":[]}");
    free(json);
    cJSON_Delete(options);
    psr_config_to_texts(NULL);
}

static void wrong_json_is_refused_by_name_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *json, *detail;
    } wrong[] = {
        {"{\"workers\": \"5\"", "not JSON, from byte 14 on"},
        {"", "not JSON, from byte 0 on"},
        {"[1]", "not a JSON object of options"},
        {"{\"workers\": \"5\", \"wrokers\": \"5\"}", "'wrokers' is not an option of this version"},
        {"{\"workers\": true}", "'workers' must be a number, as in \"workers\": 1"},
        {"{\"shards\": []}", "'shards' must be a number, as in \"shards\": \"auto\""},
        {"{\"shuffle\": 1}", "'shuffle' must be a boolean, as in \"shuffle\": true"},
        {"{\"model\": 5}", "'model' must be a string, as in \"model\": \"resnet20\""},
        {"{\"workers\": 2.5}", "--workers: '2.5' is not a whole number; give one like 1"},
        {"{\"shards\": \"3\", \"workers\": \"0\"}",
         "--workers: 0 is out of bounds; give 1 to 1024"},
        {"{\"config\": {\"mode\": \"x\"}}", "--mode: 'x' is not known; give one of " MODES},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_config config = fitting(), before = config;
        assert_int_equal(psr_config_from_json(&config, wrong[i].json, strlen(wrong[i].json)),
                         PSR_ERR_FORMAT);
        assert_string_equal(psr_err_detail(), wrong[i].detail);
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void json_that_is_cut_or_nested_without_end_is_refused(void **state)
{
    (void)state;
    psr_config config = fitting();
    char *json = NULL;
    assert_int_equal(psr_config_to_json(&config, &json), PSR_OK);
    for (size_t size = 0; size < strlen(json) - 1; size++) {
        /* Of its own size, so that a sanitizer sees a byte read behind the end. */
        char *cut = malloc(size + 1);
        assert_non_null(cut);
        memcpy(cut, json, size);
        assert_int_equal(psr_config_from_json(&config, cut, size), PSR_ERR_FORMAT);
        free(cut);
    }
    free(json);

    enum { DEPTH = 100000 };
    char *deep = malloc(DEPTH);
    assert_non_null(deep);
    memset(deep, '[', DEPTH);
    assert_int_equal(psr_config_from_json(&config, deep, DEPTH), PSR_ERR_FORMAT);
    free(deep);
}

static void a_wrong_value_is_refused_in_words_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *detail;
    } wrong[] = {
        {"bucket-size", "12Q",
         "--bucket-size: '12Q' is not a size; give auto, bytes, or a number with K, M or G (4M)"},
        {"bucket-size", "M",
         "--bucket-size: 'M' is not a size; give auto, bytes, or a number with K, M or G (4M)"},
        {"bucket-size", "17179869185G",
         "--bucket-size: '17179869185G' is not a size; give auto, bytes, or a number with K, M or "
         "G (4M)"},
        {"bucket-size", "1K", "--bucket-size: 1K is out of bounds; give auto, or 4K to 1G"},
        {"bucket-size", "0", "--bucket-size: 0 is out of bounds; give auto, or 4K to 1G"},
        {"slice-size", "auto",
         "--slice-size: 'auto' is not a size; give bytes, or a number with K, M or G (4M)"},
        {"slice-size", "8M", "--slice-size: 8M is out of bounds; give 4K to 1M"},
        {"window", "0", "--window: 0 is out of bounds; give 1 to 4096"},
        {"steps", "1.5", "--steps: '1.5' is not a whole number; give one like 0"},
        {"steps", "1e-3", "--steps: '1e-3' is not a whole number; give one like 0"},
        {"steps", "1.25e1", "--steps: '1.25e1' is not a whole number; give one like 0"},
        {"steps", "1e", "--steps: '1e' is not a whole number; give one like 0"},
        {"steps", "e3", "--steps: 'e3' is not a whole number; give one like 0"},
        {"steps", ".5e1", "--steps: '.5e1' is not a whole number; give one like 0"},
        {"steps", "1e3 ", "--steps: '1e3 ' is not a whole number; give one like 0"},
        {"steps", "1e300", "--steps: '1e300' is not a whole number; give one like 0"},
        {"seed", "1.9e19", "--seed: '1.9e19' is not a whole number; give one like 1"},
        {"workers", "three", "--workers: 'three' is not a whole number; give one like 1"},
        {"workers", "-1", "--workers: '-1' is not a whole number; give one like 1"},
        {"workers", " 3", "--workers: ' 3' is not a whole number; give one like 1"},
        {"workers", "", "--workers: '' is not a whole number; give one like 1"},
        {"workers", "4294967297", "--workers: 4294967297 is out of bounds; give 1 to 1024"},
        {"seed", "18446744073709551616",
         "--seed: '18446744073709551616' is not a whole number; give one like 1"},
        {"batch-size", "0", "--batch-size: 0 is out of bounds; give 1 to 1048576"},
        {"threads", "1025", "--threads: 1025 is out of bounds; give 0 to 1024"},
        {"lr", "fast", "--lr: 'fast' is not a number; give one like 0.1"},
        {"lr", "nan", "--lr: 'nan' is not a number; give one like 0.1"},
        {"lr", "inf", "--lr: 'inf' is not a number; give one like 0.1"},
        {"lr", "-0.1", "--lr: -0.1 is out of bounds; give a number from 0 and up to 1000000"},
        {"momentum", "1", "--momentum: 1 is out of bounds; give a number from 0 and below 1"},
        {"label-smoothing", "1",
         "--label-smoothing: 1 is out of bounds; give a number from 0 and below 1"},
        {"deadline", "0",
         "--deadline: 0 is out of bounds; give a number above 0 and up to 1000000"},
        {"mode", "rong", "--mode: 'rong' is not known (ring?); give one of " MODES},
        {"mode", "ncl", "--mode: 'ncl' is not known (nccl?); give one of " MODES},
        {"precision", "fp15",
         "--precision: 'fp15' is not known (fp16?); give one of fp32, bf16, fp16"},
        {"fold", "reverse",
         "--fold: 'reverse' is not known (reversed?); give one of rank, arrival, reversed"},
        {"device", "gpu",
         "--device: 'gpu' is not a device; give cpu, cuda, or cuda:I for GPU number I of each "
         "host"},
        {"backend", "mkl",
         "--backend: 'mkl' is not a back end; give onednn, reference, or played:PROFILE with a "
         "file "
         "that --record wrote"},
        {"shuffle", "maybe", "--shuffle: 'maybe' is neither true nor false"},
        {"sync", "ssp",
         "--sync: 'ssp' is not a way to synchronise; give bsp, async, or ssp:K with K steps "
         "(ssp:3)"},
        {"sync", "ssp:-1",
         "--sync: 'ssp:-1' is not a way to synchronise; give bsp, async, or ssp:K with K steps "
         "(ssp:3)"},
        {"lr-schedule", "step:0:0.1",
         "--lr-schedule: 'step:0:0.1' is not a schedule; give constant, cosine or cosine:END, "
         "poly:POWER (poly:2), step:EVERY:GAMMA (step:1000:0.1, step:30e:0.1), "
         "multistep:A,B,..:GAMMA with A < B, all in steps or all in epochs "
         "(multistep:30e,60e,80e:0.1), or onecycle[:RISE[:FIRST[:LAST]]] "
         "(onecycle:0.3:25:10000), with 0 < GAMMA <= 1"},
        {"loss-scale", "1000",
         "--loss-scale: '1000' is no scale of the loss; give a power of two from 1 to 16777216 "
         "(65536), or S:STEPS with the steps after which it doubles (65536:2000)"},
        {"loss-scale", "33554432",
         "--loss-scale: '33554432' is no scale of the loss; give a power of two from 1 to 16777216 "
         "(65536), or S:STEPS with the steps after which it doubles (65536:2000)"},
        {"loss-scale", "65536:",
         "--loss-scale: '65536:' is no scale of the loss; give a power of two from 1 to 16777216 "
         "(65536), or S:STEPS with the steps after which it doubles (65536:2000)"},
        {"loss-scale", "65536:0",
         "--loss-scale: '65536:0' is no scale of the loss; give a power of two from 1 to 16777216 "
         "(65536), or S:STEPS with the steps after which it doubles (65536:2000)"},
        {"loss-scale", "0",
         "--loss-scale: '0' is no scale of the loss; give a power of two from 1 to 16777216 "
         "(65536), or S:STEPS with the steps after which it doubles (65536:2000)"},
        {"ema", "1",
         "--ema: '1' is no average of the weights; give DECAY, above 0 and below 1 (0.9999), "
         "DECAY:EVERY with EVERY in updates (0.9999:32), or none"},
        {"ema", "0.9:0",
         "--ema: '0.9:0' is no average of the weights; give DECAY, above 0 and below 1 (0.9999), "
         "DECAY:EVERY with EVERY in updates (0.9999:32), or none"},
        {"no-decay", "bn,fc",
         "--no-decay: 'bn,fc' is no list of tensors; give bn, bias, or bn,bias"},
        {"no-decay", "bias,bias",
         "--no-decay: 'bias,bias' is no list of tensors; give bn, bias, or bn,bias"},
        {"no-decay", "bn,", "--no-decay: 'bn,' is no list of tensors; give bn, bias, or bn,bias"},
        {"freeze", "all-but:",
         "--freeze: 'all-but:' is no list of layers; give their names or patterns with commas "
         "between (conv1,bn1,layer1), or all-but: and those that are trained (all-but:fc)"},
        {"freeze", "conv1,,bn1",
         "--freeze: 'conv1,,bn1' is no list of layers; give their names or patterns with commas "
         "between (conv1,bn1,layer1), or all-but: and those that are trained (all-but:fc)"},
        {"eval-every", "0.1234e",
         "--eval-every: '0.1234e' is no duration; give steps (1000) or epochs with an e (30e, "
         "0.5e), with at most three decimals"},
        {"warmup", "-1",
         "--warmup: '-1' is no duration; give steps (1000) or epochs with an e (30e, 0.5e), with "
         "at most three decimals"},
        {"slow", "1",
         "--slow: '1' is not RANK:FACTOR with a factor of 1 to 1000 (1:10), or several of them, "
         "each rank once, joined by commas"},
        {"slow", "1:0.5",
         "--slow: '1:0.5' is not RANK:FACTOR with a factor of 1 to 1000 (1:10), or several of "
         "them, "
         "each rank once, joined by commas"},
        {"device", "gpu",
         "--device: 'gpu' is not a device; give cpu, cuda, or cuda:I for GPU number I of each "
         "host"},
        {"out", "a\nb", "--out: byte 1 is a control character"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_config config = fitting(), before = config;
        assert_int_equal(psr_config_set(&config, wrong[i].name, wrong[i].text), PSR_ERR_USAGE);
        assert_string_equal(psr_err_detail(), wrong[i].detail);
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void schedules_of_every_wrong_shape_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "step",
                                        "step:",
                                        "step:10",
                                        "step:10:",
                                        "step::0.1",
                                        "step:x:1",
                                        "step:1:0",
                                        "step:1:2",
                                        "step:0e:0.1",
                                        "poly",
                                        "poly:0",
                                        "poly:x",
                                        "poly:-1",
                                        "cosine:",
                                        "cosine:-1",
                                        "cosine:1:1",
                                        "constant ",
                                        "constant:1",
                                        "step:99999999999999999999999999999999999999:0.1",
                                        "multistep",
                                        "multistep::0.1",
                                        "multistep:3,3:0.1",
                                        "multistep:3,2:0.1",
                                        "multistep:1e,20:0.1",
                                        "multistep:1,:0.1",
                                        "multistep:1,2:1.5",
                                        "multistep:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17:.1",
                                        "onecycle:",
                                        "onecycle:0",
                                        "onecycle:1",
                                        "onecycle:0.3:0.5",
                                        "onecycle:0.3:25:1e4:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_config config = fitting();
        if (psr_config_set(&config, "lr-schedule", wrong[i]) != PSR_ERR_USAGE)
            fail_msg("'%s'", wrong[i]);
    }
}

static void fault_points_have_a_role_a_rank_a_phase_and_a_step(void **state)
{
    (void)state;
    static const char *const right[] = {"",
                                        "worker:0:push:3",
                                        "shard:12:pull:0",
                                        "scheduler:0:join:1",
                                        "launcher:0:shut-down:5",
                                        "agent:1:start-up:0"};
    static const char *const wrong[] = {"worker",           "worker:",
                                        "worker:1",         "worker:1:push",
                                        "worker:1:push:",   "worker:x:push:3",
                                        "boss:1:push:3",    "worker:1:PUSH:3",
                                        "worker:1:push:3:", "worker:1:push:3:kill",
                                        "worker:1:push:-3", "worker:1::3",
                                        "worker::push:3"};
    psr_config config = fitting();
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        if (psr_config_set(&config, "fault-point", right[i]) != PSR_OK)
            fail_msg("'%s': %s", right[i], psr_err_detail());
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (psr_config_set(&config, "fault-point", wrong[i]) != PSR_ERR_USAGE)
            fail_msg("'%s'", wrong[i]);
    }
}

static void sizes_take_binary_suffixes_and_are_printed_with_the_largest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
        const char *printed;
    } sizes[] = {{"4096", 4096, "4K"},     {"1M", 1048576, "1M"},    {"1536K", 1572864, "1536K"},
                 {"1024k", 1048576, "1M"}, {"1G", 1073741824, "1G"}, {"4160", 4160, "4160"},
                 {"auto", 0, "auto"}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        psr_config config = fitting();
        char text[32];
        assert_int_equal(psr_config_set(&config, "bucket-size", sizes[i].text), PSR_OK);
        assert_int_equal(config.bucket_bytes, sizes[i].bytes);
        assert_int_equal(psr_config_get(&config, "bucket-size", text, sizeof text), PSR_OK);
        assert_string_equal(text, sizes[i].printed);
    }
}

static void a_path_as_long_as_its_field_is_refused_and_one_shorter_is_kept(void **state)
{
    (void)state;
    psr_config config = fitting();
    char path[PSR_PATH_MAX + 1], text[PSR_PATH_MAX];
    memset(path, 'x', sizeof path);
    path[PSR_PATH_MAX] = '\0';
    assert_int_equal(psr_config_set(&config, "out", path), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "--out: 1024 bytes are too long; 1023 is the limit");
    path[PSR_PATH_MAX - 1] = '\0';
    assert_int_equal(psr_config_set(&config, "out", path), PSR_OK);
    assert_int_equal(psr_config_get(&config, "out", text, sizeof text), PSR_OK);
    assert_string_equal(text, path);
    assert_int_equal(psr_config_get(&config, "out", text, 100), PSR_ERR_USAGE);
}

static void a_shorter_text_leaves_nothing_of_a_longer_one(void **state)
{
    (void)state;
    psr_config once = fitting(), twice = fitting();
    assert_int_equal(psr_config_set(&once, "data", "b"), PSR_OK);
    assert_int_equal(psr_config_set(&twice, "data", "aaaa"), PSR_OK);
    assert_int_equal(psr_config_set(&twice, "data", "b"), PSR_OK);
    assert_memory_equal(&once, &twice, sizeof once);
}

static void an_unknown_option_is_refused_with_the_nearest_name(void **state)
{
    (void)state;
    psr_config config = fitting();
    assert_int_equal(psr_config_set(&config, "bukcet-size", "4M"), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--bukcet-size: there is no such option; --bucket-size is the nearest");
    assert_int_equal(psr_config_set(&config, "quux", "1"), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), "--quux: there is no such option; --help lists them");
    char text[32];
    assert_int_equal(psr_config_get(&config, "worker", text, sizeof text), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--worker: there is no such option; --workers is the nearest");
}

static void hidden_options_are_not_offered(void **state)
{
    (void)state;
    psr_config config = fitting();
    assert_int_equal(psr_config_set(&config, "fault-pint", "x"), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--fault-pint: there is no such option; --help lists them");
}

/* What makes a run another one than it looks like is told, wherever the configuration came from. */
static void what_must_be_told_is_told_when_it_is_set(void **state)
{
    (void)state;
    psr_config config = fitting();
    char line[256];
    size_t at = 0;
    assert_false(psr_config_aloud(&config, &at, line, sizeof line));
    static const char json[] = "{\"exchange\": \"false\", \"slow\": \"1:10\", \"fold\": "
                               "\"reversed\", \"fault-point\": \"worker:1:push:3\"}";
    assert_int_equal(psr_config_from_json(&config, json, strlen(json)), PSR_OK);
    static const char *const begins[] = {
        "--fold reversed: ", "--no-exchange: ", "--slow 1:10: ", "--fault-point worker:1:push:3: "};
    at = 0;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        assert_true(psr_config_aloud(&config, &at, line, sizeof line));
        if (strncmp(line, begins[i], strlen(begins[i])) != 0)
            fail_msg("%s instead of %s", line, begins[i]);
        assert_true(strlen(line) > strlen(begins[i]));
    }
    assert_false(psr_config_aloud(&config, &at, line, sizeof line));
}

/* Another mode is another road to the same bits, but for one. */
static void a_mode_is_told_where_it_changes_the_bits(void **state)
{
    (void)state;
    psr_config config = fitting();
    char line[256];
    size_t at = 0;
    config.mode = PSR_MODE_RING;
    assert_false(psr_config_aloud(&config, &at, line, sizeof line));
    config.mode = PSR_MODE_MPI;
    at = 0;
    assert_true(psr_config_aloud(&config, &at, line, sizeof line));
    assert_non_null(strstr(line, "--mode mpi: MPI sums in an order of its own"));
    assert_false(psr_config_aloud(&config, &at, line, sizeof line));
}

static void every_hidden_option_is_told_when_it_is_set(void **state)
{
    (void)state;
    psr_option_info info;
    size_t hidden = 0;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        if (info.hidden && info.aloud == NULL)
            fail_msg("%s", info.name);
        hidden += info.hidden;
    }
    assert_int_equal(hidden, 1);
}

typedef struct setting {
    const char *name, *text;
} setting;

static void what_does_not_fit_together_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        setting set[4];
        psr_err code;
        const char *detail;
    } wrong[] =
    { {{{"target-accuracy", "0.9"}},
       PSR_ERR_USAGE,
       "--target-accuracy 0.9 does not go with --eval-every 0: it ends the run after an "
       "evaluation; give --eval-every 1e"},
      {{{"keep-best", "true"}, {"eval-every", "1e"}},
       PSR_ERR_USAGE,
       "--keep-best true does not go with --checkpoint-every 0: the best one is chosen by "
       "evaluations of checkpoints; give both --eval-every and --checkpoint-every"},
      {{{"eval-only", "true"}},
       PSR_ERR_USAGE,
       "--eval-only: there are no weights to evaluate; give --resume or --init"},
      {{{"eval", "false"}, {"eval-every", "0.5e"}},
       PSR_ERR_USAGE,
       "--no-eval does not go with --eval-every 0.5e: there is no evaluation then; leave one out"},
      {{{"lr-schedule", "onecycle"}, {"warmup", "1e"}},
       PSR_ERR_USAGE,
       "--warmup 1e does not go with --lr-schedule onecycle:0.3:25:10000: a cycle begins with a "
       "rise of its own; leave --warmup out"},
      {{{"lr-schedule", "cosine:0.2"}, {"lr", "0.1"}},
       PSR_ERR_USAGE,
       "--lr-schedule cosine:0.2 does not go with --lr 0.1: its end would be above its beginning"},
      {{{"sync", "ssp:3"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--sync ssp:3 does not go with --mode ring: only shards can let workers be apart; use "
       "--mode ps or "
       "--sync bsp"},
      {{{"sync", "async"}, {"mode", "local"}},
       PSR_ERR_USAGE,
       "--sync async does not go with --mode local: only shards can let workers be apart; use "
       "--mode ps or "
       "--sync bsp"},
      {{{"shards", "2"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--shards 2 does not go with --workers 1: one worker is no ring; give more --workers"},
      {{{"shards", "2"}, {"mode", "ring"}, {"workers", "2"}, {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--shards 2 does not go with --compress int8: shards and a ring round differently; leave "
       "--compress "
       "out"},
      {{{"shards", "2"}, {"mode", "local"}},
       PSR_ERR_USAGE,
       "--shards 2 does not go with --mode local: shards serve --mode ps and ring; leave --shards "
       "out"},
      {{{"mode", "ps@1,ring@5"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@5 does not go with --workers 1: one worker is no ring; give more "
       "--workers"},
      {{{"mode", "ps@1,ring@5"}, {"workers", "2"}, {"sync", "ssp:3"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@5 does not go with --sync ssp:3: a change needs all workers after the "
       "same step; "
       "use --sync bsp"},
      {{{"mode", "ps@1,ring@5"}, {"workers", "2"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@5 does not go with --sync async: a change needs all workers after the "
       "same step; "
       "use --sync bsp"},
      {{{"mode", "ring@1,ps@5"}, {"workers", "2"}, {"compress", "topk:0.1"}},
       PSR_ERR_USAGE,
       "--mode ring@1,ps@5 does not go with --compress topk:0.1: shards and a ring round "
       "differently; leave "
       "--compress out"},
      {{{"mode", "ps@1,ring@5"}, {"workers", "2"}, {"compress-weights", "fp16"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@5 does not go with --compress-weights fp16: a ring sends no weights; "
       "leave "
       "--compress-weights out"},
      {{{"mode", "ps@1,ring@5"}, {"workers", "2"}, {"fold", "arrival"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@5 does not go with --fold arrival: a ring sees no arrivals; use --fold "
       "rank"},
      {{{"mode", "ring@1,ps@5"}, {"workers", "2"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--mode ring@1,ps@5 does not go with --exchange false: nothing is sent then; leave one out"},
      {{{"mode", "ps@1,local@5"}, {"workers", "2"}},
       PSR_ERR_USAGE,
       "--mode ps@1,local@5: a run changes between ps and ring alone, not to or from local"},
      {{{"mode", "ps@1,mpi@5"}, {"workers", "2"}},
       PSR_ERR_USAGE,
       "--mode ps@1,mpi@5: a run changes between ps and ring alone, not to or from mpi"},
      {{{"mode", "ps@1,nccl@5"}, {"workers", "2"}},
       PSR_ERR_USAGE,
       "--mode ps@1,nccl@5: a run changes between ps and ring alone, not to or from nccl"},
      {{{"mode", "ps@1,ring@11"}, {"workers", "2"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@11 does not go with --steps 10: the run ends before that; give more "
       "--steps"},
      {{{"mode", "local"}, {"route", "fc=ps"}},
       PSR_ERR_USAGE,
       "--route fc=ps does not go with --mode local: it is for --mode ps and ring; leave --route "
       "out"},
      {{{"mode", "ring"}, {"workers", "2"}, {"route", "fc=ps"}},
       PSR_ERR_USAGE,
       "--route fc=ps does not go with --mode ring: that run has no shards; give --shards"},
      {{{"mode", "ps"}, {"workers", "2"}, {"route", "fc=ring"}, {"compress", "1bit"}},
       PSR_ERR_USAGE,
       "--route fc=ring does not go with --compress 1bit: shards and a ring round differently; "
       "leave "
       "--compress out"},
      {{{"fold", "arrival"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--fold arrival does not go with --mode ring: only a shard sees arrivals; use --fold rank"},
      {{{"fold", "arrival"}, {"mode", "local"}},
       PSR_ERR_USAGE,
       "--fold arrival does not go with --mode local: only a shard sees arrivals; use --fold rank"},
      {{{"fold", "arrival"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--fold arrival does not go with --sync async: without --sync bsp each push is an update by "
       "itself; use --fold rank"},
      {{{"fold", "reversed"}, {"sync", "ssp:2"}},
       PSR_ERR_USAGE,
       "--fold reversed does not go with --sync ssp:2: without --sync bsp each push is an update "
       "by itself; use --fold rank"},
      {{{"compress-as", "ring"}, {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--compress-as ring does not go with --mode ps: only --mode local imitates another "
       "architecture; leave --compress-as out"},
      {{{"compress-as", "ring"}, {"mode", "local"}},
       PSR_ERR_USAGE,
       "--compress-as ring does not go with --compress none: without --compress nothing is "
       "rounded; leave --compress-as out"},
      {{{"compress-weights", "fp16"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--compress-weights fp16 does not go with --mode ring: no weights are sent in that mode; "
       "leave --compress-weights out"},
      {{{"compress-weights", "fp16"},
        {"mode", "local"},
        {"compress-as", "ring"},
        {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--compress-weights fp16 does not go with --compress-as ring: a ring sends no weights; "
       "leave one "
       "out"},
      {{{"compress-weights", "int8"}, {"sync", "ssp:1"}},
       PSR_ERR_USAGE,
       "--compress-weights int8 does not go with --sync ssp:1: a shard encodes what all workers "
       "lack alike, and there each has other weights; use --sync bsp, or --compress-weights bf16"},
      {{{"compress-weights", "topk:0.1"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--compress-weights topk:0.1 does not go with --sync async: a shard encodes what all "
       "workers lack alike, and there each has other weights; use --sync bsp, or "
       "--compress-weights bf16"},
      {{{"compress-weights", "bf16"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--compress-weights bf16 does not go with --exchange false: nothing is sent then; leave one "
       "out"},
      {{{"bucket-size", "5000"}}, PSR_ERR_USAGE, "--bucket-size: 5000 is not a multiple of 64"},
      {{{"slice-size", "5000"}}, PSR_ERR_USAGE, "--slice-size: 5000 is not a multiple of 64"},
      {{{"precision", "bf16"}, {"backend", "reference"}},
       PSR_ERR_USAGE,
       "--precision bf16 does not go with --backend reference: the reference is float32; use "
       "--precision "
       "fp32"},
      {{{"image-size", "3"}}, PSR_ERR_USAGE, "--image-size: 3 is too small; give 0 or 8 to 4096"},
      {{{"data", ""}},
       PSR_ERR_USAGE,
       "--data: empty; give a directory, fashion-mnist or synthetic"},
      {{{"steps", "0"}},
       PSR_ERR_USAGE,
       "--epochs and --steps are both 0: nothing says when to end; give one of them"},
      {{{"epochs", "3"}},
       PSR_ERR_USAGE,
       "--epochs 3 does not go with --steps 10: both say when to end; set one of them to 0"},
      {{{"nesterov", "true"}, {"optimizer", "adam"}},
       PSR_ERR_USAGE,
       "--nesterov true does not go with --optimizer adam: it is a form of sgd's momentum"},
      {{{"nesterov", "true"}, {"momentum", "0"}},
       PSR_ERR_USAGE,
       "--nesterov true does not go with --momentum 0: it needs a momentum above 0"},
      {{{"adam-beta2", "0.9"}},
       PSR_ERR_USAGE,
       "--adam-beta2 0.9 does not go with --optimizer sgd: only adam, adamw and lamb have it"},
      {{{"rmsprop-centered", "true"}, {"optimizer", "adamw"}},
       PSR_ERR_USAGE,
       "--rmsprop-centered true does not go with --optimizer adamw: only rmsprop has it"},
      {{{"accumulate", "2"}, {"record", "a"}},
       PSR_ERR_USAGE,
       "--accumulate 2 does not go with --record a: what is recorded is one pass a step; leave one "
       "out"},
      {{{"sync-bn", "true"}, {"sync", "ssp:2"}},
       PSR_ERR_USAGE,
       "--sync-bn true does not go with --sync ssp:2: workers are not in the same step then, and "
       "each batch norm needs the sums of all; use --sync bsp"},
      {{{"sync-bn", "true"}, {"exchange", "false"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--sync-bn true does not go with --exchange false: workers exchange nothing then; leave one "
       "out"},
      {{{"sync-bn", "true"}, {"backend", "played:a"}},
       PSR_ERR_USAGE,
       "--sync-bn true does not go with --backend played:a: a played pass has no statistics; leave "
       "one out"},
      {{{"sync-bn", "true"}, {"record", "a"}},
       PSR_ERR_USAGE,
       "--sync-bn true does not go with --record a: a recorded pass has no place for the waits in "
       "its middle; leave one out"},
      {{{"clip-norm", "1"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--clip-norm 1 does not go with --sync async: each push is an update by itself, before the "
       "norm of its whole gradient is known; use --sync bsp"},
      {{{"clip-norm", "1"}, {"mode", "ring"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--clip-norm 1 does not go with --exchange false: nothing is updated then; leave one out"},
      {{{"tensorboard-norms", "1"}, {"sync", "async"}, {"tensorboard", "true"}},
       PSR_ERR_USAGE,
       "--tensorboard-norms 1 does not go with --sync async: each push is an update by itself "
       "there, and no step has a gradient of all workers; use --sync bsp"},
      {{{"tensorboard-norms", "1"}, {"mode", "ring"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--tensorboard-norms 1 does not go with --exchange false: no gradient is summed then; leave "
       "one out"},
      {{{"tensorboard-norms", "1"}},
       PSR_ERR_USAGE,
       "--tensorboard-norms is for --tensorboard, which is not given; give both, or leave it out"},
      {{{"eval-tta", "flip"}, {"eval", "false"}},
       PSR_ERR_USAGE,
       "--no-eval does not go with --eval-tta flip: there is no evaluation then; leave one out"},
      {{{"ema", "0.9"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--ema 0.9 does not go with --sync async: each push is an update by itself there, and no "
       "step's weights are everybody's; use --sync bsp"},
      {{{"ema", "0.9"}, {"mode", "ring"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--ema 0.9 does not go with --exchange false: nothing is updated then; leave one out"},
      {{{"no-decay", "bn"}, {"weight-decay", "0"}},
       PSR_ERR_USAGE,
       "--no-decay bn does not go with --weight-decay 0: nothing decays then; leave --no-decay "
       "out"},
      {{{"freeze-bn", "true"}},
       PSR_ERR_USAGE,
       "--freeze-bn is for --freeze, which is not given; leave it out"},
      {{{"optimizer", "lamb"}, {"sync", "ssp:1"}},
       PSR_ERR_USAGE,
       "--optimizer lamb does not go with --sync ssp:1: its update needs whole tensors, a push is "
       "a piece of one; use --sync bsp"},
      {{{"optimizer", "lars"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--optimizer lars does not go with --sync async: its update needs whole tensors, a push is "
       "a piece "
       "of "
       "one; use --sync bsp"},
      {{{"lars-trust", "0.1"}, {"optimizer", "adam"}},
       PSR_ERR_USAGE,
       "--lars-trust 0.1 does not go with --optimizer adam: only lars has it"},
      {{{"exchange", "false"}},
       PSR_ERR_USAGE,
       "--exchange false does not go with --mode ps: only workers without shards can work without "
       "an exchange; use --mode ring"},
      {{{"init", "a"}, {"resume", "b"}},
       PSR_ERR_USAGE,
       "--init a does not go with --resume b: a resumed run has its weights; give one of them"},
      {{{"resume", "auto"}},
       PSR_ERR_USAGE,
       "--resume auto goes on with the last attempt of --out DIR, DIR-2, ..: give --out"},
      {{{"workers", "3"}, {"slow", "3:2"}},
       PSR_ERR_USAGE,
       "--slow 3:2 does not go with --workers 3: there is no worker of that rank; ranks count from "
       "0"},
#if PSR_MPI
      {{{"mode", "mpi"}, {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--compress int8 does not go with --mode mpi: its library sums float32; leave --compress "
       "out"},
      {{{"mode", "mpi"}, {"sync", "async"}},
       PSR_ERR_USAGE,
       "--sync async does not go with --mode mpi: only shards can let workers be apart; use --mode "
       "ps or --sync bsp"},
#else
      {{{"mode", "mpi"}},
       PSR_ERR_UNSUPPORTED,
       "--mode mpi is not in this build; give ps, ring or local"},
#endif
      {{{"device", "cuda:0"}, {"backend", "reference"}},
       PSR_ERR_USAGE,
       "--device cuda:0 does not go with --backend reference: back ends are for processors; leave "
       "--backend out"},
      {{{"device", "cuda"}, {"sync-bn", "true"}},
       PSR_ERR_USAGE,
       "--device cuda does not go with --sync-bn true: a GPU does not stop at batch norms; leave "
       "--sync-bn out"},
      {{{"device", "cuda"}, {"accumulate", "2"}},
       PSR_ERR_USAGE,
       "--device cuda does not go with --accumulate 2: a GPU's gradients are not added to others; "
       "leave --accumulate out"},
      {{{"device", "cuda"}, {"algorithms", "direct"}},
       PSR_ERR_USAGE,
       "--device cuda does not go with --algorithms direct: those are a processor's; leave "
       "--algorithms out"},
      {{{"device", "cuda"}, {"record", "times.json"}},
       PSR_ERR_USAGE,
       "--device cuda does not go with --record times.json: a recorded pass is a processor's; "
       "leave "
       "--record out"},
      {{{"device", "cuda"}, {"workers", "2"}, {"slow", "1:3"}},
       PSR_ERR_USAGE,
       "--device cuda does not go with --slow 1:3: how long a GPU takes is not known while it "
       "computes; leave --slow out"},
      {{{"update-on", "device"}, {"mode", "ring"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --device cpu: there is no GPU that could update; give "
       "--device cuda, or leave --update-on out"},
      {{{"device", "cuda"}, {"update-on", "device"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --mode ps: shards update, on their processors; use "
       "--mode ring, or --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"shards", "1"}},
       PSR_ERR_USAGE,
       "--shards 1 does not go with --update-on device: shards update on their processors; use "
       "--update-on host"},
      {{{"device", "cuda"}, {"mode", "ring@1,ps@5"}, {"update-on", "device"}},
       PSR_ERR_USAGE,
       "--mode ring@1,ps@5 does not go with --update-on device: shards update on their "
       "processors; use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"optimizer", "lars"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --optimizer lars: a GPU updates by sgd, adam and "
       "adamw; "
       "use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"optimizer", "lamb"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --optimizer lamb: a GPU updates by sgd, adam and "
       "adamw; "
       "use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"optimizer", "rmsprop"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --optimizer rmsprop: a GPU updates by sgd, adam and "
       "adamw; "
       "use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"precision", "fp16"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --precision fp16: a step may be left out for what its "
       "sums hold, and a GPU does not look at them; use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"clip-norm", "1"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --clip-norm 1: the norm is taken where the host "
       "updates; use --update-on host"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"tensorboard-norms", "1"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --tensorboard-norms 1: norms are taken where the host "
       "updates; use --update-on host"},
      {{{"device", "cuda"},
        {"mode", "local"},
        {"update-on", "device"},
        {"compress-weights", "bf16"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --compress-weights bf16: no weights are sent then; "
       "leave one out"},
      {{{"device", "cuda"}, {"mode", "ring"}, {"update-on", "device"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--update-on device does not go with --exchange false: nothing is updated then; leave one "
       "out"},
      {{{"mode", "nccl"}},
       PSR_ERR_USAGE,
       "--mode nccl does not go with --device cpu: NCCL sums on GPUs; give --device cuda, or "
       "--mode ring"},
      {{{"mode", "nccl"}, {"device", "cuda"}, {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--compress int8 does not go with --mode nccl: its library sums float32; leave --compress "
       "out"},
      {{{"mode", "nccl"}, {"device", "cuda"}, {"fold", "reversed"}},
       PSR_ERR_USAGE,
       "--fold reversed does not go with --mode nccl: its library sums in an order of its own; use "
       "--fold rank"},
      {{{"precision", "fp16"}},
       PSR_ERR_USAGE,
       "--precision fp16 does not go with --device cpu: processors compute in fp32 or bf16; give "
       "--device cuda"},
      {{{"precision", "fp16"}, {"device", "cuda"}, {"sync", "ssp:2"}},
       PSR_ERR_USAGE,
       "--precision fp16 does not go with --sync ssp:2: each push is an update by itself there, "
       "and "
       "a step that overflows has to be left out by all; use --sync bsp, or --precision bf16"},
      {{{"precision", "fp16"}, {"device", "cuda"}, {"exchange", "false"}},
       PSR_ERR_USAGE,
       "--precision fp16 does not go with --exchange false: nobody hears then of a step that "
       "overflows; leave one out"},
      {{{"precision", "fp16"}, {"device", "cuda"}, {"compress", "int8"}},
       PSR_ERR_USAGE,
       "--precision fp16 does not go with --compress int8: what is left out of a gradient that "
       "overflows cannot be kept; leave --compress out, or use --precision bf16"},
      {{{"precision", "fp16"}, {"device", "cuda"}, {"mode", "ps@1,ring@3"}, {"optimizer", "adam"}},
       PSR_ERR_USAGE,
       "--mode ps@1,ring@3 does not go with --precision fp16: a shard that has nothing for a while "
       "does not hear which steps were left out, and this optimizer, or --ema, counts updates; use "
       "--precision bf16"},
      {{{"loss-scale", "1024"}},
       PSR_ERR_USAGE,
       "--loss-scale 1024 does not go with --precision fp32: only fp16's gradients are scaled; "
       "leave --loss-scale out"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_config config = fitting();
        for (int k = 0; k < 4 && wrong[i].set[k].name != NULL; k++) {
            if (psr_config_set(&config, wrong[i].set[k].name, wrong[i].set[k].text) != PSR_OK)
                fail_msg("%s", psr_err_detail());
        }
        psr_err err = psr_config_check(&config);
        if (err != wrong[i].code)
            fail_msg("expected: %s", wrong[i].detail);
        assert_string_equal(psr_err_detail(), wrong[i].detail);
    }
}

static psr_config in_mode(const char *text)
{
    psr_config config = fitting();
    if (psr_config_set(&config, "mode", text) != PSR_OK)
        fail_msg("%s", psr_err_detail());
    return config;
}

static void expect_mode(const psr_config *config, const char *expected)
{
    char text[PSR_OPTION_TEXT_MAX];
    assert_int_equal(psr_config_get(config, "mode", text, sizeof text), PSR_OK);
    assert_string_equal(text, expected);
}

static void a_step_has_the_mode_of_its_stretch(void **state)
{
    (void)state;
    psr_config config = in_mode("ps@1,ring@150,ps@300");
    assert_int_equal(config.mode, PSR_MODE_PS);
    assert_int_equal(config.stretch_count, 3);
    assert_int_equal(psr_config_mode_at(&config, 0), PSR_MODE_PS);
    assert_int_equal(psr_config_mode_at(&config, 148), PSR_MODE_PS); /* a person's step 149 */
    assert_int_equal(psr_config_mode_at(&config, 149), PSR_MODE_RING);
    assert_int_equal(psr_config_mode_at(&config, 298), PSR_MODE_RING);
    assert_int_equal(psr_config_mode_at(&config, UINT64_MAX), PSR_MODE_PS);
    assert_int_equal(psr_config_next_stretch(&config, 0), 149);
    assert_int_equal(psr_config_next_stretch(&config, 149), 299);
    assert_int_equal(psr_config_next_stretch(&config, 299), 0);
    assert_true(psr_config_has_mode(&config, PSR_MODE_RING));
    config = in_mode("ring@1");
    expect_mode(&config, "ring");
    assert_int_equal(config.stretch_count, 1);
    assert_int_equal(psr_config_next_stretch(&config, 0), 0);
    assert_false(psr_config_has_mode(&config, PSR_MODE_PS));
}

static void what_is_no_row_of_stretches_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail;
    } wrong[] = {
        {"ps@2,ring@5", "does not say in which mode step 1 is; begin with MODE@1 (ps@1,ring@150)"},
        {"ring@150", "does not say in which mode step 1 is"},
        {"ps@1,ring@5,ps@5", "the steps must ascend"},
        {"ps@1,ring@5,ps@4", "the steps must ascend"},
        {"ps@1,ring@1", "the steps must ascend"},
        {"ps@1,ps@5", "changes nothing at step 5"},
        {"ps,ring@5", "does not say with which step each mode begins"},
        {"ps@1,ring", "does not say with which step each mode begins"},
        {"ps@0,ring@5", "does not name a step"},
        {"ps@1,ring@x", "does not name a step"},
        {"ps@1,ring@18446744073709551615", "begins later than any run can"},
        {"ps@1,ring@9007199254740993", "begins later than any run can"},
        {"ps@1,", "'' is not known; give one of ps, ring"},
        {"ps@1,rong@5", "'rong' is not known (ring?)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_config config = fitting(), before = config;
        if (psr_config_set(&config, "mode", wrong[i].text) != PSR_ERR_USAGE)
            fail_msg("%s was taken", wrong[i].text);
        if (strstr(psr_err_detail(), wrong[i].detail) == NULL ||
            strncmp(psr_err_detail(), "--mode: ", 8) != 0)
            fail_msg("%s: %s", wrong[i].text, psr_err_detail());
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void a_change_by_hand_replaces_what_was_planned_after_it(void **state)
{
    (void)state;
    psr_config config = in_mode("ps@1,ring@150,ps@300");
    assert_int_equal(psr_config_change_mode(&config, 172, PSR_MODE_PS), PSR_OK);
    expect_mode(&config, "ps@1,ring@150,ps@173");
    assert_int_equal(psr_config_change_mode(&config, 100, PSR_MODE_RING), PSR_OK);
    expect_mode(&config, "ps@1,ring@101");
    assert_int_equal(psr_config_change_mode(&config, 100, PSR_MODE_PS), PSR_OK);
    expect_mode(&config, "ps"); /* it never was in another one */
    for (uint64_t i = 1; i < PSR_STRETCHES_MAX; i++)
        assert_int_equal(psr_config_change_mode(&config, i, i % 2 ? PSR_MODE_RING : PSR_MODE_PS),
                         PSR_OK);
    assert_int_equal(psr_config_change_mode(&config, 100, PSR_MODE_PS), PSR_ERR_USAGE);
    char text[PSR_OPTION_TEXT_MAX];
    assert_int_equal(psr_config_get(&config, "mode", text, sizeof text), PSR_OK);
    psr_config again = in_mode(text); /* as run.json has it */
    expect_mode(&again, text);
    assert_int_equal(again.stretch_count, PSR_STRETCHES_MAX);
}

static void which_runs_can_be_changed_by_hand(void **state)
{
    (void)state;
    static const struct {
        setting set[3];
        psr_mode to;
        const char *detail; /* NULL: it can */
    } runs[] = {
        {{{"workers", "2"}}, PSR_MODE_RING, NULL},
        {{{"workers", "2"}, {"mode", "ring"}, {"shards", "1"}}, PSR_MODE_PS, NULL},
        {{{"workers", "2"}, {"mode", "ring"}},
         PSR_MODE_PS,
         "this run has no shards; start it with --shards to change it to ps"},
        {{{"workers", "2"}}, PSR_MODE_LOCAL, "a run can change to ps or ring only, not to local"},
        {{{"workers", "2"}, {"mode", "local"}},
         PSR_MODE_RING,
         "a run of --mode local cannot change its mode"},
        {{{"workers", "2"}, {"sync", "ssp:3"}},
         PSR_MODE_RING,
         "this run cannot change its mode, because it has --sync ssp:3: a change needs all workers "
         "after the same step"},
        {{{"workers", "2"}, {"compress", "int8"}},
         PSR_MODE_RING,
         "this run cannot change its mode, because it has --compress int8: shards and a ring round "
         "differently"},
        {{{"workers", "1"}},
         PSR_MODE_RING,
         "this run cannot change its mode, because it has --workers 1: one worker is no ring"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        psr_config config = fitting();
        for (int k = 0; k < 3 && runs[i].set[k].name != NULL; k++)
            assert_int_equal(psr_config_set(&config, runs[i].set[k].name, runs[i].set[k].text),
                             PSR_OK);
        psr_err err = psr_config_may_change(&config, runs[i].to);
        assert_int_equal(err, runs[i].detail == NULL ? PSR_OK : PSR_ERR_USAGE);
        if (runs[i].detail != NULL)
            assert_string_equal(psr_err_detail(), runs[i].detail);
    }
}

static void a_tensor_has_the_factor_of_the_first_pattern_that_its_name_matches(void **state)
{
    (void)state;
    static const char *const wrong[] = {"fc",    "=2",        "fc=",    "fc=x",   "fc=-1",
                                        "fc=1,", "fc=1,,a=2", "fc=nan", "fc=inf", "fc=2e6",
                                        "fc= 1", "fc=1x",     ",fc=1"};
    psr_config config = fitting();
    assert_true(psr_config_factor_of(config.lr_factor, "fc.weight") == 1);
    assert_int_equal(psr_config_set(&config, "lr-factor", "layer4.*=0,fc.weight=2.5,fc.*=1e3"),
                     PSR_OK);
    assert_true(psr_config_factor_of(config.lr_factor, "layer4.0.conv1.weight") == 0);
    assert_true(psr_config_factor_of(config.lr_factor, "fc.weight") == 2.5);
    assert_true(psr_config_factor_of(config.lr_factor, "fc.bias") == 1000);
    assert_true(psr_config_factor_of(config.lr_factor, "conv1.weight") == 1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(psr_config_set(&config, "lr-factor", wrong[i]), PSR_ERR_USAGE);
        assert_non_null(strstr(psr_err_detail(), "is no list of PATTERN=FACTOR"));
        assert_true(psr_config_factor_of(config.lr_factor, "fc.bias") == 1000);
    }
}

static void a_tensor_goes_the_way_of_the_first_pattern_that_its_name_matches(void **state)
{
    (void)state;
    psr_config config = fitting();
    psr_mode mode;
    assert_false(psr_config_route_of(&config, "fc.weight", &mode));
    assert_int_equal(psr_config_set(&config, "route", "layer4.*=ps,fc.weight=ring,fc.*=ps"),
                     PSR_OK);
    assert_true(psr_config_route_of(&config, "layer4.0.conv1.weight", &mode));
    assert_int_equal(mode, PSR_MODE_PS);
    assert_true(psr_config_route_of(&config, "fc.weight", &mode));
    assert_int_equal(mode, PSR_MODE_RING);
    assert_true(psr_config_route_of(&config, "fc.bias", &mode));
    assert_int_equal(mode, PSR_MODE_PS);
    assert_false(psr_config_route_of(&config, "layer1.0.conv1.weight", &mode));
    assert_true(psr_config_has_several_ways(&config));
    static const char *const wrong[] = {"fc",     "=ps",           "fc=local",
                                        "fc=ps,", "fc=ps,,x=ring", "fc=ps x=ring"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (psr_config_set(&config, "route", wrong[i]) != PSR_ERR_USAGE)
            fail_msg("%s was taken", wrong[i]);
}

static void what_fits_together_is_taken(void **state)
{
    (void)state;
    static const setting right[][4] = {
        {{"mode", "ps"}, {"shards", "3"}, {"fold", "arrival"}},
        {{"mode", "ps"}, {"sync", "ssp:0"}},
        {{"sync", "async"}, {"optimizer", "adam"}, {"shards", "2"}},
        {{"mode", "ring"}, {"workers", "8"}},
        {{"mode", "ring"}, {"workers", "8"}, {"shards", "2"}},
        {{"mode", "ps@1,ring@5,ps@10"}, {"workers", "2"}, {"shards", "2"}},
        {{"mode", "ring"}, {"workers", "2"}, {"shards", "1"}, {"route", "fc=ps,*=ring"}},
        {{"mode", "ps"}, {"workers", "2"}, {"route", "fc=ring"}},
        {{"mode", "local"}, {"fold", "reversed"}},
        {{"mode", "ps@1,ring@5"}, {"workers", "2"}, {"fold", "reversed"}},
        {{"mode", "ring"}, {"compress", "topk:0.01"}},
        {{"mode", "local"}, {"compress", "int8"}, {"compress-as", "ring"}},
        {{"mode", "ps"}, {"compress-weights", "bf16"}, {"compress", "int8"}},
        {{"mode", "local"}, {"compress-weights", "fp16"}},
        {{"mode", "ps"}, {"compress-weights", "topk:0.01"}, {"fold", "arrival"}},
        {{"mode", "local"}, {"compress-weights", "1bit"}, {"compress", "1bit"}},
        {{"mode", "ps"}, {"compress-weights", "bf16"}, {"sync", "async"}},
        {{"steps", "0"}, {"epochs", "3"}},
        {{"optimizer", "adam"}, {"adam-beta1", "0.8"}},
        {{"optimizer", "lars"}, {"lars-trust", "0.01"}},
        {{"optimizer", "lamb"}, {"adam-beta1", "0.8"}},
        {{"optimizer", "adamw"}, {"adam-epsilon", "1e-6"}, {"sync", "async"}},
        {{"optimizer", "rmsprop"}, {"rmsprop-alpha", "0.9"}, {"rmsprop-centered", "true"}},
        {{"nesterov", "true"}},
        {{"init", "a"}, {"resume", "auto"}, {"out", "b"}},
        {{"slice-size", "4K"}, {"bucket-size", "4K"}},
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        psr_config config = fitting();
        for (int k = 0; k < 4 && right[i][k].name != NULL; k++)
            assert_int_equal(psr_config_set(&config, right[i][k].name, right[i][k].text), PSR_OK);
        if (psr_config_check(&config) != PSR_OK)
            fail_msg("%s", psr_err_detail());
    }
}

static void a_run_repeated_in_another_mode_loses_what_only_the_old_mode_had(void **state)
{
    (void)state;
    psr_config file = fitting();
    file.shards = 3;
    file.fold = PSR_FOLD_ARRIVAL;
    psr_config config = file;
    psr_config_fit_mode(&config, &file);
    assert_memory_equal(&config, &file, sizeof file);

    config.eval = false; /* a run of that file without evaluations needs no views */
    config.eval_tta = file.eval_tta = PSR_EVAL_TTA_FLIP;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.eval_tta, PSR_EVAL_TTA_NONE);
    file.eval_tta = PSR_EVAL_TTA_NONE;
    config.eval = true;

    config.mode = PSR_MODE_RING;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.shards, 0);
    assert_int_equal(config.fold, PSR_FOLD_RANK);
    assert_int_equal(psr_config_check(&config), PSR_OK);

    file.fold = PSR_FOLD_REVERSED;
    config = file;
    config.mode = PSR_MODE_RING;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.fold, PSR_FOLD_REVERSED);
    config.mode = PSR_MODE_MPI;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.fold, PSR_FOLD_RANK);
    config.mode = PSR_MODE_RING;

    file.eval_every.steps = 10;
    config = file;
    config.eval = false;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.eval_every.steps, 0);
    assert_int_equal(psr_config_check(&config), PSR_OK);

    file = fitting();
    file.mode = PSR_MODE_RING;
    file.update_on = PSR_UPDATE_ON_DEVICE;
    strcpy(file.device, "cuda");
    config = file;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.update_on, PSR_UPDATE_ON_DEVICE);
    assert_int_equal(psr_config_check(&config), PSR_OK);
    config.mode = PSR_MODE_PS;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.update_on, PSR_UPDATE_ON_HOST);
    config = file;
    strcpy(config.device, "cpu");
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.update_on, PSR_UPDATE_ON_HOST);

    file = fitting();
    file.sync = PSR_SYNC_SSP;
    file.ssp_bound = 3;
    config = file;
    config.mode = PSR_MODE_LOCAL;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.sync, PSR_SYNC_BSP);
    assert_int_equal(config.ssp_bound, 0);
}

static void a_compressed_run_repeated_in_mode_local_plays_its_architecture(void **state)
{
    (void)state;
    psr_config file = fitting(), config;
    file.mode = PSR_MODE_RING;
    assert_int_equal(psr_config_set(&file, "compress", "int8"), PSR_OK);
    config = file;
    config.mode = PSR_MODE_LOCAL;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.compress_as, PSR_COMPRESS_AS_RING);

    file = config; /* of mode local */
    assert_int_equal(psr_config_set(&config, "compress", "none"), PSR_OK);
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.compress_as, PSR_COMPRESS_AS_PS);
    config = file;
    config.mode = PSR_MODE_PS;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.compress_as, PSR_COMPRESS_AS_PS);

    file.mode = PSR_MODE_PS;
    config = file;
    config.compress_as = PSR_COMPRESS_AS_PS;
    config.mode = PSR_MODE_LOCAL;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.compress_as, PSR_COMPRESS_AS_PS);
}

static void a_whole_number_may_be_written_with_a_power_of_ten(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } right[] = {{"1e3", 1000},
                 {"1E3", 1000},
                 {"1e+3", 1000},
                 {"1.5e6", 1500000},
                 {"12.50e1", 125},
                 {"0e5", 0},
                 {"1.0e0", 1},
                 {"5e0", 5},
                 {"1e19", UINT64_C(10000000000000000000)},
                 {"1.8446744073709551615e19", UINT64_MAX}};
    psr_config config;
    psr_config_defaults(&config);
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(psr_config_set(&config, "seed", right[i].text), PSR_OK);
        assert_true(config.seed == right[i].value);
    }
    char text[32];
    assert_int_equal(psr_config_set(&config, "steps", "1e3"), PSR_OK);
    assert_int_equal(psr_config_get(&config, "steps", text, sizeof text), PSR_OK);
    assert_string_equal(text, "1000");
}

static void what_was_asked_for_beside_another_mode_is_kept_and_refused(void **state)
{
    (void)state;
    psr_config file = fitting(), config = file;
    file.shards = 3;
    config.mode = PSR_MODE_RING;
    config.shards = 2;
    psr_config_fit_mode(&config, &file);
    assert_int_equal(config.shards, 2);
    assert_int_equal(psr_config_check(&config), PSR_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_the_table_is_in_this_test),
        cmocka_unit_test(every_option_reads_back_to_the_same_bits_as_text),
        cmocka_unit_test(a_whole_number_may_be_written_with_a_power_of_ten),
        cmocka_unit_test(the_whole_configuration_reads_back_to_the_same_bits_as_json),
        cmocka_unit_test(shards_are_told_their_options_and_no_other),
        cmocka_unit_test(slices_take_about_a_millisecond_of_the_link),
        cmocka_unit_test(json_goes_on_top_of_what_was_there),
        cmocka_unit_test(values_have_types_and_texts_of_earlier_versions_are_read),
        cmocka_unit_test(every_seed_comes_back),
        cmocka_unit_test(readers_see_one_text_for_a_number_and_for_an_earlier_text),
        cmocka_unit_test(wrong_json_is_refused_by_name_and_changes_nothing),
        cmocka_unit_test(json_that_is_cut_or_nested_without_end_is_refused),
        cmocka_unit_test(a_wrong_value_is_refused_in_words_and_changes_nothing),
        cmocka_unit_test(schedules_of_every_wrong_shape_are_refused),
        cmocka_unit_test(fault_points_have_a_role_a_rank_a_phase_and_a_step),
        cmocka_unit_test(sizes_take_binary_suffixes_and_are_printed_with_the_largest),
        cmocka_unit_test(a_path_as_long_as_its_field_is_refused_and_one_shorter_is_kept),
        cmocka_unit_test(a_shorter_text_leaves_nothing_of_a_longer_one),
        cmocka_unit_test(an_unknown_option_is_refused_with_the_nearest_name),
        cmocka_unit_test(hidden_options_are_not_offered),
        cmocka_unit_test(what_must_be_told_is_told_when_it_is_set),
        cmocka_unit_test(a_mode_is_told_where_it_changes_the_bits),
        cmocka_unit_test(every_hidden_option_is_told_when_it_is_set),
        cmocka_unit_test(what_does_not_fit_together_is_refused_by_name),
        cmocka_unit_test(what_fits_together_is_taken),
        cmocka_unit_test(a_step_has_the_mode_of_its_stretch),
        cmocka_unit_test(what_is_no_row_of_stretches_is_refused),
        cmocka_unit_test(a_change_by_hand_replaces_what_was_planned_after_it),
        cmocka_unit_test(which_runs_can_be_changed_by_hand),
        cmocka_unit_test(a_tensor_has_the_factor_of_the_first_pattern_that_its_name_matches),
        cmocka_unit_test(a_tensor_goes_the_way_of_the_first_pattern_that_its_name_matches),
        cmocka_unit_test(a_run_repeated_in_another_mode_loses_what_only_the_old_mode_had),
        cmocka_unit_test(a_compressed_run_repeated_in_mode_local_plays_its_architecture),
        cmocka_unit_test(what_was_asked_for_beside_another_mode_is_kept_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
