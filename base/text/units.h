/* Rates of links and short times as a person writes them: "100Mbit", "2.5Gbit" (bits per second,
 * decimal, as tc's), "1ms", "250us", "0.5s". Any thread. */
#ifndef PSR_BASE_TEXT_UNITS_H
#define PSR_BASE_TEXT_UNITS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The slowest and the fastest link that is known. */
#define PSR_RATE_LEAST 1000ull
#define PSR_RATE_MOST 1000000000000ull

/* Bits per second; the unit (bit, Kbit, Mbit, Gbit, in any case) must be there. false: it is no
 * such text, or out of those bounds. */
bool psr_rate_parse(const char *text, size_t size, uint64_t *ret_bits_per_s);

/* Seconds, up to an hour; the unit (us, ms, s) must be there. false: it is no such text. */
bool psr_duration_parse(const char *text, size_t size, double *ret_seconds);

/* "100Mbit", "2500bit": reads back as the same. */
#define PSR_RATE_TEXT_BYTES 32
void psr_rate_print(uint64_t bits_per_s, char text[PSR_RATE_TEXT_BYTES]);

#endif
