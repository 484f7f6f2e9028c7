/* mixup and cutmix: a sample's picture is mixed with a partner's, and its target is both labels.
 *
 * The partner and the share are drawn for each sample by itself, from (seed, epoch, sample, copy):
 * any sample of the set, uniformly, so that neither depends on batch, workers or order.
 * (The papers' programs, and torchvision, mix a batch with itself turned by one, with one share for
 * the whole batch. The papers' text draws pairs.) The partner's picture has gone through the same
 * list, with what it draws itself. With both steps in a list each sample goes by one of them,
 * either with probability 1/2. Pure functions; any thread. */
#ifndef PSR_DATA_AUGMENT_MIX_H
#define PSR_DATA_AUGMENT_MIX_H

#include "data/augment/draws.h"

typedef struct psr_mix {
    uint32_t partner; /* a sample */
    float share;      /* of the sample's own label, 0..1; the partner's has the rest */
    bool has_box;     /* cutmix: the box is the partner's; else share is that of every pixel */
    psr_box box;
} psr_mix;

/* The plan mixes. count: samples of the set. side: of the pictures.
 *   mixup:  share ~ Beta(alpha, alpha); x = share x_own + (1 - share) x_partner (Zhang et al.,
 *           "mixup: beyond empirical risk minimization", 2018, section 2).
 *   cutmix: r = sqrt(1 - lambda), lambda ~ Beta(alpha, alpha); a box of r times both sides around
 *           any pixel, cut at the edges; share = 1 - its part of the area (Yun et al., "CutMix",
 *           2019, section 3.1; box as torchvision's CutMix.make_params). */
psr_mix psr_draw_mix(const psr_augment_plan *plan, const psr_augment_key *key, uint32_t count,
                     uint32_t side);

/* image, partner: [channels, side, side]. Changes image. */
void psr_mix_apply(const psr_mix *mix, uint32_t channels, uint32_t side, float *image,
                   const float *partner);

#endif
