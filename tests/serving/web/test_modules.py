"""The page's modules one by one: what they compute, told by tables; no image and no captioner is asked."""

import json

import pytest

from sct.drawing.palette import PALETTE, UNASSOCIATED

SIZE = "{width: 100, height: 50}"
SETS = (
    "controlOf([[[0, 0, 10, 10]], [[20, 0, 30, 10], [40, 0, 50, 10]], [[60, 0, 70, 10]]], [['a'], ['b', null], ['c']])"
)


@pytest.fixture(scope="module")
def compute(browser, address):
    """Compute an expression with the names of a module of the page."""
    page = browser.new_page()
    page.goto(address)

    def run(module: str, expression: str, also: str | None = None):
        # The page's policy lets no text be made into a function, so the names are written out.
        files = [f"{address}/{name}.js" for name in (module, also) if name]
        names = {file: page.evaluate("async (file) => Object.keys(await import(file))", file) for file in files}
        imports = [f"const {{ {', '.join(names[file])} }} = await import('{file}');" for file in files]
        return page.evaluate(f"async () => {{ {' '.join(imports)} return ({expression}); }}")

    yield run
    page.close()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f"between([5, 5], [5, 40], {SIZE})", None, id="no box without an extent"),
        pytest.param(f"between([30, 40], [10, 5], {SIZE})", [10, 5, 30, 40], id="drawn from any corner"),
        pytest.param(f"between([-9, 10], [400, 90], {SIZE})", [0, 10, 100, 50], id="cut at the image"),
        pytest.param(f"moved([10, 10, 30, 30], 5, -4, {SIZE})", [15, 6, 35, 26], id="moved"),
        pytest.param(
            f"moved([10, 10, 30, 30], 500, 500, {SIZE})", [80, 30, 100, 50], id="moved no further than the edge"
        ),
        pytest.param(f"resized([10, 10, 30, 30], 'nw', -5, 5, {SIZE})", [5, 15, 30, 30], id="resized by a corner"),
        pytest.param(f"resized([10, 10, 30, 30], 'e', -90, 7, {SIZE})", [10, 10, 14, 30], id="never inside out"),
        pytest.param("overlap([0, 0, 10, 10], [5, 0, 15, 10])", 1 / 3, id="50 of 150"),
        pytest.param("overlap([0, 0, 10, 10], [10, 0, 15, 10])", 0, id="side by side"),
        pytest.param(f"boxOf([1, 2, 'x', 4], {SIZE})", None, id="no box of words"),
        pytest.param(f"boxOf([1, 2, NaN, 4], {SIZE})", None, id="no box of nothing"),
    ],
)
def test_boxes(compute, expression, expected):
    assert compute("state/boxes", expression) == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("controlOf([])", [], id="nothing"),
        pytest.param("SETS", [["a"], ["b", None], ["c"]], id="as it came"),
        pytest.param("added(SETS, [0, 0, 9, 9], 'd')", [["a"], ["b", None], ["c"], ["d"]], id="added last"),
        pytest.param("joined(SETS, SETS[0].id, [0, 0, 9, 9], 'd')", [["a", "d"], ["b", None], ["c"]], id="joined"),
        pytest.param("reordered(SETS, SETS[0].id, 1)", [["b", None], ["a"], ["c"]], id="later"),
        pytest.param("reordered(SETS, SETS[0].id, 99)", [["b", None], ["c"], ["a"]], id="last"),
        pytest.param("reordered(SETS, 99, 0)", [["a"], ["b", None], ["c"]], id="who is not there stays where it is"),
        pytest.param("merged(SETS, SETS[2].id, SETS[0].id)", [["b", None], ["c", "a"]], id="merged"),
        pytest.param("merged(SETS, SETS[2].id, SETS[2].id)", [["a"], ["b", None], ["c"]], id="not with itself"),
        pytest.param("split(SETS, SETS[1].id)", [["a"], ["b"], [None], ["c"]], id="split"),
        pytest.param("withoutBox(SETS, SETS[0].boxes[0].id)", [["b", None], ["c"]], id="no set without a box"),
        pytest.param("withoutBox(SETS, SETS[1].boxes[0].id)", [["a"], [None], ["c"]], id="one of two boxes"),
        pytest.param("named(SETS, [['x'], ['y', 'z'], null])", [["a"], ["b", "z"], ["c"]], id="names where none are"),
    ],
)
def test_control(compute, expression, expected):
    made = f"(() => {{ const SETS = {SETS}; return ({expression}); }})()"
    found = compute("state/control", made)
    assert [[box["name"] for box in group["boxes"]] for group in found] == expected
    ids = [each["id"] for group in found for each in (group, *group["boxes"])]
    assert len(ids) == len(set(ids)), "ids are unique"


def test_colours_are_those_of_drawings(compute):
    assert compute("state/palette", "PALETTE") == [list(colour) for colour in PALETTE]
    assert compute("state/palette", "[colourOf(-1), colourOf(10)]") == [
        "rgb({}, {}, {})".format(*UNASSOCIATED),
        "rgb({}, {}, {})".format(*PALETTE[0]),
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("undone(begun(0)).present.document", 0, id="nothing to undo"),
        pytest.param("redone(begun(0)).present.document", 0, id="nothing to redo"),
        pytest.param("undone(done(begun(0), 1)).present.document", 0, id="undone"),
        pytest.param("redone(undone(done(begun(0), 1))).present.document", 1, id="done again"),
        pytest.param("redone(done(undone(done(begun(0), 1)), 2)).present.document", 2, id="what was undone is gone"),
        pytest.param("undone(done(done(begun(0), 1, '', 'move'), 2, '', 'move')).present.document", 0, id="in one go"),
        pytest.param(
            "undone(done(settled(done(begun(0), 1, '', 'move')), 2, '', 'move')).present.document",
            1,
            id="after a pause",
        ),
        pytest.param("done(undone(done(begun(0), 1)), 2).present.number", 2, id="numbers are not used twice"),
    ],
)
def test_timeline(compute, expression, expected):
    assert compute("state/timeline", expression) == expected


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param("", id="nothing"),
        pytest.param("#x=1", id="something else"),
        pytest.param("#sample=otters", id="no size"),
        pytest.param("#sample=otters&size=axb", id="no numbers"),
        pytest.param("#sample=otters&size=10x10&" + "r" * 30_000, id="far too long"),
    ],
)
def test_links_that_ask_for_nothing(compute, fragment):
    assert compute("state/link", f"readFragment({json.dumps(fragment)})") is None


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        pytest.param("", [], id="no region"),
        pytest.param("0,0,9,9", [[[0, 0, 9, 9]]], id="one"),
        pytest.param("0,0,9,9+1,1,8,8;20,0,30.5,9", [[[0, 0, 9, 9], [1, 1, 8, 8]], [[20, 0, 30.5, 9]]], id="sets"),
        pytest.param("a,b,c,d;;0,0,9;0,0,9,9", [[[0, 0, 9, 9]]], id="what is broken is left out"),
        pytest.param("-5,0,1e9,9;1,1,1,9", [[[0, 0, 100, 9]]], id="what is outside is cut off"),
    ],
)
def test_links_hold_boxes(compute, regions, expected):
    fragment = f"#sample=otters&size=100x50&order=chosen&beam=99&cover=0&regions={regions.replace('+', '%2B')}"
    found = compute("state/link", f"readFragment({json.dumps(fragment)})")
    assert [[box["box"] for box in group["boxes"]] for group in found["document"]["sets"]] == expected
    assert found["document"]["options"] == {"cover": False, "longest": 20, "beam": 10}
    assert not found["document"]["ordered"]
    again = compute(
        "state/link",
        f"readFragment(fragmentOf({{sample: 'otters', width: 100, height: 50}}, {json.dumps(found['document'])}))",
    )
    assert again["document"] == found["document"]


def test_captions_fall_into_chunks_and_what_is_between(compute):
    caption = {
        "words": [{"text": text} for text in ("two", "dogs", "run", "past", "a", "man")],
        "chunks": [{"words": [4, 6], "region_set": 1}, {"words": [0, 2], "region_set": 0}],
    }
    found = compute("state/captions", f"stretches({json.dumps(caption)})")
    assert [(each["set"], [word["text"] for word in each["words"]]) for each in found] == [
        (0, ["two", "dogs"]), (None, ["run", "past"]), (1, ["a", "man"]),
    ]  # fmt: skip
    assert [word["place"] for each in found for word in each["words"]] == list(range(6))
    assert compute("state/captions", "stretches({words: [], chunks: []})") == []


def test_only_the_last_question_is_heard_and_old_answers_are_kept(compute):
    heard = compute(
        "work/asking",
        """(async () => {
            const log = [];
            const asking = createAsking({
                pause: 5, asked: (key) => log.push(`asked ${key}`), failed: (key) => log.push(`failed ${key}`),
                answered: (key, answer) => log.push(`${key} ${answer}`),
            });
            const slow = (answer, ms) => (signal) => new Promise((done, failed) => {
                signal.onabort = () => failed(new Error("aborted"));
                setTimeout(() => done(answer), ms);
            });
            const pause = (ms) => new Promise((done) => setTimeout(done, ms));
            const expected = [asking.want("one", slow("late", 90))];
            await pause(30);
            expected.push(asking.want("two", slow("soon", 5)));
            expected.push(asking.want("one", slow("again", 5)));
            await Promise.all(expected);
            await asking.want("four", slow("soon", 5));
            await asking.want("one", () => { throw new Error("it is known already"); });
            await asking.want("three", async () => { throw new Error("no"); });
            return log;
        })()""",
    )
    assert heard == [
        "asked one", "asked two", "asked one", "one again", "asked four", "four soon", "one again", "asked three",
        "failed three",
    ]  # fmt: skip


def test_a_image_is_sent_once_and_again_when_it_was_forgotten(compute):
    sent = compute(
        "work/service",
        """(async () => {
            const log = [];
            let knows = true;
            const fetch = async (route, { body, headers }) => {
                const isBytes = body instanceof FormData;
                log.push(`${isBytes ? "bytes" : "id"} ${headers.Authorization}`);
                return Response.json({ error: "forgotten" }, { status: isBytes || knows ? 200 : 404 });
            };
            const service = createService({ token: "t", fetch });
            const blob = new Blob(["image"]);
            await service.caption({ blob, hash: null }, {});
            await service.caption({ blob, hash: "abc" }, {});
            knows = false;
            await service.caption({ blob, hash: "abc" }, {});
            return log;
        })()""",
    )
    assert sent == [f"{what} Bearer t" for what in ("bytes", "id", "id", "bytes")]


def test_a_state_is_never_changed_in_place(compute):
    names = compute(
        "state/reducer",
        """(() => {
            const frozen = (value) => {
                const isOpen = value && typeof value === "object" && !Object.isFrozen(value);
                if (isOpen) Object.values(Object.freeze(value)).forEach(frozen);
                return value;
            };
            let state = frozen(initialState());
            const act = (type, more) => (state = frozen(reduce(state, { type, ...more })));
            act("imageOpened", { image: { name: "p", width: 100, height: 50, url: "u", sample: "s", hash: null } });
            act("looked", { hash: "h", proposals: [] });
            act("added", { box: [0, 0, 10, 10], name: "a" });
            act("added", { box: [0, 0, 20, 20], name: "b" });
            act("addedInMiddle");
            act("reordered", { set: documentOf(state).sets[0].id, place: 2 });
            act("reshaped", { boxId: documentOf(state).sets[0].boxes[0].id, box: [1, 1, 9, 9] });
            act("merged", { into: documentOf(state).sets[0].id, from: documentOf(state).sets[1].id });
            act("split", { set: documentOf(state).sets[0].id });
            act("removedSet", { set: documentOf(state).sets[0].id });
            act("optionSet", { name: "beam", value: 3 });
            for (let step = 0; step < 20; step += 1) act("undone");
            for (let step = 0; step < 20; step += 1) act("redone");
            return documentOf(state).sets.map((set) => set.boxes.map(({ box }) => box));
        })()""",
        also="state/state",
    )
    assert names == [[[33.3, 16.7, 66.7, 33.3]], [[0, 0, 10, 10]]]
