//! What can be known of cuDSS without a GPU: what is missing, and who is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use luge_device::{Device, SimulatorOptions};
use luge_peers::Structure;
use luge_peers::cudss::{Cudss, CudssError, Library, THREADING_LAYER, threading_layer_beside};
use luge_testkit::corpus::skip_loudly;

#[test]
fn a_wrong_path_is_named() {
    let nowhere = PathBuf::from("no-such-folder/libcudss.so.1");
    let missing = Library::load(Some(&nowhere)).expect_err("it is not there");
    assert!(missing.to_string().contains("no-such-folder"), "{missing}");
}

#[test]
fn another_library_is_refused() {
    let other = PathBuf::from("libm.so.6");
    let missing = Library::load(Some(&other)).expect_err("it is not cuDSS");
    let words = missing.to_string();
    assert!(
        words.contains("libm") && words.contains("cudssGetProperty"),
        "{words}"
    );
}

#[test]
fn the_threading_layer_lies_beside_the_library() {
    let folder = std::env::temp_dir().join(format!("luge-peers-cudss-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let library = folder.join("libcudss.so.1");
    assert_eq!(threading_layer_beside(&library), None);
    let layer = folder.join(THREADING_LAYER);
    std::fs::write(&layer, "").expect("written");
    assert_eq!(threading_layer_beside(&library), Some(layer));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn the_simulator_is_refused() {
    let library = match Library::load(None) {
        Ok(library) => Arc::new(library),
        Err(missing) => return skip_loudly(1, &format!("cuDSS is missing: {missing}")),
    };
    let stream = Device::simulator(SimulatorOptions::default())
        .create_stream()
        .expect("a simulated stream");
    let streams = [stream];
    let made = Cudss::<f64>::new(Arc::clone(&library), &streams, Structure::General, None);
    assert!(matches!(made, Err(CudssError::NoCuda)));
    let missing = library
        .try_on(&streams, Some(Path::new(THREADING_LAYER)))
        .expect_err("the simulator is no GPU");
    assert!(missing.to_string().contains("CUDA"), "{missing}");
}
