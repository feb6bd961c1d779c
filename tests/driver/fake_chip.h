/* Constants of the fake chip (fake_chip.c) that tests compute with. */
#ifndef FAKE_CHIP_H
#define FAKE_CHIP_H

#include "device/dev_memory.h"

#define FAKE_DRAM_BYTES    (64u * 1024 * 1024)
#define FAKE_STREAM_RATE   UINT64_C(700000000000)
#define FAKE_RANDOM_RATE   UINT64_C(90000000000)
#define FAKE_PROFILE_BYTES (1300u * 1024 + 5)
#define FAKE_DEPTH         64u

#define FAKE_ARRIVAL_PS 1000u
#define FAKE_BASE_PS    5000u
#define FAKE_SUBMIT_PS  100u
#define FAKE_LAUNCH_PS  200u
#define FAKE_QUERY_PS   30u
#define FAKE_SYNC_PS    70u

#endif
