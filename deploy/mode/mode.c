/* `psring mode RUN [ps|ring]`: shows the mode of a run that is under way, or changes it. It asks
 * the run's scheduler through a socket in the run directory (ps/scheduler/mode/mode_socket.h). */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "mode.sock" /* PSR_RUN_SOCKET_NAME */
#define ANSWER_MAX 1024

typedef struct mode_options {
    const char *run, *mode; /* mode NULL: tell */
    bool json;
} mode_options;

enum { KEY_JSON = 256 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "tell it as one JSON object, also of a change that has happened",
     0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    mode_options *o = state->input;
    switch (key) {
    case KEY_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->run == NULL)
            o->run = arg;
        else if (o->mode == NULL)
            o->mode = arg;
        else
            psr_options_refuse(state, "give a run directory and a mode, and nothing else");
        return 0;
    case ARGP_KEY_END:
        if (o->run == NULL)
            psr_options_refuse(state, "no run is named; give its directory");
        if (o->mode != NULL && strcmp(o->mode, "ps") != 0 && strcmp(o->mode, "ring") != 0)
            psr_options_refuse(state, "a run can change to ps or ring only; give one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Shows the mode of a run that is under way, or changes it to parameter servers (ps) or ring "
    "all-reduce (ring) between two steps. The weights are the same bits as without a change.\v"
    "A change replaces what --mode had planned for later steps. It waits until the change has "
    "happened, and tells from which step on and how long the run paused for it. The run.json then "
    "has what was run as its mode, so that --config repeats it.\n"
    "\n"
    "Not for a run with --compress or --compress-weights, --sync ssp or async, --mode local or "
    "mpi, or of one worker; and not to ps where a run has no shards (psring train --mode ring "
    "--shards N starts some that wait).\n"
    "\n"
    "With --json: mode, and first_step, from which step on it is in force; steps of total that all "
    "workers have done; next_mode and next_step, what is planned (null: nothing is); changing, "
    "whether a change is under way; after a change pause_s, the longest that a worker took no step "
    "for it, in seconds. Steps count from 1.\n"
    "\n"
    "Examples:\n"
    "  psring mode psring-runs/A\n"
    "  psring mode psring-runs/A --json\n"
    "  psring mode psring-runs/A ring\n"
    "\n"
    "Exit status: 0 told, or changed; 1 the run did not change; 2 bad input, or no run that is "
    "under way.\n";

/* RUN may be longer than the address of a socket (108 bytes), so the socket is reached through the
 * directory's descriptor. */
static psr_err connect_to(const char *run, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int directory = open(run, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return psr_fail(PSR_ERR_USAGE, "%s: %s; give the directory of a run", run, strerror(errno));
    const bool is_run = faccessat(directory, "run.json", F_OK, 0) == 0;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME, directory);
    const int failure =
        fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    close(directory);
    if (failure == 0) {
        *ret_fd = fd;
        return PSR_OK;
    }
    if (fd >= 0)
        close(fd);
    if (!is_run)
        return psr_fail(PSR_ERR_USAGE, "%s is no run directory: it has no run.json", run);
    if (failure == ENOENT)
        return psr_fail(PSR_ERR_USAGE, "%s: that run is over, or has not begun", run);
    if (failure == ECONNREFUSED)
        return psr_fail(PSR_ERR_USAGE, "%s: that run is over: its scheduler was killed", run);
    return psr_fail(PSR_ERR_IO, "%s/" SOCKET_NAME ": %s", run, strerror(failure));
}

static psr_err read_answer(int fd, char answer[static ANSWER_MAX])
{
    size_t used = 0;
    while (used < ANSWER_MAX - 1) {
        const ssize_t got = read(fd, answer + used, ANSWER_MAX - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    answer[used] = '\0';
    if (used < 4 || answer[used - 1] != '\n')
        return psr_fail(PSR_ERR_PEER, "the run ended before it answered");
    answer[used - 1] = '\0';
    psr_printable_line(answer, used - 1);
    return PSR_OK;
}

static psr_err ask(const mode_options *o)
{
    char line[64], answer[ANSWER_MAX];
    int fd = -1;
    PSR_TRY(connect_to(o->run, &fd));
    const int size = snprintf(line, sizeof line, "%s%s\n", o->json ? "json " : "",
                              o->mode != NULL ? o->mode : "tell");
    psr_err err = send(fd, line, (size_t)size, MSG_NOSIGNAL) == size
                      ? read_answer(fd, answer)
                      : psr_fail(PSR_ERR_PEER, "the run ended before it answered");
    close(fd);
    PSR_TRY(err);
    if (strncmp(answer, "ok ", 3) != 0)
        return psr_fail(PSR_ERR_CANCELLED, "%s", answer + 3);
    psr_print(stdout, "%s\n", answer + 3);
    return PSR_OK;
}

int psr_command_mode(int argc, char **argv)
{
    mode_options o = {0};
    const struct argp argp = {options, parse, "RUN [ps|ring]", doc, NULL, NULL, NULL};
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    psr_err err = ask(&o);
    if (err != PSR_OK)
        psr_print(stderr, "psring mode: %s\n", psr_err_detail());
    return err == PSR_ERR_CANCELLED || err == PSR_ERR_PEER ? 1 : psr_err_exit_status(err);
}
