//! The #[kernel] attribute of Luge's kernel DSL.
