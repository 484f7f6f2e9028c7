#include "data/images/names.h"

#include <stdlib.h>
#include <string.h>

/* The next room of an array that doubles. */
static size_t grown(size_t room, size_t least, size_t first)
{
    room = room == 0 ? first : room;
    while (room < least)
        room *= 2;
    return room;
}

static psr_err no_memory(void)
{
    return psr_fail(PSR_ERR_NOMEM, "no memory for the names of pictures");
}

psr_err psr_names_add(psr_names *names, const char *name, size_t length)
{
    if (names->text_room - names->text_size < length + 1) {
        size_t room = grown(names->text_room, names->text_size + length + 1, 1024);
        char *text = realloc(names->text, room);
        if (text == NULL)
            return no_memory();
        names->text = text;
        names->text_room = room;
    }
    if (names->count == names->room) {
        size_t room = grown(names->room, (size_t)names->count + 1, 64);
        size_t *at = room < UINT32_MAX ? realloc(names->at, room * sizeof *at) : NULL;
        if (at == NULL)
            return no_memory();
        names->at = at;
        names->room = (uint32_t)room;
    }
    memcpy(names->text + names->text_size, name, length);
    names->text[names->text_size + length] = '\0';
    names->at[names->count++] = names->text_size;
    names->text_size += length + 1;
    return PSR_OK;
}

const char *psr_names_get(const psr_names *names, uint32_t i)
{
    return names->text + names->at[i];
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

void psr_names_sort_unique(psr_names *names)
{
    uint32_t kept = 0;
    if (names->count == 0)
        return;
    qsort_r(names->at, names->count, sizeof *names->at, compare, names->text);
    for (uint32_t i = 0; i < names->count; i++) {
        if (i == 0 || strcmp(psr_names_get(names, i), psr_names_get(names, kept - 1)) != 0)
            names->at[kept++] = names->at[i];
    }
    names->count = kept;
}

uint32_t psr_names_find(const psr_names *names, const char *name)
{
    uint32_t low = 0, high = names->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(psr_names_get(names, middle), name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return UINT32_MAX;
}

void psr_names_done(psr_names *names)
{
    free(names->text);
    free(names->at);
    *names = (psr_names){0};
}
