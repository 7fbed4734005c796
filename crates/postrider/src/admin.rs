//! Administration: what the command line, the API and the panel ask and do.
//!
//! How it fails: with an [`crate::Error`] that names what is missing or in the way. Invariant: this is the only door; nobody else speaks to the tables.
