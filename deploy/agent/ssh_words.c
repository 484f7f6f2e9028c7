#include "deploy/agent/ssh_words.h"

#include <stdio.h>
#include <string.h>

typedef enum cause {
    CAUSE_NONE,
    CAUSE_LOGIN,
    CAUSE_KEY_NOT_KNOWN,
    CAUSE_KEY_CHANGED,
    CAUSE_NAME,
    CAUSE_NOT_REACHED,
} cause;

static cause cause_of(const char *line)
{
    static const struct {
        const char *words;
        cause cause;
    } known[] = {
        {"Permission denied", CAUSE_LOGIN},
        {"Too many authentication failures", CAUSE_LOGIN},
        {"host key is known for", CAUSE_KEY_NOT_KNOWN},
        {"has changed and you have requested strict checking", CAUSE_KEY_CHANGED},
        {"Could not resolve hostname", CAUSE_NAME},
        {"Connection refused", CAUSE_NOT_REACHED},
        {"Connection timed out", CAUSE_NOT_REACHED},
        {"timed out", CAUSE_NOT_REACHED},
        {"No route to host", CAUSE_NOT_REACHED},
        {"Network is unreachable", CAUSE_NOT_REACHED},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(line, known[i].words) != NULL)
            return known[i].cause;
    return CAUSE_NONE;
}

bool psr_ssh_words_tell_why(const char *line)
{
    return cause_of(line) != CAUSE_NONE;
}

void psr_ssh_words_advise(const char *name, const char *line, char *advice, size_t size)
{
    const char *at = strchr(name, '@'), *host = at != NULL ? at + 1 : name;
    switch (cause_of(line)) {
    case CAUSE_LOGIN:
        snprintf(advice, size, "let it log you in without a password: ssh-copy-id %s", name);
        return;
    case CAUSE_KEY_NOT_KNOWN:
        snprintf(advice, size,
                 "make its key known: ssh-keyscan %s >>~/.ssh/known_hosts, and compare ssh-keygen "
                 "-lF %s with what ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub says there",
                 host, host);
        return;
    case CAUSE_KEY_CHANGED:
        snprintf(advice, size,
                 "if it was installed anew: ssh-keygen -R %s, then ssh-keyscan %s "
                 ">>~/.ssh/known_hosts and compare; if not, another machine may be answering",
                 host, host);
        return;
    case CAUSE_NAME:
        snprintf(advice, size, "is that its name? getent hosts %s", host);
        return;
    case CAUSE_NOT_REACHED:
        snprintf(advice, size,
                 "is it up, and does sshd listen there? Another port: --ssh 'ssh -p PORT'");
        return;
    case CAUSE_NONE:
        break;
    }
    snprintf(advice, size, "%s", "");
}
