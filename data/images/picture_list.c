#include "data/images/picture_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

psr_err psr_picture_list_add(psr_picture_list *list, const char *path, size_t length,
                             uint32_t label)
{
    if (list->paths.count == list->label_room) {
        size_t room = list->label_room == 0 ? 64 : (size_t)list->label_room * 2;
        uint32_t *labels = room < UINT32_MAX ? realloc(list->labels, room * sizeof *labels) : NULL;
        if (labels == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for the labels of pictures");
        list->labels = labels;
        list->label_room = (uint32_t)room;
    }
    PSR_TRY(psr_names_add(&list->paths, path, length));
    list->labels[list->paths.count - 1] = label;
    return PSR_OK;
}

void psr_picture_list_copy(psr_picture_list *list, uint32_t from, uint32_t to)
{
    list->paths.at[to] = list->paths.at[from];
    list->labels[to] = list->labels[from];
}

psr_err psr_picture_list_path(const psr_picture_list *list, uint32_t i, char *path, size_t size)
{
    const char *name = psr_names_get(&list->paths, i);
    int length = name[0] == '/' ? snprintf(path, size, "%s", name)
                                : snprintf(path, size, "%s/%s", list->directory, name);
    if (length < 0 || (size_t)length >= size)
        return psr_fail(PSR_ERR_USAGE, "%.200s..: a path of %d bytes, should be below %zu", name,
                        length, size);
    return PSR_OK;
}

void psr_picture_list_done(psr_picture_list *list)
{
    psr_names_done(&list->paths);
    psr_names_done(&list->classes);
    psr_names_done(&list->empty);
    free(list->labels);
    free(list->directory);
    *list = (psr_picture_list){0};
}
