#include <criterion/criterion.h>
#include <string.h>

#include "sim/sim_layout.h"

Test(layout, tiles) {
    static const struct {
        const char *text;
        uint32_t rows, cols;
    } CASES[] = {{"none", 1, 1}, {"8x128", 8, 128}, {"1x1", 1, 1}, {"4096x4096", 4096, 4096}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        uint32_t tile[2] = {7, 7};
        sim_error_t err = {0};
        cr_assert_eq(sim_layout_read(CASES[i].text, tile, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(tile[0], CASES[i].rows, "%s", CASES[i].text);
        cr_assert_eq(tile[1], CASES[i].cols, "%s", CASES[i].text);
    }
}

Test(layout, what_is_no_tile_is_refused) {
    static const char *const CASES[] = {
        "",       "8",       "x8",   "8x",   "0x8", "8x0",    "8x8x",  "8 x 128",
        "4097x8", "8x40960", "-8x8", "None", "8X8", "8x128 ", "none8", "9999999999999x8"};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        uint32_t tile[2];
        sim_error_t err = {0};
        cr_assert_eq(sim_layout_read(CASES[i], tile, &err), SIM_ERROR_CONFIG, "'%s'", CASES[i]);
        cr_assert(strstr(err.text, "rows x columns of 1 to 4096") != NULL, "%s", err.text);
        cr_assert(tile[0] == 1 && tile[1] == 1);
    }
}
