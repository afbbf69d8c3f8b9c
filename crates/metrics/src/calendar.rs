//! A time as a calendar says it, in UTC: for the stamps of lines and the names of folders.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// A time of the calendar, in UTC. Times before 1970 are its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    /// The year.
    pub year: u64,
    /// From 1 to 12.
    pub month: u64,
    /// From 1 to 31.
    pub day: u64,
    seconds: u64,
    micros: u32,
}

impl CalendarTime {
    /// That time.
    pub fn new(time: SystemTime) -> Self {
        Self::since_1970(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }

    /// So long after the beginning of 1970.
    pub fn since_1970(since: Duration) -> Self {
        let mut days = since.as_secs() / DAY;
        let mut year = 1970;
        while days >= days_of(year) {
            days -= days_of(year);
            year += 1;
        }
        let mut month = 1;
        let february = days_of(year) - 337;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let (seconds, micros) = (since.as_secs() % DAY, since.subsec_micros());
        Self { year, month, day: days + 1, seconds, micros }
    }

    /// The time that it is.
    pub fn now() -> Self {
        Self::new(SystemTime::now())
    }

    /// `MMDD HH:MM:SS.micros`, as Fluid stamps its lines.
    pub fn stamp(self) -> String {
        let Self { month, day, micros, .. } = self;
        format!("{month:02}{day:02} {}.{micros:06}", self.clock(":"))
    }

    /// `YYYYMMDD-HHMMSS`, for names.
    pub fn compact(self) -> String {
        format!("{}{:02}{:02}-{}", self.year, self.month, self.day, self.clock(""))
    }

    fn clock(self, between: &'static str) -> String {
        let hours = self.seconds / 3600;
        let minutes = self.seconds / 60 % 60;
        let seconds = self.seconds % 60;
        format!("{hours:02}{between}{minutes:02}{between}{seconds:02}")
    }
}

/// `YYYY-MM-DDTHH:MM:SS.microsZ`, which other programs read (RFC 3339).
impl fmt::Display for CalendarTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, micros, .. } = self;
        write!(f, "{year}-{month:02}-{day:02}T{}.{micros:06}Z", self.clock(":"))
    }
}

fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u64::from(is_leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (364, (1970, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_773, (2026, 11, 16)),
        ] {
            let CalendarTime { year, month, day: found, .. } =
                CalendarTime::since_1970(Duration::from_secs(day * DAY));
            assert_eq!((year, month, found), date, "{day}");
        }
    }

    #[test]
    fn a_time_has_three_forms() {
        let time = CalendarTime::since_1970(Duration::new(1_584_568_021, 298_220_999));
        assert_eq!(time.stamp(), "0318 21:47:01.298220");
        assert_eq!(time.compact(), "20200318-214701");
        assert_eq!(time.to_string(), "2020-03-18T21:47:01.298220Z");
    }
}
