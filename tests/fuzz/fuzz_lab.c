/* psr_lab_parse over hostile bytes; what it takes is printed and reads back as the same. */
#include "deploy/lab/lab.h"
#include "deploy/lab/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const psr_lab *lab)
{
    static psr_lab again;
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (to == NULL)
        return;
    psr_lab_print(lab, to);
    if (fclose(to) != 0 || psr_lab_parse("fuzz", text, length, &again) != PSR_OK ||
        again.host_count != lab->host_count || again.switch_count != lab->switch_count ||
        psr_lab_slots(&again) != psr_lab_slots(lab))
        abort();
    for (size_t i = 0; i < lab->host_count; i++)
        if (strpbrk(lab->hosts[i].name, " /;'\"$`\n@:") != NULL || lab->hosts[i].name[0] == '-' ||
            strpbrk(lab->hosts[i].congestion, " /;'\"$`\n") != NULL)
            abort(); /* would reach scripts of ip and tc */
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static psr_lab lab;
    if (psr_lab_parse("fuzz", (const char *)data, size, &lab) == PSR_OK)
        use(&lab);
    return 0;
}
