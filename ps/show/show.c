#include "ps/show/show.h"

#include "base/config/help_width.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "model/networks/network.h"
#include "ps/parts.h"
#include "ps/roster.h"
#include "ps/show/picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 8,
    LAYERS_COLUMN = 44,
    LAYERS_BYTES = 8192,
    PICTURE_COLUMNS = 72,
    CHUNK_RANKS_MAX = 8
};

typedef struct shown {
    psr_config config;
    psr_network *net;
    psr_host_ranks hosts;
    psr_parts parts;
    const char *file;
} shown;

/* ---- what is asked for ---- */

/* As many workers on each host as on the others, give or take one. Without shared memory each is
 * alone. */
static psr_err place(shown *s, uint32_t hosts)
{
    const psr_config *config = &s->config;
    const uint32_t ranks = psr_roster_of(config).ranks;
    const bool shares =
        config->transport == PSR_TRANSPORT_SHM || config->transport == PSR_TRANSPORT_AUTO;
    s->hosts.count = !shares || hosts > ranks ? ranks : hosts;
    s->hosts.first = calloc((size_t)s->hosts.count + 1, sizeof *s->hosts.first);
    if (s->hosts.first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " hosts", s->hosts.count);
    for (uint32_t h = 0; h <= s->hosts.count; h++)
        s->hosts.first[h] = (uint32_t)((uint64_t)h * ranks / s->hosts.count);
    return PSR_OK;
}

static psr_err open_shown(shown *s, int argc, char **argv)
{
    if (argc != WORDS)
        return psr_fail(PSR_ERR_USAGE, "psring show starts this");
    uint32_t numbers[5];
    for (int i = 0; i < 5; i++)
        numbers[i] = (uint32_t)strtoul(argv[1 + i], NULL, 10);
    s->file = argv[6];
    psr_config_defaults(&s->config);
    PSR_TRY(psr_config_from_json(&s->config, argv[7], strlen(argv[7])));
    PSR_TRY(psr_network_of(&s->config, numbers[3], numbers[0], numbers[1], numbers[2], &s->net));
    s->config.bucket_bytes = psr_bucket_bytes(&s->net->params, s->config.bucket_bytes);
    PSR_TRY(place(s, numbers[4]));
    PSR_TRY(psr_parts_init(&s->config, &s->net->params, &s->hosts, &s->parts));
    return psr_parts_check(&s->parts, &s->config, &s->net->params);
}

/* ---- the table ---- */

/* "shard 1", "worker 2", "all"; on several hosts the holder on the first one. */
static void print_holder(const psr_plan *plan, uint32_t b, char text[static 32])
{
    const psr_peer home = psr_plan_home(plan, b);
    const psr_route route = plan->buckets[b].route;
    if (route == PSR_ROUTE_SHARD || route == PSR_ROUTE_HOST)
        snprintf(text, 32, "%s %" PRIu32 "%s", psr_role_name(home.role), home.rank,
                 route == PSR_ROUTE_HOST && plan->hosts.count > 1 ? ".." : "");
    else
        snprintf(text, 32, "%s",
                 route == PSR_ROUTE_RING     ? "all, by ring"
                 : route == PSR_ROUTE_FROZEN ? "all, frozen"
                                             : "itself");
}

/* Bytes of a tensor's name before its last part: "layer1.0.conv1" of "layer1.0.conv1.weight". */
static size_t layer_letters(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

static bool of_one_layer(const psr_tensor *a, const psr_tensor *b)
{
    const size_t letters = layer_letters(a->name);
    return letters == layer_letters(b->name) && strncmp(a->name, b->name, letters) == 0;
}

/* The bucket's layers; of one that has further tensors elsewhere, the tensor. */
static void name_layers(const psr_layout *layout, const psr_bucket *bucket, psr_text_end *end)
{
    const size_t last = bucket->first_tensor + bucket->tensor_count - 1;
    for (size_t t = bucket->first_tensor, next; t <= last; t = next) {
        const psr_tensor *tensor = &layout->tensors[t];
        for (next = t + 1; next <= last && of_one_layer(tensor, &layout->tensors[next]);)
            next++;
        const bool cut = (t > 0 && of_one_layer(tensor, tensor - 1)) ||
                         (next < layout->tensor_count && of_one_layer(tensor, tensor + (next - t)));
        psr_text_add(end, "%s%.*s", t > bucket->first_tensor ? " " : "",
                     cut && next == t + 1 ? PSR_TENSOR_NAME_MAX : (int)layer_letters(tensor->name),
                     tensor->name);
    }
}

static void print_row(const shown *s, uint32_t b)
{
    const psr_bucket *bucket = &s->parts.buckets.items[b];
    const psr_plan_bucket *planned = &s->parts.plan.buckets[b];
    char holder[32], slices[32] = "    -", layers[LAYERS_BYTES] = "";
    psr_text_end end = {layers, sizeof layers};
    print_holder(&s->parts.plan, b, holder);
    name_layers(&s->net->params, bucket, &end);
    if (bucket->piece)
        psr_text_add(&end, ", a piece");
    if (planned->slice_count > 0)
        snprintf(slices, sizeof slices, "%5" PRIu32 "-%" PRIu32, planned->first_slice,
                 planned->first_slice + planned->slice_count - 1);
    psr_print(stdout, "%6" PRIu32 " %9.1f  %-11s %-13s ", b,
              (double)bucket->length * sizeof(float) / 1024, slices, holder);
    psr_help_wrap(stdout, layers, LAYERS_COLUMN, LAYERS_COLUMN);
}

/* Which part of each bucket ends at which rank: its sum is complete there first. */
static void print_chunks(const psr_plan *plan)
{
    psr_print(stdout, "\nchunks, in floats: rank r completes the sum of chunk %sr\nbucket",
              plan->reversed ? "n-1-" : "");
    for (uint32_t r = 0; r < plan->ranks && r < CHUNK_RANKS_MAX; r++)
        psr_print(stdout, "   rank %" PRIu32, r);
    psr_print(stdout, plan->ranks > CHUNK_RANKS_MAX ? "  ..\n" : "\n");
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        if (plan->buckets[b].route != PSR_ROUTE_RING)
            continue;
        psr_print(stdout, "%6" PRIu32, b);
        for (uint32_t r = 0; r < plan->ranks && r < CHUNK_RANKS_MAX; r++)
            psr_print(stdout, " %8zu", psr_plan_chunk(plan, b, psr_plan_place(plan, r)).count);
        psr_print(stdout, "\n");
    }
}

static void print_table(const shown *s)
{
    char line[512], mode[PSR_OPTION_TEXT_MAX];
    const psr_plan *plan = &s->parts.plan;
    const psr_layout *layout = &s->net->params;
    if (psr_config_get(&s->config, "mode", mode, sizeof mode) != PSR_OK)
        mode[0] = '\0';
    psr_parts_describe(&s->parts, s->config.bucket_bytes, line, sizeof line);
    psr_print(stdout,
              "%s: %zu parameters in %zu tensors, %.1f MB; --mode %s, %" PRIu32 " workers\n",
              s->config.model, layout->count, layout->tensor_count,
              (double)layout->length * sizeof(float) * 1e-6, mode, plan->ranks);
    psr_print(stdout, "buckets: %s\n", line);
    if (psr_parts_describe_frozen(plan, line, sizeof line))
        psr_print(stdout, "frozen: %s\n", line);
    psr_print(stdout, "\n");
    psr_print(stdout, "bucket       KiB       slices held by       layers\n");
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        print_row(s, b);
    if (psr_plan_has_route(plan, PSR_ROUTE_RING))
        print_chunks(plan);
}

/* ---- the picture in text ---- */

static uint32_t bucket_at(const psr_plan *plan, size_t float_at)
{
    uint32_t b = plan->bucket_count - 1; /* they descend in the arena */
    while (b > 0 && psr_span_end(plan->buckets[b].span) <= float_at)
        b--;
    return b;
}

/* A digit or letter for a number. */
static char letter_of(uint32_t number)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    return letters[number % (sizeof letters - 1)];
}

static void print_picture(const psr_plan *plan)
{
    char homes[PICTURE_COLUMNS + 1] = "", buckets[PICTURE_COLUMNS + 1] = "";
    const size_t length = psr_plan_length(plan);
    for (int i = 0; i < PICTURE_COLUMNS; i++) {
        const uint32_t b = bucket_at(plan, (2 * (size_t)i + 1) * length / (2 * PICTURE_COLUMNS));
        const psr_route route = plan->buckets[b].route;
        buckets[i] = letter_of(b);
        homes[i] = route == PSR_ROUTE_SHARD || route == PSR_ROUTE_HOST
                       ? letter_of(psr_plan_home(plan, b).rank)
                   : route == PSR_ROUTE_RING   ? '~'
                   : route == PSR_ROUTE_FROZEN ? '*'
                                               : '.';
    }
    psr_print(stdout, "\nthe parameters, first layer on the left\nbucket |%s|\nholder |%s|\n",
              buckets, homes);
    psr_print(stdout,
              "a bucket's number (a is 10, b is 11, ..); its holder's rank, or ~ by ring%s\n",
              psr_plan_has_route(plan, PSR_ROUTE_FROZEN) ? ", or * frozen" : "");
}

int psr_show_main(int argc, char **argv)
{
    shown s = {.net = NULL};
    psr_err err = open_shown(&s, argc, argv);
    if (err == PSR_OK) {
        print_table(&s);
        print_picture(&s.parts.plan);
    }
    if (err == PSR_OK && s.file[0] != '\0')
        err = psr_show_picture_write(s.file, s.config.model, &s.net->params, &s.parts.plan);
    if (err == PSR_OK && s.file[0] != '\0')
        psr_print(stdout, "\nwritten    %s\n", s.file);
    if (err != PSR_OK)
        psr_print(stderr, "psring show: %s\n", psr_err_detail());
    psr_parts_done(&s.parts);
    psr_network_free(s.net);
    free(s.hosts.first);
    return psr_err_exit_status(err);
}
