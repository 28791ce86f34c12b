//! Nested dissection of the graph of one diagonal block by METIS, whose C source the crate `metis-sys` compiles in.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use luge_sparse::CancelFlag;

use crate::OrderingError;
use crate::graph::{Graph, dense_limit};

/// METIS draws from the C library's one random sequence and replaces signal handlers while it
/// runs: one call at a time keeps its results reproducible and the handlers in order. A call that
/// was left behind holds this until it is done.
static METIS: Mutex<()> = Mutex::new(());

/// How long the caller of METIS sleeps between two looks at the cancel flag.
const PATIENCE: Duration = Duration::from_millis(5);

/// Stack of the thread that METIS works on: what a program's first thread has.
const METIS_STACK: usize = 8 << 20;

/// Multilevel nested dissection (G. Karypis and V. Kumar, SIAM J. Sci. Comput. 20 (1999)), by
/// METIS with its default options and a fixed seed. Vertices with more than 10·√n neighbours are
/// set aside and ordered last, as they would join everything with everything.
///
/// METIS works on a thread of its own, which is left behind if the flag is raised: it keeps its memory, and
/// the next call waiting, until it is done. The order is given new to old.
pub(crate) fn nested_dissection(
    graph: Graph,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, OrderingError> {
    let n = graph.len();
    let dense = dense_limit(n);
    let (sparse, mut last): (Vec<u32>, Vec<u32>) =
        (0..n as u32).partition(|&v| graph.degree(v as usize) <= dense);
    last.sort_by_key(|&v| graph.degree(v as usize));
    if last.is_empty() {
        return metis(graph, cancel);
    }
    let induced = graph.induced(&sparse);
    drop(graph);
    let mut order: Vec<u32> = metis(induced, cancel)?
        .into_iter()
        .map(|v| sparse[v as usize])
        .collect();
    order.append(&mut last);
    Ok(order)
}

fn metis(graph: Graph, cancel: &CancelFlag) -> Result<Vec<u32>, OrderingError> {
    let n = graph.len();
    if graph.idx.is_empty() {
        // METIS refuses a graph without vertices and expects edges.
        return Ok((0..n as u32).collect());
    }
    let limit = i32::MAX as usize;
    if graph.idx.len() > limit || n > limit {
        return Err(OrderingError::GraphTooLarge {
            method: "METIS",
            entries: graph.idx.len().max(n),
            limit,
        });
    }
    let ptr: Vec<i32> = graph.ptr.iter().map(|&p| p as i32).collect();
    let idx: Vec<i32> = graph.idx.iter().map(|&v| v as i32).collect();
    drop(graph);
    cancel.check()?;
    let (sender, receiver) = channel();
    let started = std::thread::Builder::new()
        .name("luge-metis".into())
        .stack_size(METIS_STACK)
        // Nobody receives what comes too late.
        .spawn({
            let cancel = cancel.clone();
            move || drop(sender.send(call_metis(ptr, idx, &cancel)))
        });
    if started.is_err() {
        return Err(OrderingError::Metis {
            status: metis_sys::rstatus_et_METIS_ERROR_MEMORY,
        });
    }
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Timeout) => cancel.check()?,
            Err(RecvTimeoutError::Disconnected) => unreachable!("METIS always answers"),
        }
    }
}

fn call_metis(
    mut ptr: Vec<i32>,
    mut idx: Vec<i32>,
    cancel: &CancelFlag,
) -> Result<Vec<u32>, OrderingError> {
    let n = ptr.len() - 1;
    let mut num_vertices = n as i32;
    let mut options = [-1; metis_sys::METIS_NOPTIONS as usize];
    options[metis_sys::moptions_et_METIS_OPTION_SEED as usize] = 1;
    let mut perm = vec![0i32; n];
    let mut inverse = vec![0i32; n];
    let status = {
        // The lock guards no data, so a panic elsewhere while it was held spoiled nothing.
        let _one_at_a_time = METIS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Whoever was left behind while waiting does not begin.
        cancel.check()?;
        // SAFETY: all pointers are to live arrays of the lengths METIS_NodeND asks for: ptr n + 1,
        // idx ptr[n], options METIS_NOPTIONS, perm and inverse n each; null weights mean equal
        // weights. The graph is undirected, without loops, and its indices are below n, by the
        // invariants of `Graph`. The lock keeps calls apart.
        unsafe {
            metis_sys::METIS_NodeND(
                &mut num_vertices,
                ptr.as_mut_ptr(),
                idx.as_mut_ptr(),
                std::ptr::null_mut(),
                options.as_mut_ptr(),
                perm.as_mut_ptr(),
                inverse.as_mut_ptr(),
            )
        }
    };
    if status != metis_sys::rstatus_et_METIS_OK {
        return Err(OrderingError::Metis { status });
    }
    Ok(perm.into_iter().map(|v| v as u32).collect())
}
