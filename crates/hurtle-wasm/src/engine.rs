//! The engine of an application: compiler settings, and a pool of memory for its instances that is
//! reserved once.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use crate::settings::Settings;

/// Core instances, memories and tables of one component. Those that tools make from JavaScript and
/// Python have fewer than ten, one and five.
const CORE_INSTANCES_MAX: u32 = 64;
const MEMORIES_MAX: u32 = 4;
const TABLES_MAX: u32 = 16;

/// Elements of a table: one for each function that is called indirectly.
const TABLE_ELEMENTS_MAX: usize = 1 << 16;

/// Bytes that the runtime needs for the functions and globals of an instance.
const INSTANCE_BYTES_MAX: usize = 4 << 20;

/// Bytes of a memory that are cleared rather than returned to the system when an instance ends: a
/// tenth of a request's processor time for a component whose memory is not larger, and nothing lost
/// for one of 2 MiB. With 1 MiB the latter's requests would take 14 % more. `pagemap_scan`, which
/// searches for dirty pages, is not used: by its source it selects pages that are present, and a
/// page that was swapped out would keep the bytes of another request.
const KEPT_BYTES: usize = 256 << 10;

/// Stack of a component, and of a component with the calls of the host on top of it.
const STACK_BYTES: usize = 512 << 10;
const HOST_STACK_BYTES: usize = 1 << 20;

/// Size of a page of WebAssembly.
const PAGE_BYTES: usize = 64 << 10;

/// Makes an engine.
///
/// # Errors
/// The system refuses the address space of the instances: some 16 GiB for each, which costs no
/// memory until it is used.
pub(crate) fn engine(settings: &Settings) -> Result<Engine> {
    let instances = settings.instances;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(instances.saturating_mul(MEMORIES_MAX))
        .total_tables(instances.saturating_mul(TABLES_MAX))
        .total_stacks(instances)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_component_instance_size(INSTANCE_BYTES_MAX)
        .max_core_instance_size(INSTANCE_BYTES_MAX)
        .max_memory_size(settings.memory.next_multiple_of(PAGE_BYTES))
        .linear_memory_keep_resident(KEPT_BYTES)
        .table_keep_resident(KEPT_BYTES);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(HOST_STACK_BYTES);
    Engine::new(&config)
}
