//! The kernel DSL of Luge: PTX on nvptx64, a checking simulator on the host.
