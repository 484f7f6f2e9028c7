#include "model/onednn/choice/choice.h"

#include <stdlib.h>
#include <string.h>

static const char letters[] = "dwo"; /* by psr_onednn_algorithm */

char psr_onednn_letter(psr_onednn_algorithm algorithm)
{
    return letters[algorithm];
}

psr_onednn_algorithm psr_onednn_choice(const char *choices, uint32_t index,
                                       psr_onednn_direction direction)
{
    if (choices[0] == '\0')
        return PSR_ONEDNN_DIRECT;
    return (psr_onednn_algorithm)(strchr(letters, choices[4 * index + direction]) - letters);
}

static size_t count_convolutions(const psr_network *net)
{
    size_t convolutions = 0;
    for (uint32_t i = 0; i < net->node_count; i++)
        convolutions += net->nodes[i].op == PSR_OP_CONV;
    return convolutions;
}

/* Of a whole text: three letters for each, and commas in between. */
static size_t length_for(size_t convolutions)
{
    return 4 * convolutions - (convolutions > 0);
}

psr_err psr_onednn_choice_direct(const psr_network *net, char **ret_choices)
{
    const size_t length = length_for(count_convolutions(net));
    char *choices = malloc(length + 1);
    if (choices == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for the algorithms");
    for (size_t i = 0; i < length; i++)
        choices[i] = i % 4 == 3 ? ',' : letters[PSR_ONEDNN_DIRECT];
    choices[length] = '\0';
    *ret_choices = choices;
    return PSR_OK;
}

psr_err psr_onednn_choice_check(const psr_network *net, const char *text)
{
    const size_t convolutions = count_convolutions(net);
    if (strlen(text) != length_for(convolutions))
        return psr_fail(PSR_ERR_FORMAT,
                        "algorithms: %zu characters do not fit the %zu convolutions of %s",
                        strlen(text), convolutions, net->name);
    for (size_t i = 0; text[i] != '\0'; i++)
        if (i % 4 == 3 ? text[i] != ',' : strchr(letters, text[i]) == NULL)
            return psr_fail(PSR_ERR_FORMAT, "algorithms: character %zu is '%c', expected %s", i + 1,
                            text[i], i % 4 == 3 ? "a comma" : "d, w or o");
    return PSR_OK;
}
