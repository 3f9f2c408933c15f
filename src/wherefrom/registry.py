"""Methods, metrics, families, tasks and data readers by name: ours, and those that other packages bring through entry
points.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wherefrom.catalogue import CatalogueRow, Kind, catalogue, first_paragraph, metric_name
from wherefrom.errors import BadOption, UnknownName

if TYPE_CHECKING:  # the package brings numpy, which a list of names need not wait for
    from wherefrom.core.family import Family

# What a method reads of a model: nothing but the prediction; answers to texts with hidden words; gradients along a path
# of embeddings; the gradient at the word embeddings; attention probabilities, the mean over heads or every head's; the
# same with values and hidden states, without gradients; the attention scores before the softmax as well; gradients at
# the hidden states, at the last layer's attention, or at every layer's attention times that attention; gradients at
# everything recorded, which takes the most memory; the gradient at the word embeddings with the rules of AttnLRP;
# relevance in the model's own precision, or in double precision.
Reads = Literal[
    "nothing",
    "answers",
    "path",
    "embeddings",
    "mean_attention",
    "head_attention",
    "attention",
    "scores",
    "hidden_gradients",  # and hidden states
    "last_attention_gradient",
    "attention_x_gradients",
    "gradients",
    "modified_gradient",
    "relevance",
    "relevance_double",
]
ScoreScale = Literal["logit", "derivative"]
# Where it depends on the options, a function of them that gives all that is read.
ReadsByOptions = Callable[[Mapping[str, Any]], Iterable[Reads]]
# Of the options: the name and options of the method it equals under them; None where it is a method of its own.
SameAs = Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]] | None]
# Of a case and the options.
Asks = Callable[[Any, Mapping[str, Any]], None]
PluginKind = Literal["method", "metric", "family", "task", "reader"]


@dataclass(frozen=True)
class Method:
    """A method and the facts it declares. Called with a case and the method's options, it returns scores."""

    name: str
    function: Callable[..., Any]
    family: str
    signed: bool  # whether a negative score means "against"
    per_class: bool  # whether the scores depend on the class that is explained
    reads: Reads | ReadsByOptions
    paper: str
    scores_units: bool = False  # whether it scores words and sentences itself, instead of pooling its tokens' scores
    summary: str = ""
    same_as: SameAs | None = None  # returns the method it equals under these options
    asks: Asks | None = None  # announces its queries about a case, so that those about a list of texts are batched
    one_pass: bool = False  # whether a token of a continuation has the same scores without the tokens after it
    slow: bool = False  # about as slow as all other methods together: left out of the set "fast"
    scale: ScoreScale | None = None  # what the scores are changes of
    sets: Mapping[str, int] = field(default_factory=dict)  # its place in named sets of methods: see `methods_in`

    def __call__(self, case: Any, **options: Any) -> Any:
        return self.function(case, **options)

    def announce_questions(self, case: Any, options: Mapping[str, Any]) -> None:
        """Announce its queries about a case, where they are known before any is answered."""
        if self.asks is not None:
            self.asks(case, self._with_defaults(options))

    def other_name(self, options: Mapping[str, Any] | None = None) -> tuple[str, Mapping[str, Any]] | None:
        """The name and options of the method it equals under these options."""
        return None if self.same_as is None else self.same_as(self._with_defaults(options))

    def needs(self, options: Mapping[str, Any] | None = None) -> frozenset[Reads]:
        """What it reads with these options; without options, by default."""
        if not callable(self.reads):
            return frozenset({self.reads})
        return frozenset(self.reads(self._with_defaults(options)))

    def _with_defaults(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**default_options(self.function), **(options or {})}


Reference = Literal["others", "rationale", "answer", "second", "edited", "randomised"]
# What a metric looks at: several units hidden at once; units hidden one at a time; the numbers alone; what people
# marked; another model; the other classes.
MetricGroup = Literal["erasure", "one at a time", "shape", "plausibility", "robustness", "classes", "other"]


@dataclass(frozen=True)
class Metric:
    """A metric and what is known of it. Its class, made with the metric's options, has `score` and, if it hides
    words, `questions`.
    """

    name: str
    function: Callable[..., Any]
    better: Literal["higher", "lower"]
    paper: str
    needs: Reference | None = None  # what the scores are compared with
    summary: str = ""
    group: MetricGroup = "other"  # which question it answers: metrics of a group count as one in a mean rank

    @property
    def fill(self) -> str | None:
        """How tokens are hidden unless the user names another fill, for metrics that hide words."""
        option = options_of(self.function).get("fill")
        return None if option is None else str(option.default)

    @property
    def asks(self) -> bool:
        """Whether it puts questions to the model."""
        return hasattr(self.function, "questions")

    @property
    def grades_many(self) -> bool:
        """Whether it can grade many explanations of one text at once, by one set of questions."""
        return hasattr(self.function, "score_many")

    @property
    def soft(self) -> bool:
        """Whether its questions keep shares of units, numbers from 0 to 1, and not whole units."""
        return bool(getattr(self.function, "soft", False))

    @property
    def wants_logits(self) -> bool:
        """Whether it is given the logits of every class, not the target's probability alone."""
        return bool(getattr(self.function, "wants_logits", False))


_known: dict[str, dict[str, Any]] = {"method": {}, "metric": {}, "family": {}, "task": {}, "reader": {}}
# Of our own modules, which register themselves once a process, whatever becomes of the registry in between.
_registered: dict[Kind, dict[str, Any]] = {"method": {}, "metric": {}}
Function = TypeVar("Function", bound=Callable[..., Any])
Entry = TypeVar("Entry", Method, Metric)
RegisteredTask = TypeVar("RegisteredTask")


def method(
    *,
    family: str,
    signed: bool,
    per_class: bool,
    reads: Reads | ReadsByOptions,
    paper: str,
    scores_units: bool = False,
    same_as: SameAs | None = None,
    asks: Asks | None = None,
    one_pass: bool = False,
    slow: bool = False,
    scale: ScoreScale | None = None,
    sets: Mapping[str, int] | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a method under its own name.

    The first paragraph of the function's docstring, or else of its module's, is its summary in `wherefrom methods`. Its
    options are its keyword-only parameters.

    Args:
        family: the heading it is listed under, such as "attention" or "perturbation".
        signed: whether a negative score means "against".
        per_class: whether the scores depend on the class that is explained.
        reads: what it needs of the model: "mean_attention" (over heads), "head_attention" (every head's), "attention"
            (with values and hidden states), "relevance", "embeddings" (the gradient at them), "answers" (it only asks),
            or "nothing".
        paper: where it comes from; "none" if from nowhere.
        scores_units: whether it scores words and sentences itself, instead of having its tokens' scores pooled.
        same_as: a function of the options that returns the name and options of the method it equals under them, which
            then takes its place in comparisons. None where it is always a method of its own.
        asks: a function of the case and the options that calls `case.announce_questions` with the queries the method
            will make, where they are known in advance: the queries about all texts of a list then run in full batches.
            None: each text is queried in turn.
        one_pass: whether the scores of a token of a continuation are the same with and without the tokens after it, so
            that one pass over the continuation serves all of its tokens. Otherwise every prefix has its own pass.
        slow: whether it takes about as long as all other methods together; the set "fast" leaves it out.
        scale: "logit" if the scores are parts or changes of the target's logit; "derivative" if they are derivatives of
            it times what they are derivatives by. None where they are neither, so that only their order has a meaning.
        sets: the sets of methods it belongs to, with its place in each, such as {"compare": 3}; see `methods_in`.

    Returns:
        A decorator that returns the function unchanged.

    Example:
        ```python
        @wherefrom.method(family="floor", signed=False, per_class=False, reads="nothing", paper="none")
        def length(case):
            "Length: how many characters a token has."
            return torch.tensor([float(end - start) for start, end in case.encoding.offsets])
        ```
    """

    def register(function: Function) -> Function:
        facts = (family, signed, per_class, reads, paper, scores_units, _summary(function), same_as, asks)
        row = Method(function.__name__, function, *facts, one_pass=one_pass, slow=slow, scale=scale, sets=sets or {})
        _add("method", row)
        return function

    return register


def metric(
    *, better: Literal["higher", "lower"], paper: str, needs: Reference | None = None, group: MetricGroup = "other"
) -> Callable[[Function], Function]:
    """Register a class as a metric: LogOdds as log_odds.

    The class, made with the metric's options, has `score`, and `questions` if it hides words. It never
    touches the model itself. A class that is no metric raises `BadOption` (see docs/add-a-metric.md).

    Args:
        better: whether "higher" or "lower" values are better.
        paper: where it comes from; "none" if from nowhere.
        needs: what it is measured against beside the scores: "others" (the other classes' scores), "rationale",
            "answer", "second" (another model's scores) "edited" (the same method's scores of slightly edited texts) or
            "randomised" (its scores of the model with shuffled weights);
            None for the model alone.
        group: which question it answers: "erasure", "one at a time", "shape", "plausibility", "robustness", "classes",
            or "other". A comparison's mean rank counts every group once, and leaves "shape" out.

    Returns:
        A decorator that returns the class unchanged.

    Example:
        ```python
        @wherefrom.metric(better="lower", paper="none")
        @dataclass(frozen=True, kw_only=True)
        class Largest:
            ...
        ```
    """

    def register(function: Function) -> Function:
        name = metric_name(function.__name__)
        _check_metric(name, function)
        _add("metric", Metric(name, function, better, paper, needs, _summary(function), group))
        return function

    return register


def _check_metric(name: str, written: Callable[..., Any]) -> None:
    """Refuse a class that could not be used as a metric now, not when the first explanation is graded."""
    asks = hasattr(written, "questions")
    forms = {"score": "(self, evidence, answers)" if asks else "(self, evidence)"}
    if asks:
        forms["questions"] = "(self, evidence)"
    if hasattr(written, "score_many"):
        forms["score_many"] = "(self, scores, answers)"
    kind = "with questions" if asks else "without questions"
    for method_name, form in forms.items():
        member = getattr(written, method_name, None)
        if not callable(member):
            raise BadOption(f"The metric {name!r} has no method {method_name}{form}, which every metric {kind} needs.")
        if not _takes(member, form.count(",") + 1):
            raise BadOption(
                f"{method_name} of the metric {name!r} takes {inspect.signature(member)}; in a metric {kind} it is"
                f" called as {method_name}{form}."
            )
    if asks and "fill" not in options_of(written) and not getattr(written, "soft", False):
        raise BadOption(f"The metric {name!r} has questions, so it needs a field `fill`: how tokens are hidden.")
    for extra in ("score_many", "soft", "wants_logits"):
        if not asks and hasattr(written, extra):
            raise BadOption(f"The metric {name!r} has {extra}, which is for metrics that hide words: add questions.")


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _add(kind: Kind, row: Method | Metric) -> None:
    module, taken = row.function.__module__, _known[kind].get(row.name)
    listed = catalogue(kind).get(row.name)  # ours has the name, whether or not it was imported yet
    home = listed.module if listed is not None else module if taken is None else taken.function.__module__
    if home != module:
        raise BadOption(f"{module} brings a {kind} called {row.name!r}, but {home} has one already.")
    _known[kind][row.name] = row
    if listed is not None:
        _registered[kind][row.name] = row


def _summary(function: Callable[..., Any]) -> str:
    docstring = inspect.getdoc(function) or ""
    written = (
        "" if docstring.startswith(f"{function.__name__}(") else docstring
    )  # a dataclass without a docstring is given its signature as one
    text = written or inspect.getdoc(sys.modules[function.__module__]) or ""
    return first_paragraph(text)


# Our own rows: a module for each method, metric and task, and one table of families and of readers.
_HOMES = {
    "family": "wherefrom.model.families",
    "task": "wherefrom.model.tasks",
    "reader": "wherefrom.benchmark.datasets",
}
_GROUPS = {
    "method": "wherefrom.methods",
    "metric": "wherefrom.metrics",
    "family": "wherefrom.families",
    "task": "wherefrom.tasks",
    "reader": "wherefrom.readers",
}


@cache
def _load(kind: PluginKind) -> None:
    """Import the plug-ins of a kind; for families, tasks and readers our own first."""
    from wherefrom.core.family import Family

    if kind in _HOMES:
        import_module(_HOMES[kind])
    for entry in entry_points(group=_GROUPS[kind]):
        try:
            loaded = entry.load()
            if isinstance(loaded, Family):  # an entry point may name the row itself instead of what registers it
                register_family(loaded)
            if isinstance(loaded, DataReader):
                register_reader(loaded)
            if kind == "task" and not isinstance(loaded, types.ModuleType):
                register_task(loaded)
        except Exception as error:  # a broken plug-in must not take the rest down
            warnings.warn(f"The plug-in {entry.name!r} ({entry.value}) could not be loaded: {error}", stacklevel=2)


Record = tuple[str, Mapping[str, Any]]  # the place it was read from, for messages, and its fields


@dataclass(frozen=True)
class DataReader:
    """A way to read a file or a folder as records with the fields of an example; see docs/running-a-benchmark.md.

    Example:
        >>> def read_reviews(path, split):
        ...     for number, line in enumerate(path.read_text().splitlines(), 1):
        ...         stars, text = line.split(" ", 1)
        ...         yield f"{path}, line {number}", {"text": text, "label": int(stars)}
        >>> reader = DataReader("reviews", read_reviews, suffixes=(".reviews",))
    """

    name: str  # written in front of a path: reviews:some/file
    function: Callable[[Path, str | None], Iterator[Record]]  # of the path and the requested split, if any
    suffixes: tuple[str, ...] = ()  # files whose names end so are read by it without the name in front

    def __call__(self, path: Path, split: str | None = None) -> Iterator[Record]:
        return self.function(path, split)


def register_family(family: Family) -> Family:
    """Make a family of models known, so that Wherefrom can read their layers and attention.

    Args:
        family: the row of data that says where such a model keeps its parts.

    Returns:
        The same row.

    Example:
        >>> wherefrom.register_family(Family(("my-model",), blocks="layers.*", ...))  # doctest: +SKIP
    """
    import_module(_HOMES["family"])  # our own first, so that a name that is taken is noticed here
    for name in family.model_types:
        _check_name("family", name, family)
    _known["family"] |= dict.fromkeys(family.model_types, family)
    return family


def register_task(task: RegisteredTask) -> RegisteredTask:
    """Make a task known, so that `wherefrom.load` finds the models that were made for it.

    Args:
        task: an object of a class derived from `wherefrom.Task`: see docs/add-a-task.md.

    Returns:
        The same object.

    Example:
        >>> wherefrom.register_task(NextSentence())  # doctest: +SKIP
    """
    import_module(_HOMES["task"])
    missing = [member for member in ("name", "auto") if not hasattr(task, member)]
    if missing or isinstance(task, type):
        why = "is a class; give an object of it" if isinstance(task, type) else f"has no {' and no '.join(missing)}"
        raise BadOption(f"The task {getattr(task, '__name__', type(task).__name__)} {why}.")
    row: Any = task
    _check_name("task", row.name, row)
    _known["task"][row.name] = row
    return task


def register_reader(reader: DataReader) -> DataReader:
    """Make a format of data sets known: `wherefrom run NAME:PATH`.

    Args:
        reader: its name, the function that reads, and the suffixes of files that it is for.

    Returns:
        The same reader.

    Example:
        >>> wherefrom.register_reader(DataReader("reviews", read_reviews))  # doctest: +SKIP
    """
    import_module(_HOMES["reader"])
    for suffix in reader.suffixes:
        other = next((row for row in _known["reader"].values() if suffix in row.suffixes and row != reader), None)
        if other is not None:
            raise BadOption(f"Files that end in {suffix!r} are read by {other.name!r} already.")
    _check_name("reader", reader.name, reader)
    _known["reader"][reader.name] = reader
    return reader


def _check_name(kind: PluginKind, name: str, row: Any) -> None:
    """The same row may be registered again; another one under the same name may not."""
    if _known[kind].get(name, row) != row:
        raise BadOption(
            f"There is a {kind} called {name!r} already. Choose another name, or use the one that is there."
        )


def all_families() -> Mapping[str, Family]:
    """Every family by the model types it is for."""
    _load("family")
    return _known["family"]


def all_tasks() -> Mapping[str, Any]:
    """Every task by its name."""
    _load("task")
    return _known["task"]


def all_readers() -> Mapping[str, DataReader]:
    """Every data reader by its name."""
    _load("reader")
    return _known["reader"]


def all_methods() -> list[Method]:
    """Every method, family by family."""
    _import_all("method")
    return sorted(_known["method"].values(), key=lambda row: (row.family, row.name))


def all_metrics() -> list[Metric]:
    """Every metric, those that need nothing but the model first."""
    _import_all("metric")
    return sorted(_known["metric"].values(), key=lambda row: (row.needs or "", row.fill is None, row.name))


def find_method(name: str) -> Method:
    """The method of a name, to call it with cases of your own.

    Args:
        name: a name from `wherefrom methods`, without options. Of our methods, only this one's module is imported.

    Returns:
        The `Method`: the facts it declares, called with a case (`Model.cases`) and the method's options.

    Example:
        ```python
        saliency = wherefrom.find_method("saliency")
        scores = {place: saliency(case) for place, case in model.cases(texts, reads=saliency.needs())}
        ```
    """
    _check_without_options("method", name)
    row: Method = _imported("method", name)
    return row


def find_metric(name: str) -> Metric:
    """The metric of that name, importing its module and no other."""
    _check_without_options("metric", name)
    row: Metric = _imported("metric", name)
    return row


def listed(kind: Kind) -> list[CatalogueRow]:
    """What is known of every method or metric, in the order of `all_methods` and `all_metrics`, without importing ours.
    Those of other packages are imported, where there are any.
    """
    _load_plug_ins(kind)
    theirs = [_catalogue_row(kind, row) for name, row in _known[kind].items() if name not in catalogue(kind)]
    rows = [*catalogue(kind).values(), *theirs]
    if kind == "method":
        return sorted(rows, key=lambda row: (row.get("family"), row.name))
    return sorted(rows, key=lambda row: (row.get("needs") or "", "fill" not in row.options, row.name))


def list_methods(family: str | None = None) -> list[str]:
    """The names of the methods, as `Model.explain` and `Model.compare` take them. Loads no torch.

    Args:
        family: only those of one family: "attention", "gradient", "decomposition", "relevance", "perturbation", ...

    Returns:
        The names, family by family. `wherefrom methods` says more of each.

    Example:
        >>> wherefrom.list_methods("perturbation")  # doctest: +SKIP
        ['kernel_shap', 'lime', 'occlusion']
    """
    return _names_with("method", "family", family)


def list_metrics(group: str | None = None) -> list[str]:
    """The names of the metrics, as `Model.compare` and `Model.evaluate` take them. Loads no torch.

    Args:
        group: only those that answer one question: "erasure", "one at a time", "shape", "plausibility", "robustness",
            "classes".

    Returns:
        The names, those that need nothing but the model first. `wherefrom metrics` says more of each.

    Example:
        >>> wherefrom.list_metrics("robustness")  # doctest: +SKIP
    """
    return _names_with("metric", "group", group)


def methods_in(name: str) -> tuple[str, ...]:
    """The names of the methods in a set, in the order of the places they declare. Loads no torch.

    Sets in use: "auto" (what explains where no method is named: the first that the model allows) and "auto:TASK", which
    replaces it for a task; "compare" (the default of a comparison); "candidates" (among which `best` chooses); "light"
    (keep no attention, so they fit where others do not); "flip" (orders the units of a search for a flip); "heads"
    (whose heads are searched).
    """
    places = {row.name: row.get("sets", {}).get(name) for row in listed("method") if row.get("sets")}
    return tuple(sorted((method for method in places if places[method] is not None), key=lambda row: places[row]))


def auto_methods(task: str) -> tuple[str, ...]:
    """The methods that explain a task's decisions where none is named, the preferred one first."""
    return methods_in(f"auto:{task}") or methods_in("auto")


def methods_reading(*reads: Reads) -> tuple[str, ...]:
    """The names of the methods that read one of these, by default and whatever their options. Loads no torch."""
    return tuple(row.name for row in listed("method") if row.get("reads") in reads)


def _names_with(kind: Kind, argument: str, value: str | None) -> list[str]:
    rows = listed(kind)
    if value is None:
        return [row.name for row in rows]
    names = [row.name for row in rows if row.get(argument) == value]
    if not names:
        known = dict.fromkeys(str(row.get(argument)) for row in rows)
        raise UnknownName.among(f"{argument} of {kind}s", value, known)
    return names


def check_name(kind: Kind, spec: str) -> None:
    """Raise `UnknownName`, with a name that is close, unless there is such a method or metric. Imports nothing of ours.

    spec: the name, or `name:option=value`, whose options are not checked.
    """
    if not isinstance(spec, str):
        raise UnknownName(f"A {kind} is given by its name, a str, not by {spec!r}.")
    name = spec.partition(":")[0]
    if name not in catalogue(kind) and name not in _known[kind]:
        known = [row.name for row in listed(kind)]
        if name not in known:
            raise UnknownName.among(kind, name, known)


def _check_without_options(kind: Kind, name: str) -> None:
    """Raise unless it is the name of a method or metric and nothing more."""
    check_name(kind, name)
    bare, colon, options = name.partition(":")
    if colon:
        raise UnknownName(
            f"No {kind} is called {name!r}. Here, options are apart from the name: {bare!r}, and"
            f" {options.replace(':', ', ') or 'name=value'}."
        )


def _imported(kind: Kind, name: str) -> Any:
    """The row of a known name."""
    if name not in _known[kind]:
        import_module(catalogue(kind)[name].module)
        _known[kind].setdefault(name, _registered[kind].get(name))
    return _known[kind][name]


def _import_all(kind: Kind) -> None:
    for name in catalogue(kind):
        _imported(kind, name)
    _load_plug_ins(kind)


def _load_plug_ins(kind: Kind) -> None:
    if entry_points(group=_GROUPS[kind]):
        _load(kind)


# The decorators' arguments that are plain values.
FACTS: Mapping[Kind, tuple[str, ...]] = {
    "method": ("family", "signed", "per_class", "paper", "scores_units", "one_pass", "slow", "scale", "sets"),
    "metric": ("better", "needs", "group", "paper"),
}


def _catalogue_row(kind: Kind, row: Method | Metric) -> CatalogueRow:
    """The same of a row that was imported."""
    declared = {name: getattr(row, name) for name in FACTS[kind]}
    if isinstance(row, Method):
        declared["reads"] = None if callable(row.reads) else row.reads
    module, options = row.function.__module__, default_options(row.function)
    return CatalogueRow(row.name, module, options, row.summary, declared, row.summary)


@dataclass(frozen=True)
class Configured(Generic[Entry]):
    """A method or metric with its options, as asked for: `alti`, or `alti:norm=l2:ln2=true`."""

    asked: str
    row: Entry
    options: Mapping[str, Any]


def choose(kind: Kind, spec: str) -> Configured[Any]:
    """Read `name:option=value:...`."""
    name, *settings = spec.split(":")
    row: Any = find_method(name) if kind == "method" else find_metric(name)
    options = {}
    for pair in settings:
        option, equals, value = pair.partition("=")
        if not equals:
            raise BadOption(f"{spec!r} is not name:option=value, such as alti:norm=l2.")
        options[option.strip()] = value.strip()
    return Configured(spec, row, check_options(name, row.function, options))


@cache
def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a method or metric."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def default_options(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a method or metric with their default values."""
    return {name: parameter.default for name, parameter in options_of(function).items()}


def check_options(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their defaults filled in and texts from the command line read; raises on what does not fit."""
    known = options_of(function)
    for option in options:
        if option not in known:
            if not known:
                raise UnknownName(f"{name} takes no options, so not {option!r} either.")
            raise UnknownName.among(f"option of {name}", option, known)
    return {
        option: _fitted(name, option, options[option], parameter.annotation) if option in options else parameter.default
        for option, parameter in known.items()
    }


def _fitted(name: str, option: str, value: Any, annotation: Any) -> Any:
    origin, choices = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        if value not in choices:
            raise BadOption(f"{name} takes {option} = {' | '.join(map(str, choices))}, not {value!r}.")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None or (value in ("none", "None") and types.NoneType in choices):
            return None
        return _fitted(name, option, value, next(kind for kind in choices if kind is not types.NoneType))
    if annotation is bool and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "1", "0"):
        return value.lower() in ("true", "yes", "1")
    if annotation in (int, float):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                number = annotation(value)
                if isinstance(value, str) or number == value:
                    return number
    elif isinstance(annotation, type) and isinstance(value, annotation):
        return value
    raise BadOption(f"{name} takes {option} as {getattr(annotation, '__name__', annotation)}, not {value!r}.")
