//! Which objects are atomic, as debug information and the source tell.
//!
//! On x86-64 an acquire load or a release store is a plain `mov`, so the code alone does not say. But the type of a variable does (`DW_TAG_atomic_type` for C,
//! `std::atomic` for C++, `AtomicU32` and its like for Rust), and so does the function that was inlined where the access is made. For an object on
//! the heap in C there is neither: there the source line says it, by a call of `atomic_load` or of a built-in, or by the name of a member whose type is atomic.

use super::Frame;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Operation, Unit, UnitOffset,
};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Die<'a> = DebuggingInformationEntry<Reader<'a>>;

/// Debug information beyond this size is not read: to look for atomics in it would take longer than the search.
const LARGEST: usize = 256 << 20;
/// Types within types, and elements of arrays, that are looked at.
const DEEPEST: u32 = 16;
const MOST_ELEMENTS: u64 = 1 << 12;

/// Functions that are atomic operations, by the beginning of their names.
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:^|\s)(?:std::(?:__\w+::)?_{0,2}(?:cxx_)?atomic|core::sync::atomic::|core::intrinsics::atomic_)",
    )
});
/// Types that are atomic, by their names.
static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:(?:__)?atomic(?:_base|_flag|_float|_ref)?(?:<|$)|__atomic_\w+<|atomic_flag$|Atomic(?:$|<|Bool|Ptr<|[IU](?:8|16|32|64|128|size)$))",
    )
});
/// Atomic operations in a line of C, with their first argument.
static OPERATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:__atomic_\w+|__sync_\w+|atomic_\w+|\w*(?:load_acquire|store_release)\w*|(?:READ|WRITE)_ONCE)\s*\(\s*([^,;]*)",
    )
});
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z_]\w*"));

#[allow(
    clippy::expect_used,
    reason = "the patterns are constants, and a test uses each of them"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// What is known of the modules so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Atomics {
    modules: Arc<Mutex<HashMap<PathBuf, Arc<AtomicObjects>>>>,
}

/// What the debug information of a module says.
#[derive(Debug, Default)]
pub struct AtomicObjects {
    /// There is debug information at all.
    pub is_informed: bool,
    /// Link-time addresses of variables, or of parts of them, that are atomic.
    ranges: Vec<Range<u64>>,
    /// Names of members and variables that are atomic, or point to what is, with the size of that.
    names: HashSet<(String, u64)>,
}

impl Atomics {
    /// What the debug information of this file says, read now or before.
    pub fn of(&self, path: &Path) -> Arc<AtomicObjects> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            modules
                .entry(path.to_owned())
                .or_insert_with(|| Arc::new(AtomicObjects::read(path).unwrap_or_default())),
        )
    }
}

impl AtomicObjects {
    fn read(path: &Path) -> Option<AtomicObjects> {
        let file = std::fs::File::open(path).ok()?;
        if file.metadata().ok()?.len() as usize > 2 * LARGEST {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let elf = hooks::parse_elf(&bytes).ok()?;
        let section = |id: gimli::SectionId| -> Result<Reader<'_>, gimli::Error> {
            let header = elf
                .section_headers
                .iter()
                .find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(id.name()));
            let data = header.and_then(|header| bytes.get(header.file_range()?));
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let dwarf = Dwarf::load(section).ok()?;
        let mut found = AtomicObjects::default();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            found.is_informed = true;
            let mut reader = UnitReader {
                dwarf: &dwarf,
                unit: &unit,
                layouts: HashMap::new(),
            };
            // What could be read before damage counts.
            let _ = reader.read(&mut found);
        }
        found.ranges.sort_by_key(|range| range.start);
        Some(found)
    }

    /// Is any part of this variable atomic?
    pub fn has_object(&self, span: &Range<u64>) -> bool {
        self.ranges
            .iter()
            .any(|range| range.start < span.end && span.start < range.end)
    }

    /// Does a line of the source say that an access of so many bytes is an atomic operation? `object` is the name of the variable, if it has one.
    pub fn is_said_by(&self, line: &str, object: Option<&str>, bytes: u64) -> bool {
        let variable = object.map(|name| name.split(['+', '.']).next().unwrap_or(name));
        let names_it = |text: &str| {
            variable.is_none_or(|variable| WORD.find_iter(text).any(|word| word.as_str() == variable))
        };
        if OPERATION.captures_iter(line).any(|call| names_it(&call[1])) {
            return true;
        }
        let is_atomic = |word: &str| self.names.contains(&(word.to_owned(), bytes));
        variable.is_none() && WORD.find_iter(line).any(|word| is_atomic(word.as_str()))
    }
}

/// Is the access made by a function that is an atomic operation, inlined or not?
pub fn is_atomic_function(frames: &[Frame]) -> bool {
    frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .any(|name| FUNCTION.is_match(without_arguments(name)))
}

/// Is the access made by a lock, a channel or the like of Rust's standard library? What these load and store by themselves is nobody's business: their atomic
/// instructions decide. Code of the program that was inlined into the library is its own.
pub fn is_library_lock(frames: &[Frame]) -> bool {
    let names = frames.iter().filter_map(|frame| frame.function.as_deref());
    let mut names = names
        .map(|name| name.trim_start_matches('<'))
        .skip_while(|name| name.starts_with("core::") || name.starts_with("alloc::"));
    names.next().is_some_and(|name| {
        ["std::sys::sync::", "std::sys::pal::", "std::sync::"]
            .iter()
            .any(|path| name.starts_with(path))
    })
}

/// Is the access made by the runtime of Go, or by its package `sync`? What they load and store is what goroutines are scheduled and synchronised by: atomic
/// operations, which the compiler makes plain instructions without a name.
pub fn is_go_runtime(frames: &[Frame]) -> bool {
    const PACKAGES: [&str; 5] = [
        "runtime.",
        "runtime/internal/",
        "internal/runtime/",
        "sync.",
        "sync/atomic.",
    ];
    // What C compilers append to names when they copy a function or split it.
    const CLONES: [&str; 5] = ["part.", "constprop.", "isra.", "cold", "lto_priv."];
    let innermost = frames.iter().find_map(|frame| frame.function.as_deref());
    innermost.is_some_and(|name| {
        let mut rest = PACKAGES.iter().filter_map(|package| name.strip_prefix(package));
        rest.any(|rest| !CLONES.iter().any(|clone| rest.starts_with(clone)))
    })
}

/// Is all of this Rust's standard library? Its runtime keeps maps under locks of its own, whose atomic instructions are not watched.
pub fn is_rust_library(frames: &[Frame]) -> bool {
    let is_library = |frame: &Frame| {
        let name = frame
            .function
            .as_deref()
            .unwrap_or_default()
            .trim_start_matches('<');
        ["core::", "alloc::", "std::sys::", "std::sync::", "std::thread::"]
            .iter()
            .any(|path| name.starts_with(path))
    };
    frames.iter().all(is_library)
}

/// The name up to the arguments of the function or of the template: these may well be atomic objects.
fn without_arguments(name: &str) -> &str {
    let name = name.trim_start_matches('<');
    name.split(['<', '(', '>']).next().unwrap_or(name)
}

/// The bytes of a type, and which of them are atomic.
#[derive(Clone, Debug, Default)]
struct Layout {
    size: u64,
    atomic: Vec<Range<u64>>,
}

struct UnitReader<'u, 'a> {
    dwarf: &'u Dwarf<Reader<'a>>,
    unit: &'u Unit<Reader<'a>>,
    layouts: HashMap<UnitOffset, Layout>,
}

impl<'a> UnitReader<'_, 'a> {
    fn read(&mut self, found: &mut AtomicObjects) -> gimli::Result<()> {
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            match entry.tag() {
                gimli::DW_TAG_variable => {
                    if let Some(kind) = self.kind(entry) {
                        self.variable(entry, kind, found);
                        self.name(entry, kind, found);
                    }
                }
                gimli::DW_TAG_member | gimli::DW_TAG_formal_parameter => {
                    if let Some(kind) = self.kind(entry) {
                        self.name(entry, kind, found);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The type of a variable, which may be told where it was declared.
    fn kind(&self, entry: &Die<'a>) -> Option<UnitOffset> {
        if let Some(kind) = reference(entry, gimli::DW_AT_type) {
            return Some(kind);
        }
        let declared = reference(entry, gimli::DW_AT_specification)
            .or_else(|| reference(entry, gimli::DW_AT_abstract_origin))?;
        reference(&self.unit.entry(declared).ok()?, gimli::DW_AT_type)
    }

    fn variable(&mut self, entry: &Die<'a>, kind: UnitOffset, found: &mut AtomicObjects) {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
            return;
        };
        let mut operations = expression.operations(self.unit.encoding());
        let address = match operations.next() {
            Ok(Some(Operation::Address { address })) => address,
            Ok(Some(Operation::AddressIndex { index })) => match self.dwarf.address(self.unit, index) {
                Ok(address) => address,
                Err(_) => return,
            },
            _ => return,
        };
        let layout = self.layout(kind, 0);
        let at = |range: &Range<u64>| address + range.start..address + range.end;
        found.ranges.extend(layout.atomic.iter().map(at));
    }

    /// Remembers the name of what is atomic, or points to it.
    fn name(&mut self, entry: &Die<'a>, kind: UnitOffset, found: &mut AtomicObjects) {
        let pointee = self.pointee(kind, 0);
        let layout = self.layout(pointee.unwrap_or(kind), 0);
        let [whole] = layout.atomic.as_slice() else { return };
        if *whole == (0..layout.size)
            && let Some(name) = self.string(entry)
        {
            found.names.insert((name, layout.size));
        }
    }

    /// What a pointer, or an array, leads to.
    fn pointee(&self, kind: UnitOffset, depth: u32) -> Option<UnitOffset> {
        let entry = self.unit.entry(kind).ok()?;
        let inner = reference(&entry, gimli::DW_AT_type)?;
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_array_type => {
                Some(inner)
            }
            gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type
                if depth < DEEPEST =>
            {
                self.pointee(inner, depth + 1)
            }
            _ => None,
        }
    }

    fn layout(&mut self, kind: UnitOffset, depth: u32) -> Layout {
        if let Some(layout) = self.layouts.get(&kind) {
            return layout.clone();
        }
        let layout = match depth < DEEPEST {
            true => self.new_layout(kind, depth).unwrap_or_default(),
            false => Layout::default(),
        };
        self.layouts.insert(kind, layout.clone());
        layout
    }

    fn new_layout(&mut self, kind: UnitOffset, depth: u32) -> Option<Layout> {
        let unit = self.unit;
        let entry = unit.entry(kind).ok()?;
        let size = entry
            .attr_value(gimli::DW_AT_byte_size)
            .and_then(|value| value.udata_value());
        let inner = reference(&entry, gimli::DW_AT_type);
        let mut layout = match entry.tag() {
            gimli::DW_TAG_atomic_type => {
                let size = self.layout(inner?, depth + 1).size;
                Layout {
                    size,
                    atomic: std::iter::once(0..size).collect(),
                }
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type => self.layout(inner?, depth + 1),
            gimli::DW_TAG_array_type => self.array(kind, inner?, depth)?,
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let size = size.unwrap_or(0);
                match self.string(&entry) {
                    Some(name) if TYPE.is_match(&name) => Layout {
                        size,
                        atomic: std::iter::once(0..size).collect(),
                    },
                    _ => Layout {
                        size,
                        atomic: self.members(kind, depth)?,
                    },
                }
            }
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type => Layout {
                size: size.unwrap_or(8),
                atomic: Vec::new(),
            },
            _ => Layout::default(),
        };
        if let Some(size) = size {
            layout.size = size;
        }
        Some(layout)
    }

    fn members(&mut self, kind: UnitOffset, depth: u32) -> Option<Vec<Range<u64>>> {
        let unit = self.unit;
        let mut tree = unit.entries_tree(Some(kind)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut parts: Vec<(u64, UnitOffset)> = Vec::new();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            if matches!(entry.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance)
                && let Some(inner) = reference(entry, gimli::DW_AT_type)
            {
                let location = entry.attr_value(gimli::DW_AT_data_member_location);
                parts.push((location.and_then(|value| value.udata_value()).unwrap_or(0), inner));
            }
        }
        let mut atomic = Vec::new();
        for (offset, inner) in parts {
            let layout = self.layout(inner, depth + 1);
            atomic.extend(
                layout
                    .atomic
                    .iter()
                    .map(|range| offset + range.start..offset + range.end),
            );
        }
        Some(atomic)
    }

    fn array(&mut self, kind: UnitOffset, element: UnitOffset, depth: u32) -> Option<Layout> {
        let unit = self.unit;
        let mut tree = unit.entries_tree(Some(kind)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut count = 1_u64;
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            let of_dimension = number(gimli::DW_AT_count)
                .or_else(|| Some(number(gimli::DW_AT_upper_bound)?.saturating_add(1)));
            count = count.saturating_mul(of_dimension.unwrap_or(1));
        }
        let layout = self.layout(element, depth + 1);
        let mut atomic = Vec::new();
        if !layout.atomic.is_empty() {
            for index in 0..count.min(MOST_ELEMENTS) {
                let start = index * layout.size;
                atomic.extend(
                    layout
                        .atomic
                        .iter()
                        .map(|range| start + range.start..start + range.end),
                );
            }
        }
        Some(Layout {
            size: layout.size.saturating_mul(count),
            atomic,
        })
    }

    fn string(&self, entry: &Die<'a>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name)?;
        let text = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }
}

fn reference(entry: &Die<'_>, name: gimli::DwAt) -> Option<UnitOffset> {
    match entry.attr_value(name) {
        Some(AttributeValue::UnitRef(offset)) => Some(offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        names.iter().map(|name| frame(name)).collect()
    }

    fn frame(function: &str) -> Frame {
        Frame {
            address: 0,
            function: Some(function.to_owned()),
            offset: 0,
            source: None,
            module: None,
            is_own: true,
            is_inlined: false,
        }
    }

    #[test]
    fn functions_of_the_standard_libraries_are_atomic_operations() {
        for name in [
            "std::atomic<int>::load(std::memory_order) const",
            "std::__atomic_base<unsigned long>::store(unsigned long, std::memory_order)",
            "bool std::__atomic_impl::compare_exchange_weak<int>(int*, int&)",
            "std::atomic_flag::test(std::memory_order) const",
            "core::sync::atomic::AtomicU32::load",
            "core::sync::atomic::atomic_load",
            "<core::sync::atomic::AtomicBool>::store",
            "std::__1::__cxx_atomic_load<int>",
        ] {
            assert!(is_atomic_function(&[frame(name)]), "{name}");
        }
    }

    #[test]
    fn functions_that_are_given_an_atomic_object_are_none() {
        for name in [
            "worker(std::atomic<int>&)",
            "void run<std::atomic<int>, int>(std::atomic<int>&)",
            "main",
            "atomicity",
            "my::atomic_thing",
        ] {
            assert!(!is_atomic_function(&[frame(name)]), "{name}");
        }
    }

    #[test]
    fn locks_of_the_rust_library_are_told_from_code_that_uses_them() {
        let load = "core::sync::atomic::AtomicU32::load";
        assert!(is_library_lock(&frames(&[
            load,
            "std::sys::sync::mutex::futex::Mutex::lock",
            "guest::main"
        ])));
        assert!(!is_library_lock(&frames(&[
            load,
            "guest::main::{{closure}}",
            "std::sync::once::Once::call_once"
        ])));
    }

    #[test]
    fn the_runtime_of_go_is_known_by_its_packages() {
        for name in [
            "runtime.runqgrab",
            "runtime/internal/atomic.Load",
            "sync.(*Mutex).Lock",
        ] {
            assert!(is_go_runtime(&frames(&[name, "main.main"])), "{name}");
        }
        for name in [
            "main.main.func1",
            "sync.part.0",
            "runtime.constprop.1",
            "runtime_open",
        ] {
            assert!(!is_go_runtime(&frames(&[name, "runtime.main"])), "{name}");
        }
    }

    #[test]
    fn types_are_atomic_by_their_names() {
        for name in [
            "atomic<int>",
            "__atomic_base<bool>",
            "AtomicBool",
            "AtomicPtr<u8>",
            "AtomicUsize",
            "atomic_flag",
        ] {
            assert!(TYPE.is_match(name), "{name}");
        }
        for name in ["atomicity", "AtomicCounter", "my_atomic<int>"] {
            assert!(!TYPE.is_match(name), "{name}");
        }
    }

    #[test]
    fn a_line_says_which_object_is_meant() {
        let objects = AtomicObjects {
            names: HashSet::from([("next".to_owned(), 8)]),
            ..AtomicObjects::default()
        };
        let line = "__atomic_store_n(&flag, 1, __ATOMIC_RELEASE); data = 42;";
        assert!(objects.is_said_by(line, Some("flag"), 4));
        assert!(!objects.is_said_by(line, Some("data"), 4));
        assert!(objects.is_said_by(
            "n = atomic_load_explicit(&q->head, memory_order_acquire);",
            None,
            8
        ));
        assert!(objects.is_said_by("node = node->next;", None, 8));
        assert!(!objects.is_said_by("node = node->next;", None, 4));
        assert!(!objects.is_said_by("node->value = 3;", None, 4));
    }
}
