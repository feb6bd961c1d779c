/*
 * VNPU_DUMP: every launched program once, as NAME-HASH.vnpu (image) and NAME-HASH.txt (assembler
 * text), and launches.jsonl with one line per launch, copy and fill, in order: enough to run it
 * again with `vnpu run` and to recount its work.
 */
#include "device/dev_chip_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "device/dev_asm.h"
#include "device/dev_image.h"

sim_status_t chip_dump_open(dev_chip_t *chip, sim_error_t *err) {
    const char *dir = chip->options.dump_dir;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        return sim_error_set(err, SIM_ERROR_IO, "VNPU_DUMP=%s: cannot make the folder: %s", dir,
                             strerror(errno));
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/launches.jsonl", dir);
    chip->dump_log = fopen(path, "w");
    if (chip->dump_log == NULL)
        return sim_error_set(err, SIM_ERROR_IO, "VNPU_DUMP: cannot write %s: %s", path,
                             strerror(errno));
    return SIM_OK;
}

static void program_file(const dev_chip_t *chip, const dev_program_t *program, const char *suffix,
                         char path[4096]) {
    snprintf(path, 4096, "%s/%s-%016" PRIx64 ".%s", chip->options.dump_dir, program->header.name,
             program->hash, suffix);
}

static void dump_program(const dev_chip_t *chip, const dev_program_t *program) {
    char path[4096];
    program_file(chip, program, "txt", path);
    FILE *text = fopen(path, "w");
    if (text != NULL) {
        dev_asm_disassemble(program, text);
        fclose(text);
    }
    program_file(chip, program, "vnpu", path);
    FILE *image = fopen(path, "wb");
    if (image == NULL) return;
    const vnpu_program_header_t *header = &program->header;
    fwrite(header, sizeof *header, 1, image);
    fwrite(program->queue, sizeof program->queue[0], header->num_queues, image);
    fwrite(program->insn, sizeof program->insn[0], header->num_insns, image);
    fwrite(program->ap, sizeof program->ap[0], header->num_aps, image);
    if (header->strings_bytes != 0) fwrite(program->strings, 1, header->strings_bytes, image);
    fclose(image);
}

void chip_dump_launch(dev_chip_t *chip, chip_module_t *module, const dev_launch_t *launch,
                      const vnpu_packet_t *packet) {
    const dev_program_t *program = launch->program;
    if (!module->is_dumped) dump_program(chip, program);
    module->is_dumped = true;
    fprintf(chip->dump_log,
            "{\"seq\": %" PRIu64
            ", \"kind\": \"kernel\", \"tag\": %u, \"program\": \"%s-%016" PRIx64
            "\", \"grid\": [%u, %u], "
            "\"core_mask\": %" PRIu64 ", \"args\": [",
            packet->seq, packet->tag, program->header.name, program->hash, launch->grid[0],
            launch->grid[1], packet->u.kernel.core_mask);
    for (uint32_t a = 0; a < program->header.num_args; a++) {
        dev_arg_extent_t extent = {0};
        if (program->header.arg_kind[a] != VNPU_ARG_SCALAR)
            dev_program_arg_extent(program, a, launch->grid, &extent);
        fprintf(chip->dump_log,
                "%s{\"value\": %" PRIu64 ", \"kind\": %u, \"read\": [%" PRId64 ", %" PRId64
                "], \"write\": [%" PRId64 ", %" PRId64 "]}",
                a == 0 ? "" : ", ", launch->arg[a], program->header.arg_kind[a], extent.read_low,
                extent.read_high, extent.write_low, extent.write_high);
    }
    fprintf(chip->dump_log, "]}\n");
    fflush(chip->dump_log);
}

void chip_dump_copy(dev_chip_t *chip, const vnpu_packet_t *packet, const char *kind,
                    uint64_t device, uint64_t bytes) {
    fprintf(chip->dump_log,
            "{\"seq\": %" PRIu64 ", \"kind\": \"%s\", \"tag\": %u, \"device\": %" PRIu64
            ", \"bytes\": %" PRIu64 "}\n",
            packet->seq, kind, packet->tag, device, bytes);
    fflush(chip->dump_log);
}
