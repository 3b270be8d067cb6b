//! Reads a saved run with other software: the raw samples with DuckDB, the histogram log with Python's HdrHistogram.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// The reader, which shares no code with Hairpin.
const SCRIPT: &str = include_str!("readers.py");

/// Python packages of the reader, with fixed versions for comparable results, and the protocols of other authors that
/// `crates/hairpin/tests/lab/interop.py` has clients and servers of.
const PACKAGES: &[&str] = &[
    "duckdb==2.0.0",
    "hdrhistogram==0.10.8",
    "pillow==13.0.0",
    "pandas==3.1.1",
    "jsonschema==4.26.0",
    "httpx==0.28.1",
    "h2==4.4.1",
    "websockets==17.4",
    "aioquic==1.7.2",
    "grpcio==1.85.3",
];

/// Returns the Python of a virtual environment with the reader's packages, which is created below `target` if missing.
pub(crate) fn environment(target: &Path) -> Result<PathBuf> {
    let folder = target.join("readers");
    let python = folder.join("bin/python");
    if has_readers(&python) {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    process::run(&mut make, Duration::from_mins(2))?.succeeded().context("python3 -m venv failed")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    process::run(&mut install, Duration::from_mins(5))?.succeeded().context("pip install failed")?;
    if has_readers(&python) { Ok(python) } else { bail!("the readers were installed but cannot be imported") }
}

fn has_readers(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import duckdb, hdrh.log, jsonschema, pandas, PIL, httpx, h2, websockets, aioquic, grpc"]);
    process::run(&mut command, Duration::from_mins(1)).is_ok_and(|ran| ran.code == Some(0))
}

pub(crate) fn read_back(python: &Path, run_folder: &Path) -> Result<String> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(run_folder);
    let ran = process::run(&mut command, Duration::from_mins(3))?;
    match ran.code {
        Some(0) => Ok(ran.stdout.trim().to_owned()),
        _ => bail!("{}\n{}", ran.stdout.trim(), ran.stderr.trim()),
    }
}
