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

/* Whether it is one host's name, without brackets, in ssh's form. */
bool psr_host_name_is_safe(const char *name, size_t size);

/* Bytes of a file for a message: a byte that is not printable becomes '?', and at most 40
 * characters are taken. Returns quoted. */
#define PSR_HOST_QUOTE_BYTES 44
const char *psr_host_quote(const char *text, size_t size, char quoted[PSR_HOST_QUOTE_BYTES]);

/* A decimal count in 1..PSR_SLOTS_MAX that takes up all of text. */
bool psr_slots_parse(const char *text, size_t size, uint32_t *ret_slots);

/* Calls on_name for each host that the word names, in order, until a call fails. slots: the number
 * after its ':', 0: none. FORMAT: "'n[3-1]': ..."; or on_name's failure. */
PSR_MUST_CHECK psr_err psr_host_word_expand(const char *word, size_t size,
                                            psr_err (*on_name)(void *context, const char *name,
                                                               uint32_t slots),
                                            void *context);

#endif
