/* Reads values of options from text, and prints them as text that reads back to the same bits. */
#include "base/config/config_table.h"

#include "base/text/nearest.h"
#include "base/text/printable.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool psr_parse_u64(const char *text, uint64_t *ret_value)
{
    /* strtoull takes blanks and signs, and turns -1 into 2^64-1. */
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *ret_value = value;
    return true;
}

/* The digits of "1.5e6" are 15, with one of them behind the point: 15 * 10^(6-1). */
bool psr_parse_whole(const char *text, uint64_t *ret_value)
{
    char digits[32];
    size_t count = 0, behind = 0;
    bool has_point = false;
    const char *at = text;
    uint64_t value, power;
    for (; isdigit((unsigned char)*at) || (*at == '.' && !has_point && at > text); at++) {
        has_point |= *at == '.';
        if (*at == '.')
            continue;
        if (count + 1 >= sizeof digits)
            return false;
        digits[count++] = *at;
        behind += has_point;
    }
    if (*at != 'e' && *at != 'E')
        return psr_parse_u64(text, ret_value);
    digits[count] = '\0';
    at += at[1] == '+' ? 2 : 1;
    for (; behind > 0 && digits[count - 1] == '0'; behind--)
        digits[--count] = '\0';
    if (!psr_parse_u64(digits, &value) || !psr_parse_u64(at, &power) || power < behind ||
        power - behind > 19)
        return false;
    for (power -= behind; power > 0; power--) {
        if (value > UINT64_MAX / 10)
            return false;
        value *= 10;
    }
    *ret_value = value;
    return true;
}

bool psr_parse_counted(const char *text, char *first, size_t size, uint32_t otherwise,
                       uint32_t *ret_count)
{
    const size_t length = strcspn(text, ":");
    uint64_t count = otherwise;
    if (length >= size || (text[length] == ':' && (!psr_parse_u64(text + length + 1, &count) ||
                                                   count == 0 || count > PSR_COUNT_MAX)))
        return false;
    memcpy(first, text, length);
    first[length] = '\0';
    *ret_count = (uint32_t)count;
    return true;
}

bool psr_parse_double(const char *text, double *ret_value)
{
    if (text[0] == '\0' || isspace((unsigned char)text[0]))
        return false;
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

void psr_print_double(double value, char *text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

static const struct {
    char letter;
    unsigned shift;
} size_suffixes[] = {{'G', 30}, {'M', 20}, {'K', 10}};
enum { SUFFIX_COUNT = sizeof size_suffixes / sizeof size_suffixes[0] };

static bool parse_bytes(const char *text, uint64_t *ret_value)
{
    char digits[32];
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length + 1);

    unsigned shift = 0;
    for (int i = 0; i < SUFFIX_COUNT; i++) {
        if (toupper((unsigned char)text[length - 1]) == size_suffixes[i].letter) {
            shift = size_suffixes[i].shift;
            digits[length - 1] = '\0';
        }
    }
    uint64_t value;
    if (!psr_parse_u64(digits, &value) || value > UINT64_MAX >> shift)
        return false;
    *ret_value = value << shift;
    return true;
}

static void print_bytes(uint64_t value, char *text, size_t size)
{
    for (int i = 0; i < SUFFIX_COUNT; i++) {
        uint64_t unit = (uint64_t)1 << size_suffixes[i].shift;
        if (value != 0 && value % unit == 0) {
            snprintf(text, size, "%" PRIu64 "%c", value / unit, size_suffixes[i].letter);
            return;
        }
    }
    snprintf(text, size, "%" PRIu64, value);
}

static psr_err check_bounds(const psr_option *option, uint64_t value, const char *text)
{
    if (value >= option->least && value <= option->most)
        return PSR_OK;
    char least[32], most[32];
    if (option->kind == PSR_OPTION_BYTES) {
        print_bytes(option->least, least, sizeof least);
        print_bytes(option->most, most, sizeof most);
    } else {
        snprintf(least, sizeof least, "%" PRIu64, option->least);
        snprintf(most, sizeof most, "%" PRIu64, option->most);
    }
    return psr_fail(PSR_ERR_USAGE, "--%s: %s is out of bounds; give %s%s%s to %s", option->name,
                    text, option->zero != NULL ? option->zero : "",
                    option->zero != NULL ? ", or " : "", least, most);
}

static psr_err read_number(const psr_option *option, const char *text, uint64_t *ret_value)
{
    if (option->zero != NULL && strcmp(text, option->zero) == 0) {
        *ret_value = 0;
        return PSR_OK;
    }
    if (option->kind == PSR_OPTION_BYTES) {
        if (!parse_bytes(text, ret_value))
            return psr_fail(
                PSR_ERR_USAGE,
                "--%s: '%s' is not a size; give %s%sbytes, or a number with K, M or G (4M)",
                option->name, text, option->zero != NULL ? option->zero : "",
                option->zero != NULL ? ", " : "");
    } else if (!psr_parse_whole(text, ret_value)) {
        return psr_fail(PSR_ERR_USAGE, "--%s: '%s' is not a whole number; give one like %s",
                        option->name, text, option->initial);
    }
    return check_bounds(option, *ret_value, text);
}

static psr_err read_double(const psr_option *option, const char *text, double *ret_value)
{
    double value;
    if (!psr_parse_double(text, &value))
        return psr_fail(PSR_ERR_USAGE, "--%s: '%s' is not a number; give one like %s", option->name,
                        text, option->initial);
    bool low = option->low_excluded ? value <= option->low : value < option->low;
    bool high = option->high_excluded ? value >= option->high : value > option->high;
    if (low || high) {
        char least[32], most[32];
        psr_print_double(option->low, least, sizeof least);
        psr_print_double(option->high, most, sizeof most);
        return psr_fail(PSR_ERR_USAGE, "--%s: %s is out of bounds; give a number %s %s and %s %s",
                        option->name, text, option->low_excluded ? "above" : "from", least,
                        option->high_excluded ? "below" : "up to", most);
    }
    *ret_value = value;
    return PSR_OK;
}

static bool is_unlisted(const psr_option *option, const char *word)
{
    for (const char *const *known = option->unlisted; known != NULL && *known != NULL; known++) {
        if (strcmp(*known, word) == 0)
            return true;
    }
    return false;
}

/* "'rong' is not known (ring?); give one of ps, ring, local" */
static psr_err refuse_word(const psr_option *option, const char *text)
{
    char list[512] = "";
    const char *near = NULL;
    for (const char *const *word = option->words; *word != NULL; word++) {
        size_t used = strlen(list);
        if (is_unlisted(option, *word))
            continue;
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", *word);
        near = psr_nearer(text, near, *word);
    }
    if (near != NULL)
        return psr_fail(PSR_ERR_USAGE, "'%s' is not known (%s?); give one of %s", text, near, list);
    return psr_fail(PSR_ERR_USAGE, "'%s' is not known; give one of %s", text, list);
}

psr_err psr_option_find_word(const psr_option *option, const char *text, int *ret_index)
{
    for (int i = 0; option->words[i] != NULL; i++) {
        if (strcmp(option->words[i], text) == 0) {
            *ret_index = i;
            return PSR_OK;
        }
    }
    return refuse_word(option, text);
}

static psr_err read_flag(const psr_option *option, const char *text, bool *ret_value)
{
    static const char *const on[] = {"true", "yes", "on", "1"};
    static const char *const off[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < sizeof on / sizeof on[0]; i++) {
        if (strcmp(text, on[i]) == 0 || strcmp(text, off[i]) == 0) {
            *ret_value = strcmp(text, on[i]) == 0;
            return PSR_OK;
        }
    }
    return psr_fail(PSR_ERR_USAGE, "--%s: '%s' is neither true nor false", option->name, text);
}

static psr_err read_string(const psr_option *option, psr_config *config, const char *text)
{
    size_t length = strlen(text);
    if (length >= option->size)
        return psr_fail(PSR_ERR_USAGE, "--%s: %zu bytes are too long; %zu is the limit",
                        option->name, length, option->size - 1);
    for (size_t i = 0; i < length; i++) {
        /* A control character would break log lines, and the lines of run.json. */
        if (iscntrl((unsigned char)text[i]))
            return psr_fail(PSR_ERR_USAGE, "--%s: byte %zu is a control character", option->name,
                            i);
    }
    if (!psr_is_printable(text, length))
        return psr_fail(PSR_ERR_USAGE, "--%s: '%s' holds control characters or is not UTF-8",
                        option->name, text);
    if (option->read != NULL) {
        psr_err err = option->read(config, text);
        if (err != PSR_OK)
            return psr_fail_context(err, "--%s", option->name);
    }
    /* Clears the whole field, so that equal configurations are equal structs. */
    char *field = (char *)config + option->offset;
    memset(field, 0, option->size);
    memcpy(field, text, length);
    return PSR_OK;
}

psr_err psr_option_read(const psr_option *option, psr_config *config, const char *text)
{
    char *field = (char *)config + option->offset;
    switch (option->kind) {
    case PSR_OPTION_FLAG: {
        bool value = false;
        PSR_TRY(read_flag(option, text, &value));
        memcpy(field, &value, sizeof value);
        return PSR_OK;
    }
    case PSR_OPTION_U32: {
        uint64_t value = 0;
        PSR_TRY(read_number(option, text, &value));
        uint32_t narrow = (uint32_t)value; /* the table's bound is below 2^32 */
        memcpy(field, &narrow, sizeof narrow);
        return PSR_OK;
    }
    case PSR_OPTION_DURATION: {
        psr_duration value;
        if (!psr_duration_read(text, &value))
            return psr_fail(
                PSR_ERR_USAGE,
                "--%s: '%s' is no duration; give steps (1000) or epochs with an e (30e, "
                "0.5e), with at most three decimals",
                option->name, text);
        memcpy(field, &value, sizeof value);
        return PSR_OK;
    }
    case PSR_OPTION_U64:
    case PSR_OPTION_BYTES: {
        uint64_t value = 0;
        PSR_TRY(read_number(option, text, &value));
        memcpy(field, &value, sizeof value);
        return PSR_OK;
    }
    case PSR_OPTION_DOUBLE: {
        double value = 0;
        PSR_TRY(read_double(option, text, &value));
        memcpy(field, &value, sizeof value);
        return PSR_OK;
    }
    case PSR_OPTION_STRING:
        return read_string(option, config, text);
    case PSR_OPTION_ENUM: {
        int value = 0;
        psr_err err = psr_option_find_word(option, text, &value);
        if (err != PSR_OK)
            return psr_fail_context(err, "--%s", option->name);
        memcpy(field, &value, sizeof value);
        return PSR_OK;
    }
    case PSR_OPTION_SPECIAL: {
        psr_err err = option->read(config, text);
        return err == PSR_OK ? PSR_OK : psr_fail_context(err, "--%s", option->name);
    }
    }
    return psr_fail(PSR_ERR_USAGE, "--%s: has no kind", option->name);
}

bool psr_option_print(const psr_option *option, const psr_config *config, char *text, size_t size)
{
    const char *field = (const char *)config + option->offset;
    char whole[PSR_OPTION_TEXT_MAX] = "";
    switch (option->kind) {
    case PSR_OPTION_FLAG: {
        bool value = false;
        memcpy(&value, field, sizeof value);
        snprintf(whole, sizeof whole, "%s", value ? "true" : "false");
        break;
    }
    case PSR_OPTION_U32: {
        uint32_t value;
        memcpy(&value, field, sizeof value);
        if (option->zero != NULL && value == 0)
            snprintf(whole, sizeof whole, "%s", option->zero);
        else
            snprintf(whole, sizeof whole, "%" PRIu32, value);
        break;
    }
    case PSR_OPTION_DURATION: {
        psr_duration value;
        memcpy(&value, field, sizeof value);
        psr_duration_print(value, whole, sizeof whole);
        break;
    }
    case PSR_OPTION_U64:
    case PSR_OPTION_BYTES: {
        uint64_t value = 0;
        memcpy(&value, field, sizeof value);
        if (option->zero != NULL && value == 0)
            snprintf(whole, sizeof whole, "%s", option->zero);
        else if (option->kind == PSR_OPTION_BYTES)
            print_bytes(value, whole, sizeof whole);
        else
            snprintf(whole, sizeof whole, "%" PRIu64, value);
        break;
    }
    case PSR_OPTION_DOUBLE: {
        double value = 0;
        memcpy(&value, field, sizeof value);
        psr_print_double(value, whole, sizeof whole);
        break;
    }
    case PSR_OPTION_STRING:
        snprintf(whole, sizeof whole, "%s", field);
        break;
    case PSR_OPTION_ENUM: {
        int value = 0;
        memcpy(&value, field, sizeof value);
        snprintf(whole, sizeof whole, "%s", option->words[value]);
        break;
    }
    case PSR_OPTION_SPECIAL:
        option->print(config, whole, sizeof whole);
        break;
    }
    size_t length = strlen(whole);
    if (length >= size)
        return false;
    memcpy(text, whole, length + 1);
    return true;
}
