/* What ssh says when it does not get in, understood well enough to tell the person what would be
 * right. Its words are OpenSSH's, which no language setting changes; words that are not known get
 * no advice. Pure. */
#ifndef PSR_DEPLOY_SSH_WORDS_H
#define PSR_DEPLOY_SSH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a line tells why, so that what ssh says after it ("Host key verification failed.") adds
 * nothing. */
bool psr_ssh_words_tell_why(const char *line);

/* What would be right for a host of that name ("user@node2"), of which ssh said this: "let it log
 * you in without a password: ssh-copy-id user@node2"; "" where nothing is known. */
void psr_ssh_words_advise(const char *name, const char *line, char *advice, size_t size);

#endif
