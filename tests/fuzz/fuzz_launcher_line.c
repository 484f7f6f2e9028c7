/* The lines between launcher and scheduler, over hostile bytes. The first byte chooses: 'o' an
 * order, 'e' an event. What is accepted is encoded and decoded again: to the same line. */
#include "comm/launcher_line.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_order(const char *text)
{
    psr_order order, again;
    char *line = NULL, *line_again = NULL;
    if (psr_order_decode(text, &order) != PSR_OK)
        return;
    if (psr_order_encode(&order, &line) != PSR_OK || psr_order_decode(line, &again) != PSR_OK ||
        psr_order_encode(&again, &line_again) != PSR_OK || strcmp(line, line_again) != 0)
        abort();
    free(line);
    free(line_again);
}

static void try_event(const char *text)
{
    psr_run_event event, again;
    char *line = NULL, *line_again = NULL;
    if (psr_run_event_decode(text, &event) != PSR_OK)
        return;
    if (psr_run_event_encode(&event, &line) != PSR_OK ||
        psr_run_event_decode(line, &again) != PSR_OK ||
        psr_run_event_encode(&again, &line_again) != PSR_OK || strcmp(line, line_again) != 0)
        abort();
    psr_run_event_done(&event);
    psr_run_event_done(&again);
    free(line);
    free(line_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size);
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'o')
        try_order(text);
    else if (data[0] == 'e')
        try_event(text);
    free(text);
    return 0;
}
