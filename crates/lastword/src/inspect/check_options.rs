//! The expectations of a check.

use crate::{Medium, Options};

/// The expectations of a check about a pool. By default there are none: any layout is accepted, on
/// the pool's own medium, with its log.
///
/// ```
/// use lastword::{CheckOptions, Options, Pool, Problem};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).layout("bank", 3);
/// Pool::create(&path, options.clone())?.close()?;
/// let shop = lastword::check_with(&path, &CheckOptions::new().layout("shop", 1))?;
/// assert!(!shop.opens() && matches!(shop.findings[0].problem, Problem::Layout { .. }));
/// // The result of opening the pool with these options.
/// assert!(lastword::check_with(&path, &CheckOptions::from(&options))?.opens());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CheckOptions {
    pub(crate) layout: Option<(String, u64)>,
    pub(crate) medium: Option<Medium>,
    pub(crate) without_log: bool,
    /// Accepts a pool of format version 3, to convert it.
    pub(crate) converts: bool,
    /// Accepts a pool whose content is being migrated, to go on with it.
    pub(crate) migrates: bool,
    /// Accepts pages that differ from their checksums: the pool is opened without a comparison.
    pub(crate) ignores_pages: bool,
    /// Reads the heap image even if its log is damaged or missing.
    pub(crate) salvages: bool,
}

impl CheckOptions {
    /// Expects nothing.
    pub fn new() -> CheckOptions {
        CheckOptions::default()
    }

    /// Expects this layout; see [`Options::layout`].
    pub fn layout(mut self, name: &str, version: u64) -> CheckOptions {
        self.layout = Some((name.into(), version));
        self
    }

    /// Expects a pool that opens on this medium; see [`Options::medium`].
    pub fn medium(mut self, medium: Medium) -> CheckOptions {
        self.medium = Some(medium);
        self
    }

    /// Accepts a pool whose log is lost; see [`Options::without_log`].
    pub fn without_log(mut self, without_log: bool) -> CheckOptions {
        self.without_log = without_log;
        self
    }
}

/// Returns the expectations of opening a pool with these options.
impl From<&Options> for CheckOptions {
    fn from(options: &Options) -> CheckOptions {
        CheckOptions {
            layout: Some((options.layout.clone(), options.layout_version)),
            medium: options.medium,
            without_log: options.without_log,
            converts: false,
            migrates: options.migrates,
            ignores_pages: !options.verifies_pages(),
            salvages: false,
        }
    }
}
