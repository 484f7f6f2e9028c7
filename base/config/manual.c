#include "base/config/manual.h"

#include "base/text/printable.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* "psring train": "psring-train". */
static void print_name(FILE *to, const char *program, bool capitals)
{
    for (const char *c = program; *c != '\0'; c++)
        if (*c == ' ' || *c == '-')
            psr_print(to, "\\-");
        else
            psr_print(to, "%c", capitals ? toupper((unsigned char)*c) : *c);
}

/* literal: what is typed, where a hyphen is a minus sign. At a line's beginning a full stop or an
 * apostrophe would be a request. */
static void print_escaped(FILE *to, const char *text, size_t size, bool literal)
{
    if (size > 0 && (text[0] == '.' || text[0] == '\''))
        psr_print(to, "\\&");
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\\')
            psr_print(to, "\\e");
        else if (text[i] == '-' && (literal || (i + 1 < size && text[i + 1] == '-') ||
                                    (i > 0 && (text[i - 1] == '-' || text[i - 1] == ' '))))
            psr_print(to, "\\-");
        else
            psr_print(to, "%c", text[i]);
}

void psr_manual_begin(FILE *to, const char *program, const char *sentence, const char *date)
{
    size_t size = 0;
    while (sentence[size] != '\0' && sentence[size] != '\v' &&
           !(sentence[size] == '.' &&
             (sentence[size + 1] == '\0' || isspace((unsigned char)sentence[size + 1]))))
        size++;
    psr_print(to, ".TH ");
    print_name(to, program, true);
    psr_print(to, " 1 \"%s\" \"psring %s\" \"psring\"\n.SH NAME\n", date, PSR_VERSION);
    print_name(to, program, false);
    psr_print(to, " \\- ");
    if (size > 0)
        psr_print(to, "%c", tolower((unsigned char)sentence[0]));
    if (size > 1)
        print_escaped(to, sentence + 1, size - 1, false);
    psr_print(to, "\n");
}

void psr_manual_section(FILE *to, const char *title)
{
    psr_print(to, ".SH ");
    print_escaped(to, title, strlen(title), false);
    psr_print(to, "\n");
}

void psr_manual_part(FILE *to, const char *title)
{
    psr_print(to, ".SS ");
    print_escaped(to, title, strlen(title), false);
    psr_print(to, "\n");
}

void psr_manual_synopsis(FILE *to, const char *program, const char *forms)
{
    for (const char *form = forms;; form++) {
        size_t size = strcspn(form, "\n");
        psr_print(to, "%s.B ", form > forms ? ".br\n" : "");
        print_escaped(to, program, strlen(program), true);
        psr_print(to, "\n");
        print_escaped(to, form, size, true);
        psr_print(to, "\n");
        form += size;
        if (*form == '\0')
            return;
    }
}

typedef enum line_kind { LINE_BLANK, LINE_TEXT, LINE_LITERAL } line_kind;

void psr_manual_text(FILE *to, const char *text, size_t size)
{
    line_kind before = LINE_BLANK;
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline != NULL ? newline : end) - line);
        line_kind kind = length == 0 ? LINE_BLANK : line[0] == ' ' ? LINE_LITERAL : LINE_TEXT;
        if (before == LINE_LITERAL && kind != LINE_LITERAL)
            psr_print(to, ".EE\n.RE\n");
        if (before == LINE_LITERAL && kind == LINE_TEXT)
            psr_print(to, ".PP\n");
        if (before != LINE_LITERAL && kind == LINE_LITERAL)
            psr_print(to, "%s.RS 2\n.EX\n", line != text ? ".PP\n" : "");
        if (before == LINE_BLANK && kind == LINE_TEXT && line != text)
            psr_print(to, ".PP\n");
        size_t indent = kind == LINE_LITERAL && length > 1 && line[1] == ' ' ? 2 : 0;
        print_escaped(to, line + indent, length - indent, kind == LINE_LITERAL);
        if (kind != LINE_BLANK)
            psr_print(to, "\n");
        before = kind;
        line += length + 1;
    }
    if (before == LINE_LITERAL)
        psr_print(to, ".EE\n.RE\n");
}

void psr_manual_item(FILE *to)
{
    psr_print(to, ".TP\n");
}

void psr_manual_bold(FILE *to, const char *text)
{
    psr_print(to, "\\fB");
    print_escaped(to, text, strlen(text), true);
    psr_print(to, "\\fR");
}

void psr_manual_italic(FILE *to, const char *text)
{
    psr_print(to, "\\fI");
    print_escaped(to, text, strlen(text), true);
    psr_print(to, "\\fR");
}

void psr_manual_plain(FILE *to, const char *text)
{
    print_escaped(to, text, strlen(text), true);
}

void psr_manual_meaning(FILE *to, const char *text)
{
    psr_print(to, "\n");
    psr_manual_text(to, text, strlen(text));
}

void psr_manual_see_also(FILE *to, const char *pages)
{
    psr_manual_section(to, "SEE ALSO");
    for (const char *page = pages; *page != '\0';) {
        size_t length = strcspn(page, " ");
        const char *next = page + length + strspn(page + length, " ");
        psr_print(to, ".BR ");
        print_escaped(to, page, length, true);
        psr_print(to, " (1)%s\n", *next != '\0' ? "," : "");
        page = next;
    }
}
