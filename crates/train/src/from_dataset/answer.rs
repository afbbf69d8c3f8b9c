//! The result of a pass, as bytes of the journal.

use data::{Dataset, Skipped};

use super::{PassValue, Report};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, ReadValues, WriteValues};

/// The report of a pass and what it has changed of its dataset.
pub(super) fn to_bytes(report: &Report, dataset: &Dataset) -> Vec<u8> {
    let mut to = ByteWriter::default();
    to.u64(report.n_batches);
    to.u64(report.n_samples);
    to.u64(report.seconds.to_bits());
    to.count(report.waited.len());
    report.waited.iter().fold(&mut to, |to, waited| to.u64(waited.to_bits()));
    to.count(report.fetched.len());
    for whole in &report.fetched {
        to.u8(u8::from(whole.by_sample));
        to.tensor(&whole.value);
    }
    to.u8(u8::from(report.auc.is_some()));
    to.u64(report.auc.unwrap_or(0.0).to_bits());
    let skipped = dataset.skipped();
    to.u64(skipped.n_lines);
    to.u64(skipped.n_files);
    to.str(&skipped.first);
    to.u64(dataset.settings().n_threads as u64);
    to.0
}

/// The report that an earlier process got. The dataset is what it was after that pass.
pub(super) fn read(bytes: &[u8], dataset: &mut Dataset) -> Result<Report> {
    let mut from = ByteReader::new(bytes);
    let mut report = Report { n_batches: from.u64()?, n_samples: from.u64()?, ..Report::default() };
    report.seconds = f64::from_bits(from.u64()?);
    for _ in 0..from.count()? {
        report.waited.push(f64::from_bits(from.u64()?));
    }
    for _ in 0..from.count()? {
        let by_sample = from.u8()? != 0;
        report.fetched.push(PassValue { value: from.tensor()?, by_sample });
    }
    let (has_auc, auc) = (from.u8()? != 0, f64::from_bits(from.u64()?));
    report.auc = has_auc.then_some(auc);
    let (n_lines, n_files) = (from.u64()?, from.u64()?);
    dataset.set_skipped(Skipped { n_lines, n_files, first: from.str()?.to_string() });
    dataset.settings_mut().n_threads = from.u64()? as usize;
    report.is_past = true;
    if from.is_empty() {
        Ok(report)
    } else {
        Err(Error::BadState("something follows the report of a pass"))
    }
}
