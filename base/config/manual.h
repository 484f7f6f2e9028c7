/* A manual page in man(7), written to a file from its top: for programs that tell of themselves
 * when psring is built (base/config/describe.h). Texts may have any characters: they are shown as
 * they are. One thread. */
#ifndef PSR_BASE_CONFIG_MANUAL_H
#define PSR_BASE_CONFIG_MANUAL_H

#include <stddef.h>
#include <stdio.h>

/* The page of a program or of "psring COMMAND", in section 1. sentence: what it does, or is, up to
 * its full stop. date: of this version, YYYY-MM-DD. */
void psr_manual_begin(FILE *to, const char *program, const char *sentence, const char *date);
void psr_manual_section(FILE *to, const char *title);
/* A part of a section. */
void psr_manual_part(FILE *to, const char *title);
/* What is typed: the program's name before each of the forms, of which each is a line. */
void psr_manual_synopsis(FILE *to, const char *program, const char *forms);
/* Paragraphs with blank lines between them. Lines that begin with a blank keep their form. */
void psr_manual_text(FILE *to, const char *text, size_t size);

/* A row of a list: a term between _item and _meaning. */
void psr_manual_item(FILE *to);
void psr_manual_bold(FILE *to, const char *text);
void psr_manual_italic(FILE *to, const char *text);
void psr_manual_plain(FILE *to, const char *text);
void psr_manual_meaning(FILE *to, const char *text);

/* The last section. pages: names in section 1, with blanks between. */
void psr_manual_see_also(FILE *to, const char *pages);

#endif
