//! The services that tests run against: given, started, or missing.
//!
//! Each service is one function in [`start`]. A service that is required and missing ends the
//! chore; one that is not is reported, and the tests which need it must say that they did not run.

use anyhow::bail;
use postrider_embedded::{PrivateServer, ServerOptions, StartError};

/// Where tests find PostgreSQL.
const DATABASE_VARIABLE: &str = "POSTRIDER_TEST_DATABASE_URL";

/// One service.
#[derive(Debug)]
struct Service {
    name: &'static str,
    required: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Somebody runs it for us.
    Given { place: String },
    /// We run it, and stop it at the end.
    Started { version: String, variable: (&'static str, String), process: Process },
    /// It is not there. `how` says how to get it.
    Missing { how: String },
}

/// A process that we have to stop.
#[derive(Debug)]
enum Process {
    // Boxed, because it is much larger than any other will be.
    PostgreSql(Box<PrivateServer>),
}

/// All services of one run. They stop when this is dropped, too.
#[derive(Debug)]
pub(crate) struct Services(Vec<Service>);

/// Starts what is not given, and reports each service in a line.
///
/// # Errors
///
/// When a required service is missing; the message says how to get it.
pub(crate) async fn start() -> anyhow::Result<Services> {
    let services = Services(vec![postgresql().await?]);
    for service in &services.0 {
        eprintln!("{}", service.report());
        if let (true, State::Missing { how }) = (service.required, &service.state) {
            bail!("tests need {}, which is missing: {how}", service.name);
        }
    }
    Ok(services)
}

async fn postgresql() -> anyhow::Result<Service> {
    let service = |state| Service { name: "PostgreSQL", required: true, state };
    if std::env::var_os(DATABASE_VARIABLE).is_some_and(|url| !url.is_empty()) {
        return Ok(service(State::Given { place: format!("the server in {DATABASE_VARIABLE}") }));
    }
    match PrivateServer::start(ServerOptions::fast_and_unsafe()).await {
        Ok(server) => Ok(service(State::Started {
            version: server.version().to_string(),
            variable: (DATABASE_VARIABLE, server.url()),
            process: Process::PostgreSql(Box::new(server)),
        })),
        Err(StartError::Find(error)) => Ok(service(State::Missing { how: error.to_string() })),
        Err(error) => Err(error.into()),
    }
}

impl Services {
    /// The environment variables by which tests find the services that we have started.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().filter_map(|service| match &service.state {
            State::Started { variable: (name, value), .. } => Some((*name, value.as_str())),
            State::Given { .. } | State::Missing { .. } => None,
        })
    }

    /// Stops what we have started.
    ///
    /// # Errors
    ///
    /// When a service does not stop or leaves something behind.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for service in self.0 {
            match service.state {
                State::Started { process: Process::PostgreSql(server), .. } => {
                    server.stop().await?;
                }
                State::Given { .. } | State::Missing { .. } => {}
            }
        }
        Ok(())
    }
}

impl Service {
    fn report(&self) -> String {
        let name = self.name;
        match &self.state {
            State::Given { place } => format!("{name}: found, {place}"),
            State::Started { version, .. } => format!("{name}: started, version {version}"),
            // How to get it is in the error which follows.
            State::Missing { .. } if self.required => format!("{name}: missing"),
            State::Missing { how } => {
                format!("{name}: missing, so tests which need it do not run\n{how}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_service_says_what_follows_and_how_to_get_it() {
        let state = State::Missing { how: "install it".to_owned() };
        let service = Service { name: "Broker", required: false, state };
        let expected = "Broker: missing, so tests which need it do not run\ninstall it";
        assert_eq!(service.report(), expected);
    }

    #[test]
    fn only_what_we_started_needs_a_variable() {
        let state = State::Given { place: "elsewhere".to_owned() };
        let services = Services(vec![Service { name: "Broker", required: true, state }]);
        assert_eq!(services.environment().count(), 0);
    }
}
