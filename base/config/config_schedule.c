/* --lr-schedule: reads and prints what model/optimizers/schedule.c computes; and --lr-factor and
 * --decay-factor. */
#include "base/config/config_table.h"

#include "base/text/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field number `index` of text whose fields colons separate. false: it has fewer, or the field is
 * too long. */
static bool field_at(const char *text, uint32_t index, char *field, size_t size)
{
    for (; index > 0; index--) {
        text = strchr(text, ':');
        if (text == NULL)
            return false;
        text++;
    }
    const size_t length = strcspn(text, ":");
    if (length >= size)
        return false;
    memcpy(field, text, length);
    field[length] = '\0';
    return true;
}

static uint32_t count_fields(const char *text)
{
    uint32_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == ':';
    return count;
}

/* A number in field `index`, above low and at most high; or, where low is allowed too, from it. */
static bool number_at(const char *text, uint32_t index, double low, bool low_too, double high,
                      double *ret_value)
{
    char field[64];
    double value;
    if (!field_at(text, index, field, sizeof field) || !psr_parse_double(field, &value) ||
        value < low || (value == low && !low_too) || value > high)
        return false;
    *ret_value = value;
    return true;
}

static bool is_later(psr_duration one, psr_duration other)
{
    return (one.milli_epochs > 0) == (other.milli_epochs > 0) &&
           (one.milli_epochs > 0 ? one.milli_epochs > other.milli_epochs : one.steps > other.steps);
}

/* "30e,60e,80e": in ascending order, all in steps or all in epochs. */
static bool read_milestones(const char *text, psr_lr_schedule *schedule)
{
    for (const char *at = text;; at++) {
        char word[64];
        psr_duration d;
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word || schedule->milestone_count == PSR_MILESTONES_MAX)
            return false;
        memcpy(word, at, length);
        word[length] = '\0';
        const uint32_t count = schedule->milestone_count;
        if (!psr_duration_read(word, &d) || psr_duration_is_none(d) ||
            (count > 0 && !is_later(d, schedule->milestones[count - 1])))
            return false;
        schedule->milestones[schedule->milestone_count++] = d;
        at += length;
        if (*at == '\0')
            return true;
    }
}

/* With its number of fields: they are all there, and no more. A field that a schedule does not use
 * keeps its neutral value, so that equal schedules are equal structs. */
static bool read_fields(const char *name, const char *text, uint32_t fields,
                        psr_lr_schedule *schedule)
{
    char list[512];
    if (strcmp(name, "constant") == 0 && fields == 1) {
        schedule->kind = PSR_SCHEDULE_CONSTANT;
        return true;
    }
    if (strcmp(name, "cosine") == 0 && fields <= 2) {
        schedule->kind = PSR_SCHEDULE_COSINE;
        return fields == 1 || number_at(text, 1, 0, true, 1e6, &schedule->end);
    }
    if (strcmp(name, "poly") == 0 && fields == 2) {
        schedule->kind = PSR_SCHEDULE_POLY;
        return number_at(text, 1, 0, false, 100, &schedule->power);
    }
    if (strcmp(name, "step") == 0 && fields == 3) {
        schedule->kind = PSR_SCHEDULE_STEP;
        return field_at(text, 1, list, sizeof list) && psr_duration_read(list, &schedule->every) &&
               !psr_duration_is_none(schedule->every) &&
               number_at(text, 2, 0, false, 1, &schedule->gamma);
    }
    if (strcmp(name, "multistep") == 0 && fields == 3) {
        schedule->kind = PSR_SCHEDULE_MULTISTEP;
        return field_at(text, 1, list, sizeof list) && read_milestones(list, schedule) &&
               number_at(text, 2, 0, false, 1, &schedule->gamma);
    }
    if (strcmp(name, "onecycle") == 0 && fields <= 4) {
        schedule->kind = PSR_SCHEDULE_ONECYCLE;
        schedule->rise = 0.3;
        schedule->divide_first = 25;
        schedule->divide_last = 1e4;
        return (fields < 2 ||
                (number_at(text, 1, 0, false, 1, &schedule->rise) && schedule->rise < 1)) &&
               (fields < 3 || number_at(text, 2, 1, true, 1e12, &schedule->divide_first)) &&
               (fields < 4 || number_at(text, 3, 1, true, 1e12, &schedule->divide_last));
    }
    return false;
}

psr_err psr_config_read_schedule(psr_config *config, const char *text)
{
    char name[32];
    psr_lr_schedule schedule;
    memset(&schedule, 0, sizeof schedule); /* the gaps too: configurations are compared as bytes */
    schedule.gamma = schedule.power = 1;
    if (!field_at(text, 0, name, sizeof name) ||
        !read_fields(name, text, count_fields(text), &schedule))
        return psr_fail(PSR_ERR_USAGE,
                        "'%.200s' is not a schedule; give constant, cosine or cosine:END, "
                        "poly:POWER (poly:2), step:EVERY:GAMMA (step:1000:0.1, step:30e:0.1), "
                        "multistep:A,B,..:GAMMA with A < B, all in steps or all in epochs "
                        "(multistep:30e,60e,80e:0.1), or onecycle[:RISE[:FIRST[:LAST]]] "
                        "(onecycle:0.3:25:10000), with 0 < GAMMA <= 1",
                        text);
    memcpy(&config->schedule, &schedule, sizeof schedule);
    return PSR_OK;
}

static void add_number(psr_text_end *end, const char *before, double value)
{
    char number[32];
    psr_print_double(value, number, sizeof number);
    psr_text_add(end, "%s%s", before, number);
}

static void add_duration(psr_text_end *end, const char *before, psr_duration duration)
{
    char text[64];
    psr_duration_print(duration, text, sizeof text);
    psr_text_add(end, "%s%s", before, text);
}

void psr_config_print_schedule(const psr_config *config, char *text, size_t size)
{
    static const char *const names[] = {"constant", "step",      "cosine",
                                        "poly",     "multistep", "onecycle"};
    const psr_lr_schedule *s = &config->schedule;
    psr_text_end end = {text, size};
    psr_text_add(&end, "%s", names[s->kind]);
    switch (s->kind) {
    case PSR_SCHEDULE_CONSTANT:
        break;
    case PSR_SCHEDULE_COSINE:
        if (s->end > 0)
            add_number(&end, ":", s->end);
        break;
    case PSR_SCHEDULE_POLY:
        add_number(&end, ":", s->power);
        break;
    case PSR_SCHEDULE_STEP:
        add_duration(&end, ":", s->every);
        add_number(&end, ":", s->gamma);
        break;
    case PSR_SCHEDULE_MULTISTEP:
        for (uint32_t i = 0; i < s->milestone_count; i++)
            add_duration(&end, i == 0 ? ":" : ",", s->milestones[i]);
        add_number(&end, ":", s->gamma);
        break;
    case PSR_SCHEDULE_ONECYCLE:
        add_number(&end, ":", s->rise);
        add_number(&end, ":", s->divide_first);
        add_number(&end, ":", s->divide_last);
        break;
    }
}

/* ---- --lr-factor, --decay-factor ---- */

#define FACTOR_MOST 1e6

/* Reads the next entry, PATTERN=FACTOR, as psr_config_next_entry does. */
static bool next_factor(const char **at, char pattern[static PSR_FACTORS_TEXT_MAX],
                        double *ret_factor, bool *ret_ok)
{
    psr_config_entry entry;
    if (!psr_config_next_entry(at, pattern, PSR_FACTORS_TEXT_MAX, &entry, ret_ok))
        return false;
    char *end = NULL;
    const bool begins = entry.size > 0 && strchr("0123456789.", entry.value[0]) != NULL;
    *ret_factor = begins ? strtod(entry.value, &end) : -1;
    *ret_ok =
        begins && end == entry.value + entry.size && *ret_factor >= 0 && *ret_factor <= FACTOR_MOST;
    return *ret_ok;
}

psr_err psr_config_judge_factors(psr_config *config, const char *text)
{
    char pattern[PSR_FACTORS_TEXT_MAX];
    double factor;
    bool ok = true;
    (void)config;
    for (const char *at = text; next_factor(&at, pattern, &factor, &ok);)
        ;
    if (ok)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%s' is no list of PATTERN=FACTOR, factors from 0 to %g; give one "
                    "(*.bias=64,fc.*=10)",
                    text, FACTOR_MOST);
}

double psr_config_factor_of(const char *factors, const char *tensor)
{
    char pattern[PSR_FACTORS_TEXT_MAX];
    double factor;
    bool ok;
    for (const char *at = factors; next_factor(&at, pattern, &factor, &ok);)
        if (fnmatch(pattern, tensor, 0) == 0)
            return factor;
    return 1;
}

bool psr_config_factor_pattern(const char *factors, uint32_t index,
                               char ret_pattern[static PSR_FACTORS_TEXT_MAX])
{
    double factor;
    bool ok;
    const char *at = factors;
    for (uint32_t i = 0; next_factor(&at, ret_pattern, &factor, &ok); i++)
        if (i == index)
            return true;
    return false;
}
