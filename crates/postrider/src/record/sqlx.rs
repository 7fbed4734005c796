//! Recording in transactions of sqlx.
