//! Kinds: what an enqueued job is, with its policy and the type of its arguments.
//!
//! How it fails: [`Invalid`] for a name that breaks its rules. Invariant: a kind is a subscription
//! without globs, so that everything that holds for the jobs of subscriptions holds for its jobs.

use std::fmt;
use std::marker::PhantomData;

use crate::subscription::check_name;
use crate::{Globs, Invalid, Policy, SinkKind, Source, Subscription};

/// A kind of jobs whose arguments are of the type `A`.
///
/// ```
/// use postrider_core::{Kind, Policy};
/// #[derive(serde::Deserialize)]
/// struct Receipt { order_id: i64 }
/// let policy = Policy { max_attempts: 5, ..Policy::default() };
/// let kind = Kind::<Receipt>::named("mail.receipt")?.policy(policy).version(2);
/// assert_eq!(kind.name(), "mail.receipt");
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
pub struct Kind<A> {
    declared: Subscription,
    arguments: PhantomData<fn() -> A>,
}

impl<A> Kind<A> {
    /// A kind with the default policy. Its name is unique among kinds and subscriptions: letters,
    /// digits, `.`, `_`, `-`; at most 128 bytes.
    ///
    /// # Errors
    /// [`Invalid`] when the name breaks its rules.
    pub fn named(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        check_name("kind", &name)?;
        let declared = Subscription {
            name,
            globs: Globs::new(Vec::new()),
            source: Source::Enqueue,
            tenant: None,
            filter: None,
            sink: SinkKind::Handler,
            coalesce: false,
            policy: Policy::default(),
            version: 1,
        };
        Ok(Self { declared, arguments: PhantomData })
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.declared.policy = policy;
        self
    }

    /// Sets the version of the declaration, 1 or more; raise it when the policy changes. A lower
    /// one never overwrites. Defaults to 1.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.declared.version = version;
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// The subscription without globs that it is.
    #[must_use]
    pub fn into_subscription(self) -> Subscription {
        self.declared
    }
}

impl<A> Clone for Kind<A> {
    fn clone(&self) -> Self {
        Self { declared: self.declared.clone(), arguments: PhantomData }
    }
}

impl<A> fmt::Debug for Kind<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.declared).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_valid_subscription_without_globs_and_no_other_is() {
        let kind = Kind::<()>::named("mail.receipt").expect("a name").into_subscription();
        assert!(kind.check().is_ok() && kind.globs.is_empty());
        let odd = Subscription { source: Source::Events, ..kind };
        assert_eq!(odd.check().expect_err("no globs").field(), "globs");
        assert_eq!(Kind::<()>::named("a b").expect_err("a space").field(), "kind");
    }
}
