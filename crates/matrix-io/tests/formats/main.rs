//! Matrix files. One program, which is built sooner than one a file.

mod corpus;
mod files;
mod format;
mod numpy;
mod properties;
mod rutherford_boeing;
