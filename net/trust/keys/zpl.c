#include "net/trust/keys/zpl.h"

#include <stdint.h>
#include <string.h>

#define INDENT 4

psr_zpl psr_zpl_begin(const char *text, size_t size)
{
    return (psr_zpl){.rest = text, .end = text + size};
}

bool psr_zpl_is(psr_zpl_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("$-_@.&+/", c) != NULL);
}

/* Takes the next line, without the spaces behind it. */
static psr_zpl_text take_line(psr_zpl *zpl)
{
    const char *start = zpl->rest, *end = memchr(start, '\n', (size_t)(zpl->end - start));
    zpl->rest = end != NULL ? end + 1 : zpl->end;
    zpl->line++;
    end = end != NULL ? end : zpl->end;
    while (end > start && is_space(end[-1]))
        end--;
    return (psr_zpl_text){start, (size_t)(end - start)};
}

static psr_zpl_text skip(psr_zpl_text text, size_t bytes)
{
    return (psr_zpl_text){text.at + bytes, text.length - bytes};
}

static psr_zpl_text skip_spaces(psr_zpl_text text)
{
    size_t spaces = 0;
    while (spaces < text.length && is_space(text.at[spaces]))
        spaces++;
    return skip(text, spaces);
}

/* Nothing but a comment. */
static bool is_over(psr_zpl_text text)
{
    text = skip_spaces(text);
    return text.length == 0 || text.at[0] == '#';
}

/* A value between two quotes of one kind, or up to a comment. */
static psr_err read_value(const psr_zpl *zpl, psr_zpl_text text, psr_zpl_text *ret_value)
{
    const char quote = text.length > 0 ? text.at[0] : '\0';
    if (quote == '"' || quote == '\'') {
        text = skip(text, 1);
        const char *end = memchr(text.at, quote, text.length);
        if (end == NULL)
            return psr_fail(PSR_ERR_FORMAT, "line %d: a value lacks its closing %c", zpl->line,
                            quote);
        *ret_value = (psr_zpl_text){text.at, (size_t)(end - text.at)};
        if (!is_over(skip(text, ret_value->length + 1)))
            return psr_fail(PSR_ERR_FORMAT, "line %d: something stands behind the value",
                            zpl->line);
        return PSR_OK;
    }
    if (quote == '#') /* czmq would take it for the value if a space is before it */
        return psr_fail(PSR_ERR_FORMAT, "line %d: a comment stands where the value should be",
                        zpl->line);
    const char *comment = memchr(text.at, '#', text.length);
    if (comment != NULL)
        text.length = (size_t)(comment - text.at);
    while (text.length > 0 && is_space(text.at[text.length - 1]))
        text.length--;
    *ret_value = text;
    return PSR_OK;
}

/* A line that is neither empty nor a comment. text: after the indentation. */
static psr_err read_item(const psr_zpl *zpl, psr_zpl_text text, psr_zpl_item *item)
{
    item->name = (psr_zpl_text){text.at, 0};
    while (item->name.length < text.length && is_name(text.at[item->name.length]))
        item->name.length++;
    const size_t length = item->name.length;
    if (length == 0 || text.at[0] == '/' || text.at[length - 1] == '/')
        return psr_fail(PSR_ERR_FORMAT, "line %d: it should be NAME or NAME = VALUE", zpl->line);
    text = skip_spaces(skip(text, length));
    item->value = (psr_zpl_text){text.at, 0};
    if (text.length > 0 && text.at[0] == '=')
        return read_value(zpl, skip_spaces(skip(text, 1)), &item->value);
    return is_over(text)
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "line %d: it should be NAME or NAME = VALUE", zpl->line);
}

/* Bytes that no line of text has: of a file that was torn, or is none. */
static bool has_control(psr_zpl_text line)
{
    for (size_t i = 0; i < line.length; i++)
        if (((uint8_t)line.at[i] < ' ' && !is_space(line.at[i])) || line.at[i] == 0x7f)
            return true;
    return false;
}

psr_err psr_zpl_next(psr_zpl *zpl, psr_zpl_item *ret_item, bool *ret_end)
{
    while (zpl->rest < zpl->end) {
        psr_zpl_text line = take_line(zpl);
        size_t spaces = 0;
        if (has_control(line))
            return psr_fail(PSR_ERR_FORMAT, "line %d: it has a control character", zpl->line);
        while (spaces < line.length && line.at[spaces] == ' ')
            spaces++;
        if (spaces % INDENT != 0)
            return psr_fail(PSR_ERR_FORMAT,
                            "line %d: it is indented by %zu spaces, which is no multiple of %d",
                            zpl->line, spaces, INDENT);
        line = skip(line, spaces);
        if (is_over(line))
            continue;
        psr_zpl_item item = {.level = (int)(spaces / INDENT)};
        PSR_TRY(read_item(zpl, line, &item));
        if (item.level > zpl->depth)
            return psr_fail(PSR_ERR_FORMAT,
                            "line %d: it is indented deeper than what it could be an item of",
                            zpl->line);
        zpl->depth = item.level + 1;
        *ret_item = item;
        *ret_end = false;
        return PSR_OK;
    }
    *ret_end = true;
    return PSR_OK;
}
