"""The integrity views of the software catalogue: each tells the violation that a small transaction makes, and only as long as it is there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.playing import told

import viewkeeper as vk
from viewkeeper.engines.keep import strategy
from viewkeeper.warehouse import Warehouse
from viewkeeper.writer import plan_of

SOFTWARE = Path(__file__).parent.parent / "examples" / "software"
BASE = ("module", "procedure", "defined_in", "import", "depend_on")
TEXT = (SOFTWARE / "integrity.dl").read_text()
HELPERS, VIEWS = (re.findall(r"^\.decl (\w+)", part, re.MULTILINE) for part in TEXT.split("\n// Integrity views\n"))

Row = tuple[str | int | float, ...]
Rows = dict[str, list[Row]]

# View: the rows that come (+) and go (-), and the violation they make. "code" is a procedure with its definition and lines.
CASES: dict[str, tuple[list[str], Row]] = {
    # References
    "procedure_in_two_modules": (["+ defined_in json.dump pickle"], ("json.dump", "json", "pickle")),
    "procedure_without_module": (["- defined_in json.dump json"], ("json.dump",)),
    "definition_of_unknown_procedure": (["+ defined_in json.gone json"], ("json.gone", "json")),
    "definition_in_unknown_module": (["- module json.tool"], ("json.tool.main", "json.tool")),
    "import_of_unknown_procedure": (["+ import json.tool json.gone"], ("json.tool", "json.gone")),
    "import_by_unknown_module": (["+ import idlelib re.compile"], ("idlelib",)),
    "import_from_unknown_module": (["- module netrc"], ("ftplib", "netrc.netrc", "netrc")),
    "import_of_own_procedure": (["+ import json json.dump"], ("json", "json.dump")),
    "system_of_unknown_procedure": (["+ depend_on json.gone windows"], ("json.gone", "windows")),
    "unknown_system": (["+ depend_on json.dump beos"], ("json.dump", "beos")),
    "procedure_with_two_short_names": (["+ procedure json.dump write 61"], ("json.dump", "dump", "write")),
    "procedure_with_two_sizes": (["+ procedure json.dump dump 62"], ("json.dump", 61, 62)),
    "size_not_positive": (["+ procedure json.nothing nothing 0"], ("json.nothing", 0)),
    "module_without_parent": (["+ module idlelib.run"], ("idlelib.run", "idlelib")),
    # Names
    "procedure_not_named_after_module": (["+ defined_in dump_json json"], ("dump_json", "json")),
    "short_name_not_at_the_end": (["+ procedure json.read load 5"], ("json.read", "load")),
    "short_name_no_identifier": (["+ procedure json.to-text to-text 5"], ("json.to-text", "to-text")),
    "module_name_not_importable": (["+ module json.2"], ("json.2",)),
    "module_name_with_capitals": (["+ module json.Tools"], ("json.Tools",)),
    "reserved_name": (["+ procedure json.__json__ __json__ 5"], ("json.__json__", "__json__")),
    "import_hides_builtin": (["+ import json codecs.open"], ("json", "codecs.open")),
    "test_outside_test_module": (["+ code json.test_dump 5"], ("json.test_dump", "json")),
    "names_differ_only_in_case": (["+ code json.Dump 5"], ("json", "Dump", "dump")),
    "camel_case_function": (["+ procedure json.dumpAll dumpAll 5"], ("json.dumpAll",)),
    "procedure_named_like_submodule": (["+ code json.tool 5"], ("json.tool", "json.tool")),
    "submodule_named_like_top_level": (["+ module json.pickle"], ("json.pickle", "pickle")),
    "exception_without_suffix": (["+ code asyncio.exceptions.Trouble 2"], ("asyncio.exceptions.Trouble",)),
    # Privacy
    "private_procedure_imported_elsewhere": (["+ import json re._compile"], ("json", "re._compile")),
    "private_module_used_from_outside": (["+ import json re._parser.parse"], ("json", "re._parser")),
    "private_module_used_by_cousin": (
        ["+ import importlib.resources.abc importlib.metadata._text.FoldedCase"],
        ("importlib.resources.abc", "importlib.metadata._text"),
    ),
    "private_module_without_user": (["+ module json._speedups"], ("json._speedups",)),
    "public_module_without_public_procedure": (["+ module kit", "+ code kit._run 5"], ("kit",)),
    "private_procedure_widely_used": (
        ["+ import json re._compile", "+ import json.decoder re._compile", "+ import json.scanner re._compile"],
        ("re._compile", 3),
    ),
    "procedure_hidden_in_private_module": (["+ code re._parser.explain 5"], ("re._parser.explain", "re._parser")),
    "import_around_the_front": (
        ["+ import pickle json.decoder.JSONDecoder"],
        ("pickle", "json.decoder.JSONDecoder", "json"),
    ),
    # Sizes
    "function_too_long": (["+ procedure json.everything everything 201"], ("json.everything", 201)),
    "module_too_large": (["+ module kit", "+ code kit.Large 2501"], ("kit", 2501)),
    "module_with_too_many_procedures": (["+ code tkinter.one_more 5"], ("tkinter", 61)),
    "empty_module": (["+ module kit"], ("kit",)),
    "module_of_stubs": (["+ module kit", *(f"+ code kit.stub{i} 2" for i in range(5))], ("kit", 5, 2)),
    "overfull_package": ([f"+ module asyncio.part{i}" for i in range(10)], ("asyncio", 41)),
    "module_nested_too_deep": (["+ module importlib.resources.abc.more"], ("importlib.resources.abc.more", 3)),
    "package_of_long_procedures": (["+ module kit", *(f"+ code kit.run{i} 61" for i in range(10))], ("kit", 61.0)),
    # Dependencies
    "link_in_cycle_across_packages": (
        ["+ module kit", "+ code kit.run 5", "+ import colorsys kit.run", "+ import kit colorsys.rgb_to_hsv"],
        ("colorsys", "kit"),
    ),
    "cycle_inside_package": (["+ import json.decoder json.dump"], ("json", "json.decoder")),
    "packages_that_use_each_other": (["+ import html json.dump", "+ import json.tool html.escape"], ("html", "json")),
    "module_using_too_many": (["+ import asyncio.unix_events colorsys.rgb_to_hsv"], ("asyncio.unix_events", 16)),
    "unstable_foundation": (
        [
            "+ module kit",
            "+ code kit.run 5",
            *(f"+ import encodings.cp{page} kit.run" for page in range(1250, 1259)),
            *(f"+ import encodings.iso8859_{part} kit.run" for part in range(1, 7)),
            *(f"+ import kit encodings.cp{page}.Codec" for page in (*range(855, 858), *range(860, 867))),
        ],
        ("kit", 15, 10),
    ),
    "only_user_elsewhere": (["+ import pickle json.tool.main"], ("json.tool", "pickle")),
    "import_of_everything": (
        [
            "+ module kit",
            *(f"+ code kit.run{i} 5" for i in range(5)),
            "+ code kit._hidden 5",
            *(f"+ import json kit.run{i}" for i in range(5)),
        ],
        ("json", "kit", 5),
    ),
    "heavy_import_for_a_trifle": (["+ import colorsys ast.AugLoad"], ("colorsys", "ast", "ast.AugLoad")),
    "name_imported_twice": (
        ["+ import html json.dump", "+ import html plistlib.dump"],
        ("html", "json.dump", "plistlib.dump"),
    ),
    "import_hides_own_procedure": (["+ import json plistlib.dump"], ("json", "plistlib.dump", "json.dump")),
    "use_of_deprecated_module": (["+ import json cgi.parse"], ("json", "cgi")),
    "deprecated_without_warning": (["- import cgi warnings._deprecated", "- import cgi warnings.warn"], ("cgi",)),
    "used_only_by_deprecated": (["+ import cgi json.tool.main"], ("json.tool",)),
    "module_closer_to_other_package": (
        [
            "+ import json.tool xml.dom.minidom.parse",
            "+ import json.tool xml.etree.ElementTree.parse",
            "+ import json.tool xml.sax.parse",
        ],
        ("json.tool", "xml", 3),
    ),
    # Layers
    "core_based_on_optional": (["+ import stat curses.ascii.isctrl"], ("stat", "curses")),
    "use_of_higher_layer": (["+ import json subprocess.run"], ("json", "subprocess")),
    "submodule_using_its_package": (["+ import json.scanner json.dump"], ("json.scanner", "json")),
    "import_of_test": (["+ import json doctest.testmod"], ("json", "doctest.testmod")),
    "command_based_on_screen": (["+ import json curses.ascii.isctrl"], ("json.tool", "curses.ascii")),
    "packages_not_kept_apart": (
        ["+ import json colorsys.rgb_to_hsv", "+ import colorsys xml.sax.parse"],
        ("json", "xml"),
    ),
    # Operating systems
    "module_of_two_families": (
        ["+ depend_on json.dump windows", "+ depend_on json.load linux"],
        ("json", "posix", "windows"),
    ),
    "based_on_two_families": (
        ["+ import colorsys netrc.netrc", "+ import colorsys _osx_support._find_executable"],
        ("colorsys", "posix", "windows"),
    ),
    "use_of_other_family": (
        ["+ import netrc _osx_support._find_executable"],
        ("netrc", "posix", "_osx_support", "windows"),
    ),
    "core_based_on_bound_module": (["+ import stat netrc.netrc"], ("stat", "netrc", "posix")),
    "name_contradicts_system": (
        ["+ procedure json.dump_to_windows dump_to_windows 5", "+ depend_on json.dump_to_windows linux"],
        ("json.dump_to_windows", "windows", "linux"),
    ),
    "named_for_system_without_need": (["+ module json.win32", "+ code json.win32.run 5"], ("json.win32", "windows")),
    "system_beside_its_family": (
        ["+ depend_on json.dump posix", "+ depend_on json.dump linux"],
        ("json.dump", "linux", "posix"),
    ),
    "family_spelled_out": (
        [f"+ depend_on json.dump {os}" for os in ("linux", "macos", "freebsd", "solaris")],
        ("json.dump", "posix"),
    ),
    "system_procedure_in_portable_module": (["+ import json netrc.netrc"], ("json", "netrc.netrc", "posix")),
    "windows_module_without_counterpart": (["+ module json.win32"], ("json.win32", "json")),
    # Dead code and copies
    "used_only_by_dead_modules": (
        [
            "+ module _one",
            "+ code _one.run 5",
            "+ import _one _other.run",
            "+ module _other",
            "+ code _other.run 5",
            "+ import _other _one.run",
        ],
        ("_other", "_one"),
    ),
    "duplicated_procedure": (["+ procedure plistlib.dump dump 61"], ("json.dump", "plistlib.dump")),
    "copied_module": (
        [
            line
            for module in ("kit", "tool")
            for line in (f"+ module {module}", *(f"+ code {module}.run{i} 5" for i in range(3)))
        ],
        ("kit", "tool", 3),
    ),
    "short_name_everywhere": (
        [f"+ code json.{module}.decode 5" for module in ("decoder", "encoder", "scanner", "tool")],
        ("decode", 21),
    ),
    "class_twice_in_package": (
        ["+ code json.tool.JSONDecoder 5"],
        ("json", "JSONDecoder", "json.decoder", "json.tool"),
    ),
    # Packages as a whole
    "package_without_inner_links": (["+ module kit", *(f"+ module kit.{name}" for name in "abc")], ("kit", 4)),
    "large_package_without_tests": (["+ module kit", "+ code kit.Large 4001"], ("kit", 4001)),
}


def rows(lines: Iterable[str], sign: str) -> Rows:
    """The rows of the lines that begin with the sign, by relation."""
    found: Rows = defaultdict(list)
    for line in lines:
        its, relation, *words = line.split()
        if its != sign:
            continue
        if relation == "code":
            module, _, short = words[0].rpartition(".")
            found["procedure"].append((words[0], short, int(words[1])))
            found["defined_in"].append((words[0], module))
        else:
            found[relation].append((*words[:2], int(words[2])) if relation == "procedure" else tuple(words))
    return found


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with vk.open(tmp_path_factory.mktemp("software") / "catalogue", create=True, engine="embedded", durable=False) as warehouse:
        warehouse.define((SOFTWARE / "software.dl").read_text(), "software.dl")
        warehouse.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in BASE})
        warehouse.define(TEXT, "integrity.dl")
        yield warehouse


def test_there_are_80_views_and_a_case_for_each() -> None:
    assert len(VIEWS) == 80
    assert list(CASES) == VIEWS
    external = (SOFTWARE / "integrity_external.dl").read_text()
    assert re.findall(r"^\.external (\w+)$", external, re.MULTILINE) == VIEWS


@pytest.mark.parametrize("view", VIEWS)
def test_a_comment_says_the_rule(view: str) -> None:
    lines = TEXT.splitlines()
    [place] = [number for number, line in enumerate(lines) if line.startswith(f".decl {view}(")]
    assert re.fullmatch(r"// [A-Z].*\.", lines[place - 1])
    assert lines[place].count(":") <= 4


def test_nothing_is_computed_anew(catalogue: Warehouse) -> None:
    """What explain tells of each view, without preparing all statements anew for each."""
    steps = {relation.name: strategy(step) for step in plan_of(catalogue.program).steps for relation in step.relations}
    assert set(VIEWS) < steps.keys()
    assert "recomputation" not in steps.values()
    for view in ("live", "module_of_stubs", "package_of_long_procedures"):
        assert [part.strategy for part in catalogue.explain(view).parts if part.relation == view] == [steps[view]]


@pytest.mark.parametrize("view", VIEWS)
def test_a_violation_comes_and_goes(view: str, catalogue: Warehouse) -> None:
    lines, violation = CASES[view]
    came, went = rows(lines, "+"), rows(lines, "-")
    done = catalogue.commit(came, went, strict=True)
    undone = catalogue.commit(went, came, strict=True)
    changes = told(done.changes)
    assert violation in changes[view][0]
    assert told(undone.changes) == {name: (gone, new) for name, (new, gone) in changes.items()}


def test_all_violations_at_once(catalogue: Warehouse) -> None:
    lines = sorted({line for lines, _ in CASES.values() for line in lines})
    came, went = rows(lines, "+"), rows(lines, "-")
    done = catalogue.commit(came, went)
    assert [found.view for found in catalogue.verify() if not found.right] == []
    undone = catalogue.commit(went, came)
    assert told(undone.changes) == {name: (gone, new) for name, (new, gone) in told(done.changes).items()}
