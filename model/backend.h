/* The back end wall: compiles a description for a batch size and precision into an executable.
 * Nothing else knows whether a CPU or a GPU computes, or by which library.
 *
 * Flow of one training step, all on the compute thread:
 *   forward:  for each node in order: before the first read of a bucket's weights calls
 *             weights_wanted(b), which returns when they are in the arena; then computes.
 *   backward: for each node in reverse; when the last gradient of bucket b has been written into
 *   the gradient arena AND the last reader of b's weights has run, calls gradient_ready(b). From
 *   then on the exchange may read the gradient and overwrite b's weights. If the device is still
 *   working on that, the back end passes a fence, and the exchange waits for it. Every bucket that
 *   is not frozen is reported exactly once a pass, always in the same order for one executable's
 *   network. Frozen weights are in the arena from the beginning, and nobody reads what lies in the
 *   place of their gradients. The pass ends where no value before has a gradient that is wanted.
 *   progress is called after every node: it shows that the compute thread is alive.
 *
 * Gradients are written, not added. The padding of the gradient arena is never written, so it stays
 * zero. A step allocates nothing, except the first with its batch size. In every precision the
 * weights are those of the float32 arena; other forms are copies. */
#ifndef PSR_MODEL_BACKEND_H
#define PSR_MODEL_BACKEND_H

#include "base/config/config.h"
#include "base/arrays/byte_images.h"
#include "base/arrays/fence.h"
#include "model/networks/network.h"
#include "model/norm_sums.h"

/* What is computed as one: a node, or several that are fused. */
typedef struct psr_exec_layer {
    uint32_t node; /* the first */
    uint32_t count;
    bool backward;
} psr_exec_layer;

/* What the executable calls while it runs; any may be NULL. A failure ends the pass with that
 * status. */
typedef struct psr_exec_hooks {
    void *context; /* borrowed for the call */
    psr_err (*weights_wanted)(void *context, uint32_t bucket);
    /* fence: passes when the gradient has been written and the weights have been read
     * (base/arrays/fence.h). NULL: both have happened. */
    psr_err (*gradient_ready)(void *context, uint32_t bucket, psr_fence *fence);
    void (*progress)(void *context);
    /* A layer was computed meanwhile, by psr_clock_ns: all but waits, in spans that do not nest, in
     * their order. Called when that is known: on a device, when the pass has ended. A device is
     * given each step by itself for that, in such a pass. */
    void (*layer)(void *context, const psr_exec_layer *layer, int64_t begin_ns, int64_t end_ns);
} psr_exec_hooks;

/* Targets of two labels: what of a sample's target is not its share is second. */
typedef struct psr_second_labels {
    const uint32_t *labels; /* [N], below classes */
    const float *shares;    /* [N]: of the sample's first label, 0..1 */
} psr_second_labels;

/* A batch, borrowed for the call. */
typedef struct psr_batch {
    const float *images;     /* x[N,C,H,W], 64-byte aligned; not read where there are bytes */
    const uint32_t *labels;  /* [N], below classes */
    const uint32_t *samples; /* [N]: indices in the data set, for counter-based dropout */
    uint32_t count;          /* N: at most the backend's max_batch; 0: --sync-bn alone */
    uint32_t epoch;
    uint64_t seed;
    const psr_second_labels *second; /* NULL: each sample has one label */
    /* Of a back end that takes bytes (psr_backend_takes_bytes): it makes the images of them. NULL:
     * they are floats */
    const psr_byte_images *bytes;
    /* What the next training pass will be given, if that is known and has bytes: a device may copy
     * them while it computes this pass. Of it only bytes and count are read. Until then the bytes
     * stay as they are, and so does what is said of them; a pass that is given others in between
     * loses nothing but time. NULL: it is not known */
    const struct psr_batch *next;
    /* Of the back end cuda alone, in fp16: by what gradients are multiplied while they go back
     * through the network, a power of two; those that are written are divided by it again. What has
     * overflowed is infinite, or no number. 0: by 1 */
    float gradient_scale;
} psr_batch;

/* The arrays that the executable works on; all borrowed for the call. */
typedef struct psr_exec_state {
    const float *weights; /* params.length floats */
    float *gradients;     /* params.length floats; training only */
    float *buffers;       /* buffers.length floats: read in inference, updated in training */
} psr_exec_state;

typedef struct psr_pass_result {
    double loss_sum;  /* sum over the batch of the per-sample loss, before division */
    uint32_t correct; /* argmax equals label */
    uint32_t top5;    /* the label is among the five largest logits */
} psr_pass_result;

typedef struct psr_backend psr_backend;

typedef struct psr_backend_options {
    psr_backend_kind kind;
    psr_precision precision;
    uint32_t max_batch;
    double label_smoothing;
    uint32_t threads;
    bool sync_norms; /* --sync-bn: passes stop at each batch norm; not the played back end's */
    const psr_buckets *buckets; /* borrowed for the backend's life */
    /* The algorithms of convolutions: "auto" (by rule: model/onednn/choice/rule.h), "timed",
     * "direct", or a text that psr_backend_algorithms returned. NULL: auto. */
    const char *algorithms;
    /* Of the back end cuda alone: which GPU, from 0; and whether numbers go round where there are
     * fewer; a directory where what cuDNN has built is kept from one start to the next
     * (model/cuda/plan_files.h; NULL: nowhere; borrowed for the backend's life). */
    uint32_t device;
    bool shares_devices;
    const char *plan_directory;
    bool unrecorded; /* each step is ordered by itself in every pass (model/cuda/segments.h) */
    /* Of the played back end alone: the file that it plays (model/played/profile.h; borrowed for
     * the call), how many times as long it takes, and whether gradients are random numbers, a
     * function of seed, epoch, sample and tensor, instead of zeros. */
    const char *profile;
    double dilate;
    bool seeded_gradients;
    /* --update-on device, of the back end cuda alone: whose optimizer the back end updates the
     * weights with (below); borrowed for life. NULL: it is given the weights. */
    const psr_config *updates;
    bool keeps_gradients; /* with updates: gradients stay on the device (psr_backend_gradients) */
} psr_backend_options;

/* The caller owns *ret_backend: psr_backend_free. net is borrowed for the backend's life.
 * Executables for other batch sizes (the last batch, evaluation) are compiled at first use and
 * kept; they share one workspace. Errors: UNSUPPORTED (precision on this processor), NOMEM,
 * COMPUTE. One thread: the compute thread. */
PSR_MUST_CHECK psr_err psr_backend_new(const psr_network *net, const psr_backend_options *options,
                                       psr_backend **ret_backend);
void psr_backend_free(psr_backend *backend);

/* Forward and backward pass with the batch's statistics. The gradient is that of (sum of the
 * samples' losses) * loss_scale, so loss_scale should be 1 / (samples that all workers together
 * have in this step). Updates running statistics (variance unbiased, as PyTorch's). */
PSR_MUST_CHECK psr_err psr_backend_train(psr_backend *backend, const psr_batch *batch,
                                         const psr_exec_state *state, float loss_scale,
                                         const psr_exec_hooks *hooks, psr_pass_result *ret_result);

/* With options->sync_norms, instead: the same in parts, so that one thread can take the passes of
 * several back ends together. Begin, then advance until a pass has ended. Each advance but the last
 * stops at a batch norm and gives this worker's sums there (model/norm_sums.h): the caller replaces
 * them by those of all workers before the next one. They are the back end's, until then. With a
 * batch of 0 samples nothing is computed: the sums are zeros, only running statistics change, and
 * no hook is called. What batch and state point to, and hooks, are borrowed until the pass has
 * ended. */
typedef struct psr_norm_sums {
    double *values; /* NULL: the pass has ended */
    size_t count;
} psr_norm_sums;
PSR_MUST_CHECK psr_err psr_backend_begin(psr_backend *backend, const psr_batch *batch,
                                         const psr_exec_state *state, float loss_scale,
                                         const psr_exec_hooks *hooks);
/* ret_result: set when the pass has ended. */
PSR_MUST_CHECK psr_err psr_backend_advance(psr_backend *backend, psr_norm_sums *ret_sums,
                                           psr_pass_result *ret_result);

/* Forward pass only, with running statistics and without dropout. logits: NULL, or count*classes
 * floats, plain [N,classes]. */
PSR_MUST_CHECK psr_err psr_backend_infer(psr_backend *backend, const psr_batch *batch,
                                         const psr_exec_state *state, const psr_exec_hooks *hooks,
                                         float *logits, psr_pass_result *ret_result);

/* With options->updates the back end holds the weights and the optimizer's state, on its device,
 * and updates them there: it is given sums of gradients, and does not read psr_exec_state's
 * weights. The caller keeps the same arrays on the host, and asks for what the device has when
 * somebody reads them there. The compute thread, as all of this.
 *
 * An update of a bucket is ordered where a pass first wants the bucket: when weights_wanted(b) has
 * returned, b's range of the sums is read on the host, and may be written again from then on. So
 * the exchange lands sums instead of weights (worker/exchange/exchange.h). */
typedef struct psr_due_update {
    uint64_t number;  /* of the update, from 1: passes read the weights behind it. 0: none is due */
    uint64_t skipped; /* of those before: left out (fp16), and not counted by the optimizer */
    float lr;         /* of it (psr_schedule_lr) */
    /* params.length floats, borrowed until another update is due, or NULL; with keeps_gradients
     * NULL: the sums have taken the gradients' place */
    const float *sums;
} psr_due_update;

/* Gives it the weights, which have had `number` updates, and, unless slots is NULL, the state
 * arrays of the optimizer in their order (psr_optimizer_slot; that of --ema is not among them),
 * which begin as zeros. All are copied. COMPUTE. */
PSR_MUST_CHECK psr_err psr_backend_hold(psr_backend *backend, const float *weights,
                                        float *const *slots, uint64_t number);
/* What is due in the next passes: the update behind the one that was due before, or the same one.
 * NULL: they read weights that they are given, and what the back end held is lost until
 * psr_backend_hold. */
void psr_backend_due(psr_backend *backend, const psr_due_update *update);
/* Makes the update that is due of all buckets, whose sums have landed, and copies out the weights
 * and the state arrays. Either may be NULL: nobody reads them. NUMERIC: a sum is not finite; passes
 * return that as well. COMPUTE. */
PSR_MUST_CHECK psr_err psr_backend_held(psr_backend *backend, float *ret_weights,
                                        float *const *ret_slots);

/* With options->keeps_gradients: the device's memory in which gradients lie, params.length floats,
 * for who sums them there, on the same device, between a bucket's fence and its next update.
 * psr_exec_state's are not written. Borrowed for life. */
float *psr_backend_gradients(psr_backend *backend);
/* They become zeros, for a rank without samples. Nobody sums them. COMPUTE. */
PSR_MUST_CHECK psr_err psr_backend_zero_gradients(psr_backend *backend);

/* Whether a batch's images may be bytes: what a device makes of them need not be copied to it. The
 * images, and so all results, are those of the same images as floats, bit by bit. */
bool psr_backend_takes_bytes(const psr_backend *backend);

/* The algorithms that were chosen, as one line of text for run.json and for the other ranks. "" if
 * there was nothing to choose (no convolutions, or a back end that has no others). The choice is
 * made in psr_backend_new. Borrowed until the backend is freed. */
const char *psr_backend_algorithms(const psr_backend *backend);

/* Of the back end cuda: the library's numbers of the engines that compute a training pass of
 * max_batch samples, for run.json: those of its graphs in the order in which they were planned,
 * each graph once, "28,4,28". "" of others, and where the list is longer than a line may be.
 * Borrowed until the backend is freed. */
const char *psr_backend_engines(const psr_backend *backend);
#define PSR_BACKEND_ENGINES_MAX 2048 /* bytes, the final zero too */

/* What of a training step with max_batch samples is computed by a library's reference loops, since
 * it has nothing better for this processor, and what that costs: one line for a person; "" when
 * there is none. Borrowed until the backend is freed. */
const char *psr_backend_loops(const psr_backend *backend);
#define PSR_BACKEND_LOOPS_MAX 400 /* bytes, the final zero too */

/* "onednn 2.6.3 avx512_core_bf16 gnu-omp": the identity of what computes; it must be equal on all
 * workers for equal bits. device: of the back end cuda, which GPU of this host, counted round where
 * there are fewer; others ignore it. Static storage, until the next call. */
const char *psr_backend_identity(psr_backend_kind kind, uint32_t device);

/* Bytes of workspace, packed weights and activations that it holds now. */
size_t psr_backend_bytes(const psr_backend *backend);

#endif
