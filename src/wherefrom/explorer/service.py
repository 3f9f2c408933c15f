"""A model with several users: clicks are answered first and in batches, long computations take turns."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from wherefrom.case.door import Subject, continued_chat, read_input, subject_of
from wherefrom.core.encoding import Encoding, check_turns
from wherefrom.explorer.answers import AnswerCache, CachingAsker
from wherefrom.explorer.limits import Limits, TooBusy
from wherefrom.explorer.questions import TextQuestion
from wherefrom.explorer.turns import BATCH_TOKENS, Stopped, TurnTakingNetwork
from wherefrom.model.device import trim_heap
from wherefrom.model.text_model import TextModel

PlainData = dict[str, Any]  # values of JSON
Finish = Callable[[], PlainData]  # gives the answer, once the asker ran
Prepare = Callable[[CachingAsker], Finish]  # notes the questions of a click
Send = Callable[[PlainData | BaseException | None], None]  # a result, an error, or None for the end

AT_ONCE = 32  # clicks that are answered by one run of the asker
GATHERING = 0.004  # seconds that a click waits for others, where there were others just before
TEXTS = 256  # whose encodings are kept
CLICKS_UNTIL_TRIMMED = 200  # for one of them is then some milliseconds slower


@dataclass(frozen=True, eq=False)
class Computation:
    """Something that takes long: its results are sent one by one."""

    steps: Iterator[PlainData]
    send: Send
    stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """End the computation before its next pass."""
        self.stopped.set()


class ModelService:
    """One model, its cached answers, and the two threads that run it."""

    def __init__(self, model: TextModel, limits: Limits) -> None:
        self.limits = limits
        self.network = TurnTakingNetwork(model.network)
        self.model = replace(model, network=self.network, batch_tokens=min(model.batch_tokens, BATCH_TOKENS))
        self.answers = AnswerCache(limits.cache)
        self._kept: OrderedDict[object, Any] = OrderedDict()  # results by request
        self._keeping = threading.Lock()
        self._texts: OrderedDict[object, Encoding] = OrderedDict()
        self._subjects: OrderedDict[object, Subject] = OrderedDict()
        self._clicks: SimpleQueue[tuple[Prepare, Future[PlainData]] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._waiting: deque[Computation] = deque()
        self._going: deque[Computation] = deque()
        self._closed = False
        self._threads = [
            threading.Thread(target=work, name=f"wherefrom-{name}", daemon=True)
            for name, work in (("clicks", self._answer_clicks), ("computations", self._compute))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both threads; what is under way ends before its next pass."""
        with self._changed:
            self._closed = True
            for computation in (*self._waiting, *self._going):
                computation.stop()
            self._changed.notify_all()
        self._clicks.put(None)
        for thread in self._threads:
            thread.join(timeout=30)

    # Keeping

    def recall(self, key: object) -> Any:
        """A result that was kept; None where it was not, or is gone."""
        with self._keeping:
            return self._kept.get(key)

    def keep(self, key: object, result: object) -> None:
        """Keep a result for later requests; the oldest go."""
        with self._keeping:
            self._kept[key] = result
            while len(self._kept) > self.limits.explanations:
                self._kept.popitem(last=False)

    # Reading

    def encode(self, text: str, pair: str | None) -> Encoding:
        """A text as the model reads it. Kept, because every click is about the same one."""
        return self._encoded((text, pair), lambda: self.model.encode(text, pair))

    def _encoded(self, key: object, make: Callable[[], Encoding]) -> Encoding:
        with self.model.reading.lock:
            encoding = self._texts.pop(key, None) or make()
            self._texts[key] = encoding
            while len(self._texts) > TEXTS:
                self._texts.popitem(last=False)
        return encoding

    def read(self, question: TextQuestion) -> Encoding:
        """The text or the chat of a question as the model reads it."""
        if question.messages is None:
            if question.level == "turn":
                check_turns(())
            return self.encode(question.text, question.pair)
        messages = tuple((message.role, message.content) for message in question.messages)
        chat = self._encoded((messages, ""), lambda: read_input(self.model, question.chat))
        if not question.begun:
            return chat
        return self._encoded((messages, question.begun), lambda: continued_chat(self.model, chat, question.begun))

    def subject(self, question: TextQuestion) -> Subject:
        """What is explained about a text. Kept, because an output that is not given has to be generated."""
        spec, encoding = question.spec, self.read(question)
        key = (encoding.text, encoding.pair, encoding.turns, repr(spec))
        with self.model.reading.lock:
            subject = self._subjects.pop(key, None) or subject_of(self.model, encoding, spec)
            self._subjects[key] = subject
            while len(self._subjects) > TEXTS:
                self._subjects.popitem(last=False)
        return subject

    def asker(self, model: TextModel | None = None) -> CachingAsker:
        """A new asker, for one thread, that knows every answer that is kept. model: one that is bound to an output."""
        return CachingAsker(model or self.model, self.answers)

    # Clicks

    def click(self, prepare: Prepare) -> Future[PlainData]:
        """A quick question. All that wait are noted with one asker, and answered by the same passes."""
        if self._clicks.qsize() >= self.limits.clicks:
            raise TooBusy(f"{self.limits.clicks} questions wait for an answer already. Try again in a moment.")
        future: Future[PlainData] = Future()
        self._clicks.put((prepare, future))
        return future

    def _answer_clicks(self) -> None:
        sizes = (1, 1)  # of the last two runs
        answered = 0
        while True:
            # If the last two runs served several users, more clicks are expected soon. A single user never waits.
            waiting = self._gathered(sum(sizes) if max(sizes) > 1 else 1)
            sizes = (sizes[1], len(waiting))
            clicks = [click for click in waiting if click is not None and click[1].set_running_or_notify_cancel()]
            self._answer(clicks)
            answered += len(clicks)
            if answered >= CLICKS_UNTIL_TRIMMED:
                trim_heap()
                answered = 0
            if None in waiting:
                return

    def _gathered(self, expected: int) -> list[tuple[Prepare, Future[PlainData]] | None]:
        """The clicks that wait. Others that are expected are waited for a moment: together they cost little more than
        one.
        """
        waiting, ends = [self._clicks.get()], time.monotonic() + GATHERING
        while len(waiting) < AT_ONCE and waiting[-1] is not None:
            patience = max(0.0, ends - time.monotonic()) if len(waiting) < expected else 0.0
            try:
                waiting.append(self._clicks.get(patience > 0, patience))
            except Empty:
                break
        return waiting

    def _answer(self, clicks: Sequence[tuple[Prepare, Future[PlainData]]]) -> None:
        asker, noted = self.asker(), list[tuple[Prepare, Finish, Future[PlainData]]]()
        for prepare, future in clicks:
            try:
                noted.append((prepare, prepare(asker), future))
            except Exception as error:
                future.set_exception(error)
        try:
            asker.run()
        except Exception as error:
            if len(noted) == 1:
                noted[0][2].set_exception(error)
                return
            for prepare, _, future in noted:  # one of them is to blame, and the others shall not pay for it
                self._answer([(prepare, future)])
            return
        for _, finish, future in noted:
            try:
                future.set_result(finish())
            except Exception as error:
                future.set_exception(error)

    # Long computations

    def compute(self, steps: Iterator[PlainData], send: Send) -> Computation:
        """Start a long computation. A few run at once, one step each in turn; others wait, and are notified."""
        computation = Computation(steps, send)
        with self._changed:
            if len(self._waiting) >= self.limits.computations:
                raise TooBusy(
                    f"{self.limits.computations} computations wait for their turn already. Try again in a moment."
                )
            self._waiting.append(computation)
            before = len(self._waiting) + len(self._going) - 1
            self._changed.notify_all()
        if before >= self.limits.turns:
            send({"waiting": before})
        return computation

    def _compute(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._waiting and not self._going:
                    self._changed.wait()
                if self._closed:
                    for computation in (*self._waiting, *self._going):
                        computation.send(None)
                    return
                while self._waiting and len(self._going) < self.limits.turns:
                    self._going.append(self._waiting.popleft())
                computation = self._going[0]
            ended = self._step(computation)
            if ended:
                trim_heap()
            with self._changed:
                self._going.popleft()
                if not ended:
                    self._going.append(computation)

    def _step(self, computation: Computation) -> bool:
        """One result of a computation; whether it was the last."""
        if computation.stopped.is_set():
            computation.send(None)
            return True
        self.network.current.stopped = computation.stopped
        try:
            step = next(computation.steps, None)
        except Stopped:
            step = None
        except Exception as error:
            computation.send(error)
            return True
        finally:
            self.network.current.stopped = None
        computation.send(step)
        return step is None
