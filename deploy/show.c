#include "deploy/show.h"

#include "base/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_S 0.1
#define PLAIN_EVERY_PERCENT 10.0
#define BAR_WIDTH 30

void psr_show_init(psr_show *show, psr_screen *screen)
{
    *show = (psr_show){.screen = screen, .terminal = isatty(STDOUT_FILENO), .first_step = -1, .plain_percent = 0};
}

static void get(const psr_config *config, const char *name, char *text, size_t size)
{
    if (psr_config_get(config, name, text, size) != PSR_OK)
        snprintf(text, size, "?");
}

void psr_show_configuration(psr_show *show, const psr_config *config, const psr_plan *plan)
{
    psr_screen *screen = show->screen;
    char mode[64], sync[64], precision[64], optimizer[64], schedule[128], backend[64], batch[32], length[64];
    get(config, "mode", mode, sizeof mode);
    get(config, "sync", sync, sizeof sync);
    get(config, "precision", precision, sizeof precision);
    get(config, "optimizer", optimizer, sizeof optimizer);
    get(config, "lr-schedule", schedule, sizeof schedule);
    get(config, "backend", backend, sizeof backend);
    snprintf(batch, sizeof batch, "%u per worker", config->batch_size);
    if (config->steps)
        snprintf(length, sizeof length, "%llu steps", (unsigned long long)config->steps);
    else
        snprintf(length, sizeof length, "%u epoch%s", config->epochs, config->epochs == 1 ? "" : "s");
    psr_screen_out(screen, "psring %s\n", PSR_VERSION);
    psr_screen_out(screen, "  mode       %s (%s), %u worker%s", mode, sync, config->workers, config->workers == 1 ? "" : "s");
    if (config->mode == PSR_MODE_PS)
        psr_screen_out(screen, ", %u shard%s", config->shards, config->shards == 1 ? "" : "s");
    if (config->mode == PSR_MODE_LOCAL)
        psr_screen_out(screen, " played by one process");
    psr_screen_out(screen, ", %u thread%s each\n", config->threads, config->threads == 1 ? "" : "s");
    psr_screen_out(screen, "  model      %s, %s on %s\n", config->model, precision, backend);
    psr_screen_out(screen, "  data       %s, batch %s, %s\n", config->data, batch, length);
    psr_screen_out(screen, "  optimizer  %s, lr %g (%s), seed %llu\n", optimizer, config->lr, schedule, (unsigned long long)config->seed);
    psr_screen_out(screen, "  hosts      ");
    for (size_t i = 0; i < plan->hosts.count && i < 8; i++)
        psr_screen_out(screen, "%s%s", i ? ", " : "", plan->hosts.items[i].name);
    psr_screen_out(screen, "%s\n", plan->hosts.count > 8 ? ", .." : "");
    psr_screen_out(screen, "  run        %s\n", config->out);
}

static void format_time(double seconds, char *text, size_t size)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 359999) {
        snprintf(text, size, "-:--");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%lu:%02lu", s / 60, s % 60);
}

static void clear_bar(psr_show *show)
{
    if (show->bar_on_screen)
        psr_screen_out(show->screen, "\r\033[K");
    show->bar_on_screen = false;
}

void psr_show_progress_event(psr_show *show, const psr_show_progress *p)
{
    double now = psr_clock_s();
    if (show->first_step < 0) {
        show->first_step = p->step;
        show->began_s = now;
    }
    bool last = p->step >= p->total;
    double percent = p->total > 0 ? 100 * p->step / p->total : 0;
    double done = p->step - show->first_step;
    double left = done > 0 ? (now - show->began_s) / done * (p->total - p->step) : -1;
    char time_left[32];
    format_time(left, time_left, sizeof time_left);
    if (show->terminal) {
        if (!last && (now - show->shown_s < REDRAW_S || psr_screen_is_behind(show->screen)))
            return;
        char bar[BAR_WIDTH + 1];
        int filled = (int)(percent * BAR_WIDTH / 100);
        for (int i = 0; i < BAR_WIDTH; i++)
            bar[i] = i < filled ? '#' : '.';
        bar[BAR_WIDTH] = '\0';
        psr_screen_out(show->screen, "\r\033[K[%s] %.0f/%.0f  %.0f images/s  loss %.4f  %s left", bar, p->step, p->total, p->images_per_s, p->loss, time_left);
        show->bar_on_screen = true;
    } else {
        if (!last && percent < show->plain_percent + PLAIN_EVERY_PERCENT)
            return;
        if (last && show->plain_percent >= 100)
            return;
        show->plain_percent = last ? 100 : percent;
        psr_screen_out(show->screen, "step %.0f/%.0f  %.0f images/s  loss %.4f  %s left\n", p->step, p->total, p->images_per_s, p->loss, time_left);
    }
    show->shown_s = now;
}

void psr_show_line(psr_show *show, const char *line)
{
    clear_bar(show);
    psr_screen_out(show->screen, "%s\n", line);
}

void psr_show_error(psr_show *show, const char *format, ...)
{
    char *line = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&line, format, args);
    va_end(args);
    psr_show_end(show);
    if (size >= 0)
        psr_screen_err(show->screen, "%s\n", line);
    if (size >= 0)
        free(line);
}

void psr_show_end(psr_show *show)
{
    if (show->bar_on_screen)
        psr_screen_out(show->screen, "\n");
    show->bar_on_screen = false;
}
