/* Which of its implementations oneDNN gave the primitives of a plan, and which of those are loops.
 *
 * oneDNN computes everything: where none of its kernels fits a shape, a layout or a type, it takes
 * reference loops, which are a hundred times slower and say so by their names alone. So every
 * primitive is asked before it is taken (layers/conv_way.h), and what a plan took is kept here. */
#ifndef PSR_MODEL_ONEDNN_IMPLEMENTATIONS_H
#define PSR_MODEL_ONEDNN_IMPLEMENTATIONS_H

#include "base/err.h"
#include "model/onednn/compat.h"

#include <stdint.h>

typedef struct psr_onednn_implementation {
    const char *node; /* whose: a name of the network's; borrowed from it */
    const char *kind; /* "convolution", "convolution's backward data", ..; static */
    char name[64];    /* oneDNN's: "jit:avx512_core", "ref:any" */
    double flop;      /* multiplications and additions of a pass; 0: it does not multiply */
    bool loops;
} psr_onednn_implementation;

typedef struct psr_onednn_implementations {
    psr_onednn_implementation *items;
    uint32_t count, capacity;
} psr_onednn_implementations;

/* Whether the primitive would be a reference loop. */
bool psr_onednn_is_loops(const_dnnl_primitive_desc_t pd);

/* Adds what pd is. node borrowed until done; pd for the call. NOMEM. */
PSR_MUST_CHECK psr_err psr_onednn_implementations_add(psr_onednn_implementations *all,
                                                      const_dnnl_primitive_desc_t pd,
                                                      const char *node, double flop);
void psr_onednn_implementations_done(psr_onednn_implementations *all);

/* What is computed by loops and what it costs, in a line for a person; "" when there is none. Cut
 * where text ends. */
void psr_onednn_implementations_tell(const psr_onednn_implementations *all, char *text,
                                     size_t size);

#endif
