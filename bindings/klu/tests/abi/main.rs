//! The library as programs meet it: loaded, preloaded, in the place of libklu.
//!
//! What needs the system's klu.h, its libklu or SUNDIALS is skipped, and says so, where they are not.

// Other programs use more of it.
#[allow(dead_code)]
#[path = "../support/mod.rs"]
mod api;

mod demo;
mod layout;
mod peer;
mod semantics;
mod sundials;
