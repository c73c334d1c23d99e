"""JavaScript modules of the page, evaluated in the browser."""

import json
from hashlib import sha256
from urllib.parse import urlencode

import pytest

from sct.drawing.palette import PALETTE, UNGROUNDED

SIZE = "{width: 100, height: 50}"
SETS = (
    "makeSets([[[0, 0, 10, 10]], [[20, 0, 30, 10], [40, 0, 50, 10]], [[60, 0, 70, 10]]], [['a'], ['b', null], ['c']])"
)


@pytest.fixture(scope="module")
def compute(browser, address):
    """Function that evaluates an expression with the exports of a module in scope."""
    page = browser.new_page()
    page.goto(address)

    def run(module: str, expression: str, also: str | None = None):
        # The content security policy forbids eval, so the exports are imported by name.
        files = [f"{address}/{name}.js" for name in (module, also) if name]
        names = {file: page.evaluate("async (file) => Object.keys(await import(file))", file) for file in files}
        imports = [f"const {{ {', '.join(names[file])} }} = await import('{file}');" for file in files]
        return page.evaluate(f"async () => {{ {' '.join(imports)} return ({expression}); }}")

    yield run
    page.close()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f"boxFromCorners([5, 5], [5, 40], {SIZE})", None, id="no extent"),
        pytest.param(f"boxFromCorners([30, 40], [10, 5], {SIZE})", [10, 5, 30, 40], id="drawn from any corner"),
        pytest.param(f"boxFromCorners([-9, 10], [400, 90], {SIZE})", [0, 10, 100, 50], id="cut at the image"),
        pytest.param(f"moveBox([10, 10, 30, 30], 5, -4, {SIZE})", [15, 6, 35, 26], id="moved"),
        pytest.param(f"moveBox([10, 10, 30, 30], 500, 500, {SIZE})", [80, 30, 100, 50], id="moved up to the edge"),
        pytest.param(f"resizeBox([10, 10, 30, 30], 'nw', -5, 5, {SIZE})", [5, 15, 30, 30], id="resized by a corner"),
        pytest.param(f"resizeBox([10, 10, 30, 30], 'e', -90, 7, {SIZE})", [10, 10, 14, 30], id="never inside out"),
        pytest.param("boxIou([0, 0, 10, 10], [5, 0, 15, 10])", 1 / 3, id="50 of 150"),
        pytest.param("boxIou([0, 0, 10, 10], [10, 0, 15, 10])", 0, id="side by side"),
        pytest.param(f"parseBox([1, 2, 'x', 4], {SIZE})", None, id="text"),
        pytest.param(f"parseBox([1, 2, NaN, 4], {SIZE})", None, id="NaN"),
    ],
)
def test_boxes(compute, expression, expected):
    assert compute("state/boxes", expression) == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("makeSets([])", [], id="nothing"),
        pytest.param("SETS", [["a"], ["b", None], ["c"]], id="unchanged"),
        pytest.param("addSet(SETS, [0, 0, 9, 9], 'd')", [["a"], ["b", None], ["c"], ["d"]], id="added last"),
        pytest.param("addBox(SETS, SETS[0].id, [0, 0, 9, 9], 'd')", [["a", "d"], ["b", None], ["c"]], id="joined"),
        pytest.param("moveSet(SETS, SETS[0].id, 1)", [["b", None], ["a"], ["c"]], id="later"),
        pytest.param("moveSet(SETS, SETS[0].id, 99)", [["b", None], ["c"], ["a"]], id="last"),
        pytest.param("moveSet(SETS, 99, 0)", [["a"], ["b", None], ["c"]], id="unknown set"),
        pytest.param("mergeSets(SETS, SETS[2].id, SETS[0].id)", [["b", None], ["c", "a"]], id="merged"),
        pytest.param("mergeSets(SETS, SETS[2].id, SETS[2].id)", [["a"], ["b", None], ["c"]], id="not with itself"),
        pytest.param("splitSet(SETS, SETS[1].id)", [["a"], ["b"], [None], ["c"]], id="split"),
        pytest.param("removeBox(SETS, SETS[0].boxes[0].id)", [["b", None], ["c"]], id="empty sets are removed"),
        pytest.param("removeBox(SETS, SETS[1].boxes[0].id)", [["a"], [None], ["c"]], id="one of two boxes"),
        pytest.param("fillNames(SETS, [['x'], ['y', 'z'], null])", [["a"], ["b", "z"], ["c"]], id="fill missing names"),
    ],
)
def test_control(compute, expression, expected):
    made = f"(() => {{ const SETS = {SETS}; return ({expression}); }})()"
    found = compute("state/control", made)
    assert [[box["name"] for box in group["boxes"]] for group in found] == expected
    ids = [each["id"] for group in found for each in (group, *group["boxes"])]
    assert len(ids) == len(set(ids)), "ids are unique"


def test_palette_equals_that_of_drawings(compute):
    assert compute("state/palette", "PALETTE") == [list(color) for color in PALETTE]
    assert compute("state/palette", "[colorAt(-1), colorAt(10)]") == [
        "rgb({}, {}, {})".format(*UNGROUNDED),
        "rgb({}, {}, {})".format(*PALETTE[0]),
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("undo(newTimeline(0)).present.document", 0, id="nothing to undo"),
        pytest.param("redo(newTimeline(0)).present.document", 0, id="nothing to redo"),
        pytest.param("undo(pushStep(newTimeline(0), 1)).present.document", 0, id="undone"),
        pytest.param("redo(undo(pushStep(newTimeline(0), 1))).present.document", 1, id="redo"),
        pytest.param(
            "redo(pushStep(undo(pushStep(newTimeline(0), 1)), 2)).present.document",
            2,
            id="redo is cleared",
        ),
        pytest.param(
            "undo(pushStep(pushStep(newTimeline(0), 1, '', 'move'), 2, '', 'move')).present.document",
            0,
            id="merged steps",
        ),
        pytest.param(
            "undo(pushStep(closeStep(pushStep(newTimeline(0), 1, '', 'move')), 2, '', 'move')).present.document",
            1,
            id="after a pause",
        ),
        pytest.param("pushStep(undo(pushStep(newTimeline(0), 1)), 2).present.number", 2, id="numbers are unique"),
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
        pytest.param("#sample=otters&size=10x10&" + "r" * 30_000, id="too long"),
    ],
)
def test_invalid_links(compute, fragment):
    assert compute("state/link", f"decodeLink({json.dumps(fragment)})") is None


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        pytest.param("", [], id="no region"),
        pytest.param("0,0,9,9", [[[0, 0, 9, 9]]], id="one"),
        pytest.param("0,0,9,9+1,1,8,8;20,0,30.5,9", [[[0, 0, 9, 9], [1, 1, 8, 8]], [[20, 0, 30.5, 9]]], id="sets"),
        pytest.param("a,b,c,d;;0,0,9;0,0,9,9", [[[0, 0, 9, 9]]], id="malformed boxes are dropped"),
        pytest.param("-5,0,1e9,9;1,1,1,9", [[[0, 0, 100, 9]]], id="boxes are clipped"),
    ],
)
def test_links_encode_boxes(compute, regions, expected):
    fragment = f"#sample=otters&size=100x50&order=chosen&beam_size=99&cover=0&regions={regions.replace('+', '%2B')}"
    found = compute("state/link", f"decodeLink({json.dumps(fragment)})")
    assert [[box["box"] for box in group["boxes"]] for group in found["document"]["sets"]] == expected
    assert found["document"]["options"] == {"cover": False, "max_length": 20, "beam_size": 10}
    assert not found["document"]["ordered"]
    again = compute(
        "state/link",
        f"decodeLink(encodeLink({{sample: 'otters', width: 100, height: 50}}, {json.dumps(found['document'])}))",
    )
    assert again["document"] == found["document"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("", [[None], [None]], id="none"),
        pytest.param("white%20horse;b%2Bc", [["white horse"], ["b+c"]], id="escaped"),
        pytest.param(";%E0%A4%A", [[None], [None]], id="a malformed escape is dropped"),
    ],
)
def test_links_encode_names_and_words(compute, names, expected):
    fields = {"sample": "otters", "size": "100x50", "regions": "0,0,9,9;20,0,30,9", "banned": "Dog,dog;cat,"}
    fragment = "#" + urlencode(fields | ({"names": names} if names else {}))
    document = compute("state/link", f"decodeLink({json.dumps(fragment)})")["document"]
    assert [[box["given"] for box in group["boxes"]] for group in document["sets"]] == expected
    assert (document["banned"], document["required"]) == (["dog", "cat"], [])
    image = "{sample: 'otters', width: 100, height: 50}"
    again = compute("state/link", f"decodeLink(encodeLink({image}, {json.dumps(document)}))")
    assert again["document"] == document


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("dog", 0, 0, 10, 10), ("dog", 1, 0, 11, 10)], [0], id="same class, shifted"),
        pytest.param([("dog", 0, 0, 10, 10), ("dog", 20, 0, 30, 10)], [0, 1], id="two dogs"),
        pytest.param([("dog", 0, 0, 10, 10), ("dog", 0, 0, 5, 8)], [0], id="same class, inside"),
        pytest.param([("dog", 0, 0, 10, 10), ("ear", 0, 0, 5, 8)], [0, 1], id="a part"),
        pytest.param([("dog", 0, 0, 10, 10), ("cat", 0, 0, 9, 10)], [0], id="two classes of one thing"),
        pytest.param([(None, 0, 0, 10, 10), (None, 6, 0, 16, 10)], [0, 1], id="no classes"),
    ],
)
def test_near_duplicates(compute, regions, expected):
    proposals = [{"name": name, "box": box, "number": number} for number, (name, *box) in enumerate(regions)]
    kept = compute("state/proposals", f"suppressDuplicates({json.dumps(proposals)})")
    assert [each["number"] for each in kept] == expected


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        pytest.param([50, 40], ["man", "jacket"], id="large one, at its center"),
        pytest.param([50, 10], ["head", "man"], id="small one inside"),
        pytest.param([99, 49], [], id="nothing"),
    ],
)
def test_region_meant_by_a_click(compute, point, expected):
    regions = [
        {"name": "man", "box": [20, 0, 80, 50], "score": 0.8},
        {"name": "head", "box": [40, 2, 60, 18], "score": 0.4},
        {"name": "jacket", "box": [30, 20, 70, 50], "score": 0.2},
    ]
    found = compute("state/proposals", f"rankAt({json.dumps(regions)}, {point}, {SIZE})")
    assert [each["name"] for each in found] == expected


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        pytest.param([50, 25], [42.5, 17.5, 57.5, 32.5], id="center"),
        pytest.param([0, 50], [0, 35, 15, 50], id="corner"),
    ],
)
def test_box_around_a_point(compute, point, expected):
    assert compute("state/proposals", f"pointBox({point}, {SIZE})") == expected


@pytest.mark.parametrize(
    ("fits", "expected"),
    [
        ("undefined", [None, False]),
        ("null", [None, False]),
        ("0", ["probably does not fit", True]),
        ("0.2", ["may not fit", True]),
        ("0.5", ["probably fits", False]),
        ("0.8", ["fits", False]),
        ("1", ["fits", False]),
    ],
)
def test_fits_in_words(compute, fits, expected):
    chunk = f"{{fits: {fits}, region_set: 0}}"
    assert compute("state/captions", f"[describeFit({chunk}), isDoubtful({chunk}, [])]") == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"image": {"id": "a", "width": 0, "height": 9}, "control": []}, None, id="no size"),
        pytest.param({"control": [[[0, 0, 9, 9], "x"], 3, [[1, 2]]]}, [[[0, 0, 9, 9]]], id="malformed boxes"),
        pytest.param({"control": [[[0, 0, 200, 9]]], "classes": [[5]]}, [[[0, 0, 100, 9]]], id="clipped"),
    ],
)
def test_control_files(compute, content, expected):
    text = json.dumps({"image": {"id": "a", "width": 100, "height": 50}} | content)
    found = compute("state/control_file", f"parseControlFile({json.dumps(text)})")
    boxes = found and [[box["box"] for box in group["boxes"]] for group in found["document"]["sets"]]
    assert boxes == expected


def test_text_spans(compute):
    caption = {
        "words": [{"text": text} for text in ("two", "dogs", "run", "past", "a", "man")],
        "chunks": [{"words": [4, 6], "region_set": 1}, {"words": [0, 2], "region_set": 0}],
    }
    found = compute("state/captions", f"textSpans({json.dumps(caption)})")
    assert [(each["set"], [word["text"] for word in each["words"]]) for each in found] == [
        (0, ["two", "dogs"]), (None, ["run", "past"]), (1, ["a", "man"]),
    ]  # fmt: skip
    assert [word["position"] for each in found for word in each["words"]] == list(range(6))
    assert compute("state/captions", "textSpans({words: [], chunks: []})") == []


def test_only_the_latest_request_counts_and_results_are_cached(compute):
    log = compute(
        "effects/caption_requests",
        """(async () => {
            const log = [];
            const requests = createCaptionRequests({
                delay: 5, onRequest: (key) => log.push(`requested ${key}`), onError: (key) => log.push(`failed ${key}`),
                onResult: (key, result) => log.push(`${key} ${result}`),
            });
            const slow = (result, ms) => (signal) => new Promise((done, failed) => {
                signal.onabort = () => failed(new Error("aborted"));
                setTimeout(() => done(result), ms);
            });
            const pause = (ms) => new Promise((done) => setTimeout(done, ms));
            const pending = [requests.request("one", slow("late", 90))];
            await pause(30);
            pending.push(requests.request("two", slow("soon", 5)));
            pending.push(requests.request("one", slow("again", 5)));
            await Promise.all(pending);
            await requests.request("four", slow("soon", 5));
            await requests.request("one", () => { throw new Error("it is cached"); });
            await requests.request("three", async () => { throw new Error("no"); });
            return log;
        })()""",
    )
    assert log == [
        "requested one", "requested two", "requested one", "one again", "requested four", "four soon", "one again",
        "requested three",
        "failed three",
    ]  # fmt: skip


def test_an_image_is_uploaded_once_and_again_after_eviction(compute):
    sent = compute(
        "effects/api",
        """(async () => {
            const log = [];
            let isCached = true;
            const fetch = async (route, { body, headers }) => {
                const isBytes = body instanceof FormData;
                log.push(`${isBytes ? "bytes" : "id"} ${headers.Authorization} ${headers["X-Image-Id"]}`);
                return Response.json({ error: "evicted" }, { status: isBytes || isCached ? 200 : 404 });
            };
            const api = createApi({ token: "t", fetch });
            const blob = new Blob(["image"]);
            await api.caption({ blob, hash: null }, {});
            await api.caption({ blob, hash: "abc" }, {});
            isCached = false;
            await api.caption({ blob, hash: "abc" }, {});
            return log;
        })()""",
    )
    digest = sha256(b"image").hexdigest()
    assert sent == [f"bytes Bearer t {digest}", *(f"{what} Bearer t abc" for what in ("id", "id", "bytes"))]


def test_reducers_do_not_mutate_the_state(compute):
    boxes = compute(
        "state/reducer",
        """(() => {
            const frozen = (value) => {
                const isOpen = value && typeof value === "object" && !Object.isFrozen(value);
                if (isOpen) Object.values(Object.freeze(value)).forEach(frozen);
                return value;
            };
            let state = frozen(initialState());
            const act = (type, fields) => (state = frozen(reduce(state, { type, ...fields })));
            const image = { id: "i", name: "p", width: 100, height: 50, url: "u", sample: "s", hash: null };
            act("imagesAdded", { images: [image, { ...image, id: "j" }] });
            act("imageShown", { show: "i" });
            act("detected", { id: "j", hash: "h", proposals: [] });
            act("detected", { hash: "h", proposals: [] });
            act("boxAdded", { box: [0, 0, 10, 10], name: "a" });
            act("boxAdded", { box: [0, 0, 20, 20], name: "b" });
            act("centerBoxAdded");
            act("setMoved", { set: currentDocument(state).sets[0].id, position: 2 });
            act("boxReshaped", { boxId: currentDocument(state).sets[0].boxes[0].id, box: [1, 1, 9, 9] });
            act("setsMerged", { into: currentDocument(state).sets[0].id, from: currentDocument(state).sets[1].id });
            act("setSplit", { set: currentDocument(state).sets[0].id });
            act("setRemoved", { set: currentDocument(state).sets[0].id });
            act("renamingSet", { set: currentDocument(state).sets[0].id });
            act("setRenamed", { set: currentDocument(state).sets[0].id, name: "horse" });
            act("wordsAdded", { list: "banned", text: "dog" });
            act("wordRemoved", { list: "banned", word: "dog" });
            act("imageClicked", { point: [90, 40], tolerance: 2 });
            act("imageClicked", { point: [90, 40], tolerance: 2 });
            act("setRemoved", { set: currentDocument(state).sets.at(-1).id });
            act("optionSet", { name: "beam_size", value: 3 });
            for (let step = 0; step < 20; step += 1) act("undone");
            for (let step = 0; step < 20; step += 1) act("redone");
            return currentDocument(state).sets.map((set) => set.boxes.map(({ box }) => box));
        })()""",
        also="state/state",
    )
    assert boxes == [[[33.3, 16.7, 66.7, 33.3]], [[0, 0, 10, 10]]]
