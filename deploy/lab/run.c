#include "deploy/lab/run.h"

#include "base/system/child.h"
#include "base/system/signals.h"
#include "base/text/printable.h"
#include "deploy/lab/keeper.h"
#include "deploy/lab/namespaces.h"
#include "deploy/lab/words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SSH_FAILED 255

/* ---- the first process ---- */

/* The keeper is told to end by SIGTERM alone. A terminal's Ctrl-C goes to the whole group, and so
 * to the command itself, which would take a second signal for impatience. SIGTSTP stops this
 * process as it does the command. */
static void block_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGCHLD);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGUSR1);
    if (!psr_signal_is_ignored(SIGHUP))
        sigaddset(ret_signals, SIGHUP);
    sigprocmask(SIG_BLOCK, ret_signals, NULL);
}

static int wait_for(pid_t keeper, const sigset_t *signals)
{
    int status;
    siginfo_t info;
    while (waitpid(keeper, &status, WNOHANG) != keeper) {
        const int signo = sigwaitinfo(signals, &info);
        if (signo > 0 && signo != SIGCHLD && (signo != SIGINT || info.si_code == SI_USER))
            (void)kill(keeper, SIGTERM);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static psr_err keep(const psr_lab_run *run, const psr_lab_words *words, const psr_lab_tools *tools,
                    int *ret_status)
{
    sigset_t signals;
    int lifeline[2];
    PSR_TRY(psr_lab_leave());
    if (pipe2(lifeline, O_CLOEXEC) != 0)
        return psr_fail(PSR_ERR_IO, "a pipe: %s", strerror(errno));
    block_signals(&signals);
    const pid_t pid = fork();
    if (pid == 0) {
        close(lifeline[1]);
        _exit(psr_lab_keep(run, words, tools, lifeline[0]));
    }
    close(lifeline[0]);
    if (pid > 0)
        *ret_status = wait_for(pid, &signals);
    close(lifeline[1]);
    return pid > 0 ? PSR_OK : psr_fail(PSR_ERR_IO, "a process: %s", strerror(errno));
}

static psr_err check_places(const psr_lab_words *words)
{
    char folder[PATH_MAX];
    const bool within = words->out[0] != '/' && getcwd(folder, sizeof folder) != NULL;
    if (strncmp(words->out, "/run/", 5) == 0 || (within && strncmp(folder, "/run/", 5) == 0))
        return psr_fail(PSR_ERR_USAGE, "a lab has a /run of its own, which goes with it; start it "
                                       "in another directory, and give another --out");
    return PSR_OK;
}

static psr_err run_in_lab(const psr_lab_run *run, psr_lab_words *words, int *ret_status)
{
    char self[PATH_MAX];
    psr_lab_tools tools;
    PSR_TRY(psr_program_path("psring", self, sizeof self));
    PSR_TRY(psr_lab_words_compose(run->lab, self, (const char *const *)run->command, run->dilate,
                                  words));
    PSR_TRY(check_places(words));
    PSR_TRY(psr_lab_tools_find(&tools));
    return keep(run, words, &tools, ret_status);
}

int psr_lab_run_command(const psr_lab_run *run)
{
    psr_lab_words *words = calloc(1, sizeof *words);
    int status = 2;
    psr_err err = words != NULL ? run_in_lab(run, words, &status)
                                : psr_fail(PSR_ERR_NOMEM, "no memory for a lab");
    if (err != PSR_OK) {
        psr_print(stderr, "psring lab: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    }
    if (words != NULL)
        psr_lab_words_done(words);
    free(words);
    return status;
}

/* ---- on a host ---- */

typedef struct place {
    int holder;
    char address[PSR_LAB_ADDRESS_BYTES];
} place;

static psr_err find_place(const char *host, place *ret_place)
{
    char line[128], name[PSR_LAB_NAME_BYTES];
    bool found = false;
    FILE *file = fopen(PSR_LAB_PLACES, "re");
    if (file == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "this is no lab");
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = sscanf(line, "%63s %d %15s", name, &ret_place->holder, ret_place->address) == 3 &&
                strcmp(name, host) == 0;
    fclose(file);
    return found ? PSR_OK : psr_fail(PSR_ERR_NOT_FOUND, "the lab has no host %s", host);
}

static psr_err go(const char *host)
{
    place to, from;
    char own[PSR_LAB_NAME_BYTES] = "", connection[64], folder[PATH_MAX];
    (void)gethostname(own, sizeof own - 1);
    PSR_TRY(find_place(host, &to));
    PSR_TRY(find_place(own, &from));
    if (getcwd(folder, sizeof folder) == NULL)
        folder[0] = '\0';
    PSR_TRY(psr_lab_enter(to.holder, true));
    /* ssh begins in the home directory; a program that psring run starts says where it begins */
    if (chdir(folder) != 0 && chdir("/") != 0)
        return psr_fail(PSR_ERR_IO, "/: %s", strerror(errno));
    snprintf(connection, sizeof connection, "%s 0 %s 0", from.address, to.address);
    return setenv("SSH_CONNECTION", connection, 1) == 0
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for a variable");
}

/* One command of all words, as ssh makes it. */
static char *join(int count, char **words)
{
    size_t bytes = 1;
    for (int i = 0; i < count; i++)
        bytes += strlen(words[i]) + 1;
    char *command = malloc(bytes), *end = command;
    for (int i = 0; command != NULL && i < count; i++)
        end += sprintf(end, "%s%s", i > 0 ? " " : "", words[i]);
    return command;
}

int psr_lab_host_main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++)
        if (strcmp(argv[i], "-o") == 0)
            i++;
    if (i + 1 >= argc) {
        psr_print(stderr, "psring lab-host: give a host and a command\n");
        return SSH_FAILED;
    }
    if (go(argv[i]) != PSR_OK) {
        psr_print(stderr, "psring lab-host: %s\n", psr_err_detail());
        return SSH_FAILED;
    }
    char shell[] = "/bin/sh", option[] = "-c";
    char *words[] = {shell, option, join(argc - i - 1, argv + i + 1), NULL};
    if (words[2] != NULL)
        execv(shell, words);
    psr_print(stderr, "psring lab-host: %s: %s\n", shell, strerror(errno));
    return SSH_FAILED;
}
