//! The bytes of a [`Refusal`].

use super::Body;
use crate::codec::{LIST_MAX, Reader, Writer};
use crate::error::{Error, Result};
use crate::recovery::{Term, TermState};
use crate::refusal::Refusal;

impl Body for Refusal {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        match self {
            Refusal::Version { ours, theirs } => u32s(out, 1, &[*ours, *theirs]),
            Refusal::OtherJob { ours, theirs } => texts(out, 2, &[ours, theirs]),
            Refusal::TrainerOutOfRange { trainer, n_trainers } => {
                u32s(out, 3, &[*trainer, *n_trainers])
            }
            Refusal::DuplicateTrainer { trainer, heard_ms } => {
                out.u8(4);
                out.u32(*trainer);
                out.u64(*heard_ms);
            }
            Refusal::HelloFirst => out.u8(5),
            Refusal::UnknownVar(var) => texts(out, 6, &[var]),
            Refusal::BadValue { var, detail } => texts(out, 7, &[var, detail]),
            Refusal::NotFinite { var, trainer } => {
                texts(out, 8, &[var]);
                out.u32(*trainer);
            }
            Refusal::Ahead { trainer, n } => u32s(out, 9, &[*trainer, *n]),
            Refusal::Malformed(what) => texts(out, 10, &[what]),
            Refusal::TrainerLost { trainer, how, silent_ms, round } => {
                texts(out, 11, &[how]);
                out.u32(*trainer);
                out.u64(*silent_ms);
                out.u64(*round);
            }
            Refusal::Failed(what) => texts(out, 12, &[what]),
            Refusal::BadExchange(what) => texts(out, 13, &[what]),
            Refusal::OutOfStep { trainer, ours, theirs } => {
                texts(out, 14, &[ours, theirs]);
                out.u32(*trainer);
            }
            Refusal::Absent { trainer } => u32s(out, 15, &[*trainer]),
            Refusal::OtherModel { var, ours, theirs } => texts(out, 16, &[var, ours, theirs]),
            Refusal::MissingPart { trainer, round, expected } => {
                out.u8(17);
                out.u32(*trainer);
                out.u64(*round);
                out.u64(*expected);
            }
            Refusal::Stuck { gathering, round_of, round } => {
                out.u8(18);
                ranks(out, gathering);
                ranks(out, round_of);
                out.u64(*round);
            }
            Refusal::UnknownNumber { number, n_vars } => u32s(out, 19, &[*number, *n_vars]),
            Refusal::OtherTerm(term_state) => {
                out.u8(20);
                term_state.encode(out);
            }
            Refusal::NoSuchCut { cut, base } => {
                out.u8(21);
                out.u64(*cut);
                out.u64(*base);
            }
            Refusal::Secret => out.u8(22),
            Refusal::Elsewhere { dir, roots } => texts(out, 23, &[dir, roots]),
            Refusal::TooMuch { n_bytes, n_bytes_max } => {
                out.u8(24);
                out.u64(*n_bytes);
                out.u64(*n_bytes_max);
            }
            Refusal::TooManyQuestions { n } => u32s(out, 25, &[*n]),
            Refusal::OtherKey { trainer, from, since_ms } => {
                texts(out, 26, &[from]);
                out.u32(*trainer);
                out.u64(*since_ms);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(match input.u8()? {
            1 => Refusal::Version { ours: input.u32()?, theirs: input.u32()? },
            2 => Refusal::OtherJob { ours: input.str()?, theirs: input.str()? },
            3 => Refusal::TrainerOutOfRange { trainer: input.u32()?, n_trainers: input.u32()? },
            4 => Refusal::DuplicateTrainer { trainer: input.u32()?, heard_ms: input.u64()? },
            5 => Refusal::HelloFirst,
            6 => Refusal::UnknownVar(input.str()?),
            7 => Refusal::BadValue { var: input.str()?, detail: input.str()? },
            8 => Refusal::NotFinite { var: input.str()?, trainer: input.u32()? },
            9 => Refusal::Ahead { trainer: input.u32()?, n: input.u32()? },
            10 => Refusal::Malformed(input.str()?),
            11 => {
                let how = input.str()?;
                let trainer = input.u32()?;
                let silent_ms = input.u64()?;
                let round = input.u64()?;
                Refusal::TrainerLost { trainer, how, silent_ms, round }
            }
            12 => Refusal::Failed(input.str()?),
            13 => Refusal::BadExchange(input.str()?),
            14 => {
                let (ours, theirs) = (input.str()?, input.str()?);
                Refusal::OutOfStep { trainer: input.u32()?, ours, theirs }
            }
            15 => Refusal::Absent { trainer: input.u32()? },
            16 => {
                let var = input.str()?;
                let ours = input.str()?;
                let theirs = input.str()?;
                Refusal::OtherModel { var, ours, theirs }
            }
            17 => {
                let trainer = input.u32()?;
                let round = input.u64()?;
                let expected = input.u64()?;
                Refusal::MissingPart { trainer, round, expected }
            }
            18 => {
                let list = |input: &mut Reader<'_>| -> Result<Vec<u32>> {
                    (0..input.count()?).map(|_| input.u32()).collect()
                };
                let (gathering, round_of) = (list(input)?, list(input)?);
                Refusal::Stuck { gathering, round_of, round: input.u64()? }
            }
            19 => Refusal::UnknownNumber { number: input.u32()?, n_vars: input.u32()? },
            20 => Refusal::OtherTerm(TermState::decode(input)?),
            21 => Refusal::NoSuchCut { cut: input.u64()?, base: input.u64()? },
            22 => Refusal::Secret,
            23 => Refusal::Elsewhere { dir: input.str()?, roots: input.str()? },
            24 => Refusal::TooMuch { n_bytes: input.u64()?, n_bytes_max: input.u64()? },
            25 => Refusal::TooManyQuestions { n: input.u32()? },
            26 => {
                let (from, trainer) = (input.str()?, input.u32()?);
                Refusal::OtherKey { trainer, from, since_ms: input.u64()? }
            }
            _ => return Err(Error::Malformed("an unknown refusal")),
        })
    }
}

impl Body for TermState {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        self.term.encode(out);
        out.numbers(&self.cuts);
        out.u8(self.has_member.into());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (term, cuts) = (Term::decode(input)?, input.numbers()?);
        Ok(Self { term, cuts, has_member: input.flag()? })
    }
}

fn texts(out: &mut Writer<'_>, code: u8, texts: &[&str]) {
    out.u8(code);
    for text in texts {
        out.str(text);
    }
}

fn u32s(out: &mut Writer<'_>, code: u8, numbers: &[u32]) {
    out.u8(code);
    numbers.iter().for_each(|&number| out.u32(number));
}

fn ranks(out: &mut Writer<'_>, ranks: &[u32]) {
    let ranks = &ranks[..ranks.len().min(LIST_MAX)];
    out.count(ranks.len());
    ranks.iter().for_each(|&rank| out.u32(rank));
}
