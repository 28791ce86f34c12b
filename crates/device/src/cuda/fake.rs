//! A test double of the CUDA driver: device memory is host memory, streams run at once.
//!
//! It checks what the real driver would punish: every handle and pointer must be one that it gave
//! out and that is still alive, a call needs a current context, memory may not be allocated or
//! freed and a stream not synchronised while it is captured. Each call can be made to fail.
//!
//! The state belongs to the thread, so tests do not meet; another thread joins it by making its
//! context current.

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the functions are the driver's"
)]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUjit_option, CUmemAccessDesc, CUmemPool_attribute,
    CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUstreamCaptureMode,
};

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_DEVICE: u32 = 101;
const NO_BINARY_FOR_GPU: u32 = 209;
const INVALID_PTX: u32 = 218;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const CAPTURE_UNSUPPORTED: u32 = 900;
const TIMEOUT: u32 = 909;

/// A launch as the driver saw it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Launch {
    pub(super) kernel: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    pub(super) cooperative: bool,
    /// The sixteen bytes behind each parameter, `State::num_parameters` of them.
    pub(super) parameters: Vec<[u64; 2]>,
}

/// What a captured stream was asked to do.
#[derive(Clone)]
enum Operation {
    Copy(CUdeviceptr, CUdeviceptr, usize),
    Fill(CUdeviceptr, u8, usize),
    Launch(Launch),
}

/// The double's world; a test sets it up and looks at what came of it.
pub(super) struct State {
    pub(super) version: i32,
    pub(super) devices: i32,
    pub(super) capability: (i32, i32),
    pub(super) pools: bool,
    /// Whether devices, all of which have one context here, reach each other's memory.
    pub(super) peers: bool,
    pub(super) memory: usize,
    /// Parameters of every kernel launched.
    pub(super) num_parameters: usize,
    /// Error log of a module whose text does not hold `.version`.
    pub(super) log: &'static str,
    /// The texts of the modules loaded.
    pub(super) texts: Vec<String>,
    /// Whether binaries are modules, and those loaded, up to the NUL that they end with here.
    pub(super) takes_binaries: bool,
    pub(super) binaries: Vec<String>,
    /// The call whose callers wait for each other, and where.
    pub(super) together: Option<(&'static str, Arc<Meeting>)>,
    /// The call to fail: its name (or any, where empty), after how many such calls, with which code.
    pub(super) fail: Option<(&'static str, usize, u32)>,
    pub(super) calls: Vec<&'static str>,
    pub(super) launches: Vec<Launch>,
    pub(super) dynamic_limit: i32,
    /// The device's primary context: the number of this state.
    context: usize,
    retained: i32,
    next: usize,
    allocations: BTreeMap<CUdeviceptr, Box<[u64]>>,
    pinned: BTreeMap<usize, Box<[u64]>>,
    handles: BTreeSet<usize>,
    /// Events that keep no time.
    pub(super) untimed: BTreeSet<usize>,
    functions: BTreeMap<usize, String>,
    capturing: Option<Vec<Operation>>,
    graphs: BTreeMap<usize, Vec<Operation>>,
}

/// Where calls wait for each other, up to ten seconds.
pub(super) struct Meeting {
    wanted: usize,
    present: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Of so many.
    pub(super) fn of(wanted: usize) -> Self {
        Self {
            wanted,
            present: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// Comes, and waits for the others.
    pub(super) fn attend(&self) -> Result<(), u32> {
        *lock(&self.present) += 1;
        self.changed.notify_all();
        self.wait_for(self.wanted)
    }

    /// Waits until so many are there.
    pub(super) fn wait_for(&self, count: usize) -> Result<(), u32> {
        let (present, _) = self
            .changed
            .wait_timeout_while(lock(&self.present), Duration::from_secs(10), |present| {
                *present < count
            })
            .unwrap_or_else(PoisonError::into_inner);
        if *present < count {
            return Err(TIMEOUT);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All states; the address of a state's context is its place here, plus one.
static STATES: Mutex<Vec<Weak<Mutex<State>>>> = Mutex::new(Vec::new());

thread_local! {
    static STATE: RefCell<Arc<Mutex<State>>> = RefCell::new(fresh());
    /// The context that is current on this thread.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

fn fresh() -> Arc<Mutex<State>> {
    let mut states = lock(&STATES);
    let state = Arc::new(Mutex::new(State::new(states.len() + 1)));
    states.push(Arc::downgrade(&state));
    state
}

impl State {
    const fn new(context: usize) -> Self {
        Self {
            version: 13000,
            devices: 1,
            capability: (9, 0),
            pools: true,
            peers: true,
            memory: 1 << 20,
            num_parameters: 0,
            log: "",
            fail: None,
            calls: Vec::new(),
            launches: Vec::new(),
            dynamic_limit: 0,
            texts: Vec::new(),
            takes_binaries: true,
            binaries: Vec::new(),
            together: None,
            context,
            retained: 0,
            next: 0x100,
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            handles: BTreeSet::new(),
            untimed: BTreeSet::new(),
            functions: BTreeMap::new(),
            capturing: None,
            graphs: BTreeMap::new(),
        }
    }

    fn used(&self) -> usize {
        self.allocations.values().map(|words| words.len() * 8).sum()
    }

    fn handle<T>(&mut self) -> *mut T {
        self.next += 0x10;
        self.handles.insert(self.next);
        std::ptr::without_provenance_mut(self.next)
    }

    fn alive<T>(&self, handle: *mut T) -> Result<(), u32> {
        if self.handles.contains(&handle.addr()) {
            Ok(())
        } else {
            Err(INVALID_HANDLE)
        }
    }

    fn give_up<T>(&mut self, handle: *mut T) -> Result<(), u32> {
        if self.handles.remove(&handle.addr()) {
            Ok(())
        } else {
            Err(INVALID_HANDLE)
        }
    }

    fn range(&self, pointer: CUdeviceptr, bytes: usize) -> Result<*mut u8, u32> {
        let (start, words) = self
            .allocations
            .range(..=pointer)
            .next_back()
            .ok_or(INVALID_VALUE)?;
        let end = start + words.len() as u64 * 8;
        if pointer + bytes as u64 > end {
            return Err(INVALID_VALUE);
        }
        Ok(std::ptr::with_exposed_provenance_mut(pointer as usize))
    }

    fn perform(&mut self, operation: &Operation) -> Result<(), u32> {
        match operation {
            &Operation::Copy(destination, source, bytes) => {
                let (to, from) = (self.range(destination, bytes)?, self.range(source, bytes)?);
                // SAFETY: both ranges lie in live allocations.
                unsafe { std::ptr::copy(from, to, bytes) };
            }
            &Operation::Fill(destination, value, bytes) => {
                let to = self.range(destination, bytes)?;
                // SAFETY: the range lies in a live allocation.
                unsafe { std::ptr::write_bytes(to, value, bytes) };
            }
            Operation::Launch(launch) => self.launches.push(launch.clone()),
        }
        Ok(())
    }

    fn enqueue(&mut self, operation: Operation) -> Result<(), u32> {
        match &mut self.capturing {
            Some(operations) => {
                operations.push(operation);
                Ok(())
            }
            None => self.perform(&operation),
        }
    }

    fn not_capturing(&self) -> Result<(), u32> {
        if self.capturing.is_some() {
            Err(CAPTURE_UNSUPPORTED)
        } else {
            Ok(())
        }
    }
}

/// Looks at or changes the state of this thread.
pub(super) fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    let state = STATE.with_borrow(Arc::clone);
    f(&mut lock(&state))
}

/// The state of this thread, which lives as long as somebody has it: a thread that gets another one needs it still if it
/// comes back to its context.
pub(super) fn hold() -> Arc<Mutex<State>> {
    STATE.with_borrow(Arc::clone)
}

/// Gives this thread a state of its own, which is new.
pub(super) fn reset() {
    STATE.set(fresh());
    CURRENT.set(0);
}

/// What is still alive: (device bytes, pinned buffers, handles, contexts).
pub(super) fn leaks() -> (usize, usize, usize, i32) {
    with(|state| {
        (
            state.used(),
            state.pinned.len(),
            state.handles.len(),
            state.retained,
        )
    })
}

fn outside(name: &'static str, f: impl FnOnce(&mut State) -> Result<(), u32>) -> u32 {
    let meeting = with(|state| match &state.together {
        Some((call, meeting)) if *call == name => Some(Arc::clone(meeting)),
        _ => None,
    });
    if let Some(Err(code)) = meeting.map(|meeting| meeting.attend()) {
        return code;
    }
    with(|state| {
        state.calls.push(name);
        if let Some((call, count, code)) = &mut state.fail
            && (call.is_empty() || *call == name)
        {
            if *count == 0 {
                let code = *code;
                state.fail = None;
                return code;
            }
            *count -= 1;
        }
        f(state).map_or_else(|code| code, |()| 0)
    })
}

fn inside(name: &'static str, f: impl FnOnce(&mut State) -> Result<(), u32>) -> u32 {
    outside(name, |state| {
        if CURRENT.get() != state.context {
            return Err(INVALID_CONTEXT);
        }
        f(state)
    })
}

macro_rules! driver {
    ($($within:ident $name:ident($state:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {
        $(
            #[allow(unused_unsafe, reason = "not every body follows a pointer")]
            pub(super) unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
                // SAFETY: the tests' calls come from this crate's backend, whose pointers are live.
                $within(stringify!($name), |$state| unsafe { $body })
            }
        )*
    };
}

pub(super) unsafe extern "C" fn cuGetErrorName(code: u32, text: *mut *const c_char) -> u32 {
    let name = match code {
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller's pointer is live.
    unsafe { *text = name.as_ptr() };
    0
}

pub(super) unsafe extern "C" fn cuGetErrorString(code: u32, text: *mut *const c_char) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { cuGetErrorName(code, text) }
}

driver! {
    outside cuInit(_state, _flags: c_uint) { Ok(()) }
    outside cuDriverGetVersion(state, version: *mut c_int) { *version = state.version; Ok(()) }
    outside cuDeviceGetCount(state, count: *mut c_int) { *count = state.devices; Ok(()) }
    outside cuDeviceGet(state, device: *mut CUdevice, ordinal: c_int) {
        if ordinal >= state.devices { return Err(INVALID_DEVICE); }
        *device = ordinal;
        Ok(())
    }
    outside cuDeviceGetName(_state, name: *mut c_char, len: c_int, _device: CUdevice) {
        let text = c"Fake GPU";
        assert!(len as usize > text.count_bytes());
        std::ptr::copy(text.as_ptr(), name, text.count_bytes() + 1);
        Ok(())
    }
    outside cuDeviceGetAttribute(
        state, value: *mut c_int, attribute: CUdevice_attribute, _device: CUdevice
    ) {
        use CUdevice_attribute as A;
        *value = match attribute {
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => state.capability.0,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => state.capability.1,
            A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => 132,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => 49_152,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 232_448,
            A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => i32::from(state.pools),
            A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
            A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y
            | A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
            A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => i32::MAX,
            _ => 1024,
        };
        Ok(())
    }
    outside cuDeviceTotalMem_v2(state, bytes: *mut usize, _device: CUdevice) {
        *bytes = state.memory;
        Ok(())
    }
    outside cuDevicePrimaryCtxRetain(state, context: *mut CUcontext, _device: CUdevice) {
        state.retained += 1;
        *context = std::ptr::without_provenance_mut(state.context);
        Ok(())
    }
    outside cuDevicePrimaryCtxRelease_v2(state, _device: CUdevice) {
        state.retained -= 1;
        Ok(())
    }
    outside cuCtxGetCurrent(_state, context: *mut CUcontext) {
        *context = std::ptr::without_provenance_mut(CURRENT.get());
        Ok(())
    }
    inside cuMemGetInfo_v2(state, free: *mut usize, total: *mut usize) {
        *free = state.memory - state.used();
        *total = state.memory;
        Ok(())
    }
    inside cuMemAlloc_v2(state, pointer: *mut CUdeviceptr, bytes: usize) {
        state.not_capturing()?;
        if bytes == 0 { return Err(INVALID_VALUE); }
        let words = bytes.div_ceil(8);
        if state.used() + words * 8 > state.memory { return Err(OUT_OF_MEMORY); }
        let mut block = vec![0xDEAD_BEEF_DEAD_BEEF_u64; words].into_boxed_slice();
        *pointer = block.as_mut_ptr().expose_provenance() as u64;
        state.allocations.insert(*pointer, block);
        Ok(())
    }
    inside cuMemFree_v2(state, pointer: CUdeviceptr) {
        state.not_capturing()?;
        state.allocations.remove(&pointer).map(drop).ok_or(INVALID_VALUE)
    }
    inside cuMemPoolCreate(state, pool: *mut CUmemoryPool, _properties: *const CUmemPoolProps) {
        *pool = state.handle();
        Ok(())
    }
    inside cuMemPoolDestroy(state, pool: CUmemoryPool) { state.give_up(pool) }
    inside cuMemPoolSetAttribute(
        state, pool: CUmemoryPool, _attribute: CUmemPool_attribute, _value: *mut c_void
    ) { state.alive(pool) }
    inside cuMemPoolGetAttribute(
        state, pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void
    ) {
        // The pool holds 256 bytes more than are in use.
        let used = state.used() as u64;
        *value.cast::<u64>() = match attribute {
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => used + 256,
            _ => used,
        };
        state.alive(pool)
    }
    inside cuMemPoolTrimTo(state, pool: CUmemoryPool, _keep: usize) { state.alive(pool) }
    inside cuMemHostAlloc(state, pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        let mut block = vec![0_u64; bytes.div_ceil(8)].into_boxed_slice();
        *pointer = block.as_mut_ptr().cast();
        state.pinned.insert((*pointer).addr(), block);
        Ok(())
    }
    inside cuMemFreeHost(state, pointer: *mut c_void) {
        state.pinned.remove(&pointer.addr()).map(drop).ok_or(INVALID_VALUE)
    }
    inside cuMemcpyHtoDAsync_v2(
        state, destination: CUdeviceptr, source: *const c_void, bytes: usize, stream: CUstream
    ) {
        state.alive(stream)?;
        state.not_capturing()?;
        std::ptr::copy(source.cast(), state.range(destination, bytes)?, bytes);
        Ok(())
    }
    inside cuMemcpyDtoHAsync_v2(
        state, destination: *mut c_void, source: CUdeviceptr, bytes: usize, stream: CUstream
    ) {
        state.alive(stream)?;
        state.not_capturing()?;
        std::ptr::copy(state.range(source, bytes)?, destination.cast(), bytes);
        Ok(())
    }
    inside cuMemcpyDtoDAsync_v2(
        state, destination: CUdeviceptr, source: CUdeviceptr, bytes: usize, stream: CUstream
    ) {
        state.alive(stream)?;
        state.enqueue(Operation::Copy(destination, source, bytes))
    }
    inside cuMemcpyPeerAsync(
        state,
        destination: CUdeviceptr,
        destination_context: CUcontext,
        source: CUdeviceptr,
        source_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) {
        state.alive(stream)?;
        if [destination_context, source_context].iter().any(|context| context.addr() != state.context) {
            return Err(INVALID_CONTEXT);
        }
        state.enqueue(Operation::Copy(destination, source, bytes))
    }
    outside cuDeviceCanAccessPeer(state, can_access: *mut c_int, device: CUdevice, peer: CUdevice) {
        if device == peer || device >= state.devices || peer >= state.devices {
            return Err(INVALID_VALUE);
        }
        *can_access = c_int::from(state.peers);
        Ok(())
    }
    inside cuMemPoolSetAccess(state, pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize) {
        state.alive(pool)?;
        if count != 1 || !state.peers || (*access).location.id >= state.devices {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }
    inside cuMemsetD8Async(
        state, destination: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream
    ) {
        state.alive(stream)?;
        state.enqueue(Operation::Fill(destination, value, bytes))
    }
    inside cuStreamCreate(state, stream: *mut CUstream, _flags: c_uint) {
        *stream = state.handle();
        Ok(())
    }
    inside cuStreamDestroy_v2(state, stream: CUstream) { state.give_up(stream) }
    inside cuStreamSynchronize(state, stream: CUstream) {
        state.not_capturing()?;
        state.alive(stream)
    }
    inside cuStreamWaitEvent(state, stream: CUstream, event: CUevent, _flags: c_uint) {
        state.alive(event)?;
        state.alive(stream)
    }
    inside cuStreamBeginCapture_v2(state, stream: CUstream, _mode: CUstreamCaptureMode) {
        state.alive(stream)?;
        state.not_capturing()?;
        state.capturing = Some(Vec::new());
        Ok(())
    }
    inside cuStreamEndCapture(state, _stream: CUstream, graph: *mut CUgraph) {
        let operations = state.capturing.take().ok_or(INVALID_VALUE)?;
        *graph = state.handle();
        state.graphs.insert((*graph).addr(), operations);
        Ok(())
    }
    inside cuEventCreate(state, event: *mut CUevent, flags: c_uint) {
        *event = state.handle();
        if flags & 2 != 0 {
            state.untimed.insert((*event).addr());
        }
        Ok(())
    }
    inside cuEventRecord(state, event: CUevent, stream: CUstream) {
        state.alive(event)?;
        state.alive(stream)
    }
    inside cuEventQuery(state, event: CUevent) { state.alive(event) }
    inside cuEventSynchronize(state, event: CUevent) { state.alive(event) }
    inside cuEventElapsedTime(state, milliseconds: *mut f32, start: CUevent, end: CUevent) {
        *milliseconds = 1.5;
        state.alive(start)?;
        state.alive(end)?;
        let has_time = |event: CUevent| !state.untimed.contains(&event.addr());
        if has_time(start) && has_time(end) { Ok(()) } else { Err(INVALID_HANDLE) }
    }
    inside cuEventDestroy_v2(state, event: CUevent) { state.give_up(event) }
    inside cuGraphInstantiateWithFlags(
        state, executable: *mut CUgraphExec, graph: CUgraph, _flags: c_ulonglong
    ) {
        state.alive(graph)?;
        let operations = state.graphs[&graph.addr()].clone();
        *executable = state.handle();
        state.graphs.insert((*executable).addr(), operations);
        Ok(())
    }
    inside cuGraphUpload(state, executable: CUgraphExec, stream: CUstream) {
        state.alive(executable)?;
        state.alive(stream)
    }
    inside cuGraphLaunch(state, executable: CUgraphExec, stream: CUstream) {
        state.alive(executable)?;
        state.alive(stream)?;
        for operation in state.graphs[&executable.addr()].clone() {
            state.perform(&operation)?;
        }
        Ok(())
    }
    inside cuGraphExecDestroy(state, executable: CUgraphExec) { state.give_up(executable) }
    inside cuGraphDestroy(state, graph: CUgraph) { state.give_up(graph) }
    inside cuModuleLoadDataEx(
        state,
        module: *mut CUmodule,
        image: *const c_void,
        num_options: c_uint,
        options: *mut CUjit_option,
        option_values: *mut *mut c_void,
    ) {
        let text = CStr::from_ptr(image.cast());
        if text.to_bytes().starts_with(b"\x7fELF") {
            if !state.takes_binaries {
                return Err(NO_BINARY_FOR_GPU);
            }
            state.binaries.push(text.to_str().unwrap().to_owned());
            *module = state.handle();
            return Ok(());
        }
        if !text.to_bytes().starts_with(b".version") {
            assert_eq!(num_options, 2);
            assert_eq!(*options, CUjit_option::CU_JIT_ERROR_LOG_BUFFER);
            let size = (*option_values.add(1)).addr();
            assert!(state.log.len() < size);
            std::ptr::copy(state.log.as_ptr(), (*option_values).cast(), state.log.len());
            return Err(INVALID_PTX);
        }
        state.texts.push(text.to_str().unwrap().to_owned());
        *module = state.handle();
        Ok(())
    }
    inside cuModuleUnload(state, module: CUmodule) { state.give_up(module) }
    inside cuModuleGetFunction(
        state, function: *mut CUfunction, module: CUmodule, name: *const c_char
    ) {
        state.alive(module)?;
        let name = CStr::from_ptr(name).to_str().unwrap().to_owned();
        if name.starts_with("missing") { return Err(NOT_FOUND); }
        state.next += 0x10;
        state.functions.insert(state.next, name);
        *function = std::ptr::without_provenance_mut(state.next);
        Ok(())
    }
    inside cuFuncGetAttribute(
        _state, value: *mut c_int, attribute: CUfunction_attribute, _function: CUfunction
    ) {
        *value = match attribute {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 512,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => 1024,
            _ => 49_152,
        };
        Ok(())
    }
    inside cuFuncSetAttribute(
        state, _function: CUfunction, _attribute: CUfunction_attribute, value: c_int
    ) {
        state.dynamic_limit = value;
        Ok(())
    }
    inside cuOccupancyMaxActiveBlocksPerMultiprocessor(
        _state, num_blocks: *mut c_int, _function: CUfunction, block_size: c_int, _shared: usize
    ) {
        *num_blocks = 2048 / block_size;
        Ok(())
    }
}

fn launch(
    state: &mut State,
    cooperative: bool,
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: *mut *mut c_void,
) -> Result<(), u32> {
    let kernel = state
        .functions
        .get(&function.addr())
        .cloned()
        .ok_or(INVALID_HANDLE)?;
    let parameters = (0..state.num_parameters)
        // SAFETY: the launch passes `num_parameters` pointers to sixteen bytes each.
        .map(|i| unsafe { *(*parameters.add(i)).cast::<[u64; 2]>() })
        .collect();
    state.enqueue(Operation::Launch(Launch {
        kernel,
        grid,
        block,
        shared_bytes,
        cooperative,
        parameters,
    }))
}

pub(super) unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> u32 {
    let context = context.addr();
    let state = context
        .checked_sub(1)
        .and_then(|place| lock(&STATES).get(place)?.upgrade());
    let before = state.map(|state| STATE.replace(state));
    let code = outside("cuCtxSetCurrent", |_| {
        CURRENT.set(context);
        Ok(())
    });
    // A thread on which the call failed stays in its context, and with the state of that.
    if let (Some(before), true) = (before, code != 0) {
        STATE.set(before);
    }
    code
}

driver! {
    inside cuMemAllocFromPoolAsync(
        state, pointer: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream
    ) {
        state.alive(pool)?;
        state.alive(stream)?;
        state.not_capturing()?;
        if bytes == 0 { return Err(INVALID_VALUE); }
        let words = bytes.div_ceil(8);
        if state.used() + words * 8 > state.memory { return Err(OUT_OF_MEMORY); }
        let mut block = vec![0xDEAD_BEEF_DEAD_BEEF_u64; words].into_boxed_slice();
        *pointer = block.as_mut_ptr().expose_provenance() as u64;
        state.allocations.insert(*pointer, block);
        Ok(())
    }
    inside cuMemFreeAsync(state, pointer: CUdeviceptr, stream: CUstream) {
        state.alive(stream)?;
        state.not_capturing()?;
        state.allocations.remove(&pointer).map(drop).ok_or(INVALID_VALUE)
    }
    inside cuLaunchKernel(
        state,
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        state.alive(stream)?;
        let grid = [grid_x, grid_y, grid_z];
        let block = [block_x, block_y, block_z];
        launch(state, false, function, grid, block, shared_bytes, parameters)
    }
    inside cuLaunchCooperativeKernel(
        state,
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
    ) {
        state.alive(stream)?;
        let grid = [grid_x, grid_y, grid_z];
        let block = [block_x, block_y, block_z];
        launch(state, true, function, grid, block, shared_bytes, parameters)
    }
}
