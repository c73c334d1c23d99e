"""Limits on input, all in one place. A larger input is refused with an ``InputError`` that names its limit.

They are far above anything of the field and exist so that a mistake or a hostile file ends in one line, within bounded
memory and time. ``docs/limits.md`` lists them.
"""

from sct.errors import InputError, format_value

MAX_TOML_BYTES = 1 << 20
"""Size of a recipe or a config file."""
MAX_RECORDED_RUNS_BYTES = 1 << 30
"""Size of a file of recorded runs when it is decompressed."""
MAX_TEXT_BYTES = 4 << 30
"""Size of a text file that is read as a whole: JSON annotations, vocabularies."""
MAX_LINE_BYTES = 16 << 20
"""Length of one line of a text file: a record of JSONL, a row of word vectors."""
MAX_TENSORS_BYTES = 16 << 30
"""Size of a safetensors file: weights, nouns, document frequencies."""
MAX_TABLE_BYTES = 256 << 30
"""Size of the table of a dataset, which is read into memory."""
MAX_HDF5_CHUNK_BYTES = 64 << 20
"""Size of one chunk of an HDF5 dataset after decompression."""
MAX_MEGAPIXELS = 150
"""Pixels of an image, in millions; a small file can claim more than there is memory for."""
MAX_IMAGE_BYTES = 1 << 30
"""Size of an image file in a tar file."""
MAX_SOURCE_IMAGES = 1 << 22
"""Images of the folders and tar files of a dataset."""
MAX_DRAWN_BOXES = 200
"""Boxes of a drawing: of more, the first are drawn, with a warning."""
MAX_DRAWING_HEIGHT = 16_000
"""Height in pixels of the captions below a drawing."""
MAX_COORDINATE = 1 << 24
"""Corner of a box, in pixels: larger float32 values skip pixels."""
MAX_BOX_OVERHANG = 8
"""Pixels by which a box may leave its image: it is clipped with a warning. The larger of this and the next applies."""
MAX_RELATIVE_BOX_OVERHANG = 0.02
"""The same as a share of the image's width or height."""
MAX_RECORD_BYTES = 1 << 20
"""Size of an annotation or sentence file of one image (Flickr30k Entities)."""
MAX_NAME_CHARACTERS = 4096
"""Length of an image id, a file name or a class name."""
MAX_CAPTION_CHARACTERS = 10_000
"""Length of a caption in a source or to be scored: some 2,000 words."""
MAX_WORD_CHARACTERS = 1000
"""Length of a word of a caption in a source, between spaces."""
MAX_CHUNKS = 254
"""Noun chunks of a caption: datasets store their index in one byte."""
MAX_CAPTIONS_PER_IMAGE = 1000
"""Captions of an image in a source; generated captions, or references, of an image to be scored."""
MAX_REGIONS_PER_IMAGE = 10_000
"""Regions of an image in a source."""
MAX_LAYER_SIZE = 1 << 16
"""Size of a layer of a network, of a feature vector or of a word vector; in a bundle, a sorter or a recipe."""
MAX_LAYERS = 256
"""Layers of a transformer, and heads of one layer."""
MAX_WEIGHTS = 1 << 30
"""Weights of one network; the paper's captioner has 60 million."""
MAX_WORD_VECTORS = 1 << 23
"""Words of a file of word vectors; GloVe 840B has 2.2 million."""
MAX_WORD_VECTOR_BYTES = 8 << 30
"""Memory of the vectors of such a file."""
MAX_VOCABULARY_BYTES = 64 << 20
"""Size of a vocabulary file."""
MAX_VOCABULARY_SIZE = 1 << 20
"""Words of a captioner, and classes of an object detector."""
MAX_SELF_CRITICAL_WORDS = 65_000
"""Distinct words of a dataset in self-critical training, whose rewards pack four words into 64 bits."""
MAX_CHECKPOINT_BYTES = 16 << 30
"""Size of a PyTorch checkpoint, and of the tensors in it."""
MAX_PICKLE_BYTES = 16 << 20
"""Size of the pickle in a PyTorch checkpoint, without its tensors."""
MAX_IMAGE_SIDE = 2048
"""Side in pixels of the square that a vision encoder resizes images to."""
MAX_DETECTIONS = 10_000
"""Proposals of a detector per image."""
MAX_DETECTION_FILE_MB = 100_000
"""Megabytes of one file of detections; more are divided into several files."""
MAX_PATCH_GRID = 128
"""Patches of a vision transformer in each direction."""
MAX_MAP_SCALE = 4
"""Cells of a vision encoder's detailed feature map per side of a patch."""
MAX_ROI_SIZE = 16
"""RoIAlign output size of a vision encoder."""
MAX_BEAM_SIZE = 1000
"""Hypotheses of a beam search, and captions returned per image; the server has lower limits of its own."""
MAX_THINGS = 8
"""Detected things to choose from in a caption without a control; their combinations are captioned."""
MAX_LENGTH = 1000
"""Tokens of a generated caption or of a training example."""
MAX_CONSTRAINT_WORDS = 10_000
"""Banned words, and required words, of a caption."""
MAX_REGION_SETS = 1000
"""Region sets of a training example or of a sorter's control, and regions of one set."""
MAX_BATCH_SIZE = 1 << 14
"""Examples of a training or evaluation batch."""
MAX_SAMPLES = 1000
"""Captions sampled per example in self-critical training, generated per image by ``--oracle``, and repetitions of an
example in an epoch."""
MAX_EPOCHS = 1_000_000
"""Epochs of a training run."""
MAX_SEED = (1 << 32) - 1
"""Seed of a training run."""
MAX_SETTING_LENGTH = 4096
"""Characters of a text in a recipe."""
MAX_ITERATIONS = 10_000
"""Iterations of the Sinkhorn operator."""
MAX_THREADS = 1024
"""CPU threads of a command."""
MAX_DEVICES = 64
"""Training processes on one machine."""
MAX_SEEDS = 100
"""Runs of one system in a table of ``sct reproduce``."""
MAX_NODES = 4096
"""Machines of a training run."""
MAX_HTTP_QUEUE = 1 << 14
"""Requests in flight of ``sct serve`` (``--max-queue``)."""
MAX_HTTP_WORKERS = 256
"""Processes of ``sct serve`` (``--workers``)."""
MAX_HTTP_BATCH = 1024
"""Requests in a batch (``--max-batch``)."""
MAX_DOWNLOAD_BYTES = 32 << 20
"""Size of an image that ``sct caption --fetch`` downloads."""
MAX_DOWNLOAD_SECONDS = 30
"""Time of such a download, redirects included."""
MAX_HTTP_IMAGE_BYTES = 1 << 30
"""Size of an uploaded image file (``--max-image-mb``)."""
MAX_HTTP_CACHE_BYTES = 1 << 40
"""Size of the cache of encoded images (``--cache-mb``)."""
MAX_HTTP_REGION_SETS = 10
"""Region sets of a request to ``sct serve``."""
MAX_HTTP_BOXES = 10
"""Boxes of a region set in a request."""
MAX_HTTP_BEAM_SIZE = 10
"""Beam size of a request, and captions in its response."""
MAX_HTTP_LENGTH = 40
"""Words of a caption, EOS included, and the n-gram size of a request."""
MAX_HTTP_ALTERNATIVES = 20
"""Alternative captions in a response."""
MAX_HTTP_DETECTED_REGIONS = 100
"""Detected regions in a response."""
MAX_HTTP_PREDICTIONS = 1000
"""Captions of a request for scores."""
MAX_HTTP_REFERENCES = 20
"""References of a caption in a request for scores."""
MAX_HTTP_CAPTION_CHARACTERS = 500
"""Characters of a caption or a reference in a request for scores."""
MAX_HTTP_CLASS_CHARACTERS = 100
"""Characters of a class name in a request."""
MAX_HTTP_WORDS = 100
"""Banned words, and required words, of a request."""


def check_integer(name: str, value: object, minimum: int, maximum: int) -> None:
    """Raise unless a setting is an integer from ``minimum`` to ``maximum``; a bool is none.

    >>> check_integer("beam_size", 10**12, 1, MAX_BEAM_SIZE)
    Traceback (most recent call last):
    ...
    sct.errors.InputError: got beam_size 1000000000000, expected an integer from 1 to 1,000
    """
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise InputError(f"got {name} {format_value(value)}, expected an integer from {minimum:,} to {maximum:,}")
