#include "base/text/printable.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character at text, of size bytes or fewer, with its number in UTF-8 (RFC 3629,
 * section 4): 0 when there is none, which holds for one that is longer than it need be, too. */
static size_t read_character(const unsigned char *text, size_t size, uint32_t *ret_character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = text[0];
    size_t bytes = lead < 0x80                   ? 1
                   : lead >= 0xf0 && lead < 0xf8 ? 4
                   : lead >= 0xe0                ? 3
                   : lead >= 0xc0                ? 2
                                                 : 0;
    if (bytes == 0 || lead >= 0xf8 || bytes > size)
        return 0;
    uint32_t character = bytes == 1 ? lead : lead & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | (text[i] & 0x3f);
    }
    if (character < least[bytes] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff))
        return 0;
    *ret_character = character;
    return bytes;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f);
}

static bool changes_direction_or_line(uint32_t c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* Bytes from text on that may be printed as they are, up to size; what stops it there is *ret_bad
 * bytes long. */
static size_t good_bytes(const char *text, size_t size, size_t *ret_bad)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t at = 0;
    while (at < size) {
        uint32_t character = 0;
        size_t length = read_character(bytes + at, size - at, &character);
        if (length == 0 || is_control(character) || changes_direction_or_line(character)) {
            *ret_bad = length > 0 ? length : 1;
            return at;
        }
        at += length;
    }
    *ret_bad = 0;
    return size;
}

static void filter(char *text, size_t size, bool keep_lines)
{
    size_t bad = 0;
    for (size_t at = good_bytes(text, size, &bad); at < size;
         at += good_bytes(text + at, size - at, &bad)) {
        if (text[at] != '\n' && text[at] != '\t')
            memset(text + at, '?', bad);
        else if (!keep_lines)
            text[at] = ' ';
        at += bad;
    }
}

void psr_printable_line(char *line, size_t size)
{
    filter(line, size, false);
}

void psr_printable_text(char *text, size_t size)
{
    filter(text, size, true);
}

bool psr_is_printable(const char *line, size_t size)
{
    size_t bad = 0;
    return good_bytes(line, size, &bad) == size;
}

void psr_print(FILE *to, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0)
        return;
    psr_printable_text(text, (size_t)size);
    fwrite(text, 1, (size_t)size, to);
    free(text);
}
