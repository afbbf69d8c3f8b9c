//! Values that a service gives for a while: keys and tokens.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

use super::tries::StoreFailure;

/// A value is fetched again so long before it expires.
const REFRESH_BEFORE: Duration = Duration::from_secs(300);

/// The outcome of one try.
pub(super) type Found<T> = std::result::Result<T, StoreFailure>;

/// A value and how long it is valid.
#[derive(Clone, Debug)]
pub(super) struct Fetched<T> {
    pub(super) value: T,
    /// `None`: it does not expire.
    pub(super) lasts: Option<Duration>,
}

impl<T> Fetched<T> {
    pub(super) fn lasting(value: T) -> Self {
        Self { value, lasts: None }
    }
}

/// A value and its end.
struct HeldValue<T> {
    value: T,
    until: Option<Instant>,
}

impl<T> HeldValue<T> {
    fn is_valid_at(&self, time: Instant) -> bool {
        self.until.is_none_or(|until| time < until)
    }
}

/// A value that is fetched at its first use, shared, and fetched again five minutes before it expires. While that fails for
/// a passing reason, the old value is used until it has expired.
pub(super) struct Expiring<T>(Mutex<Option<HeldValue<T>>>);

impl<T> Default for Expiring<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// The value may be a secret.
impl<T> fmt::Debug for Expiring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiring")
    }
}

impl<T: Clone> Expiring<T> {
    pub(super) fn get(&self, now: Instant, fetch: impl FnOnce() -> Found<Fetched<T>>) -> Found<T> {
        let mut held = self.0.lock().even_if_poisoned();
        if let Some(found) = held.as_ref().filter(|held| held.is_valid_at(now + REFRESH_BEFORE)) {
            return Ok(found.value.clone());
        }
        match (fetch(), held.as_ref().filter(|held| held.is_valid_at(now))) {
            (Ok(Fetched { value, lasts }), _) => {
                let until = lasts.map(|lasts| now + lasts);
                Ok(held.insert(HeldValue { value, until }).value.clone())
            }
            (Err(StoreFailure::Passing(_)), Some(old)) => Ok(old.value.clone()),
            (Err(failure), _) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_value_serves_until_it_has_expired() {
        let (values, start) = (Expiring::<u32>::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let fresh = |value, seconds| {
            move || Ok(Fetched { value, lasts: Some(Duration::from_secs(seconds)) })
        };
        let passing = || Err(StoreFailure::Passing("busy".to_string()));
        assert_eq!(values.get(at(0), fresh(1, 1000)), Ok(1));
        assert_eq!(values.get(at(699), fresh(2, 1300)), Ok(1));
        assert_eq!(values.get(at(700), passing), Ok(1));
        assert_eq!(values.get(at(700), fresh(2, 1300)), Ok(2));
        assert!(values.get(at(2000), passing).is_err());
        let lasting = || Err(StoreFailure::Lasting("refused".to_string()));
        assert!(values.get(at(1999), lasting).is_err());
    }
}
