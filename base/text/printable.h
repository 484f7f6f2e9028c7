/* The one filter in front of every terminal. Names of hosts and files, lines of peers and the
 * content of run.json come from elsewhere. Bytes in them that a terminal could take for a command,
 * or would show as other text than is there, become question marks.
 *
 * These are the control characters of ASCII (ESC above all) and DEL, those of C1 (U+0080 to U+009F,
 * which some terminals take for ESC and a letter), bytes that are not UTF-8, and the marks that
 * turn the direction of writing or end a line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to
 * U+2069). Any thread. */
#ifndef PSR_BASE_TEXT_PRINTABLE_H
#define PSR_BASE_TEXT_PRINTABLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Changes the text where it must be, byte for byte, so that its size stays. _line: newlines and
 * tabs become blanks; _text: they stay. size: without an end mark; bytes of zero count as control
 * characters. */
void psr_printable_line(char *line, size_t size);
void psr_printable_text(char *text, size_t size);

/* Whether psr_printable_line would leave it as it is. */
bool psr_is_printable(const char *line, size_t size);

/* fprintf through psr_printable_text, for what commands say on stdout and stderr. Without memory
 * nothing is printed. */
void psr_print(FILE *to, const char *format, ...) PSR_PRINTF(2, 3);

#endif
