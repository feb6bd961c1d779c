#include "sim/sim_layout.h"

#include <stdbool.h>
#include <string.h>

/* Digits of a number of 1..SIM_LAYOUT_MAX_TILE; returns their end, NULL if there is none. */
static const char *read_number(const char *text, uint32_t *out_number) {
    uint32_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && number <= SIM_LAYOUT_MAX_TILE; p++)
        number = number * 10u + (uint32_t)(*p - '0');
    *out_number = number;
    return number >= 1 && number <= SIM_LAYOUT_MAX_TILE ? p : NULL;
}

sim_status_t sim_layout_read(const char *text, uint32_t out_tile[2], sim_error_t *err) {
    out_tile[0] = out_tile[1] = 1;
    if (strcmp(text, "none") == 0) return SIM_OK;
    const char *p = read_number(text, &out_tile[0]);
    bool is_right = p != NULL && *p == 'x';
    if (is_right) {
        p = read_number(p + 1, &out_tile[1]);
        is_right = p != NULL && *p == '\0';
    }
    if (is_right) return SIM_OK;
    out_tile[0] = out_tile[1] = 1;
    return sim_error_set(err, SIM_ERROR_CONFIG,
                         "layout.tile = %s: it must be none, or rows x columns of 1 to %u as in "
                         "8x128",
                         text, SIM_LAYOUT_MAX_TILE);
}
