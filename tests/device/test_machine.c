/* The machine as the configuration describes it. */
#include <criterion/criterion.h>
#include <string.h>

#include "device/dev_machine.h"

static sim_status_t read_machine(const char *overrides, dev_machine_t *machine, sim_error_t *err) {
    sim_config_t *config;
    cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/default.ini", overrides, &config, err),
                 SIM_OK, "%s", err->text);
    sim_status_t status = dev_machine_init(machine, config, err);
    sim_config_destroy(config);
    return status;
}

Test(machine, default_chip) {
    dev_machine_t m;
    sim_error_t err = {0};
    cr_assert_eq(read_machine(NULL, &m, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(m.cores, 4);
    cr_assert_eq(m.cls[0].workers, 4, "0 in the file means all");
    cr_assert_eq(m.cls[0].core_clock.hz, 1000000000);
    cr_assert_eq(m.cls[0].matrix.rows, 128);
    cr_assert_eq(m.cls[0].sram_bytes, 4u << 20);
    cr_assert_eq(m.cls[0].acc_bytes, 512u << 10);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_F32].num, 1);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_F32].den, 4);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_U8].num, m.cls[0].matrix_rate[VNPU_I8].num);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_I64].num, 0);
    cr_assert_not(m.placement_physical);
    cr_assert_not(m.host_clock_wall);
    cr_assert_neq(m.config_hash, 0);
}

Test(machine, every_key_arrives) {
    dev_machine_t m;
    sim_error_t err = {0};
    cr_assert_eq(
        read_machine(
            "grid.cores=6,grid.workers=5,core.issue_cycles=3,core.semaphore_"
            "cycles=9,core.instance_cycles=77,"
            "sram.banks=10,sram.ports_per_bank=2,sram.word_bytes=32,sram.latency_"
            "cycles=4,acc.banks=3,acc.word_bytes=128,"
            "dma.queues=3,dram.placement=physical,host.clock=wall,cmd.launch_gap="
            "123 ns,cmd.queue_depth=17,"
            "cmd.hardware_queues=2,host.query=7 "
            "ns,host.flops=5000000000,matrix.rate.bf16=0,matrix.rate.bfp8=1/2,matrix.rate.bfp4=2",
            &m, &err),
        SIM_OK, "%s", err.text);
    cr_assert_eq(m.cores, 6);
    cr_assert_eq(m.cls[0].workers, 5);
    cr_assert_eq(m.cls[0].issue_cycles, 3);
    cr_assert_eq(m.cls[0].semaphore_cycles, 9);
    cr_assert_eq(m.cls[0].instance_cycles, 77);
    cr_assert_eq(m.cls[0].sram_bytes_per_cycle, 10 * 2 * 32);
    cr_assert_eq(m.cls[0].sram_latency_cycles, 4);
    cr_assert_eq(m.cls[0].acc_bytes_per_cycle, 3 * 128);
    cr_assert_eq(m.cls[0].dma_queues, 3);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_BFP8].den, 2);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_BFP4].num, 2);
    cr_assert(m.placement_physical);
    cr_assert(m.host_clock_wall);
    cr_assert_eq(m.launch_gap_ps, 123000);
    cr_assert_eq(m.cmd_queue_depth, 17);
    cr_assert_eq(m.hardware_queues, 2);
    cr_assert_eq(m.host_query_ps, 7000);
    cr_assert_eq(m.host_flops, 5000000000);
    cr_assert_eq(m.cls[0].matrix_rate[VNPU_BF16].num, 0);
}

Test(machine, an_array_without_any_rate_is_refused) {
    dev_machine_t m;
    sim_error_t err = {0};
    cr_assert_eq(
        read_machine("matrix.rate.f32=0,matrix.rate.bf16=0,matrix.rate.f16=0,matrix.rate.i8=0", &m,
                     &err),
        SIM_ERROR_CONFIG);
    cr_assert_not_null(strstr(err.text, "class core: every matrix.rate is 0"), "%s", err.text);
}
