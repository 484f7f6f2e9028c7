/* Files of pictures and what they become: every kind of PNG and JPEG, orientations, parts, scales;
 * and broken files, which are refused by name. How the pixels compare with Pillow's is in
 * tests/integration/test_image_peer.py. */
#include "tests/unit/data/images/made_pictures.h"

#include "data/images/decode.h"

static psr_image_decoder *decoder;

static int make_decoder(void **state)
{
    (void)state;
    return psr_image_decoder_new(&decoder) == PSR_OK ? 0 : -1;
}

static int free_decoder(void **state)
{
    (void)state;
    psr_image_decoder_free(decoder);
    return 0;
}

static psr_picture decoded(made file)
{
    psr_picture picture;
    expect_ok(psr_image_decode(decoder, "file", file.bytes, file.size, NULL, &picture));
    assert_int_equal(picture.channels, 3);
    return picture;
}

static uint8_t at(const psr_picture *p, uint32_t y, uint32_t x, uint32_t c)
{
    return p->pixels[c * p->plane + y * p->row + x * p->step];
}

static void assert_pixel(const psr_picture *p, uint32_t y, uint32_t x, int r, int g, int b)
{
    assert_int_equal(at(p, y, x, 0), r);
    assert_int_equal(at(p, y, x, 1), g);
    assert_int_equal(at(p, y, x, 2), b);
}

/* ---- PNG ---- */

static void a_png_of_rgb_has_the_bytes_that_were_written(void **state)
{
    (void)state;
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        made file = make_detailed_png(13, 7, 0, interlaced);
        psr_picture p = decoded(file);
        assert_int_equal(p.height, 13);
        assert_int_equal(p.width, 7);
        for (uint32_t y = 0; y < 13; y++)
            for (uint32_t x = 0; x < 7; x++)
                assert_pixel(&p, y, x, detail(y, x, 0), detail(y, x, 1), detail(y, x, 2));
        free(file.bytes);
    }
}

static void grey_palette_alpha_and_16_bits_become_rgb(void **state)
{
    (void)state;
    const struct {
        int color, bits;
        uint8_t row[8];
        int rgb[3];
    } kinds[] = {
        {PNG_COLOR_TYPE_GRAY, 8, {77}, {77, 77, 77}},
        {PNG_COLOR_TYPE_GRAY, 1, {0x80}, {255, 255, 255}},
        {PNG_COLOR_TYPE_GRAY, 2, {0x40}, {85, 85, 85}},
        {PNG_COLOR_TYPE_GRAY, 16, {77, 255}, {77, 77, 77}},
        {PNG_COLOR_TYPE_GRAY_ALPHA, 8, {77, 3}, {77, 77, 77}},
        {PNG_COLOR_TYPE_PALETTE, 8, {1}, {40, 50, 60}},
        {PNG_COLOR_TYPE_PALETTE, 2, {0xC0}, {255, 0, 128}},
        {PNG_COLOR_TYPE_RGB, 16, {9, 255, 8, 0, 7, 128}, {9, 8, 7}},
        {PNG_COLOR_TYPE_RGB_ALPHA, 8, {9, 8, 7, 0}, {9, 8, 7}},
        {PNG_COLOR_TYPE_RGB_ALPHA, 16, {9, 1, 8, 2, 7, 3, 0, 0}, {9, 8, 7}},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        made file = make_png(
            (png_kind){.height = 1, .width = 1, .color = kinds[k].color, .bits = kinds[k].bits},
            kinds[k].row, sizeof kinds[k].row);
        psr_picture p = decoded(file);
        assert_int_equal(p.height * p.width, 1);
        assert_pixel(&p, 0, 0, kinds[k].rgb[0], kinds[k].rgb[1], kinds[k].rgb[2]);
        free(file.bytes);
    }
}

/* ---- orientation ---- */

/* EXIF 2.3, section 4.6.4: which corner of the upright picture the stored row 0, column 0 is, and
 * whether stored rows run down or across. */
static const struct {
    bool bottom, right, across;
} corners[9] = {
    [1] = {false, false, false}, [2] = {false, true, false}, [3] = {true, true, false},
    [4] = {true, false, false},  [5] = {false, false, true}, [6] = {false, true, true},
    [7] = {true, true, true},    [8] = {true, false, true},
};

static void assert_turned(const psr_picture *p, uint32_t height, uint32_t width,
                          uint8_t orientation)
{
    assert_int_equal(p->height, corners[orientation].across ? width : height);
    assert_int_equal(p->width, corners[orientation].across ? height : width);
    for (uint32_t r = 0; r < height; r++) {
        for (uint32_t c = 0; c < width; c++) {
            uint32_t y = corners[orientation].across ? c : r;
            uint32_t x = corners[orientation].across ? r : c;
            y = corners[orientation].bottom ? p->height - 1 - y : y;
            x = corners[orientation].right ? p->width - 1 - x : x;
            assert_pixel(p, y, x, detail(r, c, 0), detail(r, c, 1), detail(r, c, 2));
        }
    }
}

static void every_orientation_is_made_upright(void **state)
{
    (void)state;
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        psr_image_size size;
        made file = make_detailed_png(5, 3, orientation, false);
        psr_picture p = decoded(file);
        assert_turned(&p, 5, 3, orientation);
        expect_ok(psr_image_measure("file", file.bytes, file.size, &size));
        assert_int_equal(size.height, p.height);
        assert_int_equal(size.width, p.width);
        free(file.bytes);
    }
}

static void an_orientation_that_exif_does_not_have_is_upright(void **state)
{
    (void)state;
    made file = make_detailed_png(5, 3, 9, false);
    psr_picture p = decoded(file);
    assert_turned(&p, 5, 3, 1);
    free(file.bytes);
    file = make_jpeg((jpeg_kind){
        .height = 16, .width = 24, .channels = 3, .luma = 2, .quality = 90, .orientation = 6});
    p = decoded(file);
    assert_int_equal(p.height, 24);
    assert_int_equal(p.width, 16);
    free(file.bytes);
}

/* ---- JPEG ---- */

static void a_grey_jpeg_has_three_equal_channels(void **state)
{
    (void)state;
    made file =
        make_jpeg((jpeg_kind){.height = 9, .width = 17, .channels = 1, .luma = 1, .quality = 100});
    psr_picture p = decoded(file);
    for (uint32_t y = 0; y < 9; y++) {
        for (uint32_t x = 0; x < 17; x++) {
            int v = at(&p, y, x, 0);
            assert_pixel(&p, y, x, v, v, v);
            assert_true(abs(v - detail(y, x, 0)) <= 3);
        }
    }
    free(file.bytes);
}

static void a_cmyk_jpeg_becomes_rgb_as_pillow_does_it(void **state)
{
    (void)state;
    made file = make_jpeg((jpeg_kind){
        .height = 8, .width = 8, .channels = 4, .luma = 1, .quality = 100, .flat = true});
    psr_picture p = decoded(file);
    /* k - (255 - c) k / 255 with k 128: 128 * 10 / 255 = 5.02, 30.1, 100.4, rounded the other way
     * round. */
    assert_pixel(&p, 3, 3, 5, 30, 100);
    free(file.bytes);
}

static void one_pixel_is_a_picture(void **state)
{
    (void)state;
    made jpeg = make_jpeg((jpeg_kind){
        .height = 1, .width = 1, .channels = 3, .luma = 2, .quality = 100, .flat = true});
    psr_picture p = decoded(jpeg);
    assert_int_equal(p.height * p.width, 1);
    assert_true(abs(at(&p, 0, 0, 2) - 200) <= 3);
    const psr_picture_part part = {.height = 1, .width = 1, .to_height = 224, .to_width = 224};
    expect_ok(psr_image_decode(decoder, "file", jpeg.bytes, jpeg.size, &part, &p));
    assert_int_equal(p.height * p.width, 1);
    free(jpeg.bytes);
}

/* ---- parts and scales ---- */

static uint32_t below(uint32_t *seed, uint32_t bound)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % bound;
}

static void a_part_has_the_pixels_of_the_whole(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (uint32_t k = 0; k < 48; k++) {
        uint32_t height = 1 + below(&seed, 90), width = 1 + below(&seed, 90);
        made file = k % 4 == 3 ? make_detailed_png(height, width, (uint8_t)(k % 9), k % 8 == 3)
                               : make_jpeg((jpeg_kind){.height = height,
                                                       .width = width,
                                                       .channels = k % 4 == 2 ? 4 : 3,
                                                       .luma = 1 + (int)(k % 2),
                                                       .quality = 75,
                                                       .orientation = (uint8_t)(k % 9),
                                                       .progressive = k % 5 == 0});
        psr_picture p = decoded(file);
        uint32_t all_height = p.height, all_width = p.width;
        uint8_t *all = malloc((size_t)all_height * all_width * 3);
        assert_non_null(all);
        for (uint32_t y = 0; y < all_height; y++)
            memcpy(all + (size_t)y * all_width * 3, p.pixels + y * p.row, (size_t)all_width * 3);
        for (uint32_t n = 0; n < 8; n++) {
            psr_picture_part part = {.height = 1 + below(&seed, all_height),
                                     .width = 1 + below(&seed, all_width)};
            part.top = below(&seed, all_height - part.height + 1);
            part.left = below(&seed, all_width - part.width + 1);
            expect_ok(psr_image_decode(decoder, "file", file.bytes, file.size, &part, &p));
            assert_int_equal(p.height, part.height);
            assert_int_equal(p.width, part.width);
            for (uint32_t y = 0; y < part.height; y++)
                assert_memory_equal(p.pixels + y * p.row,
                                    all + ((size_t)(part.top + y) * all_width + part.left) * 3,
                                    (size_t)part.width * 3);
        }
        free(all);
        free(file.bytes);
    }
}

static void the_smallest_scale_that_covers_what_is_wanted_is_taken(void **state)
{
    (void)state;
    made file =
        make_jpeg((jpeg_kind){.height = 160, .width = 96, .channels = 3, .luma = 2, .quality = 90});
    const struct {
        uint32_t to, height, width;
    } cases[] = {{12, 20, 12},  {13, 40, 24},  {24, 40, 24},   {25, 80, 48}, {48, 80, 48},
                 {49, 160, 96}, {96, 160, 96}, {500, 160, 96}, {0, 160, 96}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_picture p;
        psr_picture_part part = {
            .height = 160, .width = 96, .to_height = cases[i].to, .to_width = cases[i].to};
        expect_ok(psr_image_decode(decoder, "file", file.bytes, file.size, &part, &p));
        assert_int_equal(p.height, cases[i].height);
        assert_int_equal(p.width, cases[i].width);
    }
    free(file.bytes);
}

static void a_part_outside_the_picture_is_refused(void **state)
{
    (void)state;
    psr_picture p;
    made file = make_detailed_png(5, 3, 0, false);
    const psr_picture_part parts[] = {{.height = 6, .width = 1},
                                      {.top = 5, .height = 1, .width = 1},
                                      {.left = UINT32_MAX, .height = 1, .width = 2},
                                      {.height = 0, .width = 1}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_int_equal(psr_image_decode(decoder, "file", file.bytes, file.size, &parts[i], &p),
                         PSR_ERR_USAGE);
    free(file.bytes);
}

/* ---- broken files ---- */

static psr_err whole(made file, size_t size)
{
    psr_picture p;
    return psr_image_decode(decoder, "file", file.bytes, size, NULL, &p);
}

static void what_is_no_picture_is_refused_by_name(void **state)
{
    (void)state;
    uint8_t words[] = "class folders hold pictures";
    made text = {words, 27};
    expect_failure(whole(text, 27), PSR_ERR_FORMAT,
                   "file: not a picture that psring knows, should be a JPEG or PNG picture");
    expect_failure(whole(text, 0), PSR_ERR_FORMAT,
                   "file: an empty file, should be a JPEG or PNG picture");
}

static void a_file_that_ends_early_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    made files[3] = {
        make_jpeg((jpeg_kind){.height = 33, .width = 40, .channels = 3, .luma = 2, .quality = 60}),
        make_jpeg((jpeg_kind){.height = 33,
                              .width = 40,
                              .channels = 3,
                              .luma = 1,
                              .quality = 60,
                              .progressive = true}),
        make_detailed_png(17, 19, 0, true)};
    for (int f = 0; f < 3; f++) {
        psr_image_size size;
        for (size_t cut = 0; cut + 2 < files[f].size; cut++) {
            /* A PNG's last chunk, of 12 bytes, says only that it ends. */
            psr_err expected = f == 2 && cut + 12 >= files[f].size ? PSR_OK : PSR_ERR_FORMAT;
            assert_int_equal(whole(files[f], cut), expected);
            assert_int_equal(psr_image_check(decoder, "file", files[f].bytes, cut, &size),
                             PSR_ERR_FORMAT);
        }
        expect_ok(psr_image_check(decoder, "file", files[f].bytes, files[f].size, &size));
        assert_int_equal(size.height, f == 2 ? 17 : 33);
        free(files[f].bytes);
    }
}

/* Where a JPEG's frame header says its height: behind FF C0, a length and the precision. */
static uint8_t *jpeg_height(made file)
{
    for (size_t i = 0; i + 9 < file.size; i++)
        if (file.bytes[i] == 0xFF && file.bytes[i + 1] == 0xC0)
            return file.bytes + i + 5;
    fail_msg("%s", "no frame header");
    return NULL;
}

static void a_picture_that_claims_to_be_huge_is_refused_before_it_takes_memory(void **state)
{
    (void)state;
    made jpeg =
        make_jpeg((jpeg_kind){.height = 8, .width = 8, .channels = 3, .luma = 1, .quality = 60});
    uint8_t *height = jpeg_height(jpeg);
    memcpy(height, "\xFF\xDC\xFF\xDC", 4);
    expect_failure(whole(jpeg, jpeg.size), PSR_ERR_FORMAT,
                   "file: a picture of 65500x65500 pixels, sides should be 1..16384");
    memcpy(height, "\x40\x00\x20\x00", 4);
    expect_failure(whole(jpeg, jpeg.size), PSR_ERR_FORMAT,
                   "file: a picture of 8192x16384 pixels, should have at most 67108864 in all");
    free(jpeg.bytes);

    made png = make_detailed_png(2, 2, 0, false);
    memcpy(png.bytes + 16, "\x00\x00\x40\x01", 4); /* the header's checksum is wrong now */
    assert_int_equal(whole(png, png.size), PSR_ERR_FORMAT);
    free(png.bytes);
}

static void no_changed_byte_harms_more_than_its_picture(void **state)
{
    (void)state;
    made files[2] = {
        make_jpeg((jpeg_kind){
            .height = 40, .width = 33, .channels = 3, .luma = 2, .quality = 60, .orientation = 7}),
        make_detailed_png(9, 8, 5, false)};
    for (int f = 0; f < 2; f++) {
        for (size_t i = 0; i < files[f].size; i++) {
            uint8_t before = files[f].bytes[i];
            files[f].bytes[i] = (uint8_t)(before ^ (1u << i % 8));
            psr_image_size size;
            psr_picture p;
            psr_err err =
                psr_image_decode(decoder, "file", files[f].bytes, files[f].size, NULL, &p);
            assert_true(err == PSR_OK || strncmp(psr_err_detail(), "file: ", 6) == 0);
            /* What the check lets through, decoding lets through. */
            if (psr_image_check(decoder, "file", files[f].bytes, files[f].size, &size) == PSR_OK) {
                assert_int_equal(err, PSR_OK);
            }
            files[f].bytes[i] = before;
        }
        free(files[f].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_png_of_rgb_has_the_bytes_that_were_written),
        cmocka_unit_test(grey_palette_alpha_and_16_bits_become_rgb),
        cmocka_unit_test(every_orientation_is_made_upright),
        cmocka_unit_test(an_orientation_that_exif_does_not_have_is_upright),
        cmocka_unit_test(a_grey_jpeg_has_three_equal_channels),
        cmocka_unit_test(a_cmyk_jpeg_becomes_rgb_as_pillow_does_it),
        cmocka_unit_test(one_pixel_is_a_picture),
        cmocka_unit_test(a_part_has_the_pixels_of_the_whole),
        cmocka_unit_test(the_smallest_scale_that_covers_what_is_wanted_is_taken),
        cmocka_unit_test(a_part_outside_the_picture_is_refused),
        cmocka_unit_test(what_is_no_picture_is_refused_by_name),
        cmocka_unit_test(a_file_that_ends_early_is_refused_wherever_it_ends),
        cmocka_unit_test(a_picture_that_claims_to_be_huge_is_refused_before_it_takes_memory),
        cmocka_unit_test(no_changed_byte_harms_more_than_its_picture),
    };
    return cmocka_run_group_tests(tests, make_decoder, free_decoder);
}
