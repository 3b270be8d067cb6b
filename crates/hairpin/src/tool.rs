//! Name and version of this program, for saved runs.

use hairpin_model::Tool;

/// Name, version, commit and build of this program.
pub fn this() -> Tool {
    Tool {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("HAIRPIN_COMMIT").map(str::to_owned),
        build: option_env!("HAIRPIN_BUILD").unwrap_or("unknown").to_owned(),
    }
}

/// Version and commit in one line, for `--version`.
pub fn version() -> &'static str {
    const WITH_COMMIT: &str = match option_env!("HAIRPIN_COMMIT") {
        Some(commit) => commit,
        None => "no commit",
    };
    static VERSION: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("{} ({WITH_COMMIT})", env!("CARGO_PKG_VERSION")));
    &VERSION
}
