#include "data/command/bar.h"

#include "base/clock.h"
#include "base/text/printable.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_S 0.1
#define WIDTH_UNKNOWN 80
#define BAR_MOST 30
#define BAR_LEAST 5

void psr_data_bar_begin(psr_data_bar *bar, const char *what, bool bytes)
{
    *bar = (psr_data_bar){
        .bytes = bytes, .terminal = isatty(STDERR_FILENO) == 1, .began_s = psr_clock_s()};
    snprintf(bar->what, sizeof bar->what, "%s", what);
}

static unsigned terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : WIDTH_UNKNOWN;
}

static void print_amounts(const psr_data_bar *bar, uint64_t done, uint64_t total, double elapsed_s,
                          char *text, size_t size)
{
    const double mib = 1 << 20, now = done > bar->before ? (double)(done - bar->before) : 0,
                 rate = elapsed_s > 0 ? now / elapsed_s : 0;
    char left[32] = "";
    if (total > done && rate > 0) {
        unsigned long s = (unsigned long)((double)(total - done) / rate + 0.5);
        snprintf(left, sizeof left, "  %lu:%02lu left", s / 60, s % 60);
    }
    if (bar->bytes && total > 0)
        snprintf(text, size, "%.1f/%.1f MiB  %.1f MiB/s%s", (double)done / mib, (double)total / mib,
                 rate / mib, left);
    else if (bar->bytes)
        snprintf(text, size, "%.1f MiB  %.1f MiB/s", (double)done / mib, rate / mib);
    else
        snprintf(text, size, "%llu/%llu  %.0f images/s%s", (unsigned long long)done,
                 (unsigned long long)total, rate, left);
}

/* "name [####----] amounts", in one column less than the terminal has. */
static void draw(psr_data_bar *bar, uint64_t done, uint64_t total)
{
    char amounts[128], cells[BAR_MOST + 4] = "";
    print_amounts(bar, done, total, psr_clock_s() - bar->began_s, amounts, sizeof amounts);
    unsigned width = terminal_width(), other = (unsigned)(strlen(bar->what) + strlen(amounts) + 5);
    unsigned room = width > other + 1 ? width - other - 1 : 0;
    room = room > BAR_MOST ? BAR_MOST : room;
    if (room >= BAR_LEAST && total > 0) {
        unsigned full = (unsigned)((double)room * (double)done / (double)total);
        cells[0] = '[';
        memset(cells + 1, '#', full);
        memset(cells + 1 + full, '-', room - full);
        strcpy(cells + 1 + room, "] ");
    }
    char line[256];
    snprintf(line, sizeof line, "%s %s%s", bar->what, cells, amounts);
    if (strlen(line) >= width)
        line[width > 0 ? width - 1 : 0] = '\0';
    psr_printable_line(line, strlen(line));
    /* a carriage return and "erase to the end of the line" are ours, so they pass no filter */
    (void)!write(STDERR_FILENO, "\r\033[K", 4);
    psr_print(stderr, "%s", line);
    bar->drawn = true;
}

void psr_data_bar_at(psr_data_bar *bar, uint64_t done, uint64_t total)
{
    double now_s = psr_clock_s();
    if (!bar->terminal || (bar->drawn && now_s - bar->drawn_s < REDRAW_S))
        return;
    bar->drawn_s = now_s;
    draw(bar, done, total > done ? total : (total > 0 ? done : 0));
}

void psr_data_bar_end(psr_data_bar *bar)
{
    if (bar->drawn)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
    bar->drawn = false;
}
