#include "deploy/launch/hostfile.h"

#include "base/file.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HOSTFILE_BYTES_MAX (1u << 20)

static bool name_is_safe(const char *name, size_t size)
{
    size_t ats = 0;
    if (size == 0 || size >= PSR_HOST_NAME_MAX || name[0] == '-' || name[0] == '@' || name[size - 1] == '@')
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        ats += c == '@';
        if (!isalnum(c) && c != '.' && c != '-' && c != '_' && c != ':' && c != '@')
            return false;
        if (c == '-' && i > 0 && name[i - 1] == '@') /* user@-oProxyCommand=... */
            return false;
    }
    return ats <= 1;
}

/* A decimal count in 1..PSR_SLOTS_MAX that takes up all of text. */
static bool parse_slots(const char *text, size_t size, uint32_t *ret_slots)
{
    uint32_t value = 0;
    if (size == 0 || size > 6)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    if (value < 1 || value > PSR_SLOTS_MAX)
        return false;
    *ret_slots = value;
    return true;
}

static psr_err add(psr_hosts *hosts, const char *name, size_t name_size, uint32_t slots)
{
    for (size_t i = 0; i < hosts->count; i++) {
        psr_host *host = &hosts->items[i];
        if (strlen(host->name) == name_size && memcmp(host->name, name, name_size) == 0) {
            if (host->slots + slots > PSR_SLOTS_MAX)
                return psr_fail(PSR_ERR_FORMAT, "host %s has more than %u slots", host->name, PSR_SLOTS_MAX);
            host->slots += slots;
            return PSR_OK;
        }
    }
    if (hosts->count >= PSR_HOSTS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "more than %d hosts", PSR_HOSTS_MAX);
    psr_host *grown = realloc(hosts->items, (hosts->count + 1) * sizeof *grown);
    if (!grown)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of %zu hosts", hosts->count + 1);
    hosts->items = grown;
    psr_host *host = &hosts->items[hosts->count++];
    *host = (psr_host){.slots = slots};
    memcpy(host->name, name, name_size);
    return PSR_OK;
}

psr_err psr_hosts_add(psr_hosts *hosts, const char *name, uint32_t slots)
{
    if (!name_is_safe(name, strlen(name)))
        return psr_fail(PSR_ERR_USAGE, "'%s' is not a host's name", name);
    return add(hosts, name, strlen(name), slots);
}

/* The next word of [*at, end), without what follows a '#'. */
static size_t next_word(const char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
        (*at)++;
    size_t size = 0;
    while (*at + size < end && (*at)[size] != ' ' && (*at)[size] != '\t' && (*at)[size] != '\r' &&
           (*at)[size] != '#')
        size++;
    return size;
}

/* A file's bytes in a message: what is not printable becomes '?', and 40 characters are enough. */
static const char *quotable(const char *text, size_t size, char out[44])
{
    size_t kept = size < 40 ? size : 40;
    for (size_t i = 0; i < kept; i++)
        out[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    memcpy(out + kept, size > kept ? ".." : "", size > kept ? 3 : 1);
    return out;
}

static psr_err parse_line(const char *name, size_t line, const char *at, const char *end, psr_hosts *hosts)
{
    char quoted[44];
    size_t size = next_word(&at, end);
    if (size == 0)
        return PSR_OK;
    const char *host = at;
    size_t host_size = size;
    if (!name_is_safe(host, host_size))
        return psr_fail(PSR_ERR_FORMAT, "%s line %zu: '%s' is not a host's name; a line is 'HOST slots=N'",
                        name, line, quotable(host, host_size, quoted));
    uint32_t slots = 1;
    for (at += size; (size = next_word(&at, end)) > 0; at += size) {
        static const char key[] = "slots=";
        size_t key_size = sizeof key - 1;
        if (size <= key_size || memcmp(at, key, key_size) != 0 ||
            !parse_slots(at + key_size, size - key_size, &slots))
            return psr_fail(PSR_ERR_FORMAT,
                            "%s line %zu: '%s' is not understood; a line is 'HOST slots=N', N from 1 to %d",
                            name, line, quotable(at, size, quoted), PSR_SLOTS_MAX);
    }
    psr_err err = add(hosts, host, host_size, slots);
    return err ? psr_fail_context(err, "%s line %zu", name, line) : PSR_OK;
}

psr_err psr_hostfile_parse(const char *name, const char *text, size_t size, psr_hosts *ret_hosts)
{
    psr_hosts hosts = {0};
    psr_err err = PSR_OK;
    const char *end = text + size;
    size_t line = 1;
    for (const char *at = text; at < end && !err; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        err = parse_line(name, line, at, stop, &hosts);
        at = stop + 1;
    }
    if (!err && hosts.count == 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s names no host; a line is 'HOST slots=N'", name);
    if (err)
        psr_hosts_done(&hosts);
    else
        *ret_hosts = hosts;
    return err;
}

psr_err psr_hostfile_read(const char *path, psr_hosts *ret_hosts)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, HOSTFILE_BYTES_MAX, &text, &size));
    psr_err err = psr_hostfile_parse(path, (const char *)text, size, ret_hosts);
    free(text);
    return err;
}

psr_err psr_hosts_from_list(const char *list, psr_hosts *ret_hosts)
{
    psr_hosts hosts = {0};
    psr_err err = PSR_OK;
    for (const char *at = list; !err;) {
        size_t size = strcspn(at, ",");
        const char *colon = memchr(at, ':', size);
        size_t name_size = colon ? (size_t)(colon - at) : size;
        uint32_t slots = 1;
        if (!name_is_safe(at, name_size) || (colon && !parse_slots(colon + 1, size - name_size - 1, &slots)))
            err = psr_fail(PSR_ERR_USAGE,
                           "-H: '%.*s' is not understood; give HOST or HOST:SLOTS, separated by commas",
                           (int)size, at);
        else
            err = add(&hosts, at, name_size, slots);
        if (at[size] == '\0')
            break;
        at += size + 1;
    }
    if (err)
        psr_hosts_done(&hosts);
    else
        *ret_hosts = hosts;
    return err;
}

uint32_t psr_hosts_slots(const psr_hosts *hosts)
{
    uint32_t slots = 0;
    for (size_t i = 0; i < hosts->count; i++)
        slots += hosts->items[i].slots;
    return slots;
}

void psr_hosts_done(psr_hosts *hosts)
{
    free(hosts->items);
    *hosts = (psr_hosts){0};
}
