/* What ssh prints when it cannot log in, and what would be right then. Its messages are OpenSSH's,
 * which no language setting changes; unknown messages get no advice. Does no I/O. */
#ifndef PSR_DEPLOY_SSH_WORDS_H
#define PSR_DEPLOY_SSH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a line says the reason, so that ssh's next line ("Host key verification failed.") adds
 * nothing. */
bool psr_ssh_words_tell_why(const char *line);

/* Advice for a host of that name ("user@node2") after this line of ssh: "let it log you in without
 * a password: ssh-copy-id user@node2"; "" if there is none. */
void psr_ssh_words_advise(const char *name, const char *line, char *advice, size_t size);

#endif
