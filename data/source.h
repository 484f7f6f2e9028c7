/* A source gives the labelled pictures of one split by their number, whatever they lie in: arrays
 * in memory (psr_memory_source_new; IDX and CIFAR files are unpacked into such), a mapped pack
 * (data/pack/pack.h), files that are decoded one by one, or nothing: generated pictures are drawn
 * when they are wanted (data/synthetic.h). So the loader, the pack's writer and `psring data check`
 * have one way to get a picture, and data may be larger than memory.
 *
 * Immutable after it was made. Any number of threads may call `picture`, `size` and `stored` at the
 * same time, each with a scratch of its own. What they give depends on the source and the number
 * alone: never on the thread, the order of calls or what the scratch held. */
#ifndef PSR_DATA_SOURCE_H
#define PSR_DATA_SOURCE_H

#include "base/content.h"
#include "base/err.h"
#include "data/picture.h"

#include <stdbool.h>

/* Memory of one thread, for pictures that must be decoded. It grows to the largest need and is used
 * again. In place; all zero: empty. psr_scratch_done frees it. */
typedef struct psr_picture_scratch {
    uint8_t *bytes; /* owned: the decoded picture */
    size_t size;
    uint8_t *stored; /* owned: the bytes of a file that is decoded */
    size_t stored_size;
    void *decoder; /* a decoder's own state, which it makes at its first call; NULL: none yet */
    void (*decoder_free)(void *decoder);
} psr_picture_scratch;

/* At least so many bytes, at a multiple of 64; what they held is lost. Borrowed from the scratch
 * until the next call. NOMEM. */
PSR_MUST_CHECK psr_err psr_scratch_bytes(psr_picture_scratch *scratch, size_t size,
                                         uint8_t **ret_bytes);
PSR_MUST_CHECK psr_err psr_scratch_stored(psr_picture_scratch *scratch, size_t size,
                                          uint8_t **ret_bytes);
void psr_scratch_done(psr_picture_scratch *scratch);

/* The part of a picture that the next step reads, and the size that it makes of it. The picture
 * that is given is that part alone. Only a decoder looks at to_height and to_width: it may give the
 * part at the smallest of its scales that covers them. (With --decode full they are 0.) */
typedef struct psr_picture_part {
    uint32_t top, left, height, width; /* inside the picture, in its pixels at full size */
    uint32_t to_height, to_width;      /* 0: as it is */
} psr_picture_part;

/* What stored bytes are. */
typedef enum psr_stored_form {
    PSR_STORED_PIXELS, /* raw: [channels, height, width] */
    PSR_STORED_JPEG,
    PSR_STORED_PNG,
    PSR_STORED_FORMS
} psr_stored_form;

/* A picture as it is stored: what `psring data pack` copies. */
typedef struct psr_stored {
    const uint8_t *bytes;
    size_t size;
    psr_stored_form form;
    uint32_t channels, height,
        width; /* PIXELS: the array's. Else as psr_picture_source's `size` says
                                         them, and channels are those of the source */
} psr_stored;

typedef struct psr_picture_source psr_picture_source;

/* What a kind of source does. */
typedef struct psr_picture_source_kind {
    const char *name; /* "memory", "pack", "folder", .. */
    /* Gives a part of picture i; part NULL: all of it, at full size. It is borrowed from the source
     * or from the scratch, and stays until the scratch is used again. FORMAT, IO: this picture
     * cannot be given; the message opens with the file's name. NOMEM. USAGE: a part outside the
     * picture. */
    psr_err (*picture)(const psr_picture_source *source, uint32_t i, const psr_picture_part *part,
                       psr_picture_scratch *scratch, psr_picture *ret_picture);
    /* The full height and width of picture i, without decoding it. Same errors. NULL: all pictures
     * have the source's height and width. */
    psr_err (*size)(const psr_picture_source *source, uint32_t i, psr_picture_scratch *scratch,
                    uint32_t *ret_height, uint32_t *ret_width);
    /* Picture i as it is stored, borrowed as above. Same errors. NULL: as pixels. */
    psr_err (*stored)(const psr_picture_source *source, uint32_t i, psr_picture_scratch *scratch,
                      psr_stored *ret_stored);
    /* The name of picture i for messages ("cat/7.jpg"). NULL: pictures have no names. */
    void (*name_of)(const psr_picture_source *source, uint32_t i, char *name, size_t size);
    /* Says that picture i will be wanted soon. Costs next to nothing. NULL: no use. */
    void (*prefetch)(const psr_picture_source *source, uint32_t i);
    /* Frees source and all that it owns. */
    void (*free)(psr_picture_source *source);
} psr_picture_source_kind;

/* Where a split's mean and deviation come from. */
typedef enum psr_constants_origin {
    PSR_CONSTANTS_COMPUTED, /* exactly, from all pixels of the train split */
    PSR_CONSTANTS_IMAGENET, /* a folder's default: see PSR_IMAGENET_MEAN */
    PSR_CONSTANTS_PACK,     /* written into the pack when it was made */
} psr_constants_origin;

/* The constants that are used for folders of pictures, whose pixels are not read at each start:
 * those of ImageNet's train split that torchvision's models name. --mean and --std replace them;
 * `psring data check` computes a folder's own, `psring data pack` writes them into the pack. */
#define PSR_IMAGENET_MEAN                                                                          \
    {                                                                                              \
        0.485f, 0.456f, 0.406f                                                                     \
    }
#define PSR_IMAGENET_DEVIATION                                                                     \
    {                                                                                              \
        0.229f, 0.224f, 0.225f                                                                     \
    }

/* A kind's own struct begins with this, or `state` points to it. */
struct psr_picture_source {
    const psr_picture_source_kind *kind;
    uint32_t count, classes;
    uint32_t channels;      /* of every picture: 1 or 3 */
    uint32_t height, width; /* of every picture; 0, 0: they vary */
    size_t scratch_bytes;   /* of a scratch that every picture takes; 0: none, or it varies */
    bool scaled;            /* --decode scaled; false: no part is given at a smaller scale */
    const uint32_t *labels; /* [count], below classes; lives as long as the source */
    const char *const *class_names; /* [classes], likewise; NULL: not known */
    /* Normalisation on the scale of 0 to 1, per channel; of the train split, in the test split
     * too. */
    float mean[3], deviation[3];
    psr_constants_origin origin;
    /* Digits that are the same exactly if labels and pictures are the same (psr_content's). For
     * files that are not read at the start: of their names, sizes and labels. "": not known yet. */
    char content[PSR_CONTENT_BYTES];
    void *state; /* the kind's */
};

/* Gives picture i < count, or a part of it: see psr_picture_source_kind. */
PSR_MUST_CHECK psr_err psr_picture_source_get(const psr_picture_source *source, uint32_t i,
                                              const psr_picture_part *part,
                                              psr_picture_scratch *scratch,
                                              psr_picture *ret_picture);
/* The full height and width of picture i. */
PSR_MUST_CHECK psr_err psr_picture_source_size(const psr_picture_source *source, uint32_t i,
                                               psr_picture_scratch *scratch, uint32_t *ret_height,
                                               uint32_t *ret_width);
/* Picture i as it is stored; as pixels if its kind has no stored form. */
PSR_MUST_CHECK psr_err psr_picture_source_stored(const psr_picture_source *source, uint32_t i,
                                                 psr_picture_scratch *scratch,
                                                 psr_stored *ret_stored);
/* Picture i as pixels, whatever it is stored as. */
PSR_MUST_CHECK psr_err psr_picture_source_pixels(const psr_picture_source *source, uint32_t i,
                                                 psr_picture_scratch *scratch,
                                                 psr_stored *ret_stored);
/* "17" if pictures have no names. */
void psr_picture_source_name(const psr_picture_source *source, uint32_t i, char *name, size_t size);
void psr_picture_source_prefetch(const psr_picture_source *source, uint32_t i);
void psr_picture_source_free(psr_picture_source *source); /* NULL allowed */

/* A source over arrays in memory: pixels [count, channels, height, width], labels [count]. Both are
 * borrowed for its life. class_names, mean, deviation and content are the caller's to set. The
 * caller owns *ret_source. NOMEM. */
PSR_MUST_CHECK psr_err psr_memory_source_new(const uint8_t *pixels, const uint32_t *labels,
                                             uint32_t count, uint32_t channels, uint32_t height,
                                             uint32_t width, uint32_t classes,
                                             psr_picture_source **ret_source);

/* Cuts *picture down to a part of it. USAGE: the part is empty or not inside. NULL: nothing to do.
 * */
PSR_MUST_CHECK psr_err psr_picture_cut(psr_picture *picture, const psr_picture_part *part);
/* A part of a picture whose channels lie in memory as planes, one after another, all of the
 * source's height and width; NULL: the whole picture. pixels are borrowed. USAGE as
 * psr_picture_cut. */
PSR_MUST_CHECK psr_err psr_picture_of_planes(const psr_picture_source *source,
                                             const uint8_t *pixels, const psr_picture_part *part,
                                             psr_picture *ret_picture);

/* Decodes stored bytes of a form other than PIXELS into a picture that the scratch holds. name: for
 * messages, which open with it. The decoders of JPEG and PNG have this type. FORMAT, NOMEM,
 * UNSUPPORTED: this build has no decoder for the form. */
typedef psr_err psr_decode_function(const uint8_t *bytes, size_t size, const char *name,
                                    uint32_t channels, const psr_picture_part *part,
                                    psr_picture_scratch *scratch, psr_picture *ret_picture);

#endif
