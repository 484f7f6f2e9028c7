/* Initial values of a convolution that whitens: of a layer with PSR_INIT_WHITENING, whose window
 * has d = C*K*K values and which has 2d channels. With the training set's mean S of p p^T over all
 * windows p, and S's eigenvalues l[0] >= .. >= l[d-1] and eigenvectors v[i], channel i is
 * v[i] / sqrt(l[i] + 5e-4), and channel d + i its negative (Page, "How to train your ResNet 8",
 * 2019; Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.2). An
 * eigenvector's sign is such that its component of largest magnitude is above 0.
 *
 * Sums are made in double and in order: the same images give the same bits. One thread. */
#ifndef PSR_MODEL_WHITENING_H
#define PSR_MODEL_WHITENING_H

#include "model/networks/network.h"

/* Images that are enough, the authors' number: the first ones of the training set. */
#define PSR_WHITENING_IMAGES 5000

typedef struct psr_whitening psr_whitening;

/* NOT_FOUND: no layer of the network whitens, or it does not read the images. NOMEM. net is
 * borrowed for life. The caller owns *ret_whitening: psr_whitening_free. */
PSR_MUST_CHECK psr_err psr_whitening_new(const psr_network *net, psr_whitening **ret_whitening);
void psr_whitening_free(psr_whitening *whitening); /* NULL allowed */

/* images[count,C,H,W], as the network gets them. */
void psr_whitening_add(psr_whitening *whitening, const float *images, uint32_t count);

/* Writes the layer's weights into the arena, from what was added: at least one image. NOMEM. */
PSR_MUST_CHECK psr_err psr_whitening_finish(const psr_whitening *whitening, float *arena);

/* Eigenvalues, descending, and eigenvectors (rows of vectors[n,n], of length 1, the component of
 * largest magnitude above 0) of the symmetric matrix a[n,n], which is overwritten; by cyclic Jacobi
 * rotations (Golub, Van Loan, "Matrix computations", 8.5). */
void psr_symmetric_eigen(double *a, uint32_t n, double *values, double *vectors);

#endif
