"""The captions of all runs of a table: taken where they are, said as soon as their run is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from sct.errors import InputError
from sct.reproduction.figures import NOT_RUN, RunResult
from sct.reproduction.memory import tells_of_no_memory
from sct.reproduction.origin import commands_of, other_data, refusal
from sct.reproduction.plan import SORTER, PlannedRun, planned_run
from sct.reproduction.predictions import CaptionProtocol, PredictionPlace, Speaker
from sct.reproduction.published import RowKey
from sct.reproduction.request import Request, Say
from sct.reproduction.scores import scores_of
from sct.reproduction.stand_in import SubstituteDataset


class RowCaptions:
    """Has runs caption as soon as they can, and remembers why some could not."""

    def __init__(
        self, protocol: CaptionProtocol, request: Request, data: SubstituteDataset, runs: Sequence[PlannedRun], say: Say
    ) -> None:
        """Look which captions of the runs are missing, and which runs are not of the dataset."""
        self._protocol, self._request, self._say, self._data = protocol, request, say, data
        place = request.place
        self._speaker = Speaker(data, request.split, device=request.device, image_folder=place.image_folder)
        self._sorter = planned_run(RowKey(data.kind, SORTER, "")) if protocol == "set" else None
        self._faults = {run.name: fault for run in runs if (fault := refusal(place, run, data))}
        self._starved: dict[str, str] = {}
        if self._sorter is not None and (of_sorter := other_data(place, self._sorter, data)):
            self._faults = {run.name: f"its sorter cannot be taken: {of_sorter}" for run in runs} | self._faults
        self._runs = runs
        self._missing = self._unsaid()

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those of the runs whose captions are missing and can be had."""
        return [run for run in runs if run.name in self._missing and run.name not in self._faults]

    def sorters(self) -> list[PlannedRun]:
        """What has to be there too for missing captions to be said."""
        return [self._sorter] if self._sorter is not None and self.missing(list(self._missing.values())) else []

    def settle(self, faults: Mapping[str, str]) -> None:
        """Have every run caption that is done by now; ``faults`` are those of training.

        One that finds no memory beside those that train is asked again when the next of them has ended, and one of
        which captions were kept may have been trained anew, for the next stage to start from.
        """
        self._faults |= faults
        self._missing = self._unsaid()
        place = self._request.place
        if self._sorter is not None and not place.is_done(self._sorter):
            return
        for run in [run for run in self._missing.values() if run.name not in self._faults and place.is_done(run)]:
            self._say(f"captioning with {place.best(run)}, {self._protocol}")
            try:
                self._speaker.say(self._place_of(run), place.best(run), self._sorter_folder())
            except RuntimeError as error:
                if not tells_of_no_memory(str(error)):
                    raise
                self._starved[run.name] = str(error)
                self._say(f"no captions of {run.name} for now: {error}")
            except (InputError, OSError) as error:
                self._faults[run.name] = str(error)
                self._say(f"{run.name} failed: {error}")
            else:
                del self._missing[run.name]
            torch.cuda.empty_cache()  # for those that train

    def result(self, run: PlannedRun, metrics: Sequence[str]) -> RunResult:
        """The figures of a run, or why there are none."""
        commands = commands_of(self._request.place, run)
        if run.name not in self._missing and run.name not in self._faults:
            scores = scores_of(self._place_of(run), metrics, self._say)
            return RunResult(
                name=run.name,
                data=self._data.folder.name,
                commands=commands,
                figures=scores.figures,
                reasons=scores.reasons,
            )
        of_sorter = self._faults.get(self._sorter.name, "") if self._sorter is not None else ""
        fault = self._faults.get(run.name) or self._starved.get(run.name)
        fault = fault or (of_sorter and f"its sorter failed: {of_sorter}")
        reason = fault or NOT_RUN
        if not fault and self._place_of(run).has_any:
            reason = f"{NOT_RUN}: the captions in {self._place_of(run).folder} are of something else than what is here"
        return RunResult(name=run.name, commands=commands, absent=reason, has_failed=bool(fault))

    def _unsaid(self) -> dict[str, PlannedRun]:
        """The runs of which no captions are there, or others than they would say."""
        best = self._request.place.best
        sorter = self._sorter_folder()
        return {
            run.name: run for run in self._runs if not self._speaker.has_said(self._place_of(run), best(run), sorter)
        }

    def _place_of(self, run: PlannedRun) -> PredictionPlace:
        return PredictionPlace(self._request.place.folder(run), self._protocol, self._request.split)

    def _sorter_folder(self) -> Path | None:
        if self._sorter is None or not self._request.place.is_done(self._sorter):
            return None
        return self._request.place.best(self._sorter)
