#include "deploy/agent/host.h"

#include "deploy/launch/hosts/allocation.h"

#include "deploy/agent/ssh_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#define SSH_WORDS_MAX 32

bool psr_host_is_here(const char *name)
{
    char own[256] = "";
    (void)gethostname(own, sizeof own - 1);
    return strcmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 ||
           strcmp(name, "::1") == 0 || strcmp(name, own) == 0;
}

/* 'text' for a POSIX shell. */
static psr_err quote_for_shell(const char *text, char *quoted, size_t size)
{
    size_t at = 0;
    for (const char *c = text; *c && at + 6 < size; c++) {
        if (*c == '\'') {
            memcpy(quoted + at, "'\\''", 4);
            at += 4;
        } else {
            quoted[at++] = *c;
        }
    }
    quoted[at] = '\0';
    return at + 6 < size
               ? PSR_OK
               : psr_fail(PSR_ERR_USAGE, "the path '%s' is too long for a remote command", text);
}

/* Our own path is where psring is on this host. On another host anybody may have put a program
 * there. So it is run only if the program and all directories above it belong to root or to the
 * user who logs in, and if nobody else can replace it (a directory that all may write to must be
 * sticky, like /tmp). %s is the path, quoted. */
static const char guarded[] =
    "p=$(readlink -f -- '%s') && test -x \"$p\" || p=; u=$(id -u); d=$p; while test -n \"$d\"; do "
    "test -n \"$(find \"$d\" -prune \\( -user 0 -o -user \"$u\" \\) \\( ! -perm -0002 -o -perm "
    "-1000 \\) 2>/dev/null)\" || break; test \"$d\" = / && exec \"$p\" agent; d=$(dirname -- "
    "\"$d\"); done; command -v psring >/dev/null && exec psring agent; test -z \"$d\" || echo \"$p "
    "is not run, since $d can be changed by somebody else than root and you; psring is not in "
    "PATH\" >&2; test -n \"$d\" || echo \"psring is neither at that path nor in PATH\" >&2; exit "
    "127";

psr_err psr_host_command(const char *path, bool named, char *command, size_t size)
{
    char quoted[4608], script[6144], again[12288];
    PSR_TRY(quote_for_shell(path, quoted, sizeof quoted));
    if (named) {
        snprintf(command, size, "exec '%s' agent", quoted);
        return PSR_OK;
    }
    snprintf(script, sizeof script, guarded, quoted);
    PSR_TRY(quote_for_shell(script, again, sizeof again)); /* works with any login shell */
    if (snprintf(command, size, "exec /bin/sh -c '%s'", again) >= (int)size)
        return psr_fail(PSR_ERR_USAGE, "the path '%s' is too long for a remote command", path);
    return PSR_OK;
}

static psr_err remote_command(const char *remote_program, char *command, size_t size)
{
    char path[4096];
    if (remote_program != NULL)
        return psr_host_command(remote_program, true, command, size);
    PSR_TRY(psr_program_path("psring", path, sizeof path));
    return psr_host_command(path, false, command, size);
}

/* The options of ssh. It checks host keys, asks no questions, forwards nothing of this machine to
 * the other (agent, display, ports), runs no command here, and notices a connection that dies.
 * Options that the caller put into --ssh come first, and ssh uses the first value that it sees. */
static const char *const ssh_options[] = {"-T",
                                          "-a",
                                          "-x",
                                          "-o",
                                          "ClearAllForwardings=yes",
                                          "-o",
                                          "PermitLocalCommand=no",
                                          "-o",
                                          "BatchMode=yes",
                                          "-o",
                                          "StrictHostKeyChecking=yes",
                                          "-o",
                                          "ConnectTimeout=10",
                                          "-o",
                                          "ServerAliveInterval=5",
                                          "-o",
                                          "ServerAliveCountMax=3"};

/* The options of srun: one task on that node, beside other steps of the job there, on any of its
 * processors. */
static const char *const srun_options[] = {"--overlap", "--quiet", "--nodes=1", "--ntasks=1",
                                           "--cpu-bind=none"};

static bool is_srun(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash != NULL ? slash + 1 : program, "srun") == 0;
}

/* execv takes a path. */
static psr_err find_program(const char *host, const char *word, char *path, size_t size)
{
    const char *places = getenv("PATH");
    char dirs[8192], *more = NULL;
    snprintf(dirs, sizeof dirs, "%s", places != NULL ? places : "/usr/bin:/bin");
    for (char *dir = strtok_r(dirs, ":", &more); dir != NULL; dir = strtok_r(NULL, ":", &more)) {
        snprintf(path, size, "%.3000s/%s", dir, word);
        if (access(path, X_OK) == 0)
            return PSR_OK;
    }
    return psr_fail(
        PSR_ERR_NOT_FOUND,
        "host %s: '%s' is not installed here; install openssh-client or name another by --ssh",
        host, word);
}

static char *word_of(const char *text)
{
    return (char *)(uintptr_t)text; /* execv does not write to it */
}

/* Splits the text into words like a shell, with quotes, ~ and $NAME, but runs no command. The
 * caller owns *ret_words: wordfree. */
static psr_err split_words(const char *ssh, wordexp_t *ret_words)
{
    wordexp_t words = {0};
    int failed = wordexp(ssh, &words, WRDE_NOCMD | WRDE_UNDEF);
    if (failed == 0 && words.we_wordc > 0 && words.we_wordc <= SSH_WORDS_MAX) {
        *ret_words = words;
        return PSR_OK;
    }
    const size_t count = words.we_wordc;
    if (failed == 0 || failed == WRDE_NOSPACE)
        wordfree(&words);
    switch (failed) {
    case 0:
        if (count == 0)
            return psr_fail(PSR_ERR_USAGE,
                            "--ssh: the command is empty; give for instance 'ssh -p 2222'");
        return psr_fail(
            PSR_ERR_USAGE,
            "--ssh: it has more than %d words; put them into a file, and give ssh -F FILE",
            SSH_WORDS_MAX);
    case WRDE_BADCHAR:
        return psr_fail(PSR_ERR_USAGE,
                        "--ssh '%.200s': no shell runs it, so | & ; < > ( ) { } must be in quotes",
                        ssh);
    case WRDE_BADVAL:
        return psr_fail(PSR_ERR_USAGE, "--ssh '%.200s': it names a variable that is not there",
                        ssh);
    case WRDE_CMDSUB:
        return psr_fail(PSR_ERR_USAGE, "--ssh '%.200s': a command within it would not be run", ssh);
    case WRDE_SYNTAX:
        return psr_fail(PSR_ERR_USAGE, "--ssh '%.200s': a quote is not closed", ssh);
    default:
        return psr_fail(PSR_ERR_NOMEM, "no memory for the words of --ssh");
    }
}

/* words: borrowed, and at most SSH_WORDS_MAX. */
static psr_err start_by(psr_host_link *link, const char *name, const wordexp_t *words,
                        const char *remote_program)
{
    /* Slurm sends signals that end a job to all of its processes. The launcher acts on them, and
     * ends the agents in order. */
    static const char leave_term[] = "trap '' TERM USR1; ";
    char program[4096], command[16384], script[sizeof leave_term + 16384], nodelist[300];
    char *argv[SSH_WORDS_MAX + 32];
    size_t argc = words->we_wordc;
    memcpy(argv, words->we_wordv, argc * sizeof *argv);
    bool by_srun = is_srun(argv[0]);
    if (strchr(argv[0], '/') == NULL) {
        PSR_TRY(find_program(name, argv[0], program, sizeof program));
        argv[0] = program;
    }
    PSR_TRY(remote_command(remote_program, command, sizeof command));
    if (by_srun) {
        for (size_t i = 0; i < sizeof srun_options / sizeof *srun_options; i++)
            argv[argc++] = word_of(srun_options[i]);
        snprintf(nodelist, sizeof nodelist, "--nodelist=%s", name);
        argv[argc++] = nodelist;
        argv[argc++] = word_of("/bin/sh");
        argv[argc++] = word_of("-c");
        snprintf(script, sizeof script, "%s%s", leave_term, command);
        argv[argc++] = script;
    } else {
        for (size_t i = 0; i < sizeof ssh_options / sizeof *ssh_options; i++)
            argv[argc++] = word_of(ssh_options[i]);
        argv[argc++] = word_of(name);
        argv[argc++] = command;
    }
    argv[argc] = NULL;
    return psr_child_start(argv, 0, &link->agent);
}

static psr_err start_remote(psr_host_link *link, const char *name, const char *ssh,
                            const char *remote_program)
{
    wordexp_t words;
    PSR_TRY(split_words(ssh != NULL ? ssh : "ssh", &words));
    psr_err err = start_by(link, name, &words, remote_program);
    wordfree(&words);
    return err;
}

psr_err psr_host_start(psr_host_link *link, const char *name, const char *ssh,
                       const char *remote_program)
{
    *link = (psr_host_link){.local = psr_host_is_here(name)};
    link->agent.pidfd = link->agent.in.fd = link->agent.out.fd = link->agent.err.fd = -1;
    if (!link->local)
        return start_remote(link, name, ssh, remote_program);
    char path[4096];
    PSR_TRY(psr_program_path("psring", path, sizeof path));
    char agent[] = "agent";
    char *argv[] = {path, agent, NULL};
    return psr_child_start(
        argv, PSR_CHILD_SEES_END | (psr_allocation_is_there() ? PSR_CHILD_LEAVES_TERM : 0),
        &link->agent);
}

psr_err psr_host_set_variables(psr_host_link *link, const char *const *variables)
{
    size_t count = 0;
    if (variables == NULL)
        return PSR_OK;
    while (variables[count] != NULL)
        count++;
    cJSON *array = cJSON_CreateStringArray(variables, (int)count);
    if (array == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the variables of -x");
    psr_json_put(&link->agent.in, "op", "variables", "!variables", array, NULL);
    return PSR_OK;
}

static psr_err could_not_connect(const char *name, const char *last_words)
{
    char advice[3 * 256 + 256];
    psr_ssh_words_advise(name, last_words, advice, sizeof advice);
    return psr_fail(PSR_ERR_NOT_FOUND, "host %s: ssh could not connect: %s%s%s", name,
                    last_words[0] ? last_words : "no reason given", advice[0] ? "; " : "", advice);
}

psr_err psr_host_no_agent(const char *name, bool local, int wait_status, const char *last_words)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    if (!local && (status == 127 || status == 126))
        return psr_fail(PSR_ERR_NOT_FOUND,
                        "host %s lacks the program psring (%s); install it there at the same path, "
                        "or name its path by --remote-psring",
                        name, last_words[0] ? last_words : "not found");
    if (!local && status == 255)
        return could_not_connect(name, last_words);
    char how[128];
    psr_child_describe(wait_status, how, sizeof how);
    return psr_fail(PSR_ERR_PEER, "host %s: its agent ended (%s)%s%s", name, how,
                    last_words[0] ? ": " : "", last_words);
}
