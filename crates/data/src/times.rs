//! Times as texts and as numbers: microseconds since the beginning of 1970 in UTC.

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// The time that stands for a missing one.
pub const NO_TIME: i64 = i64::MIN;

/// The time of a text: `2024-01-31`, `2024-01-31 10:00`, `2024-01-31T10:00:00.5+02:00`, `…Z`. Without a zone it is UTC. Digits
/// beyond microseconds are dropped. `None` if the text is not a time.
///
/// ```
/// assert_eq!(data::time_of_text("1970-01-01T01:00:00+01:00"), Some(0));
/// assert_eq!(data::time_of_text("1970-01-02"), Some(86_400_000_000));
/// assert_eq!(data::time_of_text("1970-13-02"), None);
/// ```
pub fn time_of_text(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let days = days_of(date)?;
    let micros = match rest.split_at_checked(1) {
        None => 0,
        Some(("T" | "t" | " ", clock)) => clock_of(clock)?,
        Some(_) => return None,
    };
    days.checked_mul(DAY * SECOND)?.checked_add(micros)
}

/// The text of a time: `2024-01-31` at midnight, else `2024-01-31T10:00:00`, with a fraction if there is one; empty for
/// [`NO_TIME`].
pub fn time_text(micros: i64) -> String {
    if micros == NO_TIME {
        return String::new();
    }
    let days = micros.div_euclid(DAY * SECOND);
    let of_day = micros.rem_euclid(DAY * SECOND);
    let Date { year, month, day } = Date::of_days(days);
    let sign = if (0..=9999).contains(&year) { "" } else { "+" };
    let sign = if year < 0 { "-" } else { sign };
    let date = format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs());
    if of_day == 0 {
        return date;
    }
    let (seconds, rest) = (of_day / SECOND, of_day % SECOND);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match rest {
        0 => format!("{date}T{clock}"),
        rest => format!("{date}T{clock}.{}", format!("{rest:06}").trim_end_matches('0')),
    }
}

/// Seconds since the beginning of 1970; not a number for [`NO_TIME`].
pub fn time_seconds(micros: i64) -> f64 {
    if micros == NO_TIME { f64::NAN } else { micros as f64 / SECOND as f64 }
}

fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Days since the beginning of 1970.
fn days_of(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let year = parts.next()?;
    let month = parts.next()?;
    let day = parts.next()?;
    if parts.next().is_some() || [year.len(), month.len(), day.len()] != [4, 2, 2] {
        return None;
    }
    let year = digits(year)?;
    let month = digits(month)?;
    let day = digits(day)?;
    let days = days_from_date(year, month, day);
    // A day that there is not becomes one of the next month.
    ((1..=12).contains(&month) && day >= 1 && Date::of_days(days) == Date { year, month, day })
        .then_some(days)
}

/// Microseconds of `10:00`, `10:00:00.25`, `10:00:00Z` or `10:00+02:00`.
fn clock_of(text: &str) -> Option<i64> {
    let text = text.trim_end_matches(" UTC");
    let (clock, zone) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let (clock, fraction) = clock.trim_end().split_once('.').unwrap_or((clock.trim_end(), ""));
    let mut parts = clock.split(':');
    let hour = parts.next()?;
    let minute = parts.next()?;
    let second = parts.next();
    let second = second.unwrap_or(if fraction.is_empty() { "00" } else { "" });
    if parts.next().is_some() || [hour.len(), minute.len(), second.len()] != [2, 2, 2] {
        return None;
    }
    let hour = digits(hour)?;
    let minute = digits(minute)?;
    let second = digits(second)?;
    let are_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if hour > 23 || minute > 59 || second > 59 || !are_digits {
        return None;
    }
    let fraction = digits(&format!("{fraction:0<6}")[..6])?;
    let local = (hour * 3600 + minute * 60 + second) * SECOND + fraction;
    Some(local - zone_of(zone)? * SECOND)
}

/// Seconds east of UTC of `Z`, `+02:00`, `+0200` or `-05`.
fn zone_of(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1) {
        None => return Some(0),
        Some(("Z" | "z", "")) => return Some(0),
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        Some(_) => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        5 => rest.split_once(':')?,
        _ => return None,
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that the day of a leap year is the last.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[derive(Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// The date so many days after 1970 began.
    fn of_days(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self { year: year + era * 400 + i64::from(month <= 2), month, day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_number_however_it_is_written() {
        let ten = 1_706_695_200 * SECOND;
        for text in [
            "2024-01-31 10:00",
            "2024-01-31T10:00:00",
            "2024-01-31T10:00:00.000000000Z",
            "2024-01-31 12:00:00+02:00",
            "2024-01-31 12:00:00+0200",
            "2024-01-31T05:00:00-05",
            " 2024-01-31 10:00:00 UTC",
        ] {
            assert_eq!(time_of_text(text), Some(ten), "{text}");
        }
        assert_eq!(time_text(ten), "2024-01-31T10:00:00");
        assert_eq!(time_of_text("2024-01-31 10:00:00.25"), Some(ten + 250_000));
        assert_eq!(time_text(ten + 250_000), "2024-01-31T10:00:00.25");
        assert_eq!(time_text(ten - 10 * 3600 * SECOND), "2024-01-31");
        assert_eq!(time_text(NO_TIME), "");
    }

    #[test]
    fn texts_that_are_no_times() {
        for text in [
            "",
            "2024",
            "20240131",
            "2024-1-31",
            "2024-02-30",
            "2023-02-29",
            "2024-00-10",
            "31.01.2024",
            "2024-01-31x",
            "2024-01-31 ",
            "2024-01-31 24:00",
            "2024-01-31 10",
            "2024-01-31T10:00:00.x",
            "2024-01-31T10:00:00+25:00",
            "2024-01-31T10:00:0",
            "2024-01-31T10:00:00:00",
            "é024-01-31",
        ] {
            let expected = if text.ends_with(' ') { Some(1_706_659_200 * SECOND) } else { None };
            assert_eq!(time_of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn every_day_of_five_hundred_years_comes_back() {
        for day in -100_000..100_000i64 {
            let text = time_text(day * DAY * SECOND);
            assert_eq!(time_of_text(&text), Some(day * DAY * SECOND), "{text}");
        }
    }
}
