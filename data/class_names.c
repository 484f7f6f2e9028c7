#include "data/class_names.h"

#include "base/system/file.h"
#include "base/text/printable.h"
#include "data/location.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (1u << 20)

/* Looked for in the directory, in this order. */
static const char *const lists[] = {"classes.txt", "batches.meta.txt", "fine_label_names.txt"};

/* By the content of the training split. The names are those of Xiao et al. (2017), "Fashion-MNIST",
 * table 2, and of the authors' batches.meta.txt. */
static const struct {
    char train[PSR_CONTENT_BYTES];
    const char *names;
} known[] = {
    {"86c56f377e526296b0dc0f5e4a7857fc", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"},
    {"a3d983fdd7122e9d207e5a9942fefd5c",
     "T-shirt/top\nTrouser\nPullover\nDress\nCoat\nSandal\nShirt\nSneaker\nBag\nAnkle boot\n"},
    {"c8f87fbd5def679620f07ada62097105",
     "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"},
};

/* Copies one name a line; empty lines are left out. false: they are not so many, or do not fit. */
static bool take_lines(const char *text, uint32_t classes, char *names, size_t size)
{
    size_t used = 0;
    uint32_t count = 0;
    for (const char *at = text; *at != '\0';) {
        const size_t line = strcspn(at, "\n"), length = strcspn(at, "\r\n");
        if (length > 0) {
            if (used + length + 2 > size || !psr_is_printable(at, length) || count == classes)
                return false;
            memcpy(names + used, at, length);
            used += length;
            names[used++] = '\n';
            count++;
        }
        at += line + (at[line] == '\n');
    }
    names[used] = '\0';
    return count == classes;
}

static bool take_list(const char *directory, const char *list, uint32_t classes, char *names,
                      size_t size)
{
    char path[PSR_PATH_MAX + 32];
    uint8_t *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", directory, list);
    if (psr_file_read(path, FILE_BYTES_MAX, &text, &bytes) != PSR_OK)
        return false;
    const bool taken = take_lines((const char *)text, classes, names, size);
    free(text);
    return taken;
}

static bool take_given(const char *const *given, uint32_t classes, char *names, size_t size)
{
    size_t used = 0;
    for (uint32_t c = 0; c < classes; c++) {
        const size_t length = strlen(given[c]);
        if (strchr(given[c], '\n') != NULL || used + length + 2 > size)
            return false;
        memcpy(names + used, given[c], length);
        used += length;
        names[used++] = '\n';
    }
    names[used] = '\0';
    return true;
}

void psr_class_names(const char *spec, const char *const *given, const psr_content *content,
                     uint32_t classes, char *names, size_t size)
{
    if (given != NULL && take_given(given, classes, names, size))
        return;
    psr_location location;
    if (psr_location_resolve(spec, &location) == PSR_OK && location.files != NULL)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            if (take_list(location.directory, lists[i], classes, names, size))
                return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(content->train, known[i].train) == 0 &&
            take_lines(known[i].names, classes, names, size))
            return;
    names[0] = '\0';
}
