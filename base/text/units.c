#include "base/text/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit rate_units[] = {{"Gbit", 1e9}, {"Mbit", 1e6}, {"Kbit", 1e3}, {"bit", 1}};
static const unit time_units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
#define COUNT(units) (sizeof(units) / sizeof *(units))

/* A number without sign or exponent, and one of the units behind it. */
static bool parse(const char *text, size_t size, const unit *units, size_t count, double *ret_value)
{
    char number[32], *end;
    size_t digits = 0;
    while (digits < size && (isdigit((unsigned char)text[digits]) || text[digits] == '.'))
        digits++;
    if (digits == 0 || digits >= sizeof number || !isdigit((unsigned char)text[0]))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    const double value = strtod(number, &end);
    if (*end != '\0')
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strlen(units[i].name) == size - digits &&
            strncasecmp(units[i].name, text + digits, size - digits) == 0) {
            *ret_value = value * units[i].factor;
            return true;
        }
    }
    return false;
}

bool psr_rate_parse(const char *text, size_t size, uint64_t *ret_bits_per_s)
{
    double value;
    if (!parse(text, size, rate_units, COUNT(rate_units), &value) ||
        value < (double)PSR_RATE_LEAST || value > (double)PSR_RATE_MOST)
        return false;
    *ret_bits_per_s = (uint64_t)llround(value);
    return true;
}

bool psr_duration_parse(const char *text, size_t size, double *ret_seconds)
{
    double value;
    if (!parse(text, size, time_units, COUNT(time_units), &value) || value > 3600)
        return false;
    *ret_seconds = value;
    return true;
}

void psr_rate_print(uint64_t bits_per_s, char text[PSR_RATE_TEXT_BYTES])
{
    for (size_t i = 0; i < COUNT(rate_units); i++) {
        const uint64_t factor = (uint64_t)rate_units[i].factor;
        if (bits_per_s % (factor >= 1000 ? factor / 1000 : 1) != 0 || bits_per_s < factor)
            continue;
        snprintf(text, PSR_RATE_TEXT_BYTES, "%.15g%s", (double)bits_per_s / rate_units[i].factor,
                 rate_units[i].name);
        return;
    }
    snprintf(text, PSR_RATE_TEXT_BYTES, "%" PRIu64 "bit", bits_per_s);
}
