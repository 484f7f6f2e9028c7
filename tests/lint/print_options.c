/* Prints the name of every option of the table that is not hidden, one per line. */
#include "base/config.h"

#include <stdio.h>

int main(void)
{
    psr_option_info info;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        if (!info.hidden)
            puts(info.name);
    }
    return 0;
}
