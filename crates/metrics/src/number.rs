//! Numbers that many threads add to: no locks, and a few nanoseconds each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A number at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// How it behaves.
    pub kind: NumberKind,
    /// The label that tells it from others of this name, and its value.
    pub label: Option<(&'static str, String)>,
    /// Its value.
    pub value: f64,
}

/// Something with numbers.
pub trait NumberSource: Sync {
    /// All of them, as they are now.
    fn samples(&self) -> Vec<Sample>;
}

/// A whole number: one that only grows, or one that goes up and down.
#[derive(Debug, Default)]
pub struct Whole<const GROWS: bool>(AtomicU64);

/// A number that grows.
pub type Counter = Whole<true>;
/// A whole number that goes up and down.
pub type Level = Whole<false>;

impl<const GROWS: bool> Whole<GROWS> {
    /// How it behaves.
    pub const KIND: NumberKind = if GROWS { NumberKind::Counter } else { NumberKind::Gauge };

    /// Begins at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets it; one that grows takes over a count from elsewhere.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Its value, as a float.
    pub fn value(&self) -> f64 {
        self.get() as f64
    }
}

impl Level {
    /// Sets it if it is less.
    pub fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }
}

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

/// Time that grows.
#[derive(Debug, Default)]
pub struct Seconds(AtomicU64);

impl Seconds {
    /// How it behaves.
    pub const KIND: NumberKind = NumberKind::Counter;

    /// Begins at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    pub fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Its value, in seconds.
    pub fn value(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// How it behaves.
    pub const KIND: NumberKind = NumberKind::Gauge;

    /// Begins at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Its value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Declares the numbers of a crate: a struct with one field for each, its [`NumberSource`], and what they
/// are called. The documentation of a field is its help text.
///
/// ```
/// metrics::counters! {
///     /// What a kitchen counts.
///     pub struct Kitchen = "kitchen" {
///         /// Meals that were served.
///         meals: Counter,
///     }
/// }
/// static KITCHEN: Kitchen = Kitchen::new();
/// KITCHEN.meals.add(2);
/// let samples = metrics::NumberSource::samples(&KITCHEN);
/// assert_eq!((samples[0].name, samples[0].value), ("kitchen_meals", 2.0));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* $vis:vis struct $Name:ident = $prefix:literal {
        $($(#[doc = $doc:literal])+ $field:ident: $Type:ident,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        $vis struct $Name {
            $($(#[doc = $doc])+ pub $field: $crate::$Type,)*
        }

        impl $Name {
            /// All at zero.
            $vis const fn new() -> Self {
                Self { $($field: $crate::$Type::new(),)* }
            }
        }

        impl $crate::NumberSource for $Name {
            fn samples(&self) -> Vec<$crate::Sample> {
                vec![$($crate::Sample {
                    name: concat!($prefix, "_", stringify!($field)),
                    help: concat!($($doc),+).trim_ascii(),
                    kind: $crate::$Type::KIND,
                    label: None,
                    value: self.$field.value(),
                },)*]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_they_are_told() {
        let counter = Counter::new();
        let seconds = Seconds::new();
        let level = Level::new();
        let number = Gauge::new();
        counter.add(3);
        counter.add(4);
        seconds.add(Duration::from_millis(1500));
        level.set(9);
        number.set(-0.25);
        let values = [counter.value(), seconds.value(), level.value(), number.value()];
        assert_eq!(values, [7.0, 1.5, 9.0, -0.25]);
    }
}
