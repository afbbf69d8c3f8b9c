//! Reports and answers as lines of text.

use base::Endpoint;
use wire::{Error, Result};

use super::{Place, RendezvousReply, Report, Side};

/// The first field of a report: another version is another word.
const WORD: &str = "paddlewheel-rendezvous-1";
/// A field without a value.
const NONE: &str = "-";
/// The largest job.
const N_MAX: u32 = 1 << 16;
/// A report or an answer of a large job is shorter than this.
pub const LINE_BYTES_MAX: u64 = 1 << 20;

impl Report {
    /// The line, with its end.
    pub fn to_line(&self) -> String {
        let number = |value: Option<u32>| value.map_or(NONE.to_string(), |value| value.to_string());
        let fields = [
            WORD.to_string(),
            plain(&self.job),
            self.n.to_string(),
            number(self.n_servers),
            self.side.word().to_string(),
            number(self.rank),
            plain(&self.name),
            self.endpoint.to_string(),
            if self.is_fixed { "fixed" } else { "free" }.to_string(),
        ];
        fields.join("\t") + "\n"
    }

    /// Reads a line.
    pub fn read(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
        let [WORD, job, n, n_servers, side, rank, name, endpoint, port] = fields.as_slice() else {
            return Err(Error::Malformed("no report to a rendezvous of this version"));
        };
        let is_fixed = match *port {
            "fixed" => true,
            "free" => false,
            _ => return Err(Error::Malformed("neither a fixed nor a free port")),
        };
        let (n, n_servers) = (count(n)?, optional(n_servers)?);
        if n == 0 || n > N_MAX || n_servers.is_some_and(|n_servers| n_servers > n) {
            return Err(Error::Malformed("no number of processes"));
        }
        Ok(Self {
            job: job.to_string(),
            n,
            n_servers,
            side: Side::read(side)?,
            rank: optional(rank)?,
            name: name.to_string(),
            endpoint: endpoint.parse()?,
            is_fixed,
        })
    }
}

impl RendezvousReply {
    /// The line, with its end.
    pub fn to_line(&self) -> String {
        let fields = match self {
            RendezvousReply::Waiting(who) => vec!["waiting".to_string(), plain(who)],
            RendezvousReply::Taken => vec!["taken".to_string()],
            RendezvousReply::Failed(why) => vec!["failed".to_string(), plain(why)],
            RendezvousReply::Placed(place) => vec![
                "placed".to_string(),
                place.id.to_string(),
                list(&place.servers),
                list(&place.trainers),
            ],
        };
        fields.join("\t") + "\n"
    }

    /// Reads a line.
    pub fn read(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
        match fields.as_slice() {
            ["waiting", who] => Ok(RendezvousReply::Waiting(who.to_string())),
            ["taken"] => Ok(RendezvousReply::Taken),
            ["failed", why] => Ok(RendezvousReply::Failed(why.to_string())),
            ["placed", id, servers, trainers] => {
                let (servers, trainers) = (endpoints(servers)?, endpoints(trainers)?);
                Ok(RendezvousReply::Placed(Place { id: count(id)?, servers, trainers }))
            }
            _ => Err(Error::Malformed("no answer of a rendezvous of this version")),
        }
    }
}

impl Side {
    /// The side, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Trainer => "trainer",
        }
    }

    fn read(word: &str) -> Result<Self> {
        match word {
            "server" => Ok(Side::Server),
            "trainer" => Ok(Side::Trainer),
            _ => Err(Error::Malformed("neither a server nor a trainer")),
        }
    }
}

/// Text that does not end a field.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn count(text: &str) -> Result<u32> {
    text.parse().map_err(|_| Error::Malformed("no number"))
}

fn optional(text: &str) -> Result<Option<u32>> {
    if text == NONE { Ok(None) } else { count(text).map(Some) }
}

fn list(endpoints: &[Endpoint]) -> String {
    if endpoints.is_empty() {
        return NONE.to_string();
    }
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

fn endpoints(text: &str) -> Result<Vec<Endpoint>> {
    if text == NONE {
        return Ok(Vec::new());
    }
    text.split(',').map(|text| Ok(text.parse()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::gathering::tests::report;
    use super::*;

    #[test]
    fn reports_and_answers_survive() {
        let one = report(Side::Server, "a:1");
        let full = Report { rank: Some(3), n_servers: Some(1), is_fixed: true, ..one.clone() };
        for report in [one, full] {
            assert_eq!(Report::read(&report.to_line()).unwrap(), report);
        }
        let servers = vec!["a:1".parse().unwrap(), "b:2".parse().unwrap()];
        for answer in [
            RendezvousReply::Waiting("trainer 1".into()),
            RendezvousReply::Taken,
            RendezvousReply::Failed("no".into()),
            RendezvousReply::Placed(Place { id: 1, servers, trainers: Vec::new() }),
        ] {
            assert_eq!(RendezvousReply::read(&answer.to_line()).unwrap(), answer);
        }
    }

    #[test]
    fn a_name_cannot_end_a_line() {
        let odd = Report { name: "a\tb\nc".into(), ..report(Side::Trainer, "a:1") };
        assert_eq!(Report::read(&odd.to_line()).unwrap().name, "a b c");
    }

    #[test]
    fn refuses_what_is_no_report() {
        let good = report(Side::Server, "a:1").to_line();
        for (old, new) in [
            ("rendezvous-1", "rendezvous-2"),
            ("server", "boss"),
            ("a:1", "a"),
            ("free", "maybe"),
            ("\t2\t", "\tmany\t"),
            ("\t2\t", "\t0\t"),
            ("\t2\t", "\t4000000000\t"),
            ("\t2\t-", "\t2\t3"),
        ] {
            let line = good.replacen(old, new, 1);
            assert_ne!(line, good);
            assert!(Report::read(&line).is_err(), "{line}");
        }
        for line in ["", "GET / HTTP/1.1", "placed\t0\ta", "placed\tx\t-\t-"] {
            assert!(RendezvousReply::read(line).is_err() && Report::read(line).is_err(), "{line}");
        }
    }
}
