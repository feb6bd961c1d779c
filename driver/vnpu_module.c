#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/vnpu_isa.h"
#include "driver/vnpu_internal.h"

static vnpu_status_t load(vnpu__device_t *device, const void *image, size_t bytes,
                          vnpu_module_t *out_module) {
    uint64_t handle = 0;
    vnpu__module_t *module = vnpu__table_add(&device->modules, &handle);
    if (module == NULL) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "vnpu_module_load: out of host memory");
    }
    while (device->is_loading) { /* the chip puts chunks together in the order they come */
        pthread_cond_wait(&device->changed, &device->lock);
    }
    device->is_loading = true;
    device->clock_ps += device->machine.host_submit_ps;
    vnpu__request_t model = {.packet = {.type = VNPU_PACKET_MODULE_LOAD}};
    vnpu_completion_t done;
    vnpu_status_t status = vnpu__write_in(device, &model, image, bytes, &done);
    device->is_loading = false;
    pthread_cond_broadcast(&device->changed);
    if (status != VNPU_OK) {
        vnpu__table_remove(&device->modules, module);
        return status;
    }
    vnpu_program_header_t header;
    memcpy(&header, image, sizeof header);
    module->device_id = (uint32_t)done.value[0];
    module->num_args = header.num_args;
    *out_module = handle;
    return VNPU_OK;
}

vnpu_status_t vnpu_module_load(int device_index, const void *image, size_t bytes,
                               vnpu_module_t *out_module) {
    if (out_module == NULL || image == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_module_load: %s is NULL",
                          out_module == NULL ? "out_module" : "image");
    }
    *out_module = 0;
    if (bytes < sizeof(vnpu_program_header_t)) {
        return vnpu__fail(VNPU_ERROR_INVALID_IMAGE,
                          "vnpu_module_load: %zu bytes are less than a program's header", bytes);
    }
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    return status == VNPU_OK ? vnpu__leave(device, load(device, image, bytes, out_module)) : status;
}

vnpu_status_t vnpu_module_load_text(int device_index, const char *text, const char *origin,
                                    vnpu_module_t *out_module) {
    if (out_module == NULL || text == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_module_load_text: %s is NULL",
                          out_module == NULL ? "out_module" : "text");
    }
    *out_module = 0;
    sim_error_t err = {0};
    void *image = NULL;
    size_t bytes = 0;
    sim_status_t assembled =
        dev_asm_assemble(text, origin != NULL ? origin : "program", &image, &bytes, &err);
    if (assembled != SIM_OK) {
        return vnpu__fail((vnpu_status_t)assembled, "%s", err.text);
    }
    vnpu_status_t status = vnpu_module_load(device_index, image, bytes, out_module);
    free(image);
    return status;
}

vnpu_status_t vnpu_module_unload(vnpu_module_t handle) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__module_t *module = vnpu__table_find(&device->modules, handle);
    if (module == NULL) {
        return vnpu__leave(device, vnpu__fail(VNPU_ERROR_INVALID_HANDLE, "0x%llx is no live module",
                                              (unsigned long long)handle));
    }
    device->clock_ps += device->machine.host_submit_ps;
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_MODULE_UNLOAD}};
    request.packet.u.mem.address = module->device_id;
    vnpu__table_remove(&device->modules, module);
    status = vnpu__submit(device, &request, NULL);
    return vnpu__leave(device, status);
}

/* The class that a mask begins in; 0 for an empty one. */
static uint32_t class_of_mask(const vnpu__device_t *device, uint64_t core_mask) {
    uint32_t found = 0;
    for (uint32_t c = 1; core_mask != 0 && c < device->machine.num_classes; c++) {
        if (device->class_machine[c].first_core <= (uint32_t)__builtin_ctzll(core_mask)) found = c;
    }
    return found;
}

/* The class that the launch names or that its mask begins in; 0 if it leaves the choice to the
 * device. */
static uint32_t class_named(const vnpu__device_t *device, const vnpu_launch_config_t *config) {
    return config->core_class != 0 ? config->core_class - 1
                                   : class_of_mask(device, config->core_mask);
}

static vnpu_status_t check_mask(const vnpu_machine_t *of, const char *what, uint64_t core_mask) {
    uint64_t outside = core_mask;
    for (uint32_t c = of->first_core; c < of->first_core + of->workers && c < 64; c++)
        outside &= ~(1ull << c);
    if (outside == 0) return VNPU_OK;
    return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                      "%s: core mask 0x%llx names other cores than the %u workers from "
                      "core %u on (class %s)",
                      what, (unsigned long long)core_mask, of->workers, of->first_core,
                      of->class_name);
}

vnpu_status_t vnpu__check_cores(const vnpu__device_t *device, const char *what,
                                uint64_t core_mask) {
    return check_mask(&device->class_machine[class_of_mask(device, core_mask)], what, core_mask);
}

static vnpu_status_t check_cores(const vnpu__device_t *device, const vnpu_launch_config_t *config) {
    if (config->reserved != 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_launch: a reserved field is not 0");
    }
    if (config->core_class > device->machine.num_classes) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                          "vnpu_launch: core_class %u (class + 1) of a chip with %u classes",
                          config->core_class, device->machine.num_classes);
    }
    return check_mask(&device->class_machine[class_named(device, config)], "vnpu_launch",
                      config->core_mask);
}

/* The launch's own cores, or the stream's where they are of the class that it names. */
static uint64_t cores_of(const vnpu__device_t *device, const vnpu_launch_config_t *config,
                         const vnpu__stream_t *stream) {
    if (config->core_mask != 0) return config->core_mask;
    bool is_its_class = config->core_class == 0 ||
                        class_of_mask(device, stream->core_mask) == config->core_class - 1;
    return is_its_class ? stream->core_mask : 0;
}

static vnpu_status_t check_launch(const vnpu__device_t *device, const vnpu__module_t *module,
                                  const vnpu_launch_config_t *config, const uint64_t *args,
                                  uint32_t num_args) {
    if (num_args != module->num_args) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_launch: %u arguments for a program of %u",
                          num_args, module->num_args);
    }
    if (args == NULL && num_args > 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_launch: args is NULL");
    }
    if (config->grid[0] == 0 || config->grid[1] == 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                          "vnpu_launch: grid %u x %u: both must be at least 1", config->grid[0],
                          config->grid[1]);
    }
    return check_cores(device, config);
}

/* A kernel packet; leaves the device on failure. */
static vnpu_status_t begin_launch(vnpu_packet_type_t type, vnpu_module_t handle,
                                  const vnpu_launch_config_t *config, const uint64_t *args,
                                  uint32_t num_args, vnpu__device_t **out_device,
                                  vnpu__request_t *request) {
    if (config == NULL || config->size != sizeof *config) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                          "launch: config is NULL or of another size than this library's");
    }
    vnpu_status_t status = vnpu__enter(0, false, out_device);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__device_t *device = *out_device;
    const vnpu__module_t *module = vnpu__table_find(&device->modules, handle);
    status = module != NULL ? check_launch(device, module, config, args, num_args)
                            : vnpu__fail(VNPU_ERROR_INVALID_HANDLE, "0x%llx is no live module",
                                         (unsigned long long)handle);
    request->packet = (vnpu_packet_t){.type = (uint8_t)type, .tag = config->tag};
    request->event = NULL;
    request->ticket = NULL;
    request->payload = NULL;
    request->is_partial = false;
    request->num_args = num_args;
    if (status == VNPU_OK) {
        status = vnpu__find_stream(device, config->stream, &request->stream);
    }
    if (status != VNPU_OK) {
        return vnpu__leave(device, status);
    }
    request->packet.u.kernel =
        (vnpu_packet_kernel_t){.module = module->device_id,
                               .num_args = (uint16_t)num_args,
                               .grid = {config->grid[0], config->grid[1]},
                               .core_class = (uint16_t)config->core_class,
                               .core_mask = cores_of(device, config, request->stream)};
    if (num_args > 0) {
        memset(&request->args[num_args / 8 * 8], 0, num_args % 8 != 0 ? 64 : 0);
        memcpy(request->args, args, num_args * sizeof *args);
    }
    return VNPU_OK;
}

vnpu_status_t vnpu_launch(vnpu_module_t module, const vnpu_launch_config_t *config,
                          const uint64_t *args, uint32_t num_args) {
    vnpu__device_t *device;
    vnpu__request_t request;
    vnpu_status_t status =
        begin_launch(VNPU_PACKET_KERNEL, module, config, args, num_args, &device, &request);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_launch_ps;
    status = vnpu__submit(device, &request, NULL);
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_program_time(vnpu_module_t module, const vnpu_launch_config_t *config,
                                const uint64_t *args, uint32_t num_args, uint64_t *out_ps) {
    if (out_ps == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_program_time: out_ps is NULL");
    }
    *out_ps = 0;
    vnpu__device_t *device;
    vnpu__request_t request;
    vnpu_status_t status =
        begin_launch(VNPU_PACKET_PROGRAM_TIME, module, config, args, num_args, &device, &request);
    if (status != VNPU_OK) {
        return status;
    }
    request.stream = NULL; /* a question to the simulator: no simulated time passes */
    vnpu_completion_t done;
    status = vnpu__call(device, &request, &done);
    *out_ps = status == VNPU_OK ? done.value[0] : 0;
    return vnpu__leave(device, status);
}
