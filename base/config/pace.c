#include "base/config/pace.h"

#include "base/config/config_table.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- durations ---- */

/* "30", "0.5": thousandths. */
static bool read_milli(const char *text, size_t length, uint64_t *ret_milli)
{
    uint64_t milli = 0;
    int decimals = -1; /* no point yet */
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && decimals < 0 && i > 0 && i + 1 < length) {
            decimals = 0;
            continue;
        }
        if (!isdigit((unsigned char)text[i]) || decimals == 3 || milli > PSR_MILLI_EPOCHS_MOST)
            return false;
        milli = milli * 10 + (uint64_t)(text[i] - '0');
        decimals += decimals >= 0;
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++)
        milli *= 10;
    *ret_milli = milli;
    return length > 0 && milli <= PSR_MILLI_EPOCHS_MOST;
}

bool psr_duration_read(const char *text, psr_duration *ret_duration)
{
    const size_t length = strlen(text);
    psr_duration d = {0};
    bool is_one = false;
    if (length > 1 && length < 32 && text[length - 1] == 'e')
        is_one = read_milli(text, length - 1, &d.milli_epochs);
    else
        is_one = psr_parse_whole(text, &d.steps) && d.steps <= PSR_DURATION_STEPS_MOST;
    if (is_one)
        *ret_duration = d;
    return is_one;
}

void psr_duration_print(psr_duration d, char *text, size_t size)
{
    char digits[48];
    if (d.milli_epochs == 0) {
        snprintf(text, size, "%" PRIu64, d.steps);
        return;
    }
    int length = snprintf(digits, sizeof digits, "%" PRIu64 ".%03u", d.milli_epochs / 1000,
                          (unsigned)(d.milli_epochs % 1000));
    while (digits[length - 1] == '0')
        length--;
    length -= digits[length - 1] == '.';
    snprintf(text, size, "%.*se", length, digits);
}

uint64_t psr_duration_steps(psr_duration d, uint64_t epoch_steps)
{
    return d.milli_epochs == 0 ? d.steps : (d.milli_epochs * epoch_steps + 999) / 1000;
}

/* ---- deals ---- */

uint64_t psr_deal_steps(const psr_deal *deal, uint32_t used)
{
    const uint32_t left = used < deal->count ? deal->count - used : 0;
    const uint32_t whole = left / deal->workers;
    const bool uneven = left % deal->workers > 0;
    const uint32_t most = whole + (uneven && deal->partition != PSR_PARTITION_DROP);
    if (deal->drop_last)
        return (deal->partition == PSR_PARTITION_PAD ? most : whole) / deal->batch_size;
    return most / deal->batch_size + (most % deal->batch_size > 0);
}

static uint64_t step_samples(const psr_deal *deal)
{
    return (uint64_t)deal->workers * deal->batch_size;
}

static bool is_same_deal(const psr_deal *a, const psr_deal *b)
{
    return a->count == b->count && a->workers == b->workers && a->batch_size == b->batch_size &&
           a->partition == b->partition && a->drop_last == b->drop_last;
}

/* ---- paces ---- */

psr_pace psr_pace_of(const psr_deal *deal, bool by_steps)
{
    const uint64_t steps = psr_deal_steps(deal, 0);
    return (psr_pace){.deal = *deal,
                      .epoch_steps = steps,
                      .by_steps = by_steps,
                      .unit_steps = steps,
                      .rest_steps = steps};
}

psr_pace psr_pace_after(const psr_pace *before, const psr_deal *deal, uint64_t step)
{
    if (is_same_deal(&before->deal, deal))
        return *before;
    psr_pace pace = {.deal = *deal,
                     .epoch_steps = psr_deal_steps(deal, 0),
                     .by_steps = before->by_steps,
                     .unit_steps = before->unit_steps,
                     .first_step = step,
                     .first_clock = psr_pace_clock(before, step)};
    psr_pace_place(before, step, &pace.first_epoch, &pace.first_used);
    pace.rest_steps = psr_deal_steps(deal, pace.first_used);
    if (pace.rest_steps == 0) { /* what is left of the epoch gives no step */
        pace.first_epoch++;
        pace.first_used = 0;
        pace.rest_steps = pace.epoch_steps;
    }
    return pace;
}

/* Whole epochs after the first one, and steps in the last. */
static uint64_t epochs_after_first(const psr_pace *pace, uint64_t steps, uint64_t *ret_in_epoch)
{
    if (pace->epoch_steps == 0) {
        *ret_in_epoch = 0;
        return 0;
    }
    const uint64_t beyond = steps - pace->first_step - pace->rest_steps;
    *ret_in_epoch = beyond % pace->epoch_steps;
    return beyond / pace->epoch_steps;
}

static bool is_in_first(const psr_pace *pace, uint64_t steps)
{
    return steps < pace->first_step || steps - pace->first_step < pace->rest_steps;
}

static uint64_t since_first(const psr_pace *pace, uint64_t steps)
{
    return steps > pace->first_step ? steps - pace->first_step : 0;
}

void psr_pace_place(const psr_pace *pace, uint64_t steps, uint64_t *ret_epoch, uint32_t *ret_used)
{
    uint64_t in_epoch, epoch = pace->first_epoch, used = pace->first_used;
    if (is_in_first(pace, steps)) {
        used += since_first(pace, steps) * step_samples(&pace->deal);
    } else {
        epoch += 1 + epochs_after_first(pace, steps, &in_epoch);
        used = in_epoch * step_samples(&pace->deal);
    }
    *ret_epoch = epoch;
    *ret_used = used < pace->deal.count ? (uint32_t)used : pace->deal.count;
}

double psr_pace_clock(const psr_pace *pace, uint64_t steps)
{
    if (pace->epoch_steps == 0)
        return (double)steps;
    const double unit = (double)pace->unit_steps;
    uint64_t in_epoch;
    if (is_in_first(pace, steps)) {
        const double left = (double)(pace->first_epoch + 1) * unit - pace->first_clock;
        return pace->first_clock +
               (double)since_first(pace, steps) * (left / (double)pace->rest_steps);
    }
    const uint64_t epoch = pace->first_epoch + 1 + epochs_after_first(pace, steps, &in_epoch);
    return (double)epoch * unit + (double)in_epoch * (unit / (double)pace->epoch_steps);
}

uint64_t psr_pace_total(const psr_pace *pace, uint64_t epochs)
{
    if (epochs <= pace->first_epoch)
        return pace->first_step;
    return pace->first_step + pace->rest_steps +
           (epochs - pace->first_epoch - 1) * pace->epoch_steps;
}

/* How many multiples of `every` have been done. Exact where the clock is whole: numerator and
 * denominator are below 2^53, and so is the quotient's distance from the next whole number. */
static double multiples(const psr_pace *pace, psr_duration every, uint64_t steps)
{
    if (every.milli_epochs == 0)
        return (double)(steps / every.steps);
    return floor(psr_pace_clock(pace, steps) * 1000 /
                 ((double)every.milli_epochs * (double)pace->unit_steps));
}

static bool is_ever_due(const psr_pace *pace, psr_duration every)
{
    return every.milli_epochs > 0 ? pace->epoch_steps > 0 : every.steps > 0;
}

bool psr_pace_due(const psr_pace *pace, psr_duration every, uint64_t steps)
{
    return is_ever_due(pace, every) && steps > 0 &&
           multiples(pace, every, steps) > multiples(pace, every, steps - 1);
}

uint64_t psr_pace_next_due(const psr_pace *pace, psr_duration every, uint64_t steps)
{
    if (!is_ever_due(pace, every))
        return UINT64_MAX;
    const double done = multiples(pace, every, steps);
    uint64_t low = steps, high = steps + 1; /* not due at low since steps */
    while (multiples(pace, every, high) <= done) {
        low = high;
        high = steps + 2 * (high - steps);
    }
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (multiples(pace, every, middle) > done)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- as text ---- */

void psr_pace_print(const psr_pace *pace, char text[static PSR_PACE_TEXT_MAX])
{
    const psr_deal *d = &pace->deal;
    snprintf(text, PSR_PACE_TEXT_MAX,
             "count=%" PRIu32 " workers=%" PRIu32 " batch=%" PRIu32 " partition=%" PRIu32
             " drop=%d by-steps=%d unit=%" PRIu64 " step=%" PRIu64 " epoch=%" PRIu64
             " used=%" PRIu32 " clock=%.17g",
             d->count, d->workers, d->batch_size, d->partition, d->drop_last, pace->by_steps,
             pace->unit_steps, pace->first_step, pace->first_epoch, pace->first_used,
             pace->first_clock);
}

/* Moves *at past "name=NUMBER " and reads the number, of at most `most`. */
static bool read_field(const char **at, const char *name, uint64_t most, uint64_t *ret_value)
{
    const size_t length = strlen(name);
    if (strncmp(*at, name, length) != 0 || !isdigit((unsigned char)(*at)[length]))
        return false;
    char *end;
    const unsigned long long value = strtoull(*at + length, &end, 10);
    if (value > most || *end != ' ')
        return false;
    *at = end + 1;
    *ret_value = value;
    return true;
}

psr_err psr_pace_read(const char *text, psr_pace *ret_pace)
{
    static const struct {
        const char *name;
        uint64_t most;
    } fields[] = {{"count=", UINT32_MAX},
                  {"workers=", 1 << 20},
                  {"batch=", 1 << 20},
                  {"partition=", PSR_PARTITION_PAD},
                  {"drop=", 1},
                  {"by-steps=", 1},
                  {"unit=", UINT32_MAX},
                  {"step=", PSR_DURATION_STEPS_MOST},
                  {"epoch=", PSR_DURATION_STEPS_MOST},
                  {"used=", UINT32_MAX}};
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    uint64_t v[FIELDS] = {0};
    const char *at = text;
    double clock = 0;
    for (size_t i = 0; i < FIELDS; i++)
        if (!read_field(&at, fields[i].name, fields[i].most, &v[i]))
            return psr_fail(PSR_ERR_FORMAT, "the place in the data has no field \"%s\"",
                            fields[i].name);
    if (strncmp(at, "clock=", 6) != 0 || !psr_parse_double(at + 6, &clock) || clock < 0 ||
        clock > 0x1p50)
        return psr_fail(PSR_ERR_FORMAT, "the place in the data has no field \"clock=\"");
    psr_pace pace = {.deal = {.count = (uint32_t)v[0],
                              .workers = (uint32_t)v[1],
                              .batch_size = (uint32_t)v[2],
                              .partition = (uint32_t)v[3],
                              .drop_last = v[4] != 0},
                     .by_steps = v[5] != 0,
                     .unit_steps = v[6],
                     .first_step = v[7],
                     .first_epoch = v[8],
                     .first_used = (uint32_t)v[9],
                     .first_clock = clock};
    if (pace.deal.workers == 0 || pace.deal.batch_size == 0)
        return psr_fail(PSR_ERR_FORMAT, "the place in the data is of no worker or no sample");
    pace.epoch_steps = psr_deal_steps(&pace.deal, 0);
    pace.rest_steps = psr_deal_steps(&pace.deal, pace.first_used);
    if (pace.epoch_steps == 0 || pace.unit_steps == 0 || pace.rest_steps == 0)
        return psr_fail(PSR_ERR_FORMAT, "the place in the data has an epoch without a step");
    *ret_pace = pace;
    return PSR_OK;
}
