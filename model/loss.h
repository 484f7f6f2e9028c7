/* Softmax cross entropy with label smoothing, on plain logits[N,K]; shared by the back ends.
 *
 * With e the smoothing, the target is t[k] = e/K + (1-e)[k == label] (Szegedy et al., "Rethinking
 * the Inception architecture", 2016, section 7; torch.nn.CrossEntropyLoss's label_smoothing). The
 * loss of a sample is -sum_k t[k] log p[k] with p = softmax(logits), its gradient p - t (the
 * targets sum to 1). The arithmetic within a sample is double; results are rounded once. Any
 * thread; no state. */
#ifndef PSR_MODEL_LOSS_H
#define PSR_MODEL_LOSS_H

#include "model/backend.h"
#include "model/real.h"

/* labels[N] are below classes. second: NULL, or a sample's target is share s of its label and 1 - s
 * of its second label (mixup, CutMix): t[k] = e/K + (1-e)(s [k == label] + (1-s) [k == second]), as
 * torch.nn.CrossEntropyLoss with class probabilities. gradient: NULL (inference) or [N,K]; d(sum of
 * losses)/d(logits) * loss_scale is written there. It may be logits itself. correct counts the
 * samples with argmax == label, the first one; of equal logits the lowest index is the argmax.
 * top5 counts those with fewer than five logits before the label's in that order. */
void psr_loss_cross_entropy(const psr_real *logits, const uint32_t *labels,
                            const psr_second_labels *second, uint32_t count, uint32_t classes,
                            double label_smoothing, float loss_scale, psr_real *gradient,
                            psr_pass_result *ret_result);

#endif
