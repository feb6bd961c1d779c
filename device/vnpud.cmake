# The device process and the in-process device: two ways to drive the same vnpu_device library.
set_source_files_properties(dev_open.c PROPERTIES COMPILE_DEFINITIONS
  VNPU_SOURCE_CONFIGS="${CMAKE_SOURCE_DIR}/configs")

find_library(UV_LIBRARY NAMES uv REQUIRED)
add_library(vnpud_objects OBJECT vnpud_main.c vnpud_control.c vnpud_chip.c vnpud_shm.c)
target_link_libraries(vnpud_objects PUBLIC vnpu_flags vnpu_sim ${UV_LIBRARY} Threads::Threads m dl)
if(NOT VNPU_SANITIZE)
  # Static: no libstdc++, 0.6 ms less at start. Sanitizers bring an allocator of their own.
  find_library(JEMALLOC_LIBRARY NAMES libjemalloc.a REQUIRED)
  target_compile_definitions(vnpud_objects PUBLIC VNPUD_JEMALLOC)
  target_link_libraries(vnpud_objects PUBLIC ${JEMALLOC_LIBRARY})
endif()

add_executable(vnpud)
target_link_libraries(vnpud PRIVATE vnpud_objects vnpu_device vnpu_sim)
set_target_properties(vnpud PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(vnpu_device_shared SHARED dev_inproc.c)
target_link_libraries(vnpu_device_shared PRIVATE vnpu_device vnpu_sim)
target_link_options(vnpu_device_shared PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,--as-needed
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/vnpu_device.map)
set_target_properties(vnpu_device_shared PROPERTIES
  OUTPUT_NAME vnpu_device LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/vnpu_device.map)
