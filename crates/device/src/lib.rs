//! The host side of the device: CUDA and simulator backends behind one interface.
