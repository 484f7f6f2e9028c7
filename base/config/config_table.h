/* The rows of the table behind base/config/config.h, for the config_*.c files only. */
#ifndef PSR_BASE_CONFIG_CONFIG_TABLE_H
#define PSR_BASE_CONFIG_CONFIG_TABLE_H

#include "base/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psr_option {
    const char *name;
    const char *argument;
    const char *help;
    const char *group;
    const char *initial; /* the default, as text that the option itself reads */
    psr_option_kind kind;
    size_t offset;        /* of the field in psr_config; SPECIAL options do not use it */
    size_t size;          /* for STRING: bytes of the array */
    uint64_t least, most; /* for U32, U64 and BYTES, inclusive */
    double low, high;     /* for DOUBLE, inclusive unless the fields below say otherwise */
    bool low_excluded, high_excluded;
    /* for U32 and BYTES: a word for 0, which is outside the bounds; NULL: there is none */
    const char *zero;
    /* for ENUM: by value; for STRING: what a shell offers, or NULL; ends with NULL */
    const char *const *words;
    /* words that a refusal does not offer, because they are not for users or not in this build */
    const char *const *unlisted;
    const char *aloud;    /* see psr_option_info */
    const char *aloud_at; /* the value for which aloud is; NULL: all except the default */
    /* the meaning of "--NAME" without an argument; NULL: the argument must be given */
    const char *implied;
    bool hidden;
    bool negatable;
    /* values other than the default may weaken a run's protection, so no file may set it */
    bool protects;
    bool for_shards; /* shards need it: psr_config_to_json_for_shards */
    /* SPECIAL options read and print themselves. A STRING may have a read that only checks. Text is
     * never NULL. The caller puts "--NAME: " before a failure's detail. */
    psr_err (*read)(psr_config *config, const char *text);
    void (*print)(const psr_config *config, char *text, size_t size);
};

extern const psr_option psr_options[];
extern const size_t psr_options_count;

/* NULL when there is none of that name. */
const psr_option *psr_option_find(const char *name);

/* The option name that is most similar to the given one; NULL: none is similar. */
const char *psr_option_nearest(const char *name);

/* Reads text into the option's field. USAGE; config is untouched on failure. */
PSR_MUST_CHECK psr_err psr_option_read(const psr_option *option, psr_config *config,
                                       const char *text);

/* The field as text; false when size is too small. */
bool psr_option_print(const psr_option *option, const psr_config *config, char *text, size_t size);

/* Finds the index of a word among the option's words. USAGE: the message offers the words that a
 * user may give. It does not begin with the option's name; the caller adds that. */
PSR_MUST_CHECK psr_err psr_option_find_word(const psr_option *option, const char *text,
                                            int *ret_index);

/* config_schedule.c: --lr-factor and --decay-factor. */
PSR_MUST_CHECK psr_err psr_config_judge_factors(psr_config *config, const char *text);

/* config_modes.c: --mode and --route. */
PSR_MUST_CHECK psr_err psr_config_read_mode(psr_config *config, const char *text);
void psr_config_print_mode(const psr_config *config, char *text, size_t size);
PSR_MUST_CHECK psr_err psr_config_judge_route(psr_config *config, const char *text);

/* config_schedule.c: --lr-schedule. */
PSR_MUST_CHECK psr_err psr_config_read_schedule(psr_config *config, const char *text);
void psr_config_print_schedule(const psr_config *config, char *text, size_t size);

/* config_tensors.c. An entry of a list PATTERN=VALUE,..: its value, borrowed from the text. */
typedef struct psr_config_entry {
    const char *value;
    size_t size;
} psr_config_entry;

/* Reads the next entry's pattern, of less than size bytes, and moves *at behind the entry. false:
 * there is none left (*ret_ok), or the text is not an entry (not *ret_ok). */
bool psr_config_next_entry(const char **at, char *pattern, size_t size, psr_config_entry *ret_entry,
                           bool *ret_ok);

/* config_metrics.c: --metrics-port. */
PSR_MUST_CHECK psr_err psr_config_read_metrics_port(psr_config *config, const char *text);
void psr_config_print_metrics_port(const psr_config *config, char *text, size_t size);

/* config_loss_scale.c: --loss-scale. */
PSR_MUST_CHECK psr_err psr_config_read_loss_scale(psr_config *config, const char *text);
void psr_config_print_loss_scale(const psr_config *config, char *text, size_t size);

/* config_ema.c: --ema. */
PSR_MUST_CHECK psr_err psr_config_read_ema(psr_config *config, const char *text);
void psr_config_print_ema(const psr_config *config, char *text, size_t size);

/* config_tensors.c: --no-decay and --freeze. */
PSR_MUST_CHECK psr_err psr_config_read_no_decay(psr_config *config, const char *text);
void psr_config_print_no_decay(const psr_config *config, char *text, size_t size);
PSR_MUST_CHECK psr_err psr_config_judge_freeze(psr_config *config, const char *text);

/* config_trace.c: --trace. */
PSR_MUST_CHECK psr_err psr_config_read_trace(psr_config *config, const char *text);
void psr_config_print_trace(const psr_config *config, char *text, size_t size);

/* The shortest of %.15g, %.16g and %.17g that reads back to the same bits. */
void psr_print_double(double value, char *text, size_t size);

/* The whole of text as a finite number, or false. */
bool psr_parse_double(const char *text, double *ret_value);

/* The whole of text as a decimal number, or false (also beyond 2^64-1). */
bool psr_parse_u64(const char *text, uint64_t *ret_value);
/* The same, or with a power of ten where that is a whole number: 1e3, 1.5e6. Exact. */
bool psr_parse_whole(const char *text, uint64_t *ret_value);

/* "A" or "A:COUNT". first: A, of less than size bytes, for the caller to read; *ret_count: COUNT, 1
 * to PSR_COUNT_MAX, or otherwise where there is none. false: it is neither. */
#define PSR_COUNT_MAX 1000000
bool psr_parse_counted(const char *text, char *first, size_t size, uint32_t otherwise,
                       uint32_t *ret_count);

#endif
