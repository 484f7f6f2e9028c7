/* `psring plot RUN... -o FILE`: loss against steps and against seconds, rates and staleness of
 * runs, and how often each staleness was, drawn by gnuplot. */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/system/file.h"
#include "base/text/printable.h"
#include "deploy/report/runs.h"
#include "deploy/report/run_steps.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A curve has at most so many points: more than a screen shows. */
enum { POINTS_MAX = 2000, STALENESS_BINS = 24 };

typedef struct plot {
    psr_runs runs;
    psr_run_steps steps[PSR_RUNS_MAX];
    const char *file;
    char beside[PATH_MAX]; /* is renamed to file when it is whole */
    bool png;
} plot;

/* ---- the command line ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), size = strlen(end);
    return length > size && strcmp(text + length - size, end) == 0;
}

static void take_file(plot *p, const char *arg, const struct argp_state *state)
{
    p->file = arg;
    p->png = ends_with(arg, ".png");
    if (!p->png && !ends_with(arg, ".svg"))
        psr_options_refuse(state, "--output: give a name that ends with .svg or .png");
    if ((size_t)snprintf(p->beside, sizeof p->beside, "%s.new", arg) >= sizeof p->beside)
        psr_options_refuse(state, "--output: the name is too long");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    plot *p = state->input;
    switch (key) {
    case 'o':
        take_file(p, arg, state);
        return 0;
    case ARGP_KEY_ARG:
        if (p->runs.count == PSR_RUNS_MAX)
            psr_options_refuse(state, "more than 64 runs; give fewer");
        p->runs.directories[p->runs.count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (p->runs.count == 0)
            psr_options_refuse(state, "no run is named; give one or more run directories");
        if (p->file == NULL)
            psr_options_refuse(state, "give --output FILE.svg or FILE.png");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "the picture: FILE.svg or FILE.png", 0}, {0}};

static const char doc[] =
    "Draws runs into one picture: the loss against steps and against seconds, images per second of "
    "all workers, and staleness, and where there is any, how often each was.\v"
    "The loss of a step is the mean over its ranks; against seconds, of as many lines as there are "
    "ranks, in the order of time. Seconds are those of the training clock. gnuplot draws (Debian's "
    "package gnuplot-nox).\n"
    "\n"
    "Example:\n"
    "  psring plot psring-runs/A psring-runs/B -o loss.svg\n"
    "\n"
    "Exit status: 0 done; 1 gnuplot is not there, or failed; 2 bad input.\n";

/* ---- the data ---- */

/* A step over all its ranks. */
typedef struct point {
    uint64_t step;
    double loss, seconds, rate, staleness; /* NaN: unknown */
} point;

static int by_step(const void *one, const void *other)
{
    const psr_run_step *a = one, *b = other;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void add_value(double value, double *sum, uint32_t *count)
{
    if (isfinite(value)) {
        *sum += value;
        ++*count;
    }
}

/* The lines of one step, from items[0] on. */
static point point_of(const psr_run_step *items, size_t count)
{
    point p = {.step = items->step, .seconds = NAN, .rate = 0, .staleness = NAN};
    double loss = 0;
    uint32_t losses = 0, rates = 0;
    for (size_t i = 0; i < count; i++) {
        add_value(items[i].loss, &loss, &losses);
        add_value(items[i].images_per_s, &p.rate, &rates);
        p.seconds = fmax(p.seconds, items[i].train_s);
        p.staleness = fmax(p.staleness, items[i].staleness);
    }
    p.loss = losses > 0 ? loss / losses : NAN;
    p.rate = rates > 0 ? p.rate : NAN;
    return p;
}

static void put_number(FILE *to, double value)
{
    if (isfinite(value))
        fprintf(to, " %.9g", value);
    else
        fprintf(to, " NaN");
}

/* A block of gnuplot's, $runI: of a long run every so many steps. */
static void put_run(FILE *to, size_t i, psr_run_steps *steps)
{
    qsort(steps->items, steps->count, sizeof *steps->items, by_step);
    const uint64_t span = steps->items[steps->count - 1].step - steps->items[0].step + 1;
    const uint64_t every = (span + POINTS_MAX - 1) / POINTS_MAX;
    fprintf(to, "$run%zu << EOD\n", i);
    for (size_t at = 0, next; at < steps->count; at = next) {
        for (next = at + 1;
             next < steps->count && steps->items[next].step == steps->items[at].step;)
            next++;
        const point p = point_of(&steps->items[at], next - at);
        if ((p.step - steps->items[0].step) % every != 0 && next < steps->count)
            continue;
        fprintf(to, "%" PRIu64, p.step);
        put_number(to, p.seconds);
        put_number(to, p.loss);
        put_number(to, p.rate);
        put_number(to, p.staleness);
        fprintf(to, "\n");
    }
    fprintf(to, "EOD\n");
}

static int by_time(const void *one, const void *other)
{
    const psr_run_step *a = one, *b = other;
    return (a->train_s > b->train_s) - (a->train_s < b->train_s);
}

/* $timeI: the mean loss of as many lines as there are ranks, in the order of time, so that what a
 * fast worker does is not put at the time of a slow one. */
static void put_by_time(FILE *to, size_t i, psr_run_steps *steps)
{
    qsort(steps->items, steps->count, sizeof *steps->items, by_time);
    const size_t groups = steps->count / steps->ranks, every = groups / POINTS_MAX + 1;
    fprintf(to, "$time%zu << EOD\n", i);
    if (groups == 0)
        fprintf(to, "0 NaN\n");
    for (size_t g = 0; g < groups; g += every) {
        const psr_run_step *first = &steps->items[g * steps->ranks];
        put_number(to, first[steps->ranks - 1].train_s);
        put_number(to, point_of(first, steps->ranks).loss);
        fprintf(to, "\n");
    }
    fprintf(to, "EOD\n");
}

/* 0, 1, 2 to 3, 4 to 7, and so on. */
static size_t bin_of(double staleness)
{
    size_t bin = 0;
    for (double least = 1; bin < STALENESS_BINS - 1 && staleness >= least; least *= 2)
        bin++;
    return bin;
}

/* $oftenI: of all steps of all ranks, the share that had a staleness of each bin. */
static void put_often(FILE *to, size_t i, const psr_run_steps *steps)
{
    size_t counts[STALENESS_BINS] = {0}, all = 0;
    for (size_t at = 0; at < steps->count; at++)
        if (steps->items[at].staleness >= 0) {
            counts[bin_of(steps->items[at].staleness)]++;
            all++;
        }
    fprintf(to, "$often%zu << EOD\n", i);
    if (all == 0)
        fprintf(to, "0 NaN\n");
    for (size_t bin = 0; bin < STALENESS_BINS && all > 0; bin++)
        if (counts[bin] > 0)
            fprintf(to, "%zu %.9g\n", bin, (double)counts[bin] / (double)all);
    fprintf(to, "EOD\n");
}

/* ---- gnuplot's commands ---- */

/* Between single quotes gnuplot knows one escape. */
static void put_quoted(FILE *to, const char *text)
{
    char name[PSR_RUNS_NAME_BYTES];
    snprintf(name, sizeof name, "%s", text);
    psr_printable_line(name, strlen(name));
    fputc('\'', to);
    for (const char *c = name; *c != '\0'; c++)
        fprintf(to, *c == '\'' ? "''" : "%c", *c);
    fputc('\'', to);
}

typedef struct panel {
    const char *x, *y, *block, *columns, *style;
} panel;

static void put_panel(FILE *to, const plot *p, const panel *shown)
{
    fprintf(to, "set xlabel '%s'\nset ylabel '%s'\nplot ", shown->x, shown->y);
    for (size_t i = 0; i < p->runs.count; i++) {
        char name[PSR_RUNS_NAME_BYTES];
        psr_runs_name(&p->runs, i, name, sizeof name);
        fprintf(to, "%s$%s%zu using %s with %s linewidth 1.5 title ", i > 0 ? ", " : "",
                shown->block, i, shown->columns, shown->style);
        put_quoted(to, name);
    }
    fprintf(to, "\n");
}

/* Names the bins that any run has. */
static void put_bins(FILE *to, const plot *p)
{
    size_t most = 1;
    for (size_t i = 0; i < p->runs.count; i++)
        for (size_t k = 0; k < p->steps[i].count; k++) {
            const size_t bin = bin_of(p->steps[i].items[k].staleness);
            most = bin > most ? bin : most;
        }
    fprintf(to, "set xtics rotate by -30 ('0' 0, '1' 1");
    for (size_t bin = 2; bin <= most; bin++)
        fprintf(to, ", '%d-%d' %zu", 1 << (bin - 1), (1 << bin) - 1, bin);
    fprintf(to, ")\nset xrange [-0.5:%zu.5]\n", most);
}

static bool any_staleness(const plot *p)
{
    for (size_t i = 0; i < p->runs.count; i++)
        for (size_t k = 0; k < p->steps[i].count; k++)
            if (p->steps[i].items[k].staleness > 0)
                return true;
    return false;
}

static void put_commands(FILE *to, plot *p)
{
    static const panel panels[] = {
        {"step", "loss", "run", "1:3", "lines"},
        {"seconds", "loss", "time", "1:2", "lines"},
        {"step", "images/s, all workers", "run", "1:4", "lines"},
        {"step", "staleness, updates, the oldest of any rank", "run", "1:5", "lines"},
        {"staleness, updates", "share of the steps of all ranks", "often", "1:2", "linespoints"}};
    const bool stale = any_staleness(p);
    const int height = stale ? 1300 : 900;
    fprintf(to,
            p->png ? "set terminal pngcairo size 1200,%d font 'sans,11' noenhanced\n"
                   : "set terminal svg size 1200,%d font 'sans,13' background 'white' noenhanced\n",
            height);
    fprintf(to, "set output ");
    put_quoted(to, p->beside);
    fprintf(to, "\nset datafile missing 'NaN'\nset grid\nset key top right\n");
    for (size_t i = 0; i < p->runs.count; i++)
        put_run(to, i, &p->steps[i]);
    for (size_t i = 0; i < p->runs.count; i++)
        put_often(to, i, &p->steps[i]);
    for (size_t i = 0; i < p->runs.count; i++)
        put_by_time(to, i, &p->steps[i]);
    fprintf(to, "set multiplot layout %d,2\n", stale ? 3 : 2);
    put_panel(to, p, &panels[0]);
    fprintf(to, "unset key\n"); /* the first panel's colours are those of all */
    put_panel(to, p, &panels[1]);
    fprintf(to, "set yrange [0:*]\n");
    put_panel(to, p, &panels[2]);
    if (!stale)
        fprintf(to, "set yrange [0:1]\n");
    put_panel(to, p, &panels[3]);
    if (stale) {
        put_bins(to, p);
        put_panel(to, p, &panels[4]);
    }
    fprintf(to, "unset multiplot\nset output\n");
}

/* ---- gnuplot ---- */

static psr_err start_gnuplot(int input, pid_t *ret_pid)
{
    static char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int number = posix_spawnp(ret_pid, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (number == ENOENT)
        return psr_fail(
            PSR_ERR_NOT_FOUND,
            "gnuplot is not installed, which draws; on Debian: apt install gnuplot-nox");
    return number == 0 ? PSR_OK : psr_fail(PSR_ERR_IO, "gnuplot: %s", strerror(number));
}

/* Consumes input's other end. */
static psr_err give(int to, const char *text, size_t size)
{
    (void)psr_file_write_all(to, text, size); /* its exit status says what was wrong */
    close(to);
    return PSR_OK;
}

static psr_err run_gnuplot(const char *text, size_t size)
{
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return psr_fail(PSR_ERR_IO, "no pipe to gnuplot: %s", strerror(errno));
    psr_err err = start_gnuplot(ends[0], &pid);
    close(ends[0]);
    if (err != PSR_OK) {
        close(ends[1]);
        return err;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    err = give(ends[1], text, size);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (err == PSR_OK && status != 0)
        err = psr_fail(PSR_ERR_IO, "gnuplot failed, as it says above");
    return err;
}

static psr_err draw(plot *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to != NULL)
        put_commands(to, p);
    if (to == NULL || fclose(to) != 0) {
        free(text);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a picture");
    }
    psr_err err = run_gnuplot(text, size);
    free(text);
    if (err == PSR_OK && rename(p->beside, p->file) != 0)
        err = psr_fail(PSR_ERR_IO, "%s cannot be written: %s", p->file, strerror(errno));
    if (err != PSR_OK)
        (void)unlink(p->beside);
    return err;
}

/* ---- the command ---- */

/* A file that cannot be made is bad input, and gnuplot would only say so at length. */
static psr_err check_file(const plot *p)
{
    FILE *file = fopen(p->beside, "we");
    if (file == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s cannot be made: %s", p->file, strerror(errno));
    (void)fclose(file);
    (void)unlink(p->beside);
    return PSR_OK;
}

static psr_err run_plot(plot *p)
{
    for (size_t i = 0; i < p->runs.count; i++) {
        psr_err err = psr_run_steps_read(p->runs.directories[i], &p->steps[i]);
        if (err != PSR_OK)
            return err == PSR_ERR_NOMEM ? err : psr_fail(PSR_ERR_USAGE, "%s", psr_err_detail());
    }
    PSR_TRY(check_file(p));
    PSR_TRY(draw(p));
    psr_print(stdout, "written    %s\n", p->file);
    return PSR_OK;
}

int psr_command_plot(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "RUN...", doc, NULL, NULL, NULL};
    plot *p = calloc(1, sizeof *p);
    psr_err err = p != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a picture");
    if (err == PSR_OK) {
        psr_options_parse(&argp, argc, argv, 0, NULL, p);
        err = run_plot(p);
    }
    if (err != PSR_OK)
        psr_print(stderr, "psring plot: %s\n", psr_err_detail());
    for (size_t i = 0; p != NULL && i < p->runs.count; i++)
        psr_run_steps_done(&p->steps[i]);
    free(p);
    return err == PSR_ERR_NOT_FOUND ? 1 : psr_err_exit_status(err);
}
