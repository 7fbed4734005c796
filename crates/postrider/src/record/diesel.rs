//! Recording in transactions of diesel.
