/*
 * Storage of tensors in tiles: layout.tile = "RxC" pads the minor two dimensions to whole tiles of
 * R x C elements. Text to numbers only; who allocates tensors rounds their sizes (kernels/kern.h,
 * kern_stored_sizes).
 */
#ifndef SIM_LAYOUT_H
#define SIM_LAYOUT_H

#include <stdint.h>

#include "sim/sim_status.h"

#define SIM_LAYOUT_MAX_TILE 4096u

/*
 * out_tile: rows and columns, elements; 1 and 1 for "none". SIM_ERROR_CONFIG with a text that names
 * what is wrong unless text is "none" or two numbers of 1..SIM_LAYOUT_MAX_TILE joined by an x.
 */
sim_status_t sim_layout_read(const char *text, uint32_t out_tile[2], sim_error_t *err) SIM_MUST_USE;

#endif
