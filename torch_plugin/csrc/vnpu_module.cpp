// The Python module torch_vnpu._C.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "torch_plugin/csrc/vnpu_dispatch.h"
#include "torch_plugin/csrc/vnpu_generator.h"
#include "torch_plugin/csrc/vnpu_hooks.h"
#include "torch_plugin/csrc/vnpu_runtime.h"

namespace py = pybind11;

namespace vnpu {
namespace {

// Device calls may wait: never with the interpreter's lock.
using NoGil = py::call_guard<py::gil_scoped_release>;

void init_device() {
    ensure_device();
    static const bool is_registered = [] {
        torch::utils::register_fork_handler_for_device_init(kDevice);
        return true;
    }();
    (void)is_registered;
}

py::list rates(const uint32_t *numerators, const uint32_t *denominators, int count) {
    py::list out;
    for (int i = 0; i < count; ++i) {
        out.append(py::make_tuple(numerators[i], denominators[i]));
    }
    return out;
}

// The chip as cores of one class see it.
py::dict class_dict(const vnpu_machine_t *chip) {
    py::dict out;
#define VNPU_FIELD(name) out[#name] = chip->name
    VNPU_FIELD(cores);
    VNPU_FIELD(workers);
    VNPU_FIELD(matrix_rows);
    VNPU_FIELD(matrix_cols);
    VNPU_FIELD(matrix_load_rows_per_cycle);
    VNPU_FIELD(matrix_weight_buffers);
    VNPU_FIELD(matrix_min_stream_cycles);
    VNPU_FIELD(matrix_dataflow);
    VNPU_FIELD(matrix_step);
    VNPU_FIELD(matrix_count);
    VNPU_FIELD(matrix_split);
    VNPU_FIELD(vector_lanes);
    VNPU_FIELD(vector_startup_cycles);
    VNPU_FIELD(dma_queues);
    VNPU_FIELD(dma_bytes_per_cycle);
    VNPU_FIELD(dma_descriptor_cycles);
    VNPU_FIELD(dma_run_cycles);
    VNPU_FIELD(dma_completion_cycles);
    VNPU_FIELD(issue_cycles);
    VNPU_FIELD(semaphore_cycles);
    VNPU_FIELD(instance_cycles);
    VNPU_FIELD(core_clock_hz);
    VNPU_FIELD(sram_bytes);
    VNPU_FIELD(acc_bytes);
    VNPU_FIELD(sram_bytes_per_cycle);
    VNPU_FIELD(acc_bytes_per_cycle);
    VNPU_FIELD(dram_bytes);
    VNPU_FIELD(dram_bytes_per_s);
    VNPU_FIELD(dma_outstanding_bytes);
    VNPU_FIELD(dram_latency_ps);
    VNPU_FIELD(launch_gap_ps);
    VNPU_FIELD(host_submit_ps);
    VNPU_FIELD(host_launch_ps);
    VNPU_FIELD(host_query_ps);
    VNPU_FIELD(host_sync_ps);
    VNPU_FIELD(host_flops);
    VNPU_FIELD(host_bytes_per_s);
    VNPU_FIELD(link_bytes_per_s);
    VNPU_FIELD(link_latency_ps);
    VNPU_FIELD(config_hash);
    VNPU_FIELD(num_classes);
    VNPU_FIELD(class_index);
    VNPU_FIELD(first_core);
    VNPU_FIELD(chip_cores);
#undef VNPU_FIELD
    out["matrix_rate"] = rates(chip->matrix_rate_num, chip->matrix_rate_den, 16); // by vnpu_dtype_t
    out["vector_passes"] = rates(chip->vector_passes_num, chip->vector_passes_den, 8);
    out["name"] = std::string(chip->name);
    out["class_name"] = std::string(chip->class_name);
    return out;
}

// The first class, and every class under "classes".
py::dict machine_dict() {
    std::vector<vnpu_machine_t> classes;
    {
        py::gil_scoped_release no_gil;
        classes.resize(machine().num_classes);
        for (size_t c = 0; c < classes.size(); ++c) {
            check(vnpu_device_class(0, static_cast<uint32_t>(c), &classes[c]),
                  "reading a class of cores");
        }
    }
    py::dict out = class_dict(&classes[0]);
    py::list all;
    for (const vnpu_machine_t &one : classes) {
        all.append(class_dict(&one));
    }
    out["classes"] = all;
    return out;
}

py::dict tiling_dict(const kern_tiling_t &tiling) {
    py::dict out;
    out["order"] = tiling.order;
    out["m"] = tiling.m;
    out["n"] = tiling.n;
    out["k"] = tiling.k;
    out["heads"] = tiling.heads;
    out["buffers"] = tiling.buffers;
    out["grid"] = py::make_tuple(tiling.grid[0], tiling.grid[1]);
    out["predicted_cycles"] = tiling.cycles;
    out["measured_ps"] = tiling.measured_ps != 0 ? py::cast(tiling.measured_ps) : py::none();
    return out;
}

py::dict mapping_dict(const kern_mapping_t &mapping) {
    py::dict out;
    out["family"] = mapping.family;
    out["batch"] = mapping.batch;
    out["m"] = mapping.m;
    out["n"] = mapping.n;
    out["k"] = mapping.k;
    out["chosen"] = tiling_dict(mapping.chosen);
    out["chosen_by"] = mapping.candidates > 0 ? "measure" : "model";
    out["candidates"] = mapping.candidates;
    out["next"] =
        mapping.next.order != nullptr ? py::object(tiling_dict(mapping.next)) : py::none();
    out["dram_bytes"] = mapping.dram_bytes;
    out["compulsory_bytes"] = mapping.compulsory_bytes;
    out["useful_macs"] = mapping.useful_macs;
    out["padded_macs"] = mapping.padded_macs;
    return out;
}

py::tuple end_profile() {
    py::module_::import("torch_vnpu.modules").attr("untrack")();
    std::pair<std::string, std::vector<OpRecord>> result;
    {
        py::gil_scoped_release no_gil;
        result = profile_end();
    }
    py::list operators;
    for (const OpRecord &record : result.second) {
        py::list mappings;
        for (const kern_mapping_t &mapping : record.mappings) {
            mappings.append(mapping_dict(mapping));
        }
        operators.append(py::make_tuple(record.tag, record.op, record.dtype, record.shapes,
                                        record.on_host ? "host" : "device", record.host_ps,
                                        record.module, mappings));
    }
    return py::make_tuple(py::bytes(result.first), operators);
}

void begin_profile(bool with_slices) {
    {
        py::gil_scoped_release no_gil;
        profile_begin(with_slices);
    }
    py::module_::import("torch_vnpu.modules").attr("track")();
}

std::string config_text() {
    ensure_device();
    const char *text = nullptr;
    check(vnpu_sim_config_text(0, &text), "reading the configuration");
    return text;
}

// Bytes per second: a stream, random reads.
std::pair<uint64_t, uint64_t> memory_rate() {
    ensure_device();
    uint64_t stream = 0, random = 0;
    check(vnpu_sim_memory_rate(0, &stream, &random), "measuring the memory");
    return {stream, random};
}

uint64_t host_clock_ps() {
    ensure_device();
    uint64_t ps = 0;
    check(vnpu_sim_host_clock(0, &ps), "reading the host clock");
    return ps;
}

int64_t device_pid() {
    ensure_device();
    int64_t pid = 0;
    check(vnpu_sim_device_pid(0, &pid), "asking for the device process");
    return pid;
}

void reset_device() {
    ensure_device();
    check(vnpu_device_reset(0), "resetting the device");
}

std::pair<uint64_t, uint64_t> stats() {
    uint64_t programs = 0, launches = 0;
    kernel_stats(&programs, &launches);
    return {programs, launches};
}

PYBIND11_MODULE(_C, m) {
    m.def("_init", &init_device, NoGil(), "Starts the device.");
    m.def("_is_started", &is_started);
    m.def("_is_in_bad_fork", &is_forked_child);
    m.def("_device_count", [] { return static_cast<int>(device_count()); });
    m.def("_current_device", [] { return static_cast<int>(current_device()); });
    m.def("_set_device", [](int index) { set_device(static_cast<c10::DeviceIndex>(index)); });
    m.def("_exchange_device", [](int index) {
        const int previous = current_device();
        if (index >= 0) {
            set_device(static_cast<c10::DeviceIndex>(index));
        }
        return previous;
    });
    m.def(
        "_stream_on_cores",
        [](int priority, uint64_t cores) {
            return static_cast<int64_t>(stream_on_cores(priority, cores));
        },
        NoGil(), "Id of a new stream on the cores of the mask.");
    m.def("_default_generator", [](int index) {
        return py::reinterpret_steal<py::object>(
            THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(index))));
    });
    m.def("_backward_ran", &backward_ran);
    m.def("_reset_device", &reset_device, NoGil(),
          "Clears a sticky error of a program; memory stays.");
    m.def("_profile_begin", &begin_profile, py::arg("with_slices"));
    m.def("_profile_end", &end_profile);
    m.def("_set_module_path", &set_module_path);
    m.def("_config_text", &config_text, NoGil());
    m.def("_memory_rate", &memory_rate, NoGil());
    m.def("_machine", &machine_dict);
    m.def("_host_clock_ps", &host_clock_ps, NoGil());
    m.def("_device_pid", &device_pid, NoGil());
    m.def("_kernel_stats", &stats, NoGil());
}

} // namespace
} // namespace vnpu
