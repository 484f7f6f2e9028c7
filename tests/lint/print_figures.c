/* Prints the figures' definitions as the rows of docs/figures.md's table. */
#include "base/figures.h"

#include <stdio.h>

int main(void)
{
    for (size_t i = 0; i < PSR_FIGURE_COUNT; i++) {
        const psr_figure_definition *d = &psr_figure_definitions[i];
        printf("| `%s` | %s | %s |\n", d->name, d->unit, d->definition);
    }
    return 0;
}
