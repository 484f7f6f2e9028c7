/* 3x3 convolutions of stride 1 and padding 1, and their gradients, by Winograd's minimal filtering
 * F(4x4, 3x3) in float32. Of libraries in reach, oneDNN 2 has it for AVX-512 alone, and oneDNN 3 no
 * more.
 *
 * Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016, sections 4.1
 * to 4.3; the matrices A, B and G for any points are Toom and Cook's (Blahut, "Fast algorithms for
 * signal processing", 2010, section 5.2), here for 0, +-5/8, +-3/2 and infinity, which round less
 * than the paper's 0, +-1, +-2.
 *
 * An image is cut into tiles of 4x4 pixels; a tile of a convolution's source is 6x6, with a pixel
 * of its neighbours on every side, zero beyond the image. e = 0..35 counts the products of a tile,
 * t the tiles:
 *
 *   forward:
 *     U[e][i][o] = (G g G^T)[e]      of each window g = w[o][i]
 *     V[e][t][i] = (B^T d B)[e]      of each tile d of x, 6x6
 *     M[e][t][o] = sum over i of V[e][t][i] U[e][i][o]
 *     y = A^T M A                    4x4 pixels of each tile
 *   source's gradient:
 *     the same of dy, with i and o exchanged and each window turned by half a circle
 *   weights' gradient:
 *     V[e][t][i] = (B^T d B)[e]      of each tile d of x, 6x6
 *     W[e][t][o] = (A d A^T)[e]      of each tile d of dy, 4x4
 *     S[e][o][i] = sum over t of W[e][t][o] V[e][t][i]
 *     dw[o][i] = G^T S G
 *
 * Cost: 36 multiplications where the direct sum has 144, when 4 divides height and width. Tiles are
 * taken in chunks whose V, M and W stay in a cache. Bytes: V and W 2.25 times the values they come
 * from (once written, once read for each panel of 2 * lanes columns, from the cache), U and S 4
 * times the weights; U is read once per chunk.
 *
 * Values of bf16 go to winograd_bf16.h, which has the same functions.
 *
 * No result depends on the number of threads: a sum runs over channels in order; over t in order
 * within a chunk, whose size depends on the shape alone, and then over the chunks in order. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_H
#define PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A convolution of x[N][in/L][H][W][L] by w[out][in][3][3], the arena's layout, to
 * y[N][out/L][H][W][L]. */
typedef struct psr_winograd {
    uint32_t images, in, out; /* N; channels, multiples of L */
    uint32_t height, width;
    uint32_t lanes; /* L: 8 or 16 */
    uint32_t threads;
    bool bf16; /* x, y, dx and dy; else float32 */
} psr_winograd;

/* Of in and of out, in float32. With fewer, direct sums are so short that they round much less:
 * ResNet-20, of 16, 32 and 64 channels, would have gradients up to 2.8 times as far from float64 as
 * PyTorch's float32 with Winograd everywhere, and 2.1 times with the forward pass from 64 on; the
 * rule is twice. In bf16 what is rounded are the values themselves, however many are summed up, and
 * the second number holds in both passes. */
enum { PSR_WINOGRAD_FORWARD_CHANNELS = 128, PSR_WINOGRAD_BACKWARD_CHANNELS = 64 };

/* Whether this processor has the instructions for float32: on x86-64 those of AVX2 and FMA. */
bool psr_winograd_supported(void);

/* y from x and the weights. scratch: psr_winograd_values_scratch() floats, on a cache line. */
void psr_winograd_forward(const psr_winograd *w, const void *x, const float *weights, void *y,
                          float *scratch);
/* dx from dy and the weights. scratch: likewise. */
void psr_winograd_source_gradient(const psr_winograd *w, const void *dy, const float *weights,
                                  void *dx, float *scratch);
size_t psr_winograd_values_scratch(const psr_winograd *w);

/* dw (overwritten) from x and dy. scratch: psr_winograd_weights_scratch() floats, on a cache
 * line. */
void psr_winograd_weights_gradient(const psr_winograd *w, const void *x, const void *dy, float *dw,
                                   float *scratch);
size_t psr_winograd_weights_scratch(const psr_winograd *w);

#endif
