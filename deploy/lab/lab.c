#include "deploy/lab/lab.h"

#include "base/system/file.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "deploy/launch/hosts/host_word.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAB_BYTES_MAX (1u << 20)
#define QUEUE_BYTES (256u << 10)
#define BURST_LEAST (4u << 10) /* more than two frames: one waits while another leaves */
#define BURST_MOST (1u << 20)
#define BURST_S 0.0005 /* of the rate: timers that come a little late lose nothing of it */

/* What is being read; burst 0 and rate 0: not given. */
typedef struct reading {
    psr_lab lab;
    psr_lab_host defaults; /* of `default` lines */
    psr_lab_host now;      /* of the present line */
    psr_lab_link uplink;   /* likewise */
    bool has_slots, has_shards;
} reading;

typedef struct word {
    const char *at;
    size_t size;
} word;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static word next_word(const char **at, const char *end)
{
    while (*at < end && is_blank(**at))
        (*at)++;
    word w = {*at, 0};
    while (*at < end && !is_blank(**at)) {
        (*at)++;
        w.size++;
    }
    return w;
}

static bool is(word w, const char *text)
{
    return w.size == strlen(text) && memcmp(w.at, text, w.size) == 0;
}

/* ---- values ---- */

static bool parse_count(word w, uint64_t least, uint64_t most, uint64_t *ret_count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < w.size; i++) {
        if (!isdigit((unsigned char)w.at[i]) || value > most)
            return false;
        value = value * 10 + (uint64_t)(w.at[i] - '0');
    }
    if (w.size == 0 || value < least || value > most)
        return false;
    *ret_count = value;
    return true;
}

/* K and M are powers of 1024, as everywhere. */
static bool parse_bytes(word w, uint64_t *ret_bytes)
{
    unsigned shift = 0;
    const char last = w.size > 0 ? (char)toupper((unsigned char)w.at[w.size - 1]) : '\0';
    if (last == 'K' || last == 'M') {
        shift = last == 'K' ? 10 : 20;
        w.size--;
    }
    uint64_t value;
    if (!parse_count(w, 1, (uint64_t)1 << 30, &value) || value << shift > (uint64_t)1 << 30 ||
        value << shift < BURST_LEAST)
        return false;
    *ret_bytes = value << shift;
    return true;
}

/* A number with a unit behind it, "" or another one. */
static bool parse_number(word w, const char *unit, double *ret_value)
{
    char text[32], *end;
    if (w.size == 0 || w.size >= sizeof text || !isdigit((unsigned char)w.at[0]))
        return false;
    memcpy(text, w.at, w.size);
    text[w.size] = '\0';
    *ret_value = strtod(text, &end);
    return strcmp(end, unit) == 0;
}

static bool parse_factor(word w, double *ret_factor)
{
    double value;
    if (!parse_number(w, "", &value) || !(value >= 1 && value <= 1000))
        return false;
    *ret_factor = value;
    return true;
}

static bool is_name(word w, size_t room)
{
    for (size_t i = 0; i < w.size; i++)
        if (!isalnum((unsigned char)w.at[i]) && (i == 0 || strchr("-_.", w.at[i]) == NULL))
            return false;
    return w.size > 0 && w.size < room;
}

static bool find_switch(const psr_lab *lab, word w, uint32_t *ret_index)
{
    for (size_t i = 1; i < lab->switch_count; i++) {
        if (is(w, lab->switches[i].name)) {
            *ret_index = (uint32_t)i;
            return true;
        }
    }
    return false;
}

/* ---- KEY=VALUE ---- */

static bool take_congestion(reading *r, word value)
{
    if (!is_name(value, PSR_LAB_CONGESTION_BYTES))
        return false;
    memset(r->now.congestion, 0, sizeof r->now.congestion);
    memcpy(r->now.congestion, value.at, value.size);
    return true;
}

static bool take_rate(reading *r, word value)
{
    return psr_rate_parse(value.at, value.size, &r->now.link.rate_bits_per_s);
}

static bool take_uplink(reading *r, word value)
{
    return psr_rate_parse(value.at, value.size, &r->uplink.rate_bits_per_s);
}

static bool take_queue(reading *r, word value)
{
    return parse_bytes(value, &r->now.link.queue_bytes);
}

static bool take_burst(reading *r, word value)
{
    return parse_bytes(value, &r->now.link.burst_bytes) && r->now.link.burst_bytes <= BURST_MOST;
}

static bool take_slots(reading *r, word value)
{
    uint64_t count;
    if (!parse_count(value, 0, 64, &count))
        return false;
    r->now.slots = (uint32_t)count;
    r->has_slots = true;
    return true;
}

static bool take_shards(reading *r, word value)
{
    uint64_t count;
    if (!parse_count(value, 0, 64, &count))
        return false;
    r->now.shards = (uint32_t)count;
    r->has_shards = true;
    return true;
}

static bool take_slow(reading *r, word value)
{
    return parse_factor(value, &r->now.slow);
}

static bool take_loss(reading *r, word value)
{
    double share;
    if (parse_number(value, "%", &share))
        share /= 100;
    else if (!parse_number(value, "", &share))
        return false;
    if (!(share >= 0 && share <= 0.5))
        return false;
    r->now.loss = share;
    return true;
}

static bool take_switch(reading *r, word value)
{
    return find_switch(&r->lab, value, &r->now.in_switch);
}

enum { OF_HOST = 1, OF_SWITCH = 2, OF_DEFAULT = 4 };

static const struct setting {
    const char *key;
    unsigned of;
    bool (*take)(reading *r, word value);
    const char *right;
} settings[] = {
    {"rate", OF_HOST | OF_DEFAULT, take_rate, "1Kbit to 1000Gbit (100Mbit)"},
    {"uplink", OF_SWITCH, take_uplink, "1Kbit to 1000Gbit (100Mbit)"},
    {"queue", OF_HOST | OF_SWITCH | OF_DEFAULT, take_queue, "4K to 1024M bytes"},
    {"burst", OF_HOST | OF_SWITCH | OF_DEFAULT, take_burst, "4K to 1M bytes"},
    {"slots", OF_HOST | OF_DEFAULT, take_slots, "0 to 64 workers"},
    {"shards", OF_HOST, take_shards, "0 to 64 parameter servers"},
    {"slow", OF_HOST | OF_DEFAULT, take_slow, "a factor of 1 to 1000"},
    {"loss", OF_HOST | OF_DEFAULT, take_loss, "a share of at most half: 0.001 or 0.1%"},
    {"switch", OF_HOST | OF_DEFAULT, take_switch, "the name of a switch in a line above"},
    {"congestion", OF_HOST | OF_DEFAULT, take_congestion, "the name of one, like cubic"},
};
#define SETTING_COUNT (sizeof settings / sizeof *settings)

static void name_settings(unsigned of, char *names, size_t size)
{
    psr_text_end end = {names, size};
    names[0] = '\0';
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].of & of)
            psr_text_add(&end, "%s%s", names[0] != '\0' ? ", " : "", settings[i].key);
}

static psr_err take_setting(reading *r, unsigned of, word w)
{
    char quoted[PSR_HOST_QUOTE_BYTES], names[128];
    const char *equal = memchr(w.at, '=', w.size);
    const word key = {w.at, equal != NULL ? (size_t)(equal - w.at) : w.size};
    for (size_t i = 0; i < SETTING_COUNT && equal != NULL; i++) {
        if (!(settings[i].of & of) || !is(key, settings[i].key))
            continue;
        const word value = {equal + 1, (size_t)(w.at + w.size - equal - 1)};
        if (settings[i].take(r, value))
            return PSR_OK;
        return psr_fail(PSR_ERR_FORMAT, "%s=%s: give %s", settings[i].key,
                        psr_host_quote(value.at, value.size, quoted), settings[i].right);
    }
    name_settings(of, names, sizeof names);
    return psr_fail(PSR_ERR_FORMAT, "'%s' is not understood; there are %s, each with =VALUE",
                    psr_host_quote(w.at, w.size, quoted), names);
}

static psr_err take_settings(reading *r, unsigned of, const char *at, const char *end)
{
    for (word w = next_word(&at, end); w.size > 0; w = next_word(&at, end))
        PSR_TRY(take_setting(r, of, w));
    return PSR_OK;
}

/* ---- lines ---- */

static uint64_t default_burst(uint64_t rate_bits_per_s)
{
    const double bytes = (double)rate_bits_per_s / 8 * BURST_S;
    return bytes < 2 * BURST_LEAST ? 2 * BURST_LEAST
                                   : (bytes > BURST_MOST ? BURST_MOST : (uint64_t)bytes);
}

static void complete(psr_lab_link *link)
{
    if (link->burst_bytes == 0)
        link->burst_bytes = default_burst(link->rate_bits_per_s);
}

/* Whether a host or a switch has that name. */
static bool is_taken(const psr_lab *lab, const char *name)
{
    for (size_t i = 0; i < lab->host_count; i++)
        if (strcmp(lab->hosts[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < lab->switch_count; i++)
        if (strcmp(lab->switches[i].name, name) == 0)
            return true;
    return false;
}

static psr_err add_host(void *context, const char *name, uint32_t slots)
{
    reading *r = context;
    char quoted[PSR_HOST_QUOTE_BYTES];
    psr_host_quote(name, strlen(name), quoted);
    if (slots != 0)
        return psr_fail(PSR_ERR_FORMAT, "'%s:%u': give slots=%u", quoted, slots, slots);
    if (!is_name((word){name, strlen(name)}, PSR_LAB_NAME_BYTES))
        return psr_fail(PSR_ERR_FORMAT,
                        "'%s' is not a host's name: letters, digits, '-', '_' and '.', 63 at most",
                        quoted);
    if (strcmp(name, "localhost") == 0 || is_taken(&r->lab, name))
        return psr_fail(PSR_ERR_FORMAT, "the name %s is taken; give another", quoted);
    if (r->lab.host_count == PSR_LAB_HOSTS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "more than %d hosts", PSR_LAB_HOSTS_MAX);
    psr_lab_host *host = &r->lab.hosts[r->lab.host_count++];
    *host = r->now;
    memcpy(host->name, name, strlen(name) + 1);
    complete(&host->link);
    return PSR_OK;
}

static psr_err read_host(reading *r, word name, const char *at, const char *end)
{
    PSR_TRY(take_settings(r, OF_HOST, at, end));
    if (r->now.shards > 0 && !r->has_slots)
        r->now.slots = 0;
    if (r->now.slots + r->now.shards == 0)
        return psr_fail(PSR_ERR_FORMAT, "a host without slots and shards has nothing to do");
    if (r->now.link.rate_bits_per_s == 0)
        return psr_fail(PSR_ERR_FORMAT, "it has no rate; give rate=100Mbit, here or by a line "
                                        "'default rate=100Mbit' above");
    return psr_host_word_expand(name.at, name.size, add_host, r);
}

static psr_err read_switch(reading *r, word name, const char *at, const char *end)
{
    char quoted[PSR_HOST_QUOTE_BYTES], text[PSR_LAB_NAME_BYTES] = "";
    psr_host_quote(name.at, name.size, quoted);
    if (!is_name(name, sizeof text))
        return psr_fail(PSR_ERR_FORMAT,
                        "'%s' is not a switch's name: letters, digits, '-', '_' and '.'", quoted);
    memcpy(text, name.at, name.size);
    if (is_taken(&r->lab, text))
        return psr_fail(PSR_ERR_FORMAT, "the name %s is taken; give another", quoted);
    PSR_TRY(take_settings(r, OF_SWITCH, at, end));
    if (r->uplink.rate_bits_per_s == 0)
        return psr_fail(PSR_ERR_FORMAT, "switch %s has no uplink; give uplink=1Gbit", quoted);
    if (r->lab.switch_count == PSR_LAB_SWITCHES_MAX)
        return psr_fail(PSR_ERR_FORMAT, "more than %d switches", PSR_LAB_SWITCHES_MAX - 1);
    psr_lab_switch *added = &r->lab.switches[r->lab.switch_count++];
    memcpy(added->name, text, sizeof text);
    added->uplink =
        (psr_lab_link){r->uplink.rate_bits_per_s, r->now.link.queue_bytes, r->now.link.burst_bytes};
    complete(&added->uplink);
    return PSR_OK;
}

static psr_err read_congestion(reading *r, word name, const char *at, const char *end)
{
    char quoted[PSR_HOST_QUOTE_BYTES];
    if (!take_congestion(r, name) || next_word(&at, end).size > 0)
        return psr_fail(PSR_ERR_FORMAT, "'congestion %s': give the name of one, like cubic",
                        psr_host_quote(name.at, name.size, quoted));
    r->defaults = r->now;
    return PSR_OK;
}

static psr_err read_line(reading *r, const char *at, const char *end)
{
    char quoted[PSR_HOST_QUOTE_BYTES];
    const char *comment = memchr(at, '#', (size_t)(end - at));
    if (comment != NULL)
        end = comment;
    const word kind = next_word(&at, end);
    if (kind.size == 0)
        return PSR_OK;
    r->now = r->defaults;
    r->uplink = (psr_lab_link){0};
    r->has_slots = r->has_shards = false;
    if (is(kind, "default")) {
        PSR_TRY(take_settings(r, OF_DEFAULT, at, end));
        r->defaults = r->now;
        return PSR_OK;
    }
    const word name = next_word(&at, end);
    if (is(kind, "host") && name.size > 0)
        return read_host(r, name, at, end);
    if (is(kind, "switch") && name.size > 0)
        return read_switch(r, name, at, end);
    if (is(kind, "congestion") && name.size > 0)
        return read_congestion(r, name, at, end);
    return psr_fail(PSR_ERR_FORMAT,
                    "'%s%s': a line is 'host NAME KEY=VALUE..', 'switch NAME uplink=RATE', "
                    "'congestion NAME' or 'default KEY=VALUE..'",
                    psr_host_quote(kind.at, kind.size, quoted), name.size > 0 ? " .." : "");
}

psr_err psr_lab_parse(const char *name, const char *text, size_t size, psr_lab *ret_lab)
{
    reading *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a lab");
    r->defaults = (psr_lab_host){.slots = 1, .slow = 1, .link.queue_bytes = QUEUE_BYTES};
    r->lab.switch_count = 1;
    psr_err err = PSR_OK;
    size_t line = 1;
    for (const char *at = text, *end = text + size; at < end && !err; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        err = read_line(r, at, stop);
        if (err)
            err = psr_fail_context(err, "%s:%zu", name, line);
        at = stop + 1;
    }
    if (!err && psr_lab_slots(&r->lab) == 0)
        err = psr_fail(PSR_ERR_FORMAT,
                       "%s names no host for workers; give 'host NAME rate=100Mbit'", name);
    if (!err)
        *ret_lab = r->lab;
    free(r);
    return err;
}

psr_err psr_lab_read(const char *path, psr_lab *ret_lab)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, LAB_BYTES_MAX, &text, &size));
    psr_err err = psr_lab_parse(path, (const char *)text, size, ret_lab);
    free(text);
    return err;
}

/* ---- what follows from it ---- */

static void dilate(psr_lab_link *link, double factor)
{
    link->rate_bits_per_s = (uint64_t)llround((double)link->rate_bits_per_s / factor);
}

void psr_lab_dilate(psr_lab *lab, double factor)
{
    for (size_t i = 0; i < lab->host_count; i++)
        dilate(&lab->hosts[i].link, factor);
    for (size_t i = 1; i < lab->switch_count; i++)
        dilate(&lab->switches[i].uplink, factor);
}

uint32_t psr_lab_slots(const psr_lab *lab)
{
    uint32_t count = 0;
    for (size_t i = 0; i < lab->host_count; i++)
        count += lab->hosts[i].slots;
    return count;
}

uint32_t psr_lab_shards(const psr_lab *lab)
{
    uint32_t count = 0;
    for (size_t i = 0; i < lab->host_count; i++)
        count += lab->hosts[i].shards;
    return count;
}

void psr_lab_address(size_t index, char address[PSR_LAB_ADDRESS_BYTES])
{
    snprintf(address, PSR_LAB_ADDRESS_BYTES, "10.77.0.%u", (unsigned)(uint8_t)(index + 1));
}

psr_err psr_lab_hostfile(const psr_lab *lab, bool of_shards, char *text, size_t size)
{
    psr_text_end end = {text, size};
    text[0] = '\0';
    for (size_t i = 0; i < lab->host_count; i++) {
        const psr_lab_host *host = &lab->hosts[i];
        const uint32_t count = of_shards ? host->shards : host->slots;
        if (count > 0)
            psr_text_add(&end, "%s slots=%u\n", host->name, count);
    }
    return end.room > 1 ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no room for a hostfile");
}
