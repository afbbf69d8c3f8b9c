//! A batch script. A step whose task died is started again, and resumes from its snapshots.

use super::options::RenderOptions;
use crate::error::Result;
use crate::signals::{ENDED_EARLY, UNFINISHED};

pub(super) fn render(options: &RenderOptions) -> Result<String> {
    let RenderOptions { name, n_servers, n_trainers, cpus, time, .. } = options;
    let grace_secs = options.grace_secs();
    let n = n_servers + n_trainers;
    let partition = options.partition.as_deref();
    let partition = partition.map_or(String::new(), |name| format!("#SBATCH --partition={name}\n"));
    let port = match options.port {
        Some(port) => port.to_string(),
        // Two jobs of a machine should not share ports.
        None => "$((20000 + SLURM_JOB_ID % 500 * 20))".to_string(),
    };
    let words = [options.script.path.to_string_lossy().into_owned()];
    let words: Vec<_> = words.iter().chain(&options.script.arguments).map(|w| quoted(w)).collect();
    let secs = options.snapshot_secs();
    let restarts = options.max_restarts;
    let command = words.join(" ");
    let folder = match &options.snapshot_dir {
        Some(folder) => quoted(&folder.to_string_lossy()),
        None => format!("\"$SLURM_SUBMIT_DIR/{name}-snapshots\""),
    };
    let program: Vec<_> = options.program.iter().map(|word| quoted(word)).collect();
    let program = program.join(" ");
    let more = variables(options)?;
    Ok(format!(
        "#!/bin/bash\n#SBATCH --job-name={name}\n#SBATCH --ntasks={n}\n\
         #SBATCH --cpus-per-task={cpus}\n#SBATCH --mem-per-cpu={}\n#SBATCH --time={time}\n\
         #SBATCH --signal=TERM@{grace_secs}\n#SBATCH --output={name}-%j.log\n{partition}\n\
         # {n_servers} of the {n} tasks are servers. The folder must be on a disk that all machines share.\n\
         export PADDLE_PSERVERS_NUM={n_servers}\n\
         export PADDLE_PORT={port}\n\
         export FLAGS_snapshot_dir={folder}\n\
         export FLAGS_snapshot_secs={secs}\n\
         export PYTHONUNBUFFERED=1\n\
         mkdir -p \"$FLAGS_snapshot_dir\"\n{more}\n\
         # A job that has finished begins anew; one that has not continues.\n\
         finished=\"$FLAGS_snapshot_dir/finished\"\n\
         if [ -e \"$finished\" ]; then\n  \
         echo \"the job in $FLAGS_snapshot_dir has finished, this is a new one\"\n  \
         rm -rf \"$FLAGS_snapshot_dir\"/server.* \"$FLAGS_snapshot_dir\"/trainer.* \"$finished\"\n\
         fi\n\n\
         # When a task dies, Slurm ends the step. The next one resumes from the last snapshot.\n\
         for start in $(seq 0 {restarts}); do\n\
         srun --label --kill-on-bad-exit=1 {program} run {command} && touch \"$finished\" && exit 0\n\
         code=$?\n\
         if [ $code = {ENDED_EARLY} ]; then\n  \
         echo \"{name} was asked to end and has not finished; submitted again, it continues\"\n  \
         exit {UNFINISHED}\n\
         fi\n\
         echo \"start $start of {name} failed with exit code $code\"\n\
         done\n\
         exit 1\n",
        megabytes(&options.memory, *cpus),
    ))
}

/// The form of lines, and access to the job. Without a file that has the secret, the script makes one.
fn variables(options: &RenderOptions) -> Result<String> {
    let (name, safety) = (&options.name, &options.safety);
    let mut all = options.words();
    all.extend(safety.variables()?);
    let line = |(name, value): &(&str, String)| format!("export {name}={}\n", quoted(value));
    let mut lines: String = all.iter().map(line).collect();
    if safety.secret_file.is_none() && !safety.insecure {
        lines += &format!(
            "# Only processes that can read this file take part in the job.\n\
             export PADDLEWHEEL_SECRET_FILE=\"$SLURM_SUBMIT_DIR/{name}-secret\"\n\
             [ -s \"$PADDLEWHEEL_SECRET_FILE\" ] || \
             (umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' > \"$PADDLEWHEEL_SECRET_FILE\")\n"
        );
    }
    Ok(lines)
}

/// For Slurm, memory of a processor in units that it knows.
fn megabytes(memory: &str, cpus: usize) -> String {
    let digits = memory.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let bytes: u64 = digits.parse().unwrap_or(0);
    let unit: u64 = match &memory[digits.len()..] {
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => 1,
    };
    let each = bytes.saturating_mul(unit) / cpus.max(1) as u64;
    format!("{}M", (each >> 20).max(1))
}

/// A word that a shell takes as it is.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
