#include "base/show/show.h"

#include "base/clock.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/show/summary.h"
#include "base/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MANY_HOSTS 40
#define REDRAW_S 0.1
#define LINE_AFTER_S 30.0 /* a slow run prints a line this often, however few its steps are */
#define WIDTH_UNKNOWN 80
#define CONFIGURATION_BYTES 8192

void psr_show_init(psr_show *show, psr_screen *screen, psr_show_kind kind, double line_every)
{
    *show = (psr_show){.screen = screen,
                       .kind = kind,
                       .line_every = line_every,
                       .bar = {.loss = NAN, .left_s = -1}};
}

static void get(const psr_config *config, const char *name, char *text, size_t size)
{
    if (psr_config_get(config, name, text, size) != PSR_OK)
        snprintf(text, size, "?");
}

/* What --no-encrypt means, for every summary of a run that had it. */
static const char *describe_bare(const psr_config *config)
{
    return config->bare == PSR_BARE_TRUSTED_NETWORK
               ? "NOT encrypted (--no-encrypt=trusted-network): who is on that network can read "
                 "and change the run"
               : "not encrypted (--no-encrypt), within this machine";
}

/* How processes reach each other. */
static void add_network(psr_text_end *end, const psr_config *config, const psr_show_place *place)
{
    const char *tcp = config->bare == PSR_BARE_NOWHERE ? "encrypted (CURVE, values sealed)"
                                                       : describe_bare(config);
    if (place->sockets[0])
        psr_text_add(end, "  network    %sipc sockets in %s\n",
                     psr_config_shares_memory(config) ? "shared memory, and " : "", place->sockets);
    else if (place->sharing == 0)
        psr_text_add(end, "  network    tcp, %s\n", tcp);
    else if (place->host_count == 1)
        psr_text_add(end, "  network    shared memory, and tcp, %s\n", tcp);
    else
        psr_text_add(end, "  network    memory shared within %zu host%s, tcp between them, %s\n",
                     place->sharing, place->sharing == 1 ? "" : "s", tcp);
}

/* "ps to step 20, ring from 21, ps from 41" */
static void add_stretches(psr_text_end *end, const psr_config *config)
{
    psr_text_add(end, "%s to step %llu", psr_mode_name(config->mode),
                 (unsigned long long)config->stretches[1].first_step);
    for (uint32_t i = 1; i < config->stretch_count; i++)
        psr_text_add(end, ", %s from %llu", psr_mode_name(config->stretches[i].mode),
                     (unsigned long long)config->stretches[i].first_step + 1);
}

static void add_mode(psr_text_end *end, const psr_config *config)
{
    char sync[64];
    get(config, "sync", sync, sizeof sync);
    psr_text_add(end, "  mode       ");
    if (config->stretch_count > 1)
        add_stretches(end, config);
    else
        psr_text_add(end, "%s", psr_mode_name(config->mode));
    psr_text_add(end, " (%s), %u worker%s", sync, config->workers, config->workers == 1 ? "" : "s");
    const uint32_t shards = psr_config_shards(config);
    if (shards > 0)
        psr_text_add(end, ", %u shard%s", shards, shards == 1 ? "" : "s");
    if (config->mode == PSR_MODE_LOCAL)
        psr_text_add(end, " played by one process");
    psr_text_add(end, ", %u thread%s each\n", config->threads, config->threads == 1 ? "" : "s");
}

static void add_training(psr_text_end *end, const psr_config *config)
{
    char precision[64], optimizer[64], schedule[128], computes[64], batch[32], length[64] = "";
    get(config, "precision", precision, sizeof precision);
    get(config, "optimizer", optimizer, sizeof optimizer);
    get(config, "lr-schedule", schedule, sizeof schedule);
    get(config, psr_config_uses_gpu(config, NULL) ? "device" : "backend", computes,
        sizeof computes);
    snprintf(batch, sizeof batch, "%u per worker", config->batch_size);
    if (config->steps)
        snprintf(length, sizeof length, "%llu steps", (unsigned long long)config->steps);
    else if (config->epochs > 0)
        snprintf(length, sizeof length, "%u epoch%s", config->epochs,
                 config->epochs == 1 ? "" : "s");
    if (config->seconds > 0)
        snprintf(length + strlen(length), sizeof length - strlen(length), "%s%g s of training",
                 length[0] != '\0' ? ", or " : "", config->seconds);
    psr_text_add(end, "  model      %s, %s on %s\n", config->model, precision, computes);
    psr_text_add(end, "  data       %s, batch %s, %s\n", config->data, batch, length);
    psr_text_add(end, "  optimizer  %s, lr %g (%s), seed %llu\n", optimizer, config->lr, schedule,
                 (unsigned long long)config->seed);
}

static void add_compression(psr_text_end *end, const psr_config *config)
{
    if (strcmp(config->compress, "none") != 0)
        psr_text_add(end, "  compress   %s%s\n", config->compress,
                     config->mode != PSR_MODE_LOCAL                ? ""
                     : config->compress_as == PSR_COMPRESS_AS_RING ? ", as a ring does"
                                                                   : ", as parameter servers do");
    if (strcmp(config->compress_weights, "none") != 0)
        psr_text_add(end, "  weights    come back as %s\n", config->compress_weights);
}

/* At once, since other processes may write on the same terminal or pipe. */
void psr_show_configuration(psr_show *show, const psr_config *config, const psr_show_place *place)
{
    char text[CONFIGURATION_BYTES], line[512];
    psr_text_end end = {text, sizeof text};
    psr_text_add(&end, "psring %s\n", PSR_VERSION);
    add_mode(&end, config);
    add_training(&end, config);
    add_compression(&end, config);
    psr_text_add(&end, "  hosts      ");
    for (size_t i = 0; i < place->host_count && i < PSR_SHOW_HOSTS; i++)
        psr_text_add(&end, "%s%s", i ? ", " : "", place->hosts[i]);
    psr_text_add(&end, "%s\n", place->host_count > PSR_SHOW_HOSTS ? ", .." : "");
    add_network(&end, config, place);
    for (size_t at = 0; psr_config_aloud(config, &at, line, sizeof line);)
        psr_text_add(&end, "  note       %s\n", line);
    psr_screen_out(show->screen, "%s", text);
}

void psr_show_run(psr_show *show, const char *out, const char *resumed)
{
    if (resumed[0] != '\0')
        psr_screen_out(show->screen, "  resumes    %s\n", resumed);
    psr_screen_out(show->screen, "  run        %s\n", out);
}

/* ---- the bar ---- */

/* Of the terminal behind stdout, as it is now. */
static unsigned terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : WIDTH_UNKNOWN;
}

/* A process in the background (bg) must not draw over the output of others. true if stdout is not a
 * terminal. */
static bool in_foreground(void)
{
    pid_t group = tcgetpgrp(STDOUT_FILENO);
    return group < 0 || group == getpgrp();
}

/* The cursor returns to the beginning of the line. If the terminal becomes narrower and breaks its
 * lines anew, the cursor stays there, and everything after it can be erased. */
static void draw_bar(psr_show *show)
{
    char text[PSR_BAR_TEXT_MAX];
    if (!in_foreground())
        return;
    if (show->connecting[0] != '\0')
        snprintf(text, sizeof text, "%.*s", (int)terminal_width() - 1, show->connecting);
    else
        psr_bar_print(&show->bar, terminal_width(), text);
    psr_screen_draw(show->screen, "\r%s\033[J\r", text);
    show->bar_on_screen = true;
}

static void clear_bar(psr_show *show)
{
    if (show->bar_on_screen)
        psr_screen_draw(show->screen, "\r\033[J");
    show->bar_on_screen = false;
}

/* The values to show have changed. in_time: so much that it is shown at once. */
static void show_bar(psr_show *show, bool in_time, double now_s)
{
    if (!in_time && (now_s - show->shown_s < REDRAW_S || psr_screen_is_behind(show->screen)))
        return;
    show->shown_s = now_s;
    draw_bar(show);
}

static void connecting_line(char *text, size_t size, size_t there, size_t troubles, size_t hosts)
{
    int used = snprintf(text, size, "connecting %zu of %zu hosts answered", there, hosts);
    if (troubles > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %zu cannot be used", troubles);
}

static void draw_connecting(psr_show *show, const char *line, bool last)
{
    snprintf(show->connecting, sizeof show->connecting, "%s", line);
    show_bar(show, last, psr_clock_s());
    if (!last)
        return;
    clear_bar(show);
    show->connecting[0] = '\0';
}

void psr_show_connecting(psr_show *show, size_t there, size_t troubles, size_t hosts,
                         bool to_stderr)
{
    char line[sizeof show->connecting];
    size_t settled = there + troubles, tenths = settled * 10 / hosts;
    connecting_line(line, sizeof line, there, troubles, hosts);
    if (show->kind == PSR_SHOW_BAR)
        draw_connecting(show, line, settled == hosts);
    if (show->kind == PSR_SHOW_BAR || hosts < MANY_HOSTS || tenths == show->connecting_tenths)
        return;
    show->connecting_tenths = tenths;
    if (to_stderr)
        psr_show_others_error(show, "%s", line);
    else if (show->kind == PSR_SHOW_LINES)
        psr_screen_out(show->screen, "%s\n", line);
}

static void show_line(psr_show *show, double now_s)
{
    char text[PSR_BAR_TEXT_MAX];
    psr_bar_print_line(&show->bar, text);
    psr_screen_out(show->screen, "%s\n", text);
    show->shown_s = now_s;
    show->line_step = show->bar.step;
}

/* ---- what is told ---- */

static void begin(psr_show *show, double step, double now_s)
{
    if (show->begun)
        return;
    show->begun = true;
    show->first_step = show->line_step = step;
    show->began_s = show->shown_s = now_s;
}

void psr_show_step(psr_show *show, uint64_t completed, uint64_t of, double loss,
                   double images_per_s)
{
    double now_s = psr_clock_s(), step = (double)completed, total = (double)of;
    bool first = !show->begun, last = completed >= of;
    begin(show, step, now_s);
    double done = step - show->first_step;
    show->bar =
        (psr_bar){.step = step,
                  .total = total,
                  .images_per_s = isfinite(images_per_s) ? images_per_s : 0,
                  .loss = loss,
                  .left_s = done > 0 ? (now_s - show->began_s) / done * (total - step) : -1};
    if (show->kind == PSR_SHOW_BAR)
        show_bar(show, first || last, now_s);
    bool round = fmod(step, show->line_every) == 0;
    if (show->kind == PSR_SHOW_LINES && (first || step > show->line_step) &&
        (round || last || now_s - show->shown_s >= LINE_AFTER_S))
        show_line(show, now_s);
}

void psr_show_evaluating(psr_show *show, uint64_t step, uint64_t total, uint64_t counted,
                         uint64_t samples)
{
    double now_s = psr_clock_s();
    bool first = show->bar.samples <= 0;
    begin(show, (double)step, now_s);
    show->bar.step = (double)step;
    show->bar.total = (double)total;
    show->bar.counted = (double)counted;
    show->bar.samples = (double)samples;
    if (show->kind == PSR_SHOW_BAR)
        show_bar(show, first, now_s);
    if (show->kind == PSR_SHOW_LINES && now_s - show->shown_s >= LINE_AFTER_S)
        show_line(show, now_s);
}

void psr_show_evaluated(psr_show *show)
{
    show->bar.samples = show->bar.counted = 0;
}

void psr_show_resized(psr_show *show)
{
    if (show->bar_on_screen)
        draw_bar(show);
}

typedef struct range {
    double least, most, sum;
} range;

/* A field of all shards, in MB. */
static range range_of(const cJSON *shards, const char *field)
{
    range r = {.least = INFINITY};
    const cJSON *shard;
    cJSON_ArrayForEach(shard, shards)
    {
        double mb = psr_json_number(shard, field, 0) / 1e6;
        r = (range){fmin(r.least, mb), fmax(r.most, mb), r.sum + mb};
    }
    return r;
}

/* What each shard exchanged. Nothing in a run without shards. */
static void add_traffic(psr_text_end *end, const cJSON *outcome)
{
    const cJSON *shards = cJSON_GetObjectItemCaseSensitive(outcome, "shards");
    int count = cJSON_GetArraySize(shards);
    if (count == 0)
        return;
    range in = range_of(shards, "gradient_bytes"), out = range_of(shards, "weight_bytes");
    if (count == 1)
        psr_text_add(end, "traffic    the shard %.1f MB in, %.1f MB out\n", in.most, out.most);
    else
        psr_text_add(end,
                     "traffic    each shard %.1f-%.1f MB in, %.1f-%.1f MB out, at most %.2f times "
                     "the mean\n",
                     in.least, in.most, out.least, out.most,
                     in.sum > 0 ? in.most * count / in.sum : 1);
}

void psr_show_outcome(psr_show *show, const psr_config *config, const char *out,
                      const cJSON *outcome)
{
    char figures[PSR_SUMMARY_BYTES], text[PSR_SUMMARY_BYTES + PSR_PATH_MAX + 512];
    psr_text_end end = {text, sizeof text};
    psr_summary_print(outcome, figures);
    psr_text_add(&end, "%s", figures);
    add_traffic(&end, outcome);
    if (config->eval_tta != PSR_EVAL_TTA_NONE && config->eval)
        psr_text_add(&end, "evaluated  by the mean of %d views of each sample (--eval-tta %s)\n",
                     config->eval_tta == PSR_EVAL_TTA_FLIP ? 2 : 6,
                     psr_eval_tta_name(config->eval_tta));
    if (config->backend == PSR_BACKEND_PLAYED)
        psr_text_add(&end, "played     passes from %s%s; the loss and the weights mean nothing\n",
                     config->profile, config->dilate > 1 ? ", dilated" : "");
    if (config->bare != PSR_BARE_NOWHERE)
        psr_text_add(&end, "bare       %s\n", describe_bare(config));
    psr_text_add(&end, "written    %s\n", out);
    psr_screen_out(show->screen, "%s", text);
}

void psr_show_how_to_go_on(psr_show *show, const char *how)
{
    psr_screen_out(show->screen, "to go on   %s\n", how);
}

void psr_show_again(psr_show *show)
{
    if (show->kind == PSR_SHOW_BAR && show->begun)
        draw_bar(show);
}

void psr_show_line(psr_show *show, const char *line)
{
    char *one = strdup(line);
    bool had_bar = show->bar_on_screen;
    if (one == NULL)
        return;
    clear_bar(show);
    psr_printable_line(one, strlen(one)); /* whoever says it says one line */
    psr_screen_out(show->screen, "%s\n", one);
    free(one);
    if (had_bar)
        draw_bar(show);
}

static void show_error(psr_show *show, const char *format, va_list args) PSR_PRINTF(2, 0);
static void show_error(psr_show *show, const char *format, va_list args)
{
    char *line = NULL;
    int size = vasprintf(&line, format, args);
    psr_show_end(show);
    if (size < 0)
        return;
    psr_printable_line(line, (size_t)size);
    psr_screen_err(show->screen, "%s\n", line);
    free(line);
}

void psr_show_error(psr_show *show, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    show_error(show, format, args);
    va_end(args);
}

void psr_show_others_error(psr_show *show, const char *format, ...)
{
    if (!psr_screen_has_room(show->screen))
        return;
    va_list args;
    va_start(args, format);
    show_error(show, format, args);
    va_end(args);
}

void psr_show_end(psr_show *show)
{
    if (!show->bar_on_screen)
        return;
    draw_bar(show); /* the terminal may have put a typed ^C over it */
    psr_screen_draw(show->screen, "\n");
    show->bar_on_screen = false;
}
