/* Prints pictures as decode.h decodes them, for tests that compare them with another decoder's.
 * usage: decode_tool FILE...: the whole picture at full size;
 *        decode_tool part TOP LEFT HEIGHT WIDTH TO_HEIGHT TO_WIDTH FILE...: a part, whose size is
 *        at least that of TO, or, with 0, as it is.
 * For each file a line "HEIGHT WIDTH" and the RGB bytes, or "0 0" and a line with the error. */
#include "base/system/file.h"
#include "data/images/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_err print(psr_image_decoder *decoder, const char *path, const psr_picture_part *part)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    psr_picture picture;
    PSR_TRY(psr_file_read(path, PSR_IMAGE_MAX_FILE_BYTES, &bytes, &size));
    psr_err err = psr_image_decode(decoder, path, bytes, size, part, &picture);
    if (err == PSR_OK) {
        printf("%u %u\n", picture.height, picture.width);
        for (uint32_t y = 0; y < picture.height; y++)
            fwrite(picture.pixels + y * picture.row, 3, picture.width, stdout);
    }
    free(bytes);
    return err;
}

int main(int argc, char **argv)
{
    psr_picture_part part = {0};
    psr_image_decoder *decoder = NULL;
    bool is_part = argc > 8 && strcmp(argv[1], "part") == 0;
    if (is_part) {
        uint32_t *to[] = {&part.top,   &part.left,      &part.height,
                          &part.width, &part.to_height, &part.to_width};
        for (int i = 0; i < 6; i++)
            *to[i] = (uint32_t)strtoul(argv[2 + i], NULL, 10);
    }
    if (psr_image_decoder_new(&decoder) != PSR_OK)
        return 1;
    for (int i = is_part ? 8 : 1; i < argc; i++)
        if (print(decoder, argv[i], is_part ? &part : NULL) != PSR_OK)
            printf("0 0\n%s\n", psr_err_detail());
    psr_image_decoder_free(decoder);
    return fflush(stdout) == 0 ? 0 : 1;
}
