//! What the solver promises, on the CPU and on the simulator. One program, because each instantiates the whole solver.

mod batch;
mod changed;
mod corpus;
mod dealt;
mod dense_rows;
mod device;
mod device_delays;
mod extremes;
mod facade;
mod fields;
mod host_factors;
mod ldlt;
mod lower_upper;
mod matrices;
mod options;
mod saved;
mod saved_factors;
mod stale_pivots;
mod symmetric;
mod symmetric_device;
mod symmetric_fields;
