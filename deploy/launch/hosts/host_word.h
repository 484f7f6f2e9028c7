/* The word that names hosts in a hostfile or an -H list, as Open MPI and Slurm write them:
 *
 *     node1   user@node1   node1:2              :2: two slots
 *     node[1-4]   node[01-12,15]   r[1-2]n[1-8]:4   a word for several hosts; leading zeros stay,
 *                                                   the last brackets count fastest
 *     10.0.0.3   ::1   [fe80::2%eth0]:2        an IPv6 address; in brackets where slots follow
 *
 * Names go to ssh's command line, so they are checked: letters, digits, '.', '-', '_', an address's
 * ':' and '%', one '@' behind a user; neither user nor host begins with '-'. Pure. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_HOST_WORD_H
#define PSR_DEPLOY_LAUNCH_HOSTS_HOST_WORD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_HOST_NAME_MAX 256
#define PSR_SLOTS_MAX 1024

/* One host's name, without brackets, as ssh takes it. */
bool psr_host_name_is_safe(const char *name, size_t size);

/* A file's bytes in a message: what is not printable becomes '?', and 40 characters are enough.
 * Returns quoted. */
#define PSR_HOST_QUOTE_BYTES 44
const char *psr_host_quote(const char *text, size_t size, char quoted[PSR_HOST_QUOTE_BYTES]);

/* A decimal count in 1..PSR_SLOTS_MAX that takes up all of text. */
bool psr_slots_parse(const char *text, size_t size, uint32_t *ret_slots);

/* Calls on_name for each host that the word stands for, in order, until one call fails. slots:
 * behind its ':', 0: none. FORMAT: "'n[3-1]': ..."; on_name's. */
PSR_MUST_CHECK psr_err psr_host_word_expand(const char *word, size_t size,
                                            psr_err (*on_name)(void *context, const char *name,
                                                               uint32_t slots),
                                            void *context);

#endif
