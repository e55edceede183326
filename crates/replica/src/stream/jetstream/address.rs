//! URLs of streams of a NATS server.

use crate::stream::StreamError;

/// The form of a URL.
pub(crate) const FORM: &str = "nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/STREAM\
                               [?replicas=N][&monitor=HOST:PORT[,...]]";

/// Copies of a stream that is created.
const REPLICAS: usize = 3;

/// A stream of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// User and password. They are taken literally, so that a password may have any characters.
    pub(super) user: Option<(String, String)>,
    /// Servers, each `nats://HOST[:PORT]`.
    pub(super) servers: Vec<String>,
    pub(super) stream: String,
    /// Copies, if the stream is created.
    pub(super) replicas: usize,
    /// Monitoring ports of the servers, each `HOST:PORT`.
    pub(super) monitors: Vec<String>,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Address, StreamError> {
        Address::parts(url).map_err(|why| {
            // A URL can contain a password, so that the error does not repeat it.
            StreamError::Refused(format!("the URL of the stream {why}: the form is {FORM}"))
        })
    }

    fn parts(url: &str) -> Result<Address, &'static str> {
        let rest = url.strip_prefix("nats://").ok_or("does not begin with nats://")?;
        let (authority, stream) = rest.rsplit_once('/').ok_or("names no stream")?;
        let (stream, query) = stream.split_once('?').unwrap_or((stream, ""));
        let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if stream.is_empty() || !stream.chars().all(is_token) {
            return Err("needs a stream of letters, digits, - and _");
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, hosts)) => {
                let (user, password) = user.split_once(':').ok_or("has a user, but no password")?;
                (Some((user.to_owned(), password.to_owned())), hosts)
            }
        };
        if hosts.split(',').any(str::is_empty) {
            return Err("has a server without a name");
        }
        let (mut replicas, mut monitors) = (REPLICAS, Vec::new());
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("replicas", number)) => {
                    let number = number.parse().ok().filter(|number| (1..=5).contains(number));
                    replicas = number.ok_or("needs 1 to 5 replicas")?;
                }
                Some(("monitor", ports)) => {
                    monitors = ports.split(',').map(str::to_owned).collect();
                }
                _ => return Err("has an unknown option"),
            }
        }
        let servers = hosts.split(',').map(|host| format!("nats://{host}")).collect();
        Ok(Address { user, servers, stream: stream.to_owned(), replicas, monitors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_all_parts() {
        let url = "nats://u:p@ss:/w@a:1,b/S-1?replicas=1&monitor=a:8,b:9";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.user, Some(("u".to_owned(), "p@ss:/w".to_owned())));
        assert_eq!(address.servers, ["nats://a:1", "nats://b"]);
        assert_eq!(address.stream, "S-1");
        assert_eq!(address.replicas, 1);
        assert_eq!(address.monitors, ["a:8", "b:9"]);
        assert_eq!(Address::parse("nats://a/S").unwrap().replicas, 3);
    }

    #[test]
    fn wrong_url_error_hides_the_password() {
        let wrong = [
            "http://u:secret@a/S",
            "nats://u:secret@a",
            "nats://u:secret@a/",
            "nats://u:secret@a/S.T",
            "nats://secret@a/S",
            "nats://u:secret@a,,b/S",
            "nats://u:secret@a/S?replicas=0",
            "nats://u:secret@a/S?secret",
        ];
        for url in wrong {
            let error = Address::parse(url).err().expect(url).to_string();
            assert!(error.contains(FORM) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
