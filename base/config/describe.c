#include "base/config/describe.h"

#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "base/text/text.h"

#include <ctype.h>
#include <string.h>

#define WORDS_BYTES 512

psr_describe_kind psr_describe_asked(int argc, char **argv, const char **ret_date)
{
    if (argc < 3 || strcmp(argv[1], "--describe") != 0)
        return PSR_DESCRIBE_NOTHING;
    if (argc == 4 && strcmp(argv[2], "manual") == 0) {
        *ret_date = argv[3];
        return PSR_DESCRIBE_MANUAL;
    }
    return argc == 3 && strcmp(argv[2], "completion") == 0 ? PSR_DESCRIBE_COMPLETION
                                                           : PSR_DESCRIBE_NOTHING;
}

/* ---- argp's rows ---- */

static bool is_end(const struct argp_option *o)
{
    return o->name == NULL && o->key == 0 && o->doc == NULL && o->group == 0;
}

static bool is_heading(const struct argp_option *o)
{
    return o->name == NULL && o->key == 0;
}

static bool has_short(const struct argp_option *o)
{
    return o->key > 0 && o->key < 128 && isprint(o->key);
}

/* Other names of a row follow it. */
static const struct argp_option *next_row(const struct argp_option *o)
{
    o++;
    while (!is_end(o) && !is_heading(o) && (o->flags & OPTION_ALIAS) != 0)
        o++;
    return o;
}

/* ---- the manual page ---- */

static void print_argument(FILE *to, const struct argp_option *row, bool behind_long)
{
    bool optional = (row->flags & OPTION_ARG_OPTIONAL) != 0;
    if (row->arg == NULL)
        return;
    psr_manual_plain(to, optional ? (behind_long ? "[=" : "[") : behind_long ? "=" : " ");
    psr_manual_italic(to, row->arg);
    psr_manual_plain(to, optional ? "]" : "");
}

static void print_row(FILE *to, const struct argp_option *row, const struct argp_option *next)
{
    const char *between = "";
    psr_manual_item(to);
    for (const struct argp_option *o = row; o < next; o++) {
        if (has_short(o)) {
            const char dashed[] = {'-', (char)o->key, '\0'};
            psr_manual_plain(to, between);
            psr_manual_bold(to, dashed);
            if (row->name == NULL)
                print_argument(to, row, false);
            between = ", ";
        }
        if (o->name != NULL) {
            psr_manual_plain(to, between);
            char dashed[WORDS_BYTES];
            snprintf(dashed, sizeof dashed, "--%s", o->name);
            psr_manual_bold(to, dashed);
            print_argument(to, row, true);
            between = ", ";
        }
    }
    psr_manual_meaning(to, row->doc != NULL ? row->doc : "");
}

static void print_rows(FILE *to, const struct argp *argp)
{
    for (const struct argp_option *o = argp->options; o != NULL && !is_end(o); o = next_row(o)) {
        size_t length = is_heading(o) && o->doc != NULL ? strcspn(o->doc, ":") : 0;
        char title[64];
        if (is_heading(o) && length < sizeof title) {
            memcpy(title, o->doc, length);
            title[length] = '\0';
            psr_manual_part(to, title);
        } else if (!is_heading(o) && (o->flags & OPTION_HIDDEN) == 0)
            print_row(to, o, next_row(o));
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        print_rows(to, c->argp);
}

/* What argp itself takes. */
static const struct argp_option of_argp[] = {
    {.name = "help", .key = '?', .doc = "show this help"},
    {.name = "usage", .key = 0x100, .doc = "show the options in short"},
    {0}};
static const struct argp_option of_argp_with_version[] = {
    {.name = "help", .key = '?', .doc = "show this help"},
    {.name = "usage", .key = 0x100, .doc = "show the options in short"},
    {.name = "version", .key = 'V', .doc = "show the version, and those of libraries"},
    {0}};

static struct argp of_every_program(void)
{
    return (struct argp){.options =
                             argp_program_version_hook != NULL ? of_argp_with_version : of_argp};
}

static void print_synopsis(FILE *to, const struct argp *root, const char *program)
{
    char text[WORDS_BYTES];
    psr_text_end end = {text, sizeof text};
    const char *form = root->args_doc != NULL ? root->args_doc : "";
    for (;; form++) {
        size_t length = strcspn(form, "\n");
        psr_text_add(&end, "[OPTION...]%s%.*s", length > 0 ? " " : "", (int)length, form);
        form += length;
        if (*form == '\0')
            break;
        psr_text_add(&end, "\n");
    }
    psr_manual_synopsis(to, program, text);
}

/* Each paragraph goes into the section that its beginning names, the others into the one before. */
static void print_tail(FILE *to, const char *tail)
{
    static const struct {
        const char *beginning, *section;
    } sections[] = {{"Example", "EXAMPLES"}, {"Exit status", "EXIT STATUS"}};
    const char *section = NULL;
    for (const char *end; *tail != '\0'; tail = end + strspn(end, "\n")) {
        const char *wanted = section != NULL ? section : "NOTES";
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            if (strncmp(tail, sections[i].beginning, strlen(sections[i].beginning)) == 0)
                wanted = sections[i].section;
        if (section == NULL || strcmp(section, wanted) != 0)
            psr_manual_section(to, wanted);
        else
            psr_print(to, ".PP\n");
        section = wanted;
        end = strstr(tail, "\n\n");
        if (end == NULL)
            end = tail + strlen(tail);
        psr_manual_text(to, tail, (size_t)(end - tail));
    }
}

void psr_describe_manual(const struct argp *root, const char *program, const char *date, FILE *to)
{
    const char *doc = root->doc != NULL ? root->doc : "";
    const char *tail = strchr(doc, '\v');
    const struct argp others = of_every_program();
    psr_manual_begin(to, program, doc, date);
    psr_manual_section(to, "SYNOPSIS");
    print_synopsis(to, root, program);
    psr_manual_section(to, "DESCRIPTION");
    psr_manual_text(to, doc, tail != NULL ? (size_t)(tail - doc) : strlen(doc));
    psr_manual_section(to, "OPTIONS");
    print_rows(to, root);
    psr_manual_part(to, "Of every program");
    print_rows(to, &others);
    if (tail != NULL)
        print_tail(to, tail + 1);
    psr_manual_see_also(to, "psring");
}

/* ---- the help ---- */

#define MEANING_COLUMN 29 /* of 80 and more; else a third */

static unsigned meaning_column(void)
{
    return psr_help_width() >= 80 ? MEANING_COLUMN : psr_help_width() / 3;
}

/* Lines that begin with a blank stand as they are, where they fit. Others are one paragraph until
 * the next blank line. What stands below "Examples:" are commands. */
static void help_text(FILE *to, const char *text, size_t size)
{
    char line[4096];
    bool commands = false;
    for (const char *end = text + size; text < end;) {
        const bool literal = *text == ' ';
        if (!literal)
            commands = strncmp(text, "Example", strlen("Example")) == 0;
        psr_text_end words = {line, sizeof line};
        line[0] = '\0';
        while (text < end && *text != '\n' && (*text == ' ') == literal) {
            const char *newline = memchr(text, '\n', (size_t)(end - text));
            const size_t length = (size_t)((newline != NULL ? newline : end) - text);
            psr_text_add(&words, "%s%.*s", words.at > line ? " " : "", (int)length, text);
            text += length + (newline != NULL);
            if (literal)
                break;
        }
        const unsigned indent = (unsigned)strspn(line, " ");
        if (line[0] == '\0') {
            psr_print(to, "\n");
            text++;
        } else if (literal && strlen(line) < psr_help_width()) {
            psr_print(to, "%s\n", line);
        } else if (literal && commands) {
            psr_print(to, "%*s", (int)indent, "");
            psr_help_wrap_command(to, line, indent, indent + 4);
        } else {
            psr_print(to, "%*s", (int)indent, "");
            psr_help_wrap(to, line, indent, literal ? indent + 4 : 0);
        }
    }
}

/* "  -H, --host=HOST:N" */
static unsigned help_names(FILE *to, const struct argp_option *row, const struct argp_option *next)
{
    char names[WORDS_BYTES];
    psr_text_end end = {names, sizeof names};
    const bool optional = (row->flags & OPTION_ARG_OPTIONAL) != 0;
    const char *between = "  ";
    for (const struct argp_option *o = row; o < next; o++) {
        if (!has_short(o))
            continue;
        psr_text_add(&end, "%s-%c", between, o->key);
        if (row->name == NULL && row->arg != NULL)
            psr_text_add(&end, optional ? "[%s]" : " %s", row->arg);
        between = ", ";
    }
    if (end.at == names)
        between = "      ";
    for (const struct argp_option *o = row; o < next; o++) {
        if (o->name == NULL)
            continue;
        psr_text_add(&end, "%s--%s", between, o->name);
        if (row->arg != NULL)
            psr_text_add(&end, optional ? "[=%s]" : "=%s", row->arg);
        between = ", ";
    }
    psr_print(to, "%s", names);
    return (unsigned)strlen(names);
}

static void help_rows(FILE *to, const struct argp *argp)
{
    const unsigned column = meaning_column();
    for (const struct argp_option *o = argp->options; o != NULL && !is_end(o); o = next_row(o)) {
        if (is_heading(o) && o->doc != NULL)
            psr_print(to, "\n %s\n", o->doc);
        if (is_heading(o) || (o->flags & OPTION_HIDDEN) != 0)
            continue;
        unsigned used = help_names(to, o, next_row(o));
        if (used + 2 > column) {
            psr_print(to, "\n");
            used = 0;
        }
        psr_print(to, "%*s", (int)(column - used), "");
        psr_help_wrap(to, o->doc != NULL ? o->doc : "", column, column);
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++) {
        if (c->argp->options != NULL && !is_heading(c->argp->options))
            psr_print(to, "\n"); /* the group before it has ended */
        help_rows(to, c->argp);
    }
}

static bool has_own_rows(const struct argp *root)
{
    return root->options != NULL && !is_end(root->options);
}

static bool has_rows(const struct argp *root)
{
    return has_own_rows(root) || (root->children != NULL && root->children->argp != NULL);
}

/* help_rows puts a blank line above a heading and a child. */
static bool begins_with_blank(const struct argp *root)
{
    return has_own_rows(root) ? is_heading(root->options) : has_rows(root);
}

void psr_describe_help(const struct argp *root, const char *program, FILE *to)
{
    const char *doc = root->doc != NULL ? root->doc : "", *tail = strchr(doc, '\v');
    const char *form = root->args_doc != NULL ? root->args_doc : "";
    const struct argp others = of_every_program();
    for (const char *how = "Usage:";; how = "  or: ", form++) {
        const size_t length = strcspn(form, "\n");
        char line[WORDS_BYTES];
        snprintf(line, sizeof line, "%s [OPTION...] %.*s", program, (int)length, form);
        psr_print(to, "%s ", how);
        psr_help_wrap(to, line, (unsigned)strlen(how) + 1, 8);
        form += length;
        if (*form == '\0')
            break;
    }
    help_text(to, doc, tail != NULL ? (size_t)(tail - doc) : strlen(doc));
    if (!begins_with_blank(root))
        psr_print(to, "\n");
    if (has_rows(root)) {
        help_rows(to, root);
        psr_print(to, "\n");
    }
    help_rows(to, &others);
    if (tail != NULL) {
        psr_print(to, "\n");
        help_text(to, tail + 1, strlen(tail + 1));
    }
}

/* ---- what the shell offers ---- */

static const char *stands_for(const char *name, size_t length)
{
    static const struct {
        const char *name, *word;
    } known[] = {{"FILE", "@file"},   {"CKPT", "@file"},     {"PATH", "@file"},
                 {"SOCKET", "@file"}, {"DIR", "@directory"}, {"RUN", "@directory"},
                 {"CMD", "@command"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length && strncmp(name, known[i].name, length) == 0)
            return known[i].word;
    return "";
}

bool psr_describe_argument(const char *argument, char *words, size_t size)
{
    psr_text_end end = {words, size};
    words[0] = '\0';
    for (const char *piece = argument; *piece != '\0';) {
        size_t length = strcspn(piece, "|");
        /* The part of a word that is typed literally: "ssp:" of ssp:K, "synthetic" of
         * synthetic[:SPEC]. */
        size_t typed = 0;
        while (typed < length && piece[typed] != '[' && !isupper((unsigned char)piece[typed]))
            typed++;
        const char *word = typed > 0 ? piece : stands_for(piece, strcspn(piece, "|.,[ \n"));
        int word_length = typed > 0 ? (int)typed : (int)strlen(word);
        if (word_length > 0 && piece[0] != '-')
            psr_text_add(&end, "%s%.*s", end.at > words ? " " : "", word_length, word);
        piece += length + (piece[length] == '|');
    }
    return end.room > 1;
}

static void list_names(const struct argp *argp, FILE *to)
{
    const char *value = ""; /* "=" behind the names of a row whose value must be given */
    for (const struct argp_option *o = argp->options; o != NULL && !is_end(o); o++) {
        if (is_heading(o) || (o->flags & OPTION_HIDDEN) != 0)
            continue;
        if ((o->flags & OPTION_ALIAS) == 0)
            value = o->arg != NULL && (o->flags & OPTION_ARG_OPTIONAL) == 0 ? "=" : "";
        if (o->name != NULL)
            psr_print(to, " --%s%s", o->name, value);
        if (has_short(o))
            psr_print(to, " -%c", o->key);
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        list_names(c->argp, to);
}

/* Finds the words that may follow the row's names. false: there are none that could be listed. */
static bool find_words(const struct argp *argp, const struct argp_option *row, char *words,
                       size_t size)
{
    if (!psr_options_argp_words(argp, row, words, size) &&
        !psr_describe_argument(row->arg, words, size))
        return false;
    return words[0] != '\0';
}

static void list_values(const struct argp *argp, const char *program, FILE *to)
{
    const struct argp_option *row = argp->options; /* whose other names follow */
    for (const struct argp_option *o = argp->options; o != NULL && !is_end(o); o++) {
        if (is_heading(o) || (o->flags & OPTION_HIDDEN) != 0)
            continue;
        if ((o->flags & OPTION_ALIAS) == 0)
            row = o;
        char words[WORDS_BYTES];
        if (row->arg == NULL || !find_words(argp, row, words, sizeof words))
            continue;
        if (o->name != NULL)
            psr_print(to, "_psring_values['%s --%s']='%s'\n", program, o->name, words);
        if (has_short(o))
            psr_print(to, "_psring_values['%s -%c']='%s'\n", program, o->key, words);
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        list_values(c->argp, program, to);
}

void psr_describe_completion(const struct argp *root, const char *program, FILE *to)
{
    char operands[WORDS_BYTES] = "";
    const struct argp others = of_every_program();
    if (root->args_doc != NULL && !psr_describe_argument(root->args_doc, operands, sizeof operands))
        operands[0] = '\0';
    psr_print(to, "_psring_options['%s']='", program);
    list_names(root, to);
    list_names(&others, to);
    psr_print(to, "'\n_psring_values['%s']='%s'\n", program, operands);
    list_values(root, program, to);
}
