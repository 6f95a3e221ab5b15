//! Files to pack, a queue of them, and workers who take the next one each.
//!
//! ```text
//!   paths ──▶ topic `files` ──▶ group `pack`, a work queue: any worker takes the next files, whoever is slow
//!                                   │ a zip archive for each file, and a record of what came of it
//!                                   ▼
//!             topic `packed`, keyed by folder ──▶ group `index`, a work queue by key: a line for each file in its
//!                                   folder's INDEX.csv, one after the other in each folder, several folders side by side
//! ```
//! `cargo run --release --example work_queue` packs this package's own sources and pages; `-- --help` says what else it does.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::{Parser, ValueHint, value_parser};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use ringlog::{Broker, Group, GroupConfig, Order, Outcome, Record, Retry, Topic, TopicConfig};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Packs each file into a zip archive of its own, by a queue of files that several workers share.
///
/// Whoever is done takes the next file, so one that takes long holds nobody up. Each folder of archives gets an INDEX.csv, a line
/// for each file. What cannot be read is tried again, then given up and named at the end.
#[derive(Debug, Parser)]
#[command(name = "work_queue")]
pub(crate) struct Args {
    /// Files and folders to pack [none: this package's own src, docs and examples]
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Where archives go; made if it is not there [default: a new folder for temporary files]
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// How many files are packed at once [default: as many as there are processors]
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..=64))]
    workers: Option<u32>,

    /// How hard to pack, 1 to 9
    #[arg(short, long, default_value_t = 6, value_parser = value_parser!(i64).range(1..=9))]
    level: i64,

    /// Attempts before a file is given up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    attempts: u32,

    /// Shows no progress (nor is any shown without a terminal)
    #[arg(short, long)]
    quiet: bool,
}

/// A file to be packed.
struct Job {
    path: PathBuf,
    /// Where its archive goes, below the folder for all.
    name: PathBuf,
}

/// A file that was packed.
struct Packed {
    folder: String,
    name: String,
    before: u64,
    after: u64,
    worker: u32,
}

/// What was done so far.
#[derive(Default)]
struct Tally {
    files: u64,
    before: u64,
    after: u64,
    folders: BTreeSet<String>,
    /// How many files each worker had.
    workers: BTreeMap<u32, u64>,
}

impl Tally {
    fn add(&mut self, packed: &Packed) {
        self.files += 1;
        self.before += packed.before;
        self.after += packed.after;
        self.folders.insert(packed.folder.clone());
        *self.workers.entry(packed.worker).or_default() += 1;
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(report) => {
            println!("{}", report.text);
            ExitCode::from(if report.given_up > 0 { 2 } else { 0 })
        }
        Err(trouble) => {
            eprintln!("work_queue: {trouble}");
            ExitCode::FAILURE
        }
    }
}

/// How it went, in words, and how many files were given up.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) given_up: usize,
}

/// Packs everything.
pub(crate) fn run(args: &Args) -> Result<Report, Box<dyn std::error::Error>> {
    let jobs = jobs(&args.paths)?;
    let out = args.out.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("packed-{}", std::process::id())));
    fs::create_dir_all(&out)?;
    let workers = args.workers.unwrap_or_else(processors);
    let progress = progress(&jobs, args.quiet);
    let (begun, count, tally) = (Instant::now(), jobs.len(), Arc::new(Mutex::new(Tally::default())));

    let broker = Broker::new();
    // Who publishes waits for those who pack: this many files are on their way at most.
    let files = broker.create_topic("files", TopicConfig::new().capacity(64).block(None))?;
    let config = TopicConfig::new().capacity(64).block(None).key(|packed: &Packed| &packed.folder);
    let packed = broker.create_topic("packed", config)?;
    let index = index(&packed, &out, &tally)?;
    let pack = pack(&files, &packed, &out, args, workers, &progress)?;
    for job in jobs {
        files.publish(job)?;
    }
    broker.drain(Duration::MAX)?;
    progress.finish_and_clear();

    let letters = [pack.letters(), index.letters()].concat();
    let account = broker.close(Some(Broker::CLOSE_LIMIT));
    debug_assert_eq!(account.left(), 0);
    let tally = tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut text = summary(&tally, count, begun.elapsed(), &out);
    for letter in &letters {
        text += &format!("\n  given up after {} attempts: {}", letter.attempts(), letter.message());
    }
    Ok(Report { text, given_up: letters.len() })
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(2, |count| count.get().min(64) as u32)
}

/// The group of the workers: a file that fails, or takes long, holds up nobody.
fn pack(
    files: &Topic<Job>,
    packed: &Topic<Packed>,
    out: &Path,
    args: &Args,
    workers: u32,
    progress: &ProgressBar,
) -> Result<Group<Job>, Box<dyn std::error::Error>> {
    let retry = Retry::exponential(args.attempts).first(Duration::from_millis(10));
    let group = files.group("pack", GroupConfig::earliest().order(Order::Shared).retry(retry))?;
    for worker in 1..=workers {
        let (packed, out, level, progress) = (packed.clone(), out.to_path_buf(), args.level, progress.clone());
        let handler = move |job: &Record<'_, Job>| match pack_file(job, &out, level) {
            Ok((before, after)) => {
                let folder = job.name.parent().unwrap_or(Path::new("")).display().to_string();
                let name = job.name.file_name().unwrap_or_default().to_string_lossy().into_owned();
                match packed.publish(Packed { folder, name, before, after, worker }) {
                    Ok(_) => {
                        progress.inc(before);
                        Outcome::Ack
                    }
                    Err(refused) => Outcome::retry(refused.split().1.to_string()),
                }
            }
            Err(why) => Outcome::retry(format!("{}: {why}", job.path.display())),
        };
        group.member(&format!("packer-{worker}")).subscribe(handler)?;
    }
    Ok(group)
}

/// Packs one file; says how large it was and how large it is now. Done twice, it is the same archive.
fn pack_file(job: &Job, out: &Path, level: i64) -> io::Result<(u64, u64)> {
    let mut source = File::open(&job.path)?;
    let size = source.metadata()?.len();
    let target = archive(&out.join(&job.name));
    fs::create_dir_all(target.parent().unwrap_or(out))?;
    let mut zip = ZipWriter::new(BufWriter::new(File::create(&target)?));
    let options = SimpleFileOptions::default().compression_level(Some(level)).large_file(size > u64::from(u32::MAX));
    zip.start_file(job.name.file_name().unwrap_or_default().to_string_lossy(), options)?;
    io::copy(&mut BufReader::new(&mut source), &mut zip)?;
    zip.finish()?.flush()?;
    Ok((size, fs::metadata(&target)?.len()))
}

/// `notes.md` becomes `notes.md.zip`.
fn archive(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".zip");
    name.into()
}

/// Members that write indices.
const INDEXERS: u32 = 4;

/// The group that keeps the indices: in the order of each key, so lines of one folder never meet in its file, and a folder whose
/// index cannot be written holds up no other.
fn index(
    packed: &Topic<Packed>,
    out: &Path,
    tally: &Arc<Mutex<Tally>>,
) -> Result<Group<Packed>, Box<dyn std::error::Error>> {
    let group = packed.group("index", GroupConfig::earliest().order(Order::Key))?;
    for worker in 1..=INDEXERS {
        let (out, tally) = (out.to_path_buf(), tally.clone());
        let handler = move |packed: &Record<'_, Packed>| -> io::Result<()> {
            let path = out.join(&packed.folder).join("INDEX.csv");
            let line = format!("{},{},{}\n", packed.name, packed.before, packed.after);
            OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())?;
            tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(packed);
            Ok(())
        };
        group.member(&format!("index-{worker}")).subscribe(handler)?;
    }
    Ok(group)
}

/// The files below `paths`, in order of their names.
fn jobs(paths: &[PathBuf]) -> io::Result<Vec<Job>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own: Vec<PathBuf> = ["src", "docs", "examples"].iter().map(|folder| here.join(folder)).collect();
    let (paths, base) = if paths.is_empty() { (&own[..], here) } else { (paths, Path::new("")) };
    let mut jobs = Vec::new();
    for path in paths {
        collect(path, base, &mut jobs)?;
    }
    // A file that was named twice is packed once; two of one name would be written to one archive at once.
    let mut seen = HashMap::new();
    let mut one_each = Vec::new();
    for job in jobs {
        let real = fs::canonicalize(&job.path)?;
        match seen.insert(job.name.clone(), real.clone()) {
            None => one_each.push(job),
            Some(other) if other == real => {}
            Some(other) => {
                let both = format!("{} and {} would both be {}", other.display(), real.display(), job.name.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, both));
            }
        }
    }
    Ok(one_each)
}

fn collect(path: &Path, base: &Path, jobs: &mut Vec<Job>) -> io::Result<()> {
    let about = fs::metadata(path).map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", path.display())))?;
    if about.is_dir() {
        let mut inside = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        inside.sort();
        // What a link leads to is packed where it is, if it is among the files at all.
        return inside.iter().filter(|entry| !entry.is_symlink()).try_for_each(|entry| collect(entry, base, jobs));
    }
    if !about.is_file() {
        return Ok(()); // a pipe or a device may have no end
    }
    let named = path.strip_prefix(base).unwrap_or(path).components();
    let name = named.filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
    jobs.push(Job { path: path.to_path_buf(), name });
    Ok(())
}

/// The display on stderr, if that is a terminal: how much is packed.
fn progress(jobs: &[Job], quiet: bool) -> ProgressBar {
    let bytes = jobs.iter().filter_map(|job| fs::metadata(&job.path).ok()).map(|about| about.len()).sum();
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
    let template = "{bar:30} {percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(bytes), target).with_style(style)
}

fn summary(tally: &Tally, jobs: usize, took: Duration, out: &Path) -> String {
    let percent = (tally.after * 100).checked_div(tally.before).unwrap_or(100);
    let workers: Vec<String> = tally.workers.values().map(u64::to_string).collect();
    format!(
        "packed {} of {jobs} files in {} folders: {} became {} ({percent} %), in {:.1} s\n  by {} workers: {} files\n  archives are in {}",
        tally.files,
        tally.folders.len(),
        HumanBytes(tally.before),
        HumanBytes(tally.after),
        took.as_secs_f64(),
        workers.len(),
        workers.join(" + "),
        out.display()
    )
}
