//! Recording in transactions of sea_orm.
