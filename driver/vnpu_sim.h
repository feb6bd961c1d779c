/*
 * vnpu_sim.h: what only a simulated chip can tell. Portable programs do without it.
 */
#ifndef VNPU_SIM_H
#define VNPU_SIM_H

#include "driver/vnpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The virtual host clock, picoseconds since vnpu_init. */
VNPU_API vnpu_status_t vnpu_sim_host_clock(int device, uint64_t *out_ps);
/* Charges work of the host program (a fallback, priced): the virtual host clock moves on. */
VNPU_API vnpu_status_t vnpu_sim_host_advance(int device, uint64_t ps);

/* Label (vnpu_packet_t.tag) of the copies and fills that the calling thread submits from now on, as
 * vnpu_launch_config_t.tag is of a launch. Thread-local, 0 at first; never fails and starts
 * nothing. */
VNPU_API_VOID void vnpu_sim_set_tag(uint32_t tag);

/* Profile between begin and end; both synchronize. The blob (device/vnpu_profile.h) belongs to the
 * driver until the next vnpu_profile_end or vnpu_shutdown. with_slices: instruction-level trace
 * slices. */
VNPU_API vnpu_status_t vnpu_profile_begin(int device, int with_slices);
VNPU_API vnpu_status_t vnpu_profile_end(int device, const void **out_blob, size_t *out_bytes);

/* Simulated duration of a launch on its own (no values, its own epoch, the same reuse table). */
VNPU_API vnpu_status_t vnpu_program_time(vnpu_module_t module, const vnpu_launch_config_t *config,
                                         const uint64_t *args, uint32_t num_args, uint64_t *out_ps);

/* Timing mode (VNPU_MODE=timing): an H2D copy of which only the length is told. It takes its time;
 * the values of the destination become unknown. Other modes refuse it. */
VNPU_API vnpu_status_t vnpu_sim_memcpy_h2d_length(vnpu_addr_t dst, size_t bytes,
                                                  vnpu_stream_t stream);

/* Assembles a text program (docs/isa.md) and loads it. `origin` is the file name in messages:
 * INVALID_IMAGE tells "origin:line: reason". */
VNPU_API vnpu_status_t vnpu_module_load_text(int device, const char *text, const char *origin,
                                             vnpu_module_t *out_module);

/* The effective configuration (INI text with origins); owned by the driver until shutdown. */
VNPU_API vnpu_status_t vnpu_sim_config_text(int device, const char **out_text);
/* Bytes per second that the chip's DMA engines achieve together, by the model itself and in time
 * alone (nothing is launched, no clock moves): reads of 64 MiB in a row, and of 64 bytes at random.
 * Measured at the first call, up to a second of real time. */
VNPU_API vnpu_status_t vnpu_sim_memory_rate(int device, uint64_t *out_stream, uint64_t *out_random);
/* Process id of the device process, 0 in-process. */
VNPU_API vnpu_status_t vnpu_sim_device_pid(int device, int64_t *out_pid);

#ifdef __cplusplus
}
#endif
#endif
