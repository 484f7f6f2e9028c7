#include "worker/norm_lines.h"

#include "base/text/text.h"
#include "model/optimizers/square_sum.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Of a tensor: its name, two reals of 17 digits, and what stands around them. */
enum { TENSOR_BYTES_MAX = PSR_TENSOR_NAME_MAX + 2 * 26 + 16, LINE_TENSORS_MAX = 100 };

static void add_tensor(psr_text_end *end, const psr_tensor *tensor, const float *weights,
                       double squares, bool first)
{
    psr_text_add(end, "%s[\"%s\", %.17g, ", first ? "" : ", ", tensor->name,
                 sqrt(psr_square_sum(weights + tensor->offset, tensor->count)));
    if (tensor->frozen)
        psr_text_add(end, "null]");
    else
        psr_text_add(end, "%.17g]", sqrt(squares));
}

bool psr_norm_line_next(const psr_layout *layout, uint64_t step, double unix_s,
                        const float *weights, const double *squares, size_t *next,
                        char line[static PSR_NORM_LINE_MAX])
{
    const size_t begin = *next;
    psr_text_end end = {line, PSR_NORM_LINE_MAX};
    if (begin == layout->tensor_count)
        return false;
    psr_text_add(&end, "{\"step\": %" PRIu64 ", \"rank\": 0, \"unix_s\": %.6f, \"norms\": [", step,
                 unix_s);
    while (*next < layout->tensor_count && *next - begin < LINE_TENSORS_MAX &&
           strlen(line) + TENSOR_BYTES_MAX + sizeof "]}" < PSR_NORM_LINE_MAX) {
        add_tensor(&end, &layout->tensors[*next], weights, squares[*next], *next == begin);
        (*next)++;
    }
    psr_text_add(&end, "]}");
    return true;
}
