#include "deploy/launch/hosts/hostfile.h"

#include "base/system/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTFILE_BYTES_MAX (1u << 20)
#define LINE_BYTES_MAX 4096
/* How often hosts may be named in all. A limit is needed, because few bytes with brackets can name
 * many hosts. */
#define MENTIONS_MAX (16 * PSR_HOSTS_MAX)

/* ---- hosts ---- */

/* A list of hosts while it is read, with the slots that the next names get. */
typedef struct reading {
    psr_hosts hosts;
    /* the host that was named last: the next one is often the same, or the one after it */
    size_t last;
    size_t mentions; /* so far */
    uint32_t slots, max_slots;
} reading;

static bool is_named(const psr_host *host, const char *name)
{
    return strcmp(host->name, name) == 0;
}

/* hosts->count: it is not in the list. */
static size_t find(const psr_hosts *hosts, size_t near, const char *name)
{
    for (size_t i = near; i < hosts->count && i < near + 2; i++)
        if (is_named(&hosts->items[i], name))
            return i;
    for (size_t i = 0; i < hosts->count; i++)
        if (is_named(&hosts->items[i], name))
            return i;
    return hosts->count;
}

static psr_err append(psr_hosts *hosts, const char *name)
{
    if (hosts->count >= PSR_HOSTS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "more than %d hosts", PSR_HOSTS_MAX);
    psr_host *grown = realloc(hosts->items, (hosts->count + 1) * sizeof *grown);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of %zu hosts", hosts->count + 1);
    hosts->items = grown;
    psr_host *host = &hosts->items[hosts->count++];
    *host = (psr_host){.slots = 0};
    memcpy(host->name, name, strlen(name));
    return PSR_OK;
}

static psr_err give_slots(psr_host *host, uint32_t slots, uint32_t max_slots)
{
    if (max_slots != 0)
        host->max_slots = max_slots;
    if (host->slots + slots > PSR_SLOTS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "host %s has more than %d slots", host->name,
                        PSR_SLOTS_MAX);
    host->slots += slots;
    if (host->max_slots != 0 && host->slots > host->max_slots)
        return psr_fail(
            PSR_ERR_FORMAT,
            "host %s has %u slots, more than its max_slots=%u; give fewer slots or more max_slots",
            host->name, host->slots, host->max_slots);
    return PSR_OK;
}

static psr_err add(reading *r, const char *name, uint32_t slots, uint32_t max_slots)
{
    if (++r->mentions > MENTIONS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "hosts are named more than %d times", MENTIONS_MAX);
    r->last = find(&r->hosts, r->last, name);
    if (r->last == r->hosts.count)
        PSR_TRY(append(&r->hosts, name));
    return give_slots(&r->hosts.items[r->last], slots, max_slots);
}

psr_err psr_hosts_add(psr_hosts *hosts, const char *name, uint32_t slots)
{
    if (!psr_host_name_is_safe(name, strlen(name)))
        return psr_fail(PSR_ERR_USAGE, "'%s' is not a host's name", name);
    reading r = {.hosts = *hosts};
    psr_err err = add(&r, name, slots, 0);
    *hosts = r.hosts;
    return err;
}

uint32_t psr_host_room(const psr_host *host)
{
    return host->max_slots != 0 ? host->max_slots : host->slots;
}

uint32_t psr_hosts_slots(const psr_hosts *hosts)
{
    uint32_t slots = 0;
    for (size_t i = 0; i < hosts->count; i++)
        slots += hosts->items[i].slots;
    return slots;
}

uint32_t psr_hosts_room(const psr_hosts *hosts)
{
    uint32_t room = 0;
    for (size_t i = 0; i < hosts->count; i++)
        room += psr_host_room(&hosts->items[i]);
    return room;
}

void psr_hosts_done(psr_hosts *hosts)
{
    free(hosts->items);
    *hosts = (psr_hosts){0};
}

/* What was read, or nothing when it failed. */
static psr_err end_reading(reading *r, psr_err err, psr_hosts *ret_hosts)
{
    if (err)
        psr_hosts_done(&r->hosts);
    else
        *ret_hosts = r->hosts;
    return err;
}

/* ---- a line of a hostfile ---- */

static const char form[] = "a line is 'HOST slots=N max_slots=M', N and M from 1 to 1024";

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(const char **at, const char *end)
{
    while (*at < end && is_blank(**at))
        (*at)++;
}

/* The length of the text at `at` up to a blank, or to `stop`. */
static size_t run_of(const char *at, const char *end, char stop)
{
    size_t size = 0;
    while (at + size < end && !is_blank(at[size]) && at[size] != stop)
        size++;
    return size;
}

static bool is_one_of(const char *key, size_t size, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strlen(*words) == size && memcmp(*words, key, size) == 0)
            return true;
    return false;
}

/* Reads "slots=2", which may have blanks beside the '='. Moves at behind it. */
static bool take_setting(const char **at, const char *end, reading *r)
{
    static const char *const of_slots[] = {"slots", "count", "cpu", "cpus", NULL};
    static const char *const of_most[] = {"max_slots", "max-slots", "slots_max", "slots-max", NULL};
    const char *key = *at;
    size_t key_size = run_of(key, end, '=');
    uint32_t *to = is_one_of(key, key_size, of_slots)  ? &r->slots
                   : is_one_of(key, key_size, of_most) ? &r->max_slots
                                                       : NULL;
    *at += key_size;
    skip_blanks(at, end);
    if (to == NULL || *to != 0 || *at == end || **at != '=')
        return false;
    (*at)++;
    skip_blanks(at, end);
    size_t size = run_of(*at, end, '\0');
    if (!psr_slots_parse(*at, size, to))
        return false;
    *at += size;
    return true;
}

static psr_err add_of_line(void *context, const char *name, uint32_t slots)
{
    reading *r = context;
    if (slots != 0 && r->slots != 0)
        return psr_fail(PSR_ERR_FORMAT, "'%s:%u' and slots=%u say the same thing twice; give one",
                        name, slots, r->slots);
    if (slots == 0)
        slots = r->slots != 0 ? r->slots : r->max_slots != 0 ? r->max_slots : 1;
    return add(r, name, slots, r->max_slots);
}

static psr_err parse_line(const char *at, const char *end, reading *r)
{
    char quoted[PSR_HOST_QUOTE_BYTES];
    const char *comment = memchr(at, '#', (size_t)(end - at));
    if (end - at > LINE_BYTES_MAX)
        return psr_fail(PSR_ERR_FORMAT,
                        "it is longer than %d bytes; write one host, or a range of them, a line",
                        LINE_BYTES_MAX);
    if (comment != NULL)
        end = comment;
    skip_blanks(&at, end);
    const char *host = at;
    size_t host_size = run_of(at, end, '\0');
    if (host_size == 0)
        return PSR_OK;
    r->slots = r->max_slots = 0;
    at += host_size;
    for (skip_blanks(&at, end); at < end; skip_blanks(&at, end)) {
        const char *from = at;
        if (!take_setting(&at, end, r))
            return psr_fail(PSR_ERR_FORMAT, "'%s' is not understood; %s",
                            psr_host_quote(from, run_of(from, end, '\0'), quoted), form);
    }
    return psr_host_word_expand(host, host_size, add_of_line, r);
}

psr_err psr_hostfile_parse(const char *name, const char *text, size_t size, psr_hosts *ret_hosts)
{
    reading r = {.mentions = 0};
    psr_err err = PSR_OK;
    const char *end = text + size;
    size_t line = 1;
    for (const char *at = text; at < end && !err; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        err = parse_line(at, stop, &r);
        if (err)
            err = psr_fail_context(err, "%s line %zu", name, line);
        at = stop + 1;
    }
    if (!err && r.hosts.count == 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s names no host; %s", name, form);
    return end_reading(&r, err, ret_hosts);
}

psr_err psr_hostfile_read(const char *path, psr_hosts *ret_hosts)
{
    uint8_t *text = NULL;
    size_t size = 0;
    psr_err err = psr_file_read(path, HOSTFILE_BYTES_MAX, &text, &size);
    if (err != PSR_OK)
        return psr_fail_context(err, "hostfile");
    err = psr_hostfile_parse(path, (const char *)text, size, ret_hosts);
    free(text);
    return err;
}

/* ---- a list ---- */

static psr_err add_of_list(void *context, const char *name, uint32_t slots)
{
    return add(context, name, slots != 0 ? slots : 1, 0);
}

/* Up to the next comma that is not in brackets. */
static size_t word_of_list(const char *at)
{
    size_t size = 0;
    for (bool inside = false; at[size] != '\0' && (inside || at[size] != ','); size++)
        inside = at[size] == '[' || (inside && at[size] != ']');
    return size;
}

psr_err psr_hosts_from_list(const char *list, psr_hosts *ret_hosts)
{
    reading r = {.mentions = 0};
    psr_err err = PSR_OK;
    for (const char *at = list; !err; at++) {
        size_t size = word_of_list(at);
        err = psr_host_word_expand(at, size, add_of_list, &r);
        if (err) {
            char why[256];
            psr_err kind = err == PSR_ERR_FORMAT ? PSR_ERR_USAGE : err;
            snprintf(why, sizeof why, "%s", psr_err_detail());
            err = psr_fail(kind, "-H: %s; give HOST or HOST:SLOTS, separated by commas", why);
        }
        at += size;
        if (*at == '\0')
            break;
    }
    return end_reading(&r, err, ret_hosts);
}
