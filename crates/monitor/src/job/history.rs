//! How numbers went over the run, in a fixed amount of memory: when there is no place left, two
//! neighbouring points become one.

use std::collections::BTreeMap;

/// Points of a curve.
const POINTS_MAX: usize = 1024;
/// Points of a curve that a page gets.
const SHOWN_MAX: usize = 300;
/// Curves.
const CURVES_MAX: usize = 64;

/// The mean of the numbers of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    sum: f64,
    n: u32,
}

impl Mean {
    fn join(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, n: self.n + other.n }
    }

    fn value(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Seconds since the beginning.
    pub(super) at: f64,
    pub(super) value: f64,
}

/// All curves of a job, with one axis of time.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Seconds of a point.
    width: f64,
    curves: BTreeMap<String, Vec<Mean>>,
}

impl Default for History {
    fn default() -> Self {
        Self { width: 1.0, curves: BTreeMap::new() }
    }
}

impl History {
    /// Seconds between two points.
    pub(super) fn width(&self) -> f64 {
        self.width
    }

    /// Adds the value of a curve. A value that is not a number is left out.
    pub(super) fn add(&mut self, seconds: f64, name: &str, value: f64) {
        let is_known = self.curves.contains_key(name);
        if !value.is_finite()
            || !seconds.is_finite()
            || !is_known && self.curves.len() >= CURVES_MAX
        {
            return;
        }
        while seconds / self.width >= POINTS_MAX as f64 {
            self.width *= 2.0;
            self.curves.values_mut().for_each(halve);
        }
        let at = (seconds.max(0.0) / self.width) as usize;
        let curve = self.curves.entry(name.to_string()).or_default();
        if curve.len() <= at {
            curve.resize(at + 1, Mean::default());
        }
        curve[at] = curve[at].join(Mean { sum: value, n: 1 });
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.curves.keys().map(String::as_str)
    }

    /// The points of a curve, few enough to be drawn.
    pub(super) fn points(&self, name: &str) -> Vec<Point> {
        let Some(curve) = self.curves.get(name) else { return Vec::new() };
        let n = curve.len().div_ceil(SHOWN_MAX).max(1);
        let width = self.width * n as f64;
        let points = curve.chunks(n).enumerate();
        let point = |(at, means): (usize, &[Mean])| {
            let value = means.iter().copied().fold(Mean::default(), Mean::join).value()?;
            Some(Point { at: at as f64 * width, value })
        };
        points.filter_map(point).collect()
    }
}

fn halve(curve: &mut Vec<Mean>) {
    let pairs = curve.chunks(2);
    *curve = pairs.map(|pair| pair.iter().copied().fold(Mean::default(), Mean::join)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_as_many_points_as_an_hour() {
        let mut history = History::default();
        for second in 0..86_400u32 {
            history.add(f64::from(second), "speed", f64::from(second));
            if second % 1000 == 0 {
                history.add(f64::from(second), "seldom", 1.0);
            }
        }
        history.add(1.0, "bad", f64::NAN);
        assert_eq!(history.names().collect::<Vec<_>>(), ["seldom", "speed"]);
        assert_eq!(history.width(), 128.0);
        assert!(history.curves.values().all(|curve| curve.len() <= POINTS_MAX));
        let points = history.points("speed");
        assert!(points.len() <= SHOWN_MAX && points.len() > 200, "{}", points.len());
        for Point { at, value } in points {
            // A point has the mean of what was seen from its time on, and the last one is short.
            assert!(value > at && value < at + 400.0, "{at} {value}");
        }
        assert_eq!(history.points("seldom").len(), 87);
        assert_eq!(history.points("of nobody"), []);
    }

    #[test]
    fn points_are_means() {
        let mut history = History::default();
        history.add(0.1, "a", 1.0);
        history.add(0.9, "a", 3.0);
        history.add(2.0, "a", 5.0);
        let points = [Point { at: 0.0, value: 2.0 }, Point { at: 2.0, value: 5.0 }];
        assert_eq!(history.points("a"), points);
    }

    #[test]
    fn curves_have_a_limit() {
        let mut history = History::default();
        (0..1000).for_each(|at| history.add(0.0, &at.to_string(), 1.0));
        assert_eq!(history.names().count(), CURVES_MAX);
    }
}
