/* Tiles read once for several cores: the reader at coordinate 0 of a grid axis sends them to all
 * along it. */
#include "kernels/kern_gemm_plan.h"

static uint16_t place(uint32_t axis, uint32_t coordinate) {
    return axis == 0 ? VNPU_PLACE(coordinate, VNPU_PLACE_ANY)
                     : VNPU_PLACE(VNPU_PLACE_ANY, coordinate);
}

static uint16_t told(const kern_share_t *share, uint32_t axis, uint32_t coordinate) {
    return share->told[axis == 0 ? coordinate : share->grid[0] + coordinate];
}

bool kern_share_is_possible(const vnpu_machine_t *machine, const uint32_t grid[2]) {
    return machine->mapping_multicast != 0 && grid[0] * grid[1] > 1 &&
           grid[0] * grid[1] <= machine->workers && grid[0] + grid[1] <= KERN_SHARE_MOST;
}

void kern_share_init(kern_builder_t *builder, const uint32_t grid[2], kern_share_t *out_share) {
    *out_share = (kern_share_t){.grid = {grid[0], grid[1]}};
    for (uint32_t axis = 0; axis < 2; axis++)
        out_share->full[axis] = kern_sem(builder);
    for (uint32_t i = 0; i < grid[0] + grid[1]; i++)
        out_share->told[i] = kern_sem(builder);
}

void kern_share_tell(kern_builder_t *builder, kern_queue_t queue, const kern_share_t *share,
                     uint32_t axis) {
    for (uint32_t i = 0; share->grid[axis] > 1 && i < share->grid[axis]; i++) {
        vnpu_insn_t *insn = kern_emit(builder, queue, VNPU_OP_SYNC);
        insn->only = place(axis, i);
        insn->remote_core = place(axis, 0);
        kern_signal(insn, told(share, axis, i), 1);
    }
}

void kern_share_wait(kern_builder_t *builder, kern_queue_t queue, const kern_share_t *share,
                     uint32_t axis) {
    for (uint32_t i = 0; share->grid[axis] > 1 && i < share->grid[axis]; i++) {
        kern_sync_wait(builder, queue, told(share, axis, i), 1)->only = place(axis, 0);
    }
}

void kern_share_send(const kern_share_t *share, uint32_t axis, vnpu_insn_t *load) {
    kern_signal(load, share->full[axis], 1);
    if (share->grid[axis] == 1) return;
    load->only = place(axis, 0);
    load->multicast = axis == 0 ? VNPU_MULTICAST_AXIS0 : VNPU_MULTICAST_AXIS1;
}
