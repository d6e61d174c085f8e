//! The command line of a driver in Rust: pairs of option and value. An option whose value is "default" counts as not
//! given, so that it does not override an earlier one, and the library's own value remains.

use std::collections::HashMap;
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

pub type Failure = Box<dyn Error>;

/// The options that were given, by name.
pub struct Options {
    given: HashMap<String, String>,
    usage: &'static str,
}

impl Options {
    /// The options after the first argument. `usage` names every option that is known, with its dashes.
    pub fn parse(arguments: &[String], usage: &'static str) -> Result<Self, Failure> {
        let mut given = HashMap::new();
        for pair in arguments.get(1..).unwrap_or_default().chunks(2) {
            let known = pair[0].starts_with("--") && usage.split_whitespace().any(|word| word == pair[0]);
            match pair.get(1) {
                _ if !known => return Err(format!("{}: is not a known option\n{usage}", pair[0]).into()),
                None => return Err(format!("{}: its value is missing", pair[0]).into()),
                Some(value) if value == "default" => None,
                Some(value) => given.insert(pair[0].clone(), value.clone()),
            };
        }
        Ok(Self { given, usage })
    }

    pub fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.given.get(name) else { return Ok(None) };
        let problem = || format!("{name}: got {text}, expected another kind of value").into();
        text.parse().map(Some).map_err(|_| problem())
    }

    pub fn required<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        self.value(name)?.ok_or_else(|| format!("{name}: is missing\n{}", self.usage).into())
    }

    pub fn duration_ms(&self, name: &str) -> Result<Option<Duration>, Failure> {
        Ok(self.value(name)?.map(|ms: f64| Duration::from_secs_f64(ms / 1000.0)))
    }

    pub fn is_on(&self, name: &str) -> Result<Option<bool>, Failure> {
        match self.value::<String>(name)?.as_deref() {
            None => Ok(None),
            Some("on") => Ok(Some(true)),
            Some("off") => Ok(Some(false)),
            Some(other) => Err(format!("{name}: got {other}, expected on or off").into()),
        }
    }
}

/// Run a driver with its arguments, or print the library and its version; print what went wrong, and exit with status 1.
pub fn run(library: &str, version: &str, work: impl FnOnce(&[String]) -> Result<(), Failure>) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--version"] {
        return println!("{library} {version}");
    }
    if let Err(problem) = work(&arguments) {
        eprintln!("owlt-{library}: {problem}");
        std::process::exit(1);
    }
}
