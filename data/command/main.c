/* `psring-data WHAT ...`, which `psring data WHAT ...` becomes. */
#include "base/log.h"
#include "base/text/printable.h"
#include "data/command/command.h"

#include <argp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool stop;

static void end_command(int signo)
{
    (void)signo;
    atomic_store(&stop, true);
}

/* A signal of these ends the command in order: nothing that is half written stays. */
static void take_signals(void)
{
    const int taken[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = end_command, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        (void)sigaction(taken[i], &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file beyond its limit is an error of the write */
}

/* "$name/tail", or "$HOME/in_home/tail". false: there is no such directory. */
static bool find_directory(const char *name, const char *in_home, const char *tail,
                           char path[PATH_MAX])
{
    const char *xdg = getenv(name), *home = getenv("HOME");
    int length = -1;
    if (xdg != NULL && xdg[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/%s", xdg, tail);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/%s/%s", home, in_home, tail);
    return length > 0 && length < PATH_MAX;
}

static void print_version(FILE *to, struct argp_state *state)
{
    (void)state;
    psr_print(to, "psring-data %s\n", PSR_VERSION);
}

static int status_of(psr_err err)
{
    switch (err) {
    case PSR_ERR_IO: /* a full disk */
        return 1;
    case PSR_ERR_VERSION:
        return 2;
    default:
        return psr_err_exit_status(err);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        psr_err (*run)(psr_data_command *command, int argc, char **argv);
    } commands[] = {{"get", psr_data_get},
                    {"check", psr_data_check},
                    {"ls", psr_data_ls},
                    {"pack", psr_data_pack}};
    char user[PATH_MAX], cache[PATH_MAX], title[64];
    psr_data_command command = {.stop = &stop};
    argp_program_version_hook = print_version;
    if (find_directory("XDG_DATA_HOME", ".local/share", "psring", user))
        command.user_directory = user;
    if (find_directory("XDG_CACHE_HOME", ".cache", "psring/data", cache))
        command.cache = cache;
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        snprintf(title, sizeof title, "psring data %s", argv[1]);
        argv[1] = title;
        take_signals();
        psr_err err = commands[i].run(&command, argc - 1, argv + 1);
        if (err != PSR_OK)
            psr_print(stderr, "%s: %s\n", title, psr_err_detail());
        return err == PSR_OK && command.refused ? 1 : status_of(err);
    }
    psr_print(stderr,
              "psring-data: give get, check, ls or pack; `psring data --help` tells more\n");
    return 2;
}
