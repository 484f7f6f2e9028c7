#include "data/images/picture_list.h"

#include "base/system/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)1 << 30)

/* A class's number as text: digits alone, below PSR_PICTURE_CLASSES_MAX. */
static bool is_number(const char *text, uint32_t *ret_number)
{
    size_t length = strlen(text);
    if (length == 0 || length > 7 || strspn(text, "0123456789") != length)
        return false;
    *ret_number = (uint32_t)strtoul(text, NULL, 10);
    return *ret_number < PSR_PICTURE_CLASSES_MAX;
}

/* Splits one line, of which the end is zero, in place. */
static psr_err add_line(psr_picture_list *list, psr_names *labels, const char *path, uint64_t line,
                        char *text)
{
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\r')
        text[--length] = '\0';
    if (length == 0 || text[0] == '#')
        return PSR_OK;
    char *tab = strchr(text, '\t');
    if (tab == NULL || tab == text || tab[1] == '\0' || strchr(tab + 1, '\t') != NULL)
        return psr_fail(PSR_ERR_FORMAT, "%s: line %" PRIu64 " should be PATH<tab>LABEL", path,
                        line);
    PSR_TRY(psr_picture_list_add(list, text, (size_t)(tab - text), 0));
    return psr_names_add(labels, tab + 1, strlen(tab + 1));
}

/* text: the whole file, with a zero byte behind it. */
static psr_err add_lines(psr_picture_list *list, psr_names *labels, const char *path, char *text,
                         size_t size)
{
    if (memchr(text, '\0', size) != NULL)
        return psr_fail(PSR_ERR_FORMAT, "%s: not a text, should have lines of PATH<tab>LABEL",
                        path);
    uint64_t line = 1;
    for (char *at = text, *end = NULL; at != NULL; at = end, line++) {
        end = strchr(at, '\n');
        if (end != NULL)
            *end++ = '\0';
        PSR_TRY(add_line(list, labels, path, line, at));
    }
    if (list->paths.count == 0)
        return psr_fail(PSR_ERR_FORMAT, "%s: no line of PATH<tab>LABEL", path);
    return PSR_OK;
}

static psr_err number_classes(uint32_t count, psr_names *classes)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[12];
        int length = snprintf(name, sizeof name, "%" PRIu32, i);
        PSR_TRY(psr_names_add(classes, name, (size_t)length));
    }
    return PSR_OK;
}

/* Whether all labels are numbers, and one more than the largest. */
static bool are_numbers(const psr_names *labels, uint32_t *ret_count)
{
    uint32_t count = 0, number = 0;
    for (uint32_t i = 0; i < labels->count; i++) {
        if (!is_number(psr_names_get(labels, i), &number))
            return false;
        count = number >= count ? number + 1 : count;
    }
    *ret_count = count;
    return true;
}

/* Whether classes are "0", "1", .. */
static bool are_numbered(const psr_names *classes)
{
    for (uint32_t i = 0; i < classes->count; i++) {
        uint32_t number = 0;
        if (!is_number(psr_names_get(classes, i), &number) || number != i)
            return false;
    }
    return true;
}

static psr_err set_labels(psr_picture_list *list, const psr_names *labels, const char *path,
                          const psr_names *given)
{
    uint32_t count = 0;
    bool numbers = given != NULL ? are_numbered(given) : are_numbers(labels, &count);
    if (given != NULL) {
        for (uint32_t i = 0; i < given->count; i++)
            PSR_TRY(psr_names_add(&list->classes, psr_names_get(given, i),
                                  strlen(psr_names_get(given, i))));
    } else if (numbers) {
        PSR_TRY(number_classes(count, &list->classes));
    } else {
        for (uint32_t i = 0; i < labels->count; i++)
            PSR_TRY(psr_names_add(&list->classes, psr_names_get(labels, i),
                                  strlen(psr_names_get(labels, i))));
        psr_names_sort_unique(&list->classes);
    }
    for (uint32_t i = 0; i < labels->count; i++) {
        const char *name = psr_names_get(labels, i);
        uint32_t label = 0;
        if (!numbers)
            label = psr_names_find(&list->classes, name);
        else if (!is_number(name, &label) || label >= list->classes.count)
            label = UINT32_MAX;
        if (label == UINT32_MAX)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s: label '%.64s' of %.200s is none of the training pictures' %" PRIu32
                            " classes",
                            path, name, psr_names_get(&list->paths, i), list->classes.count);
        list->labels[i] = label;
    }
    if (list->classes.count > PSR_PICTURE_CLASSES_MAX)
        return psr_fail(PSR_ERR_FORMAT, "%s: %" PRIu32 " classes, should be at most %u", path,
                        list->classes.count, PSR_PICTURE_CLASSES_MAX);
    return PSR_OK;
}

/* The folder that holds path. The caller owns it; NULL: no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

psr_err psr_picture_list_read_tsv(const char *path, const psr_picture_list *classes,
                                  psr_picture_list *ret_list)
{
    psr_picture_list list = {0};
    psr_names labels = {0};
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, MAX_BYTES, &text, &size));
    list.directory = folder_of(path);
    psr_err err = list.directory == NULL ? psr_fail(PSR_ERR_NOMEM, "%s: no memory", path)
                                         : add_lines(&list, &labels, path, (char *)text, size);
    if (err == PSR_OK)
        err = set_labels(&list, &labels, path, classes != NULL ? &classes->classes : NULL);
    free(text);
    psr_names_done(&labels);
    if (err != PSR_OK) {
        psr_picture_list_done(&list);
        return err;
    }
    *ret_list = list;
    return PSR_OK;
}
