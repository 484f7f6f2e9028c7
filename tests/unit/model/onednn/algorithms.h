/* One algorithm for all convolutions, as text (model/onednn/choice/choice.h). */
#ifndef PSR_TESTS_ALGORITHMS_H
#define PSR_TESTS_ALGORITHMS_H

#include <string.h>

#include "model/networks/network.h"

/* A letter for every convolution of net and direction; where it does not fit direct is taken.
 * Static storage. */
static inline const char *all_by(char letter, const psr_network *net)
{
    static char text[1024];
    size_t length = 0;
    for (uint32_t i = 0; i < net->node_count; i++)
        if (net->nodes[i].op == PSR_OP_CONV) {
            if (length > 0)
                text[length++] = ',';
            memset(text + length, letter, 3);
            length += 3;
        }
    text[length] = '\0';
    return text;
}

#endif
