#include "deploy/launch/hosts/host_word.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define BRACKETS_MAX 8
#define DIGITS_MAX 9

/* ---- names ---- */

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static bool is_ipv6(const char *text, size_t size)
{
    char address[INET6_ADDRSTRLEN];
    unsigned char bytes[sizeof(struct in6_addr)];
    const char *zone = memchr(text, '%', size);
    size_t length = zone != NULL ? (size_t)(zone - text) : size;
    if (length >= sizeof address || (zone != NULL && length + 1 == size))
        return false;
    for (size_t i = length + 1; i < size; i++)
        if (!is_of_name(text[i]))
            return false;
    memcpy(address, text, length);
    address[length] = '\0';
    return inet_pton(AF_INET6, address, bytes) == 1;
}

static bool is_plain(const char *text, size_t size)
{
    if (size == 0 || text[0] == '-')
        return false;
    for (size_t i = 0; i < size; i++)
        if (!is_of_name(text[i]))
            return false;
    return true;
}

/* The part before the host: "user@", or nothing. */
static size_t user_size(const char *text, size_t size)
{
    const char *at = memchr(text, '@', size);
    return at != NULL ? (size_t)(at - text) + 1 : 0;
}

bool psr_host_name_is_safe(const char *name, size_t size)
{
    size_t user = user_size(name, size);
    if (size >= PSR_HOST_NAME_MAX || (user > 0 && !is_plain(name, user - 1)))
        return false;
    return is_plain(name + user, size - user) || is_ipv6(name + user, size - user);
}

bool psr_slots_parse(const char *text, size_t size, uint32_t *ret_slots)
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

const char *psr_host_quote(const char *text, size_t size, char quoted[PSR_HOST_QUOTE_BYTES])
{
    size_t most = PSR_HOST_QUOTE_BYTES - 4, kept = size < most ? size : most;
    for (size_t i = 0; i < kept; i++)
        quoted[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    memcpy(quoted + kept, size > kept ? ".." : "", size > kept ? 3 : 1);
    return quoted;
}

/* ---- a word ---- */

typedef struct word {
    const char *text; /* all of it, for messages */
    size_t size;
    uint32_t slots;
    psr_err (*on_name)(void *context, const char *name, uint32_t slots);
    void *context;
} word;

static psr_err refuse(const word *w, const char *why)
{
    char quoted[PSR_HOST_QUOTE_BYTES];
    return psr_fail(PSR_ERR_FORMAT, "'%s' %s", psr_host_quote(w->text, w->size, quoted), why);
}

/* ---- its brackets ---- */

/* The beginning of a name, which has been made already. */
typedef struct made {
    char text[PSR_HOST_NAME_MAX];
    size_t size;
} made;

static bool append(made *m, const char *text, size_t size)
{
    if (size >= sizeof m->text - m->size)
        return false;
    memcpy(m->text + m->size, text, size);
    m->size += size;
    m->text[m->size] = '\0';
    return true;
}

static bool read_number(const char **at, const char *end, uint32_t *ret_value, int *ret_digits)
{
    uint32_t value = 0;
    int digits = 0;
    for (; *at < end && isdigit((unsigned char)**at) && digits <= DIGITS_MAX; (*at)++, digits++)
        value = value * 10 + (uint32_t)(**at - '0');
    *ret_value = value;
    *ret_digits = digits;
    return digits > 0 && digits <= DIGITS_MAX;
}

static psr_err expand(const word *w, made *m, const char *at, const char *end, int depth);

/* Appends one number of the brackets, or all numbers of a range, and after each the text that
 * follows the brackets. */
static psr_err expand_range(const word *w, made *m, const char **at, const char *close,
                            const char *end, int depth)
{
    uint32_t first, last;
    int width, ignored;
    bool good = read_number(at, close, &first, &width);
    last = first;
    if (good && *at < close && **at == '-') {
        (*at)++;
        good = read_number(at, close, &last, &ignored);
    }
    if (!good || last < first)
        return refuse(
            w, "is not understood; brackets hold numbers and ranges that go up, as node[1-4,7]");
    const size_t before = m->size;
    for (uint32_t number = first; number <= last; number++) {
        char digits[16];
        int size = snprintf(digits, sizeof digits, "%0*u", width, number);
        if (!append(m, digits, (size_t)size))
            return refuse(w, "is too long for a host's name");
        PSR_TRY(expand(w, m, close + 1, end, depth + 1));
        m->size = before;
    }
    return PSR_OK;
}

static psr_err expand_brackets(const word *w, made *m, const char *open, const char *end, int depth)
{
    const char *close = memchr(open, ']', (size_t)(end - open));
    if (close == NULL || depth == BRACKETS_MAX)
        return refuse(w, close != NULL ? "has more than 8 pairs of brackets" : "lacks a ']'");
    for (const char *at = open + 1;; at++) {
        PSR_TRY(expand_range(w, m, &at, close, end, depth));
        if (at == close)
            return PSR_OK;
        if (*at != ',')
            return refuse(
                w,
                "is not understood; brackets hold numbers and ranges that go up, as node[1-4,7]");
    }
}

static psr_err expand(const word *w, made *m, const char *at, const char *end, int depth)
{
    const char *open = memchr(at, '[', (size_t)(end - at));
    const size_t before = m->size;
    if (!append(m, at, (size_t)((open != NULL ? open : end) - at)))
        return refuse(w, "is too long for a host's name");
    psr_err err;
    if (open != NULL)
        err = expand_brackets(w, m, open, end, depth);
    else if (!psr_host_name_is_safe(m->text, m->size))
        err = refuse(w, "is not a host's name");
    else
        err = w->on_name(w->context, m->text, w->slots);
    m->size = before;
    return err;
}

/* ---- its parts ---- */

/* Splits ":N" off; the name of the host ends there. */
static psr_err take_slots(word *w, size_t from, size_t *ret_end)
{
    size_t colon = w->size;
    for (size_t i = from; i < w->size; i++)
        if (w->text[i] == ':')
            colon = i;
    if (colon < w->size && !psr_slots_parse(w->text + colon + 1, w->size - colon - 1, &w->slots))
        return refuse(w, "is not understood; behind ':' is a number of slots from 1 to 1024, and "
                         "an IPv6 address is in brackets");
    *ret_end = colon;
    return PSR_OK;
}

/* "[fe80::1]": these brackets are not those of a range. */
static bool begins_with_address(const char *text, size_t size, size_t *ret_size)
{
    const char *close = size > 0 && text[0] == '[' ? memchr(text, ']', size) : NULL;
    if (close == NULL || memchr(text, ':', (size_t)(close - text)) == NULL)
        return false;
    *ret_size = (size_t)(close - text) + 1;
    return true;
}

psr_err psr_host_word_expand(const char *text, size_t size,
                             psr_err (*on_name)(void *context, const char *name, uint32_t slots),
                             void *context)
{
    word w = {text, size, 0, on_name, context};
    made m = {.text = ""};
    size_t user = user_size(text, size), address = 0, end = size;
    if (begins_with_address(text + user, size - user, &address)) {
        PSR_TRY(take_slots(&w, user + address, &end));
        if (end != user + address || !append(&m, text, user) ||
            !append(&m, text + user + 1, address - 2) || !psr_host_name_is_safe(m.text, m.size))
            return refuse(&w, "is not a host's name");
        return on_name(context, m.text, w.slots);
    }
    if (!is_ipv6(text + user, size - user))
        PSR_TRY(take_slots(&w, user, &end));
    return expand(&w, &m, text, text + end, 0);
}
