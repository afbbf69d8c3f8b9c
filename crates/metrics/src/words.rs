//! Numbers for people.

/// A number in at most five letters, as far as possible.
pub fn count(value: f64) -> String {
    let size = value.abs();
    let scaled = |by: f64, unit: &str| {
        let value = value / by;
        let digits = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) };
        format!("{value:.digits$} {unit}")
    };
    match size {
        _ if !value.is_finite() => "none".to_string(),
        0.0..1e4 if size.fract() == 0.0 => format!("{value:.0}"),
        0.0..1.0 => format!("{value:.4}"),
        1.0..1e2 => format!("{value:.2}"),
        1e2..1e4 => format!("{value:.0}"),
        1e4..1e6 => scaled(1e3, "k"),
        1e6..1e9 => scaled(1e6, "M"),
        _ => scaled(1e9, "G"),
    }
}

/// Bytes.
pub fn bytes(value: f64) -> String {
    let scaled = |by: f64, unit: &str| format!("{:.1} {unit}", value / by);
    match value {
        1e3..1e6 => scaled(1e3, "kB"),
        1e6..1e9 => scaled(1e6, "MB"),
        1e9.. => scaled(1e9, "GB"),
        _ => format!("{value:.0} B"),
    }
}

/// A time: `42 s`, `3 min 20 s`, `2 h 5 min`.
pub fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds < 1.0 => format!("{:.0} ms", seconds.max(0.0) * 1e3),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..172_800 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} days", whole / 86_400),
    }
}

/// A share of one.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.71828, "0.7183"),
            (42.0, "42"),
            (42.123, "42.12"),
            (9999.0, "9999"),
            (12_345.0, "12.3 k"),
            (1_234_567.0, "1.23 M"),
            (2.5e9, "2.50 G"),
            (-3.0, "-3"),
            (f64::NAN, "none"),
        ];
        cases.iter().for_each(|(value, text)| assert_eq!(count(*value), *text));
        assert_eq!([bytes(12.0), bytes(1500.0), bytes(2.5e9)], ["12 B", "1.5 kB", "2.5 GB"]);
        let times = [0.25, 42.0, 200.0, 7500.0, 1e6].map(time);
        assert_eq!(times, ["250 ms", "42 s", "3 min 20 s", "2 h 5 min", "11 days"]);
        assert_eq!(percent(0.625), "62 %");
    }
}
