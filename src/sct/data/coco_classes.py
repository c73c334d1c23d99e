"""COCO's 80 classes, in COCO's order, with synonyms used in captions.

The synonyms were written by hand: word vectors alone associate "boy" with dog and "street" with traffic light.
"""

from collections.abc import Collection

COCO_NAMES: dict[str, tuple[str, ...]] = {
    "person": (
        "people", "man", "men", "woman", "women", "boy", "girl", "child", "children", "kid", "baby", "toddler",
        "infant", "guy", "gentleman", "lady", "male", "female", "adult", "teenager", "teen", "youth", "player",
        "batter", "pitcher", "catcher", "umpire", "hitter", "skier", "snowboarder", "skateboarder", "skater",
        "surfer", "rider", "biker", "cyclist", "bicyclist", "motorcyclist", "jockey", "pedestrian", "driver",
        "passenger", "officer", "policeman", "cop", "soldier", "fireman", "firefighter", "worker", "chef", "cook",
        "waiter", "waitress", "bride", "groom", "mother", "father", "mom", "dad", "son", "daughter", "brother",
        "sister", "family", "couple", "friend", "crowd", "spectator", "tourist", "student", "doctor", "nurse",
        "farmer", "shepherd", "cowboy", "businessman", "athlete", "golfer", "swimmer", "runner", "dancer",
        "performer", "team", "teammate", "customer", "shopper", "vendor", "hiker", "climber", "wakeboarder",
        "girlfriend", "boyfriend", "husband", "wife", "somebody", "someone",
        "artist", "astronaut", "boxer", "cameraman", "carpenter", "cheerleader", "clown", "drummer", "fisherman",
        "goalie", "guitarist", "gymnast", "kayaker", "musician", "painter", "photographer", "pilot", "racer", "referee",
        "rower", "sailor", "singer", "skydiver", "teacher", "workman", "wrestler",
    ),
    "bicycle": ("bike", "cycle", "tricycle"),
    "car": ("automobile", "taxi", "cab", "suv", "sedan", "jeep", "minivan", "limousine"),
    "motorcycle": ("motorbike", "scooter", "moped", "motor bike", "dirt bike"),
    "airplane": ("plane", "jet", "aircraft", "airliner", "jetliner", "aeroplane", "biplane", "seaplane"),
    "bus": ("double decker", "minibus", "school bus"),
    "train": ("locomotive", "tram", "trolley", "subway", "railcar", "train car"),
    "truck": ("pickup", "lorry", "firetruck", "fire truck", "fire engine", "semi"),
    "boat": ("ship", "sailboat", "canoe", "kayak", "yacht", "ferry", "raft", "rowboat", "gondola", "vessel", "barge"),
    "traffic light": ("traffic signal", "stop light", "stoplight", "street light", "traffic lights"),
    "fire hydrant": ("hydrant", "fireplug"),
    "stop sign": (),
    "parking meter": ("meter",),
    "bench": ("pew",),
    "bird": (
        "seagull", "gull", "pigeon", "duck", "goose", "geese", "parrot", "owl", "eagle", "hawk", "crow", "swan",
        "chicken", "rooster", "hen", "turkey", "penguin", "pelican", "peacock", "ostrich", "flamingo", "parakeet",
        "robin", "dove", "heron", "sparrow", "hummingbird", "woodpecker", "finch",
    ),
    "cat": ("kitten", "kitty", "feline", "tabby"),
    "dog": ("puppy", "pup", "doggy", "poodle", "dachshund", "terrier", "labrador", "retriever", "bulldog", "canine"),
    "horse": ("pony", "stallion", "mare", "foal", "colt", "mule", "donkey"),
    "sheep": ("lamb", "ram", "ewe", "goat"),
    "cow": ("cattle", "bull", "calf", "ox", "oxen", "steer", "buffalo", "heifer", "longhorn"),
    "elephant": (),
    "bear": ("cub", "panda", "grizzly", "polar bear"),
    "zebra": (),
    "giraffe": (),
    "backpack": ("rucksack", "knapsack", "back pack"),
    "umbrella": ("parasol",),
    "handbag": ("purse", "bag", "tote", "satchel"),
    "tie": ("necktie", "bowtie", "bow tie"),
    "suitcase": ("luggage", "baggage", "suit case", "briefcase"),
    "frisbee": ("disc", "disk"),
    "skis": ("ski",),
    "snowboard": ("snow board",),
    "sports ball": ("ball", "baseball", "basketball", "football", "volleyball", "soccer ball", "tennis ball"),
    "kite": (),
    "baseball bat": ("bat",),
    "baseball glove": ("glove", "mitt"),
    "skateboard": ("skate board", "longboard"),
    "surfboard": ("surf board", "wakeboard", "paddleboard", "boogie board", "body board", "paddle board"),
    "tennis racket": ("racket", "racquet", "tennis racquet"),
    "bottle": ("jug", "flask"),
    "wine glass": ("wineglass", "champagne glass", "glass"),
    "cup": ("mug", "teacup", "coffee cup", "coffee"),
    "fork": (),
    "knife": ("knives",),
    "spoon": ("ladle",),
    "bowl": ("dish",),
    "banana": (),
    "apple": (),
    "sandwich": ("burger", "hamburger", "cheeseburger", "sub", "panini", "wrap", "bagel"),
    "orange": ("tangerine", "mandarin", "clementine"),
    "broccoli": (),
    "carrot": (),
    "hot dog": ("hotdog", "sausage", "chili dog", "frankfurter"),
    "pizza": ("pepperoni pizza", "pizza pie"),
    "donut": ("doughnut", "pastry", "donuts"),
    "cake": ("cupcake", "cheesecake", "dessert"),
    "chair": ("armchair", "recliner", "stool", "seat", "lawn chair", "highchair", "wheelchair"),
    "couch": ("sofa", "loveseat", "futon", "settee"),
    "potted plant": ("plant", "houseplant", "flower pot", "flowerpot", "pot plant"),
    "bed": ("mattress", "crib", "bunk", "bunkbed"),
    "dining table": ("table", "desk", "countertop"),
    "toilet": ("urinal", "commode", "latrine"),
    "tv": ("television", "monitor", "screen", "television set", "flat screen", "computer screen"),
    "laptop": ("computer", "notebook", "macbook", "laptop computer"),
    "mouse": ("computer mouse",),
    "remote": ("remote control", "controller", "wii remote", "wiimote", "game controller"),
    "keyboard": (),
    "cell phone": ("phone", "cellphone", "smartphone", "telephone", "iphone", "mobile phone"),
    "microwave": ("microwave oven",),
    "oven": ("stove", "stovetop", "range"),
    "toaster": ("toaster oven",),
    "sink": ("basin", "washbasin"),
    "refrigerator": ("fridge", "freezer"),
    "book": ("novel", "textbook", "magazine"),
    "clock": ("clock tower",),
    "vase": ("pot", "urn"),
    "scissors": ("shears", "scissor"),
    "teddy bear": ("teddy", "stuffed animal", "stuffed bear", "stuffed toy", "teddybear"),
    "hair drier": ("hair dryer", "hairdryer", "blow dryer"),
    "toothbrush": ("tooth brush",),
}  # fmt: skip

COCO_CLASSES = tuple(COCO_NAMES)

CLASS_OF_NOUN = {name: class_name for class_name, names in COCO_NAMES.items() for name in (class_name, *names)}
"""From a noun to its class."""


def coco_synonyms(class_names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Map classes to their hand-written synonyms; to none if one of the classes is not COCO's.

    Among other classes a synonym may itself be a class, or belong to another one.

    >>> coco_synonyms(["couch"]), coco_synonyms(["couch", "sofa"])
    ({'couch': ('sofa', 'loveseat', 'futon', 'settee')}, {'couch': (), 'sofa': ()})
    """
    only_coco = all(name in COCO_NAMES for name in class_names)
    return {name: COCO_NAMES[name] if only_coco else () for name in class_names}
