#include "model/reference/ops.h"

void psr_ref_linear_forward(uint32_t N, uint32_t C, uint32_t O, const psr_real *x,
                            const psr_real *w, const psr_real *b, psr_real *y)
{
    for (size_t n = 0; n < N; n++)
        for (size_t o = 0; o < O; o++) {
            double sum = b != NULL ? b[o] : 0;
            for (size_t c = 0; c < C; c++)
                sum += (double)x[n * C + c] * w[o * C + c];
            y[n * O + o] = (psr_real)sum;
        }
}

void psr_ref_linear_backward(uint32_t N, uint32_t C, uint32_t O, const psr_real *x,
                             const psr_real *w, const psr_real *dy, psr_real *dx, psr_real *dw,
                             psr_real *db)
{
    for (size_t n = 0; n < N && dx != NULL; n++)
        for (size_t c = 0; c < C; c++) {
            double sum = 0;
            for (size_t o = 0; o < O; o++)
                sum += (double)dy[n * O + o] * w[o * C + c];
            dx[n * C + c] += (psr_real)sum;
        }
    for (size_t o = 0; o < O && dw != NULL; o++)
        for (size_t c = 0; c < C; c++) {
            double sum = 0;
            for (size_t n = 0; n < N; n++)
                sum += (double)dy[n * O + o] * x[n * C + c];
            dw[o * C + c] = (psr_real)sum;
        }
    for (size_t o = 0; o < O && db != NULL; o++) {
        double sum = 0;
        for (size_t n = 0; n < N; n++)
            sum += dy[n * O + o];
        db[o] = (psr_real)sum;
    }
}
