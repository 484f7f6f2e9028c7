#include "base/config/help_width.h"

#include "base/config/config_table.h"
#include "base/text/printable.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_MIN 40
#define WIDTH_MAX 100
#define WIDTH_UNTOLD 80

static unsigned told_width(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    uint64_t width;
    if (columns != NULL && psr_parse_u64(columns, &width) && width > 0)
        return width < WIDTH_MAX ? (unsigned)width : WIDTH_MAX;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return WIDTH_UNTOLD;
}

unsigned psr_help_width(void)
{
    const unsigned width = told_width();
    return width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
}

/* Where a line of a command ends. */
static unsigned end_line(FILE *to, unsigned indent, bool is_comment)
{
    psr_print(to, is_comment ? "\n%*s# " : " \\\n%*s", (int)indent, "");
    return indent + (is_comment ? 2 : 0);
}

void psr_help_wrap_command(FILE *to, const char *command, unsigned used, unsigned indent)
{
    const unsigned width = psr_help_width();
    unsigned at = used;
    bool is_comment = false, begins = true;
    for (const char *word = command + strspn(command, " "); *word != '\0';) {
        const unsigned length = (unsigned)strcspn(word, " ");
        const char *next = word + length + strspn(word + length, " ");
        const unsigned mark = *next != '\0' && !is_comment ? 2 : 0; /* a backslash may follow */
        if (!begins && at + 1 + length + mark >= width) {
            at = end_line(to, indent, is_comment);
        } else if (!begins) {
            psr_print(to, " ");
            at++;
        }
        is_comment = is_comment || *word == '#';
        psr_print(to, "%.*s", (int)length, word);
        at += length;
        begins = false;
        word = next;
    }
    psr_print(to, "\n");
}

void psr_help_wrap(FILE *to, const char *text, unsigned used, unsigned indent)
{
    const unsigned width = psr_help_width();
    unsigned at = used;
    bool begins = true;
    for (text += strspn(text, " \n"); *text != '\0'; text += strspn(text, " \n")) {
        const unsigned length = (unsigned)strcspn(text, " \n");
        if (!begins && at + 1 + length >= width) {
            psr_print(to, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!begins) {
            psr_print(to, " ");
            at++;
        }
        psr_print(to, "%.*s", (int)length, text);
        at += length;
        begins = false;
        text += length;
    }
    psr_print(to, "\n");
}
