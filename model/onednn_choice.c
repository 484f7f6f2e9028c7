#include "model/onednn_choice.h"

#include <string.h>

dnnl_alg_kind_t psr_onednn_choice(const char *choices, uint32_t index, psr_onednn_direction direction)
{
    if (choices[0] == '\0')
        return dnnl_convolution_direct;
    return choices[4 * index + direction] == 'w' ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

psr_err psr_onednn_choice_check(const psr_net *net, const char *text)
{
    if (text[0] == '\0')
        return PSR_OK;
    size_t convolutions = 0;
    for (uint32_t i = 0; i < net->node_count; i++)
        convolutions += net->nodes[i].op == PSR_OP_CONV;
    if (strlen(text) != 4 * convolutions - (convolutions > 0))
        return psr_fail(PSR_ERR_FORMAT, "algorithms: %zu characters do not fit the %zu convolutions of %s",
                        strlen(text), convolutions, net->name);
    for (size_t i = 0; text[i] != '\0'; i++)
        if (i % 4 == 3 ? text[i] != ',' : text[i] != 'd' && text[i] != 'w')
            return psr_fail(PSR_ERR_FORMAT, "algorithms: character %zu is '%c', expected %s", i + 1, text[i],
                            i % 4 == 3 ? "a comma" : "d or w");
    return PSR_OK;
}
